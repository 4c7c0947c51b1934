"""From a request to jobs: seeds, grids, the paper's defaults, and every refusal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from torch import Tensor, nn

from recollect import ER, MLP, SGD, DERpp, InputError, Joint, Method
from recollect.experiments.plan import plan
from recollect.experiments.values import seeds_from
from recollect.methods import FDR, MER, METHODS, Step
from recollect.streams import TaskStream, benchmark
from recollect.train import Job
from recollect.train.optimisation import Optimisation


def digits(kind: type[Method], name: str = "seq-digits", **given: Any) -> list[Job]:
    known = benchmark(name)
    return plan(kind, benchmark=known, **{"seeds": [0], **given}).jobs(known.stream())


def points(job: Job) -> list[tuple[int, float, Method]]:
    return [(run.seed, run.lr, run.method) for run in job.runs]


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("1", [0]),
        ("10", list(range(10))),
        ("3-5", [3, 4, 5]),
        ("4-4", [4]),
        ("3,7", [3, 7]),
        ("7,3", [7, 3]),
        ("0-2,7", [0, 1, 2, 7]),
        ("9,0-1", [9, 0, 1]),
    ],
)
def test_seeds_are_read_as_they_are_meant(text: str, seeds: list[int]) -> None:
    assert seeds_from(text) == seeds


@pytest.mark.parametrize(
    "text", ["5-3", "0", "abc", "-1", "", ",", "3,", "1-2-3", "1.5", "1;2", "²", "1,-2"]
)
def test_seeds_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="seeds") as refused:
        seeds_from(text)
    assert repr(text) in str(refused.value)
    assert_one_sentence(refused.value)


@pytest.mark.parametrize("text", ["5-3,1", " 10", "1_0", "3-"])
def test_seeds_that_mean_something_else_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="seeds") as refused:
        seeds_from(text)
    assert repr(text) in str(refused.value)
    assert_one_sentence(refused.value)


@pytest.mark.parametrize("text", ["100001", "0-100000", "1-2,0-99999", f"0-{10**30}"])
def test_seeds_beyond_what_anyone_trains_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="are more than 100000: give fewer") as refused:
        seeds_from(text)
    assert repr(text) in str(refused.value)
    assert_one_sentence(refused.value)
    assert len(seeds_from("100000")) == 100_000


def test_a_grid_is_every_seed_with_every_combination_in_one_fleet() -> None:
    (job,) = digits(
        DERpp, buffer=50, seeds=[4, 2], values={"lr": [0.03, 0.1], "alpha": [0.2, 0.5], "beta": 1}
    )
    assert points(job) == [
        (seed, lr, DERpp(alpha, 1.0))
        for lr in (0.03, 0.1)
        for alpha in (0.2, 0.5)
        for seed in (4, 2)
    ]
    assert (job.batch, job.replay, job.buffer, job.epochs) == (10, 10, 50, 1)


def test_batch_sizes_have_a_fleet_each() -> None:
    jobs = digits(ER, buffer=50, seeds=range(3), values={"bs": [5, 10], "mbs": [8, 16], "lr": 0.1})
    assert [(job.batch, job.replay) for job in jobs] == [(5, 8), (5, 16), (10, 8), (10, 16)]
    for job in jobs:
        assert isinstance(job.batch, int)
        assert isinstance(job.replay, int)
        assert points(job) == [(seed, 0.1, ER()) for seed in range(3)]


def test_a_value_given_twice_is_trained_once() -> None:
    (job,) = digits(ER, buffer=50, values={"lr": [0.1, 0.2, 0.1], "bs": [5, 5]})
    assert [run.lr for run in job.runs] == [0.1, 0.2]


@pytest.mark.parametrize(
    ("name", "kind", "buffer", "expected"),
    [
        ("seq-digits", DERpp, 200, (0.03, DERpp(0.2, 1.0), 10, 10)),
        ("seq-digits", DERpp, 500, (0.03, DERpp(1.0, 0.5), 10, 10)),
        ("seq-digits", DERpp, 50, (0.03, DERpp(0.2, 1.0), 10, 10)),
        ("seq-digits", ER, 200, (0.01, ER(), 10, 10)),
        ("seq-digits", SGD, None, (0.03, SGD(), 10, 0)),
        ("seq-digits", Joint, None, (0.1, Joint(), 10, 0)),
        ("perm-digits", ER, 500, (0.2, ER(), 32, 32)),
        ("digits-360", ER, 200, (0.2, ER(), 1, 16)),
        ("digits-360", ER, 1000, (0.2, ER(), 4, 16)),
        ("digits-360", METHODS["der"], 200, (0.1, METHODS["der"](), 16, 64)),
        ("digits-360", DERpp, 1000, (0.2, DERpp(0.2, 1.0), 16, 128)),
        ("digits-360", SGD, None, (0.1, SGD(), 4, 0)),
        ("digits-360", Joint, None, (0.1, Joint(), 16, 0)),
    ],
)
def test_what_is_not_given_is_the_papers(
    name: str, kind: type[Method], buffer: int | None, expected: tuple[float, Method, int, int]
) -> None:
    (job,) = digits(kind, name, buffer=buffer)
    (run,) = job.runs
    assert (run.lr, run.method, job.batch, job.replay) == expected
    assert job.buffer == buffer


def test_what_is_given_counts_and_the_rest_stays_the_papers() -> None:
    (job,) = digits(DERpp, "digits-360", buffer=1000, values={"alpha": 0.9, "mbs": 8}, epochs=3)
    assert points(job) == [(0, 0.2, DERpp(0.9, 1.0))]
    assert (job.batch, job.replay, job.epochs) == (16, 8, 3)


def test_own_data_have_plain_defaults(toy_stream: TaskStream) -> None:
    (job,) = plan(DERpp, seeds=[0], buffer=20).jobs(toy_stream)
    assert points(job) == [(0, 0.1, DERpp())]
    assert (job.batch, job.replay, job.epochs) == (10, 10, 1)
    assert (job.buffer, job.validation) == (20, False)
    (job,) = plan(DERpp, seeds=[0], buffer=20, values={"bs": 7}).jobs(toy_stream)
    assert (job.batch, job.replay) == (7, 7)


def test_a_replay_size_that_follows_the_batch_size_is_no_grid(toy_stream: TaskStream) -> None:
    jobs = plan(ER, seeds=[0], buffer=20, values={"bs": [5, 10]}).jobs(toy_stream)
    assert [(job.batch, job.replay) for job in jobs] == [(5, 5), (10, 10)]


def test_the_network_fits_the_stream_or_is_the_users(toy_stream: TaskStream) -> None:
    (job,) = plan(SGD, seeds=[0]).jobs(toy_stream)
    assert job.stream is toy_stream
    assert isinstance(job.network, partial)
    module = job.network()
    assert isinstance(module, MLP)
    sizes = [p.numel() for p in module.parameters()]
    assert sorted(sizes) == sorted([6 * 100, 100, 100 * 100, 100, 100 * 4, 4])
    own = nn.Linear(6, 4)
    (job,) = plan(SGD, seeds=[0]).jobs(toy_stream, own)
    assert job.network is own


def test_a_plan_says_whether_it_is_scored_on_the_validation_split() -> None:
    for validation in (False, True):
        jobs = digits(ER, buffer=20, values={"bs": [5, 10]}, validation=validation)
        assert [job.validation for job in jobs] == [validation, validation]


REFUSED: list[tuple[type[Method], dict[str, Any], str]] = [
    (ER, {"buffer": 0}, "at least 1 example, not 0"),
    (ER, {"buffer": -5}, "at least 1 example, not -5"),
    (ER, {}, "ER needs a memory: give a buffer"),
    (DERpp, {}, "DER.. needs a memory: give a buffer"),
    (SGD, {"buffer": 200}, "SGD has no memory"),
    (Joint, {"buffer": 200}, "JOINT has no memory"),
    (SGD, {"values": {"lr": -0.1}}, "lr must be greater than 0 and finite, not -0.1"),
    (SGD, {"values": {"lr": 0}}, "lr must be greater than 0 and finite, not 0"),
    (SGD, {"values": {"lr": math.nan}}, "lr must be greater than 0 and finite, not nan"),
    (SGD, {"values": {"lr": math.inf}}, "lr must be greater than 0 and finite, not inf"),
    (SGD, {"values": {"lr": [0.1, -1]}}, "lr must be"),
    (SGD, {"values": {"lr": []}}, r"lr must be a number or several numbers, not \[\]"),
    (DERpp, {"buffer": 9, "values": {"alpha": -1}}, "alpha must be at least 0 and finite, not -1"),
    (DERpp, {"buffer": 9, "values": {"beta": math.nan}}, "beta must be at least 0 and finite"),
    (ER, {"buffer": 9, "values": {"alpha": 1}}, "ER has no hyper-parameter 'alpha' .*lr, bs, mbs"),
    (SGD, {"values": {"mbs": 10}}, "SGD has no hyper-parameter 'mbs'"),
    (DERpp, {"buffer": 9, "values": {"gamma": 1}}, "has no hyper-parameter 'gamma'"),
    (DERpp, {"buffer": 9, "values": {"alhpa": 1}}, "'alhpa' .*did you mean alpha=?"),
    (SGD, {"values": {"momentm": 1}}, "'momentm' .*did you mean momentum=?"),
    (DERpp, {"values": {"bufer": 9}}, "'bufer' .*did you mean buffer=?"),
    (SGD, {"values": {"bs": 2.5}}, "bs is a number of examples .*, not 2.5"),
    (SGD, {"values": {"bs": 0}}, "bs is a number of examples .*, not 0"),
    (SGD, {"values": {"bs": -3}}, "bs is a number of examples .*, not -3"),
    (ER, {"buffer": 9, "values": {"mbs": 0.5}}, "mbs is a number of examples .*, not 0.5"),
    (FDR, {"buffer": 9, "values": {"two_steps": -1}}, "must be 1 .on. or 0 .off., not -1"),
    (FDR, {"buffer": 9, "values": {"two_steps": 0.5}}, "must be 1 .on. or 0 .off., not 0.5"),
    (MER, {"buffer": 9, "values": {"nb": 0}}, "nb is a whole number .* at least 1, not 0"),
    (SGD, {"seeds": [1, 2, 1]}, "a seed is given twice: remove the duplicate"),
    (SGD, {"seeds": [0, -1]}, r"a seed must be in 0\.\.2\*\*63-1, not -1\.\.0"),
    (SGD, {"seeds": []}, "no seeds"),
    (SGD, {"seeds": [0, 2**63]}, f"a seed must be in .*, not 0..{2**63}"),
    (
        SGD,
        {"seeds": [0.5, 0.7]},
        r"seeds must be a list of integers, or their number, not \[0.5, 0.7\]",
    ),
    (SGD, {"seeds": 2.5}, "seeds must be a list of integers, or their number, not 2.5"),
    (SGD, {"seeds": 0}, "no seeds"),
    (SGD, {"seeds": ["1"]}, "seeds must be a list of integers"),
    (ER, {"buffer": 2.5}, "the buffer must be a whole number, not 2.5"),
    (SGD, {"epochs": 1.5}, "the number of epochs must be a whole number, not 1.5"),
    (SGD, {"values": {"lr": None}}, "lr must be a number or several numbers, not None"),
    (SGD, {"epochs": 0}, "epochs must be at least 1, not 0"),
    (SGD, {"epochs": -2}, "epochs must be at least 1, not -2"),
]


@pytest.mark.parametrize(("kind", "given", "message"), REFUSED)
def test_refusals_are_one_sentence(kind: type[Method], given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        digits(kind, **given)
    assert_one_sentence(refused.value)


@pytest.mark.parametrize("value", [math.inf, math.nan])
@pytest.mark.parametrize("name", ["bs", "mbs"])
def test_a_batch_size_that_is_not_finite_is_refused(name: str, value: float) -> None:
    message = f"^{name} is a number of examples .*, not {value}"
    with pytest.raises(InputError, match=message) as refused:
        digits(ER, buffer=9, values={name: value})
    assert_one_sentence(refused.value)


def test_a_switch_that_the_paper_has_on_can_be_turned_off() -> None:
    assert [_switches(*digits(FDR, buffer=9, values=off)) for off in ({}, {"two_steps": 0})] == [
        (1, 1),
        (0, 1),
    ]


def _switches(job: Job) -> tuple[int, int]:
    (method,) = {run.method for run in job.runs}
    assert isinstance(method, FDR)
    return method.two_steps, method.training_mode


def test_the_largest_seed_of_63_bits_is_taken() -> None:
    (job,) = digits(SGD, seeds=[2**63 - 1])
    assert [run.seed for run in job.runs] == [2**63 - 1]


def test_numbers_may_be_numpys() -> None:
    (job,) = digits(ER, seeds=np.arange(2), buffer=np.int64(9), epochs=np.int32(2))
    assert [type(run.seed) for run in job.runs] == [int, int]
    assert (type(job.buffer), type(job.epochs)) == (int, int)


def test_a_grid_may_be_an_array() -> None:
    (job,) = digits(SGD, values={"lr": np.array([0.25, 0.5])})
    assert [run.lr for run in job.runs] == [0.25, 0.5]


@dataclass(frozen=True)
class Scaled(Method):
    """A method whose hyper-parameter has no default."""

    gamma: float | Tensor

    name: ClassVar[str] = "scaled"
    title: ClassVar[str] = "Scaled"

    def loss(self, step: Step) -> Tensor:
        return self.gamma * SGD().loss(step)


def test_a_hyperparameter_without_a_default_can_be_given(toy_stream: TaskStream) -> None:
    (job,) = plan(Scaled, seeds=[0], values={"gamma": 0.5}).jobs(toy_stream)
    assert points(job) == [(0, 0.1, Scaled(0.5))]


def test_a_new_method_has_a_rate_and_the_benchmarks_sizes_where_the_paper_has_none() -> None:
    (job,) = digits(Scaled, "perm-digits", values={"gamma": 0.5})
    assert points(job) == [(0, 0.1, Scaled(0.5))]
    assert (job.batch, job.epochs) == (32, 1)


def test_a_hyperparameter_without_a_default_must_be_given() -> None:
    with pytest.raises(InputError, match="gamma has no default here: give a value"):
        plan(Scaled, seeds=[0])


def assert_one_sentence(error: Exception) -> None:
    message = str(error)
    assert message == message.strip()
    assert message
    assert "\n" not in message
    assert not message.endswith(".")


@pytest.mark.parametrize(
    ("name", "option"), [("fdr", "two_steps"), ("hal", "reservoir"), ("gss", "whole")]
)
@pytest.mark.parametrize("value", [2, 0.5, 1e9, -1])
def test_a_switch_is_on_or_off(name: str, option: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{option} must be 1 .on. or 0 .off., not"):
        plan(METHODS[name], benchmark=benchmark("seq-digits"), buffer=20, seeds=1,
             values={option: value})  # fmt: skip


def identity(**given: Any) -> tuple[str, dict[str, float]]:
    """The optimiser and hyper-parameters in the identity of planned runs."""
    names = {name: given.pop(name) for name in ("optimiser", "schedule", "per") if name in given}
    planned = plan(ER, buffer=20, seeds=1, values=given, optimisation=Optimisation(**names))
    (_, _, (run, *_)), *_ = planned.fleets
    return planned.optimisation.text, dict(run.numbers)


def test_optimiser_settings_that_change_nothing_change_no_identity() -> None:
    plain = identity()
    assert plain == ("sgd", {})
    assert identity(per="task") == identity(momentum=0, weight_decay=[0.0]) == plain
    assert identity(warmup=0, per="task") == plain
    assert identity(optimiser="Adam", per="task", beta1=0.9) == ("Adam, constant", {})
    assert identity(optimiser="AdamW", weight_decay=0.0) == (
        "AdamW, constant", {"weight_decay": 0.0},
    )  # fmt: skip
    assert identity(momentum=[0.0, 0.9]) == ("sgd", {"momentum": 0.0}), "a grid has every value"
    assert identity(schedule="cosine", per="task")[0] == "SGD, cosine per task"


def test_a_warm_up_of_every_task_is_not_one_of_the_stream() -> None:
    ours = identity(optimiser="Adam", warmup=3, per="task")
    assert ours == ("Adam, constant per task", {"warmup": 3.0})
    assert identity(optimiser="Adam", warmup=3) == ("Adam, constant", {"warmup": 3.0})
    assert Optimisation.read(ours[0]) == Optimisation("Adam", per="task")
    assert Optimisation.read("SGD, constant") == Optimisation(), "written by older versions"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "step", "decay_factor": 0}, "above 0 and at most 1, not 0:"),
        ({"schedule": "step", "decay_factor": 2}, "above 0 and at most 1, not 2:"),
        ({"schedule": "step", "decay_every": 2.5}, "decay_every is a number of steps .*not 2.5"),
        ({"warmup": 10.5}, "warmup is a number of steps and must be whole, not 10.5"),
        ({"optimiser": "Adam", "eps": 0}, "eps must be greater than 0, such as 1e-8"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        identity(**given)
