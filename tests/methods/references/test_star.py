"""Checks of the reference of STAR against itself."""

import torch
from tests.methods.references import star
from tests.methods.references.checks import check_gradient, normal
from torch import Tensor
from torch.nn import functional

PARAMETERS = [normal(3, 5), normal(5, seed=1), normal(5, 4, seed=2), normal(4, seed=3)]
NOISE = [normal(*p.shape, seed=10 + i) for i, p in enumerate(PARAMETERS)]
INPUTS = normal(8, 3, seed=4)


def forward(parameters: list[Tensor], inputs: Tensor) -> Tensor:
    hidden = torch.tanh(inputs @ parameters[0] + parameters[1])
    return hidden @ parameters[2] + parameters[3]


LABELS = forward(PARAMETERS, INPUTS).argmax(1)
LABELS[2] = (LABELS[2] + 1) % 4  # one example is wrong


def term(epsilon: float, gamma: float, weight: float = 0.1, steps: int = 1) -> star.Term:
    result = star.star_term(
        forward, PARAMETERS, INPUTS, LABELS, NOISE, epsilon, gamma, weight, steps
    )
    assert result is not None
    return result


def test_star_leaves_out_wrong_examples_and_needs_two_correct_ones() -> None:
    assert term(0.01, 0.05).correct == [True, True, False] + [True] * 5
    wrong = (LABELS + 1) % 4
    assert star.star_term(forward, PARAMETERS, INPUTS, wrong, NOISE, 0.01, 0.05, 0.1) is None


def test_star_perturbation_has_the_relative_size_gamma_per_weight_matrix() -> None:
    result = term(1e-5, 0.05)
    for p, delta in zip(PARAMETERS, result.perturbation, strict=True):
        if p.dim() == 1:
            assert (delta == 0).all()
        else:
            ratio = float(delta.norm() / p.norm())
            assert abs(ratio - 0.05) < 3e-4


def test_star_ascends_and_more_than_random_noise_of_the_same_size() -> None:
    result = term(1e-5, 0.05, weight=1.0)
    random = [
        p + 0.05 * p.norm() * n / n.norm() if p.dim() > 1 else p
        for p, n in zip(PARAMETERS, NOISE, strict=True)
    ]
    reference = torch.softmax(forward(PARAMETERS, INPUTS), 1)
    by_noise = star.mean_divergence(reference, forward(random, INPUTS), result.correct)
    assert float(result.value) > float(by_noise) > 0


def test_star_value_and_gradient_are_those_at_the_perturbed_point() -> None:
    result = term(0.01, 0.05)
    reference = torch.softmax(forward(PARAMETERS, INPUTS), 1)
    kept = [i for i, c in enumerate(result.correct) if c]
    moved = [p + d for p, d in zip(PARAMETERS, result.perturbation, strict=True)]
    for i in range(len(moved)):

        def value(at: Tensor, i: int = i) -> Tensor:
            logits = forward([*moved[:i], at, *moved[i + 1 :]], INPUTS)[kept]
            log = functional.log_softmax(logits, 1)
            return 0.1 * functional.kl_div(log, reference[kept], reduction="batchmean")

        torch.testing.assert_close(result.value, value(moved[i]))
        torch.testing.assert_close(result.gradient[i], check_gradient(value, moved[i]))


def test_star_without_perturbation_or_weight_is_nothing() -> None:
    still = term(0.0, 0.0)
    assert abs(float(still.value)) < 1e-15
    assert max(float(g.abs().max()) for g in still.gradient) < 1e-15
    assert float(term(0.01, 0.05, weight=0.0).value) == 0


def test_star_noise_of_the_authors_code_does_not_move_the_weights() -> None:
    for dtype in (torch.float32, torch.float64):
        weights = PARAMETERS[0].to(dtype)
        assert torch.equal(weights + 1e-20 * weights.norm() * NOISE[0].to(dtype), weights)


def test_star_several_steps_stay_within_gamma() -> None:
    result = term(1e-5, 0.05, steps=3)
    for p, delta in zip(PARAMETERS, result.perturbation, strict=True):
        assert float(delta.norm()) <= 0.0502 * float(p.norm())


def test_star_direction_at_the_epsilon_of_the_authors_code_ignores_the_noise() -> None:
    other = [normal(*p.shape, seed=20 + i) for i, p in enumerate(PARAMETERS)]
    first = term(1e-20, 0.05)
    second = star.star_term(forward, PARAMETERS, INPUTS, LABELS, other, 1e-20, 0.05, 0.1)
    assert second is not None
    for a, b in zip(first.perturbation, second.perturbation, strict=True):
        assert torch.equal(a, b)
