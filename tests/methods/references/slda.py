r"""Deep SLDA: streaming linear discriminant analysis on fixed features.

Publication: T. L. Hayes, C. Kanan, "Lifelong Machine Learning with Deep Streaming Linear
Discriminant Analysis", CVPR workshops 2020, arXiv 1909.01520, section 3.

For the feature $z$ of an example of class $y$, with $c_y$ examples of its class and $t$ examples in
all seen before, first the covariance (with the old mean), then the mean:

$$\Delta = \frac{t}{t + 1} (z - \mu_y)(z - \mu_y)^\top, \qquad
\Sigma \leftarrow \frac{t \Sigma + \Delta}{t + 1}, \qquad
\mu_y \leftarrow \frac{c_y \mu_y + z}{c_y + 1}, \qquad c_y \leftarrow c_y + 1 .$$

Prediction with shrinkage $\varepsilon$ (1e-4): $\Lambda = [(1-\varepsilon)\Sigma + \varepsilon
I]^{-1}$, $w_k = \Lambda\mu_k$, $b_k = -\tfrac12 \mu_k^\top\Lambda\mu_k$, score
$w_k^\top z + b_k$; no class priors.

What the recursion estimates: with one class it is exactly the covariance of the examples, divided
by their number. With several it is **not** the pooled within-class covariance, for two reasons:
the factor of $\Delta$ has the total count $t$ where that covariance needs the class count $c_y$,
and the first example of each class is compared with the initial mean 0, which adds
$\frac{t}{t+1} z z^\top$. `exact=True` gives the pooled covariance: factor $c_y / (c_y + 1)$, so
that the first example of a class adds nothing.

Where the authors' code (tyler-hayes/Deep_SLDA, SLDA_Model.py) says more than, or differs from, the
publication:

1. The update is that of the publication (not exact); means start at 0 and the covariance at the
   all-ones matrix, whose weight at the first update is $t = 0$. One example per call.
2. Base initialisation: means of the base data, covariance of the centred base data by the OAS
   shrinkage estimator, $t$ the number of base examples.
3. Whether the covariance moves in the stream is an option, off unless asked for.
4. Pseudo-inverse instead of the inverse; the same for a regular matrix.
5. Classes never seen have mean 0, hence score 0, and are not excluded in `predict`.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class SldaState:
    """Class means [D] and counts, shared covariance [D, D], and how many examples were seen."""

    covariance: Tensor
    means: dict[int, Tensor] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    seen: int = 0


def empty(dimension: int) -> SldaState:
    """State before any example; the covariance is 0 (its weight at the first update is 0)."""
    return SldaState(torch.zeros(dimension, dimension, dtype=torch.float64))


def update(state: SldaState, feature: Tensor, label: int, exact: bool = False) -> SldaState:
    """State after one example with `feature` [D]; the given state is unchanged."""
    t, count = state.seen, state.counts.get(label, 0)
    mean = state.means.get(label, torch.zeros_like(feature))
    factor = count / (count + 1) if exact else t / (t + 1)
    difference = feature - mean
    delta = factor * torch.outer(difference, difference)
    return SldaState(
        covariance=(t * state.covariance + delta) / (t + 1),
        means={**state.means, label: (count * mean + feature) / (count + 1)},
        counts={**state.counts, label: count + 1},
        seen=t + 1,
    )


def fit(features: Tensor, labels: Tensor, exact: bool = False) -> SldaState:
    """State after a stream of `features` [N, D] with `labels` [N], one at a time."""
    state = empty(features.shape[1])
    for feature, label in zip(features, labels.tolist(), strict=True):
        state = update(state, feature, label, exact)
    return state


def scores(state: SldaState, features: Tensor, classes: list[int], epsilon: float = 1e-4) -> Tensor:
    """Scores [N, classes] of `features` [N, D]; a class never seen has mean 0 and score 0."""
    dimension = features.shape[1]
    identity = torch.eye(dimension, dtype=features.dtype)
    precision = torch.linalg.inv((1 - epsilon) * state.covariance + epsilon * identity)
    columns = []
    for c in classes:
        mean = state.means.get(c, torch.zeros(dimension, dtype=features.dtype))
        weights = precision @ mean
        columns.append(features @ weights - 0.5 * mean @ weights)
    return torch.stack(columns, dim=1)
