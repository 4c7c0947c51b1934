"""Checks of runs: reproducibility, independence of the fleet, restoring, and learning."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, uniform
from recollect.errors import InputError
from recollect.learner import Learner
from recollect.nets import MLP
from recollect.streams.arrays import from_arrays
from recollect.testing.check import Broken
from recollect.testing.compare import difference, reseeded_generators, state_of
from recollect.testing.trial import SEEDS, Trajectory, Trial, tasks_of
from recollect.train import Fleet, Job, Run, train

NEAR, NEARER = 1e-9, 1e-12
CLASSES, FEATURES, ABOVE_CHANCE = 4, 6, 10.0
ALONE = (
    "use tensors with a run axis, reduce over examples but never over runs, and make nothing "
    "depend on other runs"
)


def steps(trial: Trial) -> None:
    """A fleet can train it: losses are `[K]`, and runs do not depend on each other."""
    refused = trial.refusals.get(trial.usual)
    if refused:
        raise Broken(f"it refuses every network of these checks, such as an MLP: {refused}")
    if isinstance(trial.trajectory.error, InputError):  # a fleet checks its first steps
        raise Broken(str(trial.trajectory.error))


def finite(trial: Trial) -> None:
    """It trains: all values are finite, and the weights change."""
    for step, snapshot in enumerate(trial.trajectory.snapshots, 1):
        for name, tensor in {"the loss": snapshot.loss, **snapshot.state}.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise Broken(
                    f"after step {step}, {name} is not finite: look for a logarithm or square root "
                    f"of zero, a division by zero, or a learning rate that is too high"
                )
    before, after = state_of(trial.fleet()), state_of(trial.end)
    learned = [name for name in before if name.startswith(("weights.", "state."))]
    if all(torch.equal(before[name], after[name]) for name in learned):
        raise Broken(
            "no weight has changed: `update` must call step.model.descend, or `loss` must have a "
            "gradient"
        )


def seeds(trial: Trial) -> None:
    """The same seed gives the same result, bit for bit, and another seed gives another."""
    snapshots = trial.trajectory.snapshots
    again = trial.fleet()
    for _, before in zip(trial.walk(again), snapshots[: len(snapshots) // 2], strict=False):
        if found := difference(state_of(again), before.state):
            raise Broken(
                f"the same runs give another result the second time: {found}; do not depend on a "
                f"random generator, the time, or the state of an earlier run"
            )
    other = trial.fleet(seeds=[seed + 1 for seed in SEEDS])
    next(trial.walk(other))
    for run in range(other.runs):
        if not difference(state_of(other), snapshots[0].state, (run, run)):
            raise Broken("another seed gives the same run: nothing depends on the seed")


def generator(trial: Trial) -> None:
    """No global random generator is used."""
    ends = []
    for _ in range(2):
        with reseeded_generators() as used:
            ends.append(state_of(trial.walked(trial.fleet())))
            if name := used():
                raise Broken(
                    f"it draws from {name}: use step.random(n), or hash with "
                    f"recollect.core.random.bits, so that a run is a function of its seed"
                )
        found = difference(ends[0], state_of(trial.end))
        if not found:
            return
    # If these differ too, the generator is not the reason, and another check fails.
    if not difference(ends[0], ends[1]):
        raise Broken(f"it depends on the state of a global random generator: {found}")


def prediction(trial: Trial) -> None:
    """A prediction is `[K, n, C]` and has no side effects on training."""
    fleet = trial.fleet()
    _predict(trial, fleet)  # before the first step, like training
    for _ in trial.walk(fleet):
        _predict(trial, fleet)
    if found := difference(state_of(fleet), state_of(trial.end)):
        raise Broken(f"predictions change later training: {found}; `predict` must be read-only")


def _predict(trial: Trial, fleet: Fleet) -> None:
    before = state_of(fleet)
    for task in range(trial.stream.tasks):
        x = trial.stream.test(fleet.seeds, task).x
        first, second = (fleet.predict(x, task) for _ in range(2))
        if first.shape != (fleet.runs, x.shape[1], trial.stream.classes):
            raise Broken(
                f"its predictions have the shape {list(first.shape)}: return a score for every "
                f"run, example and class, [K, n, C]"
            )
        if bool(first.isnan().any()):
            raise Broken("its predictions are not numbers (NaN), so the first class is predicted")
        if not torch.equal(first, second):
            raise Broken("a second call of `predict` differs: it must be a pure function")
        fleet.logits(x)
    if found := difference(state_of(fleet), before):
        raise Broken(f"a prediction changes the run: {found}; `predict` must be read-only")


def company(trial: Trial, net: str) -> None:
    """A run in a fleet gives the same result as the run alone.

    Two runs (three with the usual network) are trained together, then one of them alone, and the
    usual ones also in another order.
    """
    usual = net == trial.usual
    together = trial.trajectory if usual else trial.follow(net, (0, 1))
    if together.fleet.network.strategy != net:
        raise Broken(
            f"its networks are called with the strategy {together.fleet.network.strategy!r}, but "
            f"{net!r} was expected"
        )
    for runs in ((1,), (2, 0)) if usual else ((1,),):
        states, others = _states(trial, together), _states(trial, trial.follow(net, runs))
        for step, (ours, theirs) in enumerate(zip(states, others, strict=True), 1):
            for index, run in enumerate(runs):
                if found := difference(ours, theirs, (run, index), NEAR):
                    where = "alone" if len(runs) == 1 else "with other runs"
                    raise Broken(
                        f"a run of a fleet differs from the run {where} after step {step}: {found} "
                        f"({net} network); {ALONE}"
                    )


def _states(trial: Trial, trajectory: Trajectory) -> list[Mapping[str, Tensor]]:
    """The states after every step and at the end, the last one with predictions."""
    if trajectory.error is not None:
        raise trajectory.error
    fleet = trajectory.fleet
    predicted = {"the prediction": fleet.predict(trial.stream.test(fleet.seeds, 0).x)}
    return [*(snapshot.state for snapshot in trajectory.snapshots), state_of(fleet) | predicted]


def strategies(trial: Trial) -> None:
    """Calling the networks by broadcasting, under vmap or one by one gives the same result."""
    usual = state_of(trial.end)
    for strategy in ("vmap", "loop"):
        runs = (2, 0)
        fleet = trial.walked(trial.fleet("broadcast", runs, strategy=strategy))
        for index, run in enumerate(runs):
            if found := difference(state_of(fleet), usual, (index, run), NEAR):
                raise Broken(
                    f"networks called with the strategy {strategy!r} give another result: {found}; "
                    f"call networks through step.net and step.model only"
                )


def stretches(trial: Trial) -> None:
    """Training in one call gives the same result as training step by step."""
    long = trial.walked(trial.fleet(), steps=None)
    if found := difference(state_of(long), state_of(trial.end), within=NEARER):
        raise Broken(
            f"training in one call differs from training step by step: {found}; store what "
            f"persists between steps in step.state only"
        )


def recorded(trial: Trial) -> None:
    """A step that is captured and replayed, as on a GPU, gives the same result."""
    if read := {name for usage in trial.trajectory.usages for name in usage.values}:
        raise Broken(
            f"its step reads the values of tensors ({', '.join(sorted(read))}), as `if loss > 0` "
            f"or item() do: use torch.where or a mask, so that it can be captured and compiled"
        )
    two = replace(trial, stream=tasks_of(2), epochs=2)
    plain, fast = (
        two.walked(two.fleet(runs=(0, 1), recorded=way), steps=None) for way in (False, True)
    )
    if "recorded" not in fast.execution:
        raise Broken(
            "its step cannot be captured: do not read values of tensors (item, tolist) in it"
        )
    if found := difference(state_of(plain), state_of(fast), within=NEAR):
        raise Broken(
            f"a captured step gives another result: {found}; change tensors of step.state in "
            f"place, and do not count steps in Python"
        )


def restored(trial: Trial) -> None:
    """Training continues from saved tensors and the clock."""
    first, second = trial.fleet(), trial.fleet()
    walk = trial.walk(first)
    snapshots = [next(walk) for _ in range(len(trial.trajectory.snapshots) // 2)]
    saved = {name: tensor.clone() for name, tensor in first.tensors().items()}
    second.restore(saved, first.clock)
    trial.walked(second, start=snapshots[-1])
    if found := difference(state_of(second), state_of(trial.end)):
        raise Broken(
            f"saved and restored after step {len(snapshots)}, it gives another result: {found}; "
            f"store what persists in step.state, not in the method or its class"
        )


def learner(trial: Trial) -> None:
    """A learner that was saved and loaded continues like the original."""
    method = trial.methods[0]
    x, y = _blobs(60)
    batches = list(zip(x.split(5), y.split(5), strict=True))  # type: ignore[no-untyped-call]
    memory = 20 if method.replay else None
    made = Learner(
        MLP(FEATURES, CLASSES), method, memory=memory, replay=5, lr=trial.lr, classes=range(CLASSES)
    )
    with tempfile.TemporaryDirectory() as folder:
        here, there = Path(folder) / "here", Path(folder) / "there"
        for some, labels in batches[:6]:
            made.observe(some, labels.tolist())
        made.save(here)
        loaded = Learner.load(here, MLP(FEATURES, CLASSES), method=method)
        for some, labels in batches[6:]:
            losses = [each.observe(some, labels.tolist()) for each in (made, loaded)]
            if losses[0] != losses[1]:
                raise Broken(
                    f"a learner that was loaded from a file has the loss {losses[1]:g}, the "
                    f"original {losses[0]:g}: store what persists in step.state"
                )
        made.save(here)
        loaded.save(there)
        if here.read_bytes() != there.read_bytes():
            raise Broken(
                "a learner that was loaded from a file gives another result: store what persists "
                "in step.state"
            )


def learns(trial: Trial) -> None:
    """Its accuracy is ten points above chance on simple data: four clusters in two tasks."""
    x, y = _blobs(120)
    stream = from_arrays(x, y, tasks=2, name="blobs")
    runs = tuple(Run(seed, trial.lr, trial.methods[0]) for seed in (0, 1))
    replay, buffer = (8, 20) if trial.kind.replay else (0, None)
    batch = trial.kind.needs.batch_size or 8
    job = Job(
        stream, runs, batch=batch, replay=replay, buffer=buffer, epochs=1 if batch == 1 else 3,
        network=partial(MLP, FEATURES, CLASSES, hidden=(32,)),
    )  # fmt: skip
    found = [result.accuracy["task"] for result in train(job)]
    if min(found) <= 50 + ABOVE_CHANCE:
        raise Broken(
            f"its accuracy is {min(found):.0f} % on linearly separable clusters, where chance is "
            f"50 %: check the sign of the loss, or pass another learning rate than {trial.lr:g} "
            f"(lr=...)"
        )


def _blobs(count: int) -> tuple[Tensor, Tensor]:
    """Clusters around four points, x `[n, 6]` and y `[n]`."""
    y = torch.arange(count) % CLASSES
    words = bits(torch.tensor([0]), Purpose.PIXELS, torch.arange(3 * count * FEATURES))
    noise = uniform(words).view(3, count, FEATURES).sum(0) - 1.5  # approximately normal
    return (3 * torch.eye(CLASSES, FEATURES)[y] + 2 * noise).float(), y
