"""Features of a stream's examples by a pre-trained encoder, computed once and cached on disk."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from recollect.core.images import as_input
from recollect.core.packing import Packing
from recollect.core.source import code_of, source_of
from recollect.errors import DataError, InputError
from recollect.files import pack, unpack, write_bytes
from recollect.streams import Stream, TaskStream, benchmark
from recollect.streams.data.files import cache_folder, is_file
from recollect.streams.reading import with_progress
from recollect.train.devices import device_named
from recollect.train.fingerprint import NetworkFacts

__all__ = ["encode", "features_of"]

ROWS = 500  # examples in a file of the cache: what an interrupted call loses at most
LETTERS = 32
SEEN_BY_SEED = ("rotated", "permuted")


def encode(
    stream: str | Stream,
    encoder: nn.Module,
    *,
    transform: Callable[[Any], Any] | None = None,
    batch: int = 100,
    device: str = "auto",
    folder: Path | str | None = None,
    data_dir: Path | str | None = None,
    name: str | None = None,
) -> TaskStream:
    """A stream of the features that a frozen encoder gives for the examples of a stream.

    Tasks, classes, their order and what is tested stay the same, so any method trains on it, as a
    head on the encoder. The encoder is in evaluation mode and never trained.

    Features are computed once and stored in the cache folder, under fingerprints of the encoder,
    the transform and the examples. A call that was interrupted continues where it stopped.

    Args:
        stream: A benchmark's name, or a stream with plain examples, such as `from_arrays` makes.
        encoder: Gives a tensor of features `[n, ...]` for a batch of examples `[n, ...]`.
        transform: Changes a batch before the encoder sees it, as resizing or normalising it does.
            It gets images as numbers from 0 to 1; the stream's crops, flips, normalisation and
            transforms are not applied. Where an example has several tensors, it gets them all.
        batch: How many examples are encoded at once.
        device: Where the encoder computes; a GPU if there is one.
        folder: Where features are stored, instead of in the cache folder.
        data_dir: Where the data of a benchmark lie.
        name: What to call the stream; the names of the stream and of the encoder's class unless
            it is given.

    >>> from tempfile import TemporaryDirectory
    >>> encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU())
    >>> with TemporaryDirectory() as cache:
    ...     features = encode("seq-digits", encoder, folder=cache)
    >>> features.name, features.shape, features.tasks
    ('seq-digits+Sequential', (20,), 5)
    """
    found = benchmark(stream).stream(folder=data_dir) if isinstance(stream, str) else stream
    _check(found, encoder, batch)
    assert isinstance(found, TaskStream)
    work = Encoding.of(encoder, transform, batch, device_named(device), folder, found.packing)
    train_x = work.features(found.train_x, f"{found.name}, training examples")
    same = found.test_x is found.train_x  # as in a validation split
    test_x = train_x if same else work.features(found.test_x, f"{found.name}, test examples")
    if train_x.shape[1:] != test_x.shape[1:]:
        raise InputError("the encoder gives features of one shape in training, and another to test")
    return replace(
        found,
        name=name or f"{found.name}+{type(encoder).__name__}",
        train_x=train_x,
        test_x=test_x,
        images=None,
        packing=None,
    )


@torch.no_grad()
def features_of(
    encoder: nn.Module,
    x: Tensor,
    packing: Packing | None = None,
    dtype: torch.dtype = torch.float32,
    transform: Callable[[Any], Any] | None = None,
) -> Tensor:
    """What an encoder in evaluation mode gives for inputs `[n, ...]`; refused if unusable.

    Rows of a packing are unpacked, and transformed, before it sees them.
    """
    given: Any = x if packing is None else packing.given(packing.inputs(x, dtype))
    given = given if transform is None else transform(given)
    try:
        if packing is None:
            found: object = encoder(given)
        else:
            found = encoder(**given) if packing.named else encoder(*given)
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:  # it is the user's: there is no list of what it may raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        taken: object = packing or f"examples of shape {list(x.shape[1:])}"
        raise InputError(f"the encoder cannot take {taken}: {reason}") from error
    if not isinstance(found, Tensor) or found.dim() < 2 or len(found) != len(x):
        what = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(
            f"the encoder must give a tensor of features [n, ...] for n examples, not {what} for "
            f"{len(x)}: wrap it in a module that does"
        )
    found = found.detach().float() if found.dtype == torch.float64 else found.detach()
    if not found.is_floating_point() or not bool(found.isfinite().all()):
        raise InputError(
            "the encoder gives features that are not finite numbers: look at its weights, and at "
            "how its inputs are scaled"
        )
    return found


@final
@dataclass(frozen=True)
class Encoding:
    """An encoder at work: its copy on a device, and the folder with what it has computed."""

    encoder: nn.Module
    transform: Callable[[Any], Any] | None
    batch: int
    device: torch.device
    folder: Path
    dtype: torch.dtype
    packing: Packing | None = None
    failed: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        encoder: nn.Module,
        transform: Callable[[Any], Any] | None,
        batch: int,
        device: torch.device,
        folder: Path | str | None,
        packing: Packing | None = None,
    ) -> Encoding:
        """A copy of an encoder in evaluation mode; its files have a folder of their own."""
        facts = NetworkFacts.of(encoder)
        parts = [facts.fingerprint, source_of(transform), *sorted(map(code_of, facts.classes))]
        parts += [str(packing)] if packing else []
        key = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:LETTERS]
        home = Path(folder) if folder is not None else cache_folder() / "features"
        module = copy.deepcopy(encoder).eval().to(device)
        # Convolutions on a CPU are twice as fast with channels last.
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        floats = (p.dtype for p in module.parameters() if p.is_floating_point())
        dtype = next(floats, torch.float32)
        return cls(module, transform, batch, device, home / key, dtype, packing)

    def features(self, x: Tensor, what: str) -> Tensor:
        """The features `[N, ...]` of examples `[N, ...]`, read from files or computed."""
        found: Tensor | None = None
        starts = with_progress(range(0, len(x), ROWS), len(x), what, "encoding", ROWS)
        for start in starts:
            rows = x[start : start + ROWS]
            part = self._stored_or_computed(rows)
            if found is None:
                found = part.new_empty(len(x), *part.shape[1:])
            if part.shape[1:] != found.shape[1:]:
                raise InputError("the encoder gives features of different shapes for its examples")
            found[start : start + ROWS] = part
        assert found is not None, "a stream has examples"
        return found

    def _stored_or_computed(self, x: Tensor) -> Tensor:
        name = hashlib.sha256(f"{x.dtype} {tuple(x.shape)} ".encode())
        name.update(x.contiguous().flatten().view(torch.uint8).numpy().data)
        path = self.folder / f"{name.hexdigest()[:LETTERS]}.safetensors"
        if is_file(path):
            with suppress(DataError, OSError, KeyError):  # a damaged file is computed anew
                features = unpack(path.read_bytes())[1]["features"]
                if len(features) == len(x):
                    return features
        found = torch.cat([self._computed(part) for part in x.split(self.batch)])  # type: ignore[no-untyped-call]
        try:
            write_bytes(path, pack({"rows": len(x)}, {"features": found}))
        except OSError as error:
            if not self.failed:  # once is enough
                self.failed.append(str(error))
                warnings.warn(
                    f"features cannot be stored in {self.folder} ({error.strerror or error}), so "
                    f"they will be computed again: give another folder",
                    stacklevel=5,
                )
        return found

    def _computed(self, x: Tensor) -> Tensor:
        if self.packing is not None:
            rows = x.to(self.device)
            found = features_of(self.encoder, rows, self.packing, self.dtype, self.transform)
            return found.contiguous().cpu()
        x = as_input(x.to(self.device), self.dtype)
        x = x.clone() if self.transform is None else self.transform(x)
        if x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return features_of(self.encoder, x).contiguous().cpu()


def _check(stream: object, encoder: object, batch: int) -> None:
    if not isinstance(stream, TaskStream):
        raise InputError(
            f"features can be computed once for a stream of recollect.from_arrays or of a "
            f"sequential benchmark, and not for a {type(stream).__name__}, whose examples look "
            f"different for every seed"
        )
    if stream.view in SEEN_BY_SEED:
        raise InputError(
            f"the examples of {stream.name} are {stream.view} by seed and task, so their features "
            f"cannot be computed once: give the encoder as a part of the network"
        )
    if not isinstance(encoder, nn.Module):
        raise InputError(f"the encoder must be a torch.nn.Module, not {type(encoder).__name__}")
    if not isinstance(batch, int) or batch < 1:
        raise InputError(f"batch must be a whole number from 1 on, not {batch!r}")
