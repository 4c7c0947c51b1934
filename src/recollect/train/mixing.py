"""Refuses a step in which runs of a fleet depend on each other."""

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
    from recollect.train.stepper import FleetState

__all__ = ["FirstSteps"]

LOSS, HYPER = "loss", "hyper-parameter "
GIVEN = {"x": "inputs", "raw x": "inputs", "y": "labels", "key": "random numbers", "slots": "slots"}
PLURAL = {"weights", "slots", "statistics"}
SEED = 0
ROUNDING = 64  # units in the last place by which a sum may differ if its order is not fixed
APART = (
    "reduce over examples, as each.mean(1) does, and never over the first axis, that of the runs"
)

Learn = Callable[..., dict[str, Tensor]]
Given = Mapping[str, Tensor]
Outcome = list[tuple[str, Tensor]]


@final
class FirstSteps:
    """Checks the first step of every kind, and again after a task has begun or ended.

    Steps are of one kind if the same draws have examples. The step is taken twice on copies: as it
    is, and with all that belongs to some of the runs changed. The other runs must come out the
    same, in loss, weights, state and what is written to memory. Both have the same shapes and the
    other runs the same numbers, so that not even rounding may differ. One run is not checked.
    """

    def __init__(self, learn: Learn, network: Network) -> None:
        self.due = False
        self._learn, self._network = learn, network
        self._checked: set[tuple[bool, ...]] = set()

    def expect(self, sizes: Sizes) -> bool:
        """Whether a step whose draws have these sizes is due to be checked."""
        kind = tuple(size > 0 for size in sizes)
        self.due = kind not in self._checked
        self._checked.add(kind)
        return self.due

    def forget(self) -> None:
        """Check every kind of step again."""
        self._checked.clear()

    def check(self, state: FleetState, given: Given) -> None:
        """Refuse a step in which runs depend on each other; nothing is changed."""
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
                    f"{state.method.title}: a step of {runs} runs fails, and that of one run does "
                    f"not ({reason(error)}): {sentence}"
                ) from error
            raise
        check_loss(before[0][1], runs)
        kept = {0, runs - 1} if runs > 2 else {0}
        changed = set(range(runs)) - kept
        if self._affected(state, given, before, changed) is None:
            return
        if _first_difference(before, self._outcome(state, given), kept) is None:
            raise InputError(self._sentence(state, given, before, changed))
        # Otherwise the step is not a function of what it is given, and nothing follows.

    def _outcome(
        self,
        state: FleetState,
        given: Given,
        changed: Collection[int] = (),
        cause: str | None = None,
    ) -> Outcome:
        """The loss, all that the step writes to memory and all that it changes, by what it is.

        The step is taken on copies, in which one `cause` (or everything) of some runs is changed.
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
        """What, of which run, comes out differently if other runs are changed."""
        try:
            after = self._outcome(state, given, changed, cause)
        except torch.OutOfMemoryError:
            raise
        except Exception:
            return None  # the changed runs cannot be learned from; nothing follows for the others
        kept = [run for run in range(state.weights.runs) if run not in changed]
        return _first_difference(before, after, kept)

    def _sentence(
        self, state: FleetState, given: Given, before: Outcome, changed: Collection[int]
    ) -> str:
        """What changes with what, and what to do about it."""
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
        return f"{title}: what a run learns changes with the other runs of its fleet: {APART}"

    def _fails_in_fleets(self, state: FleetState, given: Given) -> str:
        """What to do about a step that fails for several runs; nothing if it fails for one too."""
        try:
            self._outcome(state.row(0), {name: tensor[:1] for name, tensor in given.items()})
        except Exception:
            return ""
        for name in varying(type(state.method)):
            one = replace(state.method, **{name: getattr(state.method, name)[0]})
            try:
                self._outcome(replace(state, method=one), given)
            except Exception:  # it is another one, or it is not alone
                continue
            return _axes(name, state.weights.runs)
        return (
            f"every tensor has a first axis of the runs, so hyper-parameters and losses are "
            f"[{state.weights.runs}] here; give them the axes of what they are combined with"
        )


def _axes(name: str, runs: int) -> str:
    return (
        f"self.{name} is [K], here [{runs}], and torch aligns it with the last axis; combine it "
        f"with logits [K, n, C] as torch.as_tensor(self.{name}).view(-1, 1, 1)"
    )


def _names(state: FleetState) -> list[str]:
    """What each of the state's tensors is, in their order."""
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
    """A copy in which some runs have other numbers; labels, pixels and slots stay possible ones."""
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
