"""X-DER against its reference: the five parts of the loss, the rewriting, and the memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from tests.builders import learn_task
from tests.methods.references.x_der import (
    future_constraint,
    future_preparation,
    head_cross_entropy,
    is_rewritten,
    logit_matching,
    past_constraint,
    rewritten,
)
from torch import Tensor, nn

from recollect import Fleet
from recollect.core.model import Model
from recollect.core.network import Network
from recollect.core.weights import State
from recollect.memory import Stored
from recollect.methods import XDER, Step

RUNS, CLASSES, PER_TASK, PAST, SEEN = 2, 8, 2, 2, 4
VALUES: dict[str, list[float]] = {
    "alpha": [0.3, 1.2], "beta": [0.8, 0.5], "gamma": [0.85, 0.6], "lambda_": [0.4, 1.0],
    "eta": [0.7, 2.0], "m": [0.3, 1.0], "temperature": [0.5, 2.0],
}  # fmt: skip


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, CLASSES))


def method() -> XDER:
    columns: dict[str, Any] = {
        name: torch.tensor(each, dtype=torch.float64) for name, each in VALUES.items()
    }
    return XDER(**columns, views=3)


def examples(n: int, seed: int, labels: tuple[int, int]) -> Stored:
    generator = torch.Generator().manual_seed(seed)
    return Stored(
        x=torch.randn(RUNS, n, 6, dtype=torch.float64, generator=generator),
        y=torch.randint(*labels, (RUNS, n), generator=generator),
        logits=2 * torch.randn(RUNS, n, CLASSES, dtype=torch.float64, generator=generator),
        drawn=torch.randint(0, 3, (RUNS, n), generator=generator),
    )


def state(past: int, seen: int) -> State:
    marks = torch.arange(CLASSES).repeat(RUNS, 1)
    heads = torch.zeros(RUNS, CLASSES // PER_TASK, CLASSES, dtype=torch.bool)
    for head, start in enumerate(range(seen, CLASSES, PER_TASK)):
        heads[:, head, start : start + PER_TASK] = True
    now = (marks >= past) & (marks < seen)
    per_task = torch.full((RUNS, 1), PER_TASK)
    return State({"past": marks < past, "now": now, "heads": heads, "per_task": per_task})


def expected(
    k: int, net: Any, arrived: Stored, draws: list[Stored], past: int, seen: int
) -> Tensor:
    value = {name: each[k] for name, each in VALUES.items()}
    x, y = arrived.x[k], arrived.y[k]
    now, loss = net(x), head_cross_entropy(net(x), y, past, seen)
    joined, labels, shown, of = [now], [y], [x], [y]
    if draws[0].y.shape[1]:
        then, also = net(draws[0].x[k]), net(draws[1].x[k])
        loss = loss + value["alpha"] * logit_matching(then, draws[0].logits[k])
        loss = loss + value["beta"] * head_cross_entropy(also, draws[1].y[k], 0, past)
        joined, labels = [now, then, also], [y, draws[0].y[k], draws[1].y[k]]
        shown, of = [x, draws[2].x[k]], [y, draws[2].y[k]]
    views = net(torch.cat(shown)).unsqueeze(1).repeat(1, 3, 1)  # without augmentation, all alike
    future = future_preparation(views, torch.cat(of), seen, PER_TASK, value["temperature"])
    margins = past_constraint(now, y, past, seen, value["m"], "publication") + future_constraint(
        torch.cat(joined), torch.cat(labels), seen, PER_TASK, value["m"], "publication"
    )
    return loss + value["lambda_"] * future + value["eta"] * margins


@pytest.mark.parametrize(
    ("past", "seen", "replayed"), [(0, 2, 0), (2, 4, 5), (6, 8, 5)], ids=["first", "second", "last"]
)
def test_loss_and_gradient_are_those_of_the_reference(past: int, seen: int, replayed: int) -> None:
    network = Network(dense, [0, 1], dtype=torch.float64)
    rate = torch.ones(RUNS, dtype=torch.float64)
    model = Model(network, network.weights, network.buffers, rate)
    arrived = examples(4, 0, (past, seen))
    draws = [examples(replayed, seed, (0, max(past, 1))) for seed in (1, 2, 3)]
    step = Step(arrived.x, arrived.y, model, draws, state(past, seen), key=torch.tensor([3, 4]))
    loss = method().loss(step)
    gradient = model.gradient(loss).dense().named()
    for k in range(RUNS):
        torch.manual_seed(k)
        module = dense().double()
        own = expected(k, module, arrived, draws, past, seen)
        torch.testing.assert_close(loss[k], own, rtol=1e-10, atol=1e-12)
        for (name, _), theirs in zip(
            module.named_parameters(), torch.autograd.grad(own, [*module.parameters()]), strict=True
        ):
            torch.testing.assert_close(gradient[name][k], theirs, rtol=1e-9, atol=1e-11)


def test_logits_are_rewritten_as_in_the_reference() -> None:
    """Always when an example is drawn first, and later with a probability of one by its draws."""
    network = Network(dense, [0, 1], dtype=torch.float64)
    model = Model(network, network.weights, network.buffers, torch.ones(RUNS).double())
    arrived, draws = examples(4, 0, (PAST, SEEN)), [examples(9, s, (0, PAST)) for s in (1, 2, 3)]
    key = torch.tensor([3, 4])
    for draw in draws[:2]:  # so that rules for signs do not matter
        truth = draw.y.unsqueeze(2)
        draw.logits.scatter_(2, truth, draw.logits.gather(2, truth).abs())
    step = Step(arrived.x, arrived.y, model, draws, state(PAST, SEEN), key=key)
    method().loss(step)
    random = Step(arrived.x, arrived.y, model, key=key)
    kept = Counter[bool]()
    for number in (0, 1):
        draw = draws[number]
        outputs = network(network.weights, draw.x)
        drawn = random.random(3).view(RUNS, -1)[:, :9]
        found = step.outcome.rewritten[number, "logits"]
        assert torch.equal(step.outcome.rewritten[number, "drawn"], draw.drawn + 1)
        for k in range(RUNS):
            for i in range(9):
                chosen = is_rewritten(int(draw.drawn[k, i]) + 1, float(drawn[k, i]))
                kept[chosen] += 1
                own = draw.logits[k, i]
                if chosen and outputs[k, i, PAST:SEEN].max() > 0:
                    own = rewritten(own, outputs[k, i], int(draw.y[k, i]), PAST, SEEN,
                                    VALUES["gamma"][k], "publication")  # fmt: skip
                elif chosen:
                    own = torch.cat([own[:PAST], outputs[k, i, PAST:SEEN], own[SEEN:]])
                torch.testing.assert_close(found[k, i], own, rtol=1e-10, atol=1e-12)
    assert min(kept.values()) > 3


def test_rewritten_logits_never_change_their_sign() -> None:
    """As printed, the factor is negative if just one of label and largest logit is."""
    stored = torch.tensor([[[4.0, 0.0, 0.0], [-4.0, 0.0, 0.0], [-4.0, 0.0, 0.0], [4.0, 0.0, 0.0]]])
    now = torch.tensor([[[9.0, -2.0, -6.0], [9.0, 2.0, -6.0], [9.0, -1.0, -6.0], [9.0, 8.0, -6.0]]])
    found = XDER(gamma=0.5).updated(
        stored, now, torch.zeros(1, 4, dtype=torch.long), torch.tensor([[False, True, True]])
    )
    right = [[4.0, -2.0, -6.0], [-4.0, 0.0, -0.0], [-4.0, -2.0, -12.0], [4.0, 2.0, -1.5]]
    torch.testing.assert_close(found, torch.tensor([right]))


def test_memory_has_the_same_share_for_every_class_with_rewritten_logits() -> None:
    network = dense().double()
    fleet = Fleet(
        [XDER(gamma=0.5)] * RUNS, network, seeds=[0, 1], lr=[1e-9, 1e-9], classes=CLASSES,
        shape=(6,), memory=12, replay=4, stored=torch.float64, dtype=torch.float64, tasks=4,
        per_task=PER_TASK,
    )  # fmt: skip
    stored: list[Stored] = []
    for task in range(3):
        x = examples(20, task, (0, 1)).x
        y = 2 * task + (torch.arange(20) % 5 > 1).long().repeat(RUNS, 1)  # 8 and 12 of a class
        learn_task(fleet, x, y, 5)
        stored.append(Stored({name: t.clone() for name, t in fleet.memory.fields().items()}))
    shares = [[6, 6], [3, 3, 3, 3], [2] * 6]
    for fields, share in zip(stored, shares, strict=True):
        assert (fields.drawn == 0).all()
        for k in range(RUNS):
            assert [fields.y[k].tolist().count(label) for label in range(len(share))] == share
            outputs = network(fields.x[k]).detach()
            seen = len(share)
            for row, label, z in zip(fields.logits[k], fields.y[k].tolist(), outputs, strict=True):
                # The label's logit is as it was; later and earlier classes are at most half of it.
                torch.testing.assert_close(row[label], z[label])
                torch.testing.assert_close(row[seen:], z[seen:])
                other = [c for c in range(seen) if c // PER_TASK != label // PER_TASK]
                assert (row[other] <= max(float(z[label]) / 2, 0) + 1e-9).all()
    first, second = (set(map(tuple, fields.x[0].tolist())) for fields in stored[:2])
    assert len(first & second) == 6  # half of the first task's examples stayed
    assert not torch.equal(stored[0].x[0], stored[0].x[1])  # runs chose others


def test_heads_of_future_tasks_follow_the_order_in_which_classes_came() -> None:
    fleet = Fleet(
        [XDER()], dense, seeds=[0], lr=[0.1], classes=CLASSES, shape=(6,), memory=8, replay=4,
        stored=torch.float64, dtype=torch.float64, tasks=4, per_task=PER_TASK,
    )  # fmt: skip
    x, y = examples(4, 0, (0, 1)).x[:1], torch.tensor([[5, 1, 5, 1]])
    fleet.start_task(lambda index: (x, y), 4, 2)
    assert fleet.state["now"].nonzero()[:, 1].tolist() == [1, 5]
    heads = [row.nonzero().flatten().tolist() for row in fleet.state["heads"][0]]
    assert heads == [[0, 2], [3, 4], [6, 7], []]
