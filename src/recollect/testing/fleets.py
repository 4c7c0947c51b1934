"""Promises about fleets: other runs, and how steps are executed, change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from recollect.testing.check import Broken
from recollect.testing.compare import difference, state_of
from recollect.testing.trial import Trajectory, Trial, tasks_of

__all__ = ["company", "recorded", "strategies", "stretches"]

NEAR, NEARER = 1e-9, 1e-12
ADVICE = (
    "use tensors with a run axis, reduce over examples and never over runs, and let nothing "
    "depend on which other runs there are"
)


def company(trial: Trial, net: str) -> None:
    """A run of a fleet is the run alone.

    Two runs (three with the usual network) train together, one of them alone, and the usual ones
    also in another order.
    """
    usual = net == trial.usual
    together = trial.trajectory if usual else trial.follow(net, (0, 1))
    if together.fleet.network.strategy != net:
        raise Broken(f"the networks were to be called by {net}: {together.fleet.network.strategy}")
    for runs in ((1,), (2, 0)) if usual else ((1,),):
        states, others = _states(trial, together), _states(trial, trial.follow(net, runs))
        for step, (ours, theirs) in enumerate(zip(states, others, strict=True), 1):
            for index, run in enumerate(runs):
                if found := difference(ours, theirs, (run, index), NEAR):
                    where = "alone" if len(runs) == 1 else "in other company"
                    raise Broken(
                        f"a run of a fleet is not the run {where} after step {step}: {found} "
                        f"({net} network); {ADVICE}"
                    )


def _states(trial: Trial, trajectory: Trajectory) -> list[Mapping[str, Tensor]]:
    """The states after every step and at the end, and then what is predicted."""
    if trajectory.error is not None:
        raise trajectory.error
    fleet = trajectory.fleet
    predicted = {"the prediction": fleet.predict(trial.stream.test(fleet.seeds, 0).x)}
    return [*(snapshot.state for snapshot in trajectory.snapshots), state_of(fleet) | predicted]


def strategies(trial: Trial) -> None:
    """It does not matter whether networks run as one call, under vmap, or one after the other."""
    usual = state_of(trial.end)
    for strategy in ("vmap", "loop"):
        runs = (2, 0)
        fleet = trial.walked(trial.fleet("broadcast", runs, strategy=strategy))
        for index, run in enumerate(runs):
            if found := difference(state_of(fleet), usual, (index, run), NEAR):
                raise Broken(
                    f"networks called by {strategy} end otherwise than as one call: {found}; "
                    f"call networks through step.net and step.model only"
                )


def stretches(trial: Trial) -> None:
    """One long stretch is the same as many short ones."""
    long = trial.walked(trial.fleet(), steps=None)
    if found := difference(state_of(long), state_of(trial.end), within=NEARER):
        raise Broken(
            f"a long stretch does not lead where many short ones do: {found}; keep what a step "
            f"hands to the next in step.state, and nowhere else"
        )


def recorded(trial: Trial) -> None:
    """A step that is recorded and replayed, as on a GPU, is the same step."""
    two = replace(trial, stream=tasks_of(2), epochs=2)
    plain, fast = (
        two.walked(two.fleet(runs=(0, 1), recorded=way), steps=None) for way in (False, True)
    )
    if "recorded" not in fast.execution:
        raise Broken("its step cannot be recorded: do not read tensors (item, tolist) in it")
    if found := difference(state_of(plain), state_of(fast), within=NEAR):
        raise Broken(
            f"a recorded step is another one: {found}; change tensors of step.state in place, and "
            f"do not count steps in Python"
        )
