"""K networks of the same architecture, called together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.random import get_rng_state

from recollect.core.batchnorm import keep_parts_apart
from recollect.core.by_task import ByTask
from recollect.core.calling import call, logits_of
from recollect.core.dense import Dense, Product, joined
from recollect.core.first_pass import FirstPass, leaves_inputs
from recollect.core.modules import (
    Features,
    Strategy,
    buffer_slots,
    build_module,
    put_weights,
    seeded,
    shares_tensors,
    strategy_for,
)
from recollect.core.packing import Packing
from recollect.core.weights import Gradient, Weights
from recollect.errors import InputError

Tensors = Mapping[str, Tensor]
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class Network:
    """Call K copies of a module, each with its own weights, on K batches.

    `build` is a function that builds the module, called once per run with torch's generator
    seeded by that run's seed; or a module, whose weights every run starts from. A module whose
    operations broadcast over a leading run axis has a true attribute `broadcasts_runs`; small
    fully connected modules run under `vmap`, all others one after the other. With `half`, networks
    with convolutions compute in bfloat16; with `channels_last`, their weights are in that format.
    With a `packing`, examples are packed rows, and the module is called with the unpacked tensors.

    >>> net = Network(lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), seeds=[0, 1])
    >>> net.strategy, net(net.weights, torch.zeros(2, 5, 2, 2)).shape
    ('vmap', torch.Size([2, 5, 3]))
    """

    def __init__(
        self,
        build: Callable[[], nn.Module] | nn.Module,
        seeds: Sequence[int],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        strategy: Strategy | None = None,
        half: bool = False,
        channels_last: bool = False,
        packing: Packing | None = None,
    ) -> None:
        modules = [build_module(build, seed).to(dtype) for seed in seeds]
        self.dtype, self.device, self.packing = dtype, torch.device(device), packing
        self.noisy, self._training, self.module = False, False, modules[0]
        self._shape: torch.Size | None = None
        self.first_pass: FirstPass | None = None
        unpacking = partial(call, self.module, packing=packing, dtype=dtype)
        self._call: Callable[[Tensor], Tensor] = unpacking if packing else self.module
        self.strategy = strategy or strategy_for(self.module)
        self.convolves = any(isinstance(layer, CONVOLUTIONS) for layer in self.module.modules())
        self.half, self.channels_last = half and self.convolves, channels_last and self.convolves
        stacked = partial(Weights.stack, device=self.device, apart=self.strategy == "loop")
        rows: list[Tensors] = [dict(module.named_parameters()) for module in modules]
        self.weights = stacked(rows, channels_last=self.channels_last)
        self.buffers = stacked([dict(module.named_buffers()) for module in modules]).named()
        self._features = Features(self.module)
        self.feature_size, self.head_axes = self._features.size, self._features.axes()
        self.norms = keep_parts_apart(self.module)
        known = sum(len(list(norm.buffers())) for norm in self.norms)
        self.separate = known < len(self.buffers)  # other layers with buffers need separate passes
        self.trained = {n for n, p in self.module.named_parameters() if p.requires_grad}
        self._dense = {
            name: layer
            for name, layer in self.module.named_modules()
            if isinstance(layer, Dense) and self.strategy == "broadcast"
        }
        self._leaves = self.trained - {f"{n}.{p}" for n in self._dense for p in ("weight", "bias")}
        self._layers = list(self.module.modules())
        self._leaves_inputs = leaves_inputs(self.module)
        self._overrides_train = any(type(m).train is not nn.Module.train for m in self._layers)
        self.switch(training=True)  # a pre-trained module may arrive in evaluation mode
        self._tied = shares_tensors(self.module)
        # If the module's parameters are the weights, it is called without functional_call.
        self.holds = self.strategy == "loop" and len(seeds) == 1 and not self._tied
        self.hold(self.weights, self.buffers)

    def hold(self, weights: Weights, buffers: dict[str, Tensor]) -> None:
        """Use these weights and buffers from now on, without copying them."""
        self.weights, self.buffers = weights, buffers
        self._statistics = buffer_slots(self.module, buffers) if self.holds else []
        self._held: dict[str, Tensor] = {}
        if self.holds:
            self._held = put_weights(self.module, weights.only(), self._leaves)
        elif self.strategy == "broadcast":
            put_weights(self.module, weights.named())

    def __call__(
        self,
        weights: Weights,
        x: Tensor,
        parts: Sequence[int] = (),
        buffers: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Call network k on batch k: x `[K, B, ...]`, result `[K, B, C]`.

        `parts` are the sizes of the batches concatenated in x, for batch normalisation; `buffers`
        default to the fleet's own.
        """
        for norm in self.norms:
            norm.parts = parts
        buffers = self.buffers if buffers is None else buffers
        try:
            if not self.half:
                return self._all(weights, x, buffers)
            with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False):
                return self._all(weights, x, buffers).to(self.dtype)
        except (IndexError, RuntimeError) as error:
            if self._shape is None or x.shape[2:] == self._shape:
                raise
            sizes = ", ".join(map(str, (weights.runs, "n", *self._shape)))
            raise InputError(
                f"the network takes examples of shape {list(self._shape)}: inputs must have the "
                f"shape [{sizes}] (runs, examples, ...), not {list(x.shape)}"
            ) from error

    def features(
        self, weights: Weights, x: Tensor, buffers: Mapping[str, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute the inputs of the last linear layer, `[K, B, D]`, and the logits `[K, B, C]`."""
        with self._features.returned():
            both = self(weights, x, buffers=buffers)
        return both[..., : self.feature_size], both[..., self.feature_size :]

    @property
    def size(self) -> int:
        """The number of elements in the weights and buffers of one run."""
        return self.weights.numel + sum(tensor[0].numel() for tensor in self.buffers.values())

    def begin(self, task: int) -> None:
        """Switch to a task, if the module's computation depends on the task."""
        if isinstance(self.module, ByTask):
            self.module.begin(task, training=self._training)

    @contextmanager
    def mode(self, *, training: bool) -> Iterator[None]:
        """Set training or evaluation mode within this context."""
        before = self._training
        self.switch(training=training)
        try:
            yield
        finally:
            self.switch(training=before)

    def switch(self, *, training: bool) -> None:
        """Set training or evaluation mode."""
        if training == self._training:
            return
        self._training = training
        if self._overrides_train:
            self.module.train(training)
            return
        for layer in self._layers:
            object.__setattr__(layer, "training", training)  # faster than nn.Module.train

    @torch.no_grad()
    def settle(self, x: Tensor) -> None:
        """Run a sample batch to find out whether `vmap` works and whether the module is random.

        Modules that `vmap` does not support run one after the other.
        """
        self._shape = x.shape[2:]
        if self.strategy == "vmap":
            try:
                self(self.weights, x)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:
                self.strategy = "loop"
        self.noisy = self.strategy == "loop" and self.draws(x)

    @torch.no_grad()
    def draws(self, x: Tensor) -> bool:
        """Whether a pass of the first run over x draws random numbers, in the current mode."""
        on_gpu = self.device.type == "cuda"
        generator = partial(torch.cuda.get_rng_state, self.device) if on_gpu else get_rng_state
        with self.seeded(0):
            before = generator()
            copies = {name: tensor[:1].clone() for name, tensor in self.buffers.items()}
            self(self.weights.row(0), x[:1], buffers=copies)
            return not torch.equal(before, generator())

    def seeded(self, seed: int) -> AbstractContextManager[None]:
        """Seed torch's generators within this context, for layers such as dropout."""
        return seeded(self.device, seed)

    def _all(self, weights: Weights, x: Tensor, buffers: Mapping[str, Tensor]) -> Tensor:
        if self.strategy == "broadcast":
            own = weights is self.weights
            return logits_of(self._call(x)) if own else self.one(weights.named(), {}, x)
        if self.strategy == "vmap":
            batched: Tensor = vmap(self.one)(weights.named(), dict(buffers), x)
            return batched
        inputs = x if self._leaves_inputs else x.clone()  # an in-place layer must not change x
        own = self.holds and weights is self.weights
        if own and buffers is self.buffers:
            # The module may have replaced its buffers by other tensors; restore ours.
            for owner, name, tensor in self._statistics:
                owner[name] = tensor
            return logits_of(self._call(inputs.squeeze(0))).unsqueeze(0)
        rows = [{name: tensor[k] for name, tensor in buffers.items()} for k in range(len(x))]
        if len(x) == 1:
            only = self._held if own else weights.only()
            return self.one(only, rows[0], inputs.squeeze(0)).unsqueeze(0)
        return torch.stack(
            [self.one(weights.row(k).only(), rows[k], inputs[k]) for k in range(weights.runs)]
        )

    def watch(self, weights: Weights) -> Weights:
        """Make the weights autograd leaves, for a later call of `gradient`.

        `Dense` layers record a tape instead and need no leaves. If the module's parameters are the
        weights, they are the leaves.
        """
        self.forget()
        if not self._leaves or (self.holds and weights is self.weights):
            return weights
        return Weights(
            {
                name: tensor.detach().requires_grad_(name in self._leaves)
                for name, tensor in weights.named().items()
            }
        )

    def gradient(self, leaves: Weights, loss: Tensor) -> Gradient:
        """Compute the gradient of a loss `[K]` with respect to the leaves of `watch`.

        `Dense` layers are only differentiated at their outputs: this error and the layer's input
        are the two factors of the weight's gradient.
        """
        own = self.holds and leaves is self.weights
        named = self._held if own else leaves.named()
        others = {name: leaf for name, leaf in named.items() if leaf.requires_grad}
        tapes = [(name, layer.tape) for name, layer in self._dense.items()]
        wanted = [*(output for _, tape in tapes for _, output in tape), *others.values()]
        total = loss if len(loss) == 1 else loss.sum()
        found = iter(torch.autograd.grad(total, wanted, allow_unused=True))
        parts: dict[str, Tensor | Product | None] = {}
        for name, tape in tapes:
            pairs = [(x, error) for x, _ in tape if (error := next(found)) is not None]
            tape.clear()
            if pairs:
                product = Product(*(joined(side) for side in zip(*pairs, strict=True)))
                parts[f"{name}.weight"] = product
                parts[f"{name}.bias"] = product.errors.sum(1)
        for name, part in zip(others, found, strict=True):
            parts[name] = part.unsqueeze(0) if own and part is not None else part
        return Gradient({n: p for n, p in parts.items() if p is not None and n in self.trained})

    def forget(self) -> None:
        """Clear the tapes of `Dense` layers."""
        for layer in self._dense.values():
            layer.tape.clear()

    @property
    def all_dense(self) -> bool:
        """Whether all trainable parameters belong to `Dense` layers."""
        return not self._leaves and bool(self._dense)

    def products(self, loss: Tensor, *, keep: bool = False) -> list[tuple[str, Product]]:
        """The gradient of a loss `[K]` as a (name, `Product`) for every call of a `Dense` layer.

        The rows of a product are examples. `keep` retains the graph for another call.
        """
        calls = [(name, *call) for name, layer in self._dense.items() for call in layer.tape]
        outputs = [output for _, _, output in calls]
        errors = torch.autograd.grad(loss.sum(), outputs, retain_graph=keep)
        if not keep:
            self.forget()
        return [(name, Product(x, e)) for (name, x, _), e in zip(calls, errors, strict=True)]

    def one(self, weights: Tensors, buffers: Tensors, x: Tensor) -> Tensor:
        """Compute the outputs `[n, C]` of a single network for inputs `[n, ...]`."""

        def module(*inputs: Tensor, **named: Tensor) -> Any:
            tensors = {**weights, **buffers}
            return functional_call(self.module, tensors, inputs, named, tie_weights=self._tied)

        return call(module, x, self.packing, self.dtype)
