"""The training engine: a fleet of one run that can undo a step and add outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn

from recollect.core.first_pass import FirstPass
from recollect.core.heads import mark_head
from recollect.core.images import as_input
from recollect.core.modules import maker
from recollect.core.targets import Target
from recollect.errors import DivergedError, InputError
from recollect.learner import log
from recollect.learner.engine.carry import carry, copies_of_weights
from recollect.learner.engine.emptied import NUMBER, empty_slots, numbers_after
from recollect.learner.engine.exported import with_first_outputs
from recollect.learner.engine.growth import (
    NOT_THE_LOGITS,
    dtype_of,
    with_outputs,
)
from recollect.learner.engine.new_outputs import mean_other_logit, start_outputs
from recollect.learner.engine.probing import grown_outputs, probed, some_stored, to_compare_on
from recollect.learner.engine.threads import one_thread_here, with_gradients
from recollect.learner.engine.user_errors import UserErrors
from recollect.learner.engine.views import ROWS, Views, in_parts, predicts_by_first_pass
from recollect.learner.inputs.examples import Kind
from recollect.learner.settings import Settings
from recollect.learner.targets.answers import Answers
from recollect.methods import Method, Spec, setup_of
from recollect.methods.base import exported
from recollect.train import Fleet

LIST_ALL = "list all classes (classes=[...])"


@final
class Engine:
    """The network, memory and method of a learner: a fleet of one run with undo.

    Args:
        module: The network. Outputs are added to a copy if it has fewer than `outputs`.
        settings: The arguments of the learner.
        kind: The shape and type of the examples.
        outputs: The smallest number of outputs.
        numbered: Whether the memory stores the numbers of examples, for ids.
        target: What is predicted; by default that of the settings, without example weights.
        examples: Examples `[n, ...]`, one of which the network is tried on; by default made-up
            ones. They are not kept.
    """

    @one_thread_here()
    @with_gradients()
    def __init__(
        self, module: nn.Module, settings: Settings, kind: Kind, outputs: int,
        numbered: bool = False, target: Target | None = None, examples: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.settings, self.kind, self.numbered = settings, kind, numbered
        self.target = target or settings.target
        self._user_errors = UserErrors(settings.method)
        device, dtype, packing = settings.device, dtype_of(module), kind.packing
        self.module = module = module.to(device)
        self.outputs, example, self._work = probed(module, kind, device, examples)
        mark_head(module, as_input(torch.stack([example, example]), dtype), packing)
        if self.outputs < outputs:
            self.module = module = with_outputs(module, outputs, settings.seed)
            self.outputs = grown_outputs(module, example, packing)
            if self.outputs != outputs:
                raise InputError(NOT_THE_LOGITS)
        given = [NUMBER] * numbered
        self.fleet = Fleet(
            [settings.method],
            module,
            seeds=[settings.seed],
            lr=[settings.lr],
            classes=self.outputs,
            shape=kind.shape,
            memory=settings.capacity(kind, self.outputs, dtype, given, self.target),
            replay=settings.replay,
            stored=kind.dtype,
            images=settings.transforms(packing),
            packing=packing,
            dtype=dtype,
            device=device,
            half=settings.half,
            compiled=settings.compiled,
            strategy=None if getattr(module, "broadcasts_runs", False) else "loop",
            steps=settings.optimising.horizon,
            optimisation=settings.optimising.names,
            numbers=[settings.optimising.numbers],
            guarded=True,
            fields=given,
            target=self.target,
            example=example,
        )
        assert self.fleet.guard is not None
        self.guard = self.fleet.guard
        weights, trained = self.fleet.weights.named(), self.fleet.network.trained
        self.guard.expect_seldom(t for n, t in weights.items() if n not in trained)
        self._before = self.fleet.clock
        self._views: Views | None = None
        if not settings.compiled and predicts_by_first_pass(self.fleet, self.module):
            self.fleet.network.first_pass = FirstPass(self.fleet.weights)
        replayed = settings.method.replay
        self._replayed = replayed.draws * settings.replay if replayed else 0

    def threads(self, rows: int) -> AbstractContextManager[None]:
        """Limit the threads of torch, as a context, for a step on a batch of `rows` examples."""
        return self._work.step(rows + self._replayed)

    def begin(self) -> None:
        """Begin a step; the previous one can no longer be undone."""
        self.guard.forget()
        self._before = self.fleet.clock
        if self._views is not None:
            self._views.begin()

    def placed(self, x: Tensor) -> Tensor:
        """Move a batch to the device, unless steps are recorded: they send all inputs together."""
        x = x.clone() if x.is_inference() else x  # backward passes cannot save such tensors
        return x if self.fleet.recorded else x.to(self.settings.device)

    def step(self, x: Tensor, y: Tensor, scored: bool, meanwhile: Callable[[], None]) -> float:
        """Take a step on a batch `[n, ...]` with targets `[n, ...]`, and return the loss.

        `scored` requests `scores_before`, if it `predicts_in_step`. `meanwhile` is work for the
        host while the device computes.
        """
        self._note()
        given = numbers_after(self.fleet.seen, x) if self.numbered else None
        try:
            with self._user_errors:
                batch = x.unsqueeze(0), y.unsqueeze(0), given
                return float(self.fleet.step(*batch, scored=scored, meanwhile=meanwhile))
        except DivergedError:
            log.tell_undone(self.fleet.steps, "the loss or the weights are not finite after it")
            raise DivergedError(
                "the loss or the weights are not finite after this step, which was undone: use a "
                "lower lr, or scale the examples"
            ) from None

    def _note(self) -> None:
        if self._views is None:
            self.guard.note()
        else:
            self._views.begin_step()

    def set_lr(self, lr: float) -> None:
        """Set the learning rate from the next step on."""
        self.settings = replace(self.settings, lr=lr)
        self.fleet.set_lr([lr])

    def undo(self) -> None:
        """Restore the state at the last `begin`."""
        if self._views is None:
            self.guard.undo()
            self.fleet.clock = self._before
        else:
            self._views.undo_step()

    def publish(self, labels: Answers) -> None:
        """Make the current state, with these labels, visible to predictions."""
        if self._views is None:
            self._views = Views(self.fleet, self.guard, labels)
        else:
            self._views.end_step(labels)

    @property
    def draws(self) -> bool:
        """Whether predictions draw random numbers, and so have to wait for steps."""
        return self._views is not None and self._views.draws

    def scores(self, x: Tensor) -> tuple[Tensor, Answers]:
        """Compute the logits `[n, classes]` of a batch, and return the labels; thread-safe.

        They are computed with the last published state, also during a step.
        """
        assert self._views is not None
        threads = self._work.pass_over(min(len(x), ROWS))
        with self._views.reading(len(x)) as view, self._user_errors, threads:
            return view.predict(x)[:, : len(view.labels)], view.labels

    def logits(self, x: Tensor) -> Tensor:
        """Compute the logits `[n, outputs]` of a batch; only for the thread that takes steps."""
        with self._user_errors, self._work.pass_over(min(len(x), ROWS)):
            return in_parts(self.fleet.predict, x.to(self.settings.device))

    def predicts_in_step(self, rows: int) -> bool:
        """Whether `scores_before` is available after a step, which saves a pass before it."""
        if self.fleet.recorded:
            return self.fleet.kind.predict is Method.predict and rows <= ROWS
        return self._views is not None and self.fleet.network.first_pass is not None

    def scores_before(self, x: Tensor) -> Tensor:
        """Return the logits `[n, outputs]` of the last step's batch, from before the step."""
        if self.fleet.scores is not None:
            return self.fleet.scores[0]
        assert self._views is not None
        with self._user_errors:
            return self._views.before_step(x)

    def grown(self, outputs: int, examples: Tensor | None = None) -> Engine:
        """Return a copy of this engine with more outputs; the network is tried on an example.

        The biases of the new outputs start at the mean logit of the other classes of the stored
        examples, and the stored logits are extended by the predictions of the new outputs.
        """
        module = with_outputs(self.module, outputs, self.settings.seed)
        parts = self.settings, self.kind, outputs, self.numbered, self.target, examples
        bigger = Engine(module, *parts)
        self._check_state_grows(bigger.fleet.tensors(), examples)
        copies = copies_of_weights(bigger.fleet.tensors())
        carry(self.fleet, bigger.fleet)
        start_outputs(bigger, self.outputs, mean_other_logit(self), copies)
        log.tell_grown(self.outputs, bigger.outputs)
        return bigger

    def numbering(self, examples: Tensor | None = None) -> Engine:
        """Return this engine if its memory stores example numbers, or a copy that does."""
        if self.numbered:
            return self
        parts = self.settings, self.kind, self.outputs, True, self.target, examples
        found = Engine(self.module, *parts)
        carry(self.fleet, found.fleet)
        return found

    def empty(self, slots: list[int]) -> None:
        """Overwrite slots of the memory with zeros, as a step that can be undone.

        Call `publish` and then `settle` to remove all copies of them.
        """
        self.begin()
        self._note()
        empty_slots(self.fleet, self.guard, slots)

    def settle(self) -> None:
        """Remove all copies of the previous weights, memory and batches."""
        assert self._views is not None
        self._views.settle()
        self.fleet.wipe()

    def _check_state_grows(self, larger: Mapping[str, Tensor], examples: Tensor | None) -> None:
        """Raise an `InputError` if the initial state of a class depends on the number of classes.

        The state of a new class is initialised as in a new run. This is right if a method has a
        value for every class, and wrong if it divides something among them.
        """
        names = [name for name in larger if name.startswith("state.")]
        now = self.fleet.tensors()
        if all(now[name].shape == larger[name].shape for name in names):
            return
        parts = self.module, self.settings, self.kind, self.outputs, self.numbered, self.target
        fresh = Engine(*parts, examples).fleet.tensors()
        for name in names:
            begun = larger[name][tuple(slice(size) for size in fresh[name].shape)]
            if not torch.equal(fresh[name], begun):
                why = f"the state of {self.settings.method.title} depends on the number of classes"
                raise InputError(f"{why}, so no class can be added: {LIST_ALL}")

    @property
    def stored(self) -> Tensor | None:
        """Some stored examples `[n, ...]`, or None if there are none."""
        return some_stored(self.fleet.memory.tensors.get("x"))

    @one_thread_here()
    @torch.no_grad()
    def trained(self, outputs: int | None = None) -> nn.Module:
        """Return a copy of the trained network with its first `outputs`, and the encoder if any.

        If the method trains a network derived from the user's module, this is that network.
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
        wanted = outputs or classes, classes
        examples = to_compare_on(self.module, self.kind, self.settings.device, self.stored)
        module = with_first_outputs(module, wanted, examples, self.kind.packing)
        return encoder.before(module, self.kind.arriving.packing) if encoder else module
