"""Runs the blocks of one page in order, as a reader would; a script for a process of its own.

Python shares one module, `__main__`, whose line numbers are those of the page. Tests without
arguments (`def test_...():`) are called. A block that begins with the name of a file, such as
`# service.py`, is saved under that name. In a page that is run whole, so are the commands
`recollect` and `python FILE` in its shell. What each block prints is noted in `printed.json`.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import re
import runpy
import shlex
import signal
import sys
import types
import warnings
from pathlib import Path

import torch
from tests.docs.pages import Block, blocks_of

from recollect.cli.main import main

SAVED = re.compile(r"# ([\w-]+\.py)\n")


def run(page: Path, whole: bool) -> None:
    """Run a page in the folder where we are; an error ends it, and tells the page's line."""
    module = types.ModuleType("__main__")
    module.__file__ = str(page)
    sys.modules["__main__"] = module
    printed: dict[int, str] = {}
    for number, block in enumerate(blocks_of(page.read_text("utf-8"))):
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                if block.runs:
                    run_python(block, page, module)
                for line in block.commands if whole else []:
                    run_command(line)
        finally:
            printed[number] = said.getvalue()
            print(said.getvalue(), end="", flush=True)
    Path("printed.json").write_text(json.dumps(printed), "utf-8")


def run_python(block: Block, page: Path, module: types.ModuleType) -> None:
    """Run it where the others of its page ran, or save it under the name that it begins with."""
    saved = SAVED.match(block.text)
    if saved:
        Path(saved[1]).write_text(block.text, "utf-8")
    else:
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), vars(module))
        for test in re.findall(r"^def (test_\w+)\(\)", block.text, re.MULTILINE):
            vars(module)[test]()


def run_command(line: str) -> None:
    """Run a command of ours, or a script that the page saved; others are for the reader."""
    words = shlex.split(line)
    if words[0] == "recollect":
        status = main(words[1:])
        assert status == 0, f"{line} ended with {status}"
    elif words[0] == "python":
        said = Path("said.txt")
        said.unlink(missing_ok=True)
        script = multiprocessing.get_context("fork").Process(
            target=run_script, args=(words[1:], said)
        )
        script.start()
        script.join()
        print(said.read_text("utf-8"), end="")
        assert script.exitcode in (0, -signal.SIGKILL), f"{line} ended with {script.exitcode}"


def run_script(words: list[str], said: Path) -> None:
    """Run a script with its arguments as `python` would, but where torch is already imported."""
    with said.open("w", encoding="utf-8") as output, contextlib.redirect_stdout(output):
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def settle(folder: Path) -> None:
    """Everything that is written stays in the folder, and nothing is fetched."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    log = os.open("log.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, sys.__stdout__.fileno())  # type: ignore[union-attr]
    os.dup2(log, sys.__stderr__.fileno())  # type: ignore[union-attr]
    os.environ.update(
        RECOLLECT_CACHE="cache",
        RECOLLECT_OFFLINE="1",
        RECOLLECT_STORE=str(folder / "results.sqlite"),
        OMP_NUM_THREADS="1",
        COLUMNS="120",
    )
    torch.set_num_threads(1)
    warnings.simplefilter("error")


if __name__ == "__main__":
    asked = globals()["ASKED"]  # given by whoever runs this file: page, folder, whole
    settle(Path(asked["folder"]))
    run(Path(asked["page"]), asked["whole"])
