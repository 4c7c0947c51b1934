"""P&C: one run written out from its equations; which column learns and which is tested."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tests.builders import close, fleet_of, picked, task_examples
from torch import Tensor

from recollect import MLP, Fleet
from recollect.core.random import Purpose, bits, permute
from recollect.methods.pc import PC
from recollect.nets.progressive import Progressive

SEED, LR, TASKS, LENGTH, BATCH, CLASSES = 7, 0.2, 3, 14, 4, 6
PER_TASK = CLASSES // TASKS
METHOD = PC(0.7, 0.6, passes=2)


def network() -> MLP:
    return MLP(6, CLASSES, hidden=(5, 4))


def made() -> Fleet:
    return fleet_of([METHOD], network, seeds=[SEED], lr=[LR], classes=CLASSES, tasks=TASKS)


class Loop:
    """Two columns as plain tensors: each [weight, bias, weight, bias, weight, bias]."""

    def __init__(self) -> None:
        torch.manual_seed(SEED)
        net = Progressive([network(), network()]).double()
        self.base, self.active = (list(column.parameters()) for column in net.columns)
        self.fisher = [torch.zeros_like(p) for p in self.base]
        self.last = [p.detach().clone() for p in self.base]

    def read(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the base sees, and its logits."""
        w1, b1, w2, b2, w3, b3 = self.base
        first = (x @ w1 + b1).relu()
        second = (first @ w2 + b2).relu()
        return first, second, second @ w3 + b3

    def act(self, x: Tensor) -> Tensor:
        """The logits of the active column, which reads beside its own what the base sees."""
        w1, b1, w2, b2, w3, b3 = self.active
        first, second, _ = (seen.detach() for seen in self.read(x))
        mine = torch.cat([(x @ w1 + b1).relu(), first], 1)
        mine = torch.cat([(mine @ w2 + b2).relu(), second], 1)
        return mine @ w3 + b3

    def progress(self, x: Tensor, y: Tensor, mine: slice) -> None:
        chances = self.act(x)[:, mine].log_softmax(1)
        self.move(self.active, -chances[torch.arange(len(y)), y - mine.start].mean())

    def compress(self, x: Tensor, y: Tensor, mine: slice, task: int) -> None:
        key = bits(torch.tensor(SEED), Purpose.WARM, task)
        for number in range(METHOD.passes):
            order = permute(key + number, torch.arange(len(y)), len(y))
            for some in torch.split(order, BATCH):
                target = self.act(x[some]).detach()[:, mine].softmax(1)
                answer = self.read(x[some])[2][:, mine].log_softmax(1)
                triples = zip(self.base, self.fisher, self.last, strict=True)
                penalty = torch.stack([(f * (p - a).square()).sum() for p, f, a in triples]).sum()
                loss = -(target * answer).sum(1).mean() + METHOD.lambda_ * penalty
                self.move(self.base, loss)
        squares = [torch.zeros_like(p) for p in self.base]
        for one in x:
            for place in range(PER_TASK):  # only the classes of the task compete
                log = self.read(one[None])[2][0, mine].log_softmax(0)[place]
                slopes = torch.autograd.grad(log, self.base)
                for square, slope in zip(squares, slopes, strict=True):
                    square += log.exp().detach() * slope.square() / len(y)
        pairs = zip(self.fisher, squares, strict=True)
        self.fisher = [METHOD.gamma * old + new for old, new in pairs]
        self.last = [p.detach().clone() for p in self.base]

    def move(self, column: Sequence[Tensor], loss: Tensor) -> None:
        slopes = torch.autograd.grad(loss, column)
        with torch.no_grad():
            for part, slope in zip(column, slopes, strict=True):
                part.sub_(LR * slope)


def test_a_run_is_its_equations_written_out() -> None:
    loop, fleet = Loop(), made()
    x, y = task_examples(TASKS, LENGTH, CLASSES)
    for task in range(TASKS):
        mine = slice(task * PER_TASK, (task + 1) * PER_TASK)
        here = picked(x[:, task], y[:, task])
        fleet.start_task(here, LENGTH, BATCH)
        for first in range(0, LENGTH, BATCH):
            part_x, part_y = (t[:, task, first : first + BATCH] for t in (x, y))
            fleet.learn(part_x, part_y, BATCH)
            loop.progress(part_x[0], part_y[0], mine)
        fleet.end_task(here, LENGTH, BATCH)
        fleet.next_task(LENGTH)
        loop.compress(x[0, task], y[0, task], mine, task)
        weights = list(fleet.weights)
        for ours, theirs in zip(weights, [*loop.base, *loop.active], strict=True):
            close(ours[0], theirs)
        close(fleet.predict(x[:, 0])[0], loop.read(x[0, 0])[2])


def test_only_the_active_column_learns_while_a_task_goes_on() -> None:
    fleet = made()
    before = {name: tensor.clone() for name, tensor in fleet.weights.named().items()}
    x, y = task_examples(TASKS, LENGTH, CLASSES)
    fleet.start_task(picked(x[:, 0], y[:, 0]), LENGTH, BATCH)
    fleet.learn(x[:, 0], y[:, 0], BATCH)
    changed = {n for n, t in fleet.weights.named().items() if not torch.equal(t, before[n])}
    assert changed == {name for name in before if name.startswith("columns.1.")}
