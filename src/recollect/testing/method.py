"""Conformance checks for methods, including your own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from recollect.methods import Classifier, Method
from recollect.testing import declared, runs
from recollect.testing.check import Check, ConformanceError, make_check
from recollect.testing.targets import targets
from recollect.testing.trial import BATCH, NETS, Trial


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
        check("trains", declared.trains, (trial,)),
        check("revisits", declared.revisits, (trial,), skipped=joint),
        check("task", declared.task_id, (trial,), skipped=no_task),
        check("tasks", declared.bounded_over_tasks, (trial,), skipped=joint),
        check("learns", runs.learns, (trial,)),
        check("targets", targets, (trial,), skipped=classes),
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
