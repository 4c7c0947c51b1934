"""The marks of the table of requirements.

Each comes from a declaration of the method. That declarations are true is proven for every method
by `recollect.testing`: what a run holds with more tasks, how it learns without boundaries, whether
it looks at examples again, whether it answers otherwise when it is told another task.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from recollect import MLP
from recollect.errors import InputError
from recollect.methods import METHODS, requirements
from recollect.streams import TaskStream
from recollect.train import Job, Run

NOT_MET = {
    "constant memory": {"joint", "pnn", "hat", "hal"},
    "no task boundaries": {
        "oewc", "ewc", "si", "lwf", "pc", "pnn", "packnet", "hat", "gem", "agem", "icarl", "fdr",
        "hal", "x-der",
    },
    "online learning": {"joint", "oewc", "ewc", "lwf", "pc", "packnet", "icarl", "fdr", "x-der"},
    "no test time oracle": {"pnn", "packnet", "hat"},
}  # fmt: skip


@pytest.mark.parametrize("requirement", NOT_MET)
def test_which_methods_do_not_meet_a_requirement(requirement: str) -> None:
    found = {name for name, kind in METHODS.items() if not requirements(kind)[requirement]}
    assert found == NOT_MET[requirement]


@pytest.mark.parametrize("name", [n for n, kind in METHODS.items() if not kind.needs.all_data])
def test_a_stream_without_boundaries_is_refused_in_a_sentence(
    name: str, toy_stream: TaskStream
) -> None:
    """By the methods that need them, and by no others."""
    kind = METHODS[name]
    job = Job(stream=replace(toy_stream, boundaries=False), runs=(Run(0, 0.1, kind()),), batch=4,
              replay=4, buffer=40, epochs=1, network=partial(MLP, 16, 4))  # fmt: skip
    if name not in NOT_MET["no task boundaries"]:
        job.check()
        return
    with pytest.raises(InputError, match=r"needs task boundaries, which toy does not have"):
        job.check()
