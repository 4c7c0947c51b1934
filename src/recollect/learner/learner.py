"""The `Learner`: online learning from a stream, with predictions at any time."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack, final

import torch
from torch import nn

from recollect.core.targets import target_named
from recollect.core.transforms import Transform
from recollect.files import unpack
from recollect.learner.inputs.encoder import encoder_of
from recollect.learner.inputs.examples import device_of
from recollect.learner.learning import Learning
from recollect.learner.optimising import Numbers, Optimising, check_names
from recollect.learner.saving import snapshot
from recollect.learner.saving.checkpoints import Checkpoints, has_versions, newest
from recollect.learner.saving.image import reading
from recollect.learner.settings import Settings, check_arguments, check_passed_again, usable_memory
from recollect.learner.targets.answers import DEFAULT_NUMBERS, empty_answers
from recollect.methods import ClosedForm, Method
from recollect.train.devices import load_libraries


@final
class Learner(Learning):
    """Train a network online, on a stream of examples, and predict at any time.

    New classes may arrive at any time. A new label is assigned an unused output of the network;
    when none is left, the last linear layer is extended. An example is a tensor, or a mapping or
    tuple of tensors that the network takes as keyword or positional arguments.

    One thread may call `observe` while other threads call `predict`; predictions do not wait for a
    step. `lr`, `drift` and `notes` may be assigned at any time.

    Args:
        module: The network. It is copied, so the original is not trained.
        method: The continual learning method, such as `DERpp(alpha=0.1, beta=0.5)`.
        memory: Size of the replay memory: a number of examples, or bytes such as "64 MB"
            (default 500 examples). Without effect, and a warning in the log, if the method stores
            nothing.
        lr: The learning rate (default 0.03).
        seed: Seed of the learner's random numbers (default 0).
        replay: Number of stored examples in each draw from the memory, at every step (default 32).
        optimiser: "SGD" (default), "Adam", "AdamW", or the name of another one in `torch.optim`.
        optimiser_options: Arguments passed to an optimiser of `torch.optim`.
        nesterov: Whether SGD uses Nesterov momentum (default False).
        schedule: The learning rate schedule: "constant" (default), "step" or "cosine".
        schedule_steps: Number of steps over which the schedule runs.
        classes: All labels there will be. No output is ever added, and other labels are refused.
            By default, new labels may arrive at any time.
        encoder: A frozen network in front of `module`. Its features are learned and stored.
        transform: Augmentation of the batches that arrive; the memory stores the originals.
        replay_transform: Augmentation of the batches that are replayed.
        device: The device to compute on (default "cpu"), such as "cuda"; "auto" selects one.
        spare: Number of unused outputs added when the last layer is extended (default 10).
        window: Number of latest examples for the recent values of `metrics` (default 1000).
        max_classes: Largest number of classes (default 1000); a label beyond it is refused.
        on_outlier: What to do with examples that are not finite or far outside the range of the
            stream so far: "skip" (default) leaves them out and counts them, "raise" raises an
            `InputError`, and "learn" accepts them if they are finite.
        checkpoints: Folder for checkpoints. It is locked until the learner is closed (`close`,
            `with` or garbage collection).
        checkpoint_every: Number of steps between checkpoints, which are saved in the background; by
            default, only `checkpoint` saves.
        keep: Number of checkpoints to retain; older ones are deleted. By default, the number that
            the folder was created with, or 3.
        drift: A River drift detector or its name, such as "ADWIN", that monitors the error; see
            `alarms`.
        pending: Largest number of predictions with ids that wait for a `label` (default 10,000).
        expires: Seconds after which a waiting prediction is discarded; by default never.
        target: What is predicted: "class" (default), "regression" (one or several numbers,
            standardised internally) or "labels" (a set of labels per example).
        precision: Precision of a network with convolutions: "float32" or "bf16", which is faster;
            by default "auto", bf16 on a GPU and float32 on a CPU.
        compiled: Whether to compile steps of frequent batch sizes with torch's compiler (default
            False).
        **numbers: `momentum`, `weight_decay`, `beta1`, `beta2`, `eps`, `clip` (largest gradient
            norm; default 10, or 5 for regression), `warmup` (steps), `decay_every` (steps) and
            `decay_factor`, as in `recollect.run`; see `Numbers`.

    Raises:
        InputError: An argument is invalid, or another learner uses the checkpoint folder.

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

    _loading = False  # a saved learner may have gone without what a new one is refused for

    def __init__(
        self,
        module: nn.Module,
        method: Method,
        *,
        memory: int | str | None = None,
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
        precision: str = "auto",
        compiled: bool = False,
        **numbers: Unpack[Numbers],
    ) -> None:
        check_names(numbers, Learner)
        defaults = {} if self._loading else DEFAULT_NUMBERS.get(target, {})
        optimising = Optimising.of(optimiser, optimiser_options, nesterov, schedule, schedule_steps,
                                   numbers, defaults)  # fmt: skip
        settings = Settings(
            method, usable_memory(method, memory), lr, lr, seed, replay, optimising, spare,
            transform, replay_transform,
            device_of(device), max_classes, on_outlier, encoder_of(encoder, device_of(device)),
            pending, expires, target=target_named(target), precision=precision,
            compiled=compiled,
        )  # fmt: skip
        check_arguments(module, settings, window, fixed=classes is not None)
        grows = classes is None and target != "regression" and not isinstance(method, ClosedForm)
        if grows and not self._loading:
            optimising.check_growth()
        load_libraries(settings.device)  # so that the first step does not wait for it
        labels = empty_answers(settings.target, classes)
        super().__init__(copy.deepcopy(module), settings, labels, window)
        self.drift = drift
        self._use(Checkpoints.of(checkpoints, checkpoint_every, keep))

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
        precision: str = "auto",
        compiled: bool = False,
        checkpoints: str | Path | None = None,
        checkpoint_every: int | None = None,
        keep: int | None = None,
        **others: Any,
    ) -> Learner:
        """Load a saved learner from a file; it continues exactly where it was saved.

        A file contains no code: pass custom methods, the encoder and the transforms again. To roll
        back, load an older version with its own folder as `checkpoints`: once a checkpoint has been
        saved from there, `resume` no longer uses the versions that were newer.

        Args:
            path: The file that `save` or `checkpoint` wrote.
            module: A network of the same architecture; its weights are overwritten in a copy.
            method: The method, if it is not one of the library's.
            encoder: The encoder that the learner was created with.
            transform: The augmentation of the batches that arrive.
            replay_transform: The augmentation of the batches that are replayed.
            device: The device to compute on (default "cpu").
            precision: The precision of a network with convolutions (default "auto").
            compiled: Whether to compile steps of frequent batch sizes (default False).
            checkpoints: Folder for further checkpoints; by default none are saved.
            checkpoint_every: Number of steps between checkpoints.
            keep: Number of checkpoints to retain; by default as many as before.
            **others: Refused: all other settings are saved in the file.

        Raises:
            DataError: The file cannot be read or is damaged.
            InputError: The network, method or encoder does not match the file.
        """
        check_passed_again(others, "load")
        extras = {
            "encoder": encoder, "transform": transform, "replay_transform": replay_transform,
            "device": device, "precision": precision, "compiled": compiled,
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
        """Load the newest checkpoint of a folder, or return None if the folder has none.

        A damaged file is skipped with a warning in the log, and the previous one is loaded.

        Args:
            folder: The folder of checkpoints.
            module: A network of the same architecture.
            method: The method, if it is not one of the library's.
            checkpoints: Folder for further checkpoints; by default the same one.
            checkpoint_every: Number of steps between checkpoints.
            keep: Number of checkpoints to retain; by default as many as before.
            **extras: `encoder`, `transform`, `replay_transform`, `device`, `precision`,
                `compiled`; see `load`.

        Raises:
            DataError: All checkpoints are damaged.
            InputError: Another learner uses the folder, or an argument does not match the file.
        """
        check_passed_again(extras, "resume")
        if not has_versions(Path(folder)):
            return None
        # Lock the folder before reading, so that no other learner saves there in between.
        checkpoints = checkpoints or folder
        with Checkpoints.of(checkpoints, checkpoint_every, keep).handed_over() as owner:
            read = partial(cls._read, module=module, method=method, extras=extras, owner=owner)
            learner = newest(Path(folder), read)
            if learner is None:  # the files were deleted in the meantime
                owner.release()
            else:
                learner._recover(Path(folder), learn=True)
            return learner

    def resumed(self, folder: str | Path) -> Learner | None:
        """Load the newest checkpoint of a folder with this learner's network and arguments.

        Args:
            folder: The folder of checkpoints.

        Returns:
            The loaded learner, or None if the folder has no checkpoint.

        Raises:
            InputError: The checkpoint was saved with other arguments (method, memory, lr, ...).
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
            learner = cls.__new__(cls)
            learner._loading = True
            Learner.__init__(learner, module, **snapshot.arguments(facts, method), **extras)
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
