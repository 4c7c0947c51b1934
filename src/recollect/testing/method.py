"""What every method promises, as checks that anybody can run on a method of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from recollect.methods import Method
from recollect.testing import declared, fleets, held, runs
from recollect.testing.check import Check, ConformanceError, run_all
from recollect.testing.trial import NETS, Trial

__all__ = ["check_method", "method_checks"]


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
    run_all(method_checks(method, beside=beside, lr=lr))


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
    [('task', 'it is not told at a test which task an example belongs to')]
    """
    made = _made(method)
    trial = Trial.of(made, beside, lr)
    kind = type(made)
    every: list[tuple[str, str, Callable[[Trial], None], str]] = [
        ("draws", "it draws as often as it declares", declared.draws, ""),
        ("fields", "it remembers what it declares", declared.memory_fields, ""),
        ("choice", "luck and slots are declared and used", declared.own_choice, ""),
        ("finite", "it learns, and everything stays finite", runs.finite, ""),
        ("generator", "no global random generator is used", runs.generator, ""),
        ("seeds", "one seed, one outcome, bit for bit", runs.seeds, ""),
        ("prediction", "a prediction changes nothing", runs.prediction, ""),
        ("bounded", "what it holds does not grow with steps", held.held_over_steps, ""),
        *[
            (f"company-{net}", "a run of a fleet is the run alone",
             partial(fleets.company, net=net), trial.refusals.get(net, ""))
            for net in NETS
        ],
        ("strategies", "how networks are called changes nothing", fleets.strategies,
         trial.refusals.get("broadcast", "")),
        ("stretches", "one long stretch is many short ones", fleets.stretches, ""),
        ("recorded", "a recorded step is the step", fleets.recorded, ""),
        ("restored", "it continues from its tensors", runs.restored, ""),
        ("learner", "a saved learner continues", runs.learner, _not_for_streams(kind)),
        ("boundaries", "it learns without boundaries, or needs them", declared.boundaries,
         _all_data(kind)),
        ("revisits", "it meets examples again only if declared", declared.revisits,
         _all_data(kind)),
        ("task", "it needs the task that it is told", declared.task,
         "" if kind.needs_task else "it is not told at a test which task an example belongs to"),
        ("tasks", "it holds more with more tasks only if declared", held.held_over_tasks,
         _all_data(kind)),
        ("learns", "it beats chance on simple data", runs.learns, ""),
    ]  # fmt: skip
    title = kind.__name__
    first = Check(
        title, "declarations", "its declarations make sense", partial(declared.declarations, made)
    )
    others = [
        Check(title, name, says, partial(look, trial), why) for name, says, look, why in every
    ]
    return [first, *others]


def _made(method: type[Method] | Method) -> Method:
    given: object = method
    if isinstance(given, Method):
        return given
    if not isinstance(given, type) or not issubclass(given, Method):
        raise ConformanceError(repr(given), "declarations", "it is no recollect.Method")
    try:
        return given()
    except TypeError as error:
        sentence = f"it cannot be made without arguments ({error}): pass an instance"
        raise ConformanceError(given.__name__, "declarations", sentence) from None


def _all_data(kind: type[Method]) -> str:
    return "it meets all tasks at once" if kind.needs_all_data else ""


def _not_for_streams(kind: type[Method]) -> str:
    if kind.needs_boundaries or kind.needs_task:
        return "it is not for streams without boundaries"
    return _all_data(kind)
