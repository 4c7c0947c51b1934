"""How long the single-pass tables will take, said before they are trained."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch

from recollect.errors import DataError
from recollect.experiments.estimate import in_words, seconds_by_method
from recollect.experiments.plan import plan
from recollect.methods import method
from recollect.streams import benchmark
from recollect.train import Job, device_named
from recollect.train.devices import cores, in_half

__all__ = ["Asked", "say_how_long"]


@final
@dataclass(frozen=True)
class Asked:
    """A method that is trained at a buffer with all combinations of some values."""

    method: str
    buffer: int | None
    values: Mapping[str, Any]
    seeds: int
    epochs: int = 1

    def jobs(self, name: str, device: torch.device) -> list[Job]:
        """The jobs that this is on a benchmark."""
        known = benchmark(name)
        found = plan(
            method(self.method), benchmark=known, buffer=self.buffer, seeds=self.seeds,
            values=self.values, epochs=self.epochs,
        )  # fmt: skip
        return found.jobs(known.stream(), None, device, in_half("auto", device))


def say_how_long(name: str, asked: Sequence[Asked]) -> None:
    """Print how many runs are left, and about how long they take on this machine."""
    device = device_named("auto")
    try:
        jobs = [job for each in asked for job in each.jobs(name, device)]
    except DataError:
        return  # training says what is missing
    runs = sum(len(job.runs) for job in jobs)
    if device.type == "cpu" and benchmark(name).network != "mlp":
        said = "days without a GPU"  # timing a few steps of each method would take an hour
    else:
        said = in_words(sum(seconds_by_method(jobs, cores()).values()))
    print(f"{name}: {runs} runs to train, {said}, without evaluation", file=sys.stderr)
