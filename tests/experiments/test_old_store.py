"""A store that version 0.1.0 wrote is still read, listed and added to."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from recollect.experiments.made import Made
from recollect.experiments.store import Store

OLD = Path(__file__).parent / "files" / "store-0.1.sql"


def test_a_store_of_version_0_1_is_read_and_added_to(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(OLD.read_text("utf-8"))
    store = Store(path)
    rows = store.rows(benchmark="seq-digits", method="er", buffer=50)
    assert [row.result.seed for row in rows] == [0, 1]
    assert [row.made.code for row in rows] == ["00d6c1319387"] * 2
    assert rows[0].made.commit == ""
    assert rows[0].result.accuracy["class"] == 53.22769953051644
    made = Made("0.2.0", "another", "here", "recollect run ...", "2027-01-01T00:00:00+00:00")
    assert store.add([(rows[0].result, made)]) == 1
    assert len(store.rows(all_codes=True)) == 3
    assert [row.made.code for row in store.rows()] == ["00d6c1319387", "another"]
