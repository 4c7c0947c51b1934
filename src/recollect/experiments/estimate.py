"""Estimate the training time of a command before it starts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from recollect.errors import RecollectError
from recollect.train import Job
from recollect.train.devices import one_thread, wait_for
from recollect.train.loop import fleet_of
from recollect.train.source import first_example

WARM, TIMED = 3, 10
RUNS = 5


def seconds_by_method(jobs: Sequence[Job], workers: int) -> dict[str, float]:
    """Estimate the training time of each method in seconds, by timing a few steps of each job.

    Evaluation, and work that a method does between tasks, are not included.
    """
    costs: dict[tuple[object, ...], float] = {}
    found: dict[str, float] = {}
    for job in jobs:
        kind = (job.kind, job.batch, job.replay, min(len(job.runs), RUNS), job.stream.shape)
        if kind not in costs:
            costs[kind] = _step(job)
        side_by_side = 1 if job.device.type == "cuda" else workers
        seconds = costs[kind] * job.total_steps / side_by_side
        found[job.kind.name] = found.get(job.kind.name, 0.0) + seconds
    return found


def _step(job: Job) -> float:
    # All examples are the same; a small learning rate keeps the weights finite over many steps.
    some = replace(job, runs=tuple(replace(run, lr=0.0001) for run in job.runs[:RUNS]))
    runs, batch, stream = some.runs, job.batch, job.stream
    count = (WARM + TIMED) * batch
    example = first_example(stream)
    if example is None:
        return 0.0
    x = example.to(job.device).expand(len(runs), count, *stream.shape).contiguous()
    y = torch.zeros(len(runs), count, dtype=torch.int64, device=job.device)
    try:
        with one_thread():
            fleet = fleet_of(some, compiled=False)
            fleet.learn(x[:, : WARM * batch], y[:, : WARM * batch], batch)
            wait_for(job.device)
            began = time.perf_counter()
            fleet.learn(x[:, WARM * batch :], y[:, WARM * batch :], batch)
            wait_for(job.device)
    except (RecollectError, RuntimeError):
        return 0.0  # a failing estimate must not stop the command
    return (time.perf_counter() - began) / TIMED / len(runs)


def in_words(seconds: float) -> str:
    """Format a duration in words.

    >>> in_words(40), in_words(600), in_words(9000)
    ('about 40 seconds', 'about 10 minutes', 'about 2.5 hours')
    """
    if seconds < 90:
        return f"about {max(round(seconds, -1), 10):.0f} seconds"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours"
