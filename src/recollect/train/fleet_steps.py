"""The steps of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from recollect.core.targets import Target
from recollect.train import checks
from recollect.train.execution import fast_arithmetic
from recollect.train.fleet_tasks import FleetTasks
from recollect.train.guard import Guard
from recollect.train.planner import by_step


class FleetSteps(FleetTasks):
    """The methods of a `Fleet` that take steps."""

    classes: int
    target: Target
    guard: Guard | None
    recorded: bool

    def learn(
        self, x: Tensor, y: Tensor, batch: int, given: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Take one step per batch of examples, and return the last loss, `[K]`.

        A guarded fleet takes its steps by `step`.

        Args:
            x: The examples `[K, n, ...]`.
            y: Their targets `[K, n, ...]`.
            batch: Number of examples per step; the last batch may be smaller.
            given: The values of the fleet's `fields`, `[K, n, ...]`.
        """
        assert self.guard is None
        checks.check_tasks(self.kind, self.clock)
        checks.check_batch(x, y, batch, len(self.seeds), self.classes, self.target)
        y = y.to(self.device, self.target.dtype)
        loss, count, start = torch.zeros(len(self.seeds), device=self.device), y.shape[1], 0
        with fast_arithmetic(self.device, search=True):
            while start < count:
                size = min(batch, count - start)
                sizes = self.planner.sizes(self.clock)
                steps = self.planner.steps(self.clock, (count - start) // size)
                stop = start + size * steps
                labels = by_step(y[:, start:stop], steps)
                stacks = {
                    "x": by_step(x[:, start:stop], steps),
                    "y": labels,
                    **{n: by_step(t[:, start:stop], steps) for n, t in (given or {}).items()},
                    **self.planner.plan(self.clock, steps, size, sizes, labels),
                }
                full = size == batch and self.planner.full(self.clock, sizes)
                loss = self._stepper.take(stacks, sizes, usual=full)
                self.planner.count(labels)
                self.clock = self.clock.after(steps, size)
                if self.clock.holes:
                    self.clock = self.clock.filled(self._stepper.written)
                start = stop
        return loss

    def step(
        self, x: Tensor, y: Tensor, given: Mapping[str, Tensor] | None = None, *,
        scored: bool = False, meanwhile: Callable[[], None] = lambda: None,
    ) -> Tensor:  # fmt: skip
        """Take one step of a guarded fleet, which can be undone; return the loss, `[K]`.

        All examples may lie on the host, from which they are sent together with the plan.

        Args:
            x: The examples `[K, B, ...]`.
            y: Their targets `[K, B, ...]`; class indices must be in range.
            given: The values of the fleet's `fields`, `[K, B, ...]`.
            scored: Whether to compute `scores`; only if steps are `recorded`.
            meanwhile: Work for the host while the device computes.
        """
        if not self.target.classes:
            self.target.check(y, self.classes)
        size, y = y.shape[1], y.to(self.target.dtype).contiguous()
        with fast_arithmetic(self.device):
            plan, sizes, full = self.planner.next(self.clock, size, y.unsqueeze(0))
            planned = {"x": x.contiguous(), "y": y, **(given or {}), **plan}
            loss = self._stepper.take_one(planned, sizes, full, scored, meanwhile)
            self.planner.count(y.unsqueeze(0))
        self.clock = self.clock.after(1, size)
        if self.clock.holes:
            self.clock = self.clock.filled(self._stepper.written)
        return loss

    @property
    def scores(self) -> Tensor | None:
        """The logits `[K, B, C]` of the last batch before its step, if it was `scored`."""
        guarded = self._stepper.guarded
        return None if guarded is None else guarded.scores

    @property
    def execution(self) -> str:
        """A description of how steps are executed, such as "loop, eager"."""
        return self._stepper.execution

    def wipe(self) -> None:
        """Overwrite the examples in recordings of guarded steps with zeros."""
        self._stepper.wipe()

    def set_lr(self, lr: Sequence[float]) -> None:
        """Set the learning rate of every run from the next step on."""
        self.model.rate.copy_(self.model.rate.new_tensor(list(lr)))
        self._stepper.set_rates(self.model.rate)
