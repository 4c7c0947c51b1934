"""The engineer's face: a network that learns from whatever arrives, and does not forget."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from recollect.core.transforms import Transform, Transforms
from recollect.errors import DataError, DivergedError, InputError
from recollect.files import pack, unpack
from recollect.learner import saved
from recollect.learner.checkpoints import Checkpoints
from recollect.learner.engine import Engine, Settings
from recollect.learner.examples import Kind, batch_of, tensor_of
from recollect.learner.file import read, write
from recollect.learner.labels import Labels, encoded, labels_of, listed
from recollect.learner.moment import Moment
from recollect.learner.record import Metrics, Record
from recollect.learner.turns import Turns
from recollect.methods import Method, every_method
from recollect.train.devices import device_named

__all__ = ["Learner"]


@final
class Learner:
    """Wraps a network and a method, learns from a stream, and predicts at any time.

    `memory` is a number of examples or a size ("64 MB"); `replay` is how many of them each draw
    of a step takes. `optimiser` is any of torch's by name, and `optimiser_options` are its own.
    Labels are any hashable values. One that is new takes an output that waited for it; when none
    is left, the network's last linear layer gets more, `spare` of them to wait. Outputs that wait
    learn to say no. With `classes`, which lists all there will be, none is added. `transform`
    and `replay_transform` change the batches that are learned and replayed, but not what is kept
    or predicted. With a folder for `checkpoints`, the state is saved there after every
    `checkpoint_every` steps, and the newest `keep` are kept.

    One thread may observe while others predict. The network that is passed is copied.

    >>> from recollect import DERpp, MLP
    >>> learner = Learner(MLP(4, 1), DERpp(alpha=0.1, beta=0.5), memory=50, lr=0.1, seed=0)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(60):
    ...     x = rng.normal(size=(10, 4)).astype(np.float32)
    ...     loss = learner.observe(x, ["up" if row.sum() > 0 else "down" for row in x])
    >>> learner.predict(np.array([2.0, 2.0, 2.0, 2.0])), sorted(learner.classes)
    ('up', ['down', 'up'])
    """

    def __init__(
        self,
        module: nn.Module,
        method: Method,
        *,
        memory: int | str = 500,
        lr: float = 0.03,
        seed: int = 0,
        replay: int = 32,
        optimiser: str = "SGD",
        optimiser_options: Mapping[str, Any] | None = None,
        classes: Sequence[Hashable] | None = None,
        transform: Transform | None = None,
        replay_transform: Transform | None = None,
        device: torch.device | str = "cpu",
        spare: int = 10,
        window: int = 1000,
        checkpoints: str | Path | None = None,
        checkpoint_every: int | None = None,
        keep: int = 3,
    ) -> None:
        self._settings = Settings(
            method, memory, lr, seed, replay, optimiser, dict(optimiser_options or {}), spare
        )
        saved.check(module, self._settings, window, fixed=classes is not None)
        self._module = copy.deepcopy(module)
        self._transforms = None
        if transform is not None or replay_transform is not None:
            saved.check_transforms(transform=transform, replay_transform=replay_transform)
            self._transforms = Transforms(transform, replay_transform)
        self._device = _device(device)
        self._checkpoints = None
        if checkpoints is not None:
            self._checkpoints = Checkpoints(Path(checkpoints), checkpoint_every, keep)
        elif checkpoint_every is not None:
            raise InputError("checkpoint_every needs a folder: say checkpoints='...'")
        labels = Labels() if classes is None else Labels(listed(classes), True)
        self._now = Moment(None, labels, Record.empty(window))
        self._turns = Turns()
        self._continues = False
        self.saved: int | None = None
        self.notes: dict[str, Any] = {}

    @property
    def seen(self) -> int:
        """How many examples it has learned from: where to continue in the stream."""
        return self._now.engine.fleet.seen if self._now.engine else 0

    @property
    def steps(self) -> int:
        """How many steps it has taken: one for every `observe`."""
        return self._now.engine.fleet.steps if self._now.engine else 0

    @property
    def classes(self) -> list[Hashable]:
        """The labels it knows, in the order of the columns of `predict_proba`."""
        return list(self._now.labels.known)

    @property
    def fixed_classes(self) -> bool:
        """Whether it was made with `classes`, so that no others can be learned."""
        return self._now.labels.fixed

    @property
    def method(self) -> Method:
        """How it learns."""
        return self._settings.method

    @property
    def memory_bytes(self) -> int:
        """What it holds besides its network: it does not grow with the stream."""
        return self._now.engine.fleet.bytes_per_run if self._now.engine else 0

    def observe(self, x: Any, y: Any, *, predicted: Any = None) -> float:
        """Learn from one example and its label, or from a batch and a list of labels; the loss.

        `metrics` counts what it predicts for them first, or `predicted`: what `predict` gave for
        them earlier, which saves a forward pass (None in a list: there was no prediction).

        It is one step, whatever the size of the batch. What cannot be learned from raises an
        `InputError`, and a step to where nothing is finite a `DivergedError`: in either case, and
        if the process is interrupted here, the learner is exactly what it was. A checkpoint that
        cannot be written is a `DataError`: then the step was learned, but not saved.
        """
        examples = tensor_of(x)
        labels, several = labels_of(list(y) if self._is_batch(examples, y) else y)
        batch = batch_of(examples, len(labels) if several else None, self._device)
        with self._turns.one():
            before = self._now
            known = before.labels.with_new(labels)
            if self._checkpoints is not None and known is not before.labels:
                encoded(known.known[len(before.labels) :])
            engine = before.engine or self._engine(batch, known)
            engine.kind.check(batch)
            if predicted is None:
                guessed = self._guesses(before, batch)
            else:
                guessed = np.array(known.numbers(_as_many(predicted, len(labels), several)))
            if len(known) > engine.outputs:
                engine = engine.grown(len(known) + self._settings.spare)
            numbers = known.numbers(labels)
            engine.begin()
            try:
                loss = engine.step(batch, torch.tensor(numbers, device=self._device))
                outcome = np.array(numbers)
                record = before.record.after(outcome, outcome == guessed)
                self._now = Moment(engine, known, record)
            except DivergedError:
                raise DivergedError(
                    "the loss or the weights are not finite after this step, which was taken "
                    "back: take a lower lr, or scale the examples"
                ) from None
            finally:
                if self._now is before:
                    engine.undo()
            if self._checkpoints is not None and self._checkpoints.due(self.steps):
                try:
                    self._save_checkpoint()
                except InputError as error:  # which would say that nothing was changed
                    raise DataError(f"the step was learned, but not saved: {error}") from None
        return loss

    def follow(self, stream: Iterable[tuple[Any, Any]]) -> Iterator[float]:
        """Learn from every (x, y) of a stream, such as a DataLoader; the losses, as they come.

        >>> from recollect import ER, MLP
        >>> learner = Learner(MLP(2, 1), ER())
        >>> len([loss for loss in learner.follow([([1.0, 0.0], "a"), ([0.0, 1.0], "b")])])
        2
        """
        for x, y in stream:
            yield self.observe(x, y)

    def predict(self, x: Any) -> Any:
        """The label of one example, or a list of labels for a batch."""
        logits, several = self._look(x)
        known = self._now.labels.known
        labels = [known[place] for place in logits.argmax(1).tolist()]
        return labels if several else labels[0]

    def predict_proba(self, x: Any) -> np.ndarray:
        """The probability of every class in `classes`, `[n, classes]` for a batch."""
        logits, several = self._look(x)
        shares: np.ndarray = logits.double().softmax(1).cpu().numpy()
        return shares if several else shares[0]

    def metrics(self) -> Metrics:
        """How well it predicted what it was about to learn: overall, lately, per class."""
        now = self._now
        return now.record.metrics(now.labels.known)

    def trained_module(self) -> nn.Module:
        """A copy of the network with all that was learned, for use without recollect."""
        with self._turns.one():
            return self._ready().trained()

    def save(self, path: str | Path) -> None:
        """Write everything to one file: whole or not at all, and on the disk when this returns."""
        with self._turns.one():
            write(Path(path), self._packed())
            self.saved = self.seen

    def checkpoint(self, folder: str | Path | None = None) -> Path:
        """Save into the folder of checkpoints now; the file. A `folder` becomes that folder."""
        with self._turns.one():
            now = self._checkpoints
            if folder is not None and (now is None or now.folder != Path(folder)):
                self._checkpoints = replace(now or Checkpoints(Path()), folder=Path(folder))
                self._continues = False
            return self._save_checkpoint()

    @classmethod
    def load(
        cls,
        path: str | Path,
        module: nn.Module,
        *,
        method: Method | None = None,
        transform: Transform | None = None,
        replay_transform: Transform | None = None,
        device: torch.device | str = "cpu",
        checkpoints: str | Path | None = None,
        checkpoint_every: int | None = None,
        keep: int = 3,
    ) -> Learner:
        """The learner that was saved, in a network of the same architecture.

        It continues as if it had never stopped. The network's own weights do not matter; a
        `method` of your own, and transforms, are passed again, for a file holds no code.
        """
        extras = {
            "transform": transform, "replay_transform": replay_transform, "device": device,
            "checkpoints": checkpoints, "checkpoint_every": checkpoint_every, "keep": keep,
        }  # fmt: skip
        try:
            return cls._from_bytes(read(Path(path)), module, method, extras)
        except DataError as error:
            told = str(error)
            raise DataError(told if str(path) in told else f"{path}: {told}") from None

    @classmethod
    def resume(
        cls, folder: str | Path, module: nn.Module, *, checkpoints: str | Path | None = None,
        **extras: Any,
    ) -> Learner | None:  # fmt: skip
        """The learner of the newest checkpoint in a folder, or None if there is none.

        A file that is damaged is passed over for the one before. Checkpoints go on in the same
        folder; the other arguments are those of `load`.
        """
        if Path(folder).is_file():
            raise InputError(f"{folder} is a file: Learner.load takes one, and resume a folder")
        files = Checkpoints(Path(folder)).files()
        for place, path in enumerate(files):
            try:
                return cls.load(path, module, checkpoints=checkpoints or folder, **extras)
            except DataError:
                if place == len(files) - 1:
                    raise
        return None

    def resumed(self, folder: str | Path) -> Learner | None:
        """This learner as the newest checkpoint in a folder has it, or None if there is none.

        A checkpoint that was made with other arguments (method, memory, lr, ...) is refused.
        """
        library = every_method().get(self.method.name) is type(self.method)
        method = None if library else self.method
        found = Learner.resume(folder, self._module, method=method, **self._extras())
        for each in fields(Settings) if found else ():
            now, then = (getattr(one._settings, each.name) for one in (self, found) if one)
            if now != then:
                raise InputError(
                    f"the learner in {folder} was made with {each.name}={then!r}, not "
                    f"{each.name}={now!r}"
                )
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        with self._turns.one():
            return Learner._from_bytes, (self._packed(), self._module, self.method, self._extras())

    def _extras(self) -> dict[str, Any]:
        """The arguments that no file holds."""
        return {
            "transform": self._transforms and self._transforms.arriving,
            "replay_transform": self._transforms and self._transforms.replayed,
            "device": str(self._device),
        }

    @classmethod
    def _from_bytes(
        cls, data: bytes, module: nn.Module, method: Method | None, extras: Mapping[str, Any]
    ) -> Learner:
        facts, tensors = unpack(data)
        with saved.careful():
            saved.check_facts(facts, tensors)
            told = saved.told(facts, method)
            learner = cls(module, classes=saved.classes(facts), **told, **extras)
            learner._now = saved.moment(facts, tensors, learner._now.record, learner._made)
            learner.notes = dict(facts["notes"])
        learner.saved = learner.seen
        learner._continues = learner._checkpoints is not None
        return learner

    def _is_batch(self, examples: Tensor, y: object) -> bool:
        """Whether a tuple is not one label but those of a batch, as a DataLoader gives them."""
        if not isinstance(y, tuple) or not examples.dim() or len(examples) != len(y):
            return False
        engine = self._now.engine
        axes = len(engine.kind.shape) if engine else max(examples.dim() - 1, 1)
        return examples.dim() == axes + 1

    def _packed(self) -> bytes:
        facts = saved.facts(self._settings, self._now, self.notes)
        return pack(facts, saved.tensors(self._now))

    def _save_checkpoint(self) -> Path:
        if self._checkpoints is None:
            raise InputError("this learner has no folder for checkpoints: say checkpoints='...'")
        if not self._continues and self._checkpoints.files():
            raise InputError(
                f"{self._checkpoints.folder} holds the checkpoints of another learner: go on with "
                f"that one by Learner.resume, or name another folder"
            )
        path = self._checkpoints.save(self._packed(), self.seen)
        self.saved, self._continues = self.seen, True
        return path

    def _engine(self, batch: Tensor, known: Labels) -> Engine:
        """The engine for examples such as these, the first that arrive."""
        kind = Kind(tuple(batch.shape[1:]), batch.dtype)
        engine = self._made(kind, len(known))
        if engine.outputs > len(known) or known.fixed or not self._settings.spare:
            return engine
        try:
            return self._made(kind, len(known) + self._settings.spare)
        except InputError:  # it cannot grow, and may never have to
            return engine

    def _made(self, kind: Kind, outputs: int) -> Engine:
        return Engine(self._module, self._settings, kind, outputs, self._transforms, self._device)

    def _ready(self) -> Engine:
        if self._now.engine is None:
            raise InputError("nothing was observed yet: call observe first")
        return self._now.engine

    def _look(self, x: Any) -> tuple[Tensor, bool]:
        """The logits of the known classes `[n, classes]`, and whether x was a batch."""
        found = tensor_of(x)
        with self._turns.one():
            engine, known = self._ready(), len(self._now.labels)
            several = found.dim() != len(engine.kind.shape)
            batch = batch_of(
                found, (len(found) if found.dim() else 0) if several else None, self._device
            )
            engine.kind.check(batch)
            return engine.logits(batch)[:, :known], several

    def _guesses(self, now: Moment, batch: Tensor) -> np.ndarray:
        """The classes, by number, that were predicted for a batch before it is learned."""
        if now.engine is None or not now.labels:
            return np.full(len(batch), -1)
        found: np.ndarray = now.engine.logits(batch)[:, : len(now.labels)].argmax(1).cpu().numpy()
        return found


def _as_many(predicted: Any, count: int, several: bool) -> list[Hashable]:
    """The labels that were predicted, if there is one for every example."""
    labels, batch = labels_of(predicted)
    if batch != several or len(labels) != count:
        raise InputError(
            f"predicted must be what predict gave: {f'{count} labels' if several else 'a label'}, "
            f"not {predicted!r:.60}"
        )
    return labels


def _device(device: torch.device | str) -> torch.device:
    """The device that is meant, if it is there."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        return device_named(str(device))  # "auto", or refused with those that there are
    return device_named(str(found)) if found.type == "cuda" else found
