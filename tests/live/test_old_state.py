"""A state that an earlier version saved is still continued."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from recollect.cli.main import main

# Saved by version 0.1 after `recollect stream - --memory 10 --hidden 4 --seed 1` with 40 rows.
OLD = Path(__file__).parent / "files" / "state-0.1"
WORDS = ["--memory", "10", "--hidden", "4", "--seed", "1", "--replayed", "--checkpoint"]


def state(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "000000000000060.recollect")


def test_it_ends_as_if_one_version_had_learned_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.csv"
    lines = [f"{n * 7 % 13},{n * 5 % 11},{'abc'[n // 20 % 3]}\n" for n in range(60)]
    rows.write_text("".join(lines))
    shutil.copytree(OLD, tmp_path / "old")
    # The default was DERpp() then: the old state goes on with it, a new one must be told.
    for name, chosen in {"old": [], "new": ["--method", "derpp"]}.items():
        with rows.open() as source:
            monkeypatch.setattr(sys, "stdin", source)
            assert main(["stream", "-", *WORDS, str(tmp_path / name), *chosen]) == 0
    said = capsys.readouterr().err
    columns = "recollect: learning '3' from 2 numbers (1, 2)\n"
    assert said == (
        f"recollect: continuing after 40 examples (--fresh starts over)\n{columns}{columns}"
    )
    old, new = state(tmp_path / "old"), state(tmp_path / "new")
    assert {*old} == {*new}
    for name, tensor in new.items():
        # The old version did not look for outliers, nor count what was predicted.
        if name.startswith(("watch.", "record.labels", "record.predicted", "record.uncounted")):
            continue
        torch.testing.assert_close(old[name], tensor, msg=name)
    facts = [json.loads((tmp_path / name / "stream.json").read_text()) for name in ("old", "new")]
    settings = [each.pop("settings") for each in facts]
    assert facts[0] == facts[1]
    assert settings[1] == dict.fromkeys(settings[1]) | settings[0], "what is new is not chosen"
