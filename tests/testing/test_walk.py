"""The kit takes a method through its tasks as training does."""

from __future__ import annotations

from functools import partial

import pytest

from recollect.methods import METHODS
from recollect.testing.compare import difference, state_of
from recollect.testing.trial import BATCH, NETS, SEEDS, Trial
from recollect.train import Job, Run
from recollect.train.loop import Progress


@pytest.mark.parametrize("name", ["derpp", "icarl", "packnet", "joint", "mer"])
def test_a_walk_ends_where_the_training_loop_does(name: str) -> None:
    method = METHODS[name]()
    trial = Trial.of(method, (), 0.05, method.needs.batch_size or BATCH)
    runs = tuple(Run(seed, trial.lr, each) for seed, each in zip(SEEDS, trial.methods, strict=True))
    job = Job(
        trial.stream, runs, batch=trial.batch, replay=6, buffer=12, epochs=1,
        network=partial(NETS[trial.usual], trial.stream.classes),
    )  # fmt: skip
    progress = Progress(job)
    progress.fleet = trial.fleet()  # in double precision, and with rates of its own
    steps = sum(1 for _ in progress.advance())
    assert steps >= job.arriving.tasks
    assert not difference(
        state_of(progress.fleet), state_of(trial.walked(trial.fleet(), steps=None))
    )
    if name in ("icarl", "packnet"):
        asked = [(each.rehearsed, each.more_epochs) for each in trial.trajectory.snapshots]
        assert any(rehearsed or more for rehearsed, more in asked)
