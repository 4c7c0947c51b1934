"""The training step of all runs of a fleet, and how it is executed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable
from functools import partial
from itertools import accumulate
from typing import final

import torch
from torch import Tensor

from recollect.core.batchnorm import written_out
from recollect.core.images import Images
from recollect.core.model import Model, check_loss
from recollect.core.network import Network
from recollect.core.targets import CLASS, Target
from recollect.core.transforms import Transforms
from recollect.errors import DivergedError, InputError
from recollect.memory import Memory, Stored
from recollect.methods import Step
from recollect.train.checks import check_no_gradient
from recollect.train.compiled import Compiled
from recollect.train.execution import Execution, Lanes, Sizes, Stacks
from recollect.train.fleet_state import FleetState
from recollect.train.guard import SURE, Guard
from recollect.train.mixing import FirstSteps
from recollect.train.recorded import Frequent, Recorded

INPUTS = ("x", "y", "read", "slots", "key", "views", "noise", "valid", "factor")  # of `_find`
LOSS, SLOTS, FIELD, REWRITE, NUMBERS = "loss", "slots", "field ", "rewrite ", "numbers"


@final
class Stepper:
    """Takes steps in place: reads the memory, updates the weights, writes the memory.

    Memory is read and written for all runs at once. The update in between is computed for the
    whole fleet or, if networks are computed one by one, for each run. `fast` says whether steps
    are compiled, and whether they are recorded.
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
        target: Target = CLASS,
    ) -> None:
        self._network, self._memory, self._target = network, memory, target
        self._fast, self._images, self._guard = fast, images, guard
        self._method, runs = whole.method, whole.weights.runs
        one_by_one = network.strategy == "loop" and runs > 1
        self._states = [whole.row(run) for run in range(runs)] if one_by_one else [whole]
        self._given = {"x", "y", *given} & memory.tensors.keys()
        self._noted = memory.tensors.keys() - {"x", "y", *given}
        self._lanes = Lanes(network.device, len(self._states))
        self.first_steps = FirstSteps(self._learn, network)
        self._usual, self._frequent = False, Frequent()
        self._sizes: Sizes = ()
        self._names: tuple[str, ...] = ()
        self.arrange(0)

    def arrange(self, task: int) -> None:
        """Prepare the execution of steps in a task; nothing is compiled or recorded yet."""
        compiled, recorded = self._fast
        title, device, guarded = self._method.title, self._network.device, self._guard is not None
        when = task if self._method.needs.task_id else 0
        self._compiled = (
            Compiled(self._learn_over, self._kind(), when, device, title) if compiled else None
        )
        # Of guarded steps, only the part before the divergence check and the memory write.
        self._recorded: Recorded | None = None
        if recorded and guarded:
            find, module = self._find_checked, self._network.module
            self._recorded = Recorded(find, module, device, title, "step")
        self._execution = Execution(self._step, device, title, recorded and not guarded)

    def take(self, stacks: Stacks, sizes: Sizes, usual: bool) -> Tensor:
        """Take all steps of the stacks, with draws of these sizes; return the last loss, `[K]`.

        Only steps with the `usual` sizes of batch and draws are compiled.
        """
        if usual and self._guard is not None and self._compiled is not None:
            usual = self._frequent(stacks["y"].shape[2])
        self._usual, self._sizes = usual, sizes
        first = self.first_steps.expect(sizes)
        loss = self._execution(stacks, sizes)
        if first:
            check_loss(loss, stacks["y"].shape[1])
        return loss

    def set_rates(self, rates: Tensor) -> None:
        """Set the learning rates of the next steps, `[K]`."""
        for state, rate in zip(self._states, rates.chunk(len(self._states)), strict=True):
            state.rate.copy_(rate)

    def wipe(self) -> None:
        """Overwrite the examples in recordings with zeros."""
        if self._recorded is not None:
            self._recorded.wipe()

    @property
    def execution(self) -> str:
        """A description of how steps are executed, such as "loop, eager"."""
        how = []
        if self._execution.recorded or (self._recorded is not None and self._recorded.possible):
            on_gpu = self._network.device.type == "cuda"
            how.append("CUDA graph" if on_gpu else "recorded step")
        if len(self._lanes) > 1:
            how.append(f"{len(self._lanes)} streams")
        if self._compiled is not None and self._compiled.possible:
            how.append("compiled")
        if self._network.half:
            how.append("bf16")
        return ", ".join([self._network.strategy, *(how or ["eager"])])

    def _step(self, **planned: Tensor) -> Tensor:
        """Take one step of all runs with its examples and its plan; return the loss `[K]`."""
        inputs = tuple(map(planned.get, INPUTS))
        if self._recorded is not None:
            found = self._recorded((self._sizes, self._usual), inputs)
            loss, finite = self._checked(found)
        else:
            found = self._find(*inputs)  # type: ignore[arg-type]
            loss = found[LOSS]
            finite = self._guard is None or self._guard.finite(loss)
        if not finite:
            raise DivergedError("the loss or the weights are no longer finite")
        write = self._memory.rows(found[SLOTS]) if SLOTS in found else planned["write"]
        read, valid = planned["read"], planned.get("valid")
        rows = read if valid is None else torch.where(valid, read, self._memory.spare)
        self._write(planned, write, rows, found)
        self.written = write  # [K, B]
        return loss

    def _find(
        self,
        x: Tensor,
        y: Tensor,
        read: Tensor,
        slots: Tensor,
        key: Tensor,
        views: Tensor | None,
        noise: Tensor | None,
        valid: Tensor | None,
        factor: Tensor | None,
    ) -> dict[str, Tensor]:
        """Update the weights; return the loss and the fields to write to memory."""
        past = self._memory.read(read)
        given = {"x": x, "y": y, "slots": slots, "key": key}
        if factor is not None:
            given["factor"] = factor
        given |= {f"past {name}": tensor for name, tensor in past.items()}
        if self._images is not None and views is not None:
            # Augment for all runs at once; the originals are passed as well.
            dtype, size = self._network.dtype, x.shape[1]
            given |= {"raw x": x, "x": self._images.augment(x, views[:, :size], dtype)}
            if "x" in past:
                again = self._images.augment_replay(past.x, views[:, size:], dtype)
                given |= {"raw past": past.x, "past x": again}
        if valid is not None:
            given["past valid"] = valid
        return self._learn_all(given, noise)

    def _find_checked(self, *inputs: Tensor | None) -> dict[str, Tensor]:
        """`_find`, and the numbers by which the host checks for divergence afterwards."""
        assert self._guard is not None
        found = self._find(*inputs)  # type: ignore[arg-type]
        self._guard.expect_uncounted()
        found = {name: tensor.detach() for name, tensor in found.items()}
        return found | {NUMBERS: self._guard.numbers(found[LOSS])}

    def _checked(self, found: dict[str, Tensor]) -> tuple[Tensor, bool]:
        """Return the loss, and whether the step is finite; synchronises with the device once."""
        assert self._guard is not None
        loss, numbers = found[LOSS], found[NUMBERS].tolist()
        count = loss.numel()
        finite = all(map(math.isfinite, numbers[:count])) and all(n < SURE for n in numbers[count:])
        there = torch.tensor(numbers[:count], dtype=loss.dtype).view(loss.shape)
        return there, finite or self._guard.finite(loss)

    def _learn_all(self, given: dict[str, Tensor], noise: Tensor | None) -> dict[str, Tensor]:
        """Run `_learn` for all runs on the inputs of the method's step, each `[K, ...]`."""
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
        """Write the outcome of a step to memory: new rows, and rewritten fields of read rows."""
        starts, rewritten = [0, *accumulate(self._sizes)], []
        for name, value in found.items():
            if name.startswith(REWRITE):
                number, field = name.removeprefix(REWRITE).split(" ", 1)
                start, size = starts[int(number)], self._sizes[int(number)]
                rewritten.append((read[:, start : start + size], field, value))
        noted = {name: found[FIELD + name] for name in self._noted if FIELD + name in found}
        if write.shape[1] and len(noted) < len(self._noted):
            fields = ", ".join(f"{name}=..." for name in sorted(self._noted))
            raise InputError(f"{self._method.title} declares fields in `replay` that it did not "
                             f"store: call step.remember({fields})")  # fmt: skip
        if self._guard is not None:
            if not rewritten and write.device.type == "cpu" and self._memory.stores_none(write):
                return  # a full reservoir stores few of the examples that arrive
            written = [write, *(rows for rows, _, _ in rewritten)]
            self._guard.note_rows(torch.cat(written, 1) if rewritten else write)
        for rows, field, value in rewritten:
            self._memory.write(rows, {field: value})
        if write.shape[1]:
            self._memory.write(write, {n: arrived[n] for n in self._given} | noted)

    def _seeded(self, seed: int, learn: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        with self._network.seeded(seed):
            return learn()

    def _learn(self, state: FleetState, *piece: Tensor) -> dict[str, Tensor]:
        """Take one step of the runs of a state; return the loss and the fields to write."""
        given = dict(zip(self._names, piece, strict=True))
        past = {n.removeprefix("past "): t for n, t in given.items() if n.startswith("past ")}
        raw = [given["raw x"]] if "raw x" in given else []
        if "raw past" in given:
            raw += given["raw past"].split_with_sizes(self._sizes, 1)
        rate = state.rate * given["factor"] if "factor" in given else state.rate
        parts = state.weights, state.buffers, rate, state.optimiser, self._target.criterion
        step = Step(
            given["x"], given["y"], Model(self._network, *parts),
            Stored(past).split(self._sizes),
            state.state, given["slots"], given["key"], self._images, raw, self._noted,
        )  # fmt: skip
        found = {LOSS: state.method.update(step)}
        check_no_gradient(type(state.method), state.state)
        found |= {FIELD + name: value for name, value in step.outcome.fields.items()}
        if step.outcome.slots is not None:
            found[SLOTS] = step.outcome.slots
        rewritten = step.outcome.rewritten.items()
        return found | {f"{REWRITE}{number} {name}": t for (number, name), t in rewritten}

    def _learn_fast(self, state: FleetState, *piece: Tensor) -> dict[str, Tensor]:
        """`_learn`, compiled if requested and possible."""
        if self._compiled is not None:
            tensors = (*state.tensors(), *piece)
            compiled = self._compiled.ready(tensors)
            if compiled is not None:
                return compiled(*tensors)
        return self._learn(state, *piece)

    def _learn_over(self, *tensors: Tensor) -> dict[str, Tensor]:
        """`_learn` with the state as plain tensors, as the compiler needs it."""
        state = self._states[0]
        fixed = len(state.tensors())
        with written_out(self._network.norms):
            return self._learn(state.over(tensors[:fixed]), *tensors[fixed:])

    def _kind(self) -> Hashable:
        """Return all that a compiled step depends on, except its tensors and the task."""
        network = self._network
        layers = tuple(type(layer) for layer in network.module.modules())
        how = (network.strategy, network.dtype, network.half, network.packing)
        given = (repr(self._images), layers, repr(network.module), how, self._target)
        return self._states[0].kind, *given
