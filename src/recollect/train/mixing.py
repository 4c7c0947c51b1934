"""Detect steps in which runs of a fleet depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from recollect.core.model import check_loss
from recollect.core.network import Network
from recollect.errors import InputError, RecollectError
from recollect.methods import varying
from recollect.train.execution import Sizes, reason

if TYPE_CHECKING:
    from recollect.train.fleet_state import FleetState

LOSS, HYPER = "loss", "hyper-parameter "
GIVEN = {"x": "inputs", "raw x": "inputs", "y": "labels", "key": "random numbers", "slots": "slots"}
PLURAL = {"weights", "slots", "statistics"}
SEED = 0
ROUNDING = 64  # units in the last place by which a sum may differ if its order is not fixed
APART = "reduce over the examples, as loss.mean(1) does, but never over the first axis, the runs"

Learn = Callable[..., dict[str, Tensor]]
Given = Mapping[str, Tensor]
Outcome = list[tuple[str, Tensor]]


@final
class FirstSteps:
    """Checks the first step of every kind, and again after a task has started or ended.

    Steps are of the same kind if the same draws have examples. The step is run twice on copies:
    unchanged, and with everything that belongs to some of the runs changed. The loss, weights,
    state and memory writes of the other runs must be the same. Shapes and the numbers of the other
    runs are equal in both, so that not even rounding may differ. A single run is not checked.
    """

    def __init__(self, learn: Learn, network: Network) -> None:
        self.due = False
        self._learn, self._network = learn, network
        self._checked: set[tuple[bool, ...]] = set()

    def expect(self, sizes: Sizes) -> bool:
        """Whether a step with draws of these sizes must be checked."""
        kind = tuple(size > 0 for size in sizes)
        self.due = kind not in self._checked
        self._checked.add(kind)
        return self.due

    def forget(self) -> None:
        """Check every kind of step again."""
        self._checked.clear()

    def check(self, state: FleetState, given: Given) -> None:
        """Raise an `InputError` if runs depend on each other in a step; changes nothing."""
        self.due = False
        runs = state.weights.runs
        if runs == 1:
            return
        try:
            before = self._outcome(state, given)
        except (torch.OutOfMemoryError, RecollectError):
            raise
        except (IndexError, RuntimeError, ValueError) as error:
            if sentence := self._fails_in_fleets(state, given):
                raise InputError(
                    f"{state.method.title}: a step of {runs} runs fails, but a step of one run "
                    f"does not ({reason(error)}): {sentence}"
                ) from error
            raise
        check_loss(before[0][1], runs)
        kept = {0, runs - 1} if runs > 2 else {0}
        changed = set(range(runs)) - kept
        if self._affected(state, given, before, changed) is None:
            return
        if _first_difference(before, self._outcome(state, given), kept) is None:
            raise InputError(self._sentence(state, given, before, changed))
        # Otherwise the step is not deterministic, and the comparison says nothing.

    def _outcome(
        self,
        state: FleetState,
        given: Given,
        changed: Collection[int] = (),
        cause: str | None = None,
    ) -> Outcome:
        """The loss, memory writes and changed tensors of a step, each with a description.

        The step uses copies, in which one `cause` (or everything) of some runs is changed.
        """
        names = _names(state)
        copies = [
            _changed(t, changed if cause in (None, name) else ())
            for name, t in zip(names, state.tensors(), strict=True)
        ]
        pieces = [
            _changed(t, changed if cause in (None, _name_of(n)) else (), hashed=n == "key")
            for n, t in given.items()
        ]
        with self._network.seeded(SEED):
            found = self._learn(state.over(copies), *pieces)
        self._network.forget()
        return [*found.items(), *zip(names, copies, strict=True)]

    def _affected(
        self,
        state: FleetState,
        given: Given,
        before: Outcome,
        changed: Collection[int],
        cause: str | None = None,
    ) -> tuple[str, int] | None:
        """The first output that differs, and its run, if other runs are changed; None if equal."""
        try:
            after = self._outcome(state, given, changed, cause)
        except torch.OutOfMemoryError:
            raise
        except Exception:
            return None  # the changed runs cannot be trained, which says nothing about the others
        kept = [run for run in range(state.weights.runs) if run not in changed]
        return _first_difference(before, after, kept)

    def _sentence(
        self, state: FleetState, given: Given, before: Outcome, changed: Collection[int]
    ) -> str:
        """Describe which output depends on which input of another run, and what to do."""
        title, runs, other = state.method.title, state.weights.runs, min(changed)
        causes = dict.fromkeys((*map(_name_of, given), *_names(state)))
        for cause in causes:
            if affected := self._affected(state, given, before, {other}, cause):
                what, run = affected
                verb = "change" if what in PLURAL else "changes"
                advice = _axes(cause.removeprefix(HYPER), runs) if HYPER in cause else APART
                return (
                    f"{title}: the {what} of run {run} {verb} with the {cause} of run {other}: "
                    f"{advice}"
                )
        return f"{title}: the result of a run depends on the other runs of its fleet: {APART}"

    def _fails_in_fleets(self, state: FleetState, given: Given) -> str:
        """Advice for a step that fails for several runs; empty if it fails for one run too."""
        try:
            self._outcome(state.row(0), {name: tensor[:1] for name, tensor in given.items()})
        except Exception:
            return ""
        for name in varying(type(state.method)):
            one = replace(state.method, **{name: getattr(state.method, name)[0]})
            try:
                self._outcome(replace(state, method=one), given)
            except Exception:  # another hyper-parameter is the cause, or several are
                continue
            return _axes(name, state.weights.runs)
        return (
            f"the first axis of every tensor is the runs, so hyper-parameters and losses are "
            f"[{state.weights.runs}] here; reshape them to broadcast with other tensors, as in "
            f".view(-1, 1, 1)"
        )


def _axes(name: str, runs: int) -> str:
    return (
        f"self.{name} is [K], here [{runs}], and torch broadcasts it along the last axis; to "
        f"combine it with logits [K, n, C], write torch.as_tensor(self.{name}).view(-1, 1, 1)"
    )


def _names(state: FleetState) -> list[str]:
    """Describe each of the state's tensors, in order."""
    hyper = {name: getattr(state.method, name) for name in varying(type(state.method))}
    known = {id(tensor): "weights" for tensor in state.weights}
    known |= {id(tensor): "statistics" for tensor in state.buffers.values()}
    known |= {id(tensor): f"state {name!r}" for name, tensor in state.state.items()}
    known |= {id(tensor): HYPER + name for name, tensor in hyper.items()}
    known[id(state.rate)] = "learning rate"
    return [known.get(id(tensor), "optimiser") for tensor in state.tensors()]


def _name_of(given: str) -> str:
    return GIVEN.get(given, "replayed examples")


def _changed(tensor: Tensor, runs: Collection[int], *, hashed: bool = False) -> Tensor:
    """A copy with other values in some runs; labels, pixels and slots remain valid."""
    copy = tensor.clone()
    for run in runs:
        row = copy[run]
        if row.is_floating_point():
            row.mul_(0.5)
            if row.dim() == 0 and not row:
                row.fill_(0.1)
        elif row.dim():
            row.copy_(row[:1].clone().expand_as(row))
        elif hashed:
            row.add_(1)
    return copy


def _first_difference(
    before: Outcome, after: Outcome, runs: Collection[int]
) -> tuple[str, int] | None:
    index = sorted(runs)
    for (name, one), (_, other) in zip(before, after, strict=True):
        if one.shape == other.shape and one.dim() and len(one) > index[-1]:
            for run in index:
                if not torch.equal(one[run], other[run]) and _differ(one[run], other[run]):
                    return name, run
    return None


def _differ(one: Tensor, other: Tensor) -> bool:
    if not one.is_floating_point():
        return True
    bound = ROUNDING * torch.finfo(one.dtype).eps * float(one.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return not torch.allclose(one, other, rtol=0.0, atol=bound, equal_nan=True)
