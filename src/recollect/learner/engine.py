"""What a learner trains: a fleet of one run that can undo a step and get more outputs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn

from recollect.core.images import as_input
from recollect.core.modules import maker
from recollect.errors import DivergedError, InputError
from recollect.learner import log
from recollect.learner.carried import carry, copies_of_weights
from recollect.learner.emptied import NUMBER, empty_slots, numbers_after
from recollect.learner.examples import Kind
from recollect.learner.exported import with_first_outputs
from recollect.learner.growth import NOT_THE_LOGITS, dtype_of, outputs_of, with_outputs
from recollect.learner.labels import Labels
from recollect.learner.settings import Settings
from recollect.learner.threads import Work
from recollect.learner.user_errors import UserErrors
from recollect.learner.views import ROWS, Views
from recollect.methods import Spec, setup_of
from recollect.methods.exports import exported
from recollect.train import Fleet

__all__ = ["Engine", "first_engine"]


@final
class Engine:
    """The network, the memory and the method of a learner, for examples of one kind.

    It has at least so many outputs. It is a fleet of one run, whose last step can be undone.
    """

    def __init__(
        self, module: nn.Module, settings: Settings, kind: Kind, outputs: int,
        numbered: bool = False,
    ) -> None:  # fmt: skip
        self.settings, self.kind, self.numbered = settings, kind, numbered
        self._user_errors = UserErrors(settings.method)
        device, dtype, packing = settings.device, dtype_of(module), kind.packing
        self.module = module = module.to(device)
        blank = as_input(torch.zeros(kind.shape, dtype=kind.dtype, device=device), dtype)
        self._blank = blank
        with Work.counted(module, examples=2) as self._work:
            self.outputs = outputs_of(module, blank, packing)
        if self.outputs < outputs:
            self.module = module = with_outputs(module, outputs, settings.seed)
            self.outputs = outputs_of(module, blank, packing)
            if self.outputs < outputs:
                raise InputError(NOT_THE_LOGITS)
        self.fleet = Fleet(
            [settings.method],
            module,
            seeds=[settings.seed],
            lr=[settings.lr],
            classes=self.outputs,
            shape=kind.shape,
            memory=settings.capacity(kind, self.outputs, dtype, given := [NUMBER] * numbered),
            replay=settings.replay,
            stored=kind.dtype,
            images=settings.transforms(packing),
            packing=packing,
            dtype=dtype,
            device=device,
            compiled=False,
            strategy=None if getattr(module, "broadcasts_runs", False) else "loop",
            steps=settings.optimising.horizon,
            optimisation=settings.optimising.names,
            numbers=[settings.optimising.numbers],
            guarded=True,
            fields=given,
        )
        assert self.fleet.guard is not None
        self.guard = self.fleet.guard
        trained = self.fleet.network.trained
        frozen = (t for n, t in self.fleet.weights.named().items() if n not in trained)
        self.guard.expect_seldom(frozen)
        self._before = self.fleet.clock
        self._views: Views | None = None
        replayed = settings.method.replay
        self._replayed = replayed.draws * settings.replay if replayed else 0

    def threads(self, rows: int) -> AbstractContextManager[None]:
        """The setting of threads for a step that learns from so many rows."""
        return self._work.step(rows + self._replayed)

    def begin(self) -> None:
        """Begin a step: what was learned before cannot be undone any more."""
        self.guard.forget()
        self._before = self.fleet.clock
        if self._views is not None:
            self._views.begin()

    def step(self, x: Tensor, y: Tensor) -> float:
        """Learn from a batch `[n, ...]` with labels `[n]`; the loss."""
        self._note()
        given = numbers_after(self.fleet.seen, y) if self.numbered else None
        try:
            with self._user_errors:
                return float(self.fleet.learn(x.unsqueeze(0), y.unsqueeze(0), len(y), given))
        except DivergedError:
            log.tell_undone(self.fleet.steps, "the loss or the weights are not finite after it")
            raise DivergedError(
                "the loss or the weights are not finite after this step, which was taken "
                "back: take a lower lr, or scale the examples"
            ) from None

    def _note(self) -> None:
        if self._views is None:
            self.guard.note()
        else:
            self._views.begin_step()

    def set_lr(self, lr: float) -> None:
        """Learn at this rate from the next step on."""
        self.settings = replace(self.settings, lr=lr)
        self.fleet.set_lr([lr])

    def undo(self) -> None:
        """Restore the state at the last `begin`."""
        if self._views is None:
            self.guard.undo()
            self.fleet.clock = self._before
        else:
            self._views.undo_step()

    def publish(self, labels: Labels) -> None:
        """Have predictions read the present state, which has these labels."""
        if self._views is None:
            self._views = Views(self.fleet, self.guard, labels)
        else:
            self._views.end_step(labels)

    @property
    def draws(self) -> bool:
        """Whether a prediction draws random numbers, so that it has to wait for steps."""
        return self._views is not None and self._views.draws

    def scores(self, x: Tensor) -> tuple[Tensor, Labels]:
        """The scores `[n, classes]` of a batch `[n, ...]`, and the labels; for any thread.

        They are those of the state that was published last, also while a step is taken.
        """
        assert self._views is not None
        threads = self._work.pass_over(min(len(x), ROWS))
        with self._views.reading(len(x)) as view, self._user_errors, threads:
            return view.predict(x)[:, : len(view.labels)], view.labels

    def logits(self, x: Tensor) -> Tensor:
        """The scores `[n, outputs]` of a batch `[n, ...]`, for the thread that takes the steps."""
        with self._user_errors, self._work.pass_over(min(len(x), ROWS)):
            if len(x) <= ROWS:
                return self.fleet.predict(x.unsqueeze(0))[0]
            return torch.cat([self.fleet.predict(part.unsqueeze(0))[0] for part in x.split(ROWS)])  # type: ignore[no-untyped-call]

    def grown(self, outputs: int) -> Engine:
        """A copy of this engine with more outputs.

        The biases of the new outputs start at the mean logit of the stored examples' other
        classes, and the stored logits are extended by what the new outputs predict.
        """
        module = with_outputs(self.module, outputs, self.settings.seed)
        bigger = Engine(module, self.settings, self.kind, outputs, self.numbered)
        self._check_state_grows(bigger.fleet.tensors())
        copies = copies_of_weights(bigger.fleet.tensors())
        carry(self.fleet, bigger.fleet)
        bigger._start_outputs(self.outputs, self._mean_other_logit(), copies)
        log.tell_grown(self.outputs, bigger.outputs)
        return bigger

    def numbering(self) -> Engine:
        """This engine if the examples in its memory have numbers, otherwise a copy that has."""
        if self.numbered:
            return self
        found = Engine(self.module, self.settings, self.kind, self.outputs, numbered=True)
        carry(self.fleet, found.fleet)
        return found

    def empty(self, slots: list[int]) -> None:
        """Overwrite slots of the memory, and the spare row, with zeros: a step that can be undone.

        The `settle` that follows `publish` leaves no copy of them.
        """
        self.begin()
        self._note()
        empty_slots(self.fleet, self.guard, slots)

    def settle(self) -> None:
        """Leave no copy of an earlier state, of the memory or of the weights."""
        assert self._views is not None
        self._views.settle()

    def _check_state_grows(self, larger: Mapping[str, Tensor]) -> None:
        """Refuse to grow if the state of the classes so far would begin otherwise with more.

        State for a new class begins as in a new run. That is right if a method has a value for
        every class, and wrong if it divides something among them.
        """
        names = [name for name in larger if name.startswith("state.")]
        now = self.fleet.tensors()
        if all(now[name].shape == larger[name].shape for name in names):
            return
        fresh = Engine(self.module, self.settings, self.kind, self.outputs).fleet.tensors()
        for name in names:
            begun = larger[name][tuple(slice(size) for size in fresh[name].shape)]
            if not torch.equal(fresh[name], begun):
                raise InputError(
                    f"{self.settings.method.title} has state that depends on how many classes "
                    f"there are: say which there will be (classes=[...])"
                )

    @property
    def _filled(self) -> Tensor:
        return self.fleet.planner.filled(self.fleet.clock).to(self.fleet.device)

    @torch.no_grad()
    def _start_outputs(self, first: int, bias: float, copies: list[str]) -> None:
        network, memory = self.fleet.network, self.fleet.memory.tensors
        tensors = self.fleet.tensors()
        for name in network.head_axes:
            if name.split(".")[-1] == "bias":
                for each in ("", *copies):
                    tensors[f"{each}weights.{name}"][:, first:] = bias
        filled = self._filled
        if len(filled) and "logits" in memory:
            memory["logits"][filled, first:] = self.logits(memory["x"][filled])[:, first:]

    @torch.no_grad()
    def _mean_other_logit(self) -> float:
        memory, filled = self.fleet.memory.tensors, self._filled[:ROWS]
        if not len(filled) or self.outputs < 2 or not {"x", "y"} <= memory.keys():
            return 0.0
        logits = self.logits(memory["x"][filled])
        other = torch.ones_like(logits, dtype=torch.bool)
        other.scatter_(1, memory["y"][filled, None], False)
        return float(logits[other].mean())

    @torch.no_grad()
    def trained(self, outputs: int | None = None) -> nn.Module:
        """A copy of the user's module with all that was learned, and the encoder before it.

        Where the method trains another network made of it, that one. With its first `outputs`.
        """
        capacity, classes = self.fleet.memory.capacity, self.outputs
        spec = Spec(1, capacity, classes, 1, classes, self.kind.shape)
        module = maker(setup_of(self.settings.method, spec).network(self.module))()
        module.to(self.settings.device, dtype_of(self.module))
        tensors = {**self.fleet.weights.named(), **self.fleet.network.buffers}
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            tensor.copy_(tensors[name][0])
        encoder = self.settings.encoder
        module = exported(self.settings.method, module, self.fleet.state)
        wanted, packing = (outputs or classes, classes), self.kind.packing
        module = with_first_outputs(module, wanted, self._blank, packing)
        return encoder.before(module, self.kind.arriving.packing) if encoder else module


def first_engine(
    module: nn.Module, settings: Settings, kind: Kind, labels: Labels, *, numbered: bool = False
) -> Engine:
    """The engine for a stream of examples of this kind that begins with these labels."""
    engine = Engine(module, settings, kind, len(labels), numbered)
    if engine.outputs > len(labels) or labels.fixed or not settings.spare:
        return engine
    try:
        return Engine(module, settings, kind, len(labels) + settings.spare, numbered)
    except InputError:  # it cannot grow, and may never have to
        return engine
