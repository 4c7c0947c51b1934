"""A fleet: K runs of one method that learn as one computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from recollect.core.images import Images
from recollect.core.model import Model
from recollect.core.modules import Strategy, network_size
from recollect.core.network import Network
from recollect.core.packing import Packing
from recollect.core.targets import CLASS, Target
from recollect.core.torch_optimiser import TorchOptimiser
from recollect.core.transforms import Transforms
from recollect.core.weights import State, Weights
from recollect.errors import InputError
from recollect.memory import Clock, Memory
from recollect.memory.policy import check_plans
from recollect.methods import Field, Method, Spec, Task, setup_of, state_of
from recollect.methods.task import Requests
from recollect.train import checks
from recollect.train.compiled import fast_steps
from recollect.train.execution import Stacks, fast_arithmetic
from recollect.train.guard import Guard
from recollect.train.optimisation import PLAIN_SGD, Optimisation
from recollect.train.planner import Planner, by_step, no_counts
from recollect.train.reader import Reader
from recollect.train.stepper import FleetState, Stepper, stacked
from recollect.train.training_logits import training_logits

__all__ = ["Fleet"]

BATCH = 10

Examples = Callable[[Tensor], tuple[Tensor, Tensor]]


class Fleet:
    """K runs of one method, with their own seeds, rates and hyper-parameters.

    `learn` takes a step on every batch of a stretch of the stream; `predict` and `logits` evaluate
    the runs. `optimisation` says how weights are moved, with `numbers` such as the momentum of each
    run. y is as `target` says. A single run is a fleet of one. It may have an optimiser of torch's
    own, and may be `guarded`: then a step that fails or diverges can be undone.

    >>> from recollect import DERpp, MLP
    >>> fleet = Fleet([DERpp(0.2, 1.0), DERpp(0.5, 1.0)], lambda: MLP(4, 3), seeds=[0, 1],
    ...               lr=[0.1, 0.1], classes=3, shape=(4,), memory=20, replay=5)
    >>> loss = fleet.learn(torch.rand(2, 30, 4), torch.zeros(2, 30, dtype=torch.long), batch=10)
    >>> fleet.seen, fleet.steps, loss.shape
    (30, 3, torch.Size([2]))
    """

    def __init__(
        self,
        methods: Sequence[Method],
        network: Callable[[], nn.Module] | nn.Module,
        *,
        seeds: Sequence[int],
        lr: Sequence[float],
        classes: int,
        shape: tuple[int, ...],
        memory: int = 0,
        replay: int = 0,
        stored: torch.dtype = torch.float32,
        images: Images | Transforms | None = None,
        packing: Packing | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        half: bool = False,
        recorded: bool | None = None,
        compiled: bool | None = None,
        steps: int = 0,
        tasks: int = 1,
        per_task: int | None = None,
        strategy: Strategy | None = None,
        optimisation: Optimisation = PLAIN_SGD,
        numbers: Sequence[Mapping[str, float]] = (),
        guarded: bool = False,
        fields: Sequence[Field] = (),
        target: Target = CLASS,
    ) -> None:
        by_torch = optimisation.options is not None
        checks.check_runs(methods, seeds, lr, memory, replay, alone=by_torch or guarded)
        self.kind = type(methods[0])
        self.device = torch.device(device)
        self.seeds = torch.tensor(list(seeds), dtype=torch.int64, device=self.device)
        self.images = images
        self._blank = partial(torch.zeros, len(seeds), 2, *shape, dtype=stored, device=device)
        self.classes, self.target = classes, target
        self.clock = Clock(tasks=tasks)
        spec = Spec(len(seeds), memory, classes, tasks, per_task or classes, shape)
        setup = setup_of(methods[0], spec)
        checks.check_target(methods[0], setup.policy, target)
        built = setup.network(network)
        self._another_network = partial(
            Network, built, seeds, dtype=dtype, device=self.device, strategy=strategy, half=half,
            channels_last=self.device.type == "cuda", packing=packing,
        )  # fmt: skip
        self.network = self._another_network()
        added = 0 if built is network else self.network.size - network_size(network)
        self._added_bytes = max(added, 0) * dtype.itemsize
        self._method = stacked(methods, dtype, self.device)
        rates = torch.tensor(list(lr), dtype=dtype, device=self.device)
        own = self.network.weights, self.network.buffers
        self.model = Model(self.network, *own, rates, criterion=target.criterion)
        # A method with predictions of its own may have networks with any outputs.
        fixed = None if self.kind.predict is not Method.predict else classes
        nothing = State({}), Memory(len(seeds), 0, {}, self.device)
        self._reader = Reader(self._method, self.model, *nothing, images, classes)
        outputs = checks.check_network(self.network, self.logits, len(seeds), shape, stored, fixed)
        stores, policy = setup.replay, setup.policy
        known = {"x": (shape, stored), "y": target.layout(outputs)}
        layout = stores.layout(known, outputs, dtype, fields) if stores else {}
        self.memory = Memory(len(seeds), memory if stores else 0, layout, self.device)
        if policy is not None and stores is not None:
            check_plans(policy, len(seeds), memory, classes, tasks, stores.draws)
        counts = no_counts(policy, len(seeds), classes, self.device)
        each = numbers or [{}] * len(seeds)
        self.planner = Planner(
            self.seeds, self.memory, policy, stores.draws if stores else 0, replay, images,
            self.network.noisy, counts, optimisation.rates(rates, each),
        )  # fmt: skip
        self.planner.begin_schedule(0, steps)
        begun, self.by_slot = state_of(setup, self.model)
        self.state = State(begun).to(self.device)
        checks.check_state(self.kind, self.state, self.runs)
        self._reader = replace(self._reader, state=self.state, memory=self.memory)
        self.optimiser = optimisation.start(self.weights, each, self.network.trained)
        whole = FleetState(*own, self._method, rates, self.state, self.optimiser)
        # The state of torch's optimisers is not there before the first step.
        torchs = self.optimiser if isinstance(self.optimiser, TorchOptimiser) else None
        if torchs or guarded or isinstance(images, Transforms):
            recorded = recorded or False
        alike = steps // tasks if self.kind.needs.task_id else steps
        fast = fast_steps(False if torchs else compiled, recorded, self.network, alike, self.runs)
        changed = [t for n, t in self.tensors().items() if not n.startswith("memory.")]
        self.guard = Guard(changed, self.memory, torchs) if guarded else None
        self._stepper = Stepper(self.network, self.memory, whole, fast, images, self.guard,
                                [field.name for field in fields], target)  # fmt: skip

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.seeds)

    @property
    def weights(self) -> Weights:
        """The weights of all runs."""
        return self.network.weights

    @property
    def seen(self) -> int:
        """How many examples every run has seen."""
        return self.clock.seen

    @property
    def steps(self) -> int:
        """How many steps every run has taken."""
        return self.clock.steps

    def set_lr(self, lr: Sequence[float]) -> None:
        """Learn at these rates from the next step on, one for every run."""
        self.model.rate.copy_(self.model.rate.new_tensor(list(lr)))
        self._stepper.set_rates(self.model.rate)

    @property
    def bytes_per_run(self) -> int:
        """What one run holds besides the network that was given: memory, state, added weights."""
        state = sum(t[0].numel() * t.element_size() for t in self.state.values())
        return self.memory.bytes_per_run + state + self._added_bytes

    def learn(
        self, x: Tensor, y: Tensor, batch: int, given: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Take a step on every `batch` examples of x `[K, n, ...]`, y `[K, n]`; the last loss.

        What is replayed and where examples are stored is known beforehand, so it is worked out for
        many steps at once. The `fields` that the fleet was made with are `given`, `[K, n, ...]`.
        """
        if self.kind.needs.task_id and self.clock.task >= self.clock.tasks:
            seen = f"{self.kind.title} has seen all of its {self.clock.tasks} tasks"
            raise InputError(f"{seen}: give the number of tasks that there will be")
        checks.check_batch(x, y, batch, self.runs, self.classes, self.target)
        y = y if y.dtype == self.target.dtype else y.to(self.target.dtype)
        loss, count, start = torch.zeros(self.runs, device=self.device), y.shape[1], 0
        with fast_arithmetic(self.device):
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
                usual = size == batch and self.planner.full(self.clock)
                loss = self._stepper.take(stacks, sizes, usual)
                self.planner.count(labels)
                self.clock = self.clock.after(steps, size)
                if self.clock.holes:
                    self.clock = self.clock.filled(self._stepper.written)
                start = stop
        return loss

    def start_task(self, examples: Examples, count: int, batch: int = BATCH) -> int:
        """Tell a method that needs boundaries that a task begins.

        `examples` returns those of the task at an index `[K, n]` below `count`; they come in
        batches of this size. The result is how many stored examples arrive again with them.
        """
        return self._requests(examples, count, batch, ending=False).rehearsed

    def end_task(self, examples: Examples, count: int, batch: int = BATCH) -> int:
        """Tell a method that needs boundaries that a task ends; how many epochs it wants more."""
        return self._requests(examples, count, batch, ending=True).epochs

    def next_task(self, count: int = 0) -> None:
        """Go on to the next task, after one of so many examples."""
        self.clock = self.clock.next_task(count)
        self._begin_task()

    @property
    def execution(self) -> str:
        """How its steps are carried out, in words."""
        return self._stepper.execution

    def tensors(self) -> Stacks:
        """Every tensor that learning changes; with the clock, its whole state."""
        parts = {
            "weights": self.weights.named(),
            "buffers": self.network.buffers,
            "memory": self.memory.tensors,
            "state": self.state,
            "counts": {} if self.planner.counts is None else {"labels": self.planner.counts},
            "optimiser": {} if self.optimiser is None else self.optimiser.state,
        }
        return {f"{part}.{n}": t for part, tensors in parts.items() for n, t in tensors.items()}

    def restore(self, tensors: Mapping[str, Tensor], clock: Clock) -> None:
        """Go to a state that another fleet of the same kind was in."""
        if isinstance(self.optimiser, TorchOptimiser):
            start = "optimiser."
            kept = {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
            self.optimiser.restore(kept)
        mine = self.tensors()
        checks.check_alike(mine, tensors)
        for name, tensor in mine.items():
            tensor.copy_(tensors[name])
        self.clock = clock
        self._begin_task()

    def logits(self, x: Tensor) -> Tensor:
        """The logits `[K, n, C]` of examples `[K, n, ...]`, or `[1, n, ...]` for all runs alike."""
        return self._reader.logits(x)

    def predict(self, x: Tensor, task: int = 0) -> Tensor:
        """The scores `[K, n, C]` of which the method predicts the largest: logits, for most.

        The examples belong to a task, which only a method that needs it is told.
        """
        return self._reader.predict(x, self.clock, task)

    def reader(self, tensors: Mapping[str, Tensor], memory: Memory) -> Reader:
        """Predictions with these tensors, named as those of `tensors()`, and this memory.

        They have a network of their own, which another thread may call while this one learns.
        """
        network = self._another_network(strategy=self.network.strategy)
        reader = self._reader.over(network, tensors, memory)
        network.switch(training=False)
        network.noisy = self.network.noisy and network.draws(reader.inputs(self._blank()))
        return reader

    def _begin_task(self) -> None:
        if self.kind.needs.task_id and self.clock.task < self.clock.tasks:
            self.network.begin(self.clock.task)
            self._stepper.arrange(self.clock.task)

    def _requests(self, examples: Examples, count: int, batch: int, *, ending: bool) -> Requests:
        requests, steps = Requests(ending), self.clock.steps
        if not self.kind.needs.boundaries:
            return requests
        task = Task(
            self.clock, self.seeds, self.model, self.state, self.memory, count, batch,
            self.planner.replay, examples, self._reader.inputs,
            partial(training_logits, self.network, self.images, self.seeds, steps, batch), requests,
        )  # fmt: skip
        with fast_arithmetic(self.device):
            (self._method.end_task if ending else self._method.start_task)(task)
        self._stepper.first_steps.forget()
        return requests
