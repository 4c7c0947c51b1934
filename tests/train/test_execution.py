"""Ways to carry steps out: each gives what plain steps give, and changes the same tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.train.small_images import CLASSES, SHAPE, byte_images, convolutional, dense, mlp
from torch import Tensor, nn

from recollect import ER, SGD, DERpp, Fleet, Method
from recollect.core.images import Images
from recollect.methods import GSS
from recollect.train.compiled import compiler_exists

IMAGES = Images(mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), padding=2)

needs_compiler = [
    pytest.mark.skipif(not compiler_exists(), reason="there is no C++ compiler on this machine"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
WAYS = [
    pytest.param({"recorded": True}, id="recorded"),
    pytest.param({"compiled": True}, id="compiled", marks=needs_compiler),
    pytest.param({"recorded": True, "compiled": True}, id="both", marks=needs_compiler),
]


NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": mlp, "dense": dense, "convolutional": convolutional,
}  # fmt: skip
METHODS: dict[str, list[Method]] = {
    "sgd": [SGD(), SGD()], "er": [ER(), ER()], "derpp": [DERpp(0.4, 0.9), DERpp(1.1, 0.0)],
    "gss": [GSS(gmbs=3, whole=1), GSS(gmbs=3, whole=1)],
}  # fmt: skip


def fleet_of(method: str, net: str, **way: bool) -> Fleet:
    return Fleet(
        METHODS[method], NETS[net], seeds=[0, 1], lr=[0.05, 0.02], classes=CLASSES, shape=SHAPE,
        memory=8, replay=3, stored=torch.uint8, images=IMAGES, dtype=torch.float64,
        recorded=way.get("recorded"), compiled=way.get("compiled"),
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("method", METHODS)
def test_how_steps_are_carried_out_changes_nothing(
    method: str, net: str, way: dict[str, bool]
) -> None:
    """Over enough steps to record and compile one shape, and with batches of other shapes."""
    plain, fast = fleet_of(method, net), fleet_of(method, net, **way)
    held = next(iter(fast.weights))
    start = held.clone()
    examples = byte_images(124)
    for part in range(2):
        x, y = (tensor[:, part * 62 : part * 62 + 62] for tensor in examples)
        losses = [fleet.learn(x, y, batch=4) for fleet in (plain, fast)]
        close(losses[1].double(), losses[0].double(), 1e-6)
        for name, tensor in fast.memory.fields().items():
            close(tensor, plain.memory.fields()[name], 1e-9 if name == "logits" else 0.0)
        for name, tensor in fast.weights.named().items():
            close(tensor, plain.weights.named()[name], 1e-9)
        for name, tensor in fast.network.buffers.items():
            close(tensor, plain.network.buffers[name], 1e-9)
    assert (fast.steps, fast.seen) == (plain.steps, plain.seen) == (32, 124)
    assert next(iter(fast.weights)) is held
    assert not torch.equal(held, start)
    ways = {"recorded": "recorded step", "compiled": "compiled"}
    assert all((ways[name] in fast.execution) == way.get(name, False) for name in ways)


def test_only_the_usual_shape_is_compiled_and_every_frequent_one_recorded() -> None:
    fleet = fleet_of("derpp", "mlp", recorded=True)
    x, y = byte_images(62)
    for _ in range(4):
        fleet.learn(x, y, batch=4)
    shapes = sorted(key[0][1] for key in fleet._stepper._execution._recordings)
    assert shapes == [2, 4], "the last, smaller batch of a pass is a shape of its own"


def test_a_network_that_draws_random_numbers_is_neither_recorded_nor_compiled() -> None:
    def noisy() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(108, 5), nn.Dropout(0.5), nn.Linear(5, 3))

    def made(recorded: bool) -> Fleet:
        return Fleet([SGD()], noisy, seeds=[4], lr=[0.1], classes=3, shape=SHAPE,
                     stored=torch.uint8, recorded=recorded)  # fmt: skip

    plain, fast = made(False), made(True)
    assert fast.network.noisy
    assert fast.execution == "loop, eager"
    x, y = byte_images(20)
    for fleet in (plain, fast):
        fleet.learn(x[:1], y[:1], batch=4)
    for name, tensor in fast.weights.named().items():
        assert torch.equal(tensor, plain.weights.named()[name])


def test_half_precision_stays_close_and_leaves_weights_and_logits_in_full() -> None:
    made = [
        Fleet(METHODS["derpp"], convolutional, seeds=[0, 1], lr=[0.05, 0.02], classes=CLASSES,
              shape=SHAPE, memory=8, replay=3, stored=torch.uint8, images=IMAGES, half=half)
        for half in (False, True)
    ]  # fmt: skip
    x, y = byte_images(40)
    for fleet in made:
        fleet.learn(x, y, batch=4)
    full, half = (fleet.logits(x) for fleet in made)
    assert half.dtype == torch.float32
    assert {tensor.dtype for tensor in made[1].weights} == {torch.float32}
    assert not torch.equal(full, half)
    torch.testing.assert_close(full, half, rtol=0.1, atol=0.1)


def close(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)
