"""Methods of other packages: found everywhere, and a broken one is in nobody's way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recollect
from recollect.cli.main import build_parser, main
from recollect.errors import InputError
from recollect.experiments.report.rows import again
from recollect.methods import METHODS, every_method, method, others, packages, title_of

GOOD = '''
from dataclasses import dataclass
from typing import ClassVar

import recollect


@dataclass(frozen=True)
class Weighted(recollect.Method):
    """Replays with a weight [of its own]."""

    weight: float = recollect.hyper(1.0, "weight of the replayed loss")

    name: ClassVar[str] = "weighted"
    title: ClassVar[str] = "Weighted!"
    replay: ClassVar[recollect.Replay] = recollect.Replay(("x", "y"))

    def loss(self, step):
        past = step.draw()
        now, then = step.net(step.x, past.x)
        return recollect.cross_entropy(now, step.y) + self.weight * recollect.cross_entropy(
            then, past.y
        )
'''

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package where Python finds it, as an installer does."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    before = set(sys.modules)

    def one(code: str, *entries: str, package: str = "acme", module: str = "acme_code") -> None:
        (site / f"{module}.py").write_text(code, "utf-8")
        about = site / f"{package}-2.5.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.5\n", "utf-8"
        )
        lines = "\n".join(entries or (f"weighted = {module}:Weighted",))
        (about / "entry_points.txt").write_text(f"[recollect.methods]\n{lines}\n", "utf-8")
        others.cache_clear()

    others.cache_clear()
    yield one
    others.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith("acme"):
            del sys.modules[name]


def test_it_is_known_by_name_and_title_after_the_librarys_own(install: Install) -> None:
    install(GOOD)
    assert list(every_method()) == [*METHODS, "weighted"]
    assert method("weighted") is method("WEIGHTED!") is every_method()["weighted"]
    assert title_of("weighted") == "Weighted!"
    assert others().packages == {"weighted": "acme 2.5"}
    assert others().problems == ()


def test_a_method_of_the_library_is_found_without_looking_elsewhere(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(own: object) -> None:
        raise AssertionError("other packages were looked for")

    monkeypatch.setattr("recollect.methods.look_for", never)
    assert method("derpp").title == title_of("derpp") == "DER++"


def test_it_runs_like_the_librarys_own(install: Install) -> None:
    install(GOOD)
    one = recollect.run("seq-digits", "weighted", buffer=20, seeds=1, workers=1, weight=[0.0, 1.0])
    assert [each.hyperparameters["weight"] for each in one] == [0.0, 1.0]
    class_il = [each.accuracy["class"] for each in one]
    assert class_il[1] > class_il[0] + 10, "replay helps"
    assert again(one[1], [0]).startswith("recollect run seq-digits weighted --buffer 20 ")


def test_the_same_method_in_a_file_names_the_package(
    install: Install, bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    install(GOOD)
    Path("acme_weighted.py").write_text(GOOD, "utf-8")
    words = ["run", "seq-digits", "acme_weighted.py:Weighted", "--buffer", "20", "--seeds", "1"]
    assert main(words) == 2
    assert "with the name weighted or the title Weighted!, of acme 2.5" in capsys.readouterr().err


def test_every_command_knows_it(
    install: Install, bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    install(GOOD)
    Path("rows.csv").write_text("".join(f"{n},{n % 7},{n % 2}\n" for n in range(40)), "utf-8")
    few = ("--seeds", "1", "--workers", "1")
    for words, told in (
        (["methods"], "Replays with a weight [of its own]. (from acme 2.5)"),
        (["doctor"], "weighted from acme 2.5"),
        (["run", "seq-digits", "weighted", "--buffer", "20", "--weight", "2", *few], "weight 2"),
        (["results"], "Weighted!"),
        (["reproduce", "seq-digits", "--methods", "weighted", "--buffers", "20", *few], "Weighted"),
        (
            ["search", "seq-digits", "weighted", "--buffer", "20", "--weight", "0", "1", *few],
            "Weighted!, buffer 20: validation, best first",
        ),
        (["stream", "rows.csv", "--method", "weighted", "--weight", "0.5"], "40"),
    ):
        assert main(words) == 0, words
        said = capsys.readouterr()
        cells = " ".join(said.out.replace("│", " ").split())
        assert told in cells or _scattered(told, cells), (words, said)
        assert "left out" not in said.err


def _scattered(told: str, said: str) -> bool:
    """Whether words come in that order, where a narrow column broke the line."""
    rest = iter(said.split())
    return all(word in rest for word in told.split())


def test_help_of_a_hyperparameter_is_shown_where_it_is_an_option(
    install: Install, bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    install(GOOD.replace('(1.0, "weight of the replayed loss")', '(1.5, "share (in %) replayed")'))
    for command in ("run", "search", "stream"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        said = " ".join(capsys.readouterr().out.split())
        assert "--weight VALUE" in said
        assert "share (in %) replayed (Weighted!)" in said
        assert "DER, DER++" in said, "methods that share a name are named with it"
    assert main(["methods", "Weighted!"]) == 0
    said = capsys.readouterr().out
    assert "Weighted! (weighted) (from acme 2.5)" in said
    assert "--weight  1.5      share (in %) replayed" in said


def test_a_saved_learner_finds_its_method_again(install: Install, tmp_path: Path) -> None:
    install(GOOD)
    kind: Any = method("weighted")
    learner = recollect.Learner(recollect.MLP(2, 1), kind(weight=0.5), memory=20)
    learner.observe(np.eye(2), ["a", "b"])
    learner.save(tmp_path / "model")
    others.cache_clear()
    loaded = recollect.Learner.load(tmp_path / "model", recollect.MLP(2, 1))
    assert loaded.seen == 2
    assert loaded.method == kind(weight=0.5)


def test_results_outlive_the_package(
    install: Install, bare_machine: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    install(GOOD)
    words = ["run", "seq-digits", "weighted", "--buffer", "20", "--seeds", "1", "--workers", "1"]
    assert main(words) == 0
    (tmp_path / "site" / "acme-2.5.dist-info" / "entry_points.txt").unlink()
    others.cache_clear()
    assert main(["results"]) == 0
    assert " weighted " in capsys.readouterr().out
    assert main(["report", "--out", "report.html"]) == 0
    assert main(words) == 2
    assert "unknown method 'weighted'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "entry", "told"),
    [
        ("import nowhere_at_all", "weighted = acme_code:Weighted", "No module named 'nowhere_at"),
        ("raise SystemExit(3)", "weighted = acme_code:Weighted", "cannot be imported (SystemExit"),
        ("raise ValueError('a\\nb')", "weighted = acme_code:Weighted", "(ValueError: a b)"),
        (GOOD, "weighted = acme_code:Missing", "cannot be imported (AttributeError"),
        (
            "Weighted = dict",
            "weighted = acme_code:Weighted",
            "is not a subclass of recollect.Method",
        ),
        ("from recollect import Method", "m = acme_code:Method", "its class has the name None"),
        (GOOD, "other = acme_code:Weighted", "its class has the name 'weighted'"),
        (GOOD.replace('"weighted"', '"We ird"'), "We ird = acme_code:Weighted", "start with a-z"),
        (GOOD.replace('"weighted"', '"derpp"'), "derpp = acme_code:Weighted", "already"),
        (GOOD.replace("Weighted!", "DER++"), "weighted = acme_code:Weighted", "already"),
        (GOOD.replace("Weighted!", "[/]"), "weighted = acme_code:Weighted", "plain text"),
        (
            GOOD.replace("loss(", "lose("),
            "weighted = acme_code:Weighted",
            "neither loss nor update",
        ),
        (
            GOOD + "\n    def end_task(self, task): ...\n",
            "weighted = acme_code:Weighted",
            "it defines end_task, which is only called if it declares Needs",
        ),
        (GOOD.replace(" weight:", " seeds:"), "weighted = acme_code:Weighted", "an option seeds"),
        (
            GOOD.replace('recollect.Replay(("x", "y"))', "7"),
            "weighted = acme_code:Weighted",
            "`replay` of Weighted is 7: it must be a recollect.Replay(...)",
        ),
    ],
)
def test_a_broken_one_is_told_in_a_sentence_and_the_rest_works(
    install: Install,
    bare_machine: None,
    capsys: pytest.CaptureFixture[str],
    code: str,
    entry: str,
    told: str,
) -> None:
    name = entry.split(" = ")[0]
    install(code, entry)
    install(
        GOOD.replace("eighted", "orking"), "working = acme_fine:Working",
        package="fine", module="acme_fine",
    )  # fmt: skip
    assert main(["methods"]) == 0
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith(f"recollect: the method {name} of acme 2.5 is skipped: ")
    assert told in line
    assert "\nworking " in said.out
    assert list(every_method()) == [*METHODS, "working"]
    assert method("derpp") is METHODS["derpp"]
    if name not in METHODS:
        with pytest.raises(InputError, match=rf"unknown method '{name}'.*of acme 2\.5 is skipped"):
            method(name)


def test_the_doctor_shows_a_broken_one(
    install: Install, bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    install("import nowhere_at_all")
    assert main(["doctor"]) == 0
    shown = next(line for line in capsys.readouterr().out.splitlines() if "left out" in line)
    assert shown.startswith("-")
    assert "methods" in shown


def test_of_two_with_one_name_the_second_is_left_out(install: Install) -> None:
    install(GOOD)
    install(GOOD, "weighted = acme_two:Weighted", package="zoo", module="acme_two")
    assert others().packages == {"weighted": "acme 2.5"}
    assert [text.split(" is skipped")[0] for text in others().problems] == [
        "the method weighted of zoo 2.5"
    ]


@pytest.mark.parametrize(
    "name", ["lr", "mbs", "buffer", "trials", "skip_bad", "precision", "command", "network"]
)
def test_no_hyperparameter_can_be_taken_for_an_option(
    name: str, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "RESERVED", set())
    install(GOOD.replace(" weight:", f" {name}:"))
    build_parser(["methods"])
    assert "weighted" not in every_method()
    assert others().problems == (
        f"the method weighted of acme 2.5 is skipped: its hyper-parameter {name} needs another "
        f"name: recollect has an option {name}",
    )


def test_names_of_the_librarys_own_hyperparameters_are_not_reserved(install: Install) -> None:
    install(GOOD.replace(" weight:", " alpha:"))
    build_parser(["run", "search", "stream"])
    assert "weighted" in every_method()
