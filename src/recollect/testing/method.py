"""What every method promises, as checks that anybody can run on a method of their own."""

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
    """Raise a `ConformanceError` that names the first promise which a method breaks, if it does.

    Args:
        method: The method, or its class, which stands for its defaults.
        beside: Up to two others of its kind, to train in one fleet with it. Without them its
            hyper-parameters are made somewhat smaller.
        lr: A learning rate at which it learns from simple data.

    >>> from recollect import SGD
    >>> check_method(SGD)
    """
    for check in method_checks(method, beside=beside, lr=lr):
        check()


def method_checks(
    method: type[Method] | Method, *, beside: Sequence[Method] = (), lr: float = 0.05
) -> list[Check]:
    """The single checks of `check_method`, to be run one by one, for instance by pytest.

    Those that do not apply are in the list too, and say in `skipped` why.

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
    joint = "it sees all tasks at once" if asks.all_data else ""
    bound = asks.boundaries or asks.task_id
    no_learner = "it is not for streams without boundaries" if bound else joint
    no_task = "" if asks.task_id else "its predictions do not need the task"
    classes = "it reads classes" if issubclass(kind, Classifier) or asks.task_id else ""
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
        sentence = f"it cannot be made without arguments ({error}): pass an instance"
        raise ConformanceError(given.__name__, "declarations", sentence) from None
