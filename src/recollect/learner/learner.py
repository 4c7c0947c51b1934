"""A network that learns from a stream of examples, and can predict at any time."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack, final

import torch
from torch import nn

from recollect.core.targets import target_named
from recollect.core.transforms import Transform
from recollect.files import unpack
from recollect.learner import snapshot
from recollect.learner.answers import USUAL_NUMBERS, empty_answers
from recollect.learner.arriving import arriving, check_on_outlier
from recollect.learner.checkpoints import Checkpoints, has_versions, newest
from recollect.learner.encoder import encoder_of
from recollect.learner.examples import device_of
from recollect.learner.ids import named_as
from recollect.learner.image import reading
from recollect.learner.learning import Learning
from recollect.learner.optimising import Numbers, Optimising
from recollect.learner.parts import pair_of
from recollect.learner.settings import Settings, check_arguments, check_passed_again
from recollect.methods import Method

__all__ = ["Learner"]


@final
class Learner(Learning):
    """Wraps a network and a method, learns from a stream, and predicts at any time.

    `memory` is a number of examples or a size ("64 MB"); `replay` is how many of them each draw
    of a step takes. Optimisers, `schedule` and numbers such as `momentum` or `clip` have the names
    that they have in `recollect.run`; a schedule runs over `schedule_steps` steps. Any other
    optimiser of torch's takes `optimiser_options`. `lr` may be set at any time.

    With `target="regression"`, y is a number or several, scaled as they come (`clip` is 5); with
    "labels", a set of labels. Otherwise labels are any hashable values. A new one gets an unused
    output of the network; when there is none, the last linear layer gets more, with `spare` of them
    unused. Unused outputs are trained like those of classes that do not occur. With `classes`,
    which lists all labels there will be, no output is added; without, more than `max_classes` are
    refused. Examples that are not finite, or far outside of what the stream has shown, are left out
    and counted (`on_outlier="skip"`), or raise an error ("raise"); "learn" accepts finite ones.

    An example is a tensor, or a mapping or tuple of several, which the network gets as keyword or
    positional arguments. An `encoder` is frozen; its features are what is learned and stored.
    `transform` and `replay_transform` change the batches that are learned and replayed, but not
    what is stored or predicted. With a folder for `checkpoints`, the state is saved there after
    every `checkpoint_every` steps, in the background, and the newest `keep` files stay (3 unless
    the folder was made with another number). No other learner may use the folder until this one is
    closed, by `close`, `with` or garbage collection. Of predictions with ids, the last `pending`
    wait for a `label`, and none for more than `expires` seconds.

    With `drift`, "ADWIN" or another of River's detectors, it warns when its errors increase: see
    `alarms`. It may be set at any time.

    One thread may observe while others predict, without waiting for it. The network that is passed
    is copied.

    >>> import numpy as np
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
        nesterov: bool = False,
        schedule: str = "constant",
        schedule_steps: int | None = None,
        classes: Sequence[Hashable] | None = None,
        encoder: nn.Module | None = None,
        transform: Transform | None = None,
        replay_transform: Transform | None = None,
        device: torch.device | str = "cpu",
        spare: int = 10,
        window: int = 1000,
        max_classes: int = 1000,
        on_outlier: str = "skip",
        checkpoints: str | Path | None = None,
        checkpoint_every: int | None = None,
        keep: int | None = None,
        drift: Any = None,
        pending: int = 10_000,
        expires: float | None = None,
        target: str = "class",
        **numbers: Unpack[Numbers],
    ) -> None:
        optimising = Optimising.of(optimiser, optimiser_options, nesterov, schedule, schedule_steps,
                                   {**USUAL_NUMBERS.get(target, {}), **numbers})  # fmt: skip
        settings = Settings(
            method, memory, lr, lr, seed, replay, optimising, spare, transform, replay_transform,
            device_of(device), max_classes, on_outlier, encoder_of(encoder, device_of(device)),
            pending, expires, target=target_named(target),
        )  # fmt: skip
        check_arguments(module, settings, window, fixed=classes is not None)
        labels = empty_answers(settings.target, classes)
        super().__init__(copy.deepcopy(module), settings, labels, window)
        self.drift = drift
        self._use(Checkpoints.of(checkpoints, checkpoint_every, keep))

    def observe(
        self, x: Any, y: Any, *, predicted: Any = None, on_outlier: str | None = None,
        ids: Any = None, source: str | None = None, weight: Any = None,
    ) -> float:  # fmt: skip
        """Learn from one example and its label, or from a batch and a list of labels; the loss.

        `metrics` counts what it predicts for them first, or `predicted`: what `predict` gave for
        them earlier, which saves a forward pass (None in a list: there was no prediction).

        `ids` are texts or whole numbers, one for every example (None: it has none), by which
        `forget` removes what is stored of them; `remembered` lists them, with the `source`.
        `weight`, a number or one for each, multiplies the loss of examples, now and whenever they
        are replayed; those with a weight of 0 are left out.

        It is one step, whatever the size of the batch. Examples that cannot be trusted are left
        out, as `on_outlier` says (here or when the learner was made); if nothing is left, there is
        no step and the loss is NaN. What else cannot be learned from raises an `InputError`, and
        a step after which something is not finite a `DivergedError`: in either case, and if the
        process is interrupted here, the learner is exactly what it was. If a checkpoint could not
        be written, the next call raises a `DataError`, after its step.
        """
        self._check_open()
        how = self._settings.on_outlier if on_outlier is None else on_outlier
        check_on_outlier(how)
        kind, known = self._now.engine and self._now.engine.kind.arriving, self._now.labels
        reader = self._settings.reader(self._module)
        arrived = arriving(x, y, kind, how, reader, known, weight)
        named = named_as(ids, source, len(arrived.labels), arrived.several)
        with self._lock:
            loss = self._learn(arrived, predicted, how, named)
            if not math.isnan(loss):
                self._checkpoint_if_due()
        return loss

    def follow(self, stream: Iterable[Any]) -> Iterator[float]:
        """Learn from every (x, y) of a stream, such as a DataLoader; the losses, as they come.

        An item may also be a mapping with the labels as `labels` and the example as the rest.

        >>> from recollect import ER, MLP
        >>> learner = Learner(MLP(2, 1), ER())
        >>> len([loss for loss in learner.follow([([1.0, 0.0], "a"), ([0.0, 1.0], "b")])])
        2
        """
        for item in stream:
            yield self.observe(*pair_of(item))

    @classmethod
    def load(
        cls,
        path: str | Path,
        module: nn.Module,
        *,
        method: Method | None = None,
        encoder: nn.Module | None = None,
        transform: Transform | None = None,
        replay_transform: Transform | None = None,
        device: torch.device | str = "cpu",
        checkpoints: str | Path | None = None,
        checkpoint_every: int | None = None,
        keep: int | None = None,
    ) -> Learner:
        """The learner that was saved, in a network of the same architecture.

        It continues as if it had never stopped. The weights of `module` do not matter. A `method`
        that is not the library's, encoder and transforms are passed again: a file has no code.

        An older version with its folder as `checkpoints` is a rollback: with the first checkpoint
        from there, what came after that version is no longer resumed. As many files stay as the
        folder was made with, unless `keep` says otherwise.
        """
        extras = {
            "encoder": encoder, "transform": transform, "replay_transform": replay_transform,
            "device": device,
        }  # fmt: skip
        with Checkpoints.of(checkpoints, checkpoint_every, keep).handed_over() as owner:
            learner = cls._read(Path(path), module, method, extras, owner)
            learner._recover_version(Path(path))
            return learner

    @classmethod
    def resume(
        cls, folder: str | Path, module: nn.Module, *, method: Method | None = None,
        checkpoints: str | Path | None = None, checkpoint_every: int | None = None,
        keep: int | None = None, **extras: Any,
    ) -> Learner | None:  # fmt: skip
        """The learner of the newest checkpoint in a folder, or None if there is none.

        A file that is damaged is passed over for the one before, which is logged. Checkpoints go
        on in the same folder; the other arguments are those of `load`.
        """
        check_passed_again(extras)
        if not has_versions(Path(folder)):
            return None
        # Locked before it is read: nobody saves there between the two.
        checkpoints = checkpoints or folder
        with Checkpoints.of(checkpoints, checkpoint_every, keep).handed_over() as owner:
            read = partial(cls._read, module=module, method=method, extras=extras, owner=owner)
            learner = newest(Path(folder), read)
            if learner is None:  # it has gone meanwhile
                owner.release()
            else:
                learner._recover(Path(folder), learn=True)
            return learner

    def resumed(self, folder: str | Path) -> Learner | None:
        """This learner as the newest checkpoint in a folder has it, or None if there is none.

        A checkpoint that was made with other arguments (method, memory, lr, ...) is refused.
        """
        method, extras = self._settings.custom_method(), self._settings.not_saved()
        found = Learner.resume(folder, self._module, method=method, **extras)
        if found:
            with found._checkpoints.handed_over():
                self._settings.check_same(found._settings, folder)
            found.drift = self.drift or found.drift
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            rest = self._module, self.method, self._settings.not_saved()
            return Learner._from_bytes, (self._packed(), *rest)

    @classmethod
    def _from_bytes(
        cls, data: bytes, module: nn.Module, method: Method | None, extras: Mapping[str, Any]
    ) -> Learner:
        facts, tensors = unpack(data)
        with snapshot.as_data_error():
            snapshot.check_facts(facts, tensors)
            learner = cls(module, **snapshot.arguments(facts, method), **extras)
            learner._settings = snapshot.as_made(learner._settings, facts)
            learner._now = snapshot.restored(facts, tensors, learner._module, learner._settings)
            learner.notes = snapshot.notes_in(facts, tensors)
        learner._checkpoints.note_saved(learner.seen)
        return learner

    @classmethod
    def _read(
        cls, path: Path, module: nn.Module, method: Method | None, extras: Mapping[str, Any],
        owner: Checkpoints,
    ) -> Learner:  # fmt: skip
        with reading(path):
            learner = cls._from_bytes(path.read_bytes(), module, method, extras)
        owner.continue_from(path, learner.seen)
        learner._use(owner)
        return learner
