"""Examples to call a network with before it learns, to find out what it accepts and returns.

They are real ones wherever possible: an example of zeros is a text of padding only, or a sequence
of length 0, which many networks refuse. Only calls see them; they are not kept.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from recollect.core.calling import fullest
from recollect.core.images import as_input
from recollect.core.packing import Packing
from recollect.errors import InputError
from recollect.learner.engine.growth import LIST_CLASSES, dtype_of, outputs_of
from recollect.learner.engine.threads import Work, one_thread_here
from recollect.learner.inputs.examples import Kind
from recollect.learner.settings import Settings

FEW = 100
MADE_UP = (
    " (no example was at hand, so it was called with examples of zeros and of ones: make its "
    "forward accept one of these, such as a mask or a sequence of ones)"
)


def some_stored(x: Tensor | None) -> Tensor | None:
    """Return some examples of a memory's x `[capacity + 1, ...]`; None if all are zeros."""
    if x is None:
        return None
    rows = x[:-1].reshape(len(x) - 1, -1).any(1).nonzero().flatten()[:FEW]
    return x[rows] if len(rows) else None


def made_up(kind: Kind) -> list[Tensor]:
    """Make up two examples, of zeros and of ones."""
    zeros = torch.zeros(kind.shape, dtype=kind.dtype)
    if kind.packing is None:
        return [zeros, torch.ones_like(zeros)]
    ones = {part.name: torch.ones(1, *part.shape, dtype=part.dtype) for part in kind.packing.parts}
    return [zeros, kind.packing.pack(ones)[0]]


def probed(
    module: nn.Module, kind: Kind, device: torch.device, examples: Tensor | None
) -> tuple[int, Tensor, Work]:
    """Call a network with one of the examples `[n, ...]`, or else with made-up ones.

    Returns its number of outputs, the example, and the work of a pass.
    """
    refused: list[InputError] = []
    for each in made_up(kind) if examples is None else [fullest(examples)]:
        x = each.to(device)
        with Work.counted(module, examples=2) as work:
            try:
                return outputs_for(module, x, kind.packing), x, work
            except InputError as error:
                refused.append(error)
    raise InputError(f"{refused[0]}{MADE_UP if examples is None else ''}") from refused[0]


def outputs_for(module: nn.Module, example: Tensor, packing: Packing | None) -> int:
    """Return the number of logits of a module for a stored example `[...]`, or a packed row."""
    return outputs_of(module, as_input(example, dtype_of(module)), packing)


@one_thread_here()
def check_accepted(
    module: nn.Module, settings: Settings, batch: Tensor, packing: Packing | None
) -> None:
    """Raise an `InputError` if a network that has not learned yet refuses examples `[n, ...]`."""
    features = settings.encoded(batch[:1], packing)
    packing = None if settings.encoder else packing
    copied = copy.deepcopy(module).to(settings.device)  # other threads may be calling the module
    outputs_for(copied, features[0].to(settings.device), packing)


def grown_outputs(module: nn.Module, example: Tensor, packing: Packing | None) -> int:
    """Return the number of logits of a module whose last linear layer was extended."""
    try:
        return outputs_for(module, example, packing)
    except InputError as error:
        raise InputError(
            f"the network works, but not with more outputs of its last linear layer ({error}): "
            f"{LIST_CLASSES}"
        ) from error


def to_compare_on(
    module: nn.Module, kind: Kind, device: torch.device, stored: Tensor | None
) -> list[Tensor]:
    """Return inputs `[...]` to compare the outputs of networks on: made-up and stored ones."""
    zeros, ones = made_up(kind)
    every = [zeros, ones] if stored is None else [zeros, fullest(stored), ones]
    return [as_input(each.to(device), dtype_of(module)) for each in every]
