"""Export the trained network of a method, for use without this library."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import nn

from recollect.core.weights import State
from recollect.errors import InputError
from recollect.methods.base import Method

__all__ = ["Exports", "exported"]


@runtime_checkable
class Exports(Protocol):
    """A method with its own `predict` that can be expressed as a plain network."""

    def export(self, module: nn.Module, state: State) -> nn.Module:
        """Change the network of one run so that its outputs are the method's predictions."""


def exported(method: Method, module: nn.Module, state: State) -> nn.Module:
    """Return a network of one run whose outputs are the method's predictions.

    Raises an `InputError` if the method predicts otherwise and has no `export`.
    """
    if isinstance(method, Exports):
        return method.export(module, state)
    if type(method).predict is not Method.predict:
        raise InputError(
            f"{method.title} does not predict with the outputs of its network alone, so an "
            f"exported module would differ: save the learner, or define `export` in the method"
        )
    return module
