"""What `recollect.run` refuses, and says at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.experiments.test_experiments_run import own_stream, run
from torch import Tensor, nn

import recollect
from recollect import ER, SGD, InputError, Method, Needs, Replay
from recollect.methods import Step


@dataclass(frozen=True)
class Bounded(Method):
    """A method that must be told where a task ends."""

    name: ClassVar[str] = "bounded"
    title: ClassVar[str] = "Bounded"
    needs: ClassVar[Needs] = Needs(boundaries=True)

    def loss(self, step: Step) -> Tensor:
        return SGD().loss(step)


class Undecorated(Bounded):
    weight: float = 1.0


@dataclass(frozen=True)
class Nameless(Method):
    pass


@dataclass(frozen=True)
class OneForAll(Bounded):
    def loss(self, step: Step) -> Tensor:
        return super().loss(step).mean()


@dataclass(frozen=True)
class Numberless(Bounded):
    def loss(self, step: Step) -> Tensor:
        return 1.0  # type: ignore[return-value]


@dataclass(frozen=True)
class Silent(Bounded):
    replay: ClassVar[Replay] = Replay(("x", "logits"))


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        (
            Undecorated,
            {"weight": 2},
            r"'weight' .*: decorate the class with @dataclass\(frozen=True\)",
        ),
        (Nameless, {}, 'Nameless has no name: set one, for example name = "mine"'),
        (OneForAll, {}, r"the loss has the shape \[\] for 2 runs: return one value per run"),
        (Numberless, {}, "the loss is a float, not a tensor: return one value per run"),
        (Silent, {"buffer": 9}, r"Bounded declares .* call step.remember\(logits=...\)"),
    ],
)
def test_what_is_wrong_with_a_method_is_said_at_once(
    method: type[Method], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as no:
        run(own_stream("class"), method, seeds=2, **given)
    assert "\n" not in str(no.value)


@pytest.mark.parametrize("method", [Bounded(), Bounded])
def test_a_method_that_needs_boundaries_is_refused_where_there_are_none(
    method: Method | type[Method],
) -> None:
    for stream in ("digits-360", own_stream("arrival")):
        with pytest.raises(InputError, match="Bounded needs task boundaries") as no:
            run(stream, method, seeds=1, lr=0.1)
        assert "\n" not in str(no.value)
    assert run(own_stream("class"), method, seeds=1)[0].method == "bounded"


def test_a_new_method_needs_no_rate_on_a_named_benchmark() -> None:
    (result,) = run("seq-digits", Bounded(), seeds=1, epochs=2)
    assert result.hyperparameters == {"lr": 0.1, "bs": 10}
    assert result.epochs == 2


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("sgd", {"lr": -1}, "lr must be"),
        ("sgd", {"seeds": []}, "no seeds"),
        ("er", {}, "ER needs a memory"),
        ("sgd", {"epochs": 0}, "epochs must be"),
    ],
)
def test_what_is_asked_for_is_checked_before_data_are_loaded(
    method: str, given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        run("seq-mnist", method, data_dir=tmp_path / "nowhere", **given)


@pytest.mark.parametrize(
    ("what", "given", "message"),
    [
        (("seq-digit", "sgd"), {}, "did you mean 'seq-digits'"),
        (("seq-digits", "sgdd"), {}, "did you mean 'sgd'"),
        (("seq-digits", "er"), {}, "ER needs a memory"),
        (("seq-digits", ER()), {"buffer": 0}, "at least 1 example"),
        (("seq-digits", "sgd"), {"seeds": 0}, "no seeds"),
        (("seq-digits", "sgd"), {"seeds": -1}, "no seeds"),
        (("seq-digits", "sgd"), {"lr": -1}, "lr must be"),
        (("seq-digits", "sgd"), {"learning_rate": 1}, "no hyper-parameter 'learning_rate'"),
        (("seq-digits", "sgd"), {"network": lambda: 3}, "must be a torch.nn.Module"),
        (("seq-digits", "sgd"), {"seeds": 2.5}, "seeds must be a list of integers"),
        (("seq-digits", SGD().loss), {}, "an instance of recollect.Method, not <bound method"),
        ((np.zeros((4, 2)), "sgd"), {}, "a name or a stream .see .*., not ndarray"),
    ],
)
def test_refusals(what: tuple[Any, Any], given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        run(*what, **{"seeds": 1, **given})
    assert "\n" not in str(refused.value)


def test_a_negative_number_of_processes_is_refused() -> None:
    for workers in (-1, 0, 1.5, "x"):
        with pytest.raises(InputError, match=f"workers must be a whole number .*, not {workers!r}"):
            run(own_stream("class"), "sgd", seeds=2, workers=workers)


def test_a_network_with_another_head_is_refused() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(6, 3))
    with pytest.raises(InputError, match=r"must return 4 logits per example, not \[3\]"):
        run(own_stream("class"), "sgd", seeds=1, network=network)


def test_an_unknown_scenario_or_array_never_reaches_training() -> None:
    with pytest.raises(InputError, match="scenario"):
        recollect.from_arrays(np.zeros((4, 2)), np.arange(4), scenario="online")  # type: ignore[arg-type]
