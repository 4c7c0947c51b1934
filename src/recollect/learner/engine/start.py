"""Create the engine of a learner when the first examples arrive."""

from __future__ import annotations

from torch import nn

from recollect.errors import InputError
from recollect.learner.engine.engine import Engine
from recollect.learner.inputs.examples import Kind
from recollect.learner.settings import Settings
from recollect.learner.targets.answers import Answers

__all__ = ["first_engine"]


def first_engine(
    module: nn.Module, settings: Settings, kind: Kind, labels: Answers, *, numbered: bool = False
) -> Engine:
    """Create an engine with an output for every label, and spare ones if outputs are added."""
    engine = Engine(module, settings, kind, len(labels), numbered)
    if engine.outputs > len(labels) or labels.fixed or not settings.spare:
        return engine
    try:
        return Engine(module, settings, kind, len(labels) + settings.spare, numbered)
    except InputError:  # the network cannot be extended, and may never need to be
        return engine
