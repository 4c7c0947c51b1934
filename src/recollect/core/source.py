"""Fingerprints of user-defined functions, to detect when their code or values change."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import sys
import sysconfig
import textwrap
import types
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor

LETTERS = 16
LIBRARY = ("builtins", "numpy", "recollect", "torch", "torchvision")
SAYS_ITSELF = (
    bool, int, float, complex, str, bytes, np.generic, torch.dtype, torch.device, range, slice,
    PurePath, Enum,
)  # fmt: skip
Met = dict[int, object]  # visited objects by id; keeping them alive keeps their ids unique


def source_of(function: Callable[..., Any] | None) -> str:
    """A short hash of a function's code and of the values that it refers to.

    Comments, docstrings and layout are ignored. Included are the globals that it uses, its
    defaults and closure, the arguments of a partial and the attributes of a callable object.

    >>> def twice(x): return 2 * x
    >>> def thrice(x): return 3 * x
    >>> source_of(twice) == source_of(twice), source_of(twice) == source_of(thrice)
    (True, False)
    """
    if function is None:
        return ""
    return hashlib.sha256(repr(facts_of(function)).encode()).hexdigest()[:LETTERS]


def facts_of(value: object) -> object:
    """Describe a value by plain data that changes when its code or contents change."""
    return _facts(value, {})


def captured_by(*kinds: type) -> list[object]:
    """Describe the closures and globals that the methods of classes refer to.

    Classes of installed packages are ignored. The list is empty if there are none.
    """
    met: Met = {id(kind): kind for kind in kinds}
    return [each for kind in kinds for each in _captured(kind, met)]


def _facts(value: object, met: Met) -> object:
    if value is None or isinstance(value, SAYS_ITSELF):
        return repr(value)
    if isinstance(value, Tensor | np.ndarray):
        return _array(value)
    if isinstance(value, types.ModuleType):
        return value.__name__
    if id(value) in met:
        return f"again {[*met].index(id(value))}"
    met[id(value)] = value
    if isinstance(value, tuple | list):
        return [_facts(each, met) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(_facts(each, met)) for each in value)
    if isinstance(value, dict):
        return [[repr(key), _facts(each, met)] for key, each in value.items()]
    if isinstance(value, functools.partial):
        return [_facts(each, met) for each in (value.func, value.args, value.keywords)]
    if isinstance(value, types.MethodType):
        return [_facts(value.__func__, met), _facts(value.__self__, met)]
    if isinstance(value, types.FunctionType):
        return _function(value, met)
    kind = value if isinstance(value, type) else type(value)
    said = getattr(value, "__qualname__", getattr(value, "__name__", kind.__qualname__))
    inside = {} if value is kind else _inside(value)
    facts = [f"{kind.__module__}.{said}", code_of(kind) if _is_own(kind) else ""]
    return [*facts, _facts(inside, met), *_captured(kind, met)]


def _array(value: Tensor | np.ndarray[Any, Any]) -> object:
    if isinstance(value, np.ndarray) and value.dtype.kind not in "biufc":
        return repr(value.tolist())
    tensor = torch.as_tensor(value).detach().cpu().contiguous()
    digest = hashlib.sha256(tensor.flatten().view(torch.uint8).numpy().data).hexdigest()
    return [str(tensor.dtype), [*tensor.shape], digest]


def _inside(value: object) -> dict[str, object]:
    slots = [name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)]
    return {**{name: getattr(value, name) for name in slots}, **getattr(value, "__dict__", {})}


def _slots(kind: type) -> tuple[str, ...]:
    names = vars(kind).get("__slots__", ())
    named = (names,) if isinstance(names, str) else tuple(names)
    return tuple(name for name in named if _is_own(kind) and not name.startswith("__"))


def _captured(kind: type, met: Met) -> list[object]:
    found: list[object] = []
    for each in kind.__mro__:
        if not _is_own(each):
            continue
        for name, member in vars(each).items():
            for function in _functions(member):
                if used := _used(function, met):
                    found.append([name, used])
    return found


def _functions(member: object) -> Iterator[types.FunctionType]:
    """Yield the functions of a class member, without those that Python generated."""
    if isinstance(member, property):
        parts: tuple[object, ...] = (member.fget, member.fset)
    else:
        parts = (getattr(member, "func", getattr(member, "__func__", member)),)
    for part in parts:
        # A dataclass generates methods whose closures contain its fields.
        if isinstance(part, types.FunctionType) and not (
            part.__code__.co_filename == "<string>" and part.__name__.startswith("__")
        ):
            yield part


def _used(function: types.FunctionType, met: Met) -> list[object]:
    """The closure values and globals that a function refers to, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    used = [[name, _facts(_cell(cell), met)] for name, cell in cells if name != "__class__"]
    defined = function.__globals__
    for name in sorted(_names(function.__code__) & defined.keys()):
        if not _is_fixed(defined[name]):
            used.append([name, _facts(defined[name], met)])
    return [*used]


def _is_fixed(value: object) -> bool:
    """Whether a value is a module, or a class or function of an installed package."""
    if isinstance(value, types.ModuleType):
        return True
    return isinstance(value, type | types.FunctionType) and not _is_own(value)


def _function(function: types.FunctionType, met: Met) -> object:
    if not _is_own(function):
        return f"{function.__module__}.{function.__qualname__}"
    cells = [_cell(cell) for cell in function.__closure__ or ()]
    names = sorted(_names(function.__code__) & function.__globals__.keys())
    used = [[name, _facts(function.__globals__[name], met)] for name in names]
    built = (function.__defaults__, function.__kwdefaults__, cells)
    return [code_of(function) or _bytecode(function.__code__), _facts(built, met), used]


def _cell(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the name has no value yet
        return None


def _is_own(thing: Any) -> bool:
    return not _is_installed(str(thing.__module__).partition(".")[0])


@cache
def _is_installed(package: str) -> bool:
    if package in LIBRARY:
        return True
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and is_installed_file(Path(file))


def is_installed_file(file: Path) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    folders = (sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    return any(file.is_relative_to(folder) for folder in folders)


def modules_of(kind: type) -> list[str]:
    """The modules that the methods of a class refer to by a global name."""
    functions = [each for member in vars(kind).values() for each in _functions(member)]
    named = [each.__globals__.get(name) for each in functions for name in _names(each.__code__)]
    return sorted({each.__name__ for each in named if isinstance(each, types.ModuleType)})


def _names(code: types.CodeType) -> set[str]:
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return {*code.co_names}.union(*map(_names, inner))


def code_of(thing: types.FunctionType | type) -> str:
    """The code of a function or class without comments and docstrings.

    If its source is not available, as in an interactive session, the bytecode of a class, and an
    empty string for a function.

    >>> from recollect.nets import MLP
    >>> "relu" in code_of(MLP)
    True
    """
    try:
        tree: ast.AST = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):
        return bytecode_of(thing) if isinstance(thing, type) else ""
    if getattr(thing, "__name__", "") == "<lambda>":
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        return _dumped(lambdas[0]) if len(lambdas) == 1 else ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return _dumped(tree)


def _dumped(tree: ast.AST) -> str:
    """A syntax tree as Python 3.11 writes it: 3.12 added a field, 3.13 omits empty lists."""
    shown: dict[str, Any] = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return ast.dump(tree, **shown).replace(", type_params=[]", "")


def bytecode_of(kind: type) -> str:
    """The bytecode and attributes of a class whose source is not available, as in a notebook.

    >>> class Notebook: exec("def twice(self): return 2 * self")
    >>> before = bytecode_of(Notebook)
    >>> class Notebook: exec("def twice(self): return 3 * self")
    >>> bytecode_of(Notebook) == before
    False
    """
    found = []
    for name, member in sorted(vars(kind).items()):
        functions = [*_functions(member)]
        for each in functions:
            defaults = facts_of((each.__defaults__, each.__kwdefaults__))
            found.append(f"{name} {_bytecode(each.__code__)} {defaults}")
        if not (functions or name.startswith(("__", "_abc_"))):
            found.append(f"{name} {facts_of(member)}")
    return "\n".join(found)


def _bytecode(code: types.CodeType) -> str:
    """The bytecode of a function whose source is not available."""
    consts = [_bytecode(c) if isinstance(c, types.CodeType) else _const(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {consts}"


def _const(value: object) -> str:
    """A constant; the order of a set of words differs between processes."""
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)
