r"""ER-ACE: experience replay with asymmetric cross-entropy.

Publication: L. Caccia, R. Aljundi, N. Asadi, T. Tuytelaars, J. Pineau, E. Belilovsky, "New
Insights on Reducing Abrupt Representation Change in Online Continual Learning", ICLR 2022,
arXiv 2104.05025, section 4.3 (the two equations there have no number).

With $C_{curr}$ the classes of the incoming batch and $C_{old}$ the classes seen in earlier batches
that are not in the incoming batch, the loss of one step is

$$\mathcal L = \mathcal L_{ce}(X^{in}, C_{curr}) + \mathcal L_{ce}(X^{bf}, C_{old} \cup C_{curr}),
\qquad
\mathcal L_{ce}(X, C) = -\sum_{x \in X} \log \frac{e^{z_{y(x)}}}{\sum_{c \in C} e^{z_c}} .$$

So an incoming example competes only with the classes of its own batch; a replayed example with
every class seen so far. A class counts as seen from the first batch that contains it, that batch
included ($C_{curr}$ is part of the union).

Where the authors' code (pclucas14/AML, methods/er_ace.py) differs from the publication:

1. Mean, not sum: each of the two losses is the mean over its own examples.
2. Incoming batch, future classes: the code does not mask classes that were never seen. It unmasks
   the classes of the batch **and every index from the largest index seen so far upwards** (the
   running set includes the present batch when the maximum is taken). So unseen classes above that
   index are in the denominator, unseen classes below it are masked, and the largest seen class
   itself is in the denominator even when it is an old class that is absent from the batch.
3. Replay: no mask at all; the denominator has all outputs of the head, also classes never seen.
4. A mask writes -1e9 into the logit instead of removing the class; in floating point the term
   exp(-1e9 - max) is 0, value and gradient are those of removal.
5. The logits are ten times the cosine between feature and class weight (no bias); the publication
   writes a similarity sim(w, f) in the same place.
6. The method sets itself to task-free: the mask holds from the first batch on, and replay starts
   as soon as the memory has an example. The memory is filled after the step (reservoir sampling).

Mammoth's models/er_ace.py (not by the same authors) agrees with 1 to 5, but by default masks, and
replays, only from the second task on.
"""

from typing import Literal

import torch
from torch import Tensor

Variant = Literal["publication", "authors"]


def restricted_cross_entropy(logits: Tensor, labels: Tensor, classes: set[int]) -> Tensor:
    """Mean cross-entropy of `logits` [B, C] and `labels` [B] with only `classes` competing."""
    competing = sorted(classes)
    total = logits.new_zeros(())
    for row, label in zip(logits, labels.tolist(), strict=True):
        if label not in classes:
            raise ValueError(f"label {label} is not among the competing classes {competing}")
        total = total + torch.logsumexp(row[competing], dim=0) - row[label]
    return total / len(labels)


def competing_classes(
    present: set[int], seen_before: set[int], width: int, variant: Variant
) -> tuple[set[int], set[int]]:
    """Classes in the denominator for incoming and for replayed examples; `width` outputs."""
    seen = present | seen_before
    if variant == "publication":
        return present, seen
    return present | set(range(max(seen), width)), set(range(width))


def er_ace_loss(
    stream_logits: Tensor,
    stream_labels: Tensor,
    replay_logits: Tensor | None,
    replay_labels: Tensor | None,
    seen_before: set[int],
    variant: Variant = "publication",
) -> tuple[Tensor, Tensor, set[int]]:
    """Loss of one step: the incoming part, the replay part (0 without replay), classes now seen.

    Shapes: `stream_logits` [B, C], `stream_labels` [B], `replay_logits` [R, C], `replay_labels`
    [R]. Both parts are means, in both variants; the loss to minimise is their sum. `seen_before`
    has the classes of all earlier batches.
    """
    present = {int(label) for label in stream_labels}
    for_stream, for_replay = competing_classes(
        present, seen_before, stream_logits.shape[1], variant
    )
    stream = restricted_cross_entropy(stream_logits, stream_labels, for_stream)
    replay = stream_logits.new_zeros(())
    if replay_logits is not None and replay_labels is not None and len(replay_labels) > 0:
        replay = restricted_cross_entropy(replay_logits, replay_labels, for_replay)
    return stream, replay, present | seen_before
