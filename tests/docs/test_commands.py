"""Every command `recollect` in the documentation is one that there is."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest
from tests.docs.pages import FENCE, NAMES, ROOT, blocks

from recollect.cli.main import build_parser
from recollect.methods import every_method, method
from recollect.streams import BENCHMARKS

# Methods that a page shows how to write; without them, their options are unknown.
OF_OTHERS = {
    "weighted-er", "weighted.py:WeightedER", "path/to/weighted.py:WeightedER",
    "mypackage.methods:WeightedER",
}  # fmt: skip


def commands(name: str) -> list[str]:
    """The commands of a page: in blocks of shell, and in prose where more than a name is given."""
    lines = [line for block in blocks(name) for line in block.commands]
    told = [part.strip() for line in lines for part in re.split(r" (?:\||&&) ", line)]
    prose = FENCE.sub("", (ROOT / name).read_text("utf-8"))
    told += [" ".join(code.split()) for code in re.findall(r"`(recollect \w+ [^`]+)`", prose)]
    ours = [line for line in told if line.startswith("recollect ")]
    return [line for line in ours if not OF_OTHERS & {*line.split()} and "--help" not in line]


def parsed(line: str) -> argparse.Namespace:
    """What the command's own parser makes of a line."""
    return build_parser().parse_args(shlex.split(line)[1:])


WITH_COMMANDS = [name for name in NAMES if commands(name)]


def test_there_are_commands() -> None:
    assert sum(len(commands(name)) for name in WITH_COMMANDS) > 100
    assert {"README.md", "docs/stream.md", "docs/experiments.md"} <= {*WITH_COMMANDS}


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_commands_are_understood(name: str) -> None:
    for line in commands(name):
        try:
            chosen = parsed(line)
        except SystemExit:
            pytest.fail(f"{name}: {line}")
        # Words in capitals stand for what a reader chooses.
        for benchmark in several(chosen, "benchmark"):
            assert benchmark.isupper() or benchmark in BENCHMARKS, f"{name}: {line}"
        for kind in several(chosen, "method") + several(chosen, "methods"):
            assert kind.isupper() or method(kind).name in every_method(), f"{name}: {line}"


def several(chosen: argparse.Namespace, option: str) -> list[str]:
    """What was given for an option, as a list."""
    given = getattr(chosen, option, None) or []
    return [given] if isinstance(given, str) else list(given)


@pytest.mark.parametrize(
    "line", ["recollect rum seq-digits er", "recollect run seq-digits er --hops 3"]
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    with pytest.raises(SystemExit):
        parsed(line)
