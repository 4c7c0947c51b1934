"""Fixtures for work that is stopped and continued."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_hang() -> Iterator[None]:
    """A test that waits for ever fails instead."""
    if sys.platform == "win32":
        yield
        return

    def give_up(*_: object) -> None:
        raise TimeoutError("nothing happened for a minute")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch of ten is a stretch of its own."""
    monkeypatch.setattr("recollect.train.source.STRETCH", 10)
