"""A store that version 0.1.0 wrote is still read, listed and added to."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from tests.experiments.some_results import with_provenance

from recollect.experiments import Results
from recollect.experiments.files import read_json, write_runs
from recollect.experiments.store import Store
from recollect.train.identity import UNKNOWN
from recollect.train.provenance import Provenance

OLD = Path(__file__).parent / "files" / "store-0.1.sql"


def old_store(folder: Path) -> Store:
    path = folder / "runs.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(OLD.read_text("utf-8"))
    return Store(path)


def test_a_store_of_version_0_1_is_read_and_added_to(tmp_path: Path) -> None:
    store = old_store(tmp_path)
    runs = store.runs(benchmark="seq-digits", method="er", buffer=50)
    assert [run.seed for run in runs] == [0, 1]
    assert [run.code for run in runs] == ["00d6c1319387"] * 2
    assert runs[0].provenance.commit == ""
    assert runs[0].accuracy["class"] == 53.22769953051644
    made = Provenance("0.2.0", "here", "recollect run ...", "2027-01-01T00:00:00+00:00")
    assert store.add([replace(runs[0], code="another", provenance=made)]) == 1
    assert len(store.runs(all_codes=True)) == 3
    assert [run.code for run in store.runs()] == ["00d6c1319387", "another"]


def test_runs_of_an_old_store_that_are_imported_again_are_not_new(tmp_path: Path) -> None:
    store = old_store(tmp_path)
    runs = store.runs()
    write_runs(tmp_path / "runs.json", runs)
    assert store.add(read_json(tmp_path / "runs.json")) == 0
    assert with_provenance(store.runs(all_codes=True)) == with_provenance(runs)
    found = store.find([run.identity for run in runs])
    assert found == runs


def test_runs_of_an_old_store_belong_together_and_not_to_a_known_network(tmp_path: Path) -> None:
    runs = old_store(tmp_path).runs()
    assert runs[0].identity.network == runs[0].identity.stream == UNKNOWN
    assert [len(each.runs) for each in Results(runs).summaries()] == [2]
    known = [replace(run, network="7ced1d1e", seed=run.seed + 2) for run in runs]
    assert [len(each.runs) for each in Results([*runs, *known]).summaries()] == [2, 2]
