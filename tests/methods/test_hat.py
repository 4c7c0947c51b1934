"""HAT: one run written out from its equations; what a task has learnt stays exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from tests import builders
from tests.builders import close, learn_task, picked, task_examples
from torch import Tensor, nn
from torch.nn import functional

from recollect import MLP, Fleet, ResNet18
from recollect.errors import InputError
from recollect.methods.hat import HAT, Gated

SEED, LR, TASKS, LENGTH, BATCH, CLASSES, SMAX, C = 7, 0.2, 3, 14, 4, 6, 20.0, 0.6
PER_TASK = CLASSES // TASKS


def network() -> MLP:
    return MLP(6, CLASSES, hidden=(5, 4))


def fleet_of(method: HAT) -> Fleet:
    return builders.fleet_of([method], network, seeds=[SEED], lr=[LR], classes=CLASSES, tasks=TASKS)


class Loop:
    """One run, with a tensor for everything and loops for the rest."""

    def __init__(self) -> None:
        torch.manual_seed(SEED)
        net = Gated(network(), TASKS).double()
        self.weights = [layer.weight for layer in (*net.hidden, net.head)]
        self.biases = [layer.bias for layer in (*net.hidden, net.head)]
        self.entries = list(net.gates)
        self.used = [torch.zeros(5).double(), torch.zeros(4).double()]

    def logits(self, x: Tensor, gates: list[Tensor]) -> Tensor:
        for weight, bias, gate in zip(self.weights, self.biases, gates, strict=False):
            x = (x @ weight + bias).relu() * gate
        logits: Tensor = x @ self.weights[-1] + self.biases[-1]
        return logits

    def observe(self, x: Tensor, y: Tensor, task: int, place: int, steps: int) -> None:
        s = 1 / SMAX + (SMAX - 1 / SMAX) * place / (steps - 1)
        gates = [(s * e[task].detach()).sigmoid().requires_grad_() for e in self.entries]
        mine = slice(task * PER_TASK, (task + 1) * PER_TASK)
        loss = functional.cross_entropy(self.logits(x, gates)[:, mine], y - mine.start)
        taken = [(g * (1 - u)).sum() for g, u in zip(gates, self.used, strict=True)]
        room = [(1 - u).sum() for u in self.used]
        loss = loss + C * torch.stack(taken).sum() / torch.stack(room).sum()
        parts = [*self.weights, *self.biases, *self.entries]
        slopes = list(torch.autograd.grad(loss, [*parts[: -len(gates)], *gates]))
        for entries, slope in zip(self.entries, slopes[-len(gates) :], strict=True):
            slopes.append(torch.zeros_like(entries))
            slopes[-1][task] = slope
        del slopes[-2 * len(gates) : -len(gates)]
        with torch.no_grad():
            for part, slope in zip(parts, slopes, strict=True):
                part.sub_(LR * self.allowed(part, slope, task, s))
            for entries in self.entries:
                entries.clamp_(-6, 6)

    def allowed(self, part: Tensor, slope: Tensor, task: int, s: float) -> Tensor:
        """What is left of a slope: less where earlier tasks were, and the same at any s."""
        scale = torch.ones_like(slope)
        for layer, used in enumerate(self.used):
            before = self.used[layer - 1] if layer else None
            for j in range(len(used)):
                if part is self.biases[layer]:
                    scale[j] = 1 - used[j]
                if part is self.weights[layer]:
                    for i in range(len(part)):
                        both = used[j] if before is None else min(used[j], before[i])
                        scale[i, j] = 1 - both
                if part is self.entries[layer]:
                    e = float(part[task, j])
                    sigmoid = s / (2 * math.cosh(s * e) + 2)
                    steep = math.cosh(max(-50.0, min(50.0, s * e))) + 1
                    scale[task, j] = sigmoid * SMAX * steep / (s * (math.cosh(e) + 1))
        return slope * scale

    @torch.no_grad()
    def end(self, task: int) -> None:
        gates = [(SMAX * entries[task]).sigmoid() for entries in self.entries]
        self.used = [torch.maximum(u, g) for u, g in zip(self.used, gates, strict=True)]


def test_a_run_is_its_equations_written_out() -> None:
    loop, fleet = Loop(), fleet_of(HAT(SMAX, C))
    x, y = task_examples(TASKS, LENGTH, CLASSES)
    steps = math.ceil(LENGTH / BATCH)
    for task in range(TASKS):
        here = picked(x[:, task], y[:, task])
        fleet.start_task(here, LENGTH, BATCH)
        for step in range(2 * steps):
            first = step % steps * BATCH
            part_x, part_y = (t[:, task, first : first + BATCH] for t in (x, y))
            fleet.learn(part_x, part_y, BATCH)
            loop.observe(part_x[0], part_y[0], task, step % steps, steps)
            ours = fleet.weights.named()
            for layer, name in enumerate(("hidden.0", "hidden.1", "head")):
                close(ours[f"{name}.weight"][0], loop.weights[layer])
                close(ours[f"{name}.bias"][0], loop.biases[layer])
            for layer in range(2):
                close(ours[f"gates.{layer}"][0], loop.entries[layer])
        fleet.end_task(here, LENGTH, BATCH)
        fleet.next_task(LENGTH)
        loop.end(task)
    assert any((used > 0.5).any() for used in loop.used)


def test_gates_that_are_shut_keep_what_was_learnt() -> None:
    """With gates that are open or closed, later tasks change nothing of earlier answers."""
    x, y = task_examples(TASKS, LENGTH, CLASSES)
    fleet = fleet_of(HAT(4000.0, 0.1))
    learn_task(fleet, x[:, 0], y[:, 0], BATCH, epochs=4)
    gates = [w for n, w in fleet.weights.named().items() if n.startswith("gates.")]
    with torch.no_grad():
        for entries in gates:  # no gate stands in the middle
            entries[:, 0] += torch.where(entries[:, 0] > 0, 0.1, -0.1)
    fleet.end_task(picked(x[:, 0], y[:, 0]), LENGTH, BATCH)
    before = fleet.predict(x[:, 0], 0)[..., :PER_TASK]
    for task in (1, 2):
        learn_task(fleet, x[:, task], y[:, task], BATCH, epochs=4)
    close(fleet.predict(x[:, 0], 0)[..., :PER_TASK], before)


def test_other_networks_are_refused() -> None:
    builds: list[Callable[[], nn.Module]] = [
        partial(ResNet18, 4, width=8), lambda: nn.Sequential(nn.Linear(6, CLASSES)),
    ]  # fmt: skip
    for build in builds:
        with pytest.raises(InputError, match="HAT needs an MLP"):
            Fleet([HAT()], build, seeds=[0], lr=[0.1], classes=CLASSES, shape=(6,))
