"""Checks of the references against themselves: SLDA, nearest class mean, RanPAC."""

import pytest
import torch
from tests.methods.references import ncm, ranpac, slda
from tests.methods.references.checks import normal
from torch import Tensor


def within_class_covariance(features: Tensor, labels: Tensor) -> Tensor:
    centred = features.clone()
    for c in set(labels.tolist()):
        centred[labels == c] -= features[labels == c].mean(0)
    return centred.T @ centred / len(labels)


def test_slda_streaming_covariance_of_one_class_is_the_batch_covariance() -> None:
    features = normal(40, 3) + 2
    for exact in (False, True):
        state = slda.fit(features, torch.zeros(40, dtype=torch.long), exact)
        torch.testing.assert_close(state.covariance, torch.cov(features.T, correction=0))
        torch.testing.assert_close(state.means[0], features.mean(0))


def test_slda_of_several_classes_is_the_pooled_covariance_only_in_the_exact_variant() -> None:
    labels = torch.tensor([0, 1, 1, 2, 0, 2, 1, 0] * 5)
    features = normal(40, 3) + labels[:, None]
    pooled = within_class_covariance(features, labels)
    exact = slda.fit(features, labels, exact=True)
    torch.testing.assert_close(exact.covariance, pooled)
    published = slda.fit(features, labels)
    assert float((published.covariance - pooled).norm()) > 0.01
    # By the recursion: the first example of class 1, at t = 1, is compared with the mean 0.
    two = slda.fit(features[:2], labels[:2])
    torch.testing.assert_close(two.covariance, torch.outer(features[1], features[1]) / 4)


def test_slda_scores_are_the_gaussian_log_densities_up_to_a_common_term() -> None:
    labels = torch.tensor([0, 1, 2] * 10)
    features = normal(30, 3) + 2 * labels[:, None]
    state = slda.fit(features, labels, exact=True)
    scores = slda.scores(state, features, [0, 1, 2], 0.01)
    covariance = 0.99 * state.covariance + 0.01 * torch.eye(3, dtype=torch.float64)
    for i in range(30):
        densities = []
        for c in range(3):
            difference = features[i] - state.means[c]
            densities.append(-0.5 * difference @ torch.linalg.solve(covariance, difference))
        torch.testing.assert_close(scores[i] - scores[i, 0], torch.stack(densities) - densities[0])
    assert (slda.scores(state, features, [9]) == 0).all()


def test_nearest_class_mean_is_slda_with_an_identity_covariance() -> None:
    labels = torch.tensor([0, 1, 2] * 10)
    features = normal(30, 3) + labels[:, None]
    state = ncm.fit(features, labels)
    for c in range(3):
        torch.testing.assert_close(state.means[c], features[labels == c].mean(0))
    identity = slda.SldaState(torch.eye(3, dtype=torch.float64), state.means, state.counts, 30)
    by_distance = ncm.scores(state, features, [0, 1, 2])
    linear = slda.scores(identity, features, [0, 1, 2])
    torch.testing.assert_close(by_distance, 2 * linear - (features**2).sum(1, keepdim=True))
    assert ncm.scores(state, features, [0, 7])[0, 1] == -float("inf")
    cosine = ncm.scores(state, features, [0, 1], "cosine")
    torch.testing.assert_close(cosine, ncm.scores(state, 5 * features, [0, 1], "cosine"))


def test_ranpac_is_ridge_regression_on_all_examples_whatever_the_tasks() -> None:
    labels = torch.tensor([0] * 12 + [1] * 12 + [2] * 12 + [3] * 12)
    features = normal(48, 4) + labels[:, None]
    projection = normal(4, 15, seed=1)
    projected = ranpac.project(features, projection)
    assert float(projected.min()) == 0
    state = ranpac.empty(15, 4)
    for task in (slice(0, 24), slice(24, 48)):
        state = ranpac.learn_task(state, projected[task], labels[task], [0.1])
    weights = ranpac.readout(state.gram, state.sums, 0.1)
    targets = torch.nn.functional.one_hot(labels, 4).double()
    # The gradient of |HW - Y|^2 + 0.1 |W|^2 vanishes at the solution.
    gradient = projected.T @ (projected @ weights - targets) + 0.1 * weights
    assert float(gradient.abs().max()) < 1e-9
    torch.testing.assert_close(ranpac.scores(state, projected), projected @ weights)
    assert torch.equal(ranpac.project(features, None), features)


@pytest.mark.parametrize(("noise", "low"), [(0.001, True), (30.0, False)])
def test_ranpac_chooses_a_small_ridge_for_clean_data_and_a_large_one_for_noise(
    noise: float, low: bool
) -> None:
    labels = torch.arange(60) % 2
    targets = torch.nn.functional.one_hot(labels, 2).double()
    features = torch.cat([targets, torch.zeros(60, 8, dtype=torch.float64)], 1)
    features = features + noise * normal(60, 10)
    state = ranpac.learn_task(ranpac.empty(10, 2), features, labels)
    assert (state.ridge <= 0.01) is low
    assert (state.ridge >= 100) is not low


def test_ranpac_ridge_depends_on_the_present_task_alone_and_columns_do_not_matter() -> None:
    labels = torch.arange(40) % 2
    features = normal(40, 6) + labels[:, None]
    first = ranpac.learn_task(ranpac.empty(6, 2), features, labels)
    wide = ranpac.learn_task(ranpac.empty(6, 9), features, labels)
    assert first.ridge == wide.ridge
    earlier = ranpac.learn_task(ranpac.empty(6, 9), normal(40, 6, seed=3), 2 + labels)
    later = ranpac.learn_task(earlier, features, labels)
    assert later.ridge == first.ridge
