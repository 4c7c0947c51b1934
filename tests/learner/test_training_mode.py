"""A network in evaluation mode, such as a pre-trained one, is trained in training mode."""

from __future__ import annotations

import pytest
import torch
from tests.learner.some_stream import batches, normalised
from torch import nn

from recollect import ER, Learner


def dropping() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3))


@pytest.mark.parametrize("build", [dropping, normalised])
def test_the_mode_of_the_network_does_not_matter(build: type[nn.Module]) -> None:
    states = []
    for training in (True, False):
        learner = Learner(build().train(training), ER(), memory=10, lr=0.1)
        losses = [learner.observe(x, y) for x, y in batches(3)]
        states.append((losses, learner._packed()))
    assert states[0] == states[1]


@pytest.mark.parametrize("training", [True, False])
def test_a_loaded_learner_continues_bit_for_bit(training: bool) -> None:
    learner = Learner(dropping(), ER(), memory=10, lr=0.1)
    for x, y in batches(3):
        learner.observe(x, y)
    again = Learner._from_bytes(learner._packed(), dropping().train(training), None, {})
    x, y = next(batches(1))
    assert again.observe(x, y) == learner.observe(x, y)
    assert again._packed() == learner._packed()


class Frozen(nn.BatchNorm1d):
    """Batch normalisation that stays in evaluation mode."""

    def train(self, mode: bool = True) -> Frozen:
        return super().train(False)


def test_layers_that_override_train_keep_their_mode() -> None:
    module = nn.Sequential(nn.Linear(4, 6), Frozen(6), nn.Linear(6, 3))
    learner = Learner(module, ER(), memory=10, lr=0.1)
    for x, y in batches(3):
        learner.observe(x, y)
    mean = learner.trained_module().state_dict()["1.running_mean"]
    assert torch.equal(mean, torch.zeros(6))
