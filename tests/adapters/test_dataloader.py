"""A learner that follows a real DataLoader."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from recollect import ER, MLP, DERpp, Learner


def blobs(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(3, size=n))  # class after class
    x = 3 * np.eye(3, 4)[y] + rng.normal(size=(n, 4))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def test_following_a_loader_learns_every_class_in_order_of_arrival() -> None:
    x, y = blobs(300)
    loader = DataLoader(TensorDataset(x, y), batch_size=5)
    torch.manual_seed(0)
    learner = Learner(MLP(4, 1, hidden=(16,)), DERpp(), memory=60, lr=0.1, replay=10)
    losses = list(learner.follow(loader))
    assert len(losses) == len(loader) == learner.steps == 60
    assert learner.seen == 300
    assert learner.classes == [0, 1, 2]
    test_x, test_y = blobs(300, seed=1)
    right = np.mean(np.array(learner.predict(test_x)) == test_y.numpy())
    assert right > 0.85
    assert np.bincount(test_y.numpy()).max() / 300 < 0.4


def test_following_is_observing_bit_for_bit() -> None:
    x, y = blobs(100)
    torch.manual_seed(0)
    network = MLP(4, 3, hidden=(8,))
    follower = Learner(network, ER(), memory=20, replay=4)
    observer = Learner(network, ER(), memory=20, replay=4)
    loader = DataLoader(
        TensorDataset(x, y), batch_size=7, shuffle=True, generator=torch.Generator().manual_seed(3)
    )
    losses = list(follower.follow(loader))
    loader.generator.manual_seed(3)
    assert losses == [observer.observe(*batch) for batch in loader]
    assert np.array_equal(follower.predict_proba(x), observer.predict_proba(x))


class Endless(IterableDataset[tuple[torch.Tensor, int]]):
    """Examples without an end."""

    def __iter__(self):  # type: ignore[no-untyped-def]
        place = 0
        while True:
            yield torch.tensor([float(place % 2), 1.0]), place % 2
            place += 1


def test_an_endless_stream_is_followed_as_far_as_one_likes() -> None:
    learner = Learner(MLP(2, 1, hidden=(8,)), ER(), memory=20, lr=0.1, replay=4)
    for _ in zip(range(60), learner.follow(DataLoader(Endless(), batch_size=4)), strict=False):
        if learner.seen >= 200:
            break
    assert learner.seen == 200
    assert learner.predict(torch.tensor([[0.0, 1.0], [1.0, 1.0]])) == [0, 1]


def test_labels_that_are_texts_as_the_page_says() -> None:
    """torch collates them into a tuple, which beside a batch holds its labels."""
    data = [(torch.tensor([float(n % 2), 1.0]), "ab"[n % 2]) for n in range(80)]
    loader: DataLoader[tuple[torch.Tensor, str]] = DataLoader(data, batch_size=4)  # type: ignore[arg-type]
    learner = Learner(MLP(2, 1, hidden=(8,)), ER(), memory=20, lr=0.1, replay=4)
    assert len(list(learner.follow(loader))) == 20
    assert (learner.seen, learner.classes) == (80, ["a", "b"])
