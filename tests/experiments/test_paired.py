"""Student's t and the sign-flip test against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from recollect.experiments.paired import interval, sign_flip_p, t_p, t_quantile, t_two_sided


@pytest.mark.parametrize("degrees", [1, 2, 3, 9, 30, 99, 1000])
@pytest.mark.parametrize("t", [0.0, 1e-6, 0.1, 1.0, 2.5, 12.0, 300.0])
def test_the_t_distribution_is_students(t: float, degrees: int) -> None:
    expected = 2 * scipy.stats.t.sf(t, degrees)
    assert t_two_sided(t, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert t_two_sided(-t, degrees) == t_two_sided(t, degrees)


@pytest.mark.parametrize("degrees", [1, 2, 9, 99])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_quantile_is_students(confidence: float, degrees: int) -> None:
    expected = scipy.stats.t.ppf((1 + confidence) / 2, degrees)
    assert t_quantile(confidence, degrees) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 10, 40])
def test_interval_and_test_are_those_of_the_paired_t_test(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(1, 2, n), rng.normal(0, 2, n)
    expected = scipy.stats.ttest_rel(a, b)
    assert t_p([*(a - b)]) == pytest.approx(expected.pvalue, rel=1e-9)
    bounds = expected.confidence_interval(0.95)
    assert interval([*(a - b)]) == pytest.approx((bounds.low, bounds.high), rel=1e-9)


@pytest.mark.parametrize("n", [2, 4, 9])
def test_the_sign_flip_test_is_the_permutation_test(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.5, 1, n).round(2)
    expected = scipy.stats.permutation_test(
        (differences, np.zeros(n)), lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples", n_resamples=np.inf, vectorized=True,
    )  # fmt: skip
    assert sign_flip_p([*differences]) == pytest.approx(expected.pvalue)


def test_what_cannot_be_known_is_none() -> None:
    assert interval([1.0]) is None
    assert t_p([1.0]) is None
    assert t_p([2.0, 2.0, 2.0]) is None
    assert sign_flip_p([2.0, 2.0, 2.0]) == 0.25
    assert sign_flip_p([1.0] * 17) is None
    assert sign_flip_p([0.0, 0.0]) == 1.0
    assert t_two_sided(math.inf, 3) == 0.0
