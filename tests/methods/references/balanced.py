r"""Class-balanced reservoirs: CBRS, and the balanced reservoir of "a bag of tricks".

**CBRS.** A. Chrysakis, M.-F. Moens, "Online Continual Learning from Imbalanced Data", ICML 2020,
section 2.2 and Algorithm 1. A class is *largest* when no class has more examples in memory (several
can be); it is *full* when it is, or once was, largest. For an example of class $c$:

- memory not filled: store it;
- $c$ not full: overwrite an example chosen uniformly among those of the largest class;
- $c$ full: with probability $m_c / n_c$ overwrite a stored example of $c$ chosen uniformly, where
  $m_c$ counts the examples of $c$ in memory and $n_c$ those in the stream, this one included.

Inclusion: within a class every example seen is equally likely to be in memory,
$P(i \in M \mid m_c) = m_c / n_c$ for each $i$ of class $c$. A class that is not full has lost no
example, $m_c = n_c$; replacement inside a full class is an ordinary reservoir step; and an
eviction from the largest class is uniform over its stored examples, so both keep the equality.

**Balanced reservoir (BRS).** P. Buzzega, M. Boschini, A. Porrello, S. Calderara, "Rethinking
Experience Replay: a Bag of Tricks for Continual Learning", ICPR 2020, arXiv 2010.05595, section on
balanced reservoir sampling. With $N$ examples seen before: store while $N < |M|$; otherwise draw
$j$ uniformly from $0..N$ and, if $j < |M|$, overwrite an example chosen uniformly among those of
the class with most examples in memory.

Inclusion: the $n$-th example (from 1) enters with probability $\min(1, |M| / n)$ whatever its
class, as in an ordinary reservoir; only the eviction is balanced. It then survives step $k$ with
probability $1 - \frac{|M|}{k} \frac{1[c = c^*_k]}{m_c}$ with $c^*_k$ the largest class then, so
examples of one class are **not** equally likely to be stored (a class below the maximum loses
none), and a class that appears late and rarely may be missing. With one class in the stream both
policies are the ordinary reservoir, $|M| / n$.

Where code differs from the publications:

1. No code of the authors of CBRS was found.
2. BRS, hastings24/rethinking_er (utils/buffer_tricks.py): balance is there only combined with the
   loss (LABRS). Acceptance draws from $0..N-1$, probability $|M| / N$. The overwritten slot is
   drawn with probability proportional to the min-max normalised sum of half the class count of the
   slot and half its scaled negative loss: any class can lose an example.
3. BRS, aimagelab/mammoth (`balancoir` in utils/buffer.py), `variant="mammoth"` here: an example is
   also accepted whenever its class has fewer stored examples than the median of the nonzero class
   counts; ties for the largest class go to the lowest label; the overwritten example is number
   $j \bmod m_{c^*}$ of that class in slot order, with the same $j$ as for the acceptance, which is
   not uniform in general. A class new to the memory is always accepted (its count 0 is below).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal


@dataclass
class Memory:
    """Stored stream positions by slot, the slot written at each step, and the full classes."""

    positions: list[int] = field(default_factory=list)
    written: list[int | None] = field(default_factory=list)
    full: set[int] = field(default_factory=set)


def pick(candidates: list[int], uniform: Callable[[], float]) -> int:
    """One of `candidates`, by one number of `uniform` in [0, 1)."""
    return candidates[int(uniform() * len(candidates))]


def largest_classes(stored: list[int]) -> set[int]:
    """Labels that no label of `stored` outnumbers."""
    counts = Counter(stored)
    return {label for label, count in counts.items() if count == max(counts.values())}


def cbrs(
    labels: Sequence[int],
    size: int,
    uniform: Callable[[], float],
    full_while_filling: bool = False,
) -> Memory:
    """Class-balancing reservoir sampling over a stream of `labels` with `size` slots.

    Numbers drawn: none while the memory fills; one (which example) for a class that is not full;
    for a full class one (accept if it is at most m_c / n_c) and, if accepted, one (which example).
    Candidates are in slot order; those of all tied largest classes form one pool.

    `full_while_filling`: whether being largest before the memory is filled makes a class full. The
    definition read by the letter says so, but then the class of the very first example is full
    with one stored example and can never grow, so the default counts from the filled memory on.
    """
    memory = Memory()
    seen: Counter[int] = Counter()
    for position, label in enumerate(labels):
        seen[label] += 1
        stored = [labels[p] for p in memory.positions]
        slot: int | None = None
        if len(stored) < size:
            slot = len(stored)
            memory.positions.append(position)
        elif label not in memory.full:
            largest = largest_classes(stored)
            slot = pick([s for s in range(size) if stored[s] in largest], uniform)
        else:
            own = [s for s in range(size) if stored[s] == label]
            # A full class can lose its last example when there are more classes than slots.
            if own and uniform() <= len(own) / seen[label]:
                slot = pick(own, uniform)
        if slot is not None:
            memory.positions[slot] = position
        memory.written.append(slot)
        if full_while_filling or len(memory.positions) == size:
            memory.full |= largest_classes([labels[p] for p in memory.positions])
    return memory


def balanced_reservoir(
    labels: Sequence[int],
    size: int,
    uniform: Callable[[], float],
    variant: Literal["publication", "mammoth"] = "publication",
    ties: Literal["pooled", "lowest"] = "pooled",
) -> Memory:
    """Balanced reservoir over a stream of `labels` with `size` slots.

    Numbers drawn: none while the memory fills; then one per example for j in 0..N; in the
    publication's variant one more for an accepted example (which one is overwritten). `ties`: the
    publication takes an arg max over class counts and does not say which class when several have
    the maximum; "pooled" chooses among the examples of all of them, "lowest" takes the lowest
    label (Mammoth does).
    """
    memory = Memory()
    for position, label in enumerate(labels):
        if len(memory.positions) < size:
            memory.positions.append(position)
            memory.written.append(len(memory.positions) - 1)
            continue
        stored = [labels[p] for p in memory.positions]
        counts = Counter(stored)
        largest = largest_classes(stored)
        if variant == "mammoth" or ties == "lowest":
            largest = {min(largest)}
        candidates = [s for s in range(size) if stored[s] in largest]
        j = int(uniform() * (position + 1))
        slot: int | None = None
        if variant == "publication":
            if j < size:
                slot = pick(candidates, uniform)
        elif j < size or counts[label] < median(counts.values()):
            slot = candidates[j % len(candidates)]
        if slot is not None:
            memory.positions[slot] = position
        memory.written.append(slot)
    return memory
