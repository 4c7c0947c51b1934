"""Promises about runs: what they depend on, and what they can be continued from."""

from __future__ import annotations

import tempfile
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
from recollect.testing.generators import other_generators
from recollect.testing.same import difference, state
from recollect.testing.trial import SEEDS, Trial
from recollect.train import Job, Run, train

__all__ = ["finite", "generator", "learner", "learns", "prediction", "restored", "seeds"]

CLASSES, FEATURES, ABOVE_CHANCE = 4, 6, 10.0


def finite(trial: Trial) -> None:
    """It learns at all: losses are `[K]`, everything is a number, and the weights move."""
    refused = trial.refusals.get(trial.usual)
    if refused:
        raise Broken(f"it refuses every network of the kit, such as an MLP: {refused}")
    course = trial.course
    if isinstance(course.error, InputError):
        raise Broken(str(course.error))
    for step, moment in enumerate(course.moments, 1):
        if moment.loss.shape != (len(trial.methods),):
            raise Broken(
                f"its loss has the shape {list(moment.loss.shape)} for {len(trial.methods)} runs: "
                f"return one value per run, [K], such as recollect.cross_entropy does"
            )
        now = {"the loss": moment.loss, **course.states[step - 1]}
        odd = [name for name, tensor in now.items() if not _all_finite(tensor)]
        if odd:
            raise Broken(
                f"after step {step}, {odd[0]} is not finite: look for a logarithm or a root of "
                f"zero, a division by what may be zero, or a rate that is too high"
            )
    before, after = state(trial.fleet()), state(trial.end)
    weights = [name for name in before if name.startswith("weights.")]
    if all(torch.equal(before[name], after[name]) for name in weights):
        raise Broken("no weight has changed: `learn` must step.descend, or `loss` have a gradient")


def _all_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def seeds(trial: Trial) -> None:
    """One seed, one outcome, bit for bit; another seed, another outcome."""
    states = trial.course.states
    again = trial.fleet()
    for _, before in zip(trial.walk(again), states[: len(states) // 2], strict=False):
        if found := difference(state(again), before):
            raise Broken(
                f"the same runs once more go otherwise: {found}; let nothing depend on a random "
                f"generator, the time, or what is left of an earlier run"
            )
    other = trial.fleet(seeds=[seed + 1 for seed in SEEDS])
    next(trial.walk(other))
    for run in range(other.runs):
        if not difference(state(other), states[0], (run, run)):
            raise Broken("another seed leads to the very same run: nothing depends on the seed")


def generator(trial: Trial) -> None:
    """Nothing is drawn from the global random generators."""
    ends = []
    for _ in range(2):
        with other_generators() as used:
            ends.append(state(trial.walked(trial.fleet())))
            if name := used():
                raise Broken(
                    f"it draws from {name}: declare `luck` and use step.luck, or hash with "
                    f"recollect.core.random.bits, so that a run is a function of its seed"
                )
        found = difference(ends[0], state(trial.end))
        if not found:
            return
    # Where these differ too it is not the generator, and another check will tell.
    if not difference(ends[0], ends[1]):
        raise Broken(f"it depends on the state of a global random generator: {found}")


def prediction(trial: Trial) -> None:
    """Being asked changes nothing, now or later."""
    fleet, stream = trial.fleet(), trial.stream
    for moment in trial.walk(fleet):
        before = state(fleet)
        for task in range(moment.task + 1):
            x = stream.test(fleet.seeds, task).x
            answers = [fleet.scores(x, task) for _ in range(2)]
            if answers[0].shape != (fleet.runs, x.shape[1], stream.classes):
                raise Broken(
                    f"its scores have the shape {list(answers[0].shape)}: give one for every run, "
                    f"example and class, [K, n, C]"
                )
            if not torch.equal(*answers):
                raise Broken("asked twice, it gives two answers: `scores` must be a pure function")
            fleet.logits(x)
        if found := difference(state(fleet), before):
            raise Broken(f"a prediction changes the run: {found}; `scores` must only look")
    if found := difference(state(fleet), state(trial.end)):
        raise Broken(f"predictions change what is learned later: {found}; they must only look")


def restored(trial: Trial) -> None:
    """What a fleet's tensors and its clock say is all there is to know."""
    whole = state(trial.end)
    first, second = trial.fleet(), trial.fleet()
    middle = trial.walk(first)
    moments = [next(middle) for _ in range(len(trial.course.moments) // 2)]
    saved = {name: tensor.clone() for name, tensor in first.tensors().items()}
    second.restore(saved, first.clock)
    trial.walked(second, at=moments[-1][:2])
    if found := difference(state(second), whole):
        raise Broken(
            f"saved and restored after step {len(moments)}, it ends otherwise: {found}; keep what "
            f"is to last in `own`, not in the method or its class"
        )


def learner(trial: Trial) -> None:
    """A learner that was saved and loaded continues as the one that was not."""
    method = trial.methods[0]
    x, y = _blobs(60)
    batches = list(zip(x.split(5), y.split(5), strict=True))  # type: ignore[no-untyped-call]
    made = Learner(
        MLP(FEATURES, CLASSES), method, memory=20, replay=5, lr=trial.lr, classes=range(CLASSES)
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
                    f"loaded from a file, a learner has the loss {losses[1]:g} where it had "
                    f"{losses[0]:g}: keep what is to last in `own`"
                )
        made.save(here)
        loaded.save(there)
        if here.read_bytes() != there.read_bytes():
            raise Broken("loaded from a file, a learner ends otherwise: keep everything in `own`")


def learns(trial: Trial) -> None:
    """Four clouds of points, two tasks: told the task, it must beat a coin by ten points."""
    x, y = _blobs(120)
    stream = from_arrays(x, y, tasks=2, name="blobs")
    runs = tuple(Run(seed, trial.lr, trial.methods[0]) for seed in (0, 1))
    uses = trial.kind.uses_memory()
    batch = trial.kind.batch or 8
    job = Job(
        stream, runs, batch=batch, replay=8 if uses else 0, buffer=20 if uses else None,
        epochs=1 if batch == 1 else 3, network=partial(MLP, FEATURES, CLASSES, hidden=(32,)),
    )  # fmt: skip
    found = [result.accuracy["task"] for result in train(job)]
    if min(found) <= 50 + ABOVE_CHANCE:
        raise Broken(
            f"on clouds of points that a line tells apart it is right in {min(found):.0f} % of "
            f"cases, where a coin is in 50 %: is the sign of the loss right? A rate other than "
            f"{trial.lr:g} is passed as lr=..."
        )


def _blobs(count: int) -> tuple[Tensor, Tensor]:
    """Clouds around four corners, x `[n, 6]` and y `[n]`."""
    y = torch.arange(count) % CLASSES
    words = bits(torch.tensor([0]), Purpose.PIXELS, torch.arange(3 * count * FEATURES))
    noise = uniform(words).view(3, count, FEATURES).sum(0) - 1.5  # nearly normal
    return (3 * torch.eye(CLASSES, FEATURES)[y] + 2 * noise).float(), y
