"""Learning from a stream: `observe`, `follow`, and the step behind them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

from torch import Tensor

from recollect.errors import InputError
from recollect.learner import log
from recollect.learner.contents.ids import Named, named_as
from recollect.learner.engine.adapting import adapted, first_engine, targets_of
from recollect.learner.engine.engine import Engine
from recollect.learner.engine.threads import gradients_on, with_gradients
from recollect.learner.inputs.arriving import Arriving, arriving, check_on_outlier
from recollect.learner.inputs.examples import Kind
from recollect.learner.inputs.parts import pair_of
from recollect.learner.late.labelling import Late
from recollect.learner.saving.snapshot import Snapshot
from recollect.learner.targets.answers import Answers
from recollect.learner.targets.labels import encoded


class Learning(Late):
    """Adds `observe` and `follow` to a learner that handles late labels."""

    def observe(
        self, x: Any, y: Any, *, predicted: Any = None, on_outlier: str | None = None,
        ids: Any = None, source: str | None = None, weight: Any = None,
    ) -> float:  # fmt: skip
        """Learn from one example and its label, or from a batch and a list of labels.

        Each call is one optimisation step, whatever the size of the batch. The examples are
        predicted before they are learned, for `metrics`.

        Args:
            x: An example or a batch of examples: a tensor, an array or a list of numbers, or a
                mapping or tuple of them if the network takes several inputs.
            y: The label of the example, or a list of labels.
            predicted: What `predict` returned for these examples earlier. `metrics` then counts
                this prediction, which saves a forward pass. None in a list: not predicted.
            on_outlier: "skip", "raise" or "learn"; by default as the learner was created.
            ids: A string or an integer for every example, by which `forget` can remove it from the
                memory. None in a list: no id.
            source: Where the examples come from, a text that `remembered` lists with their ids.
            weight: A factor for the loss of all examples, or one for each, now and whenever they
                are replayed. Examples with a weight of 0 are left out.

        Returns:
            The loss; NaN if all examples were left out, in which case no step is taken.

        Raises:
            InputError: The examples or labels cannot be learned from.
            DivergedError: The loss or a weight is not finite after the step.
            DataError: An earlier checkpoint could not be written. This step was learned.

        After an `InputError`, a `DivergedError` or an interrupt, the learner is exactly as before
        the call.

        >>> from recollect import ER, MLP, Learner
        >>> learner = Learner(MLP(2, 1), ER())
        >>> loss = learner.observe([[1.0, 0.0], [0.0, 1.0]], ["a", "b"])
        >>> learner.seen, learner.steps, learner.classes
        (2, 1, ['a', 'b'])
        """
        self._check_open()
        how = self._settings.on_outlier if on_outlier is None else on_outlier
        check_on_outlier(how)
        kind, known = self._now.engine and self._now.engine.kind.arriving, self._now.labels
        reader = self._settings.reader(self._module)
        arrived = arriving(x, y, kind, how, reader, known, weight)
        named = named_as(ids, source, len(arrived.labels), arrived.several)
        with self._lock:
            loss, _ = self._learn(arrived, predicted, how, named)
            if not math.isnan(loss):
                self._checkpoint_if_due()
        return loss

    def follow(self, stream: Iterable[Any]) -> Iterator[float]:
        """Learn from every item of a stream, such as a DataLoader, and yield the losses.

        Args:
            stream: Pairs (x, y), or mappings with the labels under "labels" and the inputs of the
                network under the other keys.

        >>> from recollect import ER, MLP, Learner
        >>> learner = Learner(MLP(2, 1), ER())
        >>> len([loss for loss in learner.follow([([1.0, 0.0], "a"), ([0.0, 1.0], "b")])])
        2
        """
        try:
            items = iter(stream)  # also of a torch Dataset, which only has __getitem__
        except TypeError:
            raise InputError(
                f"the stream must be an iterable of pairs (x, y), not {type(stream).__name__}"
            ) from None
        for item in items:
            yield self.observe(*pair_of(item))

    def _learn(
        self, arrived: Arriving, predicted: Any, on_outlier: str, named: Named | None
    ) -> tuple[float, Mapping[int, str]]:
        """Take a step; return the loss, and the reason for each row that was left out."""
        before = self._now
        if before.engine:
            before.engine.kind.arriving.check(arrived.examples, arrived.packing)
        sifted = arrived.sifted(before.watch, before.learned, on_outlier, before.labels)
        examples, labels, left_out, watch = sifted
        if not labels:
            self._now = before._replace(watch=watch.settled())
            log.tell_change(before, self._now, left_out)
            return math.nan, left_out
        batch = self._settings.encoded(examples, arrived.packing)
        known = before.labels.with_new(labels, self._settings.max_classes)
        if self._checkpoints.folder and known is not before.labels:
            encoded(known.known[len(before.labels) :])
        engine = before.engine or self._first_engine(arrived, batch, known, named)
        if self._settings.encoder:
            engine.kind.check(batch)
        gradients = nullcontext() if gradients_on() else with_gradients()  # the latter takes longer
        with gradients, engine.threads(len(labels)):
            weights = arrived.weights_without(left_out)
            engine = adapted(engine, before.labels, known, weights, batch)
            engine = engine.numbering(batch) if named else engine
            batch = engine.placed(batch)
            in_step = predicted is None and engine is before.engine
            in_step = in_step and engine.predicts_in_step(len(batch))
            if predicted is not None:
                guessed = known.guessed(arrived.predictions(predicted, left_out, known))
            elif not in_step:
                guessed = before.guesses(batch)
            numbers = known.encode(labels, engine.outputs)

            def settle() -> None:
                nonlocal watch
                watch = watch.settled()

            engine.begin()
            try:
                targets = targets_of(engine, numbers, weights)
                loss = engine.step(batch, targets, scored=in_step, meanwhile=settle)
                if in_step:
                    guessed = before.guesses(batch, engine.scores_before(batch))
                record = known.judged(before.record, labels, numbers, guessed)
                names = before.names.after(engine.fleet, len(labels), named, left_out)
                engine.publish(known)
                drift = before.drift_after(numbers, guessed)
                self._now = Snapshot(engine, known, record, watch, drift, before.labelled, names)
            finally:
                if self._now is before:
                    engine.undo()
        log.tell_change(before, self._now, left_out)
        return loss, left_out

    def _first_engine(
        self, arrived: Arriving, batch: Tensor, known: Answers, named: Named | None
    ) -> Engine:
        kind = Kind.of(arrived.examples, packing=arrived.packing)
        kind = Kind.of(batch, kind) if self._settings.encoder else kind
        numbered = named is not None
        try:
            parts = self._module, self._settings, kind, known, batch
            return first_engine(*parts, numbered=numbered)
        except InputError as error:
            raise InputError(f"{error}{arrived.hint}") from error
