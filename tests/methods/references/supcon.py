r"""Supervised contrastive loss, shared by the references of X-DER and SCR.

Publication: P. Khosla et al., "Supervised Contrastive Learning", NeurIPS 2020, arXiv 2004.11362,
equation (2), the sum over positives outside the logarithm:

$$\mathcal L = \frac1{|I|} \sum_{i \in I} \frac{-1}{|P(i)|} \sum_{p \in P(i)}
\log \frac{e^{z_i \cdot z_p / \tau}}{\sum_{a \ne i} e^{z_i \cdot z_a / \tau}},$$

with $I$ all views of all examples, $P(i)$ the other views with the label of $i$. The publication
sums over $i$; all code here means the mean. The common implementation multiplies the loss by
temperature / base temperature; both are equal in X-DER and in SCR, so the factor is 1.
"""

import torch
from torch import Tensor


def supervised_contrastive(views: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Mean supervised contrastive loss of `views` [N, V, D] (already normalised), `labels` [N]."""
    points, classes = [], []
    for example, label in zip(views, labels.tolist(), strict=True):
        for view in example:
            points.append(view)
            classes.append(label)
    total = views.new_zeros(())
    for i, anchor in enumerate(points):
        others = [j for j in range(len(points)) if j != i]
        positives = [j for j in others if classes[j] == classes[i]]
        if not positives:
            raise ValueError(f"view {i} has no other view with label {classes[i]}")
        similarity = {j: anchor @ points[j] / temperature for j in others}
        denominator = torch.logsumexp(torch.stack([similarity[j] for j in others]), dim=0)
        for p in positives:
            total = total - (similarity[p] - denominator) / len(positives)
    return total / len(points)
