"""`recollect stream`: learn from files, pipes and folders as examples arrive."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from recollect.cli.common import duration, notice
from recollect.cli.stream_loop import Loop
from recollect.cli.stream_plan import Plan, fit_for_streams, plan_of
from recollect.cli.stream_screen import Screen, print_table
from recollect.cli.stream_state import StateFolder
from recollect.cli.stream_stop import Stop
from recollect.feeds import KINDS, STDIN, Feed, open_feed
from recollect.methods import every_method, symbol
from recollect.methods import hyperparameters as hyperparameters_of

__all__ = ["configure"]

INTERRUPTED = 130


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    # fmt: off
    add("sources", nargs="+", metavar="FILE",
        help="CSV, JSON lines or Parquet files, folders of images by class, or - (standard input)")
    reading = parser.add_argument_group("what is read")
    add = reading.add_argument
    add("--format", choices=KINDS, help="if names do not tell")
    add("--label", metavar="NAME",
        help="column, by name or number, or key of the label (default: last column; 'label')")
    add("--features", nargs="+", default=[], metavar="NAME",
        help="columns or keys to learn from (default: all others that are numbers)")
    add("--ignore", nargs="+", default=[], metavar="NAME", help="columns or keys to leave out")
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
    learning = parser.add_argument_group("how it is learned")
    add = learning.add_argument
    add("--method", default="derpp", metavar="NAME",
        help=f"one of: {', '.join(fit_for_streams())} (default: derpp)")
    add("--memory", metavar="N", help="examples to remember, or a size: 64MB (default: 500)")
    add("--lr", type=float, default=0.03, metavar="RATE", help="learning rate (default: 0.03)")
    add("--batch", type=int, metavar="N", help="examples in a step (default: 10)")
    add("--replay", type=int, default=32, metavar="N",
        help="examples in a draw from memory (default: 32)")
    for name in hyperparameters():
        add(f"--{name}", type=float, metavar="VALUE", help="of the method")
    add("--network", choices=("mlp", "resnet18"), default="mlp")
    add("--hidden", type=int, nargs="*", default=[100, 100], metavar="N",
        help="units in each hidden layer of the mlp (default: 100 100)")
    add("--width", type=int, default=64, metavar="N",
        help="channels of resnet18 at its start (default: 64)")
    add("--standardise", action=argparse.BooleanOptionalAction,
        help="bring features to one scale (default: yes, but for images)")
    add("--classes", nargs="+", metavar="LABEL", help="all there will be (default: they arrive)")
    add("--optimiser", default="SGD", metavar="NAME", help="any of torch's (default: SGD)")
    add("--seed", type=int, default=0, metavar="N")
    add("--device", metavar="NAME", help="cpu, cuda or cuda:N (default: cpu, for resnet18 a GPU)")
    kept = parser.add_argument_group("what is kept and told")
    add = kept.add_argument
    add("--checkpoint", type=Path, metavar="DIR",
        help="where the state is kept (default: in .recollect, by source and label)")
    add("--every", type=interval, default=(30.0, None), metavar="TIME",
        help="save every 30s (default), 5m, or so many steps: 500")
    add("--fresh", action="store_true", help="start over, do not continue")
    add("--predictions", metavar="FILE", help="a JSON line for every example; - for the output")
    add("--window", type=int, default=1000, metavar="N",
        help="examples that count as recent (default: 1000)")
    # fmt: on
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Learn from what arrives, from where it was left, and print how well it was predicted."""
    plan = plan_of(chosen)
    folder = StateFolder(chosen.checkpoint or plan.default_folder())
    with Stop() as stop, folder:
        saved = None if chosen.fresh else folder.saved()
        feed = open_feed(plan.sources, plan.reading(stop), saved and saved["layout"])
        plan.settings["format"] = feed.kind
        if saved is not None:
            folder.check(plan.settings)
        with plan.threads(), Screen(plan.window) as screen:
            loop = Loop(plan, feed, folder, stop, screen)
            if saved is not None:
                loop.resume(saved)
            loop.run()
    return _end(plan, feed, loop, stop)


def _end(plan: Plan, feed: Feed, loop: Loop, stop: Stop) -> int:
    if feed.faults.count:
        notice(f"left out, because they could not be read: {feed.faults.count}")
    if loop.learner is None:
        notice("nothing arrived that could be learned from")
    else:
        print_table(loop.learner, plan, stderr=plan.predictions == STDIN)
    if stop.asked and not plan.endless:
        notice("interrupted; all is saved, and the same command continues")
        return INTERRUPTED
    return 0


def hyperparameters() -> list[str]:
    """Every hyper-parameter of a method that is fit for streams, as it is written."""
    known = every_method()
    return sorted(
        {symbol(n) for kind in fit_for_streams() for n in hyperparameters_of(known[kind])}
    )


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
