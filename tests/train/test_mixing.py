"""A fleet refuses a step in which its runs depend on each other, and no other step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from tests.builders import fleet_of, learn_task
from torch import Tensor

from recollect import MLP, SGD, Fleet, InputError, Method, Needs, Replay, Step, hyper, run
from recollect.methods import METHODS, Setup, Spec, Task
from recollect.streams.arrays import from_arrays
from recollect.train.mixing import FirstSteps

BATCH, REPLAY, MEMORY = 4, 5, 9
Loss = Callable[[Any, Step], Tensor]


def method(loss: Loss, **members: object) -> Method:
    """A method with this loss and a temperature T."""

    @dataclass(frozen=True)
    class Mine(Method):
        T: float | Tensor = hyper(2.0, "temperature")
        name: ClassVar[str] = "mine"
        title: ClassVar[str] = "Mine"

    kind = type("Mine", (Mine,), {"loss": loss, **members})
    made: Method = kind()
    return made


def fleet(made: Method, runs: int, **changes: Any) -> Fleet:
    given = {"memory": MEMORY, "replay": REPLAY, "tasks": 2, **changes}
    return fleet_of([made] * runs, lambda: MLP(6, 3, hidden=(7,)), **given)


def examples(runs: int, count: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(runs, count, 6, dtype=torch.float64, generator=generator)
    return x, torch.randint(3, (runs, count), generator=generator)


def learn_twice(learning: Fleet, x: Tensor, y: Tensor) -> None:
    for _ in range(2):
        learn_task(learning, x, y, BATCH)


def tempered(self: Any, step: Step) -> Tensor:
    return step.criterion(step.net(step.x)[0] / self.T, step.y)


def each(step: Step) -> Tensor:
    return step.model.criterion.each(step.net(step.x)[0], step.y)


def replayed(self: Any, step: Step) -> Tensor:
    past = step.draw()
    now, then = step.net(step.x, past.x)
    return step.criterion(now, step.y) + step.criterion(then / self.T, past.y)


def in_second_task(self: Any, step: Step) -> Tensor:
    (logits,) = step.net(step.x)
    tempered: Tensor = logits * self.T
    return step.criterion(logits, step.y) + step.state["ended"] * tempered.sum((1, 2))


def two_descents(self: Any, step: Step) -> Tensor:
    step.model.descend(step.model.gradient(step.criterion(step.net(step.x)[0], step.y)))
    gradient = step.model.gradient(step.criterion(step.net(step.x)[0], step.y)).dense()
    step.model.descend(gradient.map(lambda part: part.mean(0, keepdim=True).expand_as(part)))
    return step.model.ones


def counted(self: Any, step: Step) -> Tensor:
    step.state["ended"].add_(step.y.sum())
    return step.criterion(step.net(step.x)[0], step.y)


def ended(self: Any, spec: Spec) -> Setup:
    return Setup(state=lambda model: {"ended": torch.zeros(spec.runs, dtype=torch.float64)})


def end_task(self: Any, task: Task) -> None:
    task.state["ended"].add_(1)


REPLAYS = {"replay": Replay(("x", "y"))}
ENDS = {"setup": ended, "end_task": end_task, "needs": Needs(boundaries=True)}
T = r"the loss of run 0 changes with the hyper-parameter T of run 1: .*self\.T\)\.view\(-1, 1, 1\)"
INPUTS = r"the loss of run 0 changes with the inputs of run 1: reduce over the examples"

MIXING: dict[str, tuple[Method, int, str]] = {
    "against classes": (method(tempered), 3, T),
    "against examples": (method(lambda self, step: (each(step) * self.T).mean(1)), BATCH, T),
    "mean over runs": (method(lambda self, step: each(step).mean(0)), BATCH, INPUTS),
    "shared weight": (
        method(lambda self, step: (m := each(step).mean(1)) * m.detach().mean()), 2, INPUTS,
    ),
    "in the replay": (method(replayed, **REPLAYS), 3, T),
    "in the second task": (method(in_second_task, **ENDS), 3, T),
    "in an update": (
        method(tempered, update=two_descents), 5,
        "the weights of run 0 change with the inputs of run 1",
    ),
    "in the state": (
        method(counted, setup=ended), 2, "the state 'ended' of run 0 changes with the labels of",
    ),
    "at random": (
        method(lambda self, step: each(step).mean(1) * step.random(1).mean()), 3,
        "the loss of run 0 changes with the random numbers of run 1",
    ),
    "with the last": (
        method(lambda self, step: each(step).mean(1).cumsum(0)), 3,
        "the weights of run 0|the loss of run 2 changes with the inputs of run 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "runs", "message"), MIXING.values(), ids=MIXING)
@pytest.mark.parametrize("strategy", ["broadcast", "vmap"])
def test_a_step_that_mixes_runs_is_refused(
    made: Method, runs: int, message: str, strategy: str
) -> None:
    mixing = fleet(made, runs, strategy=strategy)
    with pytest.raises(InputError, match=f"^Mine: .*{message}"):
        learn_twice(mixing, *examples(runs))


def test_it_is_refused_before_anything_changes() -> None:
    mixing = fleet(method(tempered), 3)
    before = {name: tensor.clone() for name, tensor in mixing.tensors().items()}
    generator = torch.get_rng_state()
    with pytest.raises(InputError, match=T):
        mixing.learn(*examples(3), BATCH)
    assert mixing.steps == 0
    assert torch.equal(torch.get_rng_state(), generator)
    for name, tensor in mixing.tensors().items():
        assert torch.equal(tensor, before[name]), name


@pytest.mark.parametrize("runs", [2, 5])
def test_what_only_fails_in_a_fleet_is_explained(runs: int) -> None:
    message = f"a step of {runs} runs fails, but a step of one run does not .*self.T is .*view"
    with pytest.raises(InputError, match=message) as refused:
        fleet(method(tempered), runs).learn(*examples(runs), BATCH)
    assert isinstance(refused.value.__cause__, RuntimeError)


def test_what_fails_for_one_run_as_well_is_left_as_it_is() -> None:
    broken = method(lambda self, step: step.net(step.x)[0] @ step.x)
    with pytest.raises(RuntimeError, match="size") as failed:
        fleet(broken, 2).learn(*examples(2), BATCH)
    assert not isinstance(failed.value, InputError)


SHAPES: dict[str, tuple[Loss, str]] = {
    "[]": (lambda self, step: each(step).mean(), r"\[\] for 2 runs: .*, but not over the first"),
    "[n]": (lambda self, step: each(step).mean(0), r"\[4\] for 2 runs: .*, but not over the first"),
    "[K, n]": (lambda self, step: each(step), r"\[2, 4\] for 2 runs: .* also average"),
}


@pytest.mark.parametrize(("loss", "message"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("strategy", ["broadcast", "vmap"])
def test_a_loss_of_another_shape_is_refused(loss: Loss, message: str, strategy: str) -> None:
    with pytest.raises(InputError, match=f"the loss has the shape {message}"):
        fleet(method(loss), 2, strategy=strategy).learn(*examples(2), BATCH)


@pytest.mark.parametrize("strategy", ["broadcast", "loop"])
@pytest.mark.parametrize("runs", [1, 2])
def test_an_update_returns_one_loss_for_every_run(runs: int, strategy: str) -> None:
    def update(self: Any, step: Step) -> Tensor:
        SGD().update(step)
        return torch.zeros_like(step.y)

    with pytest.raises(InputError, match=rf"the loss has the shape \[{runs}, 4\] for {runs} run"):
        fleet(method(tempered, update=update), runs, strategy=strategy).learn(
            *examples(runs), BATCH
        )


def test_a_run_refuses_it_too() -> None:
    x, y = examples(1, 24)
    stream = from_arrays(x[0].float(), y[0], tasks=1, name="three classes")
    with pytest.raises(InputError, match=r"^Mine: the loss of run 0"):
        run(stream, method(tempered), seeds=3, T=[1.0], workers=1)


def right(self: Any, step: Step) -> Tensor:
    logits = step.net(step.x)[0]
    return step.criterion(logits / torch.as_tensor(self.T).view(-1, 1, 1), step.y)


def test_a_loss_that_keeps_runs_apart_is_taken_as_it_is() -> None:
    made = method(right)
    checked, (x, y) = fleet(made, 3), examples(3)
    checked.learn(x, y, BATCH)
    for k in range(3):
        alone = fleet(made, 1, seeds=[k])
        alone.learn(x[k : k + 1], y[k : k + 1], BATCH)
        for mine, whole in zip(alone.weights, checked.weights, strict=True):
            torch.testing.assert_close(mine[0], whole[k], rtol=1e-12, atol=1e-12)


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes which checks were made; what goes wrong with changed runs is no longer passed over."""
    made, check = list[str](), FirstSteps.check

    def checked(self: FirstSteps, state: Any, given: Any) -> None:
        runs = state.weights.runs
        before = self._outcome(state, given)
        after = self._outcome(state, given, range(1, runs))
        assert not torch.equal(before[0][1][1:], after[0][1][1:])  # the changed ones have changed
        made.append(state.method.name)
        check(self, state, given)

    monkeypatch.setattr(FirstSteps, "check", checked)
    return made


@pytest.mark.parametrize("kind", METHODS.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("runs", [2, 3, BATCH])
def test_no_method_is_refused(kind: type[Method], runs: int, strict: list[str]) -> None:
    """Also where the number of runs is that of classes or examples."""
    needs = kind.needs
    learning = fleet_of(
        [kind()] * runs, lambda: MLP(6, 4, hidden=(7,)), memory=MEMORY, replay=REPLAY, tasks=2,
        classes=4, per_task=2, dtype=torch.float32, stored=torch.float32,
    )  # fmt: skip
    x, y = examples(runs)[0].float(), (torch.arange(12) % 2).repeat(runs, 1)
    for task in range(2):
        learn_task(learning, x, y + 2 * task, needs.batch_size or BATCH)
    assert len(strict) >= (2 if needs.boundaries or kind.replay else 1)


def test_later_steps_call_the_loss_once() -> None:
    calls = list[int]()

    def counting(self: Any, step: Step) -> Tensor:
        calls.append(len(step.y))
        return right(self, step)

    counted = fleet(method(counting), 3)
    counted.learn(*examples(3), BATCH)
    assert calls == [3] * 5  # three steps; the first is tried twice before
    one = fleet(method(counting), 1)
    calls.clear()
    one.learn(*examples(1), BATCH)
    assert calls == [1] * 3
    by_run = fleet(method(counting), 3, strategy="loop")
    calls.clear()
    by_run.learn(*examples(3), BATCH)
    assert calls == [1] * 9


def test_a_loss_that_uses_a_generator_is_not_taken_for_one_that_mixes() -> None:
    noisy = method(lambda self, step: each(step).mean(1) * torch.rand(1))
    fleet(noisy, 3).learn(*examples(3), BATCH)


def test_a_step_that_is_not_a_function_is_not_judged() -> None:
    calls = list[int]()

    def drifting(self: Any, step: Step) -> Tensor:
        calls.append(1)
        return each(step).mean(1) * len(calls)

    fleet(method(drifting), 3).learn(*examples(3), BATCH)
    assert len(calls) == 3 + 3
