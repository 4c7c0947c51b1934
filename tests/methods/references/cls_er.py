r"""CLS-ER: experience replay with a plastic and a stable average of the working model.

Publication: E. Arani, F. Sarfraz, B. Zonooz, "Learning Fast, Learning Slow: A General Continual
Learning Method based on Complementary Learning System", ICLR 2022, arXiv 2201.12604, section 3 and
Algorithm 1.

Working model $\theta_W$, plastic $\theta_P$ and stable $\theta_S$, all equal at the start. For a
batch $(X_b, Y_b)$ and replayed examples $(X_m, Y_m)$:

$$Z_i = \begin{cases} f(x_i; \theta_S) & \sigma(f(x_i;\theta_S))_{y_i} >
\sigma(f(x_i;\theta_P))_{y_i} \\ f(x_i;\theta_P) & \text{otherwise,} \end{cases}
\qquad
\mathcal L = \mathcal L_{CE}\big((X_b, X_m), (Y_b, Y_m)\big)
  + \lambda\, \mathcal L_{MSE}\big(f(X_m; \theta_W), Z\big).$$

After the optimiser's step each averaged model $i \in \{P, S\}$ is updated with probability $r_i$
(its own random number), $\theta_i \leftarrow \alpha_i \theta_i + (1 - \alpha_i) \theta_W$, with
$r_P > r_S$ and $\alpha_P \le \alpha_S$. Predictions come from the stable model.

Where the authors' code (NeurAI-Lab/CLS-ER, models/clser.py) says more than, or differs from, the
publication (`variant="authors"` here is the code):

1. Decay: the code uses $\min(1 - 1/(t + 1), \alpha_i)$ with $t$ the number of the step from 1, so
   0.5 at the first step; $t$ counts all steps, not the updates of that model. The publication's
   update has the constant $\alpha_i$.
2. The working model sees the replayed inputs twice: alone, for the consistency term, and after the
   incoming ones in one batch, for the cross-entropy. Without BatchNorm (or dropout) both passes
   give the same logits; with it they do not, hence two arguments below.
3. The cross-entropy is one mean over incoming and replayed examples together. The consistency term
   is the mean over examples **and** classes. Targets are detached.
4. On a tie of the two probabilities the plastic model's logits are taken.
5. BatchNorm: only parameters are averaged, never buffers. The averaged models run in training mode
   on the replayed inputs, so they normalise with that batch, and their running statistics are
   their own, moved by every replayed batch (also at steps that do not average). At test time they
   are used in evaluation mode with these statistics.
6. Order: loss, optimiser step, memory (reservoir, inputs without augmentation), step number + 1,
   plastic update, stable update (first random number plastic, second stable; update if it is
   smaller than $r_i$). The first step has no replay: the memory is empty.
7. Tuned settings in the code include $r_P = r_S = 1$, so $r_P > r_S$ is not enforced.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Variant = Literal["publication", "authors"]
Parameters = list[Tensor]


def consistency_target(plastic_logits: Tensor, stable_logits: Tensor, labels: Tensor) -> Tensor:
    """Target logits [R, C]: per example those of the model more certain of the true class."""
    rows = []
    for plastic, stable, label in zip(plastic_logits, stable_logits, labels.tolist(), strict=True):
        by_stable = torch.softmax(stable, dim=0)[label] > torch.softmax(plastic, dim=0)[label]
        rows.append(stable if bool(by_stable) else plastic)
    return torch.stack(rows).detach()


def cross_entropy_sum(logits: Tensor, labels: Tensor) -> Tensor:
    """Sum over the examples of the cross-entropy of `logits` [B, C] and `labels` [B]."""
    total = logits.new_zeros(())
    for row, label in zip(logits, labels.tolist(), strict=True):
        total = total + torch.logsumexp(row, dim=0) - row[label]
    return total


def cls_er_loss(
    stream_logits: Tensor,
    stream_labels: Tensor,
    replay_logits: Tensor,
    replay_labels: Tensor,
    plastic_logits: Tensor,
    stable_logits: Tensor,
    weight: float,
    replay_logits_alone: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy and weighted consistency of one step with replay; the loss is their sum.

    `stream_logits` [B, C] and `replay_logits` [R, C] are the working model's for the joint batch,
    `replay_logits_alone` its logits for the replayed examples in a pass of their own (by default
    the same). `plastic_logits` and `stable_logits` are [R, C].
    """
    entropy = cross_entropy_sum(stream_logits, stream_labels)
    entropy = entropy + cross_entropy_sum(replay_logits, replay_labels)
    entropy = entropy / (len(stream_labels) + len(replay_labels))
    own = replay_logits if replay_logits_alone is None else replay_logits_alone
    target = consistency_target(plastic_logits, stable_logits, replay_labels)
    return entropy, weight * ((own - target) ** 2).sum() / target.numel()


def decay(step: int, alpha: float, variant: Variant = "authors") -> float:
    """Decay at `step` (1 for the first)."""
    return alpha if variant == "publication" else min(1 - 1 / (step + 1), alpha)


def averaged(
    average: Parameters,
    working: Parameters,
    step: int,
    alpha: float,
    rate: float,
    random_number: float,
    variant: Variant = "authors",
) -> Parameters:
    """The averaged model after `step`, given the working model after its optimiser step."""
    if not random_number < rate:
        return [a.clone() for a in average]
    d = decay(step, alpha, variant)
    return [d * a + (1 - d) * w for a, w in zip(average, working, strict=True)]


def cls_er_step(
    forward: Callable[[Parameters, Tensor], Tensor],
    working: Parameters,
    plastic: Parameters,
    stable: Parameters,
    stream: tuple[Tensor, Tensor],
    replay: tuple[Tensor, Tensor] | None,
    step: int,
    weight: float,
    alphas: tuple[float, float],
    rates: tuple[float, float],
    random_numbers: tuple[float, float],
    learning_rate: float,
    variant: Variant = "authors",
) -> tuple[Tensor, Parameters, Parameters, Parameters]:
    """One full step with plain SGD: loss, and the new working, plastic and stable parameters.

    `forward(parameters, inputs)` gives logits (a network without BatchNorm). Pairs are for the
    plastic and the stable model, in this order. `replay` is None while the memory is empty.
    """
    leaves = [w.detach().clone().requires_grad_(True) for w in working]
    if replay is None:
        loss = cross_entropy_sum(forward(leaves, stream[0]), stream[1]) / len(stream[1])
    else:
        with torch.no_grad():
            by_plastic, by_stable = forward(plastic, replay[0]), forward(stable, replay[0])
        entropy, consistency = cls_er_loss(
            forward(leaves, stream[0]),
            stream[1],
            forward(leaves, replay[0]),
            replay[1],
            by_plastic,
            by_stable,
            weight,
        )
        loss = entropy + consistency
    gradients = torch.autograd.grad(loss, leaves)
    new = [(w - learning_rate * g).detach() for w, g in zip(leaves, gradients, strict=True)]
    both = [
        averaged(old, new, step, alpha, rate, number, variant)
        for old, alpha, rate, number in zip(
            (plastic, stable), alphas, rates, random_numbers, strict=True
        )
    ]
    return loss.detach(), new, both[0], both[1]
