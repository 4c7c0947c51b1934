"""A new file under the name of one that was read before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Stream = Callable[..., Any]
Told = Callable[[str | Path], list[dict[str, Any]]]

OUT = ("--predictions", "p.jsonl")


@pytest.mark.parametrize("follow", [(), ("--follow", "--idle", "0.2s")])
def test_a_new_file_under_an_old_name_is_not_taken_for_the_old_one(
    follow: tuple[str, ...], stream: Stream, told: Told
) -> None:
    def rows(start: int, stop: int) -> str:
        return "".join(f"{n:05},{n % 7},{'xy'[n % 2]}\n" for n in range(start, stop))

    path = Path("current.csv")
    path.write_text("a,b,kind\n" + rows(0, 100))
    assert stream(path, *OUT, *follow).status == 0
    path.rename("old.csv")
    Path("new.csv").write_text("a,b,kind\n" + rows(200, 350))
    Path("new.csv").rename(path)
    said = stream(path, *OUT, *follow)
    if follow:
        assert said.status == 0
        assert "other lines than those that were read before: reading it from its" in said.err
        assert len(told("p.jsonl")) == 250
        return
    assert said.status == 2
    assert "current.csv has other lines than those that were read before" in said.err
    assert "(--fresh starts over); to learn from it too, rename it and pass the" in said.err
    path.rename("next.csv")
    (folder,) = Path(".recollect").iterdir()
    assert stream("next.csv", *OUT, "--label", "kind", "--fresh").status == 2, "another state"
    said = stream("next.csv", *OUT, "--checkpoint", folder)
    assert said.status == 0
    assert [line["n"] for line in told("p.jsonl")] == [*range(1, 251)]
