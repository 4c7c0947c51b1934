"""One step of all runs of a fleet, and how it is executed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import accumulate
from typing import final

import torch
from torch import Tensor

from recollect.core.augmentation import Augmentation
from recollect.core.images import Images
from recollect.core.model import Model
from recollect.core.network import Network
from recollect.core.optimiser import Optimiser
from recollect.core.transforms import Transforms
from recollect.errors import DivergedError, InputError
from recollect.memory import Memory, Stored
from recollect.methods import Step, static
from recollect.train.compiled import Compiled
from recollect.train.execution import Lanes, Plain, Replayed, Sizes, Stacks
from recollect.train.guard import Guard
from recollect.train.state import FleetState

__all__ = ["Stepper"]

LOSS, SLOTS, FIELD, REWRITE = "loss", "slots", "field ", "rewrite "


@final
class Stepper:
    """Takes steps: reads the memory, lets the method learn, writes the memory, all in place.

    Memory is read and written for all runs at once. Between the two, each of the `states` takes
    its step: one for the whole fleet, or one for every run. `fast` says whether steps are
    compiled, and whether they are recorded.
    """

    def __init__(
        self,
        network: Network,
        memory: Memory,
        states: Sequence[FleetState],
        fast: tuple[bool, bool],
        images: Images | Transforms | None = None,
        optimiser: Optimiser | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._network, self._memory, self._states = network, memory, list(states)
        self._fast, self._images = fast, images
        self._optimiser, self._guard = optimiser, guard
        self._method = states[0].method
        self._given = {"x", "y"} & memory.tensors.keys()
        self._noted = memory.tensors.keys() - {"x", "y"}
        self._lanes = Lanes(network.device, len(self._states))
        self._usual = False
        self._sizes: Sizes = ()
        self._names: tuple[str, ...] = ()
        self._compiled: Compiled | None
        self._carry_out: Plain | Replayed
        self.arrange(0)

    def arrange(self, task: int) -> None:
        """Prepare how steps are taken in a task; nothing is compiled or recorded yet."""
        compiled, recorded = self._fast
        title, device = self._method.title, self._network.device
        when = task if self._method.needs.task_id else 0
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
        """How steps are executed, in words."""
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
        slots: Tensor,
        key: Tensor,
        sizes: Sizes,
        views: Tensor | None = None,
        noise: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """One step of all runs; the loss `[K]`."""
        given = self._inputs(x, y, slots, key, self._memory.read(read), views, valid)
        self._names = tuple(given)
        pieces = [tuple(given.values())]
        if len(self._states) > 1:
            chunks = (tensor.chunk(len(self._states)) for tensor in given.values())
            pieces = list(zip(*chunks, strict=True))
        take = self._learn_fast if self._usual else self._learn
        learn = [
            partial(take, state, sizes, *piece)
            for state, piece in zip(self._states, pieces, strict=True)
        ]
        if noise is not None:
            seeds = noise.tolist()
            learn = [partial(self._seeded, *each) for each in zip(seeds, learn, strict=True)]
        outcomes = self._lanes(learn)
        found = outcomes[0]
        if len(outcomes) > 1:
            found = {name: torch.cat([each[name] for each in outcomes]) for name in found}
        if SLOTS in found:
            write = self._memory.rows(found[SLOTS])
        self._write(x, y, write, self._rewritten(found, read, sizes, valid), found)
        return found[LOSS]

    def _inputs(
        self,
        x: Tensor,
        y: Tensor,
        slots: Tensor,
        key: Tensor,
        past: Stored,
        views: Tensor | None,
        valid: Tensor | None,
    ) -> dict[str, Tensor]:
        """What the method's step reads, by name, each `[K, ...]`.

        Images are augmented for all runs at once; as they are stored, they are there too.
        """
        given = {"x": x, "y": y, "slots": slots, "key": key}
        given |= {f"past {name}": tensor for name, tensor in past.items()}
        if self._images is not None and views is not None:
            dtype, size = self._network.dtype, x.shape[1]
            given |= {"raw x": x, "x": self._images.augment(x, views[:, :size], dtype)}
            if "x" in past:
                again = self._images.augment_replay(past.x, views[:, size:], dtype)
                given |= {"raw past": past.x, "past x": again}
        if valid is not None:
            given["past valid"] = valid
        return given

    def _rewritten(
        self, found: dict[str, Tensor], read: Tensor, sizes: Sizes, valid: Tensor | None
    ) -> list[tuple[Tensor, str, Tensor]]:
        """Which rows get which field rewritten with what."""
        starts, rewritten = [0, *accumulate(sizes)], []
        rows = read if valid is None else torch.where(valid, read, self._memory.spare)
        for name, value in found.items():
            if name.startswith(REWRITE):
                number, field = name.removeprefix(REWRITE).split(" ", 1)
                start = starts[int(number)]
                here = rows[:, start : start + sizes[int(number)]]
                rewritten.append((here, field, value))
        return rewritten

    def _write(
        self,
        x: Tensor,
        y: Tensor,
        write: Tensor,
        rewritten: Sequence[tuple[Tensor, str, Tensor]],
        found: dict[str, Tensor],
    ) -> None:
        if self._guard is not None:
            if not self._guard.finite(found[LOSS]):
                raise DivergedError("the loss or the weights are not finite any more")
            written = [write, *(rows for rows, _, _ in rewritten)]
            self._guard.note_rows(torch.cat(written, 1) if rewritten else write)
        for rows, field, value in rewritten:
            self._memory.write(rows, {field: value})
        if write.shape[1]:
            noted = {name: found[FIELD + name] for name in self._noted if FIELD + name in found}
            if len(noted) < len(self._noted):
                fields = ", ".join(f"{name}=..." for name in sorted(self._noted))
                raise InputError(f"{self._method.title} declares in `replay` what it does not "
                                 f"give: call step.remember({fields})")  # fmt: skip
            arrived = {"x": x, "y": y}
            self._memory.write(write, {n: arrived[n] for n in self._given} | noted)

    def _seeded(self, seed: int, learn: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        with self._network.seeded(seed):
            return learn()

    def _learn(self, state: FleetState, sizes: Sizes, *piece: Tensor) -> dict[str, Tensor]:
        """One step of the runs of a state; the loss and what is to be written to memory."""
        given = dict(zip(self._names, piece, strict=True))
        past = {n.removeprefix("past "): t for n, t in given.items() if n.startswith("past ")}
        spans = list(zip([0, *accumulate(sizes)], sizes, strict=False))
        augmentation = None
        if self._images is not None:
            raw = given.get("raw past")
            draws = [] if raw is None else [raw.narrow(1, *span) for span in spans]
            augmentation = Augmentation(
                self._images, given.get("raw x"), draws, self._network.dtype
            )
        step = Step(
            given["x"], given["y"],
            Model(self._network, state.weights, state.buffers, state.rate, self._optimiser),
            [Stored(past).narrow(*span) for span in spans],
            state.state, given["slots"], given["key"], augmentation,
        )  # fmt: skip
        found = {LOSS: state.method.update(step)}
        found |= {FIELD + name: value for name, value in step.outcome.fields.items()}
        if step.outcome.slots is not None:
            found[SLOTS] = step.outcome.slots
        rewritten = step.outcome.rewritten.items()
        return found | {f"{REWRITE}{number} {name}": t for (number, name), t in rewritten}

    def _learn_fast(self, state: FleetState, sizes: Sizes, *piece: Tensor) -> dict[str, Tensor]:
        """The same, compiled if that is wanted and possible."""
        if self._compiled is not None:
            tensors = (*state.tensors(), *piece)
            compiled = self._compiled.ready(tensors)
            if compiled is not None:
                return compiled(*tensors)
        return self._learn(state, sizes, *piece)

    def _learn_over(self, *tensors: Tensor) -> dict[str, Tensor]:
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
        fixed = tuple(getattr(method, name) for name in static(type(method)))
        return (type(method), fixed, repr(self._images), layers, repr(network.module), how)
