"""`make bench-methods`: step time of every method, compared with ER.

All methods learn the same two tasks of random examples with the same network, batches and memory.
The steps of the second task are timed, when there are examples to replay. Methods are interleaved,
and the best round of each is reported. Work between tasks is timed separately. With `--compiled`,
steps are compiled first; a method that fails is skipped with its error.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from recollect import MLP, Fleet, Method, ResNet18
from recollect.methods import METHODS
from recollect.streams import benchmark

ROUNDS = 5
MEMORY = 500


@dataclass(frozen=True)
class Case:
    """Network with its input shape and batch size."""

    title: str
    shape: tuple[int, ...]
    batch: int
    runs: int
    steps: int


CASES = {
    "mlp": Case("MLP 784-100-100-10", (28, 28), 10, 5, 100),
    "resnet18": Case("ResNet-18", (3, 32, 32), 32, 1, 25),
}


def main() -> None:
    """Time all methods, or the named ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=CASES, default="mlp")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--compiled", action="store_true", help="compile the steps")
    given = parser.parse_args()
    torch.set_num_threads(1)
    case = CASES[given.network]
    names = ["er", *(name for name in given.methods if name != "er")]
    timed = {}
    for name in names:
        began = time.perf_counter()
        try:
            timed[name] = Timed(METHODS[name], case, given.device, given.compiled)
        except Exception as error:
            left_out(name, error)
        if given.compiled:
            print(f"{name}: ready after {time.perf_counter() - began:.0f} s", flush=True)
    for _ in range(ROUNDS):
        for name, each in list(timed.items()):
            try:
                each.go()
            except Exception as error:
                del timed[name]
                left_out(name, error)
    where = torch.cuda.get_device_name() if given.device == "cuda" else "one CPU core"
    sizes = f"batches of {case.batch}, replays of {case.batch}, memory {MEMORY}"
    print(f"{case.title}, {sizes}, {where}")
    print("method                 µs a run and step   times ER   between two tasks")
    usual = timed["er"].best if "er" in timed else float("nan")
    for name, each in timed.items():
        between = f"{1e3 * each.between:8.1f} ms a run" if each.between > 1e-4 else ""
        print(f"{METHODS[name].title:21s}  {1e6 * each.best:17.0f}   {each.best / usual:8.2f}   "
              f"{between:>17s}   {each.fleet.execution}", flush=True)  # fmt: skip


def left_out(name: str, error: Exception) -> None:
    """Print why a method is skipped."""
    lines = str(error).splitlines() or [""]
    print(f"{METHODS[name].title} is left out: {type(error).__name__}: {lines[0]}", flush=True)


class Timed:
    """Fleet of one method, in its second task."""

    def __init__(self, kind: type[Method], case: Case, device: str, compiled: bool) -> None:
        self.case, self.best = case, float("inf")
        self.batch = kind.needs.batch_size or case.batch
        deep = len(case.shape) == 3
        images = benchmark("seq-cifar10").images if deep else None
        network = partial(ResNet18, 10) if deep else partial(MLP, 784, 10)
        self.fleet = Fleet(
            [kind()] * case.runs, network, seeds=range(case.runs), lr=[0.01] * case.runs,
            classes=10, shape=case.shape, memory=MEMORY, replay=case.batch, stored=torch.uint8,
            images=images, device=device, half=deep and device == "cuda", tasks=3, per_task=5,
            compiled=compiled or None,
        )  # fmt: skip
        generator = torch.Generator().manual_seed(0)
        shape = (1, 2 * MEMORY, *case.shape)
        self.x = torch.randint(256, shape, dtype=torch.uint8, generator=generator).to(device)
        self.y = torch.randint(5, shape[:2], generator=generator).to(device)
        self.between = 0.0
        for task in range(2):
            examples = partial(self._examples, task)
            began = self._now()
            self.fleet.start_task(examples, shape[1])
            self.between += self._now() - began
            self.fleet.learn(*self._examples(task, torch.arange(MEMORY)), self.batch)
            if task:
                break
            began = self._now()
            self.fleet.end_task(examples, shape[1])
            self.fleet.next_task(shape[1])
            self.between += self._now() - began
        self.between /= case.runs

    def go(self) -> None:
        """Time one round."""
        x, y = self._examples(1, torch.arange(self.case.steps * self.batch))
        began = self._now()
        self.fleet.learn(x, y, self.batch)
        self.best = min(self.best, (self._now() - began) / self.case.steps / self.case.runs)

    def _examples(self, task: int, places: Tensor) -> tuple[Tensor, Tensor]:
        rows = places.to(self.x.device).expand(self.case.runs, -1) % self.x.shape[1]
        return self.x[0][rows], self.y[0][rows] + 5 * task

    def _now(self) -> float:
        if self.x.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter()


if __name__ == "__main__":
    main()
