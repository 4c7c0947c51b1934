r"""SCR: supervised contrastive replay, and its nearest-class-mean prediction.

Publication: Z. Mai, R. Li, H. Kim, S. Sanner, "Supervised Contrastive Replay: Revisiting the
Nearest Class Mean Classifier in Online Class-Incremental Continual Learning", CVPR workshops 2021,
arXiv 2103.13885, section 4.

The batch is the incoming examples joined with replayed ones, twice: as they are, and augmented.
With $z$ the normalised output of a projection head (MLP) on the encoder's features, the loss is
the supervised contrastive loss over all these views (equation in `supcon.py`). Prediction uses the
encoder's features $f$ without the head and class means over the memory,

$$\mu_c = \frac1{n_c} \sum_{i: y_i = c} f(x_i), \qquad
\hat y = \arg\min_c \lVert f(x) - \mu_c \rVert .$$

Where the authors' code (RaptorMai/online-continual-learning, agents/scr.py and agents/base.py,
utils/loss.py) says more than, or differs from, the publication:

1. Loss: mean over the anchors (the publication sums). Temperature: 0.07 in the documented command.
2. Two views: the plain input and one augmented input; each is a forward pass of its own (relevant
   with BatchNorm). Replayed examples come first in the joined batch; the loss does not see this.
3. No step is made while the memory is empty: the first batch is only stored.
4. Class means: each stored feature is divided by its norm, the mean is divided by its norm again,
   and the test feature is divided by its norm (`normalised=True`). The publication's equation has
   raw features. With unit vectors the smallest distance is the largest cosine.
5. A class seen but without a stored example gets a random normal vector, normalised, as its mean.
   Here it is left out (`None`); the classes are those of the finished tasks.
6. Features of the memory are computed in evaluation mode, one example at a time, plain inputs.
7. Memory: reservoir; the slot is drawn from 0..N-1 for the examples of a batch together (N seen
   before the batch), not 0..N, and replay is uniform without replacement.
"""

import torch
from tests.methods.references.supcon import supervised_contrastive
from torch import Tensor


def scr_loss(plain: Tensor, augmented: Tensor, labels: Tensor, temperature: float = 0.07) -> Tensor:
    """Loss from head outputs (not yet normalised) of both views, [N, D] each, and `labels` [N]."""
    views = []
    for first, second in zip(plain, augmented, strict=True):
        views.append(torch.stack([first / first.norm(), second / second.norm()]))
    return supervised_contrastive(torch.stack(views), labels, temperature)


def class_means(
    features: Tensor, labels: Tensor, classes: list[int], normalised: bool = True
) -> list[Tensor | None]:
    """Mean per class of stored `features` [M, D] with `labels` [M]; None without an example."""
    means: list[Tensor | None] = []
    for c in classes:
        own = [f for f, label in zip(features, labels.tolist(), strict=True) if label == c]
        if not own:
            means.append(None)
            continue
        total = features.new_zeros(features.shape[1])
        for f in own:
            total = total + (f / f.norm() if normalised else f)
        mean = total / len(own)
        means.append(mean / mean.norm() if normalised else mean)
    return means


def distances(features: Tensor, means: list[Tensor | None], normalised: bool = True) -> Tensor:
    """Squared distance [N, classes] of test `features` [N, D] to each mean, inf without a mean."""
    result = features.new_full((len(features), len(means)), float("inf"))
    for i, f in enumerate(features):
        point = f / f.norm() if normalised else f
        for j, mean in enumerate(means):
            if mean is not None:
                result[i, j] = ((point - mean) ** 2).sum()
    return result


def predict(features: Tensor, means: list[Tensor | None], classes: list[int]) -> list[int]:
    """Class with the nearest (normalised) mean for each of `features` [N, D]."""
    return [classes[int(row.argmin())] for row in distances(features, means)]
