"""Where a result came from: precision, versions, and the commit of the source."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.train.stopping import convolutional, job_of, photographs

import recollect
from recollect import ER
from recollect.streams import TaskStream
from recollect.train import train
from recollect.train.provenance import MADE, Provenance, commit, commit_at
from recollect.train.result import Result

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")


def test_precision_is_what_the_fleet_computes_with(toy_stream: TaskStream) -> None:
    dense = job_of(toy_stream, ER())
    images = job_of(photographs(), ER(), network=convolutional)
    gpu = torch.device("cuda")
    assert dense.precision == images.precision == "float32"
    assert replace(dense, device=gpu).precision == "float32, TF32"
    assert replace(images, device=gpu, half=True).precision == "bf16 autocast, TF32"
    assert replace(images, device=gpu).precision == "float32, TF32"
    assert replace(images, half=True).precision == "bf16 autocast"
    assert replace(dense, half=True).precision == "float32"


def test_a_file_has_provenance_and_fingerprints_in_one_object(toy_stream: TaskStream) -> None:
    job = job_of(toy_stream, ER())
    (run,) = train(job)
    found = Provenance.here(job, "recollect run ...")
    assert (found.version, found.torch) == (recollect.__version__, torch.__version__)
    assert (found.commit, found.precision) == (commit(), "float32")
    data = replace(run, provenance=found).as_json()
    # The network has other sizes than the library's default, so its name is written too.
    assert tuple(data["made"]) == (*MADE, "network_class")
    assert Provenance.from_json(data["made"]) == found
    assert Result.from_json(data) == run
    assert {data["made"][name] for name in ("code", "network", "stream")} == {
        run.code, run.network, run.stream,
    }  # fmt: skip


class TestCommit:
    """Read from a checkout's files, with git where it is there, and never an error."""

    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        (tmp_path / "src" / "recollect").mkdir(parents=True)
        (tmp_path / "src" / "recollect" / "a.py").write_text("a = 1\n")
        self.git(tmp_path, "init", "-q")
        self.git(tmp_path, "add", ".")
        self.git(tmp_path, "commit", "-qm", "first")
        return tmp_path

    def git(self, folder: Path, *words: str) -> str:
        said = subprocess.run(
            [*GIT, "-C", str(folder), *words], check=True, capture_output=True, text=True
        )
        return said.stdout.strip()

    def test_is_that_of_git(self, checkout: Path) -> None:
        head = self.git(checkout, "rev-parse", "HEAD")
        assert commit_at(checkout) == head
        self.git(checkout, "pack-refs", "--all")
        assert commit_at(checkout) == head, "packed"
        self.git(checkout, "checkout", "-q", "--detach")
        assert commit_at(checkout) == head, "on no branch"

    def test_of_another_work_tree_is_its_own(self, checkout: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        self.git(checkout, "worktree", "add", "-q", "-b", "side", str(other))
        (other / "src" / "recollect" / "a.py").write_text("a = 2\n")
        self.git(other, "commit", "-qam", "second")
        assert commit_at(other) == self.git(other, "rev-parse", "HEAD")
        assert commit_at(other) != self.git(checkout, "rev-parse", "HEAD")

    @pytest.mark.parametrize("name", ["src/recollect/a.py", "src/recollect/new.py"])
    def test_says_that_the_source_was_changed(self, name: str, checkout: Path) -> None:
        (checkout / "notes.md").write_text("not code")
        head = self.git(checkout, "rev-parse", "HEAD")
        assert commit_at(checkout) == head
        (checkout / name).write_text("a = 3\n")
        assert commit_at(checkout) == f"{head}+changes"
        self.git(checkout, "add", ".")
        assert commit_at(checkout) == f"{head}+changes", "staged"

    def test_needs_no_git(self, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        head = self.git(checkout, "rev-parse", "HEAD")
        monkeypatch.setenv("PATH", "")
        assert commit_at(checkout) == f"{head}+unknown"

    def test_is_empty_where_there_is_none(self, tmp_path: Path) -> None:
        assert commit_at(tmp_path) == "", "an installed package"
        (tmp_path / "src" / "recollect").mkdir(parents=True)
        assert commit_at(tmp_path) == "", "an archive of the source"
        for content in ("", "gitdir: nowhere", "\x00"):
            (tmp_path / ".git").write_text(content)
            assert commit_at(tmp_path) == ""
