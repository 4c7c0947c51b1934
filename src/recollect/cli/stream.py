"""`recollect stream`: learn from files, pipes and folders as examples arrive."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from pathlib import Path
from typing import Any

from recollect.cli.options import Methods, add_hyperparameters, add_optimiser, add_shared
from recollect.cli.parser import Parser, duration
from recollect.cli.screen import notice
from recollect.cli.stream_checks import check_format, fit_for_streams
from recollect.cli.stream_late import PENDING, add_late, late_feed, late_line
from recollect.cli.stream_learner import (
    CATEGORIES,
    MAX_CLASSES,
    StreamSetup,
    in_words,
)
from recollect.cli.stream_screen import (
    print_forgotten,
    print_table,
    showing,
    showing_warnings,
)
from recollect.errors import InputError, RecollectError
from recollect.feeds import KINDS, STDIN, open_feed
from recollect.learner.inputs.outliers import ON_OUTLIER
from recollect.learner.monitoring.drift import DEFAULT, NAMES
from recollect.live import LiveStream, stop_at_signals
from recollect.live.state import SettingsError
from recollect.methods import every_method
from recollect.methods.usual import USUAL

INTERRUPTED, TERMINATED, NOTHING = 130, 143, 1
# Patterns for argument names in the library's messages, and the options that replace them.
OPTIONS = {
    r"fresh=True of a LiveStream": "--fresh",
    r"\b(fresh|follow|replayed)=True": r"--\1",
    r"skip_bad=True": "--skip-bad",
    r"\bclasses=\[\.\.\.\]": "--classes A B C",
    r"\(max_classes\)": "(--max-classes)",
    r"create the learner with target='(\w+)'": r"use --target \1",
    r"\btarget='(\w+)'": r"--target \1",
    r"cannot be in (features|ignore)": r"cannot be in --\1",
    r"cannot be the id": r"cannot be the --id",
    r"observe\(\.\.\., on_outlier='learn'\)": "--on-outlier learn",
    r"\b(ignore|categorical)=\[(.*?)\]": r"--\1 \2",
    r"\bdrop_text=True": "--drop-text",
    r"\b(missing|id|label)='(.*?)'": r"--\1 '\2'",
    r"\bforce=True": "--force",
    r"size=\(height, width\)": "--size HxW",
    r"delimiter='\\t'": "--delimiter tab",
    r"delimiter='(.)'": r"--delimiter '\1'",
    r"give kind='(\w+)'": r"give --format \1",
    r"give kind, one of": "give --format, one of",
    r"give label, features and ignore": "give --label, --features and --ignore",
    r"\(schedule_steps=\.\.\.\)": "(--schedule-steps N)",
    r"\(decay_every=\.\.\.\)": "(--decay-every N)",
    r"\bschedule='(\w+)'": r"--schedule \1",
    r"takes (\w+) among optimiser_options, as torch calls it": r"has no --\1 here",
    r"^([a-z]+) must be": r"--\1 must be",
    r"^(max|schedule|weight)_([a-z]+) must be": r"--\1-\2 must be",
    r"another folder": "another --checkpoint",
    r"keep the folder": "pass the folder of this state with --checkpoint",
    r"another file for predictions": "another --predictions",
}


def configure(parser: argparse.ArgumentParser, methods: Methods | None = None) -> None:
    """Add the options of `recollect stream`, with the hyper-parameters of `methods` (or all)."""
    parser.usage = "recollect stream FILE [FILE ...] [--label NAME] [--follow] [...]"
    fit = fit_for_streams(every_method())
    use = "hyper-parameters of the method (default: the method's own values)"
    if methods is None:
        methods, use = fit, f"{use}. For a single method: {parser.prog} --method NAME --help"
    add = parser.add_argument
    # fmt: off
    add("sources", nargs="+", metavar="FILE",
        help="CSV, JSON lines or Parquet files, image folders with a subfolder per class, or - "
             "(standard input)")
    add = parser.add_argument_group("input").add_argument
    add("--format", choices=KINDS, help="format of the sources (default: inferred from the names)")
    add("--label", metavar="NAME",
        help="label column, by name or number, or key (default: the last column; key 'label')")
    add("--features", nargs="+", default=[], metavar="NAME",
        help="columns or keys to learn from (default: all others)")
    add("--ignore", nargs="+", default=[], metavar="NAME", help="columns or keys to leave out")
    add("--categorical", nargs="+", default=[], metavar="NAME",
        help="categorical columns, such as numeric codes (default: inferred from the first rows)")
    add("--categories", type=int, default=CATEGORIES, metavar="N",
        help="one-hot inputs per categorical column, for its first categories; all others share "
             "one input (default: 32)")
    add("--missing", choices=("auto", "impute", "refuse"), default="auto",
        help="missing numbers: impute them, with a missing-value indicator for columns that have "
             "missing values in the first rows (auto, the default) or for all (impute); or treat "
             "the row as bad (refuse)")
    add("--drop-text", action="store_true", help="leave out columns of text and times")
    add("--id", metavar="NAME",
        help="column or key that identifies a row, for --predictions and --labels")
    add("--keep", nargs="+", default=[], metavar="NAME",
        help="columns or keys to copy to the predictions")
    add("--delimiter", metavar="C",
        help="column delimiter: a character, or tab (default: a comma; tab for .tsv)")
    add("--header", action=argparse.BooleanOptionalAction,
        help="whether the first row has column names (default: inferred)")
    add("--order", choices=("time", "name"),
        help="order of images: by modification time (default) or by name")
    add("--size", type=size, metavar="HxW", help="resize all images, such as 32x32")
    add("--skip-bad", action="store_true", help="leave out rows that cannot be read")
    add("--follow", action="store_true", help="wait for more data at the end of the last file")
    add("--idle", type=duration, metavar="TIME",
        help="stop after this long without new data, such as 30s or 5m")
    add("--replayed", action="store_true",
        help="standard input starts from its beginning: skip the part that was read before")
    add_late(parser)
    add = parser.add_argument_group("learning").add_argument
    add("--method", metavar="NAME",
        help=f"one of: {', '.join(fit)} (default: {in_words(USUAL)})")
    add("--memory", metavar="N",
        help="memory capacity in examples, or a size such as 64MB (default: 500)")
    add("--lr", type=float, default=0.03, metavar="RATE", help="learning rate (default: 0.03)")
    add("--batch", type=int, metavar="N",
        help="batch size (default: 10, unless the method needs another)")
    add("--replay", type=int, default=32, metavar="N",
        help="replay batch size: examples drawn from memory (default: 32)")
    add("--network", choices=("mlp", "resnet18"), default="mlp",
        help="network to train (default: mlp)")
    add("--hidden", type=int, nargs="*", metavar="N",
        help="units in each hidden layer of the mlp (default: 100 100; for ncm, slda and ranpac, "
             "which do not train layers, no hidden layer)")
    add("--width", type=int, metavar="N",
        help="channels of the first layer of resnet18 (default: 64)")
    add("--standardise", action=argparse.BooleanOptionalAction,
        help="standardise features with running statistics (default: yes, except for images)")
    add("--target", choices=("class", "regression", "labels"), default="class",
        help="type of the label: a class (default), a number, or several labels such as red|round")
    add("--classes", nargs="+", metavar="LABEL",
        help="all classes of the stream (default: classes are added as they occur)")
    add("--max-classes", type=int, default=MAX_CLASSES, metavar="N",
        help="maximum number of classes without --classes (default: 1000)")
    add("--on-outlier", choices=ON_OUTLIER, default="skip",
        help="what to do with rows far outside the range of earlier rows (default: skip)")
    add("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
    add("--device", metavar="NAME",
        help="cpu, cuda or cuda:N (default: cpu; for resnet18, a GPU if there is one)")
    add_hyperparameters(parser, fit_for_streams(methods), use, {})
    add_optimiser(parser, endless=True)
    if isinstance(parser, Parser):  # as `recollect run` calls them
        parser.renamed = {"--bs": "--batch", "--mbs": "--replay"}
    add = parser.add_argument_group("output").add_argument
    add("--checkpoint", type=Path, metavar="DIR",
        help="folder to save the state in (default: one in .recollect per sources and label)")
    add("--every", type=interval, default=(30.0, None), metavar="TIME",
        help="how often to save: a time such as 5m (default: 30s), or a number of steps: 500")
    add("--fresh", action="store_true", help="start over instead of resuming")
    add("--forget", nargs="+", metavar="ID",
        help="only remove these ids from the saved state, and its earlier checkpoints; needs --id")
    add("--predictions", metavar="FILE",
        help="write a JSON line for every example; - for standard output")
    add_shared(parser, "--force")
    add("--drift", nargs="?", const=DEFAULT, choices=NAMES, metavar="NAME",
        help=f"warn when the error rate increases, with a drift detector of River: "
        f"{', '.join(NAMES)} (--drift alone: {DEFAULT})")
    add("--window", type=int, default=1000, metavar="N",
        help="number of last examples for the recent metrics (default: 1000)")
    # fmt: on
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Learn from a stream, resuming where it stopped, and print the prequential metrics."""
    try:
        return _command(chosen)
    except SettingsError as error:
        before, now = (_option(error.name, value) for value in (error.before, error.now))
        raise InputError(
            f"the state in {error.folder} was saved with {before}, not with {now}: --fresh "
            f"starts over, and another --checkpoint DIR keeps both"
        ) from None
    except RecollectError as error:
        raise type(error)(_in_options(str(error))) from None


def _command(chosen: argparse.Namespace) -> int:
    setup = StreamSetup(chosen)
    reading = setup.reading(lambda text: notice(_in_options(text)))
    feed, labels = open_feed(setup.sources, reading), late_feed(chosen, setup.labels, reading)
    check_format(chosen, feed.kind)
    to_output = chosen.predictions == STDIN
    live = LiveStream(
        lambda x: setup.learner(x, feed.kind, feed.numbers),
        feed,
        setup.folder,
        batch=setup.batch,
        predictions=sys.stdout.buffer if to_output else chosen.predictions,
        every=chosen.every[0],
        every_steps=chosen.every[1],
        idle=chosen.idle,
        fresh=chosen.fresh,
        force=chosen.force,
        settings=setup.settings,
        say=lambda text: notice(_in_options(text)),
        labels=labels,
        pending=chosen.pending or PENDING,
    )
    if chosen.forget:
        print_forgotten(live.forget(chosen.forget))
        return 0
    with (
        stop_at_signals(live.stop) as came, setup.threads(), showing_warnings(),
        showing(chosen.window) as report,
    ):  # fmt: skip
        learner = live.run(report)
    unread = feed.faults.count + (labels.faults.count if labels else 0)
    if unread:
        notice(f"rows left out because they could not be read: {unread}")
    if live.late is not None:
        notice(late_line(live.late))
    if learner is None:
        sources = ", ".join("standard input" if s == STDIN else s for s in chosen.sources)
        notice(f"there was no example to learn from in {sources}")
    else:
        if learner.outliers:
            number, reason = learner.outliers[-1]
            last = live.outlier or f"example {number + 1:,}: {reason}"
            notice(
                f"rows left out as outliers: {learner.metrics().left_out} (the last one is {last})"
            )
        print_table(learner, chosen.window, stderr=to_output)
        if not (learner.arrived or chosen.labels):
            notice("no row has a label, so nothing was learned: check the label column")
    if live.bad and not live.learned:
        notice("no row was learned: all labelled rows were left out")
        return NOTHING
    endless = chosen.follow or STDIN in (*setup.sources, *setup.labels)
    if live.stopped and not endless:
        notice("interrupted; the state is saved, and the same command resumes")
        return TERMINATED if signal.SIGTERM in came else INTERRUPTED
    nothing = learner is None and not (chosen.follow or live.stopped)
    return NOTHING if nothing else 0


def interval(text: str) -> tuple[float | None, int | None]:
    """Parse how often to save: a time with a unit, or a number of steps.

    >>> interval("5m"), interval("500")
    ((300.0, None), (None, 500))
    """
    if text.isascii() and text.isdigit() and int(text) > 0:
        return None, int(text)
    return duration(text), None


def size(text: str) -> tuple[int, int]:
    """Parse an image size as height and width.

    >>> size("32x48")
    (32, 48)
    """
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: give one such as 32x32")
    return int(found[1]), int(found[2])


def _in_options(text: str) -> str:
    for argument, option in OPTIONS.items():
        text = re.sub(argument, option, text)
    return text


def _option(name: str, value: Any) -> str:
    """Format a setting as a command-line option.

    >>> _option("memory", 500), _option("label", None), _option("hidden", [10, 10])
    ('--memory 500', 'no --label', '--hidden 10 10')
    >>> _option("nesterov", True), _option("weight_decay", 0.1)
    ('--nesterov', '--weight-decay 0.1')
    """
    name = name.replace("_", "-")
    if value is None or value == []:
        return f"no --{name}"
    if value is True:
        return f"--{name}"
    words = value if isinstance(value, list) else [value]
    return f"--{name} {' '.join(str(word) for word in words)}"
