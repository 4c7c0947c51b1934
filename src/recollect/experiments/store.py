"""Result store: all finished runs in one SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import EllipsisType
from typing import Any, final

from recollect.errors import DataError
from recollect.streams.data.files import cache_folder
from recollect.train import Result
from recollect.train.identity import Identity
from recollect.train.result import DETAILS

PATIENCE = 60.0
MOST = 500
VERSION = 1  # 0: keys without network and data, of early versions of 0.1.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    key TEXT NOT NULL,          -- the key of the run's identity without its code
    code TEXT NOT NULL,
    benchmark TEXT NOT NULL,
    method TEXT NOT NULL,
    buffer INTEGER,
    seed INTEGER NOT NULL,
    epochs INTEGER NOT NULL,
    validation INTEGER NOT NULL,
    created TEXT NOT NULL,
    made TEXT NOT NULL,         -- JSON: provenance and fingerprints
    result TEXT NOT NULL,       -- JSON: the other fields of Result
    PRIMARY KEY (key, code)
);
CREATE INDEX IF NOT EXISTS by_table ON runs (benchmark, method, buffer);
"""

INSERT = f"INSERT OR {{}} INTO runs VALUES ({', '.join('?' * 11)})"


@final
class Store:
    """SQLite file of runs that several processes can read and write at the same time.

    It has each run once for every version of the code that trained it. Writes are atomic, and
    durable when the call returns.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path) if path is not None else store_file()

    def add(self, runs: Iterable[Result], *, replace: bool = False) -> int:
        """Store runs, and return the number of new ones.

        A run with the same identity as a stored one is skipped, or with `replace` replaces it. A
        skipped run still adds curves or confusion matrices that the stored run lacks.
        """
        verb = "REPLACE" if replace else "IGNORE"
        given = list(runs)
        with self._open(create=True) as database:
            _update_keys(database)
            before = database.total_changes
            database.executemany(INSERT.format(verb), [_columns(run) for run in given])
            new = database.total_changes - before
            if not replace:
                _add_details(database, given)
            return new

    def runs(
        self,
        *,
        benchmark: str | None = None,
        method: str | None = None,
        buffer: int | EllipsisType | None = ...,
        validation: bool | None = None,
        epochs: int | None = None,
        all_codes: bool = False,
    ) -> list[Result]:
        """Return the runs that match, in the order in which they were stored.

        Of runs that differ only in the version of the code, the newest is returned, or with
        `all_codes` all of them.
        """
        wanted = {
            "benchmark": benchmark, "method": method, "epochs": epochs, "validation": validation,
        }  # fmt: skip
        tests: dict[str, Any] = {name: each for name, each in wanted.items() if each is not None}
        if buffer is not ...:
            tests["buffer"] = buffer
        where = " AND ".join(["TRUE", *(f"{name} IS ?" for name in tests)])
        found = self._select(f"{where} ORDER BY rowid", [*tests.values()])
        return found if all_codes else newest_code(found)

    def find(self, identities: Sequence[Identity]) -> list[Result | None]:
        """Return the result of each run, or None if it is not stored."""
        found: dict[str, Result] = {}
        for start in range(0, len(identities), MOST):
            keys = [each.key_without("code") for each in identities[start : start + MOST]]
            marks = ", ".join("?" * len(keys))
            some = self._select(f"key IN ({marks})", keys)
            found |= {run.identity.key: run for run in some}
        return [found.get(each.key) for each in identities]

    def _select(self, where: str, values: Sequence[Any]) -> list[Result]:
        if not self.path.exists():
            return []
        with self._open() as database:
            rows = database.execute(f"SELECT made, result FROM runs WHERE {where}", values)
            return [_stored(*row) for row in rows]

    @contextmanager
    def _open(self, create: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._is_read_only():
                if create:
                    raise OSError("it is read-only")
                with closing(self._connect_read_only()) as database:
                    yield database
                return
            with closing(sqlite3.connect(self.path, timeout=PATIENCE)) as database, database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")
                database.executescript(SCHEMA)
                yield database
        except (sqlite3.Error, OSError) as error:
            raise DataError(
                f"the result store {self.path} cannot be used: {error}; choose another one with "
                f"--store or RECOLLECT_STORE"
            ) from None

    def _is_read_only(self) -> bool:
        """Return True if the file exists but it or its folder is not writable."""
        places = (self.path, self.path.parent)
        return self.path.exists() and not all(os.access(each, os.W_OK) for each in places)

    def _connect_read_only(self) -> sqlite3.Connection:
        """Connect without writing any file, including the files that SQLite puts next to it."""
        address = f"{self.path.absolute().as_uri()}?mode=ro"
        if not self.path.with_name(f"{self.path.name}-wal").exists():
            # Without other writers `immutable` is safe; SQLite would otherwise create shared files.
            address += "&immutable=1"
        return sqlite3.connect(address, timeout=PATIENCE, uri=True)


def with_details(run: Result, old: Result | None) -> Result:
    """Add the curves and other details of a stored result that a run lacks."""
    missing = [name for name in DETAILS if getattr(run, name) is None]
    return replace(run, **{name: getattr(old, name) for name in missing}) if old else run


def _add_details(database: sqlite3.Connection, given: Iterable[Result]) -> None:
    """Add curves and other details to stored runs that lack them."""
    for run in given:
        if all(getattr(run, name) is None for name in DETAILS):
            continue
        key = [run.identity.key_without("code"), run.code]
        found = "SELECT made, result FROM runs WHERE key = ? AND code = ?"
        old = _stored(*database.execute(found, key).fetchone())
        full = with_details(old, run)
        if full != old:
            database.execute(
                "UPDATE runs SET result = ? WHERE key = ? AND code = ?", [_columns(full)[-1], *key]
            )


def store_file() -> Path:
    """Return the path of the store: RECOLLECT_STORE, or a file in the user's data folder."""
    if named := os.environ.get("RECOLLECT_STORE"):
        return Path(named).expanduser().absolute()
    if os.environ.get("RECOLLECT_CACHE"):
        return cache_folder() / "results.sqlite"
    shared = os.environ.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local/share") / "recollect/results.sqlite"


def newest_code(runs: Sequence[Result]) -> list[Result]:
    """Of runs that differ only in the version of the code, retain the newest."""
    newest: dict[str, Result] = {}
    for run in runs:
        key = run.identity.key_without("code")
        if key not in newest or run.provenance.created >= newest[key].provenance.created:
            newest[key] = run
    chosen = set(map(id, newest.values()))
    return [run for run in runs if id(run) in chosen]


def _columns(run: Result) -> tuple[Any, ...]:
    data = run.as_json()
    made = data.pop("made")
    return (
        run.identity.key_without("code"), run.code, run.benchmark, run.method, run.buffer, run.seed,
        run.epochs, int(run.validation), run.provenance.created, json.dumps(made),
        json.dumps(data, allow_nan=False),
    )  # fmt: skip


def _stored(made: str, result: str) -> Result:
    try:
        return Result.from_json({**json.loads(result), "made": json.loads(made)})
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"the result store has a run that cannot be read: {error}") from None


def _update_keys(database: sqlite3.Connection) -> None:
    """Update the keys of rows that an older version wrote."""
    if database.execute("PRAGMA user_version").fetchone()[0] >= VERSION:
        return
    database.execute("BEGIN IMMEDIATE")
    for number, *row in database.execute("SELECT rowid, made, result FROM runs").fetchall():
        key, code, *_ = _columns(_stored(*row))
        database.execute("UPDATE runs SET key = ?, code = ? WHERE rowid = ?", [key, code, number])
    database.execute(f"PRAGMA user_version = {VERSION}")
