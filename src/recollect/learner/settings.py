"""The settings of a learner, and the checks of its arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from recollect.core.modules import refuse_uncopyable
from recollect.core.packing import Packing
from recollect.core.targets import CLASS, Target
from recollect.core.transforms import Transform, Transforms
from recollect.errors import InputError, nearest
from recollect.learner import log
from recollect.learner.inputs.arriving import check_on_outlier
from recollect.learner.inputs.encoder import Encoder
from recollect.learner.inputs.examples import Kind
from recollect.learner.numbers import bytes_in, is_whole, plain
from recollect.learner.optimising import Optimising, check_lr
from recollect.methods import METHODS, ClosedForm, Field, Method, Spec, every_method, setup_of
from recollect.methods.options import check_hyperparameters
from recollect.train.checks import check_target
from recollect.train.compiled import NO_COMPILER, compiler_exists
from recollect.train.devices import in_half

SAVED = ("memory", "lr", "seed", "replay", "spare")
LATER = (
    "max_classes",
    "on_outlier",
    "pending",
    "expires",
)  # missing from files of older versions
PASSED_AGAIN = ("encoder", "transform", "replay_transform", "device", "precision", "compiled")
NOT_FUNCTIONS = ("device", "precision", "compiled")
LARGEST = 2**63
MOST_SPARE = 10_000
NUMBERS = (
    "memory",
    "lr",
    "first_lr",
    "seed",
    "replay",
    "spare",
    "max_classes",
    "pending",
    "expires",
)
MEMORY = 500
ANY = Spec(1, 1, 1, 1, 1, ())


@final
@dataclass(frozen=True)
class Settings:
    """The arguments of a learner that its steps depend on.

    `lr` is the current learning rate, and `first_lr` the one that the learner was created with.
    `first_memory` is the memory size that it was created with, or None if that has not changed.
    The encoder, the transforms, the device, the precision and `compiled` are not saved.
    """

    method: Method
    memory: int | str
    lr: float
    first_lr: float
    seed: int
    replay: int
    optimising: Optimising
    spare: int
    transform: Transform | None
    replay_transform: Transform | None
    device: torch.device
    max_classes: int
    on_outlier: str
    encoder: Encoder | None = None
    pending: int = 10_000
    expires: float | None = None
    first_memory: int | str | None = None
    target: Target = CLASS
    precision: str = "auto"
    compiled: bool = False

    def __post_init__(self) -> None:
        for name in NUMBERS:
            object.__setattr__(self, name, plain(getattr(self, name)))

    @property
    def half(self) -> bool:
        """Whether networks with convolutions compute in bfloat16."""
        return in_half(self.precision, self.device)

    def reader(self, network: nn.Module) -> nn.Module:
        """Return the module that takes the examples: the encoder, or the network without one."""
        return network if self.encoder is None else self.encoder.module

    def encoded(self, batch: Tensor, packing: Packing | None = None) -> Tensor:
        """Encode a batch `[n, ...]` with the encoder; without one, return it unchanged."""
        if self.encoder is None:
            return batch
        return self.encoder.features(batch.to(self.device), packing)

    def capacity(
        self, kind: Kind, outputs: int, dtype: torch.dtype, given: Sequence[Field] = (),
        target: Target = CLASS,
    ) -> int:  # fmt: skip
        """Compute how many examples fit into the memory.

        Args:
            kind: The shape and type of the examples.
            outputs: Number of logits.
            dtype: The type of the logits.
            given: Fields that are stored in addition to those of the method.
            target: The target, whose values are stored too.
        """
        if isinstance(self.memory, int):
            return self.memory
        replay = setup_of(self.method, ANY).replay
        if replay is None:
            return 0
        known = {"x": (kind.shape, kind.dtype), "y": target.layout(outputs)}
        layout = replay.layout(known, outputs, dtype, given)
        each = sum(torch.Size(shape).numel() * type_.itemsize for shape, type_ in layout.values())
        found = bytes_in(self.memory) // each
        if found < 1:
            raise InputError(
                f"a memory of {self.memory} is too small for one example of {each} bytes: "
                f"increase the memory"
            )
        return found

    def with_memory(self, memory: int | str) -> Settings:
        """Return the settings with another memory size; raise an `InputError` if it is invalid."""
        size = bytes_in(memory) if isinstance(memory, str) else memory
        if not is_whole(size) or size < 1:
            raise InputError(f"memory must be a whole number of at least 1, not {memory!r}")
        memory = plain(memory)
        first = self.memory if self.first_memory is None else self.first_memory
        return replace(self, memory=memory, first_memory=first)

    def custom_method(self) -> Method | None:
        """Return the method if it is not registered, so that a file cannot refer to it by name."""
        known = every_method().get(self.method.name) is type(self.method)
        return None if known else self.method

    def saved(self) -> dict[str, Any]:
        """Return the arguments that are saved as plain data, without the method."""
        plain = {name: getattr(self, name) for name in (*SAVED, *LATER, "first_lr")}
        if self.first_memory is not None:
            plain["first_memory"] = self.first_memory
        other = {} if self.target is CLASS else {"target": self.target.name}
        return plain | other | self.optimising.arguments

    def not_saved(self) -> dict[str, Any]:
        """Return the arguments that are not saved and must be passed again, without the method."""
        found = {name: getattr(self, name) for name in PASSED_AGAIN}
        return found | {"encoder": self.encoder and self.encoder.module}

    def transforms(self, packing: Packing | None = None) -> Transforms | None:
        """Return the augmentations of arriving and replayed batches, or None."""
        own = (self.transform, self.replay_transform)
        if own == (None, None):
            return None
        if packing is not None:
            own = tuple(each and packing.over(each) for each in own)  # type: ignore[assignment]
        return Transforms(*own)

    def check_same(self, other: Settings, folder: str | Path) -> None:
        """Raise an `InputError` if a learner saved in a folder has other settings."""
        mine, others = self._made_with(), other._made_with()
        # A default that the arguments do not state gives way to the saved value.
        for name in [each for each in mine | others if each not in self.optimising.assumed]:
            now, then = mine.get(name), others.get(name)
            if now != then:
                raise InputError(
                    f"the learner in {str(folder)!r} was created with {name}={then!r}, not "
                    f"{name}={now!r}: use the same value, or another folder"
                )

    def _made_with(self) -> dict[str, Any]:
        found = self.saved()
        found |= {"method": self.method, "lr": found.pop("first_lr"), **found.pop("numbers")}
        found["memory"] = found.pop("first_memory", self.memory)
        return found


def usable_memory(method: Method, memory: int | str | None) -> int | str:
    """Return the default memory if none is given, or if the method has no use for it."""
    if memory is not None and isinstance(method, Method) and method.replay is None:
        log.tell_unused_memory(method.title, memory)
        return MEMORY
    return MEMORY if memory is None else memory


def check_arguments(module: nn.Module, settings: Settings, window: int, *, fixed: bool) -> None:
    """Raise an `InputError` if an argument of `Learner` is invalid."""
    if not isinstance(module, nn.Module):
        raise InputError(f"the network must be a torch.nn.Module, not {type(module).__name__}")
    refuse_uncopyable(module, "network or a part of it")
    if next(module.parameters(), None) is None:
        raise InputError("the network has no parameters to train: pass one with trainable layers")
    method = settings.method
    trained = any(weight.requires_grad for weight in module.parameters())
    if not trained and not isinstance(method, ClosedForm):
        raise InputError(
            "all parameters of the network are frozen: set requires_grad=True at least for those "
            "of its last layer"
        )
    if not isinstance(method, Method):
        raise InputError(
            f"the method must be one of recollect.methods, such as DERpp(), not {method!r}"
        )
    check_hyperparameters(method)
    if not _for_streams(type(method)):
        fit = [m.title for m in METHODS.values() if _for_streams(m)]
        raise InputError(
            f"{method.title} needs task boundaries, task ids or all data at once, which a stream "
            f"does not have: choose one of {', '.join(fit)}"
        )
    check_target(method, setup_of(method, ANY).policy, settings.target)
    if not fixed and _needs_classes(method):
        raise InputError(
            f"{method.title} divides its memory among the classes: list all classes (classes=[...])"
        )
    memory = settings.memory
    numbers = {
        "memory": bytes_in(memory) if isinstance(memory, str) else memory,
        "replay": settings.replay,
        "window": window,
        "max_classes": settings.max_classes,
        "pending": settings.pending,
    }
    for name, number in numbers.items():
        if not is_whole(number) or number < 1:
            raise InputError(f"{name} must be a whole number of at least 1, not {number!r}")
    if not is_whole(settings.spare) or not 0 <= settings.spare <= MOST_SPARE:
        raise InputError(f"spare must be a whole number in 0..{MOST_SPARE}, not {settings.spare!r}")
    if not is_whole(settings.seed) or not 0 <= settings.seed < LARGEST:
        raise InputError(f"the seed must be a whole number in 0..2^63 - 1, not {settings.seed!r}")
    for name, function in settings.not_saved().items():
        if name not in NOT_FUNCTIONS and function is not None and not callable(function):
            raise InputError(f"{name} must be a function that takes a batch, not {function!r}")
    expires = settings.expires
    if expires is not None and not (isinstance(expires, int | float) and 0 < expires < math.inf):
        raise InputError(f"expires must be a number of seconds above 0, or None, not {expires!r}")
    in_half(settings.precision, settings.device)
    check_lr(settings.lr)
    check_on_outlier(settings.on_outlier)
    if not isinstance(settings.compiled, bool):
        raise InputError(f"compiled must be True or False, not {settings.compiled!r}")
    if settings.compiled and not compiler_exists():
        raise InputError(NO_COMPILER)


def check_passed_again(arguments: Mapping[str, object], function: str) -> None:
    """Raise a `TypeError` for an argument that `Learner.load` or `Learner.resume` does not have."""
    for name in arguments:
        if name in PASSED_AGAIN and function == "resume":
            continue
        known = ("method", "checkpoints", "checkpoint_every", "keep", *PASSED_AGAIN)
        near = nearest(name, known, cutoff=0.7)
        hint = f": did you mean {near!r}?" if near else ""
        later = {"lr": "assign learner.lr", "memory": "call learner.resize(...)"}
        change = f"; to change {name}, {later[name]} afterwards" if name in later else ""
        raise TypeError(
            f"Learner.{function} has no argument {name!r}{hint} (it takes {', '.join(known)}; all "
            f"other settings are saved in the file{change})"
        )


def _needs_classes(method: Method) -> bool:
    policy = setup_of(method, ANY).policy
    if policy is None or not policy.uses_labels:
        return False
    return not getattr(policy, "classes_may_grow", False)


def _for_streams(method: type[Method]) -> bool:
    return not (method.needs.boundaries or method.needs.task_id or method.needs.all_data)
