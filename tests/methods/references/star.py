r"""STAR: a term that makes predictions on the memory stable under weight perturbation.

Publication: M. Eskandar, T. Imtiaz, D. Hill, Z. Wang, J. Dy, "STAR: Stability-Inducing Weight
Perturbation for Continual Learning", ICLR 2025, arXiv 2503.01595, section 4, equations (7) to (11)
and Algorithm 1.

With $q_\theta(x)$ the softmax output and $M^*$ the replayed examples that are classified correctly
now, the loss of the method is $\mathcal L_{CL} + \lambda \mathcal L_{STAR}$ with

$$\mathcal L_{STAR}(\theta) = \max_{\delta} \sum_{x \in M^*}
KL\big(q_\theta(x)\,\|\,q_{\theta + \delta}(x)\big).$$

The maximum is replaced by one normalised ascent step, **per layer** $l$ and **relative to the norm
of its weights**, from a small random start because $\delta = 0$ has gradient zero:

$$\delta_{0,l} = \epsilon \lVert\theta_l\rVert\, n_l,\ n_l \sim \mathcal N(0, I), \qquad
\delta_l = \delta_{0,l} + \gamma \frac{\lVert\theta_l\rVert}{\lVert g_l\rVert} g_l, \qquad
g = \nabla_{\delta} \textstyle\sum KL(q_\theta \| q_{\theta+\delta_0}).$$

$q_\theta$ is a constant, $\delta$ too, and the gradient of the term is that **at the perturbed
point**, $\nabla_{\theta+\delta} KL(q_\theta\|q_{\theta+\delta})$, added to the method's gradient at
$\theta$.

Where the authors' code (Gnomy17/STAR_CL, models/utils/star_perturber.py, same in Mammoth) differs
from, or says more than, the publication:

1. Mean over $M^*$, not sum. The term is left out if fewer than **two** examples are correct.
2. $\epsilon$ is 1e-20. Added to weights of ordinary size this changes nothing, in float32 or
   float64, so the ascent direction of the code is the normalised **rounding error** of a gradient
   that is zero in exact arithmetic. The code cannot be a reference for the direction; take an
   $\epsilon$ that has an effect (here an argument, with the noise).
3. Only tensors with two or more dimensions are perturbed, and only those whose name has "weight":
   no biases, no BatchNorm. A "layer" is one such tensor; norms are Frobenius norms, 1e-20 is added
   to the gradient's. The term's **gradient** goes to all parameters, biases included.
4. Several ascent steps (`steps`, default 1) use $\gamma$ / steps each, normalised by the
   unperturbed weights' norm.
5. The examples are a batch of their own from the memory, of any task, augmented; never incoming
   ones. Correct: arg max over all outputs, in training mode.
6. BatchNorm in training mode: two passes of the network (before, and at the perturbed point) move
   its running statistics; the copy used for the ascent has its own.
7. Weights are restored by subtracting the perturbation, not from a copy: equal only up to rounding.
8. With X-DER-RPC the term uses the raw outputs of the network, before the fixed simplex head.

Defaults in the code: lambda 0.01, gamma 0.05; commands for CIFAR-10: gamma 0.001 to 0.1, lambda
0.005 to 0.1.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Parameters = list[Tensor]


@dataclass
class Term:
    """Value (weighted), gradient per parameter, perturbation per parameter, and who was correct."""

    value: Tensor
    gradient: list[Tensor]
    perturbation: list[Tensor]
    correct: list[bool]


def mean_divergence(reference: Tensor, logits: Tensor, correct: list[bool]) -> Tensor:
    """Mean over the correct examples of KL(reference || softmax(logits)), both [R, C]."""
    total = logits.new_zeros(())
    for q, row, counts in zip(reference, logits, correct, strict=True):
        if counts:
            total = total + (q * (torch.log(q) - torch.log_softmax(row, dim=0))).sum()
    return total / sum(correct)


def star_term(
    forward: Callable[[Parameters, Tensor], Tensor],
    parameters: Parameters,
    inputs: Tensor,
    labels: Tensor,
    noise: list[Tensor],
    epsilon: float,
    gamma: float,
    weight: float,
    steps: int = 1,
    minimum: int = 2,
) -> Term | None:
    """The term on replayed `inputs` and `labels` [R]; None if fewer than `minimum` are correct.

    `noise` has a standard normal tensor per parameter; those of parameters with fewer than two
    dimensions are not used. `forward(parameters, inputs)` gives logits [R, C].
    """
    theta = [p.detach() for p in parameters]
    reference = torch.softmax(forward(theta, inputs), dim=1)
    predicted = reference.argmax(dim=1).tolist()
    correct = [p == label for p, label in zip(predicted, labels.tolist(), strict=True)]
    if sum(correct) < minimum:
        return None
    moved = []
    for p, n in zip(theta, noise, strict=True):
        moved.append(p + epsilon * p.norm() * n if p.dim() > 1 else p.clone())
    for _ in range(steps):
        leaves = [m.clone().requires_grad_(True) for m in moved]
        divergence = mean_divergence(reference, forward(leaves, inputs), correct)
        ascent = torch.autograd.grad(divergence, leaves)
        for i, (p, g) in enumerate(zip(theta, ascent, strict=True)):
            if p.dim() > 1:
                moved[i] = moved[i] + gamma / steps * p.norm() / (g.norm() + 1e-20) * g
    leaves = [m.clone().requires_grad_(True) for m in moved]
    value = weight * mean_divergence(reference, forward(leaves, inputs), correct)
    gradient = torch.autograd.grad(value, leaves)
    perturbation = [m - p for m, p in zip(moved, theta, strict=True)]
    return Term(value.detach(), list(gradient), perturbation, correct)
