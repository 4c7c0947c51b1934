"""Modules as a fleet handles them: built, filled with weights, inspected."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from recollect.errors import InputError

__all__ = [
    "Strategy",
    "buffer_slots",
    "build_module",
    "generator_state",
    "joined",
    "network_size",
    "put_weights",
    "shares_tensors",
    "strategy_for",
]

Strategy = Literal["broadcast", "vmap", "loop"]

DENSE = (
    nn.Linear, nn.Flatten, nn.Identity, nn.LayerNorm, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU,
    nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus,
)  # fmt: skip


def generator_state(device: torch.device) -> Tensor:
    """Where torch's generator for a device stands."""
    if device.type == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.random.get_rng_state()


def put_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Let a module hold these weights, in the same memory."""
    for name, tensor in weights.items():
        path, _, last = name.rpartition(".")
        setattr(module.get_submodule(path), last, nn.Parameter(tensor, requires_grad=False))


def buffer_slots(
    module: nn.Module, buffers: Mapping[str, Tensor]
) -> list[tuple[dict[str, Tensor | None], str, Tensor]]:
    """Where in a module the statistics of a single run belong, and which tensors."""
    split = [(name.rpartition("."), tensor[0]) for name, tensor in buffers.items()]
    return [(module.get_submodule(path)._buffers, last, row) for (path, _, last), row in split]


def shares_tensors(module: nn.Module) -> bool:
    """Whether a tensor of a module has several names."""
    named = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    return len({id(tensor) for _, tensor in named}) < len(named)


def network_size(build: Callable[[], nn.Module] | nn.Module) -> int:
    """How many numbers the parameters and buffers of a network are."""
    module = build if isinstance(build, nn.Module) else build_module(build, seed=0)
    return sum(tensor.numel() for tensor in [*module.parameters(), *module.buffers()])


def joined(batches: Sequence[Tensor]) -> Tensor:
    """Batches `[K, n, ...]` as one; a single one is not copied."""
    return batches[0] if len(batches) == 1 else torch.cat(list(batches), 1)


def build_module(build: Callable[[], nn.Module] | nn.Module, seed: int) -> nn.Module:
    """Make a module with torch's generator seeded, or copy the one that is given."""
    if isinstance(build, nn.Module):
        return copy.deepcopy(build)
    module: object = build
    if callable(build):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = build()
    if not isinstance(module, nn.Module):
        raise InputError(
            f"the network must be a torch.nn.Module or a function that makes one, "
            f"not {type(module).__name__}"
        )
    return module


def strategy_for(module: nn.Module) -> Strategy:
    """How K copies of a module are called, going by its layers."""
    if getattr(module, "broadcasts_runs", False):
        return "broadcast"
    leaves = [m for m in module.modules() if not list(m.children())]
    return "vmap" if all(isinstance(leaf, DENSE) for leaf in leaves) else "loop"
