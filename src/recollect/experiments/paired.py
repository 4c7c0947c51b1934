"""Statistics of paired differences: confidence interval, paired t test, sign-flip test."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MOST_FLIPPED = 16  # 2**16 sign patterns are enumerated; for more pairs the t test is enough
FRACTIONS, TINY, PRECISE = 1000, 1e-300, 1e-15


def t_two_sided(t: float, degrees: int) -> float:
    """Two-sided tail probability of Student's t distribution.

    >>> round(t_two_sided(2.262157, 9), 6)
    0.05
    """
    if math.isinf(t):
        return 0.0
    return _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def t_quantile(confidence: float, degrees: int) -> float:
    """Two-sided quantile of Student's t distribution: P(|T| <= quantile) = confidence.

    >>> round(t_quantile(0.95, 9), 6)
    2.262157
    """
    low, high = 0.0, 1.0
    while t_two_sided(high, degrees) > 1 - confidence:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if t_two_sided(middle, degrees) > 1 - confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """95 % confidence interval of the mean of paired differences; None for fewer than two pairs."""
    n = len(differences)
    if n < 2:
        return None
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    half = t_quantile(0.95, n - 1) * spread / math.sqrt(n)
    return mean - half, mean + half


def t_p(differences: Sequence[float]) -> float | None:
    """Two-sided p-value of the paired t test.

    None for fewer than two pairs, and if all differences are equal, so that they have no variance.
    """
    n = len(differences)
    if n < 2 or max(differences) == min(differences):
        return None
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    return t_two_sided(mean / (spread / math.sqrt(n)), n - 1)


def sign_flip_p(differences: Sequence[float]) -> float | None:
    """Two-sided p-value of the exact sign-flip permutation test; None for more than 16 pairs.

    It is the fraction of all sign patterns whose mean is at least as far from 0 as the observed
    mean. The test assumes no distribution. With n pairs the p-value is at least 2 / 2**n.

    >>> sign_flip_p([1.0, 2.0, 3.0])
    0.25
    """
    n = len(differences)
    if not 0 < n <= MOST_FLIPPED:
        return None
    bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
    sums = np.abs((1 - 2 * bits) @ np.asarray(differences, float))
    found = abs(math.fsum(differences))
    return float(np.mean(sums >= found - 1e-9 * max(1.0, found)))


def p_words(p: float) -> str:
    """Format a p-value.

    >>> p_words(0.0213), p_words(0.0021), p_words(2e-7)
    ('= 0.02', '= 0.002', '< 0.0001')
    >>> p_words(0.0496)  # which side of 0.05 it is on must be seen
    '= 0.0496'
    """
    if 0.045 <= p < 0.055:
        return f"= {p:.4f}"
    return "< 0.0001" if p < 0.0001 else f"= {p:.1g}" if p < 0.01 else f"= {p:.2f}"


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function, by its continued fraction."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the continued fraction of the complement converges faster
        return 1 - _incomplete_beta(1 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, FRACTIONS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / ((1 + term * d) or TINY)
            c = (1 + term / c) or TINY
            value *= c * d
        if abs(c * d - 1) < PRECISE:
            break
    return front * value
