"""Options of `recollect stream` for labels in separate files, matched by id."""

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
    """Add the options for labels in separate files."""
    add = parser.add_argument_group("labels from separate files, matched by id").add_argument
    # fmt: off
    add("--labels", nargs="+", default=[], metavar="FILE",
        help="CSV, JSON lines or Parquet files of ids and labels, or - (standard input); needs "
             "--id. With --label, rows may also have their own labels")
    add("--labels-format", choices=KINDS,
        help="format of the label files (default: inferred from the names)")
    add("--labels-id", metavar="NAME",
        help="id column or key in the label files (default: as --id)")
    add("--labels-label", metavar="NAME",
        help="label column or key in the label files (default: as --label, or else the last "
             "column or key 'label')")
    add("--pending", type=int, metavar="N",
        help=f"maximum number of examples that wait for a label (default: {PENDING:,})")
    # fmt: on


def check_late(chosen: argparse.Namespace) -> None:
    """Raise `InputError` for options that cannot be combined."""
    if chosen.labels:
        if chosen.id is None:
            raise InputError("--labels are matched by id: give the id column or key with --id")
        if chosen.pending is not None and chosen.pending < 1:
            raise InputError(f"--pending must be at least 1, not {chosen.pending}")
        return
    for name in OPTIONS:
        if getattr(chosen, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} needs --labels FILE")


def late_feed(chosen: argparse.Namespace, sources: Sequence[str], reading: Reading) -> Feed | None:
    """Open the label files, if any; `--delimiter` and `--header` apply to the examples only."""
    if not sources:
        return None
    how = replace(
        reading, kind=chosen.labels_format, label=chosen.labels_label or chosen.label,
        id=chosen.labels_id or chosen.id, delimiter=None, header=None,
    )  # fmt: skip
    return open_labels(sources, how)


def late_line(found: LabelCounts) -> str:
    """Summarise the counts of labels in one line.

    >>> late_line(LabelCounts(waiting=3, learned=1000, unknown=2))
    'labels by id: 1,000 learned, 2 unknown; 3 examples still wait for a label'
    """
    ignored = [
        f"{count:,} {name}"
        for name in ("repeated", "expired", "unknown")
        if (count := getattr(found, name))
    ]
    early = f", {found.early:,} labels for an example" if found.early else ""
    parts = ", ".join([f"{found.learned:,} learned", *ignored])
    hint = " (no label matches an example: ids are compared as text, so '7' is not '7.0')"
    unmatched = hint if found.waiting and found.early and not found.learned else ""
    waiting = f"{found.waiting:,} examples still wait for a label"
    return f"labels by id: {parts}; {waiting}{early}{unmatched}"
