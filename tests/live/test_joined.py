"""Predictions and labels that find each other by id, in whatever order they come."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.live.joined import Joined, LabelCounts


def predict(joined: Joined, keys: Sequence[str | None], own: Sequence[Hashable] = ()) -> list[str]:
    """Predict examples, and learn those that have labels; their ids."""
    given_labels = list(own) or [None] * len(keys)
    early = joined.early(keys)
    x = torch.arange(float(len(keys)))[:, None]
    joined.predicted(keys, x, ["guess"] * len(keys), given_labels, early)
    rows = zip(keys, given_labels, early, strict=True)
    return [str(key) for key, a, b in rows if a is not None or b is not None]


def label(joined: Joined, *keys: str) -> list[Hashable]:
    """Give labels; the ids of those that are learned."""
    matched = joined.look_up([(key, f"label of {key}") for key in keys])
    joined.settle(matched)
    return [] if matched.batch is None else list(matched.batch.ids)


def test_looking_up_changes_nothing() -> None:
    joined = Joined(2)
    predict(joined, ["a", "b"])
    before = joined.counts
    matched = joined.look_up([("b", 1), ("b", 2), ("c", 3), ("c", 4)])
    assert joined.counts == before
    assert matched.batch is not None
    assert (matched.batch.ids, matched.batch.labels, matched.batch.answers) == (
        ["b"], [1], ["guess"]
    )  # fmt: skip
    assert (matched.early, matched.repeated) == ({"c": 3}, 2)


def test_an_early_label_is_learned_with_its_example_once() -> None:
    joined = Joined(5)
    assert label(joined, "a", "b") == []
    assert predict(joined, ["a", "c", "a"]) == ["a"]
    assert joined.counts == LabelCounts(waiting=1, early=1, learned=1)
    assert label(joined, "a", "c") == ["c"]
    assert joined.counts == LabelCounts(early=1, learned=2, repeated=1)


def test_an_example_with_its_own_label_takes_no_other() -> None:
    joined = Joined(5)
    label(joined, "a")
    assert predict(joined, ["a", "b", None], ["own", "own", "own"]) == ["a", "b", "None"]
    assert label(joined, "b") == []
    assert joined.counts == LabelCounts(repeated=2)


def test_the_oldest_prediction_makes_room() -> None:
    joined = Joined(2)
    predict(joined, ["a", "b", "c"])
    assert label(joined, "a", "b") == ["b"]
    assert joined.counts == LabelCounts(waiting=1, learned=1, expired=1)


def test_labels_without_examples_are_given_up_after_many_others() -> None:
    joined = Joined(3)
    label(joined, "never")
    for number in range(6):
        assert joined.counts.early == 1
        predict(joined, [str(number)])
        label(joined, str(number))
    assert joined.counts == LabelCounts(learned=6, unknown=1)


def test_when_there_is_no_room_the_oldest_early_labels_go() -> None:
    joined = Joined(3)
    label(joined, "a", "b", "c")
    assert joined.full
    label(joined, "d", "e")
    assert joined.counts == LabelCounts(early=5), "one batch more than there is room for"
    label(joined, "f")
    assert joined.counts == LabelCounts(early=4, unknown=2)
    assert predict(joined, ["b", "c"]) == ["c"]


Event = tuple[bool, list[str]]
KEYS = st.sampled_from("abcdefgh")


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.lists(KEYS, min_size=1)), max_size=25),
    st.integers(0, 25),
    st.integers(1, 4),
)  # fmt: skip
def test_a_restored_state_goes_on_as_the_first(events: list[Event], cut: int, most: int) -> None:
    def go(joined: Joined, some: list[Event]) -> list[object]:
        return [predict(joined, keys) if p else label(joined, *keys) for p, keys in some]

    whole, first = Joined(most), Joined(most)
    results = go(whole, events)
    begun = go(first, events[:cut])
    second = Joined.restored(*first.state())
    assert [*begun, *go(second, events[cut:])] == results
    assert second.counts == whole.counts
    (facts, tensors), (others, same) = second.state(), whole.state()
    assert facts == others
    assert {n: t.tolist() for n, t in tensors.items()} == {n: t.tolist() for n, t in same.items()}


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(12)), st.permutations(range(12)), st.lists(st.booleans(), max_size=24))
def test_every_label_is_learned_exactly_once_if_there_is_room(
    examples: list[int], labels: list[int], order: list[bool]
) -> None:
    joined, learned = Joined(12), list[object]()
    for first in [*order, *[True] * 24, *[False] * 24]:
        if first and examples:
            learned += predict(joined, [str(examples.pop())])
        elif not first and labels:
            learned += label(joined, str(labels.pop()))
    assert sorted(map(str, learned)) == sorted(map(str, range(12)))
    assert joined.counts == LabelCounts(learned=12)
