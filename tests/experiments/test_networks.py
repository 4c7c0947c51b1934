"""Networks by name, for streams of several shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.experiments.some_results import PLAIN

from recollect import from_arrays
from recollect.core.modules import build_module
from recollect.errors import InputError
from recollect.experiments.networks import NetworkChoice
from recollect.experiments.reproduce import compare
from recollect.experiments.results import Results
from recollect.streams import Stream, benchmark


def images(*shape: int) -> Stream:
    y = np.arange(24) % 4
    return from_arrays(np.zeros((24, *shape), np.uint8), y, tasks=2, name="grey")


@pytest.mark.parametrize(("shape", "channels"), [((1, 8, 8), 1), ((3, 8, 8), 3)])
def test_a_resnet_has_the_channels_of_the_stream(shape: tuple[int, ...], channels: int) -> None:
    net = build_module(NetworkChoice("resnet18", width=4).build(images(*shape)), seed=0)
    assert net(torch.zeros(2, channels, 8, 8)).shape == (2, 4)
    assert next(net.parameters()).shape[:2] == (4, channels)


def test_a_resnet_needs_images() -> None:
    with pytest.raises(InputError, match=r"resnet18 needs images, .* shape \[5\]"):
        NetworkChoice("resnet18").build(images(5))


def test_runs_of_another_network_are_not_compared_with_the_paper() -> None:
    known = benchmark("seq-mnist")
    verdicts = []
    for name in ("", "MLP(hidden=[400])"):
        run = replace(PLAIN, benchmark="seq-mnist", network_class=name)
        (summary,) = Results([run]).summaries()
        verdicts.append(compare(known, summary, "class").paper)
    assert verdicts[0] is not None
    assert verdicts[1] is None
