"""Encode the examples of a stream with a pre-trained encoder, cached on disk."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
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

ROWS = 500  # examples per cache file: an interrupted call loses at most this many
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
    """Replace the examples of a stream by the features of a frozen, pre-trained encoder.

    Tasks, classes, their order and test sets do not change, so any method can be trained on the
    result, as a head on the encoder. The encoder is in evaluation mode and is not trained.

    Features are computed once and stored in the cache folder, under fingerprints of the encoder,
    the transform and the examples. An interrupted call continues where it stopped.

    Args:
        stream: The name of a benchmark, or a stream of fixed examples, such as `from_arrays`
            returns.
        encoder: A module that maps a batch of examples `[n, ...]` to features `[n, ...]`.
        transform: Applied to a batch before the encoder, for example to resize or normalise it. It
            receives images as floats from 0 to 1; the stream's crops, flips, normalisation and
            transforms are not applied. Examples of several tensors are passed as a whole.
        batch: The number of examples encoded at once.
        device: The device of the encoder; by default a GPU if there is one.
        folder: The folder for stored features, instead of the cache folder.
        data_dir: The folder with the data of a benchmark.
        name: The name of the new stream; by default those of the stream and the encoder's class.

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
    work = _Encoding(encoder, transform, batch, device_named(device), folder, found.packing)
    train_x = work.features(found.train_x, f"{found.name}, training examples")
    same = found.test_x is found.train_x  # as in a validation split
    test_x = train_x if same else work.features(found.test_x, f"{found.name}, test examples")
    if train_x.shape[1:] != test_x.shape[1:]:
        raise InputError(
            f"the encoder must return features of the same shape for all examples, not "
            f"{list(train_x.shape[1:])} for training and {list(test_x.shape[1:])} for test examples"
        )
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
    """Compute the features of inputs `[n, ...]` with an encoder, and validate them.

    Rows of a packing are unpacked and transformed first.
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
    except Exception as error:  # user code may raise anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        taken: object = packing or f"examples of shape {list(x.shape[1:])}"
        raise InputError(f"the encoder does not accept {taken}: {reason}") from error
    if not isinstance(found, Tensor) or found.dim() < 2 or len(found) != len(x):
        what = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(
            f"the encoder must return a tensor of features [n, ...] for n examples, not {what} for "
            f"{len(x)}: wrap it in a module that does"
        )
    found = found.detach().float() if found.dtype == torch.float64 else found.detach()
    if not found.is_floating_point() or not bool(found.isfinite().all()):
        raise InputError(
            "the encoder returns features that are not finite floating-point numbers: check its "
            "weights and the scale of its inputs"
        )
    return found


@final
class _Encoding:
    """An encoder, copied to a device in evaluation mode, with the folder of its cached features."""

    def __init__(
        self,
        encoder: nn.Module,
        transform: Callable[[Any], Any] | None,
        batch: int,
        device: torch.device,
        folder: Path | str | None,
        packing: Packing | None = None,
    ) -> None:
        facts = NetworkFacts.of(encoder)
        parts = [facts.fingerprint, source_of(transform), *sorted(map(code_of, facts.classes))]
        parts += [str(packing)] if packing else []
        key = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:LETTERS]
        home = Path(folder) if folder is not None else cache_folder() / "features"
        self.folder = home / key
        self.encoder = copy.deepcopy(encoder).eval().to(device)
        # Convolutions on a CPU are twice as fast with channels last.
        self.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload, unused-ignore]
        floats = (p.dtype for p in self.encoder.parameters() if p.is_floating_point())
        self.dtype = next(floats, torch.float32)
        self.transform, self.batch, self.device, self.packing = transform, batch, device, packing
        self._warned = False

    def features(self, x: Tensor, what: str) -> Tensor:
        """Read or compute the features `[N, ...]` of examples `[N, ...]`."""
        found: Tensor | None = None
        starts = with_progress(range(0, len(x), ROWS), len(x), what, "encoding", ROWS)
        for start in starts:
            rows = x[start : start + ROWS]
            part = self._stored_or_computed(rows)
            if found is None:
                found = part.new_empty(len(x), *part.shape[1:])
            if part.shape[1:] != found.shape[1:]:
                raise InputError(
                    f"the encoder must return features of the same shape for all examples, not "
                    f"{list(found.shape[1:])} and {list(part.shape[1:])}"
                )
            found[start : start + ROWS] = part
        assert found is not None, "a stream has examples"
        return found

    def _stored_or_computed(self, x: Tensor) -> Tensor:
        name = hashlib.sha256(f"{x.dtype} {tuple(x.shape)} ".encode())
        name.update(x.contiguous().flatten().view(torch.uint8).numpy().data)
        path = self.folder / f"{name.hexdigest()[:LETTERS]}.safetensors"
        if is_file(path):
            with suppress(DataError, OSError, KeyError):  # compute a damaged file again
                features = unpack(path.read_bytes())[1]["features"]
                if len(features) == len(x):
                    return features
        found = torch.cat([self._computed(part) for part in x.split(self.batch)])  # type: ignore[no-untyped-call]
        try:
            write_bytes(path, pack({"rows": len(x)}, {"features": found}))
        except OSError as error:
            if not self._warned:  # once is enough
                self._warned = True
                warnings.warn(
                    f"features cannot be stored in {self.folder} ({error.strerror or error}) and "
                    f"will be computed again next time: pass another folder",
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
            f"only a stream of recollect.from_arrays or of a sequential benchmark can be encoded, "
            f"not a {type(stream).__name__}, whose examples may differ between seeds: make the "
            f"encoder part of the network"
        )
    if stream.view in SEEN_BY_SEED:
        raise InputError(
            f"the examples of {stream.name} are {stream.view} by seed and task, so they cannot be "
            f"encoded in advance: make the encoder part of the network"
        )
    if not isinstance(encoder, nn.Module):
        raise InputError(f"the encoder must be a torch.nn.Module, not {type(encoder).__name__}")
    if not isinstance(batch, int) or batch < 1:
        raise InputError(f"batch must be a whole number of at least 1, not {batch!r}")
