"""Select and describe devices."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn

from recollect.errors import InputError


def device_named(name: str = "auto") -> torch.device:
    """Find a device by name: `auto` is a GPU if there is one, else the CPU.

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
    except (RuntimeError, TypeError):
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"unknown device {name!r}: give auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"torch finds no GPU on this machine: do not pass the device {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"there is no device {name!r}: the number of GPUs is {torch.cuda.device_count()}"
        )
    return device


PRECISIONS = ("auto", "bf16", "float32")


def in_half(precision: str, device: torch.device) -> bool:
    """Whether networks with convolutions compute in bfloat16: with `auto`, on a GPU.

    >>> in_half("bf16", torch.device("cpu")), in_half("auto", torch.device("cpu"))
    (True, False)
    """
    if precision not in PRECISIONS:
        raise InputError(f"unknown precision {precision!r}: give auto, bf16 or float32")
    return precision == "bf16" or (precision == "auto" and device.type == "cuda")


def bfloat16_is_fast() -> bool:
    """Whether the CPU has instructions for bfloat16."""
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.12
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def device_label(device: torch.device) -> str:
    """The product name of a GPU, or "CPU".

    >>> device_label(torch.device("cpu"))
    'CPU'
    """
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


@cache
def load_libraries(device: torch.device) -> None:
    """Load the libraries of a GPU, which takes seconds in a process that has not used it yet."""
    if device.type == "cuda":
        compute_once(device)


def compute_once(device: torch.device) -> None:
    """Compute gradients of a convolution and a product, in both precisions, and wait for them."""
    for dtype in (torch.float32, torch.bfloat16):
        x, weight, dense = (
            torch.ones(shape, device=device, dtype=dtype, requires_grad=True)
            for shape in ((8, 8, 8, 8), (8, 8, 3, 3), (8, 8))
        )
        seen = nn.functional.conv2d(x, weight, padding=1).mean((2, 3)) @ dense
        torch.autograd.grad(seen.square().sum(), (x, weight, dense))
    wait_for(device)


def wait_for(device: torch.device) -> None:
    """Synchronise with a device, so that elapsed time can be measured."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> None:
    """Release unused GPU memory."""
    gc.collect()
    torch.cuda.empty_cache()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread within this context, and flush denormal numbers to zero."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(False)
