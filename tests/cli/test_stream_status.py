"""The status of a stream in a log: what has changed, with the rate of late."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from recollect import ER, MLP, Learner
from recollect.cli.stream_screen import showing
from recollect.feeds import open_feed
from recollect.live import LiveStream


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Live:
    """What a status line shows of a stream."""

    late = None

    def __init__(self, learner: Learner | None) -> None:
        self.learner, self.count, self.new = learner, 0, 0


@pytest.fixture
def learner(tmp_path: Path) -> Learner:
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{n},{'xy'[n % 2]}\n" for n in range(20)))
    found = LiveStream(Learner(MLP(1, 1), ER()), open_feed(path), tmp_path / "state").run()
    assert found is not None
    return found


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_nothing_is_printed_while_nothing_arrives(
    learner: Learner, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, live = Clock(), Live(None)
    with showing(1000, clock) as report:

        def wait(seconds: int) -> None:
            for _ in range(seconds * 10):
                clock.now += 0.1
                report(cast(LiveStream, live))

        wait(3600)
        assert lines(capsys) == ["recollect: waiting for the first example"]
        live.learner = learner
        live.count = live.new = 10
        wait(3600)
        (line,) = lines(capsys)
        assert line.startswith("recollect: 20 examples · 1/s · accuracy")


def test_the_rate_is_that_of_the_last_seconds(
    learner: Learner, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, live = Clock(), Live(learner)
    with showing(1000, clock) as report:
        live.count = 1
        for second in range(60):
            clock.now += 1
            live.new += 500 if second < 30 else 20
            learner.observe([[float(second)]], ["x"])
            report(cast(LiveStream, live))
    rates = [found[1] for line in lines(capsys) if (found := re.search(r"· (\d+)/s", line))]
    assert rates == ["500", "500", "500", "20", "20", "20"]
