"""A fingerprint of the source code that a run depends on."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

from recollect.core.source import (
    LIBRARY,
    bytecode_of,
    captured_by,
    is_installed_file,
    modules_of,
)

LETTERS = 12
TRAINING = "recollect.train.loop"

# These do not affect results: they save, describe and report.
APART = {
    f"recollect.{name}"
    for name in ("errors", "files", "train.checkpoint", "train.code",
                 "train.curves", "train.details", "train.fingerprint", "train.identity",
                 "train.interrupts", "train.mixing", "train.networks", "train.observer",
                 "train.provenance")
}  # fmt: skip


def code_fingerprint(method: type, *others: type) -> str:
    """A short hash of the code that trains a method, without comments, docstrings and layout.

    It covers the module of the method, the modules of `others` (the classes of the stream and of
    the network's layers) and recollect's training loop, with everything that they import from
    recollect, the method's package and other files of the user, but not from installed packages.
    Other methods are not included; values that user classes refer to, in closures or module
    globals, are.
    """
    code, values = _fingerprint(method, *others), captured_by(method, *others)
    text = f"{code} {values!r}"  # the values may change between two calls
    return hashlib.sha256(text.encode()).hexdigest()[:LETTERS] if values else code


@cache
def _fingerprint(method: type, *others: type) -> str:
    packages = {"recollect", method.__module__.partition(".")[0]}
    waiting = [TRAINING, *(kind.__module__ for kind in (method, *others))]
    # In an interactive session a module has no file, so only the classes and their bases are read.
    bases = [
        each
        for kind in (method, *others)
        if not _source(kind.__module__).digest
        for each in kind.__mro__
        if each.__module__ == kind.__module__
    ]
    waiting += [name for kind in bases for name in modules_of(kind) if not _is_installed(name)]
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if name not in found and name not in APART:
            source = _source(name)
            found[name] = source.digest
            ours = name.partition(".")[0] == "recollect"
            waiting += [
                _defining(origin, there)
                for origin, there, _ in source.imports
                if origin.partition(".")[0] in packages or not (ours or _is_installed(origin))
            ]
    own = [f"{method.__module__}.{method.__qualname__}"]
    own += map(tokens_of, bases)
    text = "\0".join([*own, *(f"{name} {found[name]}" for name in sorted(found))])
    return hashlib.sha256(text.encode()).hexdigest()[:LETTERS]


@final
@dataclass(frozen=True)
class _Source:
    """A hash of a module's tokens, the names that it imports, and whether it is a package."""

    digest: str
    imports: tuple[tuple[str, str, str], ...]  # (module, name there, name here)
    is_package: bool


@cache
def _source(module: str) -> _Source:
    file = _file(module)
    is_package = file is not None and file.name == "__init__.py"
    try:
        tree = ast.parse(file.read_bytes()) if file else None
    except (OSError, SyntaxError, ValueError):
        tree = None
    if tree is None:
        return _Source("", (), is_package)
    tokens: list[str] = []
    imports: list[ast.Import | ast.ImportFrom] = []
    _read(tree, tokens, imports)
    package = module if is_package else module.rpartition(".")[0]
    return _Source(
        hashlib.sha256("\0".join(tokens).encode()).hexdigest(),
        tuple(each for node in imports for each in _names(node, package)),
        is_package,
    )


def _file(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    name = getattr(loaded, "__file__", None)
    if loaded is None:
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            return None
        name = spec.origin if spec else None
    return Path(name) if name and name.endswith(".py") else None


@cache
def _is_installed(module: str) -> bool:
    """Whether a module belongs to Python or an installed package, and is not a file of the user."""
    package = module.partition(".")[0]
    file = _file(module) or _file(package)
    standard = package in sys.builtin_module_names or package in LIBRARY
    return standard or (file is not None and is_installed_file(file))


@cache
def _defining(module: str, name: str) -> str:
    """The module that defines a name, following re-exports of packages."""
    source = _source(module)
    if name and _file(module) is None and _file(f"{module}.{name}"):
        return f"{module}.{name}"  # in a folder without an __init__.py
    if not (name and source.is_package):
        return module
    for origin, there, here in source.imports:
        # A package may import its own modules from itself.
        if here == name and (origin, there) != (module, name):
            return _defining(origin, there)
    return f"{module}.{name}" if _file(f"{module}.{name}") else module


def _names(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, str, str]]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield alias.name, "", ""
        else:
            name = "." * node.level + (node.module or "")
            origin = importlib.util.resolve_name(name, package) if node.level else name
            yield origin, alias.name, alias.asname or alias.name


def tokens_of(kind: type) -> str:
    """The code of a class, without comments, docstrings and layout, or else its bytecode."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return f"{kind.__module__}.{kind.__qualname__} {bytecode_of(kind)}"
    tokens: list[str] = []
    _read(tree, tokens, [])
    return "\0".join(tokens)


def _read(node: Any, tokens: list[str], imports: list[Any]) -> None:
    """Add the tokens of a syntax tree, without docstrings and other bare strings and help texts.

    Empty fields are omitted, because they differ between versions of Python.
    """
    kind = node.__class__
    if kind is ast.Call and getattr(node.func, "id", "") == "hyper":
        node = ast.Call(node.func, node.args[:1], [])
    tokens.append(kind.__name__)
    if kind is ast.Import or kind is ast.ImportFrom:
        imports.append(node)
    for name in kind._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            tokens.append(name)
            _read(value, tokens, imports)
        elif value.__class__ is list:
            if value:
                tokens.append(name)
            for each in value:
                if not isinstance(each, ast.AST):
                    tokens.append(repr(each))
                elif not _is_text(each):
                    _read(each, tokens, imports)
        elif value is not None:
            tokens.append(f"{name} {value!r}")
    tokens.append(")")


def _is_text(node: ast.AST) -> bool:
    if node.__class__ is not ast.Expr:
        return False
    value = getattr(node, "value", None)
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
