"""Every public name says what it is, with an example; doctest runs the examples."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest

ROOMS = (
    "recollect",
    "recollect.adapters",
    "recollect.errors",
    "recollect.learner",
    "recollect.live",
    "recollect.memory",
    "recollect.methods",
    "recollect.nets",
    "recollect.streams",
    "recollect.testing",
)


def public(room: str) -> list[str]:
    """The public names of a room that can have a docstring: not tables, nor names of types."""
    module = importlib.import_module(room)
    return [
        name
        for name in module.__all__
        if inspect.isroutine(inspect.unwrap(getattr(module, name)))
        or inspect.isclass(getattr(module, name))
    ]


NAMES = [(room, name) for room in ROOMS for name in public(room)]


def test_few_names_cannot_have_a_docstring() -> None:
    left = {
        f"{room}.{name}"
        for room in ROOMS
        for name in importlib.import_module(room).__all__
        if name not in public(room)
    }
    assert left == {
        "recollect.methods.METHODS",
        "recollect.methods.REQUIREMENTS",
        "recollect.streams.BENCHMARKS",
        "recollect.streams.Setting",
    }


@pytest.mark.parametrize(("room", "name"), NAMES, ids=[f"{room}.{name}" for room, name in NAMES])
def test_a_public_name_has_an_example(room: str, name: str) -> None:
    thing = getattr(importlib.import_module(room), name)
    # A class without a docstring of its own would show that of its parent.
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else inspect.getdoc(thing)
    examples = doctest.DocTestParser().get_examples(own or "")
    assert any(
        not example.options.get(doctest.SKIP, False) and example.source.strip()
        for example in examples
    ), f"{name} has no example (>>>) that is run"
