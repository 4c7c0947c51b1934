"""`make bench-gpu`: training speed of fleets on a GPU, against a plain eager loop on the same GPU.

Times are the best of several rounds; both sides include augmentation, sampling from memory and
insertion. The limit is measured on the same machine: copy bandwidth for the small dense network,
whose weights must at least be read and written, and bfloat16 matrix products for ResNet-18.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.plain import PlainDERpp, plain_mlp
from recollect import MLP, DERpp, Fleet, ResNet18
from recollect.core.images import Images
from recollect.experiments.plan import plan
from recollect.streams import DataUnavailable, benchmark
from recollect.train import train

ROUNDS = 5
MEMORY = 200
SHOWN = benchmark("seq-cifar10").images


@dataclass(frozen=True)
class Case:
    """Network with its batch sizes and timing parameters."""

    title: str
    network: Callable[[], nn.Module]
    plain: Callable[[], nn.Module]
    shape: tuple[int, ...]
    batch: int
    steps: int
    fleets: tuple[int, ...]
    images: Images | None


DENSE = Case(
    "MLP, batch 10 + 10 + 10", partial(MLP, 784, 10), partial(plain_mlp, 784, 10),
    (28, 28), 10, 400, (1, 10, 100), None,
)  # fmt: skip
DEEP = Case(
    "ResNet-18, batch 32 + 32 + 32", partial(ResNet18, 10), partial(ResNet18, 10),
    (3, 32, 32), 32, 100, (1, 4, 10), SHOWN,
)  # fmt: skip


def main() -> int:
    """Measure, and print one line for each target; return 1 if one of them is missed."""
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a GPU that torch can use")
    copied, multiplied = _bandwidth(), _product_rate()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"copies {copied / 1e12:.2f} TB/s, bf16 products {multiplied / 1e12:.0f} TFLOP/s")
    parameters = sum(p.numel() for p in MLP(784, 10).parameters())
    floor_dense = 4 * 4 * parameters / copied  # read forwards, backwards and to update; written
    _table(DENSE, floor_dense)
    rows = 3 * DEEP.batch
    deep, eager = _table(DEEP, _operations(rows) / multiplied)
    print()
    kept = [
        _kept("ms, a ResNet-18 step of one run", deep[1] * 1e3, at_most=3.0),
        _kept("ms a run, a ResNet-18 step of ten runs", deep[10] * 1e3, at_most=2.0),
        _kept("times faster than the eager loop, one run", eager / deep[1], at_least=8),
        _kept("times faster than the eager loop, ten runs", eager / deep[10], at_least=8),
        *_whole_runs(),
    ]
    return 0 if all(kept) else 1


def _table(case: Case, floor: float) -> tuple[dict[int, float], float]:
    """Print the rows of a network; return the seconds per run and step of fleets and plain loop."""
    eager = _plain(case)
    print(f"\n{case.title}, DER++          a step    a run and step   faster   of the limit")
    print(f"plain eager loop            {_time(eager)}       {_time(eager)}")
    each = {}
    for runs in case.fleets:
        fleet, seconds = _fleet(case, runs)
        each[runs] = seconds / runs
        print(f"{runs:4d} runs                   {_time(seconds)}       {_time(each[runs])}"
              f"   {eager / each[runs]:7.1f}    {floor / each[runs]:9.0%}   {fleet}")  # fmt: skip
    return each, eager


def _fleet(case: Case, runs: int) -> tuple[str, float]:
    """Return how a fleet executes, and the seconds per step."""
    fleet = Fleet(
        [DERpp(0.1, 0.5)] * runs, case.network, seeds=range(runs), lr=[0.03] * runs, classes=10,
        shape=case.shape, memory=MEMORY, replay=case.batch, stored=torch.uint8,
        images=case.images, device="cuda", half=True, steps=100_000,
    )  # fmt: skip
    x, y = _examples(case, runs)
    return fleet.execution, _best(lambda: fleet.learn(x, y, case.batch), case.steps)


def _plain(case: Case) -> float:
    """Return the seconds per step of the plain PyTorch loop, with the same precision and layout."""
    torch.manual_seed(0)
    x, y = (tensor[0] for tensor in _examples(case, 1))
    deep = case.images is not None
    net = case.plain().cuda()
    if deep:
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, unused-ignore]
    show = partial(_show, case.images) if case.images else _flat
    loop = PlainDERpp(net, x[0], 10, MEMORY, case.batch, show, half=deep)
    steps = case.steps // 4

    def several() -> None:
        for start in range(0, steps * case.batch, case.batch):
            loop.step(x[start : start + case.batch], y[start : start + case.batch])

    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        return _best(several, steps)


def _show(images: Images, x: Tensor) -> Tensor:
    views = torch.randint(2 * (2 * images.padding + 1) ** 2, (1, len(x)), device=x.device)
    return images.augment(x[None], views)[0]


def _flat(x: Tensor) -> Tensor:
    return x.flatten(1).float() / 255


def _examples(case: Case, runs: int) -> tuple[Tensor, Tensor]:
    count = case.steps * case.batch
    x = torch.randint(256, (runs, count, *case.shape), dtype=torch.uint8, device="cuda")
    return x, torch.randint(10, (runs, count), device="cuda")


def _best(work: Callable[[], object], steps: int) -> float:
    """Return the seconds per step in the best of several rounds, after a warm-up round."""
    best = float("inf")
    for number in range(ROUNDS + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began) if number else best
    return best / steps


def _bandwidth() -> float:
    """Bytes per second that a large copy reads and writes."""
    data = torch.empty(2**30, dtype=torch.uint8, device="cuda").random_()
    other = torch.empty_like(data)
    return 2 * data.numel() / _best(lambda: other.copy_(data), 1)


def _product_rate() -> float:
    """Operations per second of a large bfloat16 matrix product."""
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / _best(lambda: a @ b, 1)


def _operations(rows: int) -> float:
    """Operations of one ResNet-18 step on `rows` images, forward and backward."""
    net = ResNet18(10)
    with FlopCounterMode(display=False) as counter:
        net(torch.zeros(2, 3, 32, 32)).sum().backward()
    return float(counter.get_total_flops()) * rows / 2


def _whole_runs() -> Sequence[bool]:
    """Check the targets for whole runs on MNIST, if it is available."""
    try:
        benchmark("seq-mnist").stream()
    except DataUnavailable:
        print("MNIST is not here: whole runs were not timed")
        return ()
    grid = {"lr": [0.03, 0.1], "alpha": [0.2, 0.5, 1.0], "beta": [0.2, 0.5, 1.0]}
    return [
        _kept("s of training, seq-mnist, ten seeds", _training("seq-mnist"), at_most=2.5),
        _kept("s of training, seq-mnist, 18 configurations of ten seeds",
              _training("seq-mnist", **grid), at_most=10),
        _kept("s of training, perm-mnist, ten seeds", _training("perm-mnist"), at_most=8),
    ]  # fmt: skip


def _training(name: str, **values: Sequence[float]) -> float:
    chosen = plan(DERpp, benchmark=benchmark(name), buffer=200, seeds=range(10), values=values)
    stream = benchmark(name).stream()
    jobs = chosen.jobs(stream, device=torch.device("cuda"))
    return sum(run.train_seconds for job in jobs for run in train(job))


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:7.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:7.1f} µs"


def _kept(what: str, value: float, at_least: float = 0.0, at_most: float = float("inf")) -> bool:
    kept = at_least <= value <= at_most
    bound = f">= {at_least:g}" if at_least else f"<= {at_most:g}"
    print(f"{'ok  ' if kept else 'MISS'} {value:6.2f} {bound:7s} {what}")
    return kept


if __name__ == "__main__":
    sys.exit(main())
