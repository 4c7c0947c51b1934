"""Mistakes in a method or stream of one's own: one sentence each, instead of a traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import recollect
from recollect import SGD, InputError, Setup, Spec, Step, Task
from recollect.methods import Query


class Incomplete:
    """Orders and picks, and has no test set."""

    name, setting, boundaries, images = "incomplete", "class", True, None
    classes, tasks, shape, dtype = 4, 2, (6,), torch.float32

    def order(self, *_: Any) -> None: ...

    def pick(self, *_: Any) -> None: ...


class Unheard(SGD):
    """Waits for calls that never come."""

    def end_task(self, task: Task) -> None: ...


class NoSetup(SGD):
    def setup(self, spec: Spec) -> Any: ...


class FixedState(SGD):
    def setup(self, spec: Spec) -> Setup:
        return Setup(state={"mean": torch.zeros(spec.runs)})  # type: ignore[arg-type]


class CountedInPython(SGD):
    def setup(self, spec: Spec) -> Setup:
        return Setup(state=lambda model: {"count": 0})  # type: ignore[dict-item]


class NotUnpacked(SGD):
    def loss(self, step: Step) -> Tensor:
        logits: Any = step.net(step.x)
        return step.criterion(logits, step.y)


class PredictsLabels(SGD):
    def predict(self, query: Query) -> Tensor:
        return query.model.logits(query.x).argmax(2)


def run(method: Any = "sgd", stream: Any = None) -> recollect.Results:
    x = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    stream = stream or recollect.from_arrays(x, np.arange(40) % 4)
    return recollect.run(stream, method, seeds=2, workers=1)


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a stream that is not complete": (
        lambda: run(stream=Incomplete()),
        "the stream Incomplete has no parts, test, task_classes: it needs all members of",
    ),
    "a data set as a stream": (
        lambda: run(stream=TensorDataset(torch.zeros(4, 6))),
        "a name or a stream .see recollect.from_arrays and from_dataset., not TensorDataset",
    ),
    "a hook that is never called": (
        lambda: run(Unheard),
        "Unheard cannot be used: it defines end_task, which is only called if it declares Needs",
    ),
    "no setup": (lambda: run(NoSetup), "setup of SGD must return a recollect.Setup, not None"),
    "a state that is no function": (
        lambda: run(FixedState),
        "the state of a Setup must be a function of the model, .*, not a dict",
    ),
    "a state that is no tensor": (
        lambda: run(CountedInPython),
        r"the state 'count' must be a tensor \[K, ...\], such as torch.zeros\(spec.runs\), not 0",
    ),
    "outputs that are not unpacked": (
        lambda: run(NotUnpacked),
        r"needs outputs \[K, n, C\], not a tuple: .*, as in \(logits,\) = step.net\(step.x\)",
    ),
    "labels as predictions": (
        lambda: run(PredictsLabels),
        r"predict of SGD must return scores \[K, n, C\], here \[2, 4, 4\], not \[2, 4\]",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_one_sentence(what: str) -> None:
    wrong, message = MISTAKES[what]
    with pytest.raises(InputError, match=message):
        wrong()
