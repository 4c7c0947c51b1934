"""Methods of other packages and files.

Installed packages declare entry points of the group `recollect.methods`. Other methods are given by
their location: `path/to/file.py:Class` or `package.module:Class`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeGuard, final

from recollect.errors import InputError, nearest
from recollect.methods.base import Method
from recollect.methods.options import hyperparameters, symbol

GROUP = "recollect.methods"
LOCATION = re.compile(r"(?P<module>.+\.py|[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")

# Names that their hyper-parameters cannot have. The command line, which turns hyper-parameters
# into options, adds the names of its other options before packages are loaded.
RESERVED: set[str] = set()


@final
@dataclass(frozen=True)
class Others:
    """The methods of other packages by name, the package of each, and why others were skipped."""

    methods: Mapping[str, type[Method]]
    packages: Mapping[str, str]
    problems: tuple[str, ...]


def look_for(own: Mapping[str, type[Method]]) -> Others:
    """Load the methods that installed packages declare as entry points.

    An entry point that cannot be used is skipped, with a sentence in `problems`.
    """
    methods: dict[str, type[Method]] = {}
    packages: dict[str, str] = {}
    problems = []
    for entry in sorted(entry_points(group=GROUP), key=lambda each: (each.name, _package(each))):
        taken = _names_of({**own, **methods})
        try:
            kind = entry.load()
            fault = _fault_of(kind, entry.name, taken)
        except (Exception, SystemExit) as error:
            said = " ".join(str(error).split())
            fault = f"it cannot be imported ({type(error).__name__}: {said})"
        if fault:
            problems.append(f"the method {entry.name} of {_package(entry)} is skipped: {fault}")
        else:
            methods[entry.name], packages[entry.name] = kind, _package(entry)
    return Others(methods, packages, tuple(problems))


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"


def _fault_of(kind: object, name: str, taken: Collection[str]) -> str | None:
    """Say why a class cannot be used as a method of this name; None if it can."""
    if not _is_method(kind):
        return f"{kind!r} is not a subclass of recollect.Method"
    own, title = getattr(kind, "name", None), getattr(kind, "title", None)
    if own != name:
        return f"its class has the name {own!r}, but the entry point must have the same name"
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        return "its name must start with a-z or 0-9 and may only have a-z, 0-9, '-', '_' and '.'"
    if not (isinstance(title, str) and title.strip() and title.isprintable() and "[" not in title):
        return f"its title must be one line of plain text without '[', not {title!r}"
    if name in taken or title.lower() in taken:
        return f"there is already a method with the name {name} or the title {title}"
    if kind.loss is Method.loss and kind.update is Method.update:
        return "it defines neither loss nor update"
    for each in map(symbol, hyperparameters(kind)):
        if each in RESERVED:
            return f"its hyper-parameter {each} needs another name: recollect has an option {each}"
    return None


def is_location(text: str) -> bool:
    """Whether a text is the location of a class in a file or module.

    >>> is_location("my/method.py:Mine"), is_location("package.module:Mine"), is_location("derpp")
    (True, True, False)
    """
    return LOCATION.fullmatch(text) is not None


def located(text: str, known: Mapping[str, type[Method]]) -> type[Method]:
    """Load the method class at a location; its name and title must not belong to a known method.

    A file is imported under its own name, like `import file` in its folder, so that a run has the
    same identity whether it is started from the command line or from Python.
    """
    found = LOCATION.fullmatch(text)
    assert found is not None
    where, name = found["module"], found["name"]
    module = _file(Path(where)) if where.endswith(".py") else _module(where)
    kind = getattr(module, name, None)
    if kind is None:
        there = [n for n, each in vars(module).items() if _is_method(each) and each is not Method]
        near = nearest(name, there)
        hint = (
            f": did you mean {near!r}?" if near else f"; it has {', '.join(there) or 'no methods'}"
        )
        raise InputError(f"there is no class {name!r} in {where}{hint}")
    if not _is_method(kind):
        raise InputError(
            f"{name} in {where} is not a method: make it a subclass of recollect.Method"
        )
    own = getattr(kind, "name", None)
    if own is None:
        raise InputError(
            f'{name} in {where} has no name: define one, such as name: ClassVar[str] = "mine"'
        )
    others = {name: each for name, each in known.items() if each is not kind}
    fault = _fault_of(kind, own, _names_of(others))
    if fault:
        raise InputError(f"{name} in {where} cannot be used: {fault}")
    return kind


def _names_of(methods: Mapping[str, type[Method]]) -> set[str]:
    """The names and titles of methods, in lower case."""
    return {text.lower() for name, each in methods.items() for text in (name, each.title)}


def _is_method(kind: object) -> TypeGuard[type[Method]]:
    return isinstance(kind, type) and issubclass(kind, Method)


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r} (in {Path.cwd()}): check the path")
    path, name = path.resolve(), path.stem
    if not name.isidentifier():
        raise InputError(
            f"{path.name!r} cannot be imported: its name may only have letters, digits and _"
        )
    loaded = sys.modules.get(name)
    spec = importlib.util.find_spec(name) if loaded is None else None
    there = getattr(loaded, "__file__", None) or (spec.origin if spec else None)
    if loaded is not None and there and Path(there).resolve() == path:
        return loaded
    if (loaded or spec) and not (there and Path(there).resolve() == path):
        raise InputError(
            f"{path.name} has the name of another module ({there or name}): rename the file"
        )
    with _importing(str(path), path.parent):
        return importlib.import_module(name)


def _module(name: str) -> ModuleType:
    with _importing(name, Path.cwd()):
        return importlib.import_module(name)


@contextmanager
def _importing(what: str, folder: Path) -> Iterator[None]:
    """Put a folder first on the import path within this context, and last afterwards."""
    path = str(folder)
    there = path in sys.path
    sys.path.insert(0, path)
    importlib.invalidate_caches()
    try:
        yield
    except (Exception, SystemExit) as error:
        line = next(
            (f", line {at.lineno}" for at in reversed(traceback.extract_tb(error.__traceback__))
             if at.filename == what), "",
        )  # fmt: skip
        said = " ".join(str(error).split())
        hint = ""
        if "relative import" in said:
            hint = ": use package.module:Class, from the folder that has the package"
        raise InputError(
            f"{what} cannot be imported ({type(error).__name__}: {said}{line}){hint}"
        ) from None
    finally:
        sys.path.remove(path)
        if not there:
            sys.path.append(path)
