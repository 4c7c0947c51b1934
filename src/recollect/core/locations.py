"""Load a class or function by its location: `path/to/file.py:Name` or `package.module:Name`."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from recollect.errors import InputError, nearest

LOCATION = re.compile(r"(?P<module>.+\.py|[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)")


def is_location(text: str) -> bool:
    """Whether a text is the location of an object in a file or module.

    >>> is_location("my/method.py:Mine"), is_location("package.module:Mine"), is_location("derpp")
    (True, True, False)
    """
    return LOCATION.fullmatch(text) is not None


def object_at(text: str, what: str, fits: Callable[[object], bool]) -> tuple[str, str, object]:
    """Load the object at a location; return its file or module, its name, and the object.

    A file is imported under its own name, like `import file` in its folder, so that a run has the
    same identity whether it is started from the command line or from Python. If there is no such
    object, the error (no `what` in ...) suggests objects that fit.
    """
    found = LOCATION.fullmatch(text)
    if found is None:
        raise InputError(f"{text!r} is no location such as path/to/file.py:Name")
    where, name = found["module"], found["name"]
    module = _file(Path(where)) if where.endswith(".py") else _module(where)
    if not hasattr(module, name):
        there = [each for each, value in vars(module).items() if fits(value)]
        near = nearest(name, there)
        hint = f": did you mean {near!r}?" if near else f"; it has {', '.join(there) or 'none'}"
        raise InputError(f"there is no {what} {name!r} in {where}{hint}")
    return where, name, getattr(module, name)


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
            hint = ": use package.module:Name, from the folder that has the package"
        raise InputError(
            f"{what} cannot be imported ({type(error).__name__}: {said}{line}){hint}"
        ) from None
    finally:
        sys.path.remove(path)
        if not there:
            sys.path.append(path)
