"""Promises about fleets: company, and how steps are carried out, change nothing."""

from __future__ import annotations

from recollect.core.network import Strategy
from recollect.testing.check import Broken
from recollect.testing.same import difference, state
from recollect.testing.trial import Trial, tasks_of

__all__ = ["company", "recorded", "strategies", "stretches"]

NEAR, NEARER = 1e-9, 1e-12
ADVICE = (
    "keep to tensors with a run axis, reduce over examples and never over runs, and let nothing "
    "depend on which other runs there are"
)


def company(trial: Trial, net: str) -> None:
    """Runs together; one of them alone; of three, the other two in another order."""
    usual = net == trial.usual
    together = trial.course if usual else trial.watch(net, (0, 1))
    if together.fleet.network.strategy != net:
        raise Broken(f"the networks were to run by {net}: {together.fleet.network.strategy}")
    for runs in ((1,), (2, 0)) if usual else ((1,),):
        others = trial.watch(net, runs)
        for way in (together, others):
            if way.error is not None:
                raise way.error
        for step, (ours, theirs) in enumerate(zip(together.states, others.states, strict=True), 1):
            for place, run in enumerate(runs):
                found = difference(ours, theirs, (run, place), NEAR)
                if found:
                    with_whom = "alone" if len(runs) == 1 else "in other company"
                    raise Broken(
                        f"a run of a fleet is not the run {with_whom} after "
                        f"step {step}: {found} ({net} network); {ADVICE}"
                    )


def strategies(trial: Trial) -> None:
    """The same network as one call, under vmap, and one run after the other."""
    usual = state(trial.end)
    others: tuple[Strategy, ...] = ("vmap", "loop")
    for strategy in others:
        runs = (2, 0)
        fleet = trial.walked(trial.fleet("broadcast", runs, strategy=strategy))
        for place, run in enumerate(runs):
            if found := difference(state(fleet), usual, (place, run), NEAR):
                raise Broken(
                    f"networks called by {strategy} end otherwise than as one call: {found}; "
                    f"call networks through step.net and step.features only"
                )


def stretches(trial: Trial) -> None:
    """A stretch as one call of learn, and the same one batch at a time."""
    long = trial.walked(trial.fleet(), steps=None)
    if found := difference(state(long), state(trial.end), within=NEARER):
        raise Broken(
            f"a long stretch does not lead where many short ones do: {found}; keep what a step "
            f"hands to the next in `own`, and nowhere else"
        )


def recorded(trial: Trial) -> None:
    """A step that is recorded and replayed, as on a GPU."""
    two = tasks_of(2)
    plain, fast = (trial.fleet(runs=(0, 1), stream=two, recorded=way) for way in (False, True))
    for fleet in (plain, fast):
        trial.walked(fleet, epochs=2, steps=None, stream=two)
    if "recorded" not in fast.execution:
        raise Broken("its step cannot be recorded: do not read tensors (item, tolist) in it")
    if found := difference(state(plain), state(fast), within=NEAR):
        raise Broken(
            f"a recorded step is another one: {found}; change tensors of `own` in place, and do "
            f"not count steps in Python"
        )
