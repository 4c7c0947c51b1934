"""What results depend on: names that change with it, and only with it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.train.stopping import convolutional, job_of, mlp, photographs
from torch import Tensor, nn

from recollect import ER, MLP, from_arrays
from recollect.streams import Mnist360, TaskStream, benchmark
from recollect.streams.data import Dataset
from recollect.streams.pixels import pixel_map, rotate
from recollect.train.provenance import (
    Provenance,
    commit,
    commit_at,
    network_fingerprint,
    precision,
    stream_fingerprint,
)

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")


def digits_360() -> Mnist360:
    found = benchmark("digits-360").stream()
    assert isinstance(found, Mnist360)
    return found


@pytest.mark.parametrize("name", ["seq-digits", "perm-digits", "rot-digits", "digits-360"])
def test_a_stream_that_is_loaded_twice_has_one_name(name: str) -> None:
    streams = [benchmark(name).stream() for _ in range(2)]
    assert streams[0] is not streams[1]
    names = {stream_fingerprint(stream) for stream in streams}
    assert len(names) == 1
    assert len(names.pop()) == 16


def test_every_benchmark_and_split_has_a_name_of_its_own() -> None:
    known = [benchmark(n) for n in ("seq-digits", "perm-digits", "rot-digits", "digits-360")]
    names = {stream_fingerprint(each.stream(part)) for each in known for part in (False, True)}
    assert len(names) == 8


def test_another_rotation_is_another_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data are the same; what a run meets is not."""
    before = {n: stream_fingerprint(benchmark(n).stream()) for n in ("digits-360", "rot-digits")}

    def turned(images: Tensor, angles: Tensor) -> Tensor:
        return rotate(images, angles + 0.5)

    monkeypatch.setattr("recollect.streams.mnist360.rotate", turned)
    assert stream_fingerprint(benchmark("digits-360").stream()) != before["digits-360"]
    assert stream_fingerprint(benchmark("rot-digits").stream()) == before["rot-digits"]


def test_another_permutation_is_another_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    before = stream_fingerprint(benchmark("perm-digits").stream())
    plain = replace(benchmark("perm-digits").stream(), view="plain")  # type: ignore[type-var]
    assert stream_fingerprint(plain) != before
    monkeypatch.setattr(
        "recollect.streams.tasks.pixel_map",
        lambda view, seeds, *others: pixel_map(view, tuple(s + 1 for s in seeds), *others),
    )
    assert stream_fingerprint(benchmark("perm-digits").stream()) != before


def data(change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None) -> TaskStream:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4000, 3, generator=generator)
    y = torch.arange(4000) % 4
    if change:
        x, y = change(x, y)
    return from_arrays(x.numpy(), y.numpy(), test=(x[:40].numpy(), y[:40].numpy()))


def one_number(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone()
    x[2717, 1] += 1e-3
    return x, y


def one_label(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y = y.clone()
    y[[2716, 2717]] = y[[2717, 2716]]
    return x, y


def other_order(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.roll(4, 0), y


@pytest.mark.parametrize("change", [one_number, one_label, other_order])
def test_one_number_or_label_among_thousands_counts(
    change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> None:
    assert (
        stream_fingerprint(data()) == stream_fingerprint(data()) != stream_fingerprint(data(change))
    )


def test_permuted_labels_of_a_data_set_count() -> None:
    stream = digits_360()
    kept = stream.dataset
    labels = (kept.train_y + 1) % 10
    other = Dataset(kept.name, kept.classes, kept.train_x, labels, kept.test_x, kept.test_y)
    assert stream_fingerprint(Mnist360(other, stream.name)) != stream_fingerprint(stream)


def test_how_images_are_shown_counts() -> None:
    stream = photographs()
    assert stream.images is not None
    other = replace(stream, images=replace(stream.images, padding=2))
    assert stream_fingerprint(other) != stream_fingerprint(stream)


def test_a_stream_that_is_no_dataclass_is_named_by_what_a_run_meets() -> None:
    class Wrapped:
        """A stream of one's own, whose data are behind its functions."""

        def __init__(self, inner: TaskStream, shift: int = 0) -> None:
            self._inner, self._shift = inner, shift

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

        def order(self, seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
            found = self._inner.order(seeds, task, epoch, start, stop)
            return (found + self._shift) % sum(self._inner.parts(task))

    first, again, other = Wrapped(data()), Wrapped(data()), Wrapped(data(), 1)
    names = [stream_fingerprint(each) for each in (first, again, other)]  # type: ignore[arg-type]
    assert names[0] == names[1] != names[2]


def test_a_stream_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = data()
    first = stream_fingerprint(stream)

    def fail(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr("recollect.train.provenance._add", fail)
    assert stream_fingerprint(stream) == first
    with pytest.raises(AssertionError, match="read again"):
        stream_fingerprint(data())


def test_networks_are_told_apart_by_layers_shapes_and_given_weights() -> None:
    def module(seed: int) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return MLP(6, 4, hidden=(8,))

    assert network_fingerprint(mlp) == network_fingerprint(lambda: MLP(6, 4, hidden=(8,)))
    assert network_fingerprint(module(0)) == network_fingerprint(module(0))
    names = {
        network_fingerprint(each)
        for each in (mlp, lambda: MLP(6, 4, hidden=(9,)), convolutional, module(0), module(1))
    }
    assert len(names) == 5


def test_a_networks_name_leaves_the_random_numbers_as_they_were() -> None:
    state = torch.random.get_rng_state()
    network_fingerprint(mlp)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_precision_is_what_the_fleet_computes_with(toy_stream: TaskStream) -> None:
    dense = job_of(toy_stream, ER())
    images = job_of(photographs(), ER(), network=convolutional)
    gpu = torch.device("cuda")
    assert precision(dense) == precision(images) == "float32"
    assert precision(replace(dense, device=gpu)) == "float32, TF32"
    assert precision(replace(images, device=gpu)) == "bf16 autocast, TF32"
    assert precision(replace(images, device=gpu, full_precision=True)) == "float32, TF32"


def test_the_provenance_of_a_job_is_all_of_it(toy_stream: TaskStream) -> None:
    job = job_of(toy_stream, ER())
    found = Provenance.of(job)
    assert (found.torch, found.commit) == (torch.__version__, commit())
    assert (found.network, found.stream) == (
        network_fingerprint(mlp),
        stream_fingerprint(toy_stream),
    )
    assert Provenance.of(replace(job, epochs=3)) == found, "values have their own fields"


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
