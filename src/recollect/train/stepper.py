"""One step of all runs of a fleet, and the way in which it is carried out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import accumulate
from typing import final

import torch
from torch import Tensor

from recollect.core.descent import Descent
from recollect.core.images import Images
from recollect.core.network import Network
from recollect.core.optimiser import Optimiser
from recollect.core.transforms import Transforms
from recollect.errors import DivergedError, InputError
from recollect.memory import Memory, Remembered
from recollect.methods import Step
from recollect.train.compiled import Compiled
from recollect.train.execution import Lanes, Plain, Replayed, Sizes, Stacks
from recollect.train.guard import Guard
from recollect.train.state import State

__all__ = ["Stepper"]


@final
class Stepper:
    """Takes steps: reads the memory, lets the method learn, writes the memory, all in place.

    Memory is read and written for all runs at once. Between the two, each of the `states` takes
    its step: one for the whole fleet, or one for every run. `replayed` names what a draw holds, and
    `chances` which of slots and luck a step is given besides. A method that `sees_plain` is given
    augmented images without their augmentation too. `ways` says whether steps are
    compiled and recorded.
    """

    def __init__(
        self,
        network: Network,
        memory: Memory,
        states: Sequence[State],
        replayed: tuple[str, ...],
        chances: tuple[str, ...],
        ways: tuple[bool, bool],
        images: Images | Transforms | None = None,
        optimiser: Optimiser | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._network, self._memory, self._states = network, memory, list(states)
        self._replayed, self._chances, self._ways, self._images = replayed, chances, ways, images
        self._optimiser, self._guard = optimiser, guard
        self._method = states[0].method
        self._plain = self._method.sees_plain and images is not None
        if self._plain:
            self._replayed, self._chances = (*replayed, "plain"), (*chances, "plain")
        self._noted = [name for name in self._method.remembers if name not in ("x", "y")]
        self._lanes = Lanes(network.device, len(self._states))
        self._usual = False
        self._sizes: Sizes = ()
        self._compiled: Compiled | None
        self._carry_out: Plain | Replayed
        self.arrange(0)

    def arrange(self, task: int) -> None:
        """Prepare how steps are taken in a task; nothing is compiled or recorded yet."""
        compiled, recorded = self._ways
        title, device = self._method.title, self._network.device
        when = task if self._method.needs_task else 0
        self._compiled = (
            Compiled(self._learn_over, self._kind(), when, device, title) if compiled else None
        )
        self._carry_out = Replayed(self._step, device, title) if recorded else Plain(self._step)

    def take(self, stacks: Stacks, sizes: Sizes, usual: bool) -> Tensor:
        """Take all steps of the stacks, whose draws have these sizes; the last loss, `[K]`.

        Only steps with the `usual` sizes of batch and draws are compiled.
        """
        self._usual, self._sizes = usual, sizes
        return self._carry_out(stacks, sizes)

    @property
    def execution(self) -> str:
        """How steps are carried out, in words."""
        how = []
        if isinstance(self._carry_out, Replayed) and self._carry_out.possible:
            on_gpu = self._network.device.type == "cuda"
            how.append("CUDA graph" if on_gpu else "recorded step")
        if len(self._lanes) > 1:
            how.append(f"{len(self._lanes)} streams")
        if self._compiled is not None and self._compiled.possible:
            how.append("compiled")
        if self._network.half:
            how.append("bf16")
        return ", ".join([self._network.strategy, *(how or ["eager"])])

    def _step(
        self,
        x: Tensor,
        y: Tensor,
        read: Tensor,
        write: Tensor,
        sizes: Sizes,
        views: Tensor | None = None,
        noise: Tensor | None = None,
        slots: Tensor | None = None,
        luck: Tensor | None = None,
        counts: Tensor | None = None,
    ) -> Tensor:
        """One step of all runs; the loss `[K]`."""
        past = self._memory.read(read)
        if counts is not None:
            past["counts"] = counts
        shown, again = self._shown(x, past, views)
        lanes = len(self._states)
        chances = [tensor for tensor in (slots, luck) if tensor is not None]
        if self._plain and self._images is not None:
            dtype = self._network.dtype
            again["plain"] = self._images.plain(past.x, dtype)
            chances.append(self._images.plain(x, dtype))
        tensors = (shown, y, *again.values(), *chances)
        pieces = zip(*(tensor.chunk(lanes) for tensor in tensors), strict=True)
        take = self._learn_fast if self._usual else self._learn
        learn = [
            partial(take, state, sizes, *piece)
            for state, piece in zip(self._states, pieces, strict=True)
        ]
        if noise is not None:
            seeds = noise.tolist()
            learn = [partial(self._seeded, *each) for each in zip(seeds, learn, strict=True)]
        outcomes = self._lanes(learn)
        loss, *kept = outcomes[0] if lanes == 1 else map(torch.cat, zip(*outcomes, strict=True))
        if slots is not None:
            write = self._memory.rows(kept.pop())
        if self._guard is not None:
            if not self._guard.finite(loss):
                raise DivergedError("the loss or the weights are no numbers any more")
            self._guard.note_rows(write)
        if write.shape[1]:
            if len(kept) < len(self._noted):
                fields = ", ".join(f"{name}=..." for name in self._noted)
                raise InputError(f"{self._method.title} declares in `remembers` what it does not "
                                 f"give: call step.remember({fields})")  # fmt: skip
            noted = dict(zip(self._noted, kept, strict=True))
            self._memory.write(write, {"x": x, "y": y, **noted})
        return loss

    def _shown(
        self, x: Tensor, past: Remembered, views: Tensor | None
    ) -> tuple[Tensor, Remembered]:
        """What arrived and what is replayed, as the networks are to see them."""
        if self._images is None or views is None:
            return x, past
        dtype, size = self._network.dtype, x.shape[1]
        shown = self._images.shown(x, views[:, :size], dtype)
        if "x" not in past:
            return shown, past
        replayed = self._images.again(past.x, views[:, size:], dtype)
        return shown, Remembered({**past, "x": replayed})

    def _seeded(self, seed: int, learn: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        with self._network.seeded(seed):
            return learn()

    def _learn(
        self, state: State, sizes: Sizes, x: Tensor, y: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        """One step of the runs of a state; the loss and what the method notes."""
        descent = Descent(self._network, state.weights, state.buffers, state.rate, self._optimiser)
        fields = len(self._replayed)
        replayed = Remembered(zip(self._replayed, past[:fields], strict=True))
        starts = [0, *accumulate(sizes)]
        draws = [replayed.narrow(*piece) for piece in zip(starts, sizes, strict=False)]
        chances = dict(zip(self._chances, past[fields:], strict=True))
        step = Step(x, y, descent, draws, state.own, **chances)
        loss = state.method.learn(step)
        kept = [step.kept[name] for name in self._noted if name in step.kept]
        return loss, *kept, *([step.slots] if "slots" in chances else [])

    def _learn_fast(self, state: State, sizes: Sizes, *piece: Tensor) -> tuple[Tensor, ...]:
        """The same, compiled if that is wanted and possible."""
        if self._compiled is not None:
            tensors = (*state.tensors(), *piece)
            compiled = self._compiled.ready(tensors)
            if compiled is not None:
                return compiled(*tensors)
        return self._learn(state, sizes, *piece)

    def _learn_over(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The same with the state as plain tensors, to be compiled."""
        state = self._states[0]
        fixed = len(state.tensors())
        with self._network.written_out():
            return self._learn(state.over(tensors[:fixed]), self._sizes, *tensors[fixed:])

    def _kind(self) -> Hashable:
        """What a compiled step depends on besides its tensors and, for some methods, the task."""
        network, method = self._network, self._method
        layers = tuple(type(layer) for layer in network.module.modules())
        how = (network.strategy, network.dtype, network.half)
        shape = tuple(getattr(method, name) for name in method.shaping)
        return (type(method), shape, layers, repr(network.module), how)
