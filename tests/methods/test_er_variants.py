"""ER with other memories: one run of each, written out example by example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from recollect import MLP, Fleet, InputError, Method
from recollect.core.random import Purpose, below, bits, permute
from recollect.experiments import paper
from recollect.methods import ERHybrid, ERKMeans, ERMoF, ERRing, method

SEED, LR, CAPACITY, REPLAY, CLASSES, LENGTH = 7, 0.3, 7, 5, 3, 90
SHARE = CAPACITY // CLASSES
Row = tuple[Tensor, Tensor]
METHODS: list[Method] = [ERRing(), ERKMeans(), ERMoF(), ERHybrid(), ERHybrid(least=2)]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)


def data(seeds: list[int], shape: tuple[int, ...] = (6,)) -> tuple[Tensor, Tensor]:
    """Two classes, then the third alone, then all three; other examples for every seed."""
    x, y = [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        x.append(torch.rand(LENGTH, *shape, dtype=torch.float64, generator=generator))
        first = torch.randint(0, 2, (LENGTH // 3,), generator=generator)
        last = torch.randint(0, 3, (LENGTH // 3,), generator=generator)
        y.append(torch.cat([first, torch.full_like(first, 2), last]))
    return torch.stack(x), torch.stack(y)


def fleet_of(method: Method, seeds: list[int], net: Callable[[], nn.Module], **more: Any) -> Fleet:
    given = {"shape": (6,), "memory": CAPACITY, "replay": REPLAY, "stored": torch.float64, **more}
    return Fleet(
        [method] * len(seeds), net, seeds=seeds, lr=[LR] * len(seeds), classes=CLASSES,
        dtype=torch.float64, **given,
    )  # fmt: skip


def apart(one: Tensor, other: Tensor) -> float:
    """A squared distance without its last digits, in which equal ones may differ."""
    return float((one - other).square().sum().float())


@dataclass
class Cluster:
    """A centre, everything that came to it, and the examples that are kept of it."""

    came: list[Tensor] = field(default_factory=list)
    kept: list[tuple[Row, Tensor]] = field(default_factory=list)

    def centre(self) -> Tensor:
        return torch.stack(self.came).mean(0)

    def far(self, feature: Tensor) -> float:
        return apart(feature, self.centre())

    def take(self, new: list[tuple[Row, Tensor]], room: int) -> None:
        """The closest stay where they are; new ones go to free places, then to the farthest."""
        self.came += [feature for _, feature in new]
        ranked = sorted([*self.kept, *new], key=lambda one: self.far(one[1]))[:room]
        stay = [any(one is other for other in ranked) for one in self.kept]
        leave = [place for place, stays in enumerate(stay) if not stays]
        leave.sort(key=lambda place: -self.far(self.kept[place][1]))
        for one in new:
            if any(one is other for other in ranked):
                if len(self.kept) < room:
                    self.kept.append(one)
                else:
                    self.kept[leave.pop(0)] = one


@dataclass
class Loop:
    """One run; its drawn numbers are the library's, what it does with them is written out."""

    method: Method
    net: MLP
    steps: int = 0
    seen: int = 0
    slots: list[Row] = field(default_factory=list)
    rings: list[list[Row]] = field(default_factory=lambda: [[] for _ in range(CLASSES)])
    numbers: list[int] = field(default_factory=lambda: [0] * CLASSES)
    clusters: list[list[Cluster]] = field(default_factory=lambda: [[] for _ in range(CLASSES)])
    owned: list[list[int]] | None = None
    fewer: int = 0

    def memory(self) -> list[Row]:
        if isinstance(self.method, ERRing):
            return [row for ring in self.rings for row in ring]
        if isinstance(self.method, ERHybrid):
            return self.slots
        return [row for some in self.clusters for cluster in some for row, _ in cluster.kept]

    def observe(self, batch: list[Row]) -> None:
        rows, memory = list(batch), self.memory()
        if memory:
            key = bits(torch.tensor(SEED), Purpose.DRAW, self.steps, 0)
            places = permute(key, torch.arange(min(REPLAY, len(memory))), len(memory))
            rows += [memory[place] for place in places.tolist()]
            self.fewer += len(memory) < min(REPLAY, self.seen)
        x, y = (torch.stack(column) for column in zip(*rows, strict=True))
        loss = functional.cross_entropy(self.net(x), y)
        parameters = list(self.net.parameters())
        with torch.no_grad():
            for parameter, grad in zip(
                parameters, torch.autograd.grad(loss, parameters), strict=True
            ):
                parameter.sub_(LR * grad)
            getattr(self, type(self.method).__name__.lower())(batch)
        self.steps, self.seen = self.steps + 1, self.seen + len(batch)

    def erring(self, batch: list[Row]) -> None:
        for row in batch:
            label = int(row[1])
            ring, place = self.rings[label], self.numbers[label] % SHARE
            ring[place : place + 1] = [row]
            self.numbers[label] += 1

    def features(self, batch: list[Row]) -> list[tuple[Row, Tensor]]:
        read: list[Tensor] = []
        hook = self.net.head.register_forward_pre_hook(lambda _, x: read.append(x[0]))
        self.net(torch.stack([x for x, _ in batch]))
        hook.remove()
        return list(zip(batch, read[0], strict=True))

    def erkmeans(self, batch: list[Row]) -> None:
        arrived: dict[int, tuple[Cluster, list[tuple[Row, Tensor]]]] = {}
        for row, feature in self.features(batch):
            clusters = self.clusters[int(row[1])]
            if len(clusters) < SHARE:
                clusters.append(Cluster())
                nearest = clusters[-1]
            else:
                first = [arrived[id(c)][1][0][1] if not c.came else c.centre() for c in clusters]
                far = [apart(feature, centre) for centre in first]
                nearest = clusters[far.index(min(far))]
            arrived.setdefault(id(nearest), (nearest, []))[1].append((row, feature))
        for cluster, new in arrived.values():
            cluster.take(new, 1)

    def ermof(self, batch: list[Row]) -> None:
        featured = self.features(batch)
        for label in range(CLASSES):
            new = [one for one in featured if int(one[0][1]) == label]
            if new:
                self.clusters[label] = self.clusters[label] or [Cluster()]
                self.clusters[label][0].take(new, SHARE)

    def erhybrid(self, batch: list[Row]) -> None:
        assert isinstance(self.method, ERHybrid)
        least, after = self.method.least, list(self.slots)
        for number, row in enumerate(batch, self.seen):
            if len(after) < CAPACITY:
                after.append(row)
            else:
                drawn = int(below(bits(torch.tensor(SEED), Purpose.SLOT, number), number + 1))
                after[drawn : drawn + 1] = [row] if drawn < CAPACITY else []
        now, then = (
            [sum(int(y) == c for _, y in rows) for c in range(CLASSES)]
            for rows in (self.slots, after)
        )
        lost = any(now[c] >= least > then[c] for c in range(CLASSES))
        if self.owned is None and not lost:
            self.slots = after
            return
        if self.owned is None:
            of = [[s for s, (_, y) in enumerate(self.slots) if int(y) == c] for c in range(CLASSES)]
            surplus = [slot for slots in of for slot in slots[SHARE:]]
            self.numbers = [min(len(slots), SHARE) for slots in of]
            self.owned = [slots[:SHARE] for slots in of]
            for slots in self.owned:
                while len(slots) < SHARE:
                    slots.append(surplus.pop(0))
        for row in batch:
            label = int(row[1])
            self.slots[self.owned[label][self.numbers[label] % SHARE]] = row
            self.numbers[label] += 1


@every_method
@pytest.mark.parametrize("batch", [1, 4, 7])
def test_a_run_is_its_definition_written_out(
    method: Method, batch: int, tiny_net: Callable[[], MLP]
) -> None:
    """With memory empty, partly filled (then some drawn rows must not count), and full."""
    torch.manual_seed(SEED)
    loop = Loop(method, tiny_net().double())
    fleet = fleet_of(method, [SEED], tiny_net)
    x, y = data([SEED])
    for start in range(0, LENGTH, batch):
        part = slice(start, start + batch)
        fleet.learn(x[:, part], y[:, part], batch)
        loop.observe(list(zip(x[0, part], y[0, part], strict=True)))
        for name, parameter in loop.net.named_parameters():
            ours = fleet.weights.named()[name][0]
            torch.testing.assert_close(ours, parameter.detach(), rtol=0, atol=1e-9)
    if isinstance(method, ERHybrid):
        assert (loop.owned is not None) == bool(fleet.state["ring"])
    else:
        assert loop.fewer > 2, "some runs never had enough to draw from"


def test_the_hybrid_changes_when_a_class_would_have_too_few(tiny_net: Callable[[], MLP]) -> None:
    changed = {}
    for least in (1, 2, 9):
        fleet = fleet_of(ERHybrid(least), list(range(30)), tiny_net)
        fleet.learn(*data(list(range(30))), 1)
        changed[least] = int(fleet.state["ring"].sum())
        kept = fleet.memory.fields().y
        assert torch.equal(kept, fleet.state["label"][:, :CAPACITY])
        counts = torch.stack([(kept == c).sum(1) for c in range(CLASSES)], 1)
        rings = fleet.state["ring"][:, None]
        assert bool((counts >= min(least, SHARE))[rings.expand_as(counts)].all())
    assert 0 < changed[1] < changed[2] <= 30
    assert changed[9] == 0, "no class ever has nine"


@every_method
def test_how_steps_are_carried_out_changes_nothing(
    method: Method, way: dict[str, bool], tiny_net: Callable[[], MLP]
) -> None:
    fleets = [fleet_of(method, [3, SEED], tiny_net, **how) for how in ({}, way)]
    for fleet in fleets:
        fleet.learn(*data([3, SEED]), 4)
    for name, tensor in fleets[0].tensors().items():
        if not name.startswith("memory"):
            torch.testing.assert_close(fleets[1].tensors()[name], tensor, rtol=0, atol=1e-9)
    for name, tensor in fleets[0].memory.fields().items():
        assert torch.equal(tensor, fleets[1].memory.fields()[name])


@every_method
def test_a_memory_too_small_for_the_classes_is_refused(
    method: Method, tiny_net: Callable[[], MLP]
) -> None:
    with pytest.raises(InputError, match="must be at least 3, the number of classes, not 2"):
        fleet_of(method, [0], tiny_net, memory=2)


@pytest.mark.parametrize("name", ["er-ring", "er-kmeans", "er-mof", "er-hybrid"])
def test_they_are_known_by_name_need_no_boundaries_and_learn_at_the_rate_of_er(name: str) -> None:
    assert not method(name).needs.boundaries
    for benchmark in ("seq-mnist", "mnist-360", "seq-cifar10"):
        theirs = paper.hyperparameters(benchmark, "er", 20)
        assert paper.hyperparameters(benchmark, name, 20) == theirs
        assert theirs
