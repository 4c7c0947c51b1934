"""Labels that come in files of their own: options of `recollect stream`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from recollect.errors import InputError
from recollect.feeds import Feed, Reading, open_labels
from recollect.live import LabelCounts

PENDING = 10_000
KINDS = ("csv", "jsonl", "parquet")
OPTIONS = ("labels_format", "labels_id", "labels_label", "pending")


def add_late(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument_group("labels that come later, by id").add_argument
    # fmt: off
    add("--labels", nargs="+", default=[], metavar="FILE",
        help="CSV, JSON lines or Parquet files of ids and labels, or -; needs --id, and with "
             "--label a row may have its label all the same")
    add("--labels-format", choices=KINDS, help="of these files (default: from their names)")
    add("--labels-id", metavar="NAME", help="column or key of the id there (default: as --id)")
    add("--labels-label", metavar="NAME",
        help="column or key of the label there (default: as --label, or the last column; 'label')")
    add("--pending", type=int, metavar="N",
        help=f"how many examples may wait for their labels (default: {PENDING:,})")
    # fmt: on


def check_late(chosen: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if chosen.labels:
        if chosen.id is None:
            raise InputError("--labels are joined by id: give the column or key of it with --id")
        if chosen.pending is not None and chosen.pending < 1:
            raise InputError(f"--pending must be at least 1, not {chosen.pending}")
        return
    for name in OPTIONS:
        if getattr(chosen, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} is for labels by id: give --labels FILE")


def late_feed(chosen: argparse.Namespace, sources: Sequence[str], reading: Reading) -> Feed | None:
    """The labels that the options ask for; `--delimiter` and `--header` are for the examples."""
    if not sources:
        return None
    how = replace(
        reading, kind=chosen.labels_format, label=chosen.labels_label or chosen.label,
        id=chosen.labels_id or chosen.id, delimiter=None, header=None,
    )  # fmt: skip
    return open_labels(sources, how)


def late_line(found: LabelCounts) -> str:
    """What became of the labels, in a line.

    >>> late_line(LabelCounts(waiting=3, learned=1000, unknown=2))
    'labels by id: 1,000 learned, 2 unknown; 3 examples wait for theirs'
    """
    ignored = [
        f"{count:,} {name}"
        for name in ("repeated", "expired", "unknown")
        if (count := getattr(found, name))
    ]
    early = f", {found.early:,} labels for their examples" if found.early else ""
    parts = ", ".join([f"{found.learned:,} learned", *ignored])
    return f"labels by id: {parts}; {found.waiting:,} examples wait for theirs{early}"
