"""Small networks learn and predict with one thread, and torch's setting stays the user's."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from tests.learner.some_stream import batch
from torch import Tensor, nn

from recollect import DERpp, DivergedError, Learner
from recollect.learner.engine.threads import SMALL, Work, threads_for

SEEN: list[tuple[bool, int]] = []


class Counted(nn.Module):
    """A network that notes the number of threads in every pass."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(4, width), nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        # The learner first tries the network on two copies of an example.
        if not (len(x) == 2 and torch.equal(x[0], x[1])):
            SEEN.append((self.training, torch.get_num_threads()))
        logits: Tensor = self.head(self.first(x))
        return logits


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_a_small_network_has_one_thread_and_the_user_keeps_three() -> None:
    learner = Learner(Counted(5), DERpp())
    SEEN.clear()
    for step in range(3):
        learner.observe(*batch(step))
        assert torch.get_num_threads() == 3
    learner.predict(batch(9)[0])
    assert torch.get_num_threads() == 3
    assert {threads for _, threads in SEEN} == {1}
    assert {training for training, _ in SEEN} == {True, False}


def test_a_step_that_fails_puts_the_setting_back() -> None:
    learner = Learner(Counted(5), DERpp())
    learner.observe(*batch(0))
    with pytest.raises(ValueError, match="shape"):
        learner.observe([[1.0] * 5], [0])
    learner.lr = 1e38
    with pytest.raises(DivergedError, match="finite"):
        list(learner.follow(batch(step) for step in range(1, 4)))
    assert torch.get_num_threads() == 3


def test_a_large_network_keeps_the_users_setting() -> None:
    width = int(SMALL / 3 / 2 / 7 / 5) + 1  # so that five rows are too much
    learner = Learner(Counted(width), DERpp(), lr=1e-9, replay=5)
    SEEN.clear()
    learner.observe(*batch(0))
    learner.predict(batch(9)[0][0])
    assert (True, 3) in SEEN, "a step is large"
    assert SEEN[-1] == (False, 1), "one row is not"


def test_other_threads_keep_theirs() -> None:
    """Those that are there, and those that begin while the setting is another."""
    found: dict[str, list[int]] = {"old": [], "new": []}
    look, looked, over = threading.Event(), threading.Event(), threading.Event()

    def old() -> None:
        found["old"].append(torch.get_num_threads())
        looked.set()
        look.wait(60)
        found["old"].append(torch.get_num_threads())
        over.set()

    thread = threading.Thread(target=old)
    thread.start()
    assert looked.wait(60)
    with threads_for(1.0):
        look.set()
        assert over.wait(60)
        new = threading.Thread(target=lambda: found["new"].append(torch.get_num_threads()))
        new.start()
        new.join(60)
        assert torch.get_num_threads() == 1
    thread.join(60)
    assert found == {"old": [3, 3], "new": [3]}
    assert torch.get_num_threads() == 3


def test_operations_are_counted() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Flatten(), nn.Linear(8 * 36, 5))
    with Work.counted(module, examples=4) as work:
        module(torch.zeros(4, 3, 6, 6))
    assert work.operations == 2 * (36 * 8 * 27 + 8 * 36 * 5)
    assert not any(layer._forward_hooks for layer in module.modules())
