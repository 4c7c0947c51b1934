"""The paper as data: figures, the hyper-parameters behind them, and the rule for comparing."""

from __future__ import annotations

import csv
from importlib import resources

import pytest

from recollect.experiments import paper
from recollect.experiments.paper import Published
from recollect.methods import METHODS, hyperparameters, symbol
from recollect.streams import BENCHMARKS

OURS = [each for each in BENCHMARKS.values() if each.dataset == "mnist"]
CELLS = [
    (each.name, name, buffer)
    for each in OURS
    for name, kind in METHODS.items()
    for buffer in (paper.buffers(each.name, name) if kind.replay else (None,))
    if buffer or name == "joint" or paper.has(each.name, name, "accuracy")
]


@pytest.mark.parametrize(
    ("key", "figure"),
    [
        # Checked by eye against the tables of the paper's source.
        (("seq-mnist", "class", "derpp", 200), (85.61, 1.40)),
        (("seq-mnist", "task", "er", 500), (99.04, 0.18)),
        (("seq-mnist", "class", "joint", None), (95.57, 0.24)),
        (("perm-mnist", "domain", "der", 5120), (91.66, 0.11)),
        (("rot-mnist", "domain", "sgd", None), (67.66, 8.53)),
        (("mnist-360", "general", "derpp", 1000), (76.03, 1.61)),
        (("mnist-360", "general", "er", 200), (49.27, 2.25)),
        (("seq-mnist", "class", "sgd", None, "bwt"), (-99.10, 0.55)),
        (("rot-mnist", "domain", "er", 200, "fwt"), (66.79, 0.05)),
        (("seq-mnist", "task", "derpp", 5120, "forgetting"), (0.23, 0.06)),
    ],
)
def test_figures_are_those_of_the_paper(
    key: tuple[str, str, str, int | None], figure: tuple[float, float]
) -> None:
    assert paper.published(*key) == Published(*figure)


@pytest.mark.parametrize(
    "key",
    [
        ("seq-mnist", "class", "derpp", 201),
        ("seq-mnist", "class", "derpp", None),
        ("seq-mnist", "domain", "derpp", 200),
        ("seq-mnist", "class", "derpp", 200, "speed"),
        ("seq-digits", "class", "derpp", 200),
        ("mnist-360", "general", "joint", None),
    ],
)
def test_there_is_no_figure_that_the_paper_does_not_print(
    key: tuple[str, str, str, int | None],
) -> None:
    assert paper.published(*key) is None


def test_the_buffers_of_the_tables() -> None:
    assert paper.buffers("seq-mnist", "derpp") == (200, 500, 5120)
    assert paper.buffers("mnist-360", "der") == (200, 500, 1000)
    assert paper.buffers("seq-mnist", "sgd") == ()
    assert paper.buffers("nothing", "er") == ()


@pytest.mark.parametrize(
    ("key", "chosen"),
    [
        (("seq-mnist", "er", 200), {"lr": 0.01}),
        (("perm-mnist", "derpp", 500), {"lr": 0.2, "alpha": 1.0, "beta": 0.5}),
        (("rot-mnist", "der", 5120), {"lr": 0.2, "alpha": 0.5}),
        (("mnist-360", "der", 200), {"lr": 0.1, "bs": 16, "mbs": 64, "alpha": 0.5}),
        (("mnist-360", "er", 1000), {"lr": 0.2, "bs": 4, "mbs": 16}),
        (("mnist-360", "sgd", None), {"lr": 0.1, "bs": 4}),
        (("seq-mnist", "joint", None), {"lr": 0.1}),
        (("mnist-360", "joint", None), {"lr": 0.1, "bs": 16}),
        (("seq-mnist", "unheard-of", 200), {}),
        (("unheard-of", "er", 200), {}),
    ],
)
def test_hyperparameters_are_those_of_the_table(
    key: tuple[str, str, int | None], chosen: dict[str, float]
) -> None:
    assert paper.hyperparameters(*key) == chosen


@pytest.mark.parametrize(
    ("buffer", "nearest"),
    [(1, 200), (200, 200), (316, 200), (317, 500), (1599, 500), (1601, 5120), (10**6, 5120)],
)
def test_a_buffer_between_two_takes_the_nearest_by_ratio(buffer: int, nearest: int) -> None:
    assert paper.hyperparameters("perm-mnist", "derpp", buffer) == paper.hyperparameters(
        "perm-mnist", "derpp", nearest
    )


def test_what_a_caller_does_to_hyperparameters_stays_with_the_caller() -> None:
    paper.hyperparameters("seq-mnist", "er", 200)["lr"] = 9.0
    paper.hyperparameters("seq-mnist", "sgd", None)["lr"] = 9.0
    assert paper.hyperparameters("seq-mnist", "er", 200) == {"lr": 0.01}
    assert paper.hyperparameters("seq-mnist", "sgd", None) == {"lr": 0.03}


def test_what_is_published_with_a_memory_has_three_buffers() -> None:
    assert len(OURS) == 4
    for each in OURS:
        for name, kind in METHODS.items():
            published = paper.has(each.name, name, "accuracy")
            expected = 3 if kind.replay and published else 0
            assert len(paper.buffers(each.name, name)) == expected
            assert (
                published
                or kind.replay is None
                or name in ("joint", "mer", "agem", "agem-r", "icarl", "fdr", *paper.ALIKE)
                or name in ("er-ace", "cls-er", "x-der", "scr", "star")  # later than the paper
                or (each.name == "mnist-360")
            )


@pytest.mark.parametrize(("benchmark", "method", "buffer"), CELLS)
def test_every_cell_has_all_its_hyperparameters(
    benchmark: str, method: str, buffer: int | None
) -> None:
    kind = METHODS[method]
    unprinted = {"ridge", "reservoir", "answers", "balanced"}  # of GEM, HAL, EWC, ER: in no table
    needed = {"lr", *map(symbol, hyperparameters(kind))} - unprinted
    if benchmark == "mnist-360":
        needed |= {"bs", "mbs"} if kind.replay else {"bs"}
    if kind.needs.batch_size is not None:
        needed -= {"bs"}
    found = set(paper.hyperparameters(benchmark, method, buffer))
    assert found >= needed
    assert found - needed <= {"bs", "mbs", "reservoir"}, "what the paper does not print"
    if method == "joint":
        return
    text = resources.files("recollect.experiments").joinpath("paper", "hyperparameters.csv")
    rows = csv.DictReader(text.read_text("utf-8").splitlines())
    key = (benchmark, method, "" if buffer is None else str(buffer))
    own = {r["parameter"] for r in rows if (r["benchmark"], r["method"], r["buffer"]) == key}
    assert own >= needed - set(paper.EFFECTIVE.get(method, {})), "taken from another buffer"


def kind_of(mean: float, std: float, seeds: int, figure: Published) -> str:
    found = paper.verdict(mean, std, seeds, figure)
    assert found is not None
    assert found.weak == (seeds < 10)
    return found.kind


@pytest.mark.parametrize(
    ("difference", "kind", "mark"),
    [
        (0.0, "equal", "✓"),
        (3.0, "equal", "✓"),
        (-3.0, "equal", "✓"),
        (3.01, "close", "≈"),
        (-3.5, "close", "≈"),
        (3.51, "above", "▲"),
        (-3.51, "below", "▼"),
    ],
)
def test_equal_is_three_standard_errors_and_close_half_a_point_more(
    difference: float, kind: str, mark: str
) -> None:
    # Sixteen seeds with a deviation of 4 have a standard error of 1.
    found = paper.verdict(80 + difference, 4.0, 16, Published(80.0, 0.0))
    assert found is not None
    assert (found.kind, found.weak, found.allowed, found.mark) == (kind, False, 3.0, mark)
    assert found.reproduced == (kind in ("equal", "close"))


def test_a_verdict_counts_our_seeds_and_the_papers_ten() -> None:
    # 3 * sqrt(2 ** 2 / 10) = 1.897, however many more than ten seeds are ours.
    for seeds in (10, 100):
        assert kind_of(81.89, 0.0, seeds, Published(80.0, 2.0)) == "equal"
        assert kind_of(81.90, 0.0, seeds, Published(80.0, 2.0)) == "close"
        assert kind_of(82.39, 0.0, seeds, Published(80.0, 2.0)) == "close"
        assert kind_of(82.40, 0.0, seeds, Published(80.0, 2.0)) == "above"
        assert kind_of(77.60, 0.0, seeds, Published(80.0, 2.0)) == "below"
    # 3 * sqrt(3 ** 2 / 10 + 2 ** 2 / 10) = 3.4205: variances add up, not deviations.
    assert kind_of(83.42, 3.0, 10, Published(80.0, 2.0)) == "equal"
    assert kind_of(83.43, 3.0, 10, Published(80.0, 2.0)) == "close"


@pytest.mark.parametrize(("ours", "seeds"), [(0.1, 4), (0.0, 4), (2.0, 4)])
def test_few_seeds_have_at_least_the_papers_deviation(ours: float, seeds: int) -> None:
    # 3 * sqrt(2 ** 2 / 4 + 2 ** 2 / 10) = 3.5496.
    assert kind_of(83.54, ours, seeds, Published(80.0, 2.0)) == "equal"
    assert kind_of(83.56, ours, seeds, Published(80.0, 2.0)) == "close"
    assert kind_of(84.06, ours, seeds, Published(80.0, 2.0)) == "above"


def test_few_seeds_keep_a_deviation_that_is_larger_than_the_papers() -> None:
    # 3 * sqrt(4 ** 2 / 4 + 2 ** 2 / 10) = 6.2929.
    assert kind_of(86.29, 4.0, 4, Published(80.0, 2.0)) == "equal"
    assert kind_of(86.30, 4.0, 4, Published(80.0, 2.0)) == "close"
    # Nine seeds are few, ten are not: their own small deviation counts.
    assert kind_of(82.0, 0.0, 9, Published(80.0, 2.0)) == "equal"
    assert kind_of(82.0, 0.0, 10, Published(80.0, 2.0)) == "close"


def test_one_seed_has_the_papers_deviation() -> None:
    # 3 * sqrt(2 ** 2 + 2 ** 2 / 10) = 6.2929; a deviation of its own would make no sense.
    for own in (0.0, 100.0):
        assert kind_of(86.29, own, 1, Published(80.0, 2.0)) == "equal"
        assert kind_of(86.30, own, 1, Published(80.0, 2.0)) == "close"
    found = paper.verdict(80.0, 0.0, 1, Published(80.0, 2.0))
    assert found is not None
    assert found.mark == "(✓)"


def test_without_a_deviation_of_the_papers_ours_alone_counts() -> None:
    assert paper.published("seq-cifar10", "class", "derpp", 200, "accuracy-single-epoch") == (
        Published(41.93, None)
    )
    for seeds in (4, 16):
        error = 2.0 / seeds**0.5
        assert kind_of(80 + 2.99 * error, 2.0, seeds, Published(80.0, None)) == "equal"
        assert kind_of(80 + 3.01 * error, 2.0, seeds, Published(80.0, None)) == "close"
    assert paper.verdict(80.0, 0.0, 1, Published(80.0, None)) is None, "no deviation anywhere"
