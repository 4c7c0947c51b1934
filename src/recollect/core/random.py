"""Counter-based random numbers: a pure function of (seed, purpose, step, index).

There is no generator and no state: a random word is a hash of its key. A seed therefore gives the
same examples, memories and replays on every device, in every fleet and in any order of
computation. All arithmetic is on 64-bit integers, with the same results on every device.
"""

from __future__ import annotations

from enum import IntEnum
from typing import overload

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
MIX_2 = 0x94D049BB133111EB - (1 << 64)
ROUNDS = 4
TINY = 64


class Purpose(IntEnum):
    """The use of a random word; part of its key, so that no two uses share random words."""

    ORDER = 1
    SLOT = 2
    DRAW = 3
    SPLIT = 4
    PIXELS = 5
    ANGLE = 6
    GROUP = 7
    NOISE = 8
    VIEW = 9
    KEEP = 10
    RANDOM = 11
    ANCHOR = 12
    WARM = 13
    ANSWER = 14
    RECORD = 15
    CLASSES = 20
    TASKS = 21
    HOLE = 22


def bits(seeds: Tensor, purpose: Purpose, *words: Tensor | int) -> Tensor:
    """Random 64-bit words, one for every element of the broadcast of `seeds` and `words`.

    >>> seeds = torch.arange(3)
    >>> step = torch.arange(1000)[:, None]
    >>> bits(seeds, Purpose.DRAW, step).shape
    torch.Size([1000, 3])
    >>> torch.equal(bits(seeds[1:], Purpose.DRAW, 7), bits(seeds, Purpose.DRAW, 7)[1:])
    True
    """
    return extend(_mix(seeds.long() + _spread(int(purpose))), *words)


def coming_bits(seeds: Tensor, purpose: Purpose, step: int, steps: int, count: int) -> Tensor:
    """Random words for `steps` steps from `step` on, `count` in each, `[steps, K, count]`."""
    when = torch.arange(step, step + steps, device=seeds.device)[:, None, None]
    return bits(seeds[:, None], purpose, when, torch.arange(count, device=seeds.device))


def extend(key: Tensor, *words: Tensor | int) -> Tensor:
    """Hash further words into a key: `bits(s, p, a, b)` is `extend(bits(s, p, a), b)`.

    >>> seeds = torch.arange(3)
    >>> torch.equal(extend(bits(seeds, Purpose.DRAW, 7), 5), bits(seeds, Purpose.DRAW, 7, 5))
    True
    """
    for word in words:
        key = _mix(key + _spread(word + 1))
    return key


def advance(key: Tensor, count: int) -> Tensor:
    """Skip `count` words of a key: `extend(advance(k, n), i)` is `extend(k, n + i)`.

    >>> key = bits(torch.arange(3), Purpose.RANDOM, 7)
    >>> torch.equal(extend(advance(key, 4), 2), extend(key, 6))
    True
    """
    return key + _spread(count)


def words(key: Tensor, count: int) -> Tensor:
    """The next `count` words of a key, `[..., count]`, for compiled steps.

    On a GPU, torch's compiler stores an index in 32 bits and cannot multiply it by a large
    constant. Here the index is added to a 64-bit zero that the compiler does not recognise as one.

    >>> key = bits(torch.arange(3), Purpose.RANDOM, 7)
    >>> torch.equal(words(key, 4), extend(key[:, None], torch.arange(4)))
    True
    """
    zero = (key ^ key)[..., None]
    return extend(key[..., None], zero + torch.arange(count, device=key.device))


def below(words: Tensor, n: Tensor | int) -> Tensor:
    """Convert random words to uniform integers in 0..n-1, for `n` up to 2**62.

    >>> below(bits(torch.arange(1000), Purpose.SLOT), 10).bincount().min() > 60
    tensor(True)
    """
    # A number becomes a tensor without a copy from the host, which a CUDA graph could not capture.
    size = torch.full((), n, device=words.device) if isinstance(n, int) else n.to(words)
    return torch.where(size <= 1 << 31, _scaled(words, size), _shift(words, 1) % size)


def uniform(words: Tensor) -> Tensor:
    """Convert random words to uniform numbers in [0, 1), in float64.

    >>> 0.45 < uniform(bits(torch.arange(1000), Purpose.SLOT)).mean() < 0.55
    tensor(True)
    """
    return _shift(words, 11).double() * 2.0**-53


def permute(key: Tensor, index: Tensor, n: Tensor | int) -> Tensor:
    """Apply a random permutation of 0..n-1, chosen by `key`, to `index`.

    The images of 0..m-1 are a sample of m out of n without replacement, and only these m are
    computed: the cost does not depend on n. The permutation is a Feistel network on pairs (a, b)
    in a grid of just over n cells; the few images that fall outside 0..n-1 are permuted again. For
    small n its few rounds are not random enough, so they are repeated three times.

    >>> key = bits(torch.tensor([0]), Purpose.ORDER)
    >>> permute(key, torch.arange(6), 6).sort().values
    tensor([0, 1, 2, 3, 4, 5])
    """
    size = torch.as_tensor(n, dtype=torch.int64, device=index.device)
    high = size.double().sqrt().ceil().long().clamp(min=1)
    low = (size + high - 1) // high

    def shuffle(value: Tensor, first_round: int) -> Tensor:
        left, right = value // low, value % low
        for r in range(first_round, first_round + ROUNDS):
            left_key, right_key = _mix(key + _spread(2 * r + 1)), _mix(key + _spread(2 * r + 2))
            left = _wrap(left + _scaled(_stir(left_key + _spread(right)), high), high)
            right = _wrap(right + _scaled(_stir(right_key + _spread(left)), low), low)
        return left * low + right

    def inside(value: Tensor, first_round: int) -> Tensor:
        image = shuffle(value, first_round)
        while bool((outside := image >= size).any()):
            image = torch.where(outside, shuffle(image, first_round), image)
        return image

    image = inside(index, 0)
    if bool((tiny := size < TINY).any()):
        for repeat in (1, 2):
            image = torch.where(tiny, inside(image.minimum(size - 1), repeat * ROUNDS), image)
    return image


@overload
def _spread(word: int) -> int: ...
@overload
def _spread(word: Tensor) -> Tensor: ...
def _spread(word: Tensor | int) -> Tensor | int:
    """Multiply by the golden ratio modulo 2**64, to spread neighbouring words far apart."""
    if isinstance(word, Tensor):
        return word * GOLDEN
    return (word * GOLDEN + (1 << 63)) % (1 << 64) - (1 << 63)


def _mix(x: Tensor) -> Tensor:
    """The splitmix64 finaliser: a bijection in which every input bit affects every output bit."""
    x = (x ^ _shift(x, 30)) * MIX_1
    x = (x ^ _shift(x, 27)) * MIX_2
    return x ^ _shift(x, 31)


def _stir(x: Tensor) -> Tensor:
    """Half a mix, which is enough for the upper bits that `_scaled` uses."""
    return (x ^ _shift(x, 32)) * MIX_1


def _scaled(words: Tensor, n: Tensor) -> Tensor:
    """Scale the upper half of each word to 0..n-1, for `n` up to 2**31."""
    return (_shift(words, 32) * n) >> 32


def _shift(x: Tensor, by: int) -> Tensor:
    """Logical right shift; the operator >> would copy the sign bit."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _wrap(x: Tensor, n: Tensor) -> Tensor:
    """Compute x mod n for x in 0..2n-1, without a division."""
    return torch.where(x >= n, x - n, x)
