"""Where a fleet trains."""

from __future__ import annotations

import torch

from recollect.errors import InputError

__all__ = ["device_label", "device_named", "wait_for"]


def device_named(name: str = "auto") -> torch.device:
    """The device that a person means: `auto` is a GPU if there is one, else the CPU.

    >>> device_named("cpu")
    device(type='cpu')
    >>> device_named("abacus")
    Traceback (most recent call last):
    recollect.errors.InputError: unknown device 'abacus': give auto, cpu, cuda or cuda:N
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"unknown device {name!r}: give auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"there is no GPU here that torch can use: leave out the device {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"there is no device {name!r}: GPUs here: {torch.cuda.device_count()}")
    return device


def device_label(device: torch.device) -> str:
    """The name of a device as its maker has it.

    >>> device_label(torch.device("cpu"))
    'CPU'
    """
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def wait_for(device: torch.device) -> None:
    """Wait until a device has done all it was asked to, so that a clock can be read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
