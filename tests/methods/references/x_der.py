r"""X-DER: the losses of one step, the rewriting of stored logits, and the memory at task end.

Publication: M. Boschini, L. Bonicelli, P. Buzzega, A. Porrello, S. Calderara, "Class-Incremental
Continual Learning into the eXtended DER-verse", TPAMI 2022, arXiv 2201.00766, equations (7) to
(12). The outputs are split by task into past heads $[0, p)$, the present head $[p, s)$ and future
heads $[s, C)$. The loss (12) is

$$\mathcal L = \mathcal L_{CE}(z_{[p,s)}, y)_{stream} + \beta\,\mathcal L_{CE}(z_{[0,p)}, y)_{mem}
 + \alpha\,\|z - \ell\|^2_{mem} + \lambda\,\mathcal L_{FP} + \eta\,\mathcal L_{PFC},$$

- (10) separated cross-entropy: incoming examples compete in the present head, replayed ones in the
  past heads (the two first terms);
- logit matching with the stored logits $\ell$ over all heads, future ones included (third term);
- (8), (9) future preparation: supervised contrastive loss on strongly augmented views, for each
  future head on its own normalised outputs, mean over these heads;
- (11) past/future constraint with margin $m$: hinge of (largest past or future logit) + $m$ -
  (logit of the true class).
- (7) "future past": the stored logits of an example of an earlier task get the present response
  for the classes that came later, attenuated so that they stay below the stored logit of its true
  class, $\ell_{fp} \leftarrow z_{fp} \cdot \min(\gamma\, \ell_{y} / \max z_{fp},\, 1)$.

Where the authors' code (aimagelab/mammoth, models/xder.py; `variant="authors"`) differs:

1. (7): the code attenuates only if $\max z_{fp} > \ell_y$ (the publication from
   $\max z_{fp} > \gamma \ell_y$ on), and rewrites the present **and all future** heads with one
   factor from the maximum over both. No special case for negative values: if the stored logit of
   the label is negative and the maximum positive, the factor is negative (in both).
2. When: at every step the two replayed batches are joined (first occurrence of a slot counts), the
   counter of every drawn slot of an earlier task is increased, and the slot is rewritten with
   probability 1 / counter: always at its first draw in a task. The outputs are those of this step
   before the update, on augmented inputs. At task end every stored example of earlier tasks is
   rewritten once more, then all counters are 0.
3. (11): the code compares with the **largest logit of the head of the example's own task**, not of
   the true class, and takes the mean over the violating examples only, not over all. The future
   part covers incoming and replayed (joined) examples; it is not computed in the last task.
4. (11), past part: off by default in the code, on softmax probabilities over the seen classes,
   incoming examples only, no gradient through the past maximum, same margin.
5. Logit matching: mean over examples and classes, on the first replayed batch; the label term on a
   second, independent one. Both start with the second task (the memory is filled at task end).
6. (9): 4 views, none of them the plain input, of all incoming and 64 replayed examples, temperature
   5. The two variants (xder_ce, xder_rpc) have no contrastive term; xder_rpc classifies by a fixed
   simplex of directions.
7. BatchNorm (`align_bn`): from the second task on only the first replayed batch, with
   minibatch // task incoming examples appended, moves the running statistics.
8. Memory at task end: `kept_at_task_end` and `added_at_task_end`. Logits of new examples are taken
   in training mode on the augmented input, stored with the plain input, and their past heads are
   attenuated as in (7) against their own logit of the true class.
"""

from typing import Literal

import torch
from tests.methods.references.supcon import supervised_contrastive
from torch import Tensor

Variant = Literal["publication", "authors"]


def head_cross_entropy(logits: Tensor, labels: Tensor, start: int, stop: int) -> Tensor:
    """Mean cross-entropy with only outputs start..stop-1: stream (p, s), replayed labels (0, p)."""
    total = logits.new_zeros(())
    for row, label in zip(logits, labels.tolist(), strict=True):
        if not start <= label < stop:
            raise ValueError(f"label {label} is outside the outputs {start} to {stop - 1}")
        total = total + torch.logsumexp(row[start:stop], dim=0) - row[label]
    return total / len(labels)


def logit_matching(logits: Tensor, stored: Tensor) -> Tensor:
    """Mean over examples and classes of the squared difference to the stored logits [R, C]."""
    return ((logits - stored) ** 2).sum() / stored.numel()


def future_preparation(
    views: Tensor, labels: Tensor, seen: int, per_task: int, temperature: float
) -> Tensor:
    """Contrastive loss of the future heads; `views` [N, V, C] are logits of V views; `labels` [N].

    0 if no future head is left.
    """
    starts = range(seen, views.shape[2], per_task)
    total = views.new_zeros(())
    for start in starts:
        head = views[:, :, start : start + per_task]
        norms = head.norm(dim=2, keepdim=True)
        total = total + supervised_contrastive(head / norms, labels, temperature)
    return total / len(starts) if len(starts) else total


def reference_logit(row: Tensor, label: int, per_task: int, variant: Variant) -> Tensor:
    """What past and future logits must stay below: see differences 3 and 4."""
    if variant == "publication":
        return row[label]
    start = label // per_task * per_task
    return row[start : start + per_task].max()


def mean_of_hinges(hinges: list[Tensor], variant: Variant) -> Tensor:
    """Mean of the positive parts over all examples, or in the code over the violating ones."""
    violations = [h for h in hinges if bool(h > 0)]
    if not violations:
        return hinges[0].new_zeros(())
    count = len(hinges) if variant == "publication" else len(violations)
    return torch.stack(violations).sum() / count


def future_constraint(
    logits: Tensor, labels: Tensor, seen: int, per_task: int, margin: float, variant: Variant
) -> Tensor:
    """Hinge on the largest future logit; `logits` [N, C] of incoming and replayed examples."""
    if seen >= logits.shape[1]:
        return logits.new_zeros(())
    hinges = []
    for row, label in zip(logits, labels.tolist(), strict=True):
        hinges.append(row[seen:].max() + margin - reference_logit(row, label, per_task, variant))
    return mean_of_hinges(hinges, variant)


def past_constraint(
    logits: Tensor, labels: Tensor, past: int, seen: int, margin: float, variant: Variant
) -> Tensor:
    """Hinge on the largest past logit of incoming examples, `logits` [B, C]; 0 in the first task.

    Authors: on softmax over the seen classes, the past maximum a constant, against the largest
    value of the present head (`past` to `seen`).
    """
    if past == 0:
        return logits.new_zeros(())
    hinges = []
    for row, label in zip(logits, labels.tolist(), strict=True):
        if variant == "publication":
            hinges.append(row[:past].max() + margin - row[label])
        else:
            share = torch.softmax(row[:seen], dim=0)
            hinges.append(share[:past].max().detach() + margin - share[past:seen].max())
    return mean_of_hinges(hinges, variant)


def rewritten(
    stored: Tensor, now: Tensor, label: int, start: int, stop: int, gamma: float, variant: Variant
) -> Tensor:
    """Stored logits [C] of one example after outputs start..stop-1 are replaced by those of `now`.

    During a task and at its end: start is `past`, stop is C in the code, `seen` in the publication.
    For a new example at task end: `stored` and `now` are both its logits, start 0, stop `past`.
    """
    block = now[start:stop]
    truth, largest = stored[label], block.max()
    attenuate = gamma * truth / largest < 1 if variant == "publication" else largest > truth
    result = stored.clone()
    result[start:stop] = block * (gamma * truth / largest) if bool(attenuate) else block
    return result


def is_rewritten(draws: int, random_number: float) -> bool:
    """Whether a slot is rewritten at its `draws`-th draw (from 1) in this task, in the code."""
    return random_number * draws < 1


def first_occurrences(slots: list[int]) -> list[int]:
    """Positions that count when two replayed batches are joined: each slot's first."""
    return [i for i, slot in enumerate(slots) if slot not in slots[:i]]


def kept_at_task_end(stored_labels: list[int], size: int, classes_seen: int) -> list[int]:
    """Slots kept when the memory shrinks (not after the first task): size // classes per class.

    In increasing order of label; within a class the first ones in slot order.
    """
    share = size // classes_seen
    kept = []
    for label in sorted(set(stored_labels)):
        kept += [s for s, own in enumerate(stored_labels) if own == label][:share]
    return kept


def added_at_task_end(
    stream_labels: list[int], free: int, classes: list[int], favoured: list[int]
) -> list[int]:
    """Positions stored of one pass over the task: per class the first ones, `free` in all.

    `classes` of the task share the free slots equally; the free % len(classes) `favoured` ones
    (drawn at random without replacement in the code) get one more.
    """
    if len(favoured) != free % len(classes):
        raise ValueError(f"{free % len(classes)} favoured classes expected, got {favoured}")
    quota = {label: free // len(classes) + (label in favoured) for label in classes}
    added = []
    for position, label in enumerate(stream_labels):
        if quota[label] > 0:
            quota[label] -= 1
            added.append(position)
    return added
