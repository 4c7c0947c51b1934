"""The code of functions and classes, for fingerprints: the same text in all versions of Python."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.core.source import code_of


def same(x):  # type: ignore[no-untyped-def]
    return x


class Empty:
    pass


ARGUMENTS = (
    "args=arguments(posonlyargs=[], args=[arg(arg='x')], kwonlyargs=[], kw_defaults=[], "
    "defaults=[])"
)


@pytest.mark.parametrize(
    ("thing", "code"),
    [
        (same, f"Module(body=[FunctionDef(name='same', {ARGUMENTS}, body=[Return(value=Name("
               "id='x', ctx=Load()))], decorator_list=[])], type_ignores=[])"),
        (Empty, "Module(body=[ClassDef(name='Empty', bases=[], keywords=[], body=[Pass()], "
                "decorator_list=[])], type_ignores=[])"),
    ],
    ids=["function", "class"],
)  # fmt: skip
def test_code_is_written_alike_in_all_versions_of_python(thing: type, code: str) -> None:
    assert code_of(thing) == code


def test_so_is_the_code_of_a_lambda() -> None:
    function: Any = lambda x: x  # noqa: E731
    assert code_of(function) == f"Lambda({ARGUMENTS}, body=Name(id='x', ctx=Load()))"
