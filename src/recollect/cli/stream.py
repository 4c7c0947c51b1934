"""`recollect stream`: learn from files, pipes and folders as examples arrive."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from pathlib import Path
from typing import Any

from recollect.cli.common import Methods, add_force, add_optimiser
from recollect.cli.hyperparameters import add_hyperparameters
from recollect.cli.parser import duration
from recollect.cli.screen import notice
from recollect.cli.stream_late import PENDING, add_late, late_feed, late_line
from recollect.cli.stream_learner import CATEGORIES, MAX_CLASSES, Asked, fit_for_streams
from recollect.cli.stream_screen import print_table, showing, showing_warnings
from recollect.errors import InputError, RecollectError
from recollect.feeds import KINDS, STDIN, open_feed
from recollect.learner.drift import DEFAULT, NAMES
from recollect.learner.outliers import ON_OUTLIER
from recollect.live import LiveStream, stop_at_signals
from recollect.live.state import SettingsError
from recollect.methods import every_method

INTERRUPTED, TERMINATED, ALL_BAD = 130, 143, 1
# What the library calls its arguments (a pattern), and the command its options.
OPTIONS = {
    r"fresh=True of a LiveStream": "--fresh",
    r"\b(fresh|follow|replayed)=True": r"--\1",
    r"skip_bad=True": "--skip-bad",
    r"\bclasses=\[\.\.\.\]": "--classes A B C",
    r"\(max_classes\)": "(--max-classes)",
    r"\btarget='(\w+)'": r"--target \1",
    r"observe\(\.\.\., on_outlier='learn'\)": "--on-outlier learn",
    r"\b(ignore|categorical)=\[(.*?)\]": r"--\1 \2",
    r"\bdrop_text=True": "--drop-text",
    r"\b(missing|id)='(.*?)'": r"--\1 '\2'",
    r"\bforce=True": "--force",
    r"size=\(height, width\)": "--size HxW",
    r"give kind='(\w+)'": r"give --format \1",
    r"give kind, one of": "give --format, one of",
    r"give label, features and ignore": "give --label, --features and --ignore",
    r"\(schedule_steps=\.\.\.\)": "(--schedule-steps N)",
    r"\(decay_every=\.\.\.\)": "(--decay-every N)",
    r"\bschedule='(\w+)'": r"--schedule \1",
    r"takes (\w+) among optimiser_options, as torch calls it": r"has no --\1 here",
    r"another folder": "another --checkpoint",
    r"another file for predictions": "another --predictions",
}


def configure(parser: argparse.ArgumentParser, methods: Methods | None = None) -> None:
    """Add the options of the command, with the hyper-parameters of these methods (or all)."""
    fit = fit_for_streams(every_method())
    use = "of the method (default: its own)"
    if methods is None:
        methods, use = fit, f"{use}. Of one method alone: {parser.prog} --method NAME --help"
    add = parser.add_argument
    # fmt: off
    add("sources", nargs="+", metavar="FILE",
        help="CSV, JSON lines or Parquet files, folders of images by class, or - (standard input)")
    add = parser.add_argument_group("what is read").add_argument
    add("--format", choices=KINDS, help="of the sources (default: from their names)")
    add("--label", metavar="NAME",
        help="column, by name or number, or key of the label (default: last column; 'label')")
    add("--features", nargs="+", default=[], metavar="NAME",
        help="columns or keys to learn from (default: all others)")
    add("--ignore", nargs="+", default=[], metavar="NAME", help="columns or keys to leave out")
    add("--categorical", nargs="+", default=[], metavar="NAME",
        help="columns of categories, such as numbers that are codes (default: seen from the first "
             "rows)")
    add("--categories", type=int, default=CATEGORIES, metavar="N",
        help="inputs for the categories of a column, first come; others share one (default: 32)")
    add("--missing", choices=("auto", "impute", "refuse"), default="auto",
        help="numbers that are missing: imputed, with an input that says so for the columns with "
             "holes among the first rows (auto, the default) or for all (impute); or bad rows")
    add("--drop-text", action="store_true", help="leave columns of text and times out")
    add("--id", metavar="NAME",
        help="column or key that identifies a row, for the predictions and --labels")
    add("--keep", nargs="+", default=[], metavar="NAME",
        help="columns or keys that pass through to the predictions")
    add("--delimiter", metavar="C", help="between columns: a character, or tab")
    add("--header", action=argparse.BooleanOptionalAction,
        help="whether the first row has names (default: seen from it)")
    add("--order", choices=("time", "name"), default="time",
        help="arrival of images: by time of change (default) or by name")
    add("--size", type=size, metavar="HxW", help="bring all images to this size")
    add("--skip-bad", action="store_true", help="leave rows out that cannot be read")
    add("--follow", action="store_true", help="wait for more at the end of the last file")
    add("--idle", type=duration, metavar="TIME", help="end when nothing came for so long")
    add("--replayed", action="store_true",
        help="standard input begins again from its start: pass over what was seen")
    add_late(parser)
    add = parser.add_argument_group("how it is learned").add_argument
    add("--method", default="derpp", metavar="NAME",
        help=f"one of: {', '.join(fit)} (default: derpp)")
    add("--memory", metavar="N", help="examples to remember, or a size: 64MB (default: 500)")
    add("--lr", type=float, default=0.03, metavar="RATE", help="learning rate (default: 0.03)")
    add("--batch", type=int, metavar="N", help="examples in a step (default: 10)")
    add("--replay", type=int, default=32, metavar="N",
        help="examples in a draw from memory (default: 32)")
    add("--network", choices=("mlp", "resnet18"), default="mlp")
    add("--hidden", type=int, nargs="*", default=[100, 100], metavar="N",
        help="units in each hidden layer of the mlp (default: 100 100)")
    add("--width", type=int, default=64, metavar="N",
        help="channels of resnet18 at its start (default: 64)")
    add("--standardise", action=argparse.BooleanOptionalAction,
        help="bring features to one scale (default: yes, but for images)")
    add("--target", choices=("class", "regression", "labels"), default="class",
        help="what the label is: a class (default), a number, or several labels: red|round")
    add("--classes", nargs="+", metavar="LABEL", help="all there will be (default: they arrive)")
    add("--max-classes", type=int, default=MAX_CLASSES, metavar="N",
        help="refuse more classes than so many, if they arrive (default: 1000)")
    add("--on-outlier", choices=ON_OUTLIER, default="skip",
        help="what happens to rows far outside of what the stream has shown (default: skip)")
    add("--seed", type=int, default=0, metavar="N")
    add("--device", metavar="NAME", help="cpu, cuda or cuda:N (default: cpu, for resnet18 a GPU)")
    add_hyperparameters(parser, fit_for_streams(methods), use, {})
    add_optimiser(parser, endless=True)
    add = parser.add_argument_group("what is saved and written").add_argument
    add("--checkpoint", type=Path, metavar="DIR",
        help="where the state is saved (default: in .recollect, by source and label)")
    add("--every", type=interval, default=(30.0, None), metavar="TIME",
        help="save every 30s (default), 5m, or so many steps: 500")
    add("--fresh", action="store_true", help="start over, do not continue")
    add("--predictions", metavar="FILE", help="a JSON line for every example; - for the output")
    add_force(parser)
    add("--drift", nargs="?", const=DEFAULT, choices=NAMES, metavar="NAME",
        help=f"warn when errors increase, by a detector of River's: {', '.join(NAMES)} "
        f"(default: {DEFAULT})")
    add("--window", type=int, default=1000, metavar="N",
        help="examples that count as recent (default: 1000)")
    # fmt: on
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Learn from what arrives, from where it was left, and print how well it was predicted."""
    try:
        return _command(chosen)
    except SettingsError as error:
        before, now = (_option(error.name, value) for value in (error.before, error.now))
        raise InputError(
            f"the state in {error.folder} was learned with {before}, not with {now}: --fresh "
            f"starts over, and --checkpoint DIR keeps both"
        ) from None
    except RecollectError as error:
        raise type(error)(_in_options(str(error))) from None


def _command(chosen: argparse.Namespace) -> int:
    asked = Asked(chosen)
    reading = asked.reading(lambda text: notice(_in_options(text)))
    feed, labels = open_feed(asked.sources, reading), late_feed(chosen, asked.labels, reading)
    to_output = chosen.predictions == STDIN
    live = LiveStream(
        lambda x: asked.learner(x, feed.kind, feed.numbers),
        feed,
        asked.folder,
        batch=asked.batch,
        predictions=sys.stdout.buffer if to_output else chosen.predictions,
        every=chosen.every[0],
        every_steps=chosen.every[1],
        idle=chosen.idle,
        fresh=chosen.fresh,
        force=chosen.force,
        settings=asked.settings,
        say=lambda text: notice(_in_options(text)),
        labels=labels,
        pending=chosen.pending or PENDING,
    )
    with (
        stop_at_signals(live.stop) as came, asked.threads(), showing_warnings(),
        showing(chosen.window) as report,
    ):  # fmt: skip
        learner = live.run(report)
    unread = feed.faults.count + (labels.faults.count if labels else 0)
    if unread:
        notice(f"left out, because they could not be read: {unread}")
    if live.late is not None:
        notice(late_line(live.late))
    if learner is None:
        notice("nothing arrived that could be learned from")
    else:
        if learner.outliers:
            number, reason = learner.outliers[-1]
            notice(
                f"left out, because they could not be trusted: {learner.metrics().left_out} (the "
                f"last was example {number + 1:,}: {reason})"
            )
        print_table(learner, chosen.window, stderr=to_output)
    if live.bad and not live.learned:
        notice("no row was learned: all that have a label were left out")
        return ALL_BAD
    endless = chosen.follow or STDIN in (*asked.sources, *asked.labels)
    if live.stopped and not endless:
        notice("interrupted; all is saved, and the same command continues")
        return TERMINATED if signal.SIGTERM in came else INTERRUPTED
    return 0


def interval(text: str) -> tuple[float | None, int | None]:
    """How often to save: a time with its unit, or a number of steps.

    >>> interval("5m"), interval("500")
    ((300.0, None), (None, 500))
    """
    if text.isascii() and text.isdigit() and int(text) > 0:
        return None, int(text)
    return duration(text), None


def size(text: str) -> tuple[int, int]:
    """The height and the width in 32x48.

    >>> size("32x48")
    (32, 48)
    """
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"cannot read the size {text!r}: give 32x32")
    return int(found[1]), int(found[2])


def _in_options(text: str) -> str:
    for argument, option in OPTIONS.items():
        text = re.sub(argument, option, text)
    return text


def _option(name: str, value: Any) -> str:
    """A setting as it is written on the command line.

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
