"""The training step of all runs of a fleet, and how it is executed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from functools import partial
from typing import final

import torch
from torch import Tensor

from recollect.core.batchnorm import written_out
from recollect.core.images import Images
from recollect.core.model import Model, check_loss
from recollect.core.network import Network
from recollect.core.targets import CLASS, Target
from recollect.core.transforms import Transforms
from recollect.errors import InputError
from recollect.memory import Memory, Stored
from recollect.methods import Step
from recollect.train.checks import check_no_gradient
from recollect.train.compiled import Compiled
from recollect.train.execution import Execution, Lanes, Sizes, Stacks
from recollect.train.fixed_inputs import Inputs
from recollect.train.fleet_state import FleetState
from recollect.train.guard import Guard
from recollect.train.guarded import GuardedSteps
from recollect.train.mixing import FirstSteps
from recollect.train.recorded import Frequent

GIVEN = ("x", "y", "slots", "key", "factor")  # to `_learn`
LOSS, SLOTS, FIELD, REWRITE = "loss", "slots", "field ", "rewrite "


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
        scores: Callable[[Tensor], Tensor],
        images: Images | Transforms | None = None,
        guard: Guard | None = None,
        given: Collection[str] = (),
        target: Target = CLASS,
    ) -> None:
        self._network, self._memory, self._target = network, memory, target
        self._fast, self._images = fast, images
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
        self.guarded: GuardedSteps | None = None
        if guard is not None:
            parts = self._find, self._write, self._rows, self._stores, scores
            self.guarded = GuardedSteps(*parts, memory, guard, network)
        self.arrange(0)

    def arrange(self, task: int) -> None:
        """Prepare the execution of steps in a task; nothing is compiled or recorded yet."""
        compiled, recorded = self._fast
        title, device = self._method.title, self._network.device
        when = task if self._method.needs.task_id else 0
        self._compiled = (
            Compiled(self._learn_over, self._kind(), when, device, title) if compiled else None
        )
        if recorded and self.guarded is not None:
            self.guarded.record(title)
        self._execution = Execution(self._step, device, title, recorded and self.guarded is None)

    def take(self, stacks: Stacks, sizes: Sizes, usual: bool) -> Tensor:
        """Take all steps of the stacks, with draws of these sizes; return the last loss, `[K]`.

        Only steps with the `usual` sizes of batch and draws are compiled.
        """
        due = self._prepare(sizes, usual, stacks["y"].shape[2])
        loss = self._execution(stacks, sizes)
        if due:
            check_loss(loss, stacks["y"].shape[1])
        return loss

    def take_one(
        self,
        planned: Stacks,
        sizes: Sizes,
        usual: bool,
        scored: bool,
        meanwhile: Callable[[], None],
    ) -> Tensor:
        """Take one guarded step on tensors `[K, ...]`; see `GuardedSteps`."""
        assert self.guarded is not None
        due = self._prepare(sizes, usual, planned["y"].shape[1])
        loss = self.guarded((sizes, self._usual), planned, scored, meanwhile)
        if due:
            check_loss(loss, len(planned["y"]))
        return loss

    def set_rates(self, rates: Tensor) -> None:
        """Set the learning rates of the next steps, `[K]`."""
        for state, rate in zip(self._states, rates.chunk(len(self._states)), strict=True):
            state.rate.copy_(rate)

    def wipe(self) -> None:
        """Overwrite the examples in recordings with zeros."""
        if self.guarded is not None and self.guarded.recorded is not None:
            self.guarded.recorded.wipe()

    @property
    def execution(self) -> str:
        """A description of how steps are executed, such as "loop, eager"."""
        how = []
        steps = None if self.guarded is None else self.guarded.recorded
        if self._execution.recorded or (steps is not None and steps.possible):
            on_gpu = self._network.device.type == "cuda"
            how.append("CUDA graph" if on_gpu else "recorded step")
        if len(self._lanes) > 1:
            how.append(f"{len(self._lanes)} streams")
        if self._compiled is not None and self._compiled.possible:
            how.append("compiled")
        if self._network.half:
            how.append("bf16")
        return ", ".join([self._network.strategy, *(how or ["eager"])])

    def _prepare(self, sizes: Sizes, usual: bool, batch: int) -> bool:
        """Note what steps depend on besides tensors; return whether to check their loss."""
        if usual and self.guarded is not None and self._compiled is not None:
            usual = self._frequent(batch)
        self._usual, self._sizes = usual, sizes
        return self.first_steps.expect(sizes)

    def _step(self, **planned: Tensor) -> Tensor:
        """Take one step of all runs with its examples and its plan; return the loss `[K]`."""
        found = self._find(planned)
        self._write(planned, found)
        return found[LOSS]

    def _find(self, planned: Inputs) -> dict[str, Tensor]:
        """Update the weights; return the loss and the fields to write to memory."""
        x, views, valid = planned["x"], planned.get("views"), planned.get("valid")
        past = self._memory.read(planned["read"])
        given = {name: planned[name] for name in GIVEN if name in planned}
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
        found = self._learn_all(given, planned.get("noise"))
        if planned["write"].shape[1] and any(FIELD + name not in found for name in self._noted):
            fields = ", ".join(f"{name}=..." for name in sorted(self._noted))
            raise InputError(f"{self._method.title} declares fields in `replay` that it did not "
                             f"store: call step.remember({fields})")  # fmt: skip
        return found

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

    def _stores(self, planned: Inputs, found: dict[str, Tensor]) -> bool:
        """Whether a step writes to memory; `written` becomes the rows of its batch, `[K, B]`."""
        self.written = self._rows_of_batch(planned, found)
        if SLOTS in found or any(name.startswith(REWRITE) for name in found):
            return True
        return not self._memory.stores_none(self.written)  # as often, if a reservoir is full

    def _rows(self, planned: Inputs, found: dict[str, Tensor]) -> Tensor:
        """Return the rows `[K, n]` that a step writes."""
        rewritten = [rows for rows, _, _ in self._rewritten(planned, found)]
        batch = self._rows_of_batch(planned, found)
        return torch.cat([batch, *rewritten], 1) if rewritten else batch

    def _write(self, planned: Inputs, found: dict[str, Tensor]) -> None:
        """Write the outcome of a step to memory: rewritten fields of read rows, and new rows."""
        for rows, field, value in self._rewritten(planned, found):
            self._memory.write(rows, {field: value})
        batch = self._rows_of_batch(planned, found)
        if batch.shape[1]:
            noted = {name: found[FIELD + name] for name in self._noted}
            self._memory.write(batch, {name: planned[name] for name in self._given} | noted)

    def _rewritten(
        self, planned: Inputs, found: dict[str, Tensor]
    ) -> list[tuple[Tensor, str, Tensor]]:
        """Return the rewritten fields of draws: rows `[K, n]`, the field, its values."""
        names = [name for name in found if name.startswith(REWRITE)]
        if not names:
            return []
        read, valid = planned["read"], planned.get("valid")
        if valid is not None:
            read = torch.where(valid, read, self._memory.spare)
        draws, parts = read.split_with_sizes(self._sizes, 1), []
        for name in names:
            number, field = name.removeprefix(REWRITE).split(" ", 1)
            parts.append((draws[int(number)], field, found[name]))
        return parts

    def _rows_of_batch(self, planned: Inputs, found: dict[str, Tensor]) -> Tensor:
        """Return the rows `[K, B]` of the batch: the planned ones, unless the method chose."""
        return self._memory.rows(found[SLOTS]) if SLOTS in found else planned["write"]

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
