"""Wheels, and empty environments that see the dependencies a wheel declares, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

Build = Callable[..., Path]


@dataclass(frozen=True)
class Environment:
    """A virtual environment and an empty folder to work in."""

    folder: Path
    work: Path

    @property
    def site(self) -> Path:
        """Where its packages are."""
        base = {"base": str(self.folder), "platbase": str(self.folder)}
        return Path(sysconfig.get_path("purelib", "venv", base))

    def install(self, *wheels: str) -> None:
        """Install wheels; what they declare must be there already."""
        _call(
            [sys.executable, "-m", "pip", "--python", str(self.folder), "install", "--no-index",
             "--no-compile", "--quiet", *wheels], self.work,
        )  # fmt: skip

    def run(self, program: str, *words: str) -> str:
        """What a program of the environment prints; it must succeed and not warn."""
        return _call([str(self.folder / "bin" / program), *words], self.work)

    def python(self, code: str) -> str:
        """What Python code prints there, in a script, with warnings as errors."""
        script = self.work / "script.py"
        script.write_text(code, "utf-8")
        return self.run("python", "-W", "error", str(script))


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds the wheel, or the source distribution, of a folder."""
    made: dict[tuple[Path, str], Path] = {}

    def one(folder: Path, target: str = "wheel") -> Path:
        if (folder, target) not in made:
            to = tmp_path_factory.mktemp(target)
            _call([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(to)], folder)
            (made[folder, target],) = to.iterdir()
        return made[folder, target]

    return one


@pytest.fixture(scope="session")
def wheel(build: Build) -> Path:
    """The wheel of this library."""
    return build(ROOT)


@pytest.fixture(scope="session")
def environment(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Environment]:
    """The wheel with an extra, or none, installed where there was nothing before."""
    made: dict[str, Environment] = {}

    def one(extra: str = "") -> Environment:
        if extra not in made:
            folder = tmp_path_factory.mktemp("environment")
            made[extra] = found = Environment(folder / "venv", folder / "work")
            found.work.mkdir()
            venv.create(found.folder, symlinks=True)
            wanted = f"recollect[{extra}]" if extra else "recollect"
            for each in _closure(Requirement(wanted), wheel):
                _link(each, found.site)
            found.install(f"{wanted} @ {wheel.as_uri()}")
        return made[extra]

    return one


def _closure(wanted: Requirement, wheel: Path) -> Iterator[metadata.Distribution]:
    """The distributions that a wheel with its extras needs, of those that are installed here."""
    unpacked = wheel.parent.parent / "unpacked"
    if not unpacked.exists():
        shutil.unpack_archive(wheel, unpacked, "zip")
    (about,) = metadata.distributions(path=[str(unpacked)])
    left, seen = [(wanted, about.requires or [])], set[tuple[str, str]]()
    while left:
        requirement, needs = left.pop()
        for extra in requirement.extras or {""}:
            for each in _applying(needs, extra):
                if (key := (canonicalize_name(each.name), ",".join(sorted(each.extras)))) in seen:
                    continue
                seen.add(key)
                found = metadata.distribution(each.name)
                yield found
                left.append((each, found.requires or []))


def _applying(needs: Iterable[str], extra: str) -> list[Requirement]:
    every = [Requirement(need) for need in needs]
    return [each for each in every if not each.marker or each.marker.evaluate({"extra": extra})]


def _link(found: metadata.Distribution, site: Path) -> None:
    """Show a distribution to an environment."""
    assert found.files, f"{found.name} does not say which files it has"
    for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
        if not (site / top).exists() and not top.endswith(".pth"):
            (site / top).symlink_to(Path(str(found.locate_file(top))).resolve())


def _call(words: list[str], folder: Path) -> str:
    """What a command prints, called as on a machine that has no settings of its own."""
    hidden = ("PIP_", "PYTHON", "RECOLLECT_", "VIRTUAL_ENV", "COV_", "COLUMNS")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    clean |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    clean |= {"RECOLLECT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        words, cwd=folder, env=clean, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, f"{words}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout
