"""The trained network of a method, for use without this library."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import nn

from recollect.core.weights import State
from recollect.errors import InputError
from recollect.methods.base import Method

__all__ = ["Exports", "exported"]


@runtime_checkable
class Exports(Protocol):
    """A method whose predictions are its own, and that can put them into a network."""

    def export(self, module: nn.Module, state: State) -> nn.Module:
        """The network of one run, changed so that its outputs are what the method predicts."""


def exported(method: Method, module: nn.Module, state: State) -> nn.Module:
    """The network of one run so that its outputs are what the method predicts, or an error."""
    if isinstance(method, Exports):
        return method.export(module, state)
    if type(method).predict is not Method.predict:
        raise InputError(
            f"{method.title} does not predict by the outputs of its network alone, so a module "
            f"would predict something else: save the learner, or define `export` in the method"
        )
    return module
