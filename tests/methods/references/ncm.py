r"""Nearest class mean on fixed features, with running means.

Publications: T. Mensink, J. Verbeek, F. Perronnin, G. Csurka, "Distance-Based Image Classification:
Generalizing to New Classes at Near-Zero Cost", TPAMI 2013 (the classifier); the running mean is
that of Hayes and Kanan 2020 (`slda.py`). With $n_c$ examples of class $c$ before,

$$\mu_c \leftarrow \mu_c + \frac{z - \mu_c}{n_c + 1}, \qquad
\hat y = \arg\min_c \lVert z - \mu_c \rVert .$$

The squared distance has the same order as the linear score $\mu_c^\top z - \tfrac12\lVert\mu_c
\rVert^2$: SLDA with an identity matrix for the precision.

`metric="cosine"` is what the code of RanPAC does for its method "ncm": the score is the cosine of
the feature and the **mean of raw features**; `scr.py` normalises before averaging as well.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor


@dataclass
class NcmState:
    """Class means [D] and counts."""

    means: dict[int, Tensor] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)


def update(state: NcmState, feature: Tensor, label: int) -> NcmState:
    """State after one example with `feature` [D]; the given state is unchanged."""
    count = state.counts.get(label, 0)
    mean = state.means.get(label, torch.zeros_like(feature))
    mean = mean + (feature - mean) / (count + 1)
    return NcmState({**state.means, label: mean}, {**state.counts, label: count + 1})


def fit(features: Tensor, labels: Tensor) -> NcmState:
    """State after a stream of `features` [N, D] with `labels` [N], one at a time."""
    state = NcmState()
    for feature, label in zip(features, labels.tolist(), strict=True):
        state = update(state, feature, label)
    return state


def scores(
    state: NcmState,
    features: Tensor,
    classes: list[int],
    metric: Literal["euclidean", "cosine"] = "euclidean",
) -> Tensor:
    """Minus squared distance, or cosine, [N, classes]; minus infinity for a class never seen."""
    result = features.new_full((len(features), len(classes)), -float("inf"))
    for i, feature in enumerate(features):
        for j, c in enumerate(classes):
            if c not in state.means:
                continue
            mean = state.means[c]
            if metric == "euclidean":
                result[i, j] = -((feature - mean) ** 2).sum()
            else:
                result[i, j] = feature @ mean / (feature.norm() * mean.norm())
    return result
