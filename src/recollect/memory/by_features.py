"""Select examples to store by their features: closest to a centre, or by herding."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

TINY = 1e-24


def nearest(features: Tensor, first: Tensor, groups: int, centre: Tensor) -> Tensor:
    """Find the group among first..first+groups-1 whose centre is nearest to each example, `[K, B]`.

    >>> centre = torch.tensor([[[0.0], [9.0], [4.0]]])
    >>> nearest(torch.tensor([[[3.0], [3.0]]]), torch.tensor([[0, 1]]), 2, centre)
    tensor([[0, 2]])
    """
    choice = first[..., None] + torch.arange(groups, device=first.device)  # [K, B, groups]
    there = _rows(centre, choice.flatten(1)).unflatten(1, choice.shape[1:])  # type: ignore[no-untyped-call]
    return first + _apart(features[:, :, None], there).argmin(2)


def keep_closest(
    features: Tensor, group: Tensor, room: int, centre: Tensor, count: Tensor, stored: Tensor
) -> Tensor:
    """Assign slots `[K, B]` to a batch so that each group keeps the examples closest to its centre.

    The batch has `features` `[K, B, D]` and groups `[K, B]`. The `centre` `[K, G, D]` of a group is
    the mean of all `count` `[K, G]` examples seen of it, and is first updated with the whole batch.
    Group g owns `room` slots from g * room on, whose examples had the features `stored`
    `[K, capacity + 1, D]` when they arrived. Of these and the batch, the closest examples are kept;
    ties go to the earlier example, since two examples are equally far from their mean. The slot
    `capacity` means that an example is not stored. `centre`, `count` and `stored` change in place.

    >>> centre, count, stored = torch.tensor([[[1.0]]]), torch.tensor([[2]]), torch.zeros(1, 3, 1)
    >>> stored[0, 1] = 2.0
    >>> features, group = torch.tensor([[[6.0], [3.0]]]), torch.tensor([[0, 0]])
    >>> keep_closest(features, group, 2, centre, count, stored)
    tensor([[2, 0]])
    >>> centre.item(), stored[0, :2].tolist()
    (2.75, [[3.0], [2.0]])
    """
    capacity, batch = stored.shape[1] - 1, group.shape[1]
    same = group[:, :, None] == group[:, None, :]  # [K, B, B]
    earlier = torch.ones(batch, batch, dtype=torch.bool, device=group.device).tril(-1)
    before = count.gather(1, group)
    after = before + same.sum(2)
    middle = _rows(centre, group)
    moved = torch.bmm(same.to(middle), features) - same.sum(2)[..., None] * middle
    middle = middle + moved / after[..., None]
    centre.scatter_(1, _wide(group, centre), middle)
    count.scatter_(1, group, after)

    offset = torch.arange(room, device=group.device)
    slots = group[..., None] * room + offset  # [K, B, room]
    there = _rows(stored, slots.flatten(1)).unflatten(1, (batch, room))  # type: ignore[no-untyped-call]
    theirs = _apart(there, middle[:, :, None])
    theirs = torch.where(offset < before[..., None], theirs, torch.inf)  # fill empty slots first
    mine = _apart(features, middle)
    closer = (mine[:, None] < mine[:, :, None]) | ((mine[:, None] == mine[:, :, None]) & earlier)
    ahead = (same & closer).sum(2) + (theirs <= mine[..., None]).sum(2)
    stays = ahead < room
    turn = (same & earlier & stays[:, None]).sum(2).clamp(max=room - 1)
    farthest = theirs.argsort(dim=2, descending=True, stable=True)
    given = group * room + farthest.gather(2, turn[..., None]).squeeze(2)
    slot = torch.where(stays, given, capacity)
    stored.scatter_(1, _wide(slot, stored), features)
    return slot


def herd(features: Tensor, count: int) -> Tensor:
    """Herding: select `count` examples by features `[K, n, D]`; indices `[K, count]`, best first.

    Each next example brings the mean of the selection closest to the mean of all examples
    (Rebuffi et al., 2017, Algorithm 4). Means are scaled to length 1, so the closest has the
    largest cosine similarity, which takes one matrix-vector product per selected example.

    >>> herd(torch.tensor([[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]]), count=3)
    tensor([[1, 0, 2]])
    """
    columns = features.mT.contiguous()  # [K, D, n]: products are far faster in this layout
    squares = columns.square().sum(1)
    mean = normalize(features.mean(1), dim=1)
    ahead = torch.bmm(mean.unsqueeze(1), columns).squeeze(1)  # [K, n]; -inf once selected
    total = torch.zeros_like(mean)
    chosen = torch.zeros(len(features), count, dtype=torch.int64, device=features.device)
    for number in range(count):
        along = torch.bmm(total.unsqueeze(1), columns).squeeze(1)
        length = (total.square().sum(1, keepdim=True) + 2 * along + squares).clamp(min=TINY).sqrt()
        best = (((total * mean).sum(1, keepdim=True) + ahead) / length).argmax(1, keepdim=True)
        chosen[:, number : number + 1] = best
        ahead.scatter_(1, best, -torch.inf)
        total += _rows(features, best).squeeze(1)
    return chosen


def _apart(one: Tensor, other: Tensor) -> Tensor:
    """Squared distances, rounded to float32 so that equal distances of float64 features tie."""
    return (one - other).square().sum(-1).float()


def _wide(index: Tensor, rows: Tensor) -> Tensor:
    return index[..., None].expand(-1, -1, rows.shape[2])


def _rows(rows: Tensor, index: Tensor) -> Tensor:
    return rows.gather(1, _wide(index, rows))
