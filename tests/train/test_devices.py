"""Devices by the names that a person gives, and as they are called in results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from recollect import InputError
from recollect.train import device_named
from recollect.train.devices import compute_once, device_label

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A machine with so many GPUs."""

    def set_to(count: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Chip {device.index}")

    return set_to


def test_libraries_are_loaded_without_random_numbers() -> None:
    before = torch.get_rng_state()
    compute_once(CPU)
    assert torch.equal(torch.get_rng_state(), before)


class TestDevices:
    """A name that a person gives."""

    def test_auto_is_a_gpu_if_there_is_one(self, gpus: Callable[[int], None]) -> None:
        gpus(0)
        assert device_named() == device_named("auto") == CPU
        gpus(2)
        assert device_named() == device_named("auto") == GPU

    def test_what_is_asked_for(self, gpus: Callable[[int], None]) -> None:
        gpus(2)
        assert device_named("cpu") == CPU
        assert device_named("cuda") == GPU
        assert device_named("cuda:1") == torch.device("cuda", 1)

    @pytest.mark.parametrize(
        ("name", "count", "message"),
        [
            ("abacus", 1, "unknown device 'abacus': give auto, cpu, cuda or cuda:N"),
            ("", 1, "unknown device ''"),
            ("CUDA", 1, "unknown device 'CUDA'"),
            ("meta", 1, "unknown device 'meta'"),
            ("mps", 1, "unknown device 'mps'"),
            ("cuda:-1", 1, "unknown device 'cuda:-1'"),
            ("cuda:x", 1, "unknown device 'cuda:x'"),
            ("cuda", 0, "torch finds no GPU on this machine: do not pass the device 'cuda'"),
            ("cuda:0", 0, "torch finds no GPU on this machine"),
            ("cuda:1", 1, "there is no device 'cuda:1': the number of GPUs is 1"),
            ("cuda:7", 2, "there is no device 'cuda:7': the number of GPUs is 2"),
        ],
    )
    def test_what_is_not_there_is_refused(
        self, name: str, count: int, message: str, gpus: Callable[[int], None]
    ) -> None:
        gpus(count)
        with pytest.raises(InputError) as refused:
            device_named(name)
        assert str(refused.value).startswith(message)
        assert "\n" not in str(refused.value)

    def test_a_label_is_the_makers_name(self, gpus: Callable[[int], None]) -> None:
        gpus(2)
        assert device_label(CPU) == "CPU"
        assert device_label(torch.device("cuda", 1)) == "Chip 1"
