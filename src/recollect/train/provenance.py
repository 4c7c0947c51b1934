"""What a run's results depend on besides its seed and its values: code, data, network, precision.

Every function here is a small pure one, whose answer is a short text. What reads files or data is
computed once a process, the first time that it is asked for: before training, so that files which
are edited during a long run do not count.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

import recollect
from recollect.core.network import CONVOLUTIONS
from recollect.methods import Method
from recollect.streams.stream import Stream
from recollect.train.job import Job

__all__ = [
    "Provenance",
    "code_version",
    "commit",
    "network_facts",
    "network_fingerprint",
    "precision",
    "stream_fingerprint",
]

ROOMS = ("core", "memory", "methods", "nets", "streams", "train")
GIT_SECONDS = 10
BLOCK, BLOCKS = 64, 8
SAMPLE = 64
LETTERS = 16


@final
@dataclass(frozen=True)
class Provenance:
    """The code, the data, the network and the precision that a job's results come from."""

    code: str
    commit: str
    torch: str
    precision: str
    network: str
    stream: str

    @classmethod
    def of(cls, job: Job) -> Provenance:
        """That of a job in this process."""
        return cls(
            code_version(job.kind), commit(), str(torch.__version__), precision(job),
            network_fingerprint(job.network), stream_fingerprint(job.stream),
        )  # fmt: skip


@cache
def code_version(kind: type[Method]) -> str:
    """A short name for all the code that a method's results depend on.

    That is the source of recollect's rooms up to `train`, and of the method's own file if it
    comes from elsewhere.
    """
    root = Path(recollect.__file__).parent
    files = [file for room in ROOMS for file in (root / room).rglob("*.py")]
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    if not kind.__module__.startswith("recollect."):
        try:
            module = sys.modules[kind.__module__]
            found.update(inspect.getsource(module).encode())
        except (OSError, TypeError, KeyError):
            found.update(f"{kind.__module__}.{kind.__qualname__}".encode())
    return found.hexdigest()[:12]


@cache
def commit() -> str:
    """The git commit that recollect's source is at; empty if it does not run from a checkout.

    `+changes` says that files under `src` differ from it, `+unknown` that git could not be asked.
    """
    return commit_at(Path(recollect.__file__).resolve().parents[2])


def commit_at(root: Path) -> str:
    """The commit of a checkout whose source is in `src`, read from its files."""
    if not (root / "src" / "recollect").is_dir():
        return ""
    try:
        name = _head(_git_folder(root / ".git"))
    except (OSError, ValueError):
        return ""
    if not name:
        return ""
    changed = _changed(root)
    return name + {True: "+changes", False: "", None: "+unknown"}[changed]


def precision(job: Job) -> str:
    """The numbers that a job's networks compute with.

    On a GPU, matrix products use TF32, and networks with convolutions bfloat16 unless the job
    asks for full precision.
    """
    if job.device.type != "cuda":
        return "float32"
    if job.full_precision or not _has_convolutions(job.network):
        return "float32, TF32"
    return "bf16 autocast, TF32"


def network_fingerprint(network: Callable[[], nn.Module] | nn.Module) -> str:
    """A short name for a network: layers, shapes, and the weights that a module brings."""
    return _short(hashlib.sha256(json.dumps(network_facts(network)).encode()))


def network_facts(network: Callable[[], nn.Module] | nn.Module) -> list[Any]:
    """The layers of a network and its tensors' shapes; of a module also the weights it brings."""
    module = _built(network)
    if not isinstance(module, nn.Module):
        return [repr(module)]  # it will be refused where the fleet is made
    tensors = [*module.named_parameters(), *module.named_buffers()]
    weights = hashlib.sha256()
    for _, tensor in tensors if module is network else ():
        weights.update(_bytes(tensor))
    return [repr(module), [(n, [*t.shape]) for n, t in tensors], weights.hexdigest()]


def stream_fingerprint(stream: Stream) -> str:
    """A short name for the content of a stream: its data, and what a run with seed 0 meets.

    The data are the tensors in its fields, all of them. Of what a run meets there is a sample:
    eight stretches of every task's first epoch, some of their examples as they look, and some of
    the tests of the first task and the last.
    """
    known = _known.get(id(stream))
    if known is not None and known[0]() is stream:
        return known[1]
    found = hashlib.sha256()
    _add(found, stream)
    _add_met(found, stream)
    name = _short(found)
    with suppress(TypeError):  # what cannot be referred to weakly is read each time
        _known[id(stream)] = (weakref.ref(stream), name)
    return name


_known: dict[int, tuple[weakref.ref[Stream], str]] = {}


def _add(found: hashlib._Hash, value: object) -> None:
    """Add a value to a hash: numbers, texts and tensors, and what is made of them."""
    found.update(f"{type(value).__qualname__}:".encode())
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, Tensor):
        found.update(f"{value.dtype} {tuple(value.shape)};".encode())
        found.update(_bytes(value))
    elif is_dataclass(value):
        for field in fields(value):
            found.update(field.name.encode())
            _add(found, getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for each in value:
            _add(found, each)
    elif value is None or isinstance(value, str | int | float | torch.dtype):
        found.update(f"{value!r};".encode())


def _add_met(found: hashlib._Hash, stream: Stream) -> None:
    """Add to a hash what a run with seed 0 meets of a stream."""
    seeds = torch.tensor([0])
    _add(found, (stream.setting, stream.boundaries, stream.classes, tuple(stream.shape)))
    for task in range(stream.tasks):
        parts = stream.parts(task)
        count = sum(parts)
        starts = _spread(max(count - BLOCK + 1, 1), BLOCKS).tolist()
        places = [(start, min(start + BLOCK, count)) for start in starts]
        order = torch.cat([stream.order(seeds, task, 0, *ends) for ends in places], 1)
        met = stream.pick(seeds, task, order[:, _spread(order.shape[1], SAMPLE)])
        _add(found, (tuple(parts), tuple(stream.task_classes(task)), order, met.x, met.y))
    for task in sorted({0, stream.tasks - 1}):
        test = stream.test(seeds, task)
        some = _spread(test.x.shape[1], SAMPLE)
        _add(found, (tuple(test.x.shape), test.x[:, some], test.y[:, some]))


def _spread(count: int, most: int) -> Tensor:
    """Some places among so many, from the first to the last.

    >>> _spread(101, 3).tolist(), _spread(2, 3).tolist()
    ([0, 50, 100], [0, 1])
    """
    return torch.linspace(0, count - 1, min(count, most), dtype=torch.float64).round().long()


def _built(network: Callable[[], nn.Module] | nn.Module) -> object:
    if isinstance(network, nn.Module) or not callable(network):
        return network
    with torch.random.fork_rng(devices=[]):
        return network()


def _has_convolutions(network: Callable[[], nn.Module] | nn.Module) -> bool:
    module = _built(network)
    layers = module.modules() if isinstance(module, nn.Module) else ()
    return any(isinstance(layer, CONVOLUTIONS) for layer in layers)


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data


def _short(found: hashlib._Hash) -> str:
    return found.hexdigest()[:LETTERS]


def _git_folder(path: Path) -> Path:
    """The folder with git's own files; in another work tree, `.git` is a file that names it."""
    if path.is_dir():
        return path
    return path.parent / path.read_text("utf-8").removeprefix("gitdir:").strip()


def _head(folder: Path) -> str:
    """The commit that is checked out; empty if git keeps it where this does not look."""
    head = (folder / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    shared = folder / "commondir"
    common = folder / shared.read_text("utf-8").strip() if shared.is_file() else folder
    for place in (folder, common):
        if (place / name).is_file():
            return (place / name).read_text("utf-8").strip()
    packed = common / "packed-refs"
    lines = packed.read_text("utf-8").splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")


def _changed(root: Path) -> bool | None:
    """Whether files under `src` differ from the commit; None if git cannot say."""
    ask = ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=all", "--", "src"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        said = subprocess.run(
            ask, capture_output=True, timeout=GIT_SECONDS, env={**plain, "GIT_OPTIONAL_LOCKS": "0"}
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return bool(said.stdout.strip()) if said.returncode == 0 else None
