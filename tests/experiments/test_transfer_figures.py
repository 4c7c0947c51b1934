"""The paper's transfer and forgetting: which of its figures its own accuracies rule out.

docs/results/transfer.md refers to these.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recollect.experiments import paper
from recollect.experiments.files import read_json
from recollect.methods import METHODS
from recollect.train.evaluate import scores

TASKS = {"seq-mnist": 5, "perm-mnist": 20, "rot-mnist": 20}
ROUNDING = 0.02
RESULTS = Path(__file__).parents[2] / "results"

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


def lead(tasks: int, task: tuple[float, float], classes: tuple[float, float]) -> float:
    """By how much Task-IL can have led Class-IL just after learning, at most, on average.

    Given (accuracy, backward transfer) in both settings. What is right among all classes is right
    among those of its task, so this is not negative if all four are of the same runs.
    """
    return tasks / (tasks - 1) * (task[0] - classes[0]) - (task[1] - classes[1])


@given(
    tasks=st.integers(2, 6),
    numbers=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1)), min_size=36, max_size=36),
)
def test_class_il_is_never_ahead_of_task_il(tasks: int, numbers: list[tuple[float, float]]) -> None:
    task, share = np.array(numbers[: tasks**2]).T.reshape(2, tasks, tasks)
    both = [scores(matrix, np.zeros(tasks)) for matrix in (task, task * share)]
    assert both[0].bwt is not None
    assert both[1].bwt is not None
    least = lead(tasks, *((each.accuracy, each.bwt) for each in both))  # type: ignore[arg-type]
    assert least >= -1e-9


def test_nine_rows_of_the_paper_do_not_belong_to_the_same_runs_in_both_settings() -> None:
    tasks = {"seq-mnist": 5, "seq-cifar10": 5, "seq-tiny-imagenet": 10}
    found = {}
    for benchmark, count in tasks.items():
        for method in METHODS:
            for buffer in (None, *paper.buffers(benchmark, method)):
                cells = [
                    paper.published(benchmark, setting, method, buffer, metric)
                    for setting in ("task", "class")
                    for metric in ("accuracy", "bwt")
                ]
                if all(cells):
                    means = [cell.mean for cell in cells if cell is not None]
                    least = lead(count, (means[0], means[1]), (means[2], means[3]))
                    found[benchmark, method, buffer] = round(least, 2)
    assert len(found) == 65
    assert {row: least for row, least in found.items() if least < -2 * ROUNDING} == {
        ("seq-cifar10", "oewc", None): -1.51, ("seq-cifar10", "lwf", None): -9.53,
        ("seq-cifar10", "fdr", 200): -3.91, ("seq-cifar10", "fdr", 500): -0.09,
        ("seq-cifar10", "fdr", 5120): -1.48, ("seq-cifar10", "gss", 200): -4.53,
        ("seq-cifar10", "gss", 500): -3.54, ("seq-cifar10", "gss", 5120): -18.08,
        ("seq-cifar10", "hal", 500): -3.36,
    }  # fmt: skip


def test_none_of_our_runs_has_task_il_behind_class_il() -> None:
    found = []
    for file in sorted(RESULTS.glob("seq-*.jsonl")):
        for run in read_json(file):
            task, classes = (run.bwt.get(setting) for setting in ("task", "class"))
            if task is not None and classes is not None:
                both = (run.accuracy["task"], task), (run.accuracy["class"], classes)
                found.append(lead(len(run.matrix["task"]), *both))
    assert len(found) > 400
    assert min(found) > -0.01, "scores are rounded to four decimals"


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
