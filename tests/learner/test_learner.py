"""What a learner does: it learns, predicts and counts as its equations say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from recollect import DER, ER, MLP, SGD, DERpp, Fleet, InputError, Learner, Method
from recollect.memory import Clock, Reservoir
from recollect.memory import rule as rules
from recollect.methods import GSS, METHODS


def batches(count: int, size: int = 5, classes: int = 3) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Batches that can be learned, always the same."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        y = rng.integers(classes, size=size)
        yield rng.normal(size=(size, 4)).astype(np.float32) + 4 * np.eye(3, 4)[y], y.tolist()


def weights(learner: Learner) -> dict[str, Tensor]:
    return dict(learner.trained_module().named_parameters())


def network(outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, outputs))


def test_it_learns() -> None:
    learner = Learner(MLP(4, 1, hidden=(16,)), DERpp(alpha=0.1, beta=0.5), memory=50, lr=0.1)
    for x, y in batches(200):
        learner.observe(x, y)
    x, y = next(batches(1, size=200))
    assert np.mean([told == label for told, label in zip(learner.predict(x), y, strict=True)]) > 0.9
    assert learner.metrics().recent is not None
    assert learner.seen == 1000
    assert learner.steps == 200


def test_sgd_is_a_plain_torch_loop() -> None:
    module = network()
    learner = Learner(module, SGD(), lr=0.1, classes=[0, 1, 2])
    hand = network()
    optimiser = torch.optim.SGD(hand.parameters(), lr=0.1)
    for x, y in batches(30):
        loss = functional.cross_entropy(hand(torch.tensor(x).float()), torch.tensor(y))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        assert learner.observe(x, y) == pytest.approx(loss.item(), rel=1e-5)
        for name, parameter in hand.named_parameters():
            torch.testing.assert_close(weights(learner)[name], parameter)


def normalised(outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten(),
        nn.Linear(16, outputs),
    )  # fmt: skip


@pytest.mark.parametrize("make", [network, normalised], ids=["dense", "batch-norm"])
def test_derpp_is_its_equation(make: type) -> None:
    """The memory is filled by the first batches and kept whole, so what is drawn is known."""
    alpha, beta, capacity, replay, lr = 0.3, 0.7, 12, 4, 0.05
    learner = Learner(
        make(), DERpp(alpha, beta), memory=capacity, replay=replay, lr=lr, seed=9, classes=[0, 1, 2]
    )
    hand = make().train()
    rule = Reservoir(capacity)
    seed = torch.tensor([9])
    kept: dict[int, tuple[Tensor, int, Tensor]] = {}
    clock = Clock()
    for inputs, y in batches(25):
        x, labels = torch.tensor(inputs).float(), torch.tensor(y)
        now = hand(x)
        loss = functional.cross_entropy(now, labels)
        sizes = rule.sizes(clock, 2, replay)
        first, second = torch.split_with_sizes(
            rule.draws(seed, clock, 1, 5, sizes)[0, 0], list(sizes)
        )
        if sizes[0]:
            examples = [kept[slot] for slot in first.tolist()]
            then = hand(torch.stack([example for example, _, _ in examples]))
            target = torch.stack([logits for _, _, logits in examples])
            loss = loss + alpha * functional.mse_loss(then, target)
            examples = [kept[slot] for slot in second.tolist()]
            also = hand(torch.stack([example for example, _, _ in examples]))
            wanted = torch.tensor([label for _, label, _ in examples])
            loss = loss + beta * functional.cross_entropy(also, wanted)
        for place, slot in enumerate(rule.slots(seed, clock, 1, 5)[0, 0].tolist()):
            if slot < capacity:
                kept[slot] = (x[place], y[place], now[place].detach())
        parameters = list(hand.parameters())
        with torch.no_grad():
            for weight, slope in zip(
                parameters, torch.autograd.grad(loss, parameters), strict=True
            ):
                weight -= lr * slope
        clock = clock.after(1, 5)
        assert learner.observe(inputs, y) == pytest.approx(loss.item(), rel=1e-4)
    learned = learner.trained_module().state_dict()
    for name, tensor in hand.state_dict().items():
        torch.testing.assert_close(learned[name], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", [SGD(), ER(), DER(0.3), DERpp(0.3, 0.5), GSS()], ids=str)
def test_it_is_a_fleet_of_one(method: Method) -> None:
    torch.manual_seed(0)
    module = MLP(4, 3, hidden=(6,))
    learner = Learner(module, method, memory=12, replay=4, lr=0.05, seed=3, classes=[0, 1, 2])
    fleet = Fleet(
        [method], module, seeds=[3], lr=[0.05], classes=3, shape=(4,), memory=12, replay=4,
        compiled=False,
    )  # fmt: skip
    for x, y in batches(25):
        loss = learner.observe(x, y)
        inputs = torch.tensor(x).float().unsqueeze(0)
        assert float(fleet.learn(inputs, torch.tensor([y]), 5)) == loss
    learned = weights(learner)
    for name, tensor in fleet.weights.named().items():
        assert torch.equal(learned[name], tensor[0])


def test_one_example_is_a_batch_of_one() -> None:
    one, batch = (Learner(network(), ER(), memory=8, classes=[0, 1, 2]) for _ in range(2))
    for x, y in batches(20, size=1):
        assert one.observe(x[0], y[0]) == batch.observe(x, y)
        assert one.predict(x[0]) == batch.predict(x)[0]
        np.testing.assert_array_equal(one.predict_proba(x[0]), batch.predict_proba(x)[0])
    assert one._packed() == batch._packed()


def test_probabilities_are_those_of_the_network() -> None:
    learner = Learner(network(), ER(), memory=8)
    for x, y in batches(10):
        learner.observe(x, y)
    module = learner.trained_module().eval()
    x, _ = next(batches(1))
    logits = module(torch.tensor(x).float())[:, : len(learner.classes)]
    shares = logits.double().softmax(1).detach().numpy()
    found = learner.predict_proba(x)
    np.testing.assert_allclose(found, shares, rtol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1)
    assert learner.predict(x) == [learner.classes[place] for place in found.argmax(1)]


@pytest.mark.parametrize("make", [network, normalised, lambda n=3: MLP(4, n)])
def test_the_trained_module_says_the_same(make: type) -> None:
    learner = Learner(make(1), DERpp(), memory=20)
    for x, y in batches(15):
        learner.observe(x, [f"class {label}" for label in y])
    module = learner.trained_module().eval()
    x, _ = next(batches(1, size=50))
    logits = module(torch.tensor(x).float())[:, : len(learner.classes)]
    found = logits.argmax(1).tolist()
    assert [learner.classes[place] for place in found] == learner.predict(x)
    assert module is not learner.trained_module()


def test_outputs_that_belong_to_no_class_yet_are_never_told() -> None:
    module = nn.Linear(4, 10)
    with torch.no_grad():
        module.bias[5:] = 100.0
    learner = Learner(module, SGD(), lr=1e-6)
    learner.observe(np.zeros((2, 4)), ["a", "b"])
    assert learner.predict(np.zeros(4)) in ("a", "b")
    assert learner.predict_proba(np.zeros(4)).shape == (2,)


def test_the_network_that_is_passed_stays_as_it_is() -> None:
    module = normalised()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    module[2].eval()
    learner = Learner(module, ER(), memory=8, lr=0.5)
    for x, y in batches(10, classes=3):
        learner.observe(x, [*y[:-1], 3])  # a class more than the network has outputs
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert module[5].weight.shape == (3, 16)
    assert [each.training for each in module] == [True, True, False, True, True, True]


def test_what_becomes_of_the_network_outside_does_not_matter() -> None:
    module = network()
    learner = Learner(module, SGD(), classes=[0, 1, 2])
    same = Learner(network(), SGD(), classes=[0, 1, 2])
    with torch.no_grad():
        module.get_parameter("0.weight").fill_(7.0)
    for x, y in batches(3):
        assert learner.observe(x, y) == same.observe(x, y)


def test_frozen_layers_stay() -> None:
    for optimiser in ("SGD", "AdamW"):
        module = network()
        module[0].requires_grad_(False)
        learner = Learner(module, DERpp(), memory=20, lr=0.1, optimiser=optimiser)
        for x, y in batches(10):
            learner.observe(x, y)
        learned = weights(learner)
        assert torch.equal(learned["0.weight"], module.get_parameter("0.weight"))
        assert not torch.equal(learned["2.weight"], module.get_parameter("2.weight"))
        assert not learned["0.weight"].requires_grad


def test_predicting_changes_nothing() -> None:
    for method in (SGD(), ER(), DERpp(), GSS()):
        dropped = nn.Sequential(normalised(8), nn.Dropout(0.5), nn.Linear(8, 3))
        for module in (network(), dropped, MLP(4, 3)):
            learner = Learner(module, method, memory=10, optimiser="AdamW")
            for x, y in batches(8):
                learner.observe(x, y)
            before, random = learner._packed(), torch.random.get_rng_state()
            first = learner.predict_proba(x)
            learner.predict(x)
            learner.predict(x[0])
            learner.metrics()
            learner.trained_module()
            np.testing.assert_array_equal(learner.predict_proba(x), first)
            assert learner._packed() == before
            assert torch.equal(torch.random.get_rng_state(), random)


@pytest.mark.parametrize("window", [1, 3, 7, 100])
def test_metrics_are_what_a_count_by_hand_says(window: int) -> None:
    learner = Learner(MLP(4, 1, hidden=(8,)), ER(), memory=20, lr=0.1, window=window)
    outcomes: list[tuple[str, bool]] = []
    for number, (x, y) in enumerate(batches(12, size=5)):
        labels = [f"class {min(label, number // 3)}" for label in y]  # classes arrive late
        told = learner.predict(x) if number else [None] * len(y)
        outcomes += [(label, label == guess) for label, guess in zip(labels, told, strict=True)]
        learner.observe(x, labels)
        found = learner.metrics()
        assert found.seen == len(outcomes)
        assert found.accuracy == sum(right for _, right in outcomes) / len(outcomes)
        last = outcomes[-window:]
        assert found.recent == sum(right for _, right in last) / len(last)
        for label in learner.classes:
            its = [right for each, right in outcomes if each == label]
            assert found.per_class[label] == sum(its) / len(its)
        assert list(found.per_class) == learner.classes


def test_metrics_before_anything_was_seen() -> None:
    found = Learner(MLP(4, 2), SGD(), classes=["a", "b"]).metrics()
    assert (found.seen, found.accuracy, found.recent) == (0, None, None)
    assert found.per_class == {"a": None, "b": None}
    assert str(found) == "0 examples, accuracy -, recently -"


def test_follow_learns_from_a_data_loader() -> None:
    x = torch.randn(23, 4)
    data = torch.utils.data.TensorDataset(x, torch.arange(23) % 3)
    loader = torch.utils.data.DataLoader(data, batch_size=5)
    one, other = (Learner(MLP(4, 1, hidden=(8,)), ER(), seed=1) for _ in range(2))
    other._module = one._module
    losses = list(one.follow(loader))
    assert losses == [other.observe(*batch) for batch in loader]
    assert one.seen == 23
    assert one.steps == 5
    assert one.classes == [0, 1, 2]


def test_the_same_seed_is_the_same_learner_and_another_is_not() -> None:
    def learned(seed: int) -> bytes:
        learner = Learner(network(), DERpp(), memory=10, replay=3, seed=seed)
        for x, y in batches(12):
            learner.observe(x, y)
        return learner._packed()

    assert learned(1) == learned(1)
    assert learned(1) != learned(2)


def test_torchs_generator_has_no_part_in_it() -> None:
    results = []
    for seed in (1, 2):
        torch.manual_seed(0)
        module = nn.Sequential(network(8), nn.Dropout(0.5), nn.Linear(8, 3))
        torch.manual_seed(0)
        nn.init.normal_(module.get_parameter("2.weight"))
        nn.init.zeros_(module.get_parameter("2.bias"))
        torch.manual_seed(seed)
        learner = Learner(module, DERpp(), memory=10)
        for x, y in batches(6):
            learner.observe(x, y)
        results.append(learner._packed())
    assert results[0] == results[1]


@pytest.mark.parametrize("method", [ER(), DERpp(), GSS()], ids=lambda method: method.name)
def test_large_batches(method: Method, sizes_of_results: object) -> None:
    learner = Learner(MLP(4, 3, hidden=(8,)), method, memory=300, classes=[0, 1, 2])
    x, y = next(batches(1, size=10_000))
    learner.observe(x[:400], y[:400])
    if isinstance(method, GSS):  # it compares all examples of a batch with each other
        learner.observe(x[:1000], y[:1000])
        assert learner.seen == 1400
        return
    with sizes_of_results() as sizes:  # type: ignore[operator]
        learner.observe(x, y)
    assert learner.seen == 10_400
    assert max(sizes) < 20 * len(y), "something is quadratic in the batch"
    assert len(learner.predict(x)) == 10_000


def test_both_ways_to_find_who_stays_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for capacity, size in [(1, 30), (10, 64), (1000, 100), (300, 600)]:
        slot = torch.randint(
            capacity + 1, (3, 2, size), generator=torch.Generator().manual_seed(size)
        )
        monkeypatch.setattr(rules, "MANY", 10_000)
        compared = rules.later_stays(slot, capacity)
        monkeypatch.setattr(rules, "MANY", 0)
        assert torch.equal(rules.later_stays(slot, capacity), compared)
        for row, found in zip(slot.flatten(0, 1).tolist(), compared.flatten(0, 1), strict=True):
            last = {value: place for place, value in enumerate(row)}
            by_hand = [
                value if last[value] == place else capacity for place, value in enumerate(row)
            ]
            assert found.tolist() == by_hand


def test_one_large_batch_keeps_what_many_small_ones_keep() -> None:
    """Which examples are in memory depends on their numbers in the stream, not on the batches."""
    x, y = next(batches(1, size=2000))
    kept = []
    for size in (2000, 400, 8):
        learner = Learner(MLP(4, 3, hidden=(8,)), ER(), memory=50, lr=1e-9, classes=[0, 1, 2])
        for start in range(0, len(y), size):
            learner.observe(x[start : start + size], y[start : start + size])
        assert learner._now.engine is not None
        kept.append(learner._now.engine.fleet.memory.fields().x)
    assert torch.equal(kept[0], kept[1])
    assert torch.equal(kept[1], kept[2])


FIT = [
    kind
    for kind in METHODS.values()
    if not (kind.needs_boundaries or kind.needs_task or kind.needs_all_data)
]


@pytest.mark.parametrize("name", sorted(set(METHODS) - {kind.name for kind in FIT}))
def test_methods_that_need_to_know_of_tasks_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="told where tasks begin and end") as refusal:
        Learner(MLP(4, 2), METHODS[name]())
    assert all(kind.title in str(refusal.value) for kind in FIT)


@pytest.mark.parametrize("kind", FIT, ids=lambda kind: kind.name)
def test_every_method_for_streams_learns_and_holds_no_more_later(kind: type[Method]) -> None:
    learner = Learner(MLP(4, 3, hidden=(16,)), kind(), memory=30, lr=0.1, classes=[0, 1, 2])
    held = set()
    for x, y in batches(50):
        learner.observe(x, y)
        held.add(learner.memory_bytes)
    assert len(held) == 1
    x, y = next(batches(1, size=200))
    assert np.mean([told == label for told, label in zip(learner.predict(x), y, strict=True)]) > 0.8
