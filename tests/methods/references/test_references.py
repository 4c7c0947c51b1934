"""Checks of the reference implementations against themselves and known special cases."""

from collections.abc import Callable

import torch
from tests.methods.references import er_ace
from torch import Tensor
from torch.nn import functional


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def check_gradient(value: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The gradient of `value` at `at`, after comparison with central differences."""
    leaf = at.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(value(leaf), leaf)
    step = 1e-6
    flat = at.flatten()
    for i in range(flat.numel()):
        up, down = flat.clone(), flat.clone()
        up[i] += step
        down[i] -= step
        with torch.no_grad():
            slope = (value(up.view_as(at)) - value(down.view_as(at))) / (2 * step)
        assert abs(float(slope) - float(gradient.flatten()[i])) < 1e-7
    return gradient


def test_er_ace_is_replay_with_all_classes_when_every_class_is_in_the_batch() -> None:
    logits, labels = normal(4, 3), torch.tensor([0, 1, 2, 1])
    replayed, replayed_labels = normal(2, 3, seed=1), torch.tensor([2, 0])
    for variant in ("publication", "authors"):
        stream, replay, seen = er_ace.er_ace_loss(
            logits, labels, replayed, replayed_labels, set(), variant
        )
        torch.testing.assert_close(stream, functional.cross_entropy(logits, labels))
        torch.testing.assert_close(replay, functional.cross_entropy(replayed, replayed_labels))
        assert seen == {0, 1, 2}


def test_er_ace_old_classes_get_no_gradient_from_incoming_examples() -> None:
    logits, labels = normal(3, 6), torch.tensor([2, 3, 3])

    def stream(variant: er_ace.Variant, seen: set[int]) -> Callable[[Tensor], Tensor]:
        return lambda z: er_ace.er_ace_loss(z, labels, None, None, seen, variant)[0]

    gradient = check_gradient(stream("publication", {0, 1}), logits)
    assert (gradient[:, [0, 1, 4, 5]] == 0).all()
    assert (gradient[:, [2, 3]] != 0).all()
    gradient = check_gradient(stream("authors", {0, 1}), logits)
    assert (gradient[:, [0, 1]] == 0).all()
    assert (gradient[:, [2, 3, 4, 5]] != 0).all()
    # The largest class seen competes in the code although it is old and absent from the batch.
    gradient = check_gradient(stream("authors", {0, 4}), logits)
    assert (gradient[:, [0, 1]] == 0).all()
    assert (gradient[:, [4, 5]] != 0).all()


def test_er_ace_replay_leaves_out_classes_never_seen_only_in_the_publication() -> None:
    logits, labels = normal(2, 4), torch.tensor([1, 1])

    def replay(variant: er_ace.Variant) -> Callable[[Tensor], Tensor]:
        return lambda z: er_ace.er_ace_loss(logits, labels, z, labels, {0}, variant)[1]

    gradient = check_gradient(replay("publication"), normal(2, 4, seed=1))
    assert (gradient[:, [2, 3]] == 0).all()
    gradient = check_gradient(replay("authors"), normal(2, 4, seed=1))
    assert (gradient != 0).all()


def test_er_ace_authors_mask_by_a_large_negative_number_is_removal() -> None:
    logits, labels = normal(3, 6), torch.tensor([2, 3, 3])
    masked = logits.clone()
    masked[:, [0, 1]] = -1e9
    ours = er_ace.er_ace_loss(logits, labels, None, None, {0, 1}, "authors")[0]
    torch.testing.assert_close(ours, functional.cross_entropy(masked, labels), rtol=0, atol=1e-12)
