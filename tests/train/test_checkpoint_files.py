"""The files of unfinished work: whole or not there, whatever was in the way."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tests.builders import timeless
from tests.train.stopping import (
    NAME,
    PAIRS,
    Crash,
    job_of,
    same,
    some_state,
    stop_at,
)

from recollect import ER
from recollect.streams import TaskStream
from recollect.train import Checkpoints, train

pytestmark = pytest.mark.usefixtures("no_hang")


class TestFiles:
    """A file is whole or absent, and only data."""

    def test_what_is_read_is_what_was_written(self, tmp_path: Path) -> None:
        tmp_path = tmp_path / "not" / "there"
        assert Checkpoints(tmp_path).saved(NAME) is None
        state = some_state()
        turned = torch.arange(6.0).view(2, 3).t()
        state = state._replace(tensors={**state.tensors, "turned": turned, "one": torch.tensor(7)})
        Checkpoints(tmp_path).save(NAME, state)
        assert same(Checkpoints(tmp_path).saved(NAME), state)
        assert Checkpoints(tmp_path).saved("other") is None

    @pytest.mark.parametrize("kept", [0, 1, 7, 8, 60, -40, -1])
    def test_a_truncated_file_counts_as_none(self, kept: int, tmp_path: Path) -> None:
        checkpoints = Checkpoints(tmp_path)
        checkpoints.save(NAME, some_state())
        (file,) = tmp_path.iterdir()
        file.write_bytes(file.read_bytes()[:kept])
        assert checkpoints.saved(NAME) is None

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"\xff" * len(data),
            lambda data: data[:8] + b"?" + data[9:],
            lambda data: data + b"more",
            lambda data: data.replace(b"task", b"tas\xff"),
            lambda data: data.replace(b"task", b"tusk"),
            lambda data: safetensors.torch.save({"weights.a": torch.ones(2)}),
            lambda data: safetensors.torch.save({"facts": torch.tensor([123, 7]).byte()}),
        ],
    )
    def test_a_damaged_file_counts_as_none(
        self, damage: Callable[[bytes], bytes], tmp_path: Path
    ) -> None:
        checkpoints = Checkpoints(tmp_path)
        checkpoints.save(NAME, some_state())
        (file,) = tmp_path.iterdir()
        damaged = damage(file.read_bytes())
        assert damaged != file.read_bytes()
        file.write_bytes(damaged)
        assert checkpoints.saved(NAME) is None

    @pytest.mark.usefixtures("short_stretches")
    def test_a_job_with_a_damaged_state_starts_over(
        self, toy_stream: TaskStream, tmp_path: Path
    ) -> None:
        job = job_of(toy_stream, *PAIRS["er"])
        stop_at(4, job, Checkpoints(tmp_path))
        (file,) = tmp_path.iterdir()
        file.write_bytes(file.read_bytes()[:-30])
        reported: list[int] = []
        assert timeless(train(job, reported.append, Checkpoints(tmp_path))) == timeless(train(job))
        assert reported == [1] * 8

    @pytest.mark.usefixtures("short_stretches")
    def test_damaged_results_count_as_none(self, toy_stream: TaskStream, tmp_path: Path) -> None:
        job = job_of(toy_stream, ER())
        results = train(job, checkpoints=Checkpoints(tmp_path))
        (file,) = tmp_path.iterdir()
        assert Checkpoints(tmp_path).results(job.key) == results
        for damaged in ("", "[", "[]", "3", '["a"]', '[{"seed": 0}]'):
            file.write_text(damaged)
            assert Checkpoints(tmp_path).results(job.key) is None
        assert timeless(train(job, checkpoints=Checkpoints(tmp_path))) == timeless(results)

    @pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace", "half of it"])
    def test_a_crash_while_writing_leaves_the_state_before(
        self, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        checkpoints = Checkpoints(tmp_path)
        checkpoints.save(NAME, some_state(1.0))
        whole = Path.write_bytes

        def crash(*_: object) -> None:
            raise Crash

        def write_half(path: Path, data: bytes) -> None:
            whole(path, data[: len(data) // 2])
            raise Crash

        with monkeypatch.context() as patch:
            if where == "half of it":
                patch.setattr(Path, "write_bytes", write_half)
            else:
                patch.setattr(where, crash)
            with pytest.raises(Crash):
                checkpoints.save(NAME, some_state(2.0))
        assert same(Checkpoints(tmp_path).saved(NAME), some_state(1.0))
        assert len(list(tmp_path.iterdir())) == 1, "nothing is left lying about"
        checkpoints.save(NAME, some_state(3.0))
        assert same(Checkpoints(tmp_path).saved(NAME), some_state(3.0))

    def test_the_file_has_its_name_only_when_all_of_it_is_on_the_disk(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        happened: list[str] = []
        fsync, rename = os.fsync, Path.replace

        def noted_fsync(number: int) -> None:
            folder = stat.S_ISDIR(os.fstat(number).st_mode)
            assert folder or os.fstat(number).st_size > 100
            happened.append("name on disk" if folder else "on disk")
            fsync(number)

        def noted_rename(path: Path, target: Path) -> Path:
            happened.append("named")
            return rename(path, target)

        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(Path, "replace", noted_rename)
        Checkpoints(tmp_path).save(NAME, some_state())
        assert happened == ["on disk", "named", "name on disk"]

    @pytest.mark.usefixtures("short_stretches")
    def test_it_is_safetensors_and_nothing_is_ever_unpickled(
        self, toy_stream: TaskStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("loading must not execute code")

        job = job_of(toy_stream, *PAIRS["derpp"])
        for place in ("pickle.load", "pickle.loads", "pickle.dump", "pickle.dumps", "torch.load"):
            monkeypatch.setattr(place, refuse)
        stop_at(4, job, Checkpoints(tmp_path))
        (file,) = tmp_path.iterdir()
        tensors = safetensors.torch.load_file(file)
        assert tensors["memory.x"].shape == (2 * 12 + 1, 6)
        assert tensors["weights.head.weight"].shape == (2, 8, 4)
        assert timeless(train(job, checkpoints=Checkpoints(tmp_path))) == timeless(train(job))

    def test_code_in_the_place_of_a_state_is_not_run(self, tmp_path: Path) -> None:
        class Bomb:
            def __reduce__(self) -> tuple[Any, ...]:
                return Path.touch, (tmp_path / "executed",)

        Checkpoints(tmp_path).save(NAME, some_state())
        (file,) = tmp_path.iterdir()
        file.write_bytes(pickle.dumps(Bomb()))
        assert Checkpoints(tmp_path).saved(NAME) is None
        torch.save(Bomb(), file)
        assert Checkpoints(tmp_path).saved(NAME) is None
        assert list(tmp_path.iterdir()) == [file]
        pickle.loads(pickle.dumps(Bomb()))
        assert (tmp_path / "executed").exists(), "the bomb would have worked"
