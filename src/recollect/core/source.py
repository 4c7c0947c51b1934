"""The source code of a function of the user's, so that a change of it can be noticed."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["code_of", "source_of"]

LETTERS = 16
INSTALLED = ("torch", "torchvision", "numpy", "builtins")


def source_of(function: Callable[..., Any] | None) -> str:
    """A short name for what a function does: its code, and the values that it refers to.

    Comments, docstrings and layout do not count. Functions and values of its module that it names
    do, and what it was built with: defaults, closures, arguments of a partial, attributes of an
    object.

    >>> def twice(x): return 2 * x
    >>> def thrice(x): return 3 * x
    >>> source_of(twice) == source_of(twice), source_of(twice) == source_of(thrice)
    (True, False)
    """
    if function is None:
        return ""
    facts = _facts(function, set())
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:LETTERS]


def code_of(kind: type) -> str:
    """The code of a class without comments and docstrings, wherever it is defined.

    Nothing where it cannot be read, as in an interactive session.

    >>> from recollect.nets import MLP
    >>> "relu" in code_of(MLP)
    True
    """
    return _code(kind)


def _facts(value: object, met: set[int]) -> object:
    """Plain data that differ where the value does."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, Tensor | np.ndarray):
        tensor = torch.as_tensor(value).detach().cpu().contiguous()
        digest = hashlib.sha256(tensor.flatten().view(torch.uint8).numpy().data).hexdigest()
        return [str(tensor.dtype), [*tensor.shape], digest]
    if isinstance(value, types.ModuleType):
        return value.__name__
    if id(value) in met:
        return "again"
    met = {*met, id(value)}
    if isinstance(value, tuple | list):
        return [_facts(each, met) for each in value]
    if isinstance(value, dict):
        return [[repr(key), _facts(each, met)] for key, each in value.items()]
    if isinstance(value, functools.partial):
        return [_facts(each, met) for each in (value.func, value.args, value.keywords)]
    if isinstance(value, types.MethodType):
        return [_facts(value.__func__, met), _facts(value.__self__, met)]
    if isinstance(value, types.FunctionType):
        return _function(value, met)
    kind = value if isinstance(value, type) else type(value)
    name = f"{kind.__module__}.{getattr(value, '__qualname__', kind.__qualname__)}"
    inside = {} if value is kind else getattr(value, "__dict__", {})
    return [name, _code(kind) if _is_own(kind) else "", _facts(inside, met)]


def _function(function: types.FunctionType, met: set[int]) -> object:
    if not _is_own(function):
        return f"{function.__module__}.{function.__qualname__}"
    cells = [_cell(cell) for cell in function.__closure__ or ()]
    names = sorted(_names(function.__code__) & function.__globals__.keys())
    used = [[name, _facts(function.__globals__[name], met)] for name in names]
    built = (function.__defaults__, function.__kwdefaults__, cells)
    return [_code(function) or _bytecode(function.__code__), _facts(built, met), used]


def _cell(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it refers to a name that has no value yet
        return None


def _is_own(thing: Any) -> bool:
    return str(thing.__module__).partition(".")[0] not in INSTALLED


def _names(code: types.CodeType) -> set[str]:
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return {*code.co_names}.union(*map(_names, inner))


def _code(thing: types.FunctionType | type) -> str:
    """The syntax tree of a function or a class; nothing where its source cannot be read."""
    try:
        tree: ast.AST = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):
        return ""
    if getattr(thing, "__name__", "") == "<lambda>":
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        return ast.dump(lambdas[0]) if len(lambdas) == 1 else ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(tree)


def _bytecode(code: types.CodeType) -> str:
    """What a function does where its source cannot be read, as in an interactive session."""
    consts = [_bytecode(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {consts}"
