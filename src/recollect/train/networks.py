"""Save and load trained networks: one safetensors file per run."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from recollect.core.images import as_input
from recollect.core.modules import build_module
from recollect.errors import DataError, InputError, RecollectError
from recollect.files import pack, unpack, write_bytes
from recollect.methods import (
    Method,
    Spec,
    hyperparameters,
    method,
    omitted_defaults,
    setup_of,
    static,
    symbol,
)
from recollect.nets import MLP, ResNet18
from recollect.streams.stream import Stream, packing_of

if TYPE_CHECKING:
    from recollect.train.fleet import Fleet
    from recollect.train.job import Job
    from recollect.train.result import Result

Build = Callable[[], nn.Module] | nn.Module

# The networks of this library, whose arguments can be read off their layers.
KINDS: dict[str, type[nn.Module]] = {"MLP": MLP, "ResNet18": ResNet18}
ARGUMENTS: dict[type[nn.Module], Callable[[Any], dict[str, Any]]] = {
    MLP: lambda net: {
        "inputs": [*net.hidden, net.head][0].weight.shape[0],
        "classes": net.head.weight.shape[1],
        "hidden": [layer.weight.shape[1] for layer in net.hidden],
    },
    ResNet18: lambda net: {
        "classes": net.head.out_features,
        "width": net.stem[0].out_channels,
        "channels": net.stem[0].in_channels,
    },
}


def save_networks(job: Job, fleet: Fleet) -> list[str | None]:
    """Save the weights and buffers of every run, if the job requests it; returns the files.

    A file is a safetensors file with the names of the module's parameters and buffers. Its name
    ends with the key of the run's identity.
    """
    folder = job.details.networks
    if folder is None:
        return [None] * fleet.runs
    given = job.network
    module = build_module(given, seed=0)
    known = ARGUMENTS.get(type(module))
    common = {
        "network": known and {"kind": type(module).__name__, "arguments": known(module)},
        "spec": asdict(replace(job.spec, runs=1)),
        "changed": setup_of(job.runs[0].method, job.spec).network(given) is not given,
        "own_predictions": job.kind.predict is not Method.predict,
    }
    tensors = {**fleet.weights.named(), **fleet.network.buffers}
    files: list[str | None] = []
    for run, identity in enumerate(job.identities):
        name = f"{identity.benchmark}-{identity.method}-seed{identity.seed}-{identity.key}"
        file = folder / (re.sub(r"[^\w.-]", "_", name) + ".safetensors")
        facts = {**common, "key": identity.key, "identity": identity.as_fields()}
        try:
            write_bytes(file, pack(facts, {name: each[run] for name, each in tensors.items()}))
        except OSError as error:
            raise RecollectError(
                f"a trained network cannot be saved in {folder}: {error.strerror or error}; "
                f"free some space, or choose another folder"
            ) from None
        files.append(str(file))
    return files


def load_network(
    result: Result,
    network: Build | None = None,
    kind: type[Method] | None = None,
    file: Path | str | None = None,
) -> nn.Module:
    """Load the trained network of a run, in evaluation mode; see `Result.module`."""
    path = file or result.network_file
    if path is None:
        raise InputError(
            "the network of this run was not saved: train with save_networks=FOLDER, or on the "
            "command line --save-networks FOLDER"
        )
    try:
        facts, tensors = unpack(Path(path).read_bytes())
    except OSError as error:
        raise DataError(
            f"the network {path} cannot be read: {error.strerror or error}; if it was moved, "
            f"pass its new path as file=..."
        ) from None
    except DataError as error:
        raise DataError(f"the network {path} cannot be read: {error}") from None
    if facts.get("key") != result.identity.key:
        raise DataError(f"{path} is the network of another run: pass the file of this run")
    build = _build_of(facts, network)
    if facts["changed"]:
        spec = Spec(**{**facts["spec"], "shape": tuple(facts["spec"]["shape"])})
        build = setup_of(_method_of(result, kind), spec).network(build)
    module = build_module(build, seed=0)
    _fill(module, tensors)
    if facts["own_predictions"]:
        warnings.warn(
            f"{result.method} does not predict with the outputs of its network alone: this module "
            f"is only the trained network, and its accuracy differs from that of the result",
            stacklevel=3,
        )
    return module.eval()


def inputs_of(stream: Stream, x: Tensor) -> Any:
    """Convert examples `[n, ...]` of a stream to network inputs: images are normalised.

    Examples of several tensors become a mapping or a tuple.

    >>> from recollect.streams import benchmark
    >>> stream = benchmark("seq-digits").stream()
    >>> x, y = stream.test(torch.tensor([0]), task=0)
    >>> inputs_of(stream, x[0]).dtype
    torch.float32
    """
    if (packing := packing_of(stream)) is not None:
        return packing.given(packing.inputs(x, torch.float32))
    return as_input(x) if stream.images is None else stream.images.plain(x[None])[0]


def _build_of(facts: Mapping[str, Any], network: Build | None) -> Build:
    if network is not None:
        return network
    known = facts["network"]
    if known is None:
        raise InputError(
            "this network is not one of the library's, and the file has its weights but not its "
            "code: pass the network that you passed to run, as in result.module(network)"
        )
    return KINDS[known["kind"]](**known["arguments"])


def _method_of(result: Result, kind: type[Method] | None) -> Method:
    try:
        found = kind or method(result.method)
    except InputError:
        raise InputError(
            f"the method {result.method!r} changes its network, but is unknown to recollect: "
            f"pass its class, as in result.module(method=MyMethod)"
        ) from None
    complete = {**omitted_defaults(found), **result.hyperparameters}
    values = {name: complete[symbol(name)] for name in hyperparameters(found)}
    return found(**{n: int(v) if n in static(found) else v for n, v in values.items()})


@torch.no_grad()
def _fill(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name in [*own, *tensors]:
        ours, theirs = own.get(name), tensors.get(name)
        if ours is None or theirs is None or ours.shape != theirs.shape:
            here, there = (None if t is None else list(t.shape) for t in (ours, theirs))
            raise InputError(
                f"the network differs from the trained one: {name} has the shape {here}, but "
                f"{there} in the file"
            )
        ours.copy_(theirs)
