"""The loop of the page on the learner survives a step that diverges, with items that wait."""

from __future__ import annotations

import queue
import re
from pathlib import Path
from typing import Any

import pytest

import recollect

PAGE = Path(__file__).parents[2] / "docs" / "learner.md"


class Service:
    """Stands for a learner of which one call fails."""

    def __init__(self, error: Exception) -> None:
        self.error, self.seen = error, 0

    def observe(self, x: object, y: object) -> None:
        if x == "bad":
            raise self.error
        self.seen += 1


@pytest.mark.parametrize(
    "error",
    [
        recollect.DivergedError("not finite"), recollect.InputError("no"),
        recollect.DataError("learned, but not saved"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_the_documented_loop_goes_on_after_an_error(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r"^def learn\(\) -> None:\n(?:(?:    .*)?\n)+", PAGE.read_text(), re.M)
    assert found
    names: dict[str, Any] = {"recollect": recollect, "labelled": queue.Queue()}
    names["service"] = Service(error)
    exec(found[0], names)
    for item in [("good", 1)] * 20 + [("bad", 1)] + [("good", 1)] * 149:
        names["labelled"].put(item)
    names["labelled"].put(None)
    names["learn"]()
    assert names["service"].seen == 169
    assert capsys.readouterr().out == f"skipped: {error}\n"
