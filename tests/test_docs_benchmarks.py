"""The pages of the benchmarks: each has one, and the table says what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from recollect.experiments.paper import printed
from recollect.streams import BENCHMARKS, Benchmark, twin
from recollect.streams.data import entry

PAGES = Path(__file__).parents[1] / "docs" / "benchmarks"
SETTINGS = {"class": "Class-IL, Task-IL", "domain": "Domain-IL", "general": "General CL"}
NETWORKS = {"mlp": "MLP", "resnet18": "ResNet-18"}
WITHOUT_NINES = {"mnist": ("54,051", "8,991"), "digits": ("1,294", "323")}


def table() -> dict[str, list[str]]:
    """The cells of each row of the index, by the name of its benchmark."""
    lines = (PAGES / "README.md").read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line[:3] == "| ["]
    return {row[0].split("`")[1]: row for row in rows}


def expected(known: Benchmark) -> list[str]:
    """What the row of a benchmark must say, after its name."""
    data = entry(known.dataset)
    general = known.setting == "general"
    counts = f"{data.train:,}", f"{data.test:,}"
    other = twin(known)
    return [
        str(data.classes - general),
        "-" if general else str(known.tasks),
        SETTINGS[known.setting],
        *(WITHOUT_NINES[known.dataset] if general else counts),
        NETWORKS[known.network],
        str(known.batch),
        str(known.replay),
        str(known.epochs),
        "" if known.stands_in else f"`{other.name}`" if other else "-",
    ]


def test_the_index_has_every_benchmark_once() -> None:
    assert list(table()) == list(BENCHMARKS)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_row_says_what_the_code_says(name: str) -> None:
    assert table()[name][1:] == expected(BENCHMARKS[name])


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_row_leads_to_a_page_with_picture_command_and_results(name: str) -> None:
    known = BENCHMARKS[name]
    shown = known.stands_in or name
    link = table()[name][0].split("(")[1].split(")")[0].split("#")[0]
    assert link == f"{shown}.md"
    text = (PAGES / link).read_text("utf-8")
    pictures = [line.split("(")[1].rstrip(")") for line in text.splitlines() if line[:2] == "!["]
    assert pictures
    for picture in pictures:
        assert (PAGES / picture).stat().st_size < 120_000
    assert f"recollect run {shown} " in text or f"recollect reproduce {shown} " in text
    assert f"recollect figures {shown}" in text
    assert not printed(known.paper) or f"(../results/{shown}.md" in text
    if known.stands_in:
        assert f"## The twin: {name}" in text


def test_the_counts_without_nines_are_those_of_the_stream() -> None:
    stream = BENCHMARKS["digits-360"].stream()
    counts = sum(stream.parts(0)), stream.test(torch.tensor([0]), 0).y.shape[1]
    assert tuple(f"{count:,}" for count in counts) == WITHOUT_NINES["digits"]
