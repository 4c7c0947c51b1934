"""The Fisher figure: the energy written out, and logits at task ends as a plain loop has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from recollect import DER, MLP, DERpp, Fleet, Method
from recollect.core.random import Purpose, below, bits, permute
from recollect.experiments.figures import fisher
from recollect.experiments.figures.task_end_logits import DERAtEnds, DERppAtEnds
from recollect.streams import TaskStream, benchmark

# The energy of the Fisher matrix

SEEDS, RATES = [3, 4], [0.2, 0.05]


def watched(method: Method, net: Callable[[], nn.Module], stream: TaskStream) -> Fleet:
    return Fleet(
        [method] * 2, net, seeds=SEEDS, lr=RATES, classes=stream.classes, shape=stream.shape,
        memory=9, replay=4, stored=torch.float32, dtype=torch.float64, tasks=stream.tasks,
    )  # fmt: skip


def explicit(fleet: Fleet, run: int, x: Tensor, y: Tensor) -> float:
    """The Frobenius norm of the whole matrix, P x P, one gradient after the other."""
    network = MLP(6, 4, hidden=(5,)).double()
    network.load_state_dict({n: t[run] for n, t in fleet.weights.named().items()})
    whole: Tensor | float = 0.0
    for example, label in zip(x[run], y[run], strict=True):
        loss = functional.cross_entropy(network(example.double()[None]), label[None])
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        row = torch.cat([gradient.flatten() for gradient in gradients])
        whole = whole + torch.outer(row, row) / len(y[run])
    assert isinstance(whole, Tensor)
    return float(whole.square().sum().sqrt())


def test_the_energy_is_that_of_the_matrix_written_out(toy_stream: TaskStream) -> None:
    """Every step of a whole run, a ragged last batch of every task included."""
    net = partial(MLP, 6, 4, hidden=(5,))
    fleet, other = (watched(DERpp(0.5, 0.5), net, toy_stream) for _ in range(2))
    ours = fisher.weighted_sums(fleet, toy_stream, 8, torch.tensor(RATES, dtype=torch.float64))
    sums, rows = [0.0, 0.0], []
    for task in range(toy_stream.tasks):
        order = toy_stream.order(other.seeds, task, 0, 0, 35)
        x, y = toy_stream.pick(other.seeds, task, order)
        for start in range(0, 35, 8):
            some_x, some_y = x[:, start : start + 8], y[:, start : start + 8]
            for run in range(2):
                size = some_y.shape[1]
                sums[run] += RATES[run] / size * explicit(other, run, some_x, some_y)
            rows.append(list(sums))
            other.learn(some_x, some_y, 8)
        other.next_task(35)
    assert ours.shape == (10, 2)
    torch.testing.assert_close(ours, torch.tensor(rows, dtype=torch.float64), rtol=1e-10, atol=0)
    for mine, theirs in zip(fleet.weights, other.weights, strict=True):
        assert torch.equal(mine, theirs), "to watch changes nothing"


def test_curves_are_means_over_seeds_of_every_method_and_buffer() -> None:
    known = benchmark("seq-digits")
    said: list[str] = []
    found = fisher.data(known, known.stream(), [0, 1], buffers=(20,), report=said.append)
    assert [curve.method for curve in found.curves] == [kind.name for kind in fisher.KINDS]
    assert (found.benchmark, found.rate, found.seeds, len(said)) == ("seq-digits", 0.03, 2, 5)
    for curve in found.curves:
        assert curve.steps[0] == 1
        assert curve.steps[-1] == found.ends[-1]
        assert list(curve.mean) == sorted(curve.mean), "a sum of what is never negative"
        assert curve.mean[0] > 0
    first = {curve.mean[0] for curve in found.curves}
    assert max(first) == pytest.approx(min(first)), "all begin with the same weights and batch"


# Logits that are taken at the end of a task

SEED, LR, CAPACITY, REPLAY, BATCH = 7, 0.3, 9, 6, 4


@dataclass
class ByHand:
    """One run of DER(++) at task ends: a list for a memory, logits that may be None."""

    method: DERAtEnds | DERppAtEnds
    net: nn.Module
    buffer: list[tuple[Tensor, Tensor, Tensor | None]] = field(default_factory=list)
    seen: int = 0
    steps: int = 0

    def observe(self, x: Tensor, y: Tensor) -> float:
        loss = functional.cross_entropy(self.net(x), y)
        distances = [
            functional.mse_loss(self.net(past[None]), logits[None])
            for past, _, logits in self.sample(0)
            if logits is not None
        ]
        if distances:
            loss = loss + self.method.alpha * torch.stack(distances).mean()
        if isinstance(self.method, DERppAtEnds) and self.buffer:
            past, labels, _ = zip(*self.sample(1), strict=True)
            again = functional.cross_entropy(self.net(torch.stack(past)), torch.stack(labels))
            loss = loss + self.method.beta * again
        optimiser = torch.optim.SGD(self.net.parameters(), LR)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        for example in zip(x, y, strict=True):
            self.insert(*example)
        self.steps += 1
        return loss.item()

    def end_task(self) -> None:
        self.buffer = [
            (x, y, self.net(x[None])[0].detach() if logits is None else logits)
            for x, y, logits in self.buffer
        ]

    def sample(self, which: int) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        filled = len(self.buffer)
        if not filled:
            return []
        key = bits(torch.tensor(SEED), Purpose.DRAW, self.steps, which)
        return [self.buffer[i] for i in permute(key, torch.arange(min(REPLAY, filled)), filled)]

    def insert(self, x: Tensor, y: Tensor) -> None:
        if len(self.buffer) < CAPACITY:
            self.buffer.append((x, y, None))
        else:
            slot = int(below(bits(torch.tensor(SEED), Purpose.SLOT, self.seen), self.seen + 1))
            if slot < CAPACITY:
                self.buffer[slot] = (x, y, None)
        self.seen += 1


@pytest.mark.parametrize("method", [DERAtEnds(0.8), DERppAtEnds(0.8, 0.3)], ids=lambda m: m.name)
def test_logits_at_task_ends_are_as_a_plain_loop_has_them(
    method: DERAtEnds | DERppAtEnds,
    tiny_net: Callable[[], MLP],
    examples: Callable[..., tuple[Tensor, Tensor]],
) -> None:
    """Three tasks; the first ends before the memory is full."""
    torch.manual_seed(SEED)
    by_hand = ByHand(method, tiny_net().double())
    fleet = Fleet(
        [method], tiny_net, seeds=[SEED], lr=[LR], classes=3, shape=(6,), memory=CAPACITY,
        replay=REPLAY, stored=torch.float64, dtype=torch.float64, tasks=3,
    )  # fmt: skip
    x, y = examples([SEED], 34)
    without = 0
    for first, until in ((0, 7), (7, 20), (20, 34)):
        for start in range(first, until, BATCH):
            here = slice(start, min(start + BATCH, until))
            loss = fleet.learn(x[:, here], y[:, here], BATCH)
            assert loss.item() == pytest.approx(by_hand.observe(x[0, here], y[0, here]), abs=1e-11)
            kept = fleet.memory.fields().logits[0, : len(by_hand.buffer)]
            empty = [logits is None for _, _, logits in by_hand.buffer]
            assert kept.isnan().all(1).tolist() == empty
            without += sum(empty)
        by_hand.end_task()
        fleet.end_task(lambda places: (x, y), until - first, BATCH)
        fleet.next_task(until - first)
        wanted = torch.stack([t for _, _, t in by_hand.buffer if t is not None])
        kept = fleet.memory.fields().logits[0, : len(by_hand.buffer)]
        torch.testing.assert_close(kept, wanted, rtol=0, atol=1e-11)
    assert without > 0
    for name, parameter in by_hand.net.named_parameters():
        ours = fleet.weights.named()[name][0]
        torch.testing.assert_close(ours, parameter.detach(), rtol=0, atol=1e-11)


def test_logits_at_task_ends_hold_as_many_bytes_as_along_the_way(
    tiny_net: Callable[[], MLP],
) -> None:
    held = [
        Fleet([kind()], tiny_net, seeds=[0], lr=[0.1], classes=3, shape=(6,), memory=5, replay=2)
        for kind in (DER, DERAtEnds, DERpp, DERppAtEnds)
    ]
    der, der_at_ends, derpp, derpp_at_ends = [fleet.bytes_per_run for fleet in held]
    assert (der_at_ends, derpp_at_ends) == (der, derpp)
