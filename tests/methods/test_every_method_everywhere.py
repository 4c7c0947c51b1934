"""Every method on every kind of stream that its declarations allow, and refused on the others.

That it learns when tasks bring new classes is among the checks of `recollect.testing`.
"""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import recollect
from recollect.errors import InputError
from recollect.methods import METHODS
from recollect.streams import TaskStream

COUNT, CLASSES, TASKS = 120, 4, 2


@pytest.fixture(scope="module")
def streams() -> dict[str, TaskStream]:
    """New classes, new domains, and examples as they come; four blobs that can be learnt."""
    generator = np.random.default_rng(0)
    y = np.arange(COUNT) % CLASSES
    x = (3 * np.eye(CLASSES, 6)[y] + generator.normal(size=(COUNT, 6))).astype(np.float32)
    domain = np.arange(COUNT) * TASKS // COUNT
    return {
        "class": recollect.from_arrays(x, y, scenario="class", tasks=TASKS),
        "domain": recollect.from_arrays(x, y, scenario="domain", task_ids=domain),
        "general": recollect.from_arrays(x, y, scenario="arrival"),
    }


def refused(name: str, setting: str) -> str | None:
    """What a refusal says, or None where the method must run."""
    kind = METHODS[name]
    if kind.needs.boundaries and setting == "general":
        return "needs task boundaries"
    if kind.needs.task_id:
        return "needs the task of an example to predict"
    return None


@pytest.mark.parametrize("setting", ["domain", "general"])
@pytest.mark.parametrize("name", METHODS)
def test_it_learns_or_is_refused_in_a_sentence(
    name: str, setting: str, streams: dict[str, TaskStream]
) -> None:
    buffer = 20 if METHODS[name].replay else None

    def run() -> recollect.Results:
        return recollect.run(
            streams[setting], name, buffer=buffer, seeds=2, lr=0.05, workers=1, epochs=3
        )

    if sentence := refused(name, setting):
        with pytest.raises(InputError, match=sentence):
            run()
        return
    for result in run():
        assert not result.diverged
        assert result.accuracy[setting] > 100 / CLASSES + 10


@pytest.mark.parametrize("name", ["lwf", "icarl", "derpp"])
def test_a_head_without_bias_will_do(name: str, streams: dict[str, TaskStream]) -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, CLASSES, bias=False))

    buffer = 20 if METHODS[name].replay else None
    (result,) = recollect.run(
        streams["class"],
        name,
        buffer=buffer,
        seeds=1,
        lr=0.05,
        workers=1,
        epochs=3,
        network=network,
    )
    assert result.accuracy["task"] > 60
