"""How the runs of a job are spread over fleets."""

from __future__ import annotations

import pytest

from recollect import DERpp
from recollect.experiments.plan import plan
from recollect.streams import benchmark
from recollect.train import Job
from recollect.train.parallel import LARGEST_FLEET, _pieces


def job(seeds: int, batch: int) -> Job:
    values = {"bs": batch, "mbs": batch}
    stream = benchmark("seq-digits").stream()
    (only,) = plan(DERpp, seeds=range(seeds), buffer=20, values=values).jobs(stream)
    return only


@pytest.mark.parametrize(
    ("seeds", "batch", "workers", "sizes"),
    [
        (10, 10, 2, [5, 5]),
        (10, 10, 4, [3, 3, 2, 2]),
        (1, 10, 2, [1]),
        (40, 10, 1, [14, 13, 13]),
        (10, 128, 2, [4, 3, 3]),
        (3, 1000, 1, [1, 1, 1]),
    ],
)
def test_one_job_is_spread_evenly(seeds: int, batch: int, workers: int, sizes: list[int]) -> None:
    whole = job(seeds, batch)
    pieces = _pieces(whole, [whole], workers)
    assert [len(piece.runs) for piece in pieces] == sizes
    assert max(sizes) <= LARGEST_FLEET
    assert tuple(run for piece in pieces for run in piece.runs) == whole.runs


def test_many_jobs_keep_their_fleets_whole() -> None:
    jobs = [job(10, 10) for _ in range(4)]
    assert [len(_pieces(each, jobs, 2)) for each in jobs] == [1, 1, 1, 1]
