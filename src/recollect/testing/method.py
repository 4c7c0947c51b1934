"""Conformance checks for methods, including your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from recollect.core.targets import LABELS, REGRESSION, Target
from recollect.errors import InputError
from recollect.methods import Classifier, Method
from recollect.testing import declared, runs
from recollect.testing.check import Broken, Check, ConformanceError, make_check
from recollect.testing.compare import difference, state_of
from recollect.testing.effects import effects
from recollect.testing.trial import BATCH, NETS, Trial

ADVICE = (
    "only pass targets to step.criterion, or make it a subclass of recollect.methods.Classifier if "
    "it uses step.y as class labels"
)
WITHIN = 1e-9


def check_method(
    method: type[Method] | Method, *, beside: Sequence[Method] = (), lr: float = 0.05
) -> None:
    """Check a method; raise a `ConformanceError` for the first promise that it breaks.

    Args:
        method: The method, or its class to use the default hyper-parameters.
        beside: Up to two further instances to train in the same fleet. By default they are created
            with somewhat smaller hyper-parameters.
        lr: A learning rate at which it learns from simple data.

    >>> from recollect import SGD
    >>> check_method(SGD)
    """
    for check in method_checks(method, beside=beside, lr=lr):
        check()


def method_checks(
    method: type[Method] | Method, *, beside: Sequence[Method] = (), lr: float = 0.05
) -> list[Check]:
    """List the checks of `check_method`, to run them one by one, for example with pytest.

    Checks that do not apply are included, with the reason in `skipped`.

    >>> from recollect import ER
    >>> checks = method_checks(ER)
    >>> [check.name for check in checks[:3]]
    ['declarations', 'draws', 'fields']
    >>> [(check.name, check.skipped) for check in checks if check.skipped]
    [('task', 'its predictions do not need the task')]
    """
    made = _made(method)
    kind = type(made)
    check = partial(make_check, kind.__name__)
    asks = kind.needs
    trial = Trial.of(made, beside, lr, asks.batch_size or BATCH)
    joint = "it trains on all tasks at once" if asks.all_data else ""
    bound = asks.boundaries or asks.task_id
    no_learner = "it needs task boundaries or the task" if bound else joint
    no_task = "" if asks.task_id else "its predictions do not need the task"
    classes = "it needs class labels" if issubclass(kind, Classifier) or asks.task_id else ""
    refused = trial.refusals.get
    return [
        check("declarations", declared.declarations, (made,)),
        check("draws", declared.draws, (trial,)),
        check("fields", declared.memory_fields, (trial,)),
        check("writes", declared.writes, (trial,)),
        check("steps", runs.steps, (trial,)),
        check("finite", runs.finite, (trial,)),
        check("generator", runs.generator, (trial,)),
        check("seeds", runs.seeds, (trial,)),
        check("prediction", runs.prediction, (trial,)),
        check("bounded", declared.bounded_over_steps, (trial,)),
        *[
            check(f"company-{net}", runs.company, (trial, net), skipped=refused(net, ""))
            for net in NETS
        ],
        check("strategies", runs.strategies, (trial,), skipped=refused("broadcast", "")),
        check("stretches", runs.stretches, (trial,)),
        check("recorded", runs.recorded, (trial,)),
        check("restored", runs.restored, (trial,)),
        check("learner", runs.learner, (trial,), skipped=no_learner),
        check("boundaries", declared.boundaries, (trial,), skipped=joint),
        check("effects", effects, (trial,)),
        check("trains", declared.trains, (trial,)),
        check("revisits", declared.revisits, (trial,), skipped=joint),
        check("task", declared.task_id, (trial,), skipped=no_task),
        check("tasks", declared.bounded_over_tasks, (trial,), skipped=joint),
        check("learns", runs.learns, (trial,)),
        check("targets", _targets, (trial,), skipped=classes),
    ]


def _made(method: type[Method] | Method) -> Method:
    given: object = method
    if isinstance(given, Method):
        return given
    if not isinstance(given, type) or not issubclass(given, Method):
        raise ConformanceError(repr(given), "declarations", "it is not a recollect.Method")
    try:
        return given()
    except TypeError as error:
        sentence = f"it cannot be created without arguments ({error}): pass an instance"
        raise ConformanceError(given.__name__, "declarations", sentence) from None
    except InputError as error:
        raise ConformanceError(given.__name__, "declarations", str(error)) from None


def _targets(trial: Trial) -> None:
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
    values = replace(stream, setting=target.name, train_y=y, test_y=y)  # type: ignore[arg-type]
    return replace(trial, stream=values, lr=0.1 * trial.lr)
