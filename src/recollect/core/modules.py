"""Build the modules of a fleet, set their weights and find their features."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from recollect.core.calling import logits_of
from recollect.core.dense import Dense
from recollect.core.heads import (
    head_of,
    linear_layers,
    mark_head,
    mark_named,
    marked_name,
    pass_mark,
)
from recollect.core.packing import Packing
from recollect.errors import InputError

Strategy = Literal["broadcast", "vmap", "loop"]

NO_PART = (
    "the method uses features, the inputs of the network's last linear layer, but the network does "
    "not call the linear layer that was registered last: return the output of a linear layer as "
    "logits, or register the layer that computes the logits last"
)

DENSE = (
    nn.Linear, nn.Flatten, nn.Identity, nn.LayerNorm, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU,
    nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus,
)  # fmt: skip


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's random generators within this context and restore them afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def put_weights(
    module: nn.Module, weights: Mapping[str, Tensor], trained: Container[str] = ()
) -> dict[str, Tensor]:
    """Make these tensors the parameters of a module without a copy, and return them by name.

    Only the parameters named in `trained` require a gradient.
    """
    held: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        path, _, last = name.rpartition(".")
        held[name] = nn.Parameter(tensor, requires_grad=name in trained)
        setattr(module.get_submodule(path), last, held[name])
    return held


def buffer_slots(
    module: nn.Module, buffers: Mapping[str, Tensor]
) -> list[tuple[dict[str, Tensor | None], str, Tensor]]:
    """List (buffer dict, name, tensor) for every buffer of a single run, to assign in a module."""
    split = [(name.rpartition("."), tensor[0]) for name, tensor in buffers.items()]
    return [(module.get_submodule(path)._buffers, last, row) for (path, _, last), row in split]


def shares_tensors(module: nn.Module) -> bool:
    """Whether some parameter or buffer of a module is registered under several names."""
    named = (module.named_parameters, module.named_buffers)
    return any(len(dict(each(remove_duplicate=False))) > len(dict(each())) for each in named)


def network_size(build: Callable[[], nn.Module] | nn.Module) -> int:
    """The number of elements in the parameters and buffers of a network."""
    module = build if isinstance(build, nn.Module) else build_module(build, seed=0)
    return sum(tensor.numel() for tensor in [*module.parameters(), *module.buffers()])


def built(build: object) -> object:
    """Call a function that builds a network; return a module or any other object as it is."""
    if isinstance(build, nn.Module) or not callable(build):
        return build
    try:
        inspect.signature(build).bind()
    except TypeError as error:
        name = getattr(build, "__name__", repr(build))
        raise InputError(
            f"the network {name} cannot be built without arguments ({error}): pass a function that "
            f"builds it, such as lambda: {name}(...)"
        ) from None
    except ValueError:  # it has no signature
        pass
    return build()


def maker(build: Callable[[], nn.Module] | nn.Module) -> Callable[[], nn.Module]:
    """Return a function that builds the network, or that copies it if a module is given."""

    def make() -> nn.Module:
        module = built(build)
        if not isinstance(module, nn.Module):
            raise InputError(
                f"the network must be a torch.nn.Module or a function that returns one, "
                f"not {type(module).__name__}"
            )
        if isinstance(module, torch.jit.ScriptModule):  # a part of it may be one
            refuse_uncopyable(module, "network")
        return copy.deepcopy(module) if module is build else module

    return make


def refuse_uncopyable(module: nn.Module, what: str) -> None:
    """Raise an `InputError` for a module that has a part of TorchScript or computed attributes."""
    if any(isinstance(each, torch.jit.ScriptModule) for each in module.modules()):
        raise InputError(
            f"the {what} was compiled by torch.jit.script or torch.jit.trace, which leaves out "
            f"what training needs, such as hooks: pass the original torch.nn.Module"
        )
    for path, each in module.named_modules():
        for name, value in vars(each).items():
            if isinstance(value, Tensor) and not value.is_leaf:
                attribute = f"{path}.{name}".lstrip(".")
                raise InputError(
                    f"the {what} cannot be copied: {attribute} was computed from parameters, as "
                    f"torch.nn.utils.weight_norm and spectral_norm do; use those of "
                    f"torch.nn.utils.parametrizations"
                )


def with_marked_head(
    build: Callable[[], nn.Module] | nn.Module, x: Tensor, packing: Packing | None = None
) -> Callable[[], nn.Module]:
    """Return a function that builds the network and marks its head, found on inputs x `[n, ...]`.

    A module is copied. The inputs are used for the first call only, and not kept.
    """
    inputs, found = [x], list[str | None]()

    def make() -> nn.Module:
        module = maker(build)()
        if inputs:
            found.append(marked_name(mark_head(module, inputs.pop(), packing)))
        return mark_named(module, found[0])

    return make


def build_module(build: Callable[[], nn.Module] | nn.Module, seed: int) -> nn.Module:
    """Build a new module with torch's generator seeded, or copy the given module."""
    with seeded(torch.device("cpu"), seed):
        return maker(build)()


def strategy_for(module: nn.Module) -> Strategy:
    """Choose the fastest way to call K copies of a module."""
    if getattr(module, "broadcasts_runs", False):
        return "broadcast"
    leaves = [m for m in module.modules() if not list(m.children())]
    return "vmap" if all(isinstance(leaf, DENSE) for leaf in leaves) else "loop"


def replace_head(module: nn.Module, head: nn.Module) -> nn.Module:
    """Replace the head of a module, in place, and return the module.

    The head is the linear layer that `core.heads` marked, or else the last registered one.

    A module that is itself a linear layer is replaced as a whole.

    >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> net = replace_head(net, nn.Identity())
    >>> net(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """
    old = Features(module).head
    pass_mark(old, head)
    if old is module:
        return head
    path, _, last = next(n for n, each in module.named_modules() if each is old).rpartition(".")
    setattr(module.get_submodule(path), last, head)
    return module


class Head(nn.Sequential):
    """A projection head: the layers between features and outputs that are not class logits.

    >>> projection = Head(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> Features(nn.Sequential(nn.Linear(4, 3), projection)).size
    3
    """


class Features:
    """Access to a module's features: the inputs of its head, a linear layer or a `Head`.

    The linear layer is the one that `core.heads` marked, or else the last registered one.

    Within `returned()`, the module's output is the features and logits concatenated, so that
    features are available wherever the module is called.

    >>> module = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> features = Features(module)
    >>> with features.returned():
    ...     module(torch.zeros(5, 2, 2)).shape
    torch.Size([5, 5])
    >>> features.size, module(torch.zeros(5, 2, 2)).shape
    (3, torch.Size([5, 2]))
    """

    def __init__(self, module: nn.Module) -> None:
        heads = [layer for layer in module.modules() if isinstance(layer, Head)]
        self._module = module
        self._head = heads[-1] if heads else head_of(module)
        reads = linear_layers(heads[-1])[0] if heads else head_of(module)
        self.size = reads.weight.shape[0 if isinstance(reads, Dense) else 1] if reads else 0

    @property
    def head(self) -> nn.Module:
        """The linear layer that computes the logits, or the `Head`."""
        if self._head is None:
            raise InputError(
                "the method uses features, the inputs of the network's last linear layer, but "
                "this network has no linear layer: use one that ends in a torch.nn.Linear"
            )
        return self._head

    def axes(self) -> dict[str, int]:
        """Map each parameter of a linear head to its class axis; empty without such a head."""
        if self._head is None or isinstance(self._head, Head):
            return {}
        name = next(n for n, module in self._module.named_modules() if module is self._head)
        axes = {"weight": 2 if isinstance(self._head, Dense) else 1, "bias": 1}
        parts = [part for part, _ in self._head.named_parameters()]
        if not axes.keys() >= set(parts):  # e.g. weight normalisation has other parameters
            return {}
        return {f"{name}.{part}".lstrip("."): axes[part] for part in parts}

    @contextmanager
    def returned(self) -> Iterator[None]:
        """Make the module return its features and logits, concatenated, within this context."""
        read: list[Tensor] = []

        def note(head: nn.Module, inputs: tuple[Any, ...]) -> None:
            read[:] = inputs[:1]

        def show(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Tensor:
            if not read:
                raise InputError(NO_PART)
            logits = logits_of(output)
            return torch.cat([read[0].to(logits.dtype), logits], -1)

        hooks = (
            self.head.register_forward_pre_hook(note),
            self._module.register_forward_hook(show),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
