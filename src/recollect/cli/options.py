"""Command-line options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recollect.cli.parser import duration, number
from recollect.experiments.networks import NAMES, PASSED, NetworkChoice
from recollect.methods import Method, every_method, hyperparameters
from recollect.streams import BENCHMARKS
from recollect.train.details import CURVE_EXAMPLES, CURVE_STEPS
from recollect.train.devices import PRECISIONS
from recollect.train.optimisation import NUMBERS, Optimisation

Methods = Mapping[str, type[Method]]

SHARED: Mapping[str, dict[str, Any]] = {
    "--force": {"action": "store_true", "help": "overwrite an existing file"},
    "--from": {
        "type": Path, "nargs": "+", "dest": "files", "metavar": "FILE",
        "help": "read runs from files that --json wrote, .jsonl files or folders, instead of the "
                "store (unless --store is given too)",
    },
    "--store": {
        "type": Path, "metavar": "FILE",
        "help": "file of the result store (default: $RECOLLECT_STORE, or a file in the user's "
                "data folder)",
    },
    "--data-dir": {
        "type": Path, "metavar": "DIR",
        "help": "folder with data files, searched before the cache (default: $RECOLLECT_DATA)",
    },
    "--class-order": {
        "metavar": "ORDER",
        "help": "seed: a random class order for each seed; a number: the same random order for "
                "all seeds (default: by class number)",
    },
}  # fmt: skip


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options common to all training commands."""
    # fmt: off
    add = parser.add_argument
    add("--seeds", default="10", metavar="SEEDS",
        help="10: seeds 0 to 9 (default); 3-5: a range; 3,7: a list")
    add("--json", type=Path, metavar="FILE", help="write the results, one object per run")
    add_shared(parser, "--force", "--data-dir")
    add("--epochs", type=int, metavar="N", help="passes over each task (default: the paper's)")
    add("--workers", type=int, metavar="N",
        help="number of processes on a CPU (default: all cores)")
    add("--device", default="auto", metavar="NAME",
        help="cpu, cuda or cuda:N (default: a GPU if available)")
    add("--precision", default="auto", choices=PRECISIONS,
        help="precision of convolutional networks: float32, or bf16, which is faster on GPUs and "
             "on CPUs that support it (default: bf16 on a GPU, float32 on a CPU)")
    add("--time-limit", type=duration, metavar="TIME",
        help="save and stop after this time, such as 90s, 20m or 2h; run the same command again "
             "to continue")
    add("--fresh", action="store_true",
        help="start over: ignore saved checkpoints and stored results")
    add("--on", metavar="WHERE",
        help="train on Ray: ray for a local cluster, or ray:ADDRESS")
    add("--tensorboard", type=Path, metavar="DIR", help="write TensorBoard logs to this folder")
    add("--curves", type=int, nargs="?", const=CURVE_STEPS, default=0, metavar="N",
        help=f"record loss and accuracy every N steps (without N: {CURVE_STEPS})")
    add("--curve-examples", type=int, default=CURVE_EXAMPLES, metavar="N",
        help="maximum number of test examples per task for each point of a curve "
             f"(default: {CURVE_EXAMPLES})")
    add("--confusion", action="store_true", help="record confusion matrices after the last task")
    add("--save-networks", type=Path, metavar="DIR",
        help="save the trained networks to this folder")
    # fmt: on
    add_shared(parser, "--store")


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add some of the options that several commands share."""
    for name in names:
        parser.add_argument(name, **SHARED[name])


def add_target(parser: argparse.ArgumentParser, methods: Methods | None, use: str) -> None:
    """Add a benchmark, a method, and an option per hyper-parameter of these methods (or all)."""
    known = every_method()
    parser.add_argument("benchmark", help=f"one of: {', '.join(BENCHMARKS)}")
    parser.add_argument("method", help=f"one of: {', '.join(known)}; or path/to/file.py:Class, or "
                                       "package.module:Class")  # fmt: skip
    sizes = {"lr": "learning rate", "bs": "batch size", "mbs": "replay batch size"}
    if methods is None:
        methods, use = known, f"{use}. For one method: {parser.prog} BENCHMARK METHOD --help"
    if methods and not any(kind.replay for kind in methods.values()):
        del sizes["mbs"]
    add_hyperparameters(parser, methods, use, sizes, nargs="+")


def add_hyperparameters(
    parser: argparse.ArgumentParser,
    methods: Mapping[str, type[Method]],
    use: str,
    others: Mapping[str, str],
    **how: Any,
) -> None:
    """Add an option for each hyper-parameter of these methods, and for `others` (name: help).

    `how` is passed to argparse.
    """
    titles: dict[str, dict[str, list[str]]] = {}
    switches: dict[str, bool] = {}
    for kind in methods.values():
        for each in hyperparameters(kind).values():
            titles.setdefault(each.symbol, {}).setdefault(each.help, []).append(kind.title)
            off = each.static and each.default == 0
            switches[each.symbol] = off and switches.get(each.symbol, True)
    helps = {
        name: "; ".join(
            f"{line} ({', '.join(of)})" if line else f"of {', '.join(of)}"
            for line, of in lines.items()
        )
        for name, lines in sorted(titles.items())
    }
    group = parser.add_argument_group("hyper-parameters", use)
    for name, text in {**others, **helps}.items():
        text = text.replace("%", "%%")
        given = {**how}
        if switches.get(name):  # without a value, a switch is on
            given = {"nargs": "*"} if how.get("nargs") == "+" else {"nargs": "?", "const": 1.0}
        group.add_argument(f"--{name}", type=number, metavar="VALUE", help=text, **given)
    parser.set_defaults(hyperparameters=(*others, *helps))


def add_network(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose another network than the benchmark's."""
    add = parser.add_argument_group("network", "default: the benchmark's").add_argument
    # fmt: off
    add("--network", metavar="NAME",
        help=f"{', '.join(NAMES)}; or path/to/file.py:Name or package.module:Name, a function or "
             f"class that builds a module, to which {', '.join(PASSED)} are passed by name if it "
             "requires them")
    add("--width", type=int, metavar="N",
        help="channels of the first layer of resnet18 (default: 64)")
    add("--hidden", type=int, nargs="+", metavar="N",
        help="units in each hidden layer of the mlp (default: 100 100)")
    # fmt: on


def chosen_network(chosen: argparse.Namespace) -> NetworkChoice:
    """Return the network from the options."""
    return NetworkChoice(chosen.network, chosen.width, chosen.hidden)


def add_optimiser(parser: argparse.ArgumentParser, *, endless: bool = False) -> None:
    """Add the options of the optimiser and the learning rate schedule.

    An `endless` stream has no tasks, and each option takes a single value.
    """
    use = None if endless else "with several values, all combinations are trained"
    add = parser.add_argument_group("optimiser", use).add_argument
    # fmt: off
    add("--optimiser", default="SGD", metavar="NAME",
        help=f"{'SGD, Adam, AdamW, or any of torch' if endless else 'SGD, Adam or AdamW'} "
             "(default: SGD)")
    add("--nesterov", action="store_true", help="use Nesterov momentum with SGD")
    add("--schedule", default="constant", metavar="NAME",
        help="learning rate schedule: constant, step or cosine (default: constant)")
    if endless:
        add("--schedule-steps", type=int, metavar="N",
            help="number of steps over which the schedule runs")
    else:
        add("--schedule-per", default="stream", metavar="WHAT",
            help="stream, or task to restart the schedule in each task (default: stream)")
    # fmt: on
    own = parser.get_default("hyperparameters")
    numbers = {name: text for name, text in NUMBERS.items() if name not in own}
    for name, text in numbers.items():
        spellings = dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}"))
        add(*spellings, type=number, metavar="VALUE", nargs=None if endless else "+", help=text)
    parser.set_defaults(hyperparameters=(*own, *numbers))


def chosen_optimisation(chosen: argparse.Namespace) -> Optimisation:
    """Return the optimiser and schedule from the options."""
    return Optimisation(chosen.optimiser, chosen.nesterov, chosen.schedule, chosen.schedule_per)


def given_values(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the hyper-parameters given on the command line, by option name."""
    found = {name: getattr(chosen, name) for name in chosen.hyperparameters}
    given = {name: value for name, value in found.items() if value is not None}
    return {name: [1.0] if value == [] else value for name, value in given.items()}
