"""From a damaged source to a learner: what is refused leaves it bit for bit what it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.feeds.damage import csv_files, jsonl_files
from tests.fuzzed import fuzzed

from recollect import MLP, DataError, DERpp, DivergedError, InputError, Learner
from recollect.feeds import Reading, Record, open_feed

EACH = 50
LARGE = 3e38

few = settings(fuzzed, max_examples=EACH)


class Fed:
    """A learner that learns record by record, and what became of it."""

    def __init__(self, tried: Counter[str]) -> None:
        self.learner: Learner | None = None
        self.last: Record | None = None
        self._tried = tried

    def state(self) -> tuple[object, ...]:
        """All that the learner is, and where torch's generator stands."""
        whole = self.learner and (self.learner._packed(), self.learner.metrics())
        return whole, torch.random.get_rng_state().numpy().tobytes()

    def learn(self, records: Iterable[Record | None]) -> None:
        """Learn each record; one that the learner refuses is left out."""
        for record in records:
            assert record is not None
            self.last = record
            if record.label is None:
                continue
            if self.learner is None:
                torch.manual_seed(0)
                network = MLP(record.x.size, 1, hidden=(4,))
                self.learner = Learner(
                    network, DERpp(), memory=6, replay=3, lr=0.1, on_outlier="raise"
                )
            before = self.state()
            try:
                self.learner.observe(record.x.ravel(), record.label)
            except (DivergedError, InputError):
                assert self.state() == before
                self._tried["refused by the learner"] += 1


@pytest.mark.parametrize(
    ("name", "files"), [("a.csv", csv_files()), ("a.jsonl", jsonl_files())], ids=["csv", "jsonl"]
)
def test_what_a_source_refuses_leaves_the_learner_and_reading_goes_on(
    name: str, files: st.SearchStrategy[tuple[bytes, dict[str, Any]]], tmp_path: Path
) -> None:
    tried = Counter[str]()
    path = tmp_path / name
    source = str(path)

    @few
    @given(files, st.booleans())
    def one(case: tuple[bytes, dict[str, Any]], large: bool) -> None:
        data, how = case
        if large:  # numbers with which a network cannot go on
            row = b"%e,%e,%e,hot\n" if name == "a.csv" else b'{"a": %e, "b": %e, "label": "x"}\n'
            data += (b"" if data.endswith(b"\n") else b"\n") + 3 * (
                row % ((LARGE,) * row.count(b"%e"))
            )
        path.write_bytes(data)
        fed, feed = Fed(tried), open_feed([source], Reading(**how))
        states = [fed.state()]
        try:
            for record in feed.records():
                fed.learn([record])
                states.append(fed.state())
        except (DataError, InputError):
            assert fed.state() == states[-1]
            tried["refused by the reader"] += 1
        # The same learner goes on behind the last record, without what cannot be read.
        positions = {source: fed.last.position} if fed.last else None
        rest, state = open_feed([source], Reading(**how, skip_bad=True)), feed.now()
        rest.continue_from(feed.reader.layout, state and state.saved())
        other = Fed(Counter())
        whole = open_feed([source], Reading(**how, skip_bad=True), None)
        ends = []
        for each, records in ((fed, rest.records(positions)), (other, whole.records())):
            try:
                each.learn(records)
                ends.append("")
            except (DataError, InputError) as error:
                ends.append(str(error))
        assert ends[0] == ends[1]
        assert fed.state() == other.state()
        tried["learned on"] += int(fed.learner is not None and fed.state() != states[-1])

    one()
    # About 19 of 20 files cannot be read whole, so 45 of 50 or fewer are no rarity.
    assert tried["refused by the reader"] > EACH * 0.7, tried
    assert tried["refused by the learner"] > 2, tried
    assert tried["learned on"] > EACH / 10, tried


def test_a_record_too_large_for_the_network_is_refused_like_this() -> None:
    fed = Fed(tried := Counter[str]())
    good = Record(np.ones(3, np.float32), "x", "a", (1,))
    fed.learn([good, good._replace(x=np.full(3, LARGE, np.float32)), good])
    assert tried["refused by the learner"] == 1
    assert fed.learner is not None
    assert fed.learner.seen == 2
