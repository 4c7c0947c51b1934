"""Data sets that are slow to read as they are published: they are converted once, into one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors import SafetensorError

from recollect.errors import DataError
from recollect.streams.data import converted
from recollect.streams.data.converted import Form, Unfit
from recollect.streams.data.dataset import Dataset
from recollect.streams.data.downloads import SourceError, download
from recollect.streams.data.files import File, Finding, Report, discard, fault_at, is_file
from recollect.streams.data.places import cache_folder, offline
from recollect.streams.data.sources import check_exists, unavailable

__all__ = ["Conversion", "Original", "locate", "obtain"]


@dataclass(frozen=True)
class Original:
    """A data set as it was published, found in a folder: a quick check, and the slow reading.

    `fault` says what is wrong, if anything is; `read` raises DataError with the same words.
    """

    path: Path
    fault: Callable[[], str | None]
    read: Callable[[Report], Dataset]


@dataclass(frozen=True)
class Conversion:
    """Where the original files of a data set are sought, and how they are read.

    It is published as one `archive`, which the `mirrors` serve and `unpack` reads. `find` looks
    for other layouts in a folder, `others` are further sources, tried after the mirrors, and
    `wanted` tells a person what to put into a folder. `ready` is called before a download that
    would be in vain without something else, and raises DataError if that is missing.
    """

    form: Form
    archive: File
    mirrors: tuple[str, ...]
    unpack: Callable[[Path, Report], Dataset]
    find: Callable[[Path], Original | None]
    wanted: str
    others: tuple[Callable[[Report], Dataset], ...] = ()
    ready: Callable[[], object] | None = None

    @property
    def subfolders(self) -> tuple[str, ...]:
        """Where the archive and the converted file may be inside a folder of data."""
        return ("", self.form.name)


def obtain(conversion: Conversion, folder: Path | None, report: Report) -> Dataset:
    """Load a data set from its converted file, which is made first if it is not there yet.

    The order is: the converted file in the folder that the user named, the one in the cache, the
    original files in that folder, the mirrors, and the other sources. What was read from original
    files is stored in the cache. Damaged files in the user's folder are an error; a damaged
    file in the cache is made again.
    """
    if folder is not None:
        check_exists(folder)
        if path := _converted_in(folder, conversion):
            try:
                return converted.read(conversion.form, path)
            except Unfit as wrong:
                raise DataError(_replace(conversion, path, wrong)) from wrong
    if (cached := _from_cache(conversion.form, report)) is not None:
        return cached
    reasons = [f"the cache {cache_folder()} lacks {conversion.form.file}"]
    if folder is not None:
        if original := _find(conversion, folder):
            data = original.read(report)
            try:
                _keep(conversion.form, data, report)
            except Unfit as wrong:
                raise DataError(_replace(conversion, original.path, wrong)) from wrong
            return data
        reasons.insert(0, f"the folder {folder} lacks its files")
    for source in () if offline() else _remote(conversion):
        try:
            data = source(report)
            _keep(conversion.form, data, report)
        except (SourceError, Unfit) as reason:
            reasons.append(str(reason))
        else:
            return data
    raise unavailable(conversion.form.name, conversion.wanted, reasons)


def locate(conversion: Conversion, folder: Path | None) -> Finding:
    """Where a data set is on this machine, and what is wrong with it; nothing is converted."""
    form, fetch = conversion.form, f"run recollect data fetch {conversion.form.name}"
    if folder is not None:
        check_exists(folder)
        if path := _converted_in(folder, conversion):
            wrong = _unfit(form, path)
            return Finding("folder", wrong and _replace(conversion, path, wrong))
    if is_file(path := _cached(form)):
        wrong = _unfit(form, path)
        return Finding("cache", wrong and f"{path} {wrong}; {fetch}")
    if folder is not None and (original := _find(conversion, folder)):
        return Finding("folder, to be converted", original.fault())
    return Finding("not here", f"{form.file} is missing; {fetch}")


def _converted_in(folder: Path, conversion: Conversion) -> Path | None:
    return _first(folder, conversion.subfolders, conversion.form.file)


def _find(conversion: Conversion, folder: Path) -> Original | None:
    """Unpacked files, which cost less to read, or else the archive."""
    if found := conversion.find(folder):
        return found
    path = _first(folder, conversion.subfolders, conversion.archive.name)
    if path is None:
        return None

    def fault() -> str | None:
        wrong = fault_at(conversion.archive, path)
        return wrong and _replace(conversion, path, wrong)

    def read(report: Report) -> Dataset:
        if wrong := fault():
            raise DataError(wrong)
        return conversion.unpack(path, report)

    return Original(path, fault, read)


def _remote(conversion: Conversion) -> Sequence[Callable[[Report], Dataset]]:
    def mirrored(mirror: str) -> Callable[[Report], Dataset]:
        def fetch(report: Report) -> Dataset:
            if conversion.ready is not None:
                conversion.ready()
            with TemporaryDirectory(prefix="recollect-") as scratch:
                path = Path(scratch) / conversion.archive.name
                download(mirror, conversion.archive, path, report)
                return conversion.unpack(path, report)

        return fetch

    return [*map(mirrored, conversion.mirrors), *conversion.others]


def _from_cache(form: Form, report: Report) -> Dataset | None:
    path = _cached(form)
    if not is_file(path):
        return None
    try:
        return converted.read(form, path)
    except Unfit as wrong:
        discard(path, wrong, "made", report)
    return None


def _keep(form: Form, data: Dataset, report: Report) -> None:
    """Store the converted file for the next time; a cache that cannot be written is no error."""
    path = _cached(form)
    try:
        converted.write(form, data, path)
    except (OSError, SafetensorError) as problem:
        report(f"{path} could not be kept in the cache ({problem})")
    else:
        report(f"{form.name} is kept in {path}")


def _unfit(form: Form, path: Path) -> str | None:
    try:
        converted.read(form, path)
    except Unfit as wrong:
        return str(wrong)
    return None


def _cached(form: Form) -> Path:
    return cache_folder() / form.file


def _first(folder: Path, subfolders: Sequence[str], name: str) -> Path | None:
    paths = (folder / subfolder / name for subfolder in subfolders)
    return next((path for path in paths if is_file(path)), None)


def _replace(conversion: Conversion, path: Path, wrong: object) -> str:
    return (
        f"{path} {wrong}; replace it by the {path.name} of {conversion.form.name}, "
        "or name another folder"
    )
