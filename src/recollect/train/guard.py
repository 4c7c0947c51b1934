"""Undo a training step that failed or diverged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, final

import torch
from torch import Tensor

from recollect.core.network import Network
from recollect.core.torch_optimiser import TorchOptimiser
from recollect.core.weights import Weights
from recollect.memory import Memory
from recollect.train.fixed_inputs import extent, within

TRIED = 4
ALIGNED = 64  # elements
SURE = 1e37  # if the sum of absolute values is below it, no partial sum overflows in float32

Rows = tuple[Tensor, Mapping[str, Tensor]]  # rows of a memory `[K, n]`, and their contents


class Log(Protocol):
    """A list, or what else rows can be appended to."""

    def append(self, rows: Rows, /) -> None:
        """Add rows that are about to be overwritten."""


@final
class Guard:
    """Copies the state before a step, and restores it if the step has to be undone.

    Of the memory, only the rows that a step overwrites are copied, just before it writes them. A
    torch optimiser creates its state lazily, so it is copied separately at every step; the state of
    a `FleetOptimiser` is among `tensors`. The tensors that lie in the storage of `pool`, a flat
    tensor, are copied and checked at once.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        memory: Memory,
        optimiser: TorchOptimiser | None,
        pool: Tensor | None = None,
    ) -> None:
        # Tensors with infinities from the start, such as masks, say nothing about divergence.
        if pool is not None and not bool(pool.isfinite().all()):
            pool = None
        alone = [tensor for tensor in tensors if not _lies_in(tensor, pool)]
        self._tensors = alone if pool is None else [pool, *alone]
        self._before = [tensor.clone() for tensor in self._tensors]
        self._copies = {id(t): copy for t, copy in zip(self._tensors, self._before, strict=True)}
        if pool is not None:
            inside = (tensor for tensor in tensors if _lies_in(tensor, pool))
            self._copies |= {
                id(t): within(self._before[0], int(t.storage_offset()) * t.itemsize, t)
                for t in inside
            }
        self._watched = {
            index
            for index, tensor in enumerate(self._tensors)
            if tensor.is_floating_point() and bool(tensor.isfinite().all())
        }
        self._seldom: dict[int, int] = {}
        self._notes = 0
        self._by_type: list[set[int]] = []
        if any(tensor.is_cuda for tensor in tensors):  # one launch copies all tensors of a type
            types = [tensor.dtype for tensor in self._tensors]
            self._by_type = [
                {index for index, each in enumerate(types) if each == dtype}
                for dtype in dict.fromkeys(types)
            ]
        self._memory = memory
        self._optimiser = optimiser
        self._kept: Mapping[str, Tensor] = {}
        self._written: Rows | None = None
        self._logs: list[Log] = []
        self._noted = False

    def expect_seldom(self, tensors: Iterable[Tensor]) -> None:
        """Declare tensors that rarely change, such as frozen weights, so that copies are reused.

        They are copied again only when torch's version counter has increased. Writes through
        `.data` are not counted, so the first steps compare the values; a tensor that changes
        without being counted is copied before every step, like all others.
        """
        wanted = {id(tensor) for tensor in tensors}
        found = enumerate(self._tensors)
        self._seldom = {index: t._version for index, t in found if id(t) in wanted}
        self._notes = 0

    def forget(self) -> None:
        """Accept the last step: it can no longer be undone."""
        self._noted = False

    def note(self) -> None:
        """Copy the state at the beginning of a step."""
        self._written = None
        if self._seldom and self._notes <= TRIED:
            self._try_counters()
        self._copy(self._before, self._tensors)
        if self._optimiser is not None:
            self._kept = {name: t.clone() for name, t in self._optimiser.state.items()}
        self._noted = True

    def note_rows(self, rows: Tensor, contents: Mapping[str, Tensor] | None = None) -> None:
        """Copy rows `[K, n]` of the memory before the step writes them; repeats are allowed.

        If a recording has read them, `contents` are what it read. The next step overwrites these,
        and the rows, so logs receive copies.
        """
        if contents is None:
            self._written = rows, self._memory.read(rows)
        elif self._logs:
            self._written = rows.clone(), {name: t.clone() for name, t in contents.items()}
        else:
            self._written = rows, contents
        for log in self._logs:
            log.append(self._written)

    def log_rows(self, log: Log) -> None:
        """Append the memory rows that steps overwrite, with their old contents, to a log."""
        self._logs = [*self._logs, log]

    def end_log(self, log: Log) -> None:
        """Append no more rows to a log; any thread may call this."""
        self._logs = [other for other in self._logs if other is not log]

    def copies(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the copies from before the step of these tensors, by the same names."""
        return {name: self._copies[id(t)] for name, t in tensors.items() if id(t) in self._copies}

    def finite(self, loss: Tensor) -> bool:
        """Whether the loss and everything the step changed are finite."""
        kept = self._optimiser.state.values() if self._optimiser is not None else ()
        each = [
            loss,
            *(self._tensors[index] for index in self._changed() if index in self._watched),
            *(t for t in kept if t.is_floating_point() and t.device == loss.device),
        ]
        sums = [_sum(tensor) for tensor in each]
        # On a GPU, synchronise once.
        found = torch.stack(sums).tolist() if loss.is_cuda else [total.item() for total in sums]
        return all(
            math.isfinite(total) or bool(tensor.isfinite().all())  # a sum may overflow
            for total, tensor in zip(found, each, strict=True)
        )

    @torch.no_grad()
    def numbers(self, loss: Tensor) -> Tensor:
        """Return the loss and the sums of absolute values of all changed tensors, as one tensor.

        If the loss is finite and the sums are below `SURE`, `finite` is true. No synchronisation
        with the device is needed, so a recorded step can compute them.
        """
        watched = [self._tensors[index] for index in sorted(self._watched)]
        sums = [loss.double().reshape(-1)]
        for dtype in dict.fromkeys(tensor.dtype for tensor in watched):
            each = [tensor for tensor in watched if tensor.dtype == dtype]
            if dtype.itemsize < torch.float32.itemsize:
                sums += [tensor.float().abs().sum().double().view(1) for tensor in each]
            else:
                sums.append(torch.stack(torch._foreach_norm(each, 1)).sum().double().view(1))
        return torch.cat(sums)

    def expect_uncounted(self) -> None:
        """Copy tensors that the current step has changed before every step from now on.

        When a recorded step is replayed, torch's version counters do not change.
        """
        tensors = self._tensors
        self._seldom = {
            n: count for n, count in self._seldom.items() if tensors[n]._version == count
        }

    @torch.no_grad()
    def undo(self) -> None:
        """Restore the state at the beginning of the last step, unless it was accepted."""
        if not self._noted:
            return
        self._copy(self._tensors, self._before)
        if self._optimiser is not None:
            self._optimiser.restore(self._kept)
        if self._written is not None:
            self._memory.write(*self._written)

    def _changed(self) -> Sequence[int]:
        """Return the indices of tensors that may differ from their copies."""
        everything = range(len(self._tensors))
        if not self._seldom or self._notes <= TRIED:
            return everything
        versions = ((index, self._seldom.get(index, -1)) for index in everything)
        return [index for index, version in versions if version != self._tensors[index]._version]

    def _copy(self, to: list[Tensor], of: list[Tensor]) -> None:
        """Copy the tensors that may have changed."""
        changed = self._changed()
        groups: Sequence[Sequence[int]] = [changed]
        if self._by_type:
            groups = [[i for i in changed if i in each] for each in self._by_type]
        for indices in groups:
            if len(to) == 1 and indices:
                to[0].copy_(of[0])
            elif len(indices) == len(to):
                torch._foreach_copy_(to, of)
            elif indices:
                torch._foreach_copy_([to[i] for i in indices], [of[i] for i in indices])
        if self._seldom:
            self._seldom = {index: self._tensors[index]._version for index in self._seldom}

    def _try_counters(self) -> None:
        """Find tensors that the last step changed without increasing the version counter."""
        self._notes += 1
        for index, version in list(self._seldom.items()):
            now, before = self._tensors[index], self._before[index]
            if now._version == version and not torch.equal(now, before):
                del self._seldom[index]


def pooled(network: Network) -> Tensor | None:
    """Move the trained weights of a network to one storage, and return it as a flat tensor.

    One operation then copies or sums all of them. Unlike views of the flat tensor, the weights have
    their own version counters. Returns None if no weights are trained.
    """
    named = network.weights.named()
    trained = {name: tensor for name, tensor in named.items() if name in network.trained}
    if not trained:
        return None
    offsets, total = {}, 0
    for name, tensor in trained.items():
        offsets[name] = total * tensor.itemsize
        total += math.ceil(extent(tensor) / ALIGNED) * ALIGNED
    pool = next(iter(trained.values())).new_zeros(total)
    moved = {n: within(pool, offsets[n], tensor).copy_(tensor) for n, tensor in trained.items()}
    network.hold(Weights(named | moved), network.buffers)
    return pool


def _lies_in(tensor: Tensor, pool: Tensor | None) -> bool:
    where = tensor.untyped_storage().data_ptr()
    return pool is not None and where == pool.untyped_storage().data_ptr()


def _sum(tensor: Tensor) -> Tensor:
    """Sum in at least float32, in which sums of half-precision numbers do not overflow."""
    half = tensor.dtype.itemsize < torch.float32.itemsize
    return tensor.sum(dtype=torch.float32) if half else tensor.sum()
