"""What a fleet refuses, before anything changes."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from recollect.errors import InputError
from recollect.methods import Method

__all__ = ["check_batch", "check_runs"]


def check_runs(
    methods: Sequence[Method], seeds: Sequence[int], lr: Sequence[float], memory: int, replay: int
) -> None:
    """Refuse runs that cannot train as one fleet."""
    if not len(methods) == len(seeds) == len(lr) or not methods:
        raise InputError("a fleet needs one method, one seed and one rate for every run")
    kind = type(methods[0])
    if any(type(method) is not kind for method in methods):
        raise InputError("the runs of a fleet share one method: train others in a second fleet")
    for name in kind.shaping:
        if len({getattr(method, name) for method in methods}) > 1:
            raise InputError(f"the runs of a fleet share {name}, which shapes its steps")
    if kind.uses_memory() and (memory < 1 or replay < 1):
        raise InputError(f"{kind.title} needs a memory and a replay size of at least 1")
    if unknown := set(kind.remembers) - {"x", "y", "logits"}:
        raise InputError(f"a memory keeps x, y and logits, not {', '.join(sorted(unknown))}")


def check_batch(x: Tensor, y: Tensor, batch: int, runs: int, classes: int) -> None:
    """Refuse examples that a fleet cannot learn from."""
    if batch < 1:
        raise InputError(f"a batch must have at least 1 example, not {batch}")
    if y.dim() != 2 or x.shape[:2] != y.shape or len(y) != runs:
        raise InputError(
            f"x must be [{runs}, n, ...] and y [{runs}, n] for {runs} runs, "
            f"not {list(x.shape)} and {list(y.shape)}"
        )
    if y.numel() and not 0 <= int(y.min()) <= int(y.max()) < classes:
        raise InputError(
            f"labels must be in 0..{classes - 1}, the head of the network, "
            f"not {int(y.min())}..{int(y.max())}"
        )
