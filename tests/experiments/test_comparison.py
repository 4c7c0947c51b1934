"""Comparisons: paired over seeds, never pooled, and said in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from tests.experiments.some_results import some

from recollect import InputError, Results, compare
from recollect.cli.compare import _selected
from recollect.cli.main import main
from recollect.experiments.store import Store
from recollect.train import Result

OURS, THEIRS = [80.0, 82.0, 81.0, 84.0], [78.0, 78.5, 80.0, 79.0]


def quiet(text: str) -> None:
    raise AssertionError(text)


def with_forgetting(runs: Sequence[Result], values: Sequence[float]) -> list[Result]:
    return [
        replace(run, forgetting={"class": value, "task": None})
        for run, value in zip(runs, values, strict=True)
    ]


def test_the_difference_is_that_of_the_paired_t_test() -> None:
    (found,) = compare(some("derpp", 200, OURS), some("er", 200, THEIRS), notice=quiet)
    expected = scipy.stats.ttest_rel(OURS, THEIRS)
    bounds = expected.confidence_interval(0.95)
    one = found.differences[0]
    assert (one.setting, one.score) == ("class", "accuracy")
    assert one.mean == pytest.approx(np.mean(OURS) - np.mean(THEIRS))
    assert one.interval == pytest.approx((bounds.low, bounds.high))
    assert one.p == pytest.approx(expected.pvalue)
    assert one.p_sign_flip == 2 / 16
    assert str(one) == (
        f"Class-IL: DER++ is 2.9 points better than ER, 95 % CI [{bounds.low:.1f}, "
        f"{bounds.high:.1f}], p = {expected.pvalue:.4f}, 4 paired seeds"
        + ("" if expected.pvalue < 0.05 else "; not a significant difference")
    )
    assert [str(each) for each in found.differs] == [
        "method DER++ / ER", "alpha 0.5 / -", "beta 0.5 / -",
    ]  # fmt: skip


def test_the_better_side_comes_first_and_less_forgetting_is_better() -> None:
    ours = with_forgetting(some("er", 200, THEIRS), [9.0, 8.0, 9.5, 9.0])
    theirs = with_forgetting(some("derpp", 200, OURS), [4.0, 5.0, 4.5, 4.0])
    (found,) = compare(ours, theirs)
    accuracy, forgetting, _ = found.differences
    assert str(accuracy).startswith("Class-IL: DER++ is 2.9 points better than ER, 95 % CI [")
    assert str(forgetting).startswith("Class-IL: DER++ forgets 4.5 points less than ER, ")
    assert accuracy.mean < 0 < forgetting.mean


def test_a_small_difference_is_not_zero_points() -> None:
    (found,) = compare(some("derpp", 200, [80.0, 80.01]), some("er", 200, [80.03, 80.0]))
    assert str(found.differences[0]).startswith("Class-IL: ER is 0.01 points better than DER++, ")
    (found,) = compare(some("derpp", 200, [80.0, 81.0]), some("er", 200, [81.0, 80.0]))
    assert str(found.differences[0]).startswith("Class-IL: DER++ and ER are equal on average, 95 %")


def test_unpaired_seeds_are_named_and_left_out() -> None:
    ours, theirs = some("derpp", 200, OURS), some("er", 200, [*THEIRS, 10.0])[1:]
    (found,) = compare(ours, theirs)
    assert (found.only_a, found.only_b) == ((0,), (4,))
    assert "seeds that only A has, not compared: 0" in str(found)
    assert "seeds that only B has, not compared: 4" in str(found)
    assert [*found.differences[0].differences] == [1, 2, 3]
    with pytest.raises(InputError, match="no seed in common"):
        compare(ours[:1], theirs)


def test_buffers_are_paired_and_never_pooled() -> None:
    ours = some("derpp", 200, OURS) + some("derpp", 500, [v + 5 for v in OURS])
    theirs = some("er", 500, THEIRS) + some("er", 200, THEIRS) + some("er", 1000, THEIRS)
    said: list[str] = []
    found = compare(ours, theirs, notice=said.append)
    assert [(each.a.first.buffer, each.b.first.buffer) for each in found] == [
        (200, 200), (500, 500),
    ]  # fmt: skip
    (line,) = said
    assert "only B has it" in line
    assert "buffer 1000" in line
    one = compare(ours, some("sgd", None, THEIRS))
    assert [each.a.first.buffer for each in one] == [200, 500], "shown apart"


def test_what_nothing_tells_apart_is_refused() -> None:
    rates = [
        replace(run, hyperparameters={**run.hyperparameters, "alpha": alpha})
        for alpha in (0.1, 0.2)
        for run in some("derpp", 200, OURS)
    ]
    theirs = some("er", 200, THEIRS) + some("er", 500, THEIRS)
    with pytest.raises(InputError, match=r"cannot pair the 2 configurations of A .* Select one"):
        compare(rates, theirs)
    with pytest.raises(InputError, match="no stream in common"):
        compare(rates, [replace(run, benchmark="other") for run in theirs])
    with pytest.raises(InputError, match="B has no runs"):
        compare(rates, [])
    with pytest.raises(InputError, match="seed 0 twice"):
        compare([*rates[:4], replace(rates[0], accuracy={"class": 1.0})], theirs[:4])


@pytest.mark.parametrize(
    ("parts", "values"),
    [
        ("network", ("a" * 16, "b" * 16)),
        ("stream", ("a" * 16, "b" * 16)),
        ("optimiser", ("Adam, constant", "sgd")),
        ("optimiser", ("Adam, constant", "Adam, cosine per task")),
        ("precision", ("bf16", "float32")),
    ],
)
def test_networks_data_and_optimisers_are_paired(parts: str, values: tuple[str, str]) -> None:
    ours, theirs = (
        [run for value in order for run in some(method, 200, OURS, **{parts: value})]
        for method, order in (("derpp", values), ("er", values[::-1]))
    )
    found = compare(ours, theirs, notice=quiet)
    pairs = [(getattr(each.a.first, parts), getattr(each.b.first, parts)) for each in found]
    assert pairs == [(value, value) for value in values]
    for each in found:
        assert each.a.apart == each.b.apart


def with_rates(method: str, rates: dict[int, float]) -> list[Result]:
    return [
        replace(run, hyperparameters={**run.hyperparameters, "lr": rate})
        for buffer, rate in rates.items()
        for run in some(method, buffer, OURS)
    ]


def test_values_tuned_for_each_buffer_do_not_prevent_pairs() -> None:
    ours, theirs = with_rates("derpp", {200: 0.1, 500: 0.03}), with_rates("er", {200: 0.03})
    theirs += with_rates("er", {500: 0.1})
    found = compare(ours, theirs, notice=quiet)
    assert [(each.a.first.buffer, each.b.first.buffer) for each in found] == [
        (200, 200), (500, 500),
    ]  # fmt: skip
    with pytest.raises(InputError, match="no value of buffer in common"):
        compare(ours, with_rates("er", {1000: 0.1, 2000: 0.03}))


def test_the_advice_names_a_value_that_differs() -> None:
    theirs = some("er", 200, THEIRS) + some("er", 500, THEIRS)
    nets = [
        replace(run, network=network * 16, network_class=kind)
        for network, kind in (("a", "GN"), ("b", ""))
        for run in some("derpp", 200, OURS)
    ]
    with pytest.raises(InputError, match=r"for example with network=GN \(.*network GN.*default"):
        compare(nets, theirs)
    data = [run for letter in "ab" for run in some("derpp", 200, OURS, stream=letter * 16)]
    with pytest.raises(InputError, match="for example with data=aaaaaaaa "):
        compare(data, theirs)
    methods = some("derpp", 200, OURS) + some("der", 200, OURS)
    with pytest.raises(InputError, match="for example with method=derpp "):
        compare(methods, theirs)


def test_selections_take_the_words_of_tables() -> None:
    runs = [
        replace(run, network=network * 16, network_class=kind, stream=data * 16)
        for network, kind, data in (("a", "MLP(hidden=[20, 30])", "d"), ("b", "", "e"))
        for run in some("er", 200, [1.0])
    ]
    for text, expected in (
        ("network=MLP(hidden=[20, 30]),lr=0.03", runs[:1]),
        ("network=MLP(hidden=[20, 30]) aaaaaaaa", runs[:1]),
        ("network=default", runs[1:]),
        ("data=eeee", runs[1:]),
        ("stream=dddddddd,method=er", runs[:1]),
    ):
        assert _selected(runs, text) == expected
    with pytest.raises(InputError, match="data can be dddddddd, eeeeeeee, not f"):
        _selected(runs, "data=f")


def test_summaries_are_compared_like_their_runs() -> None:
    ours, theirs = some("derpp", 200, OURS), some("er", 200, THEIRS)
    (a,), (b,) = (Results(runs).summaries() for runs in (ours, theirs))
    assert str(compare(a, b)) == str(compare(ours, theirs))


def test_what_is_not_a_run_is_refused() -> None:
    runs = some("derpp", 200, OURS)
    refused = r"B must be Results, a list of runs or a Summary, not "
    for other, kind in ((runs[0], "Result"), (80.0, "float"), (["derpp"], "a list with str")):
        with pytest.raises(InputError, match=f"{refused}{kind}$"):
            compare(runs, other)  # type: ignore[arg-type]


def test_a_file_is_to_be_loaded_first() -> None:
    runs = some("derpp", 200, OURS)
    for file in ("er.json", Path("er.json")):
        with pytest.raises(InputError, match=r"not a file: pass recollect.Results.load\('er"):
            compare(runs, file)  # type: ignore[arg-type]


def test_comparisons_are_shown_at_a_prompt() -> None:
    found = compare(some("derpp", 200, OURS), some("er", 200, THEIRS))
    assert repr(found) == str(found)


def test_parts_of_the_identity_that_differ_are_shown() -> None:
    ours = [replace(run, network="a" * 16, code="c" * 12) for run in some("er", 200, OURS)]
    theirs = [
        replace(run, network="b" * 16, network_class="Mine", code="d" * 12, stream="e" * 16)
        for run in some("er", 200, THEIRS)
    ]
    (found,) = compare(ours, theirs)
    assert {each.name for each in found.differs} == {"network", "code", "data"}
    assert "network aaaaaaaa / Mine bbbbbbbb" in str(found)
    assert any("the data differ" in line for line in found.remarks)
    assert "A is 2.9 points better than B" in str(found)


def test_the_command_compares_files_and_selections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = some("derpp", 200, OURS), some("er", 200, THEIRS)
    both = [*ours, *some("derpp", 500, OURS), *theirs]
    Store().add(both)
    Results(ours).save(tmp_path / "ours.json")
    sentence = str(compare(ours, theirs)[0].differences[0])
    for words in (
        ["method=derpp,buffer=200", "method=er"],
        [str(tmp_path / "ours.json"), "method=ER,lr=0.030"],
        [str(tmp_path), "method=er,validation=false"],
    ):
        assert main(["compare", *words]) == 0
        assert sentence in capsys.readouterr().out


def test_python_prints_the_table_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = some("derpp", 200, OURS), some("er", 200, THEIRS)
    Results(ours).save(tmp_path / "ours.json")
    Results(theirs).save(tmp_path / "theirs.json")
    assert main(["compare", str(tmp_path / "ours.json"), str(tmp_path / "theirs.json")]) == 0
    printed = str(compare(ours, theirs))
    assert capsys.readouterr().out.splitlines() == printed.splitlines()
    lines = printed.splitlines()
    heads = next(line for line in lines if line.startswith("setting"))
    row = lines[lines.index(heads) + 2]
    assert heads.split("  ")[-1].strip() == "seeds"
    assert {"p (t)", "p (sign flips)", "95 % CI"} < {each.strip() for each in heads.split("  ")}
    assert row.split()[:2] == ["Class-IL", "accuracy"]
    assert row.split()[-2:] == ["0.12", "4"]  # 2 of 16 sign patterns; four seeds
    assert "+2.88" in row


def test_a_notebook_shows_the_same_cells_escaped() -> None:
    ours = [replace(run, method_title="<b>mine") for run in some("derpp", 200, OURS)]
    html = compare(ours, some("er", 200, THEIRS))._repr_html_()
    assert "<td>+2.88</td>" in html
    assert "&lt;b&gt;mine" in html
    assert "<b>mine" not in html


@pytest.mark.parametrize(
    ("a", "reason"),
    [
        ("nothing.json", "there is no file or folder 'nothing.json'"),
        ("method=derpp,buffer=1000", "buffer=1000': buffer can be 200, not 1000"),
        ("width=3", "cannot be selected by 'width'"),
    ],
)
def test_what_the_command_cannot_find_is_refused(
    a: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Store().add(some("derpp", 200, OURS))
    assert main(["compare", a, "method=derpp"]) == 2
    assert reason in capsys.readouterr().err
