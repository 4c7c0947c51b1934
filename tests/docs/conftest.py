"""What the tests of the documentation share: a process of its own for every page."""

from __future__ import annotations

import json
import multiprocessing
import runpy
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 300

# So that tests and the processes they start can share tests/docs/pages.py.
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))


class Ran(NamedTuple):
    """What a page came to: its exit status, all that it wrote, and what each block printed."""

    status: int | None
    output: str
    printed: dict[int, str]


Runner = Callable[[str, bool], Ran]


@pytest.fixture
def run_page(tmp_path: Path) -> Runner:
    """Run a page in an empty folder: its Python, and if it is run whole its commands."""

    def ran(name: str, whole: bool) -> Ran:
        asked = {"page": str(ROOT / name), "folder": str(tmp_path), "whole": whole}
        script = str(ROOT / "tests" / "docs" / "run_page.py")
        process = context().Process(
            target=runpy.run_path, args=(script, {"ASKED": asked}, "__main__")
        )
        process.start()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
        log, notes = tmp_path / "log.txt", tmp_path / "printed.json"
        output = log.read_text("utf-8") if log.exists() else ""
        noted = json.loads(notes.read_text("utf-8")) if notes.exists() else {}
        printed = {int(number): text for number, text in noted.items()}
        return Ran(process.exitcode, output, printed)

    return ran


@pytest.fixture
def page_files(tmp_path: Path) -> None:
    """Files that pages speak of without making them."""
    rng = np.random.default_rng(7)
    rows = [
        f"{a:.3f},{b:.3f},{c:.3f},{'hot' if a > 0 else 'idle'}\n"
        for a, b, c in rng.normal(size=(60, 3))
    ]
    (tmp_path / "readings.csv").write_text("a,b,c,kind\n" + "".join(rows))
    split = [row.rsplit(",", 1) for row in rows]
    requests = "".join(f"r{n},{x}\n" for n, (x, _) in enumerate(split))
    labels = "".join(f"r{n},{label}" for n, (_, label) in enumerate(split))
    (tmp_path / "requests.csv").write_text(f"request,a,b,c\n{requests}")
    (tmp_path / "labels.csv").write_text(f"request,outcome\n{labels}")


def context() -> SpawnContext | ForkServerContext:
    """Where there is one, a server that imports torch once, and forks for every page."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["recollect.cli.main", "sklearn.datasets"])
    return found
