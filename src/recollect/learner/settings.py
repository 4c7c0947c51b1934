"""The settings of a learner, and what is refused among them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from recollect.core.packing import Packing
from recollect.core.transforms import Transform, Transforms
from recollect.errors import InputError
from recollect.learner.arriving import check_on_outlier
from recollect.learner.encoder import Encoder
from recollect.learner.examples import Kind
from recollect.learner.optimising import Optimising, check_lr
from recollect.methods import METHODS, ClosedForm, Field, Method, Spec, every_method, setup_of
from recollect.methods.checked import check_hyperparameters

__all__ = [
    "LARGEST",
    "LATER",
    "SAVED",
    "Settings",
    "bytes_in",
    "check_arguments",
    "check_passed_again",
    "is_whole",
]

SAVED = ("memory", "lr", "seed", "replay", "spare")
LATER = (
    "max_classes",
    "on_outlier",
    "pending",
    "expires",
)  # files that were written before do not have them
PASSED_AGAIN = ("encoder", "transform", "replay_transform", "device")
LARGEST = 2**63
MOST_SPARE = 10_000
ANY = Spec(1, 1, 1, 1, 1, ())
UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


@final
@dataclass(frozen=True)
class Settings:
    """The arguments of a learner that its steps depend on.

    `lr` is the learning rate now, and `first_lr` the one that the learner was made with; likewise
    `first_memory`, which is None as long as the memory's size was not changed. Encoder,
    transforms and device are not saved.
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

    def reader(self, network: nn.Module) -> nn.Module:
        """What reads examples as they arrive: the encoder, or else the network."""
        return network if self.encoder is None else self.encoder.module

    def encoded(self, batch: Tensor, packing: Packing | None = None) -> Tensor:
        """What the network learns from: a batch `[n, ...]` as it arrived, or its features."""
        return batch if self.encoder is None else self.encoder.features(batch, packing)

    def capacity(
        self, kind: Kind, outputs: int, dtype: torch.dtype, given: Sequence[Field] = ()
    ) -> int:
        """How many examples the memory stores, of this kind and with so many logits.

        Some fields are `given` besides those that the method stores.
        """
        if isinstance(self.memory, int):
            return self.memory
        replay = setup_of(self.method, ANY).replay
        if replay is None:
            return 0
        layout = replay.layout((kind.shape, kind.dtype), outputs, dtype, given)
        each = sum(torch.Size(shape).numel() * type_.itemsize for shape, type_ in layout.values())
        found = bytes_in(self.memory) // each
        if found < 1:
            raise InputError(
                f"a memory of {self.memory} has no room for an example of {each} bytes"
            )
        return found

    def custom_method(self) -> Method | None:
        """The method if it is not the library's, so that a file cannot name it."""
        known = every_method().get(self.method.name) is type(self.method)
        return None if known else self.method

    def saved(self) -> dict[str, Any]:
        """The arguments that are saved as plain data, besides the method."""
        plain = {name: getattr(self, name) for name in (*SAVED, *LATER, "first_lr")}
        if self.first_memory is not None:
            plain["first_memory"] = self.first_memory
        return plain | self.optimising.arguments

    def not_saved(self) -> dict[str, Any]:
        """The arguments that are not saved, and passed again, besides the method."""
        found = {name: getattr(self, name) for name in PASSED_AGAIN}
        return found | {"encoder": self.encoder and self.encoder.module}

    def transforms(self, packing: Packing | None = None) -> Transforms | None:
        """What changes the batches that arrive and are replayed, if anything does."""
        own = (self.transform, self.replay_transform)
        if own == (None, None):
            return None
        if packing is not None:
            own = tuple(each and packing.over(each) for each in own)  # type: ignore[assignment]
        return Transforms(*own)

    def check_same(self, other: Settings, folder: str | Path) -> None:
        """Refuse a learner that was saved in a folder with other settings than these."""
        mine, others = self._made_with(), other._made_with()
        for name in mine | others:
            now, then = mine.get(name), others.get(name)
            if now != then:
                raise InputError(
                    f"the learner in {folder} was made with {name}={then!r}, not {name}={now!r}"
                )

    def _made_with(self) -> dict[str, Any]:
        found = self.saved()
        found |= {"method": self.method, "lr": found.pop("first_lr"), **found.pop("numbers")}
        found["memory"] = found.pop("first_memory", self.memory)
        return found


def bytes_in(size: str) -> int:
    """How many bytes a size with a unit is.

    >>> bytes_in("64 MB"), bytes_in("1.5 GiB"), bytes_in("200kb")
    (64000000, 1610612736, 200000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", size)
    if not found or found[2].lower() not in UNITS:
        raise InputError(
            f"a memory is a number of examples or a size such as '64 MB', not {size!r}"
        )
    return int(float(found[1]) * UNITS[found[2].lower()])


def check_arguments(module: nn.Module, settings: Settings, window: int, *, fixed: bool) -> None:
    """Refuse arguments that a learner cannot be made with."""
    if not isinstance(module, nn.Module):
        raise InputError(f"the network must be a torch.nn.Module, not {type(module).__name__}")
    if next(module.parameters(), None) is None:
        raise InputError("the network has no weights, so there is nothing that could learn")
    method = settings.method
    trained = any(weight.requires_grad for weight in module.parameters())
    if not trained and not isinstance(method, ClosedForm):
        raise InputError(
            "all weights of the network are frozen, so there is nothing that could learn: leave "
            "those of its last layer with requires_grad=True"
        )
    if not isinstance(method, Method):
        raise InputError(
            f"the method must be one of recollect.methods, such as DERpp(), not {method!r}"
        )
    check_hyperparameters(method)
    if not _for_streams(type(method)):
        fit = [m.title for m in METHODS.values() if _for_streams(m)]
        raise InputError(
            f"{method.title} needs to be told where tasks begin and end, and a stream does not "
            f"say; these do not: {', '.join(fit)}"
        )
    if not fixed and _needs_classes(method):
        raise InputError(
            f"{method.title} shares its memory among the classes: say which there will be "
            f"(classes=[...])"
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
        if name != "device" and function is not None and not callable(function):
            raise InputError(f"{name} must be a function of a batch, not {function!r}")
    expires = settings.expires
    if expires is not None and not (isinstance(expires, int | float) and 0 < expires < math.inf):
        raise InputError(f"expires must be a number of seconds above 0, or None, not {expires!r}")
    check_lr(settings.lr)
    check_on_outlier(settings.on_outlier)


def check_passed_again(arguments: Mapping[str, object]) -> None:
    """Refuse arguments of `Learner.resume` that are not passed again, before a file is read."""
    for name in arguments:
        if name not in PASSED_AGAIN:
            raise TypeError(
                f"Learner.resume has no argument {name!r}: besides method, checkpoints, "
                f"checkpoint_every and keep, it takes {', '.join(PASSED_AGAIN)}; all else is saved"
            )


def is_whole(number: object) -> bool:
    """Whether something is an int; True and False are not."""
    return isinstance(number, int) and not isinstance(number, bool)


def _needs_classes(method: Method) -> bool:
    policy = setup_of(method, ANY).policy
    if policy is None or not policy.uses_labels:
        return False
    return not getattr(policy, "classes_may_grow", False)


def _for_streams(method: type[Method]) -> bool:
    return not (method.needs.boundaries or method.needs.task_id or method.needs.all_data)
