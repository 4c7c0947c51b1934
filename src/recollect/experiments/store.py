"""The result store: every run that was ever finished, in one SQLite file."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any, final

from recollect.errors import DataError
from recollect.experiments.files import read_json, write_lines
from recollect.experiments.made import Made
from recollect.experiments.results import Results
from recollect.files import write_json as write_data
from recollect.streams.data.places import cache_folder
from recollect.train import Job, Result
from recollect.train.provenance import code_version, commit

__all__ = [
    "Kept", "Store", "Stored", "job_keys", "read_json", "run_key", "store_file", "write_json",
    "write_lines", "write_rows",
]  # fmt: skip

PATIENCE = 60.0
MOST = 500
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    key TEXT NOT NULL,          -- what was run: everything but the code and the machine
    code TEXT NOT NULL,
    benchmark TEXT NOT NULL,
    method TEXT NOT NULL,
    buffer INTEGER,
    seed INTEGER NOT NULL,
    epochs INTEGER NOT NULL,
    validation INTEGER NOT NULL,
    created TEXT NOT NULL,
    made TEXT NOT NULL,         -- JSON: the fields of Made
    result TEXT NOT NULL,       -- JSON: all that is known of the run
    PRIMARY KEY (key, code)
);
CREATE INDEX IF NOT EXISTS by_table ON runs (benchmark, method, buffer);
"""


@final
@dataclass(frozen=True)
class Stored:
    """A run in the store, and where it came from."""

    result: Result
    key: str
    made: Made

    @property
    def version(self) -> str:
        """The version of recollect."""
        return self.made.version

    @property
    def code(self) -> str:
        """The code that the result depends on."""
        return self.made.code

    @property
    def machine(self) -> str:
        """The machine that made it."""
        return self.made.machine

    @property
    def command(self) -> str:
        """The command that made it."""
        return self.made.command

    @property
    def created(self) -> str:
        """When it was made."""
        return self.made.created


@final
class Store:
    """A file of runs that several processes may read and write at once.

    A run is there once for every code that made it. What is written is on the disk when the call
    returns, whole or not at all.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path) if path is not None else store_file()

    def add(self, rows: Iterable[tuple[Result, Made]], *, replace: bool = False) -> int:
        """Keep runs; how many were new. Those that are there stay, unless they are replaced."""
        verb = "REPLACE" if replace else "IGNORE"
        values = [
            (
                run_key(run), made.code, run.benchmark, run.method, run.buffer, run.seed,
                run.epochs, int(run.validation), made.created, json.dumps(asdict(made)),
                json.dumps(run.as_json(), allow_nan=False),
            )
            for run, made in rows
        ]  # fmt: skip
        with self._open(create=True) as database:
            before = database.total_changes
            database.executemany(
                f"INSERT OR {verb} INTO runs VALUES ({', '.join('?' * 11)})", values
            )
            return database.total_changes - before

    def rows(
        self,
        *,
        benchmark: str | None = None,
        method: str | None = None,
        buffer: int | EllipsisType | None = ...,
        validation: bool | None = None,
        epochs: int | None = None,
        all_codes: bool = False,
    ) -> list[Stored]:
        """The runs that fit, in order of their arrival; of each only the newest code's."""
        wanted = {
            "benchmark": benchmark, "method": method, "epochs": epochs,
            "validation": None if validation is None else int(validation),
        }  # fmt: skip
        tests: dict[str, Any] = {
            f"{name} = ?": value for name, value in wanted.items() if value is not None
        }
        if buffer is None:
            tests["buffer IS ?"] = None
        elif not isinstance(buffer, EllipsisType):
            tests["buffer = ?"] = buffer
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        found = self._select(
            f"SELECT key, made, result FROM runs{where} ORDER BY rowid", list(tests.values())
        )
        if all_codes:
            return found
        newest: dict[str, Stored] = {}
        for row in found:
            if row.key not in newest or row.created >= newest[row.key].created:
                newest[row.key] = row
        kept = {id(row) for row in newest.values()}
        return [row for row in found if id(row) in kept]

    def results(self, **filters: Any) -> Results:
        """The same, as results."""
        return Results([row.result for row in self.rows(**filters)])

    def find(self, keys: Sequence[str], code: str) -> dict[str, Result]:
        """Those of the runs with these keys that this code has made."""
        found: dict[str, Result] = {}
        for start in range(0, len(keys), MOST):
            some = keys[start : start + MOST]
            marks = ", ".join("?" * len(some))
            sql = f"SELECT key, made, result FROM runs WHERE code = ? AND key IN ({marks})"
            found |= {row.key: row.result for row in self._select(sql, [code, *some])}
        return found

    def _select(self, sql: str, values: Sequence[Any]) -> list[Stored]:
        if not self.path.exists():
            return []
        with self._open() as database:
            return [_stored(*row) for row in database.execute(sql, values)]

    @contextmanager
    def _open(self, create: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=PATIENCE)) as database, database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")
                database.executescript(SCHEMA)
                yield database
        except (sqlite3.Error, OSError) as error:
            raise DataError(
                f"the result store {self.path} cannot be used: {error}; name another one with "
                f"--store or RECOLLECT_STORE"
            ) from None


@final
@dataclass(frozen=True)
class Kept:
    """What lets a command skip the runs that a store has, and keeps those that it trains."""

    store: Store
    command: str
    fresh: bool = False

    def find(self, job: Job) -> list[Result | None]:
        """The results of a job's runs that are there; none if the command is to start over."""
        # Which code this is must be known before training: its files may be edited meanwhile.
        code, _ = code_version(job.kind), commit()
        if self.fresh:
            return [None] * len(job.runs)
        keys = job_keys(job)
        found = self.store.find(keys, code)
        return [_fit(found.get(key), job) for key in keys]

    def add(self, job: Job, results: Sequence[Result]) -> None:
        """Keep what was trained."""
        made = Made.here(job, self.command)
        self.store.add([(run, made) for run in results], replace=True)


def store_file() -> Path:
    """Where the store is: RECOLLECT_STORE, else in the user's folder for data."""
    if named := os.environ.get("RECOLLECT_STORE"):
        return Path(named).expanduser().absolute()
    if os.environ.get("RECOLLECT_CACHE"):
        return cache_folder() / "results.sqlite"
    shared = os.environ.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local/share") / "recollect/results.sqlite"


def run_key(run: Result) -> str:
    """A name for what was run: two runs with one name differ in code and machine alone."""
    facts = [run.benchmark, run.method, run.buffer, run.seed, run.epochs, run.validation]
    return _hashed(facts, run.hyperparameters)


def job_keys(job: Job) -> list[str]:
    """The names that the runs of a job will have, before they are trained."""
    before, after = [job.stream.name, job.kind.name, job.buffer], [job.epochs, job.validation]
    return [
        _hashed([*before, run.seed, *after], job.hyperparameters(number))
        for number, run in enumerate(job.runs)
    ]


def write_json(path: Path | str, results: Iterable[Result], store: Store) -> None:
    """Write one JSON object per run, with where it came from: `read_json` reads it anywhere."""
    newest = {row.key: row.made for row in store.rows()}
    exact = {_exactly(row.result): row.made for row in store.rows(all_codes=True)}
    write_rows(path, ((run, exact.get(_exactly(run), newest.get(run_key(run)))) for run in results))


def write_rows(path: Path | str, rows: Iterable[tuple[Result, Made | None]]) -> None:
    """Write one JSON object per run, with where it came from if that is known."""
    write_data(path, [{**run.as_json(), "made": made and asdict(made)} for run, made in rows])


def _stored(key: str, made: str, result: str) -> Stored:
    try:
        return Stored(Result(**json.loads(result)), key, Made(**json.loads(made)))
    except (ValueError, TypeError) as error:
        raise DataError(f"the result store holds a run that cannot be read: {error}") from None


def _hashed(facts: list[Any], hyperparameters: Mapping[str, float]) -> str:
    values = sorted((name, float(value)) for name, value in hyperparameters.items())
    return hashlib.sha256(json.dumps([*facts, values]).encode()).hexdigest()[:24]


def _exactly(run: Result) -> str:
    """All of a run, to tell apart what two codes made of it."""
    return json.dumps(run.as_json(), sort_keys=True)


def _fit(found: Result | None, job: Job) -> Result | None:
    """A result in half precision does for a job that does not ask for more."""
    return None if found and job.full_precision and "bf16" in found.execution else found
