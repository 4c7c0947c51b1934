"""One step of all runs of a fleet, and how it is executed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import final

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.model import Model, check_loss
from recollect.core.network import Network
from recollect.core.optimiser import Optimiser
from recollect.core.transforms import Augmentation, Transforms
from recollect.core.weights import State, Weights
from recollect.errors import DivergedError, InputError
from recollect.memory import Memory, Stored
from recollect.methods import Method, Step, static, varying
from recollect.train.checks import check_no_gradient
from recollect.train.compiled import Compiled
from recollect.train.execution import Execution, Lanes, Sizes, Stacks
from recollect.train.guard import Guard
from recollect.train.mixing import FirstSteps

__all__ = ["FleetState", "Stepper", "stacked"]

LOSS, SLOTS, FIELD, REWRITE = "loss", "slots", "field ", "rewrite "


@dataclass(frozen=True)
class FleetState:
    """The weights of K runs and all that goes with them; `rate` is the learning rate, `[K]`."""

    weights: Weights
    buffers: Mapping[str, Tensor]
    method: Method
    rate: Tensor
    state: State
    optimiser: Optimiser | None = None

    def tensors(self) -> list[Tensor]:
        """The same as plain tensors, for a step that is compiled."""
        hyper = (getattr(self.method, name) for name in varying(type(self.method)))
        moved = self.optimiser.tensors() if self.optimiser else []
        buffers, state = self.buffers.values(), self.state.values()
        return [*self.weights, *buffers, *state, *hyper, self.rate, *moved]

    def over(self, tensors: Sequence[Tensor]) -> FleetState:
        """The same with other tensors, in the order of `tensors`."""
        each = iter(tensors)
        weights = Weights({name: next(each) for name in self.weights.named()})
        buffers = {name: next(each) for name in self.buffers}
        state = State({name: next(each) for name in self.state})
        hyper = {name: next(each) for name in varying(type(self.method))}
        method, rate = replace(self.method, **hyper), next(each)
        optimiser = self.optimiser and self.optimiser.over(list(each))
        return FleetState(weights, buffers, method, rate, state, optimiser)

    def row(self, run: int) -> FleetState:
        """One run as a fleet of one, in the same memory."""
        here = slice(run, run + 1)
        names = varying(type(self.method))
        hyper = {name: getattr(self.method, name)[here].clone() for name in names}
        return FleetState(
            self.weights.row(run),
            {name: tensor[here] for name, tensor in self.buffers.items()},
            replace(self.method, **hyper),
            self.rate[here].clone(),
            self.state.row(run),
            self.optimiser and self.optimiser.row(run),
        )


def stacked(methods: Sequence[Method], dtype: torch.dtype, device: torch.device) -> Method:
    """One method whose hyper-parameters are tensors `[K]`, one value per run."""
    columns = {n: [getattr(method, n) for method in methods] for n in varying(type(methods[0]))}
    tensors = {n: torch.tensor(c, dtype=dtype, device=device) for n, c in columns.items()}
    return replace(methods[0], **tensors)


@final
class Stepper:
    """Takes steps: reads the memory, lets the method learn, writes the memory, all in place.

    Memory is read and written for all runs at once. Between the two, the whole fleet takes its
    step or, where networks are computed one by one, every run. `fast` says whether steps are
    compiled, and whether they are recorded.
    """

    def __init__(
        self,
        network: Network,
        memory: Memory,
        whole: FleetState,
        fast: tuple[bool, bool],
        images: Images | Transforms | None = None,
        guard: Guard | None = None,
        given: Collection[str] = (),
    ) -> None:
        self._network, self._memory = network, memory
        self._fast, self._images = fast, images
        self._guard = guard
        self._method, runs = whole.method, whole.weights.runs
        one_by_one = network.strategy == "loop" and runs > 1
        self._states = [whole.row(run) for run in range(runs)] if one_by_one else [whole]
        self._given = {"x", "y", *given} & memory.tensors.keys()
        self._noted = memory.tensors.keys() - {"x", "y", *given}
        self._lanes = Lanes(network.device, len(self._states))
        self.first_steps = FirstSteps(self._learn, network)
        self._usual = False
        self._sizes: Sizes = ()
        self._names: tuple[str, ...] = ()
        self.arrange(0)

    def arrange(self, task: int) -> None:
        """Prepare how steps are taken in a task; nothing is compiled or recorded yet."""
        compiled, recorded = self._fast
        title, device = self._method.title, self._network.device
        when = task if self._method.needs.task_id else 0
        self._compiled = (
            Compiled(self._learn_over, self._kind(), when, device, title) if compiled else None
        )
        self._execution = Execution(self._step, device, title, recorded)

    def take(self, stacks: Stacks, sizes: Sizes, usual: bool) -> Tensor:
        """Take all steps of the stacks, whose draws have these sizes; the last loss, `[K]`.

        Only steps with the `usual` sizes of batch and draws are compiled.
        """
        self._usual, self._sizes = usual, sizes
        first = self.first_steps.expect(sizes)
        loss = self._execution(stacks, sizes)
        if first:
            check_loss(loss, stacks["y"].shape[1])
        return loss

    def set_rates(self, rates: Tensor) -> None:
        """Take the coming steps at these learning rates, `[K]`."""
        for state, rate in zip(self._states, rates.chunk(len(self._states)), strict=True):
            state.rate.copy_(rate)

    @property
    def execution(self) -> str:
        """How steps are executed, in words."""
        how = []
        if self._execution.recorded:
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
        views: Tensor | None = None,
        noise: Tensor | None = None,
        valid: Tensor | None = None,
        factor: Tensor | None = None,
        **fields: Tensor,
    ) -> Tensor:
        """One step of all runs; the loss `[K]`. `fields` of the batch are stored as they came."""
        past = self._memory.read(read)
        given = {"x": x, "y": y, "slots": slots, "key": key}
        if factor is not None:
            given["factor"] = factor
        given |= {f"past {name}": tensor for name, tensor in past.items()}
        if self._images is not None and views is not None:
            # Images are augmented for all runs at once; as they are stored, they are there too.
            dtype, size = self._network.dtype, x.shape[1]
            given |= {"raw x": x, "x": self._images.augment(x, views[:, :size], dtype)}
            if "x" in past:
                again = self._images.augment_replay(past.x, views[:, size:], dtype)
                given |= {"raw past": past.x, "past x": again}
        if valid is not None:
            given["past valid"] = valid
        found = self._learn_all(given, noise)
        if SLOTS in found:
            write = self._memory.rows(found[SLOTS])
        rows = read if valid is None else torch.where(valid, read, self._memory.spare)
        self._write({"x": x, "y": y, **fields}, write, rows, found)
        self.written = write  # [K, B]
        return found[LOSS]

    def _learn_all(self, given: dict[str, Tensor], noise: Tensor | None) -> dict[str, Tensor]:
        """What `_learn` returns for all runs, of what the method's step reads, each `[K, ...]`."""
        self._names = tuple(given)
        pieces = [tuple(given.values())]
        if len(self._states) > 1:
            chunks = (tensor.chunk(len(self._states)) for tensor in given.values())
            pieces = list(zip(*chunks, strict=True))
        if self.first_steps.due:
            self.first_steps.check(self._states[0], given)
        take = self._learn_fast if self._usual else self._learn
        learn = [
            partial(take, state, *piece) for state, piece in zip(self._states, pieces, strict=True)
        ]
        if noise is not None:
            seeds = noise.tolist()
            learn = [partial(self._seeded, *each) for each in zip(seeds, learn, strict=True)]
        outcomes = self._lanes(learn)
        if len(outcomes) == 1:
            return outcomes[0]
        return {name: torch.cat([each[name] for each in outcomes]) for name in outcomes[0]}

    def _write(
        self, arrived: dict[str, Tensor], write: Tensor, read: Tensor, found: dict[str, Tensor]
    ) -> None:
        """Write what a step has found to rows of memory, new ones and ones that were read."""
        starts, rewritten = [0, *accumulate(self._sizes)], []
        for name, value in found.items():
            if name.startswith(REWRITE):
                number, field = name.removeprefix(REWRITE).split(" ", 1)
                start, size = starts[int(number)], self._sizes[int(number)]
                rewritten.append((read[:, start : start + size], field, value))
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
            self._memory.write(write, {n: arrived[n] for n in self._given} | noted)

    def _seeded(self, seed: int, learn: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        with self._network.seeded(seed):
            return learn()

    def _learn(self, state: FleetState, *piece: Tensor) -> dict[str, Tensor]:
        """One step of the runs of a state; the loss and what is to be written to memory."""
        given = dict(zip(self._names, piece, strict=True))
        past = {n.removeprefix("past "): t for n, t in given.items() if n.startswith("past ")}
        spans = list(zip([0, *accumulate(self._sizes)], self._sizes, strict=False))
        augmentation = None
        if self._images is not None:
            raw = given.get("raw past")
            draws = [] if raw is None else [raw.narrow(1, *span) for span in spans]
            augmentation = Augmentation(
                self._images, given.get("raw x"), draws, self._network.dtype
            )
        rate = state.rate * given["factor"] if "factor" in given else state.rate
        step = Step(
            given["x"], given["y"],
            Model(self._network, state.weights, state.buffers, rate, state.optimiser),
            [Stored(past).narrow(*span) for span in spans],
            state.state, given["slots"], given["key"], augmentation, self._noted,
        )  # fmt: skip
        found = {LOSS: state.method.update(step)}
        check_no_gradient(type(state.method), state.state)
        found |= {FIELD + name: value for name, value in step.outcome.fields.items()}
        if step.outcome.slots is not None:
            found[SLOTS] = step.outcome.slots
        rewritten = step.outcome.rewritten.items()
        return found | {f"{REWRITE}{number} {name}": t for (number, name), t in rewritten}

    def _learn_fast(self, state: FleetState, *piece: Tensor) -> dict[str, Tensor]:
        """The same, compiled if that is wanted and possible."""
        if self._compiled is not None:
            tensors = (*state.tensors(), *piece)
            compiled = self._compiled.ready(tensors)
            if compiled is not None:
                return compiled(*tensors)
        return self._learn(state, *piece)

    def _learn_over(self, *tensors: Tensor) -> dict[str, Tensor]:
        """The same with the state as plain tensors, to be compiled."""
        state = self._states[0]
        fixed = len(state.tensors())
        with self._network.written_out():
            return self._learn(state.over(tensors[:fixed]), *tensors[fixed:])

    def _kind(self) -> Hashable:
        """What a compiled step depends on besides its tensors and, for some methods, the task."""
        network, method = self._network, self._method
        layers = tuple(type(layer) for layer in network.module.modules())
        how = (network.strategy, network.dtype, network.half, network.packing)
        fixed = tuple(getattr(method, name) for name in static(type(method)))
        optimiser = self._states[0].optimiser and self._states[0].optimiser.kind
        given = (repr(self._images), layers, repr(network.module), how, optimiser)
        return (type(method), fixed, *given)
