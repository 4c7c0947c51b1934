"""Methods of other packages and files.

Installed packages declare entry points of the group `recollect.methods`. Other methods are given by
their location: `path/to/file.py:Class` or `package.module:Class`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TypeGuard, final

from recollect.core.locations import object_at
from recollect.errors import InputError
from recollect.methods.base import Method, uncalled_hook
from recollect.methods.options import hyperparameters, symbol

GROUP = "recollect.methods"

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
        taken = _owners({**own, **methods}, packages)
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


def name_taken(kind: type[Method], known: Mapping[str, type[Method]]) -> str | None:
    """Say whose the name or title of a method is, if another one of these methods has it."""
    taken = _owners({name: each for name, each in known.items() if each is not kind}, {})
    owner = taken.get(kind.name.lower()) or taken.get(kind.title.lower())
    said = f"there is already a method with the name {kind.name} or the title {kind.title}"
    return f"{said}, of {owner}" if owner else None


def _fault_of(kind: object, name: str, taken: Mapping[str, str]) -> str | None:
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
    if owner := taken.get(name) or taken.get(title.lower()):
        return f"there is already a method with the name {name} or the title {title}, of {owner}"
    if kind.loss is Method.loss and kind.update is Method.update:
        return "it defines neither loss nor update"
    if uncalled := uncalled_hook(kind):
        return uncalled
    for each in map(symbol, hyperparameters(kind)):
        if each in RESERVED:
            return f"its hyper-parameter {each} needs another name: recollect has an option {each}"
    return None


def located(
    text: str, known: Mapping[str, type[Method]], packages: Mapping[str, str]
) -> type[Method]:
    """Load the method class at a location; its name and title must not belong to a known method."""
    where, name, kind = object_at(text, "class", lambda e: _is_method(e) and e is not Method)
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
    fault = _fault_of(kind, own, _owners(others, packages))
    if fault:
        raise InputError(f"{name} in {where} cannot be used: {fault}")
    return kind


def _owners(methods: Mapping[str, type[Method]], packages: Mapping[str, str]) -> dict[str, str]:
    """The names and titles of methods, in lower case, and where each method is from."""
    return {
        text.lower(): packages.get(name) or each.__module__.partition(".")[0]
        for name, each in methods.items()
        for text in (name, each.title)
    }


def _is_method(kind: object) -> TypeGuard[type[Method]]:
    return isinstance(kind, type) and issubclass(kind, Method)
