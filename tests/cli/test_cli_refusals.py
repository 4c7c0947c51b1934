"""Bad input: status 2, one line that helps, no traceback, no file."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.cli.main import COMMANDS, main

Refused = Callable[..., str]

LABELS = "train-labels-idx1-ubyte"
TRAINING = ("run", "seq-digits", "er", "--buffer", "20", "--seeds", "1")


@pytest.fixture
def refused(bare_machine: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Refused:
    """The sentence with which a command is refused on a bare machine."""

    def sentence(*words: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        assert main([*words]) == 2
        said = capfd.readouterr()
        assert said.out == ""
        assert "Traceback" not in said.err
        (line,) = said.err.splitlines()
        assert line.startswith("recollect: ")
        assert sorted(tmp_path.rglob("*")) == before, "nothing is written"
        return line.removeprefix("recollect: ")

    return sentence


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "seq-digit", "er"), "unknown benchmark 'seq-digit': did you mean 'seq-digits'?"),
        (("run", "seq-digits", "derp"), "unknown method 'derp': did you mean 'derpp'?"),
        (("run", "seq-digits", "xyzzy"), "unknown method 'xyzzy' (known: agem,"),
        (("run", "seq-digits", "er", "--buffer", "0"), "at least 1 example, not 0"),
        (("run", "seq-digits", "er", "--buffer", "20", "-3"), "at least 1 example, not -3"),
        (("run", "seq-digits", "sgd", "--buffer", "20"), "SGD has no memory"),
        ((*TRAINING, "--lr", "-0.1"), "lr must be greater than 0 and finite, not -0.1"),
        ((*TRAINING, "--lr", "0.1", "0"), "lr must be greater than 0 and finite, not 0"),
        ((*TRAINING, "--lr", "nan"), "lr must be greater than 0 and finite, not nan"),
        ((*TRAINING, "--alpha", "0.5"), "ER has no hyper-parameter 'alpha'"),
        ((*TRAINING, "--bs", "2.5"), "bs is a number of examples"),
        ((*TRAINING, "--mbs", "0"), "mbs is a number of examples"),
        ((*TRAINING, "--epochs", "0"), "epochs must be at least 1, not 0"),
        ((*TRAINING, "--workers", "0"), "workers must be at least 1, not 0"),
        ((*TRAINING, "--seeds", "5-3"), "the seeds '5-3' are an empty range"),
        ((*TRAINING, "--seeds", "0"), "the seeds '0' are an empty range"),
        ((*TRAINING, "--seeds", ""), "cannot parse the seeds ''"),
        ((*TRAINING, "--seeds", "many"), "cannot parse the seeds 'many'"),
        ((*TRAINING, "--seeds", "1,1"), "a seed is given twice"),
        ((*TRAINING, "--seeds=-1"), "cannot parse the seeds '-1'"),
        (("reproduce", "seq-digitz"), "did you mean 'seq-digits'?"),
        (("reproduce", "seq-digits", "--methods", "sgd", "dre"), "unknown method 'dre'"),
        (("reproduce", "seq-digits", "--buffers", "0"), "at least 1 example, not 0"),
        (("reproduce", "seq-digits", "--seeds", "9-1"), "the seeds '9-1' are an empty range"),
        (("reproduce", "seq-digits", "--workers", "-2"), "workers must be at least 1, not -2"),
        (("run", "digits-360", "pnn"), "PNN needs task boundaries"),
        (("run", "perm-digits", "pnn"), "PNN needs the task of an example to predict"),
        (("reproduce", "rot-digits", "--methods", "pnn"), "which rot-digits does not provide"),
        (("run", "digits-360", "packnet"), "PackNet needs task boundaries"),
        (("run", "perm-digits", "packnet"), "PackNet needs the task of an example"),
        (("run", "seq-digits", "packnet", "--prune", "1"), "prune must be at least 0 and"),
        (("data", "fetch", "minst"), "did you mean 'mnist'?"),
        (("data", "fetch", "mnist"), "RECOLLECT_OFFLINE forbids the network"),
    ],
)
def test_one_line_says_what_was_wrong(
    words: tuple[str, ...], message: str, refused: Refused
) -> None:
    assert message in refused(*words, *(["--json", "x.json"] if words[0] != "data" else []))


@pytest.mark.parametrize("size", ["nan", "inf"])
def test_a_batch_size_that_is_not_finite_is_refused(size: str, refused: Refused) -> None:
    assert "bs is a number of examples" in refused(*TRAINING, "--bs", size)


def test_a_seed_beyond_64_bits_is_refused(refused: Refused) -> None:
    assert "a seed must be in 0..2**63-1" in refused(
        "run", "seq-digits", "sgd", "--seeds", "99999999999999999999,1", "--workers", "1"
    )


def test_a_refusal_is_all_that_is_said(refused: Refused) -> None:
    assert "lr must be" in refused("run", "seq-digits", "er", "--lr", "-1")


@pytest.mark.parametrize("words", [TRAINING, ("reproduce", "seq-digits", "--methods", "sgd")])
def test_a_place_for_json_is_checked_before_training(
    words: tuple[str, ...], refused: Refused, tmp_path: Path
) -> None:
    missing = tmp_path / "missing" / "runs.json"
    assert f"the folder {missing.parent} does not exist" in refused(*words, "--json", str(missing))
    assert "it is a folder" in refused(*words, "--json", str(tmp_path))
    assert "it is a folder" in refused(*words, "--json", "")


def test_without_mnist_the_twin_is_named(refused: Refused) -> None:
    for name, twin in (("seq-mnist", "seq-digits"), ("mnist-360", "digits-360")):
        sentence = refused("run", name, "sgd", "--seeds", "1", "--json", "x.json")
        assert "mnist could not be found or fetched" in sentence
        assert sentence.endswith(f"{twin} needs no download")


@pytest.mark.parametrize("words", [("run", "seq-mnist", "sgd"), ("reproduce", "seq-mnist")])
class TestDataFolder:
    """What is wrong with a person's own files is said; nothing else is used instead."""

    def test_missing(self, words: tuple[str, ...], refused: Refused, tmp_path: Path) -> None:
        folder = tmp_path / "nowhere"
        sentence = refused(*words, "--data-dir", str(folder))
        assert sentence == f"there is no folder {str(folder)!r}: correct --data-dir"

    @pytest.mark.parametrize("name", [LABELS, f"{LABELS}.gz"])
    def test_truncated(
        self, words: tuple[str, ...], name: str, refused: Refused, tmp_path: Path
    ) -> None:
        whole = b"\0\0\x08\x01\0\0\xea\x60" + bytes(60_000)
        packed = gzip.compress(os.urandom(60_008))
        (tmp_path / name).write_bytes(packed[:-999] if name.endswith("gz") else whole[:-999])
        sentence = refused(*words, "--data-dir", str(tmp_path))
        assert str(tmp_path / name) in sentence
        assert "truncated" in sentence or "cannot be unpacked" in sentence

    @pytest.mark.parametrize("name", [LABELS, f"{LABELS}.gz"])
    def test_corrupt(
        self, words: tuple[str, ...], name: str, refused: Refused, tmp_path: Path
    ) -> None:
        (tmp_path / name).write_bytes(b"\xff" * 60_008)
        assert str(tmp_path / name) in refused(*words, "--data-dir", str(tmp_path))

    def test_of_another_data_set(
        self, words: tuple[str, ...], refused: Refused, tmp_path: Path
    ) -> None:
        """Fashion-MNIST has the same names, sizes and format: only the checksum tells."""
        labels = b"\0\0\x08\x01\0\0\xea\x60" + bytes(range(10)) * 6_000
        (tmp_path / LABELS).write_bytes(labels)
        sentence = refused(*words, "--data-dir", str(tmp_path))
        assert f"{tmp_path / LABELS} is corrupt or belongs to another data set" in sentence
        assert "checksum" in sentence


@pytest.mark.parametrize("words", [TRAINING, ("reproduce", "seq-digits", "--methods", "sgd")])
def test_a_missing_data_folder_is_refused_even_if_it_is_not_needed(
    words: tuple[str, ...], refused: Refused, tmp_path: Path
) -> None:
    assert "no folder 'nowhere'" in refused(*words, "--data-dir", "nowhere")
    (tmp_path / "file").touch()
    assert "no folder" in refused(*words, "--data-dir", str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "seq-mnist", "sgd", "--lr", "-1"), "lr must be"),
        (("run", "seq-mnist", "er", "--epochs", "0"), "epochs must be"),
        (("reproduce", "seq-mnist", "--buffers", "0"), "at least 1 example, not 0"),
        (("reproduce", "seq-mnist", "--seeds", "1,1"), "a seed is given twice"),
    ],
)
def test_what_is_asked_for_is_checked_before_data_are_looked_for(
    words: tuple[str, ...], message: str, refused: Refused
) -> None:
    assert message in refused(*words)


@pytest.mark.parametrize(
    "words", [(), ("train",), ("run",), ("run", "seq-digits", "er", "--buffer", "many")]
)
def test_usage_is_explained(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*words])
    assert left.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("usage: recollect")
    assert "error: " in said.err
    assert len(said.err.splitlines()) <= 3  # what is wrong is not lost below thirty options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("run", "seq-digits", "er", "--lamda", "3"),
            "unknown option --lamda: did you mean --",
        ),
        (("search", "seq-digits", "er", "--trails=3"), "did you mean --trials?"),
        (
            ("run", "seq-digits", "er", "--seed", "3"),
            "unknown option --seed: did you mean --seeds?",
        ),
        (("run", "seq-digits", "er", "--buf=3"), "unknown option --buf"),
        (
            ("search", "seq-digits", "er", "--buffer", "50", "100"),
            "--buffer takes one value: omit 100, or run the command for each",
        ),
        (("stream", "a.csv", "--predict-to", "b"), "did you mean --predictions?"),
        (("stream", "a.csv", "-lable", "b"), "unknown option -lable: did you mean --label?"),
        (("stream", "a.csv", "--format", "jason"), "did you mean 'jsonl'? invalid choice: 'jason'"),
        (("data", "fetch", "mnist", "--data-dri", "x"), "did you mean --data-dir?"),
        (("results", "--xyzzy"), "error: unknown option --xyzzy"),
        (("rum", "seq-digits"), "did you mean 'run'? invalid choice: 'rum'"),
    ],
)
def test_a_misspelt_option_gets_a_suggestion(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([*words])
    assert left.value.code == 2
    usage, *_, error = capsys.readouterr().err.splitlines()
    command = " ".join(["recollect", *(w for w in words[:1] if w in COMMANDS)])
    assert usage.startswith(f"usage: {command}")
    assert message in error


@pytest.mark.parametrize("command", ["run", "search", "stream"])
def test_a_misspelt_option_is_not_lost_among_all_options(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "a", "b", "--xyzzy"])
    assert len(capsys.readouterr().err.splitlines()) <= 3


def test_values_are_given_with_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "seq-digits", "er", "--lr", "0.1,0.3"])
    assert "'0.1,0.3' is not a number: give one, or several with spaces" in capsys.readouterr().err


def test_an_interrupt_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = "; no training was in progress: run the same command again to continue"
    monkeypatch.chdir(tmp_path)
    for number, name in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")):

        def interrupt(*_: object, number: signal.Signals = number, **__: object) -> None:
            signal.raise_signal(number)

        monkeypatch.setattr("recollect.cli.training.train_all", interrupt)
        assert main([*TRAINING, "--json", "x.json"]) == 128 + number
        assert capsys.readouterr().err == f"recollect: {name}{words}\n"
    assert list(tmp_path.iterdir()) == []
