"""Mistakes in what a person gives to `run`: one sentence each, before or in the first step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import recollect
from recollect import Callback, InputError, Method, Setup, Spec, Step
from recollect.streams import TaskStream
from recollect.train import Point


class NotDataclass(Method):
    weight: float = 1.0
    name: ClassVar[str] = "undecorated"
    title: ClassVar[str] = "Undecorated"

    def loss(self, step: Step) -> Tensor:
        (now,) = step.net(step.x)
        return step.criterion(now, step.y)


@dataclass(frozen=True)
class NoLoss(Method):
    name: ClassVar[str] = "idle"
    title: ClassVar[str] = "Idle"


@dataclass(frozen=True)
class Remembers(Method):
    name: ClassVar[str] = "remembers"
    title: ClassVar[str] = "Remembers"

    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"mean": torch.zeros(spec.runs)})

    def loss(self, step: Step) -> Tensor:
        (now,) = step.net(step.x)
        loss = step.criterion(now, step.y)
        step.state["mean"].mul_(0.9).add_(0.1 * loss)
        return loss + step.state["mean"]


class Stops(Callback):
    def on_task_end(self, point: Point) -> None:
        raise StopIteration


class Misspelt(Callback):
    def on_step(self, point: Point) -> None: ...


class Idle(Callback):
    """Nothing."""


class Pair(nn.Linear):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x), x


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))


def run(method: Any = "sgd", stream: TaskStream | None = None, **options: Any) -> recollect.Results:
    x = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    stream = stream or recollect.from_arrays(x, np.arange(40) % 4)
    return recollect.run(stream, method, **{"seeds": 2, "workers": 1, **options})


def transformed(change: Callable[[Tensor], Any]) -> TaskStream:
    x = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    return recollect.from_arrays(x, np.arange(40) % 4, transform=change)


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a class that needs arguments": (
        lambda: run(network=nn.Linear),
        r"Linear cannot be built without arguments .*in_features.*: pass .* lambda: Linear\(...\)",
    ),
    "a network that gives a pair": (
        lambda: run(network=lambda: Pair(6, 4)),
        r"must return a tensor .*, not a tuple: \[n, 4\] is expected for n examples of shape \[6\]",
    ),
    "one example to batch-normalise": (
        lambda: run(network=normalised, bs=1),
        "batch normalisation cannot train on a single value per channel: train on batches",
    ),
    "a transform that changes the shape": (
        lambda: run("er", transformed(lambda x: x[:, :3]), buffer=10),
        r"a transform must return a tensor of the shape that it received, \[10, 6\], not \[10, 3\]",
    ),
    "a transform that gives nothing": (
        lambda: run("er", transformed(lambda x: None), buffer=10),
        r"of the shape that it received, \[10, 6\], not NoneType",
    ),
    "no dataclass": (
        lambda: run(NotDataclass),
        r"'weight' is not yet a hyper-parameter of NotDataclass: decorate the class with "
        r"@dataclass\(frozen=True\)",
    ),
    "no loss": (lambda: run(NoLoss), "NoLoss must define loss or update"),
    "state with a gradient": (
        lambda: run(Remembers),
        r"the state 'mean' of Remembers was set to a value with a gradient: detach",
    ),
    "the same in one run": (lambda: run(Remembers, seeds=1), "a value with a gradient: detach"),
    "a callback that stops": (lambda: run(callbacks=[Stops()]), "a run cannot end early"),
    "a misspelt callback": (
        lambda: run(callbacks=[Misspelt()]),
        "Misspelt defines on_step, which is never called: did you mean on_steps?",
    ),
    "a callback that does nothing": (
        lambda: run(callbacks=Idle()),
        "Idle has no effect: define on_task_start, on_steps, on_task_end or on_run_end",
    ),
    "no value": (
        lambda: run(lr=None),
        "lr must be a number or several numbers, not None: leave it out for its default",
    ),
    "an argument of run alone": (
        lambda: recollect.search("seq-digits", "sgd", validation=True),
        "recollect.search has no argument 'validation': it tries values on the validation split",
    ),
    "images for a linear layer": (
        lambda: recollect.run("seq-digits", "sgd", network=lambda: nn.Linear(64, 10)),
        r"does not accept examples of shape \[8, 8\]: .* \(examples are passed as they are: linear "
        r"layers need nn.Flatten\(\) first",
    ),
    "a file without its class": (
        lambda: run("mine.py"),
        "'mine.py' is a file: name the class in it too, as in mine.py:MyMethod",
    ),
    "an American spelling": (
        lambda: run(optimizer="Adam"),
        "no hyper-parameter 'optimizer' .*: did you mean optimiser=?",
    ),
    "a warm-up longer than the run": (
        lambda: run(warmup=100),
        "warmup must be less than 4, the number of steps of a run, not 100",
    ),
    "a warm-up longer than a task": (
        lambda: run(warmup=3, schedule_per="task"),
        "warmup must be less than 2, the number of steps of a task, not 3",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_one_sentence(what: str) -> None:
    call, sentence = MISTAKES[what]
    with pytest.raises(InputError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_one_callback_needs_no_list() -> None:
    class Counts(Callback):
        only_observes = True
        tasks = 0

        def on_task_end(self, point: Point) -> None:
            self.tasks += 1

    counts = Counts()
    run(callbacks=counts)
    assert counts.tasks == 2


def test_validation_is_no_share() -> None:
    with pytest.raises(InputError, match=r"True or False, not 0\.2: .*stream\.validation\(share="):
        run(validation=0.2)


def lazy() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.LazyBatchNorm1d(), nn.LazyLinear(4))


@pytest.mark.parametrize("network", [lazy, lazy()])
def test_a_lazy_layer_is_named(network: Any) -> None:
    with pytest.raises(InputError, match=r"the layer 1 \(LazyBatchNorm1d\) .*nn\.BatchNorm1d\("):
        run(network=network)


def test_a_lazy_network_that_was_called_in_its_function_is_trained() -> None:
    def called() -> nn.Module:
        module = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(4))
        module(torch.zeros(1, 6))
        return module

    assert len(run(network=called)) == 2


class SameName(recollect.ER):
    title: ClassVar[str] = "Mine"


class SameTitle(recollect.ER):
    name: ClassVar[str] = "mine"
    title: ClassVar[str] = "er"


@pytest.mark.parametrize("kind", [SameName, SameTitle, SameName()])
def test_the_name_of_another_method_is_refused_by_a_store(kind: Any, tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    with pytest.raises(InputError, match=r"there is already a method .*, of recollect, and their"):
        run(kind, buffer=10, store=file)
    with pytest.raises(InputError, match="choose another name and title"):
        recollect.search("seq-digits", kind, buffer=20, lr=[0.1, 0.2], store=file)
    assert run(kind, buffer=10)[0].steps > 0, "an experiment that is not stored is fine"


@dataclass(frozen=True)
class Wide(Method):
    name: ClassVar[str] = "wide"
    title: ClassVar[str] = "Wide"
    replay: ClassVar[recollect.Replay] = recollect.Replay(
        ("x", "y", recollect.Field("feature", (9,)))
    )

    def loss(self, step: Step) -> Tensor:
        step.draw()
        features, outputs = step.model.with_features(step.x)
        step.remember(feature=features)
        return step.criterion(outputs, step.y)


def test_a_field_of_another_width_is_named_with_both_shapes() -> None:
    with pytest.raises(
        InputError,
        match=r"the field 'feature' is declared as \[9\] of torch.float32, .* has \[100\] of torch",
    ):
        run(Wide, buffer=10)
