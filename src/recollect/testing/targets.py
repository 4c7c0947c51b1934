"""Check that a method supports regression and multi-label targets, or declares otherwise."""

from __future__ import annotations

from dataclasses import replace

import torch

from recollect.core.targets import CLASS, LABELS, REGRESSION, Target
from recollect.errors import InputError
from recollect.testing.check import Broken
from recollect.testing.compare import difference, state_of
from recollect.testing.trial import Trial

ADVICE = (
    "only pass targets to step.criterion, or make it a subclass of recollect.methods.Classifier if "
    "it uses step.y as class labels"
)
WITHIN = 1e-9


def targets(trial: Trial) -> None:
    """With regression and multi-label targets, a run is finite and independent of its fleet."""
    for target in (REGRESSION, LABELS):
        other = _with_values(trial, target)
        try:
            fleet = other.fleet(target=target)
        except InputError:
            continue  # it refuses: its memory policy uses classes, or it needs the task
        try:
            other.walked(fleet)
        except Exception as error:
            raise Broken(
                f"it fails on the target {target.name!r} ({type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else ''}): {ADVICE}"
            ) from error
        if not all(bool(weight.isfinite().all()) for weight in fleet.weights):
            raise Broken(f"its weights are not finite on the target {target.name!r}")
        alone = other.walked(other.fleet(runs=(1,), target=target))
        if found := difference(state_of(fleet), state_of(alone), (1, 0), WITHIN):
            raise Broken(
                f"on the target {target.name!r} a run differs alone and in a fleet: {found}"
            )


def _with_values(trial: Trial, target: Target) -> Trial:
    """The trial with one-hot targets."""
    stream = trial.stream
    dtype = torch.float32 if target is REGRESSION else torch.int8
    y = torch.eye(stream.classes)[stream.train_y].to(dtype)
    assert target is not CLASS
    values = replace(stream, setting=target.name, train_y=y, test_y=y)  # type: ignore[arg-type]
    return replace(trial, stream=values, lr=0.1 * trial.lr)
