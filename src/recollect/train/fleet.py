"""A fleet: K runs of one method, trained together as one computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from recollect.core.fleet_optimiser import FleetOptimiser
from recollect.core.images import Images, as_input
from recollect.core.memory_format import in_fast_format
from recollect.core.model import Model
from recollect.core.modules import Strategy, network_size, with_marked_head
from recollect.core.network import Network
from recollect.core.packing import Packing
from recollect.core.targets import CLASS, Target
from recollect.core.torch_optimiser import TorchOptimiser
from recollect.core.transforms import Transforms
from recollect.core.weights import State, Weights
from recollect.memory import Clock, Memory
from recollect.memory.policy import check_plans
from recollect.methods import Field, Method, Spec, setup_of, state_of
from recollect.train import checks
from recollect.train.compiled import fast_steps
from recollect.train.execution import Stacks
from recollect.train.fleet_state import FleetState, stacked
from recollect.train.fleet_steps import FleetSteps
from recollect.train.guard import Guard, pooled
from recollect.train.optimisation import PLAIN_SGD, Optimisation
from recollect.train.planner import Planner
from recollect.train.reader import Reader
from recollect.train.stepper import Stepper


class Fleet(FleetSteps):
    """Train K runs of one method together, each with its own seed and hyper-parameters.

    Args:
        methods: The method of each run, all of one class.
        network: The network, or a function that creates it.
        seeds: The seed of each run.
        lr: The learning rate of each run.
        classes: Number of classes, or of outputs for other targets.
        shape: Shape of an example.
        memory: Capacity of the replay memory of each run, in examples.
        replay: Number of examples in each draw from the memory.
        stored: The type in which examples are stored.
        images: Augmentation of images, or transforms of batches.
        packing: How several tensors are packed into an example, if they are.
        dtype: The type of weights and logits.
        device: The device to compute on.
        half: Whether to compute in bfloat16.
        recorded: Whether to record steps (CUDA graphs); by default on a GPU.
        compiled: Whether to compile steps; by default if that saves time over `steps`.
        steps: Number of steps that will be taken, as far as known; also the schedule's length.
        tasks: Number of tasks.
        per_task: Number of classes per task; `classes` by default.
        strategy: How the networks of all runs are computed; chosen by default.
        optimisation: The optimiser and the learning rate schedule.
        numbers: Optimiser hyper-parameters of each run, such as the momentum.
        guarded: Whether a step that fails or diverges can be undone; for one run only.
        fields: Fields that `learn` is given, to be stored with the examples.
        target: The kind of y: classes, numbers or sets of labels, and whether it has weights.
        example: An example `[...]` to try the network on; by default one of zeros. It is not kept.

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
        example: Tensor | None = None,
    ) -> None:
        by_torch = optimisation.options is not None
        checks.check_runs(methods, seeds, lr, memory, replay, alone=by_torch or guarded)
        self.kind, self.device = type(methods[0]), torch.device(device)
        self.seeds = torch.tensor(list(seeds), dtype=torch.int64, device=self.device)
        tried = torch.zeros(shape, dtype=stored) if example is None else example
        tried = tried.to(self.device, stored).repeat(len(seeds), 2, *[1] * len(shape))
        self.classes, self.target, self.images = classes, target, images
        self.clock = Clock(tasks=tasks)
        spec = Spec(len(seeds), memory, classes, tasks, per_task or classes, shape)
        setup = setup_of(methods[0], spec)
        network = with_marked_head(network, as_input(tried[0], dtype), packing)
        checks.check_target(methods[0], setup.policy, target)
        built = setup.network(network)
        self._another_network = partial(
            Network, built, seeds, dtype=dtype, device=self.device, strategy=strategy, half=half,
            packing=packing,
        )  # fmt: skip
        self.network = in_fast_format(self._another_network, as_input(tried, dtype))
        pool = pooled(self.network) if guarded and not compiled else None
        added = 0 if built is network else self.network.size - network_size(network)
        self._added_bytes = max(added, 0) * dtype.itemsize
        self._method = stacked(methods, dtype, self.device)
        rates = torch.tensor(list(lr), dtype=dtype, device=self.device)
        own = self.network.weights, self.network.buffers
        self.model = Model(self.network, *own, rates, criterion=target.criterion)
        # A method that overrides `predict` may have a network with any number of outputs.
        fixed = None if self.kind.predict is not Method.predict else classes
        nothing = State({}), Memory(len(seeds), 0, {}, self.device)
        self._reader = Reader(self._method, self.model, *nothing, images, classes)
        zeros = example is None
        outputs = checks.check_network(self.network, self.logits, tried, fixed, zeros=zeros)
        self._always_noisy = self._draws_in_evaluation(tried)
        stores, policy = setup.replay, setup.policy
        known = {"x": (shape, stored), "y": target.layout(outputs)}
        layout = stores.layout(known, outputs, dtype, fields) if stores else {}
        self.memory = Memory(len(seeds), memory if stores else 0, layout, self.device)
        if policy is not None and stores is not None:
            check_plans(policy, len(seeds), memory, classes, tasks, stores.draws)
        counts = None
        if policy is not None and policy.uses_labels:
            counts = torch.zeros(len(seeds), classes, dtype=torch.int64, device=self.device)
        each = numbers or [{}] * len(seeds)
        self.planner = Planner(
            self.seeds.cpu() if guarded else self.seeds, self.memory, policy,
            stores.draws if stores else 0, replay, images, self.network.noisy, counts,
            optimisation.rates(rates.cpu() if guarded else rates, each),
        )  # fmt: skip
        self.planner.begin_schedule(0, steps)
        begun, self.by_slot = state_of(setup, self.model)
        self.state = State(begun).to(self.device)
        checks.check_state(self.kind, self.state, self.runs)
        self._reader = replace(self._reader, state=self.state, memory=self.memory)
        self.optimiser = optimisation.start(self.weights, each, self.network.trained)
        torchs = self.optimiser if isinstance(self.optimiser, TorchOptimiser) else None
        if torchs or isinstance(images, Transforms):
            recorded = recorded or False
        alike = steps // tasks if self.kind.needs.task_id else steps
        fast = fast_steps(False if torchs else compiled, recorded, self.network, alike, self.runs)
        self.recorded = fast[1]
        if isinstance(self.optimiser, FleetOptimiser) and guarded:
            immediate = self.device.type == "cpu" and not any(fast)
            self.optimiser = replace(self.optimiser, immediate=immediate)
        whole = FleetState(*own, self._method, rates, self.state, self.optimiser)
        changed = [t for n, t in self.tensors().items() if not n.startswith("memory.")]
        self.guard = Guard(changed, self.memory, torchs, pool) if guarded else None
        self._stepper = Stepper(self.network, self.memory, whole, fast, self.logits, images,
                                self.guard, [field.name for field in fields], target)  # fmt: skip

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.seeds)

    @property
    def weights(self) -> Weights:
        """The weights of all runs."""
        return self.network.weights

    @property
    def seen(self) -> int:
        """Number of examples seen by every run."""
        return self.clock.seen

    @property
    def steps(self) -> int:
        """Number of steps taken by every run."""
        return self.clock.steps

    @property
    def bytes_per_run(self) -> int:
        """Bytes of memory, method state and added weights of one run, without the network."""
        state = sum(t[0].numel() * t.element_size() for t in self.state.values())
        return self.memory.bytes_per_run + state + self._added_bytes

    def tensors(self) -> Stacks:
        """Return every tensor that training changes; with the clock, the whole state."""
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
        """Load the tensors and clock of another fleet of the same kind."""
        if isinstance(self.optimiser, TorchOptimiser):
            self.optimiser.restore(State(tensors).below("optimiser."))
        mine = self.tensors()
        checks.check_alike(mine, tensors)
        for name, tensor in mine.items():
            tensor.copy_(tensors[name])
        self.clock = clock
        self._begin_task()

    def logits(self, x: Tensor) -> Tensor:
        """Compute the logits `[K, n, C]` of examples `[K, n, ...]`, or `[1, n, ...]` for all."""
        return self._reader.logits(x)

    def predict(self, x: Tensor, task: int = 0) -> Tensor:
        """Compute the method's scores `[K, n, C]`: the logits, unless it overrides `predict`.

        `task` is the task of the examples, which only methods that need task ids receive.
        """
        return self._reader.predict(x, self.clock, task)

    def reader(self, tensors: Mapping[str, Tensor], memory: Memory) -> Reader:
        """Create a predictor with these tensors, named as in `tensors()`, and this memory.

        It has its own network, so another thread may use it while this one trains.
        """
        mine = self.network
        network = self._another_network(strategy=mine.strategy, channels_last=mine.channels_last)
        reader = self._reader.over(network, tensors, memory)
        network.switch(training=False)
        network.noisy = self._always_noisy
        return reader

    def _draws_in_evaluation(self, x: Tensor) -> bool:
        """Whether the network draws random numbers in evaluation mode, too, on examples x."""
        with self.network.mode(training=False):
            return self.network.noisy and self.network.draws(self._reader.inputs(x))
