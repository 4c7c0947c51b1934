"""The paper's transfer and forgetting: which of its figures its own accuracies rule out.

docs/results/transfer.md refers to these. Nothing here is about our runs.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recollect.experiments import paper
from recollect.methods import METHODS
from recollect.train.evaluate import scores

TASKS = {"seq-mnist": 5, "perm-mnist": 20, "rot-mnist": 20}
ROUNDING = 0.02

Figure = tuple[str, str, str, int | None, str]


def most_lost(accuracy: float, tasks: int) -> float:
    """The most that runs with this final accuracy can have lost on a task, on average.

    Tasks can have had 100 percent, and so can the last one, which is not among the earlier ones.
    """
    return 100 - (tasks * accuracy - 100) / (tasks - 1)


@given(
    tasks=st.integers(2, 6),
    numbers=st.lists(st.floats(0, 100), min_size=36, max_size=36),
)
def test_no_run_loses_more_than_it_can_have_had(tasks: int, numbers: list[float]) -> None:
    matrix = np.array(numbers[: tasks**2]).reshape(tasks, tasks)
    found = scores(matrix, np.zeros(tasks))
    assert found.bwt is not None
    assert found.forgetting is not None
    most = most_lost(found.accuracy, tasks)
    assert max(0.0, -found.bwt) <= found.forgetting + 1e-9 <= most + 2e-9


def figures() -> list[Figure]:
    """Every backward transfer and forgetting that the paper has on MNIST."""
    return [
        (benchmark, setting, method, buffer, metric)
        for benchmark in TASKS
        for setting in ("class", "task", "domain")
        for method in METHODS
        for buffer in (None, *paper.buffers(benchmark, method))
        for metric in ("bwt", "forgetting")
        if paper.published(benchmark, setting, method, buffer, metric)
    ]


def mean(figure: Figure, metric: str) -> float:
    found = paper.published(*figure[:4], metric)
    assert found is not None
    return found.mean


def ruled_out(figure: Figure) -> bool:
    """Whether runs with the paper's accuracy cannot have this figure."""
    loss = abs(mean(figure, figure[4]))
    least = -mean(figure, "bwt")
    most = most_lost(mean(figure, "accuracy"), TASKS[figure[0]])
    return not least - ROUNDING <= loss <= most + ROUNDING


def test_twenty_of_the_papers_figures_do_not_go_with_its_accuracies() -> None:
    assert len(figures()) == 246
    found = [figure for figure in figures() if ruled_out(figure)]
    both, alone = ("bwt", "forgetting"), ("forgetting",)
    expected = {
        ("seq-mnist", "si", None): alone, ("seq-mnist", "lwf", None): alone,
        ("perm-mnist", "oewc", None): both, ("perm-mnist", "gss", 200): both,
        ("perm-mnist", "gss", 5120): both, ("perm-mnist", "hal", 200): alone,
        ("perm-mnist", "hal", 500): alone, ("perm-mnist", "hal", 5120): alone,
        ("rot-mnist", "oewc", None): both, ("rot-mnist", "agem", 200): both,
        ("rot-mnist", "gss", 5120): both, ("rot-mnist", "hal", 200): alone,
        ("rot-mnist", "hal", 500): alone, ("rot-mnist", "hal", 5120): alone,
    }  # fmt: skip
    assert {(b, m, size, metric) for b, _, m, size, metric in found} == {
        (*row, metric) for row, metrics in expected.items() for metric in metrics
    }
    assert len(found) == 20


def test_one_forgetting_is_printed_for_three_methods_that_differ() -> None:
    rows: list[Figure] = [("seq-mnist", "task", m, None, "bwt") for m in ("sgd", "si", "lwf")]
    assert [mean(row, "forgetting") for row in rows] == [5.15, 5.15, 5.15]
    assert [mean(row, "bwt") for row in rows] == [-4.98, -3.46, -6.21]


def learnt(accuracy: float, bwt: float, tasks: int) -> float:
    """The mean accuracy just after a task was learnt, if the last task is like the others."""
    return accuracy - bwt * (tasks - 1) / tasks


def test_hals_forgetting_is_the_accuracy_of_the_runs_that_its_transfer_is_of() -> None:
    """Its row with 5120 and the one of GSS are exchanged; so read, all buffers learn alike."""
    for name in ("perm-mnist", "rot-mnist"):
        runs: dict[str, list[float]] = {"accuracy": [], "forgetting": []}
        for buffer, method in ((200, "hal"), (500, "hal"), (5120, "gss")):
            hal, cell = (name, "domain", "hal", buffer, "bwt"), (name, "domain", method, buffer, "")
            bwt = mean(hal, "bwt")
            runs["accuracy"].append(learnt(mean(hal, "accuracy"), bwt, TASKS[name]))
            runs["forgetting"].append(learnt(mean(cell, "forgetting"), bwt, TASKS[name]))
        assert max(runs["forgetting"]) - min(runs["forgetting"]) < 0.4
        assert max(runs["accuracy"]) - min(runs["accuracy"]) > 3.5
        swapped = mean((name, "domain", "hal", 5120, ""), "forgetting")
        assert 0 <= swapped + mean((name, "domain", "gss", 5120, ""), "bwt") < 0.6
