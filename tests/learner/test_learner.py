"""What a learner does: it learns, predicts and counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.learner.some_stream import batches, network, normalised, weights
from torch import nn

from recollect import ER, MLP, SGD, DERpp, Learner
from recollect.methods import GSS


def test_it_learns() -> None:
    learner = Learner(MLP(4, 1, hidden=(16,)), DERpp(alpha=0.1, beta=0.5), memory=50, lr=0.1)
    for x, y in batches(200):
        learner.observe(x, y)
    x, y = next(batches(1, size=200))
    assert np.mean([told == label for told, label in zip(learner.predict(x), y, strict=True)]) > 0.9
    assert learner.metrics().recent is not None
    assert learner.seen == 1000
    assert learner.steps == 200


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
    module = MLP(4, 1, hidden=(8,))
    one, other = (Learner(module, ER(), seed=1) for _ in range(2))
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
