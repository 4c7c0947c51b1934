"""Load methods by location: `path/to/file.py:Class` or `package.module:Class`."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from recollect.errors import InputError, nearest
from recollect.methods.base import Method
from recollect.methods.packages import fault_of

__all__ = ["is_location", "located"]

LOCATION = re.compile(r"(?P<module>.+\.py|[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")


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
    fault = fault_of(kind, own, _taken(known, kind))
    if fault:
        raise InputError(f"{name} in {where} cannot be used: {fault}")
    return kind  # type: ignore[no-any-return]


def _taken(known: Mapping[str, type[Method]], kind: type) -> Collection[str]:
    others = {name: each for name, each in known.items() if each is not kind}
    return {text.lower() for name, each in others.items() for text in (name, each.title)}


def _is_method(kind: object) -> bool:
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
