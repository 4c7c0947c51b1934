"""The interface between a method and one training step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import final

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.model import Model
from recollect.core.random import advance, uniform, words
from recollect.core.transforms import Transforms
from recollect.core.weights import State
from recollect.errors import InputError
from recollect.memory import Stored


class Step:
    """One training step of K runs: the incoming batch, the model, and draws from memory.

    A method receives it in `loss` or `update`. This one prints shapes:

    >>> from recollect import MLP, SGD, Fleet
    >>> class Print(SGD):
    ...     def loss(self, step: Step) -> Tensor:
    ...         (logits,) = step.net(step.x)
    ...         print(step.x.shape, step.y.shape, logits.shape)
    ...         return step.criterion(logits, step.y)
    >>> fleet = Fleet(
    ...     [Print()], lambda: MLP(4, 3), seeds=[0], lr=[0.1], classes=3, shape=(4,)
    ... )
    >>> _ = fleet.learn(torch.rand(1, 10, 4), torch.zeros(1, 10, dtype=torch.long), batch=10)
    torch.Size([1, 10, 4]) torch.Size([1, 10]) torch.Size([1, 10, 3])

    Attributes:
        x: The batch, `[K, B, ...]`, augmented if the stream has augmentation.
        y: Its labels, `[K, B]`, or other targets, `[K, B, ...]`, for `criterion`.
        model: The networks of all runs.
        state: The method's state, which changes in place.
        replays: All draws from memory; `draw` returns one after the other.
        slots: The slots of the batch, `[K, B]`; a slot equal to the capacity means not stored.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        model: Model,
        replays: Sequence[Stored] = (),
        state: State | None = None,
        slots: Tensor | None = None,
        key: Tensor | None = None,
        images: Images | Transforms | None = None,
        raw: Sequence[Tensor] = (),
        fields: Collection[str] | None = None,
    ) -> None:
        self.x = x
        self.y = y
        self.model = model
        self.replays = list(replays)
        self.state = State() if state is None else state
        self.slots = x.new_zeros(len(x), 0, dtype=torch.int64) if slots is None else slots
        self.outcome = Outcome()
        self._key = x.new_zeros(len(x), dtype=torch.int64) if key is None else key
        self._images = images
        self._raw = raw  # the batch and the draws before augmentation, if they were augmented
        self._fields = fields
        self._drawn = 0

    def net(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Compute the outputs `[K, n, C]` of each part `[K, n, ...]` in training mode.

        The result is that of separate passes. The parts share one pass, unless the network has
        buffers that separate passes would update differently.
        """
        sizes = [part.shape[1] for part in parts]
        if self.model.network.separate:
            passes = [
                self.model(part, (size,)) if size else None
                for part, size in zip(parts, sizes, strict=True)
            ]
            some = next(outputs for outputs in passes if outputs is not None)
            return tuple(some[:, :0] if outputs is None else outputs for outputs in passes)
        outputs = self.model(torch.cat(parts, 1) if len(parts) > 1 else parts[0], sizes)
        return torch.split_with_sizes(outputs, sizes, 1)

    def criterion(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The mean loss of every run, `[K]`: cross-entropy for classes, or the target's loss."""
        if not isinstance(outputs, Tensor):
            raise InputError(
                f"step.criterion needs outputs [K, n, C], not a {type(outputs).__name__}: step.net "
                f"returns the outputs of each part, as in (logits,) = step.net(step.x)"
            )
        return self.model.criterion(outputs, y)

    def draw(self) -> Stored:
        """Return the next draw from memory; it has no examples while the memory is empty."""
        if self._drawn == len(self.replays):
            raise InputError(
                f"the method calls step.draw more often than it declares: `draws` of its replay is "
                f"{len(self.replays)}; increase it there or in setup"
            )
        self._drawn += 1
        return self.replays[self._drawn - 1]

    def remember(self, **fields: Tensor) -> None:
        """Set fields, other than x and y, to store with the batch if it enters the memory."""
        for name, value in fields.items():
            if self._fields is not None and name not in self._fields:
                raise InputError(
                    f"step.remember got {name!r}, which is not a field of the memory: declare it "
                    f"in `replay` (x and y are stored automatically)"
                )
            self.outcome.fields[name] = value.detach()

    def rewrite(self, draw: Stored, **fields: Tensor) -> None:
        """Overwrite fields of the stored examples of a draw with values `[K, n, ...]`."""
        number = self._number(draw)
        for name, value in fields.items():
            if name not in draw:
                raise InputError(
                    f"step.rewrite got {name!r}, which is not a field of the memory: declare it "
                    f"in `replay`"
                )
            self.outcome.rewritten[number, name] = value.detach().to(draw[name].dtype)

    def store_at(self, slots: Tensor) -> None:
        """Store the batch in these slots, `[K, B]`, instead of those of the memory policy."""
        self.slots = self.outcome.slots = slots

    def random(self, n: int) -> Tensor:
        """Draw uniform random numbers in [0, 1), `[K, B, n]`, a function of seed and step."""
        runs, batch = self.y.shape[:2]
        return uniform(self._words(batch * n)).view(runs, batch, n)

    def view(self, draw: Stored | None = None) -> Tensor:
        """Return another random augmentation of a draw, or of the batch."""
        raw = self._before(draw)
        words = self._words(raw.shape[1])
        if self._images is None:
            return raw
        augment = self._images.augment if draw is None else self._images.augment_replay
        return augment(raw, self._images.view_of(words), self.model.network.dtype)

    def plain(self, draw: Stored | None = None) -> Tensor:
        """Return the examples of a draw, or of the batch, without augmentation."""
        raw = self._before(draw)
        return raw if self._images is None else self._images.plain(raw, self.model.network.dtype)

    def _before(self, draw: Stored | None) -> Tensor:
        """The examples of a draw, or of the batch, before augmentation."""
        number, x = (0, self.x) if draw is None else (self._number(draw) + 1, draw.x)
        return self._raw[number] if number < len(self._raw) else x

    def _number(self, draw: Stored) -> int:
        for number, each in enumerate(self.replays):
            if each is draw:
                return number
        raise InputError(
            "this is not a draw of the step: pass the object that step.draw() returned, not a part "
            "or copy of it"
        )

    def _words(self, count: int) -> Tensor:
        found = words(self._key, count)
        self._key = advance(self._key, count)
        return found


@final
class Outcome:
    """What a step writes to memory: fields of the batch, its slots, and fields of draws."""

    def __init__(self) -> None:
        self.fields: dict[str, Tensor] = {}
        self.slots: Tensor | None = None
        self.rewritten: dict[tuple[int, str], Tensor] = {}
