"""A frozen encoder (feature extractor) in front of a learner's network."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from recollect.core.images import as_input
from recollect.core.modules import refuse_uncopyable
from recollect.core.packing import Packing
from recollect.errors import InputError
from recollect.learner import log
from recollect.train.encoding import features_of
from recollect.train.fingerprint import module_code_fingerprint, weights_fingerprint

ROWS = 100  # examples per forward pass of the encoder


@final
@dataclass(frozen=True)
class Encoder:
    """A frozen copy of a module in evaluation mode that computes features.

    `weights` is a fingerprint of its parameters and buffers, and `code` one of its layers.
    """

    module: nn.Module
    weights: str
    code: str
    dtype: torch.dtype

    def features(self, batch: Tensor, packing: Packing | None = None) -> Tensor:
        """Compute the features `[n, ...]` of a batch `[n, ...]`, or of packed rows."""
        parts = batch.split(ROWS)  # type: ignore[no-untyped-call]
        # The encoder may work in place, so it gets a copy of the user's examples.
        found = [
            features_of(self.module, as_input(part, self.dtype).clone(), packing, self.dtype)
            for part in parts
        ]
        return found[0] if len(found) == 1 else torch.cat(found)

    def facts(self, kind: Any) -> dict[str, Any]:
        """Return the plain data to be saved; `kind` is that of the examples."""
        return {"weights": self.weights, "code": self.code, "kind": kind}

    def before(self, head: nn.Module, packing: Packing | None = None) -> nn.Module:
        """Combine the encoder and a trained head into one module."""
        encoder = copy.deepcopy(self.module)
        return nn.Sequential(encoder, head) if packing is None else Encoded(encoder, head)


class Encoded(nn.Module):
    """An encoder with several inputs, followed by a head."""

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Compute the head's outputs for the inputs of the encoder."""
        return self.head(self.encoder(*inputs, **named))


def encoder_of(module: object, device: torch.device) -> Encoder | None:
    """Create a frozen copy of a module on a device; None if the module is None."""
    if module is None:
        return None
    if not isinstance(module, nn.Module):
        raise InputError(f"the encoder must be a torch.nn.Module, not {type(module).__name__}")
    refuse_uncopyable(module, "encoder or a part of it")
    copied = copy.deepcopy(module).eval().requires_grad_(False).to(device)
    floats = (p.dtype for p in copied.parameters() if p.is_floating_point())
    code = module_code_fingerprint(copied)
    return Encoder(copied, weights_fingerprint(copied), code, next(floats, torch.float32))


def check_encoder(saved: Mapping[str, Any] | None, given: Encoder | None) -> None:
    """Raise an `InputError` unless the encoder has the weights of the saved learner's.

    Other code may compute the same, so it is only logged.
    """
    if saved is None and given is not None:
        raise InputError("the saved learner has no encoder: leave encoder=... out")
    if saved is not None and given is None:
        raise InputError(
            "the saved learner has an encoder, which the file does not contain: pass it as "
            "encoder=..."
        )
    if saved is not None and given is not None and saved["weights"] != given.weights:
        raise InputError(
            "the encoder has other weights than the one whose features the saved learner has "
            "stored: pass the encoder that the learner was created with"
        )
    if given is not None and saved is not None and saved.get("code", given.code) != given.code:
        log.tell_changed_encoder()
