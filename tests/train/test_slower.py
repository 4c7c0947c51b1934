"""A compiler or a recording that fails costs speed and a warning, never the run."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from tests.train.small_images import CLASSES, SHAPE, convolutional, mlp
from torch import Tensor

from recollect import ER, DERpp, Fleet, InputError, Method, Step
from recollect.cli.main import main
from recollect.errors import SlowerWarning
from recollect.methods.pnn import PNN
from recollect.train import compiled, execution

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's compiler

COMPILE = "torch._inductor.compile_fx.compile_fx"
TRACE = "torch.fx.experimental.proxy_tensor.make_fx"
Compiler = Callable[..., Any]


@pytest.fixture(autouse=True)
def afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was compiled, nothing failed and nothing was said before; there is a compiler."""
    # Modules that the compiler imports keep the functions that they find: those must be torch's.
    importlib.import_module("torch._inductor.compile_fx")
    monkeypatch.setattr(compiled, "_KNOWN", {})
    monkeypatch.setattr(compiled, "_FAILED", set())
    execution.say_slower.cache_clear()
    monkeypatch.setattr("recollect.train.compiled.compiler_exists", lambda: True)


NETS = {"mlp": mlp, "convolutional": convolutional}


def fleet_of(net: str = "convolutional", methods: list[Method] | None = None, **how: Any) -> Fleet:
    return Fleet(
        methods or [DERpp(0.4, 0.9), DERpp(1.1, 0.0)], NETS[net], seeds=[0, 1], lr=[0.05, 0.02],
        classes=CLASSES, shape=SHAPE, memory=8, replay=3, **how,
    )  # fmt: skip


def data(count: int = 62) -> tuple[Tensor, Tensor]:
    generator = torch.manual_seed(3)
    x = torch.rand(2, count, *SHAPE, generator=generator)
    return x, torch.randint(CLASSES, (2, count), generator=generator)


def assert_same(fleet: Fleet, other: Fleet) -> None:
    """Bit for bit."""
    theirs = other.tensors()
    for name, tensor in fleet.tensors().items():
        assert torch.equal(tensor, theirs[name]), name


def trace_only(graph: Any, inputs: Any) -> Any:
    """A compiler that leaves the graph as it was traced."""
    return graph


def fail(*_: object, **__: object) -> Any:
    raise AssertionError


def make_what_fails(graph: Any, inputs: Any) -> Any:
    return fail


def make_what_fails_half_way(graph: Any, inputs: Any) -> Any:
    def run(*tensors: Tensor) -> Any:
        for tensor in tensors:
            tensor.fill_(7)
        raise RuntimeError("a kernel failed\nand has much to say")

    return run


FAILURES = {
    "tracing": (TRACE, fail, "AssertionError"),
    "compiling": (COMPILE, fail, "AssertionError"),
    "first call": (COMPILE, make_what_fails, "AssertionError"),
    "half-way": (COMPILE, make_what_fails_half_way, "RuntimeError: a kernel failed"),
}


class TestCompiling:
    """What cannot be compiled is taken as it is."""

    @pytest.mark.parametrize("net", NETS)
    @pytest.mark.parametrize("failure", FAILURES)
    def test_a_failure_changes_no_result_and_is_said_once(
        self, net: str, failure: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        where, broken, why = FAILURES[failure]
        monkeypatch.setattr(where, broken)
        plain, fast = fleet_of(net), fleet_of(net, compiled=True)
        assert "compiled" in fast.execution
        for fleet in (plain, fast):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", SlowerWarning)
                loss = fleet.learn(*data(), batch=4)
        assert [(each.category, str(each.message)) for each in said] == [
            (SlowerWarning, "DER++: a step could not be compiled, so steps run uncompiled, which "
                            f"gives the same results more slowly ({why})")
        ]  # fmt: skip
        assert_same(fast, plain)
        assert loss.isfinite().all()
        assert fast.execution == plain.execution
        assert "compiled" not in fast.execution

    def test_later_fleets_of_the_kind_do_not_try_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tries: list[object] = []

        def broken(graph: object, inputs: object) -> Any:
            tries.append(graph)
            raise RuntimeError("no")

        monkeypatch.setattr(COMPILE, broken)
        with pytest.warns(SlowerWarning):
            fleet_of(compiled=True).learn(*data(), batch=4)
        again = fleet_of(compiled=True)
        assert "compiled" not in again.execution
        again.learn(*data(), batch=4)
        assert len(tries) == 1
        with pytest.warns(SlowerWarning, match="ER: a step could not be compiled"):
            fleet_of(methods=[ER(), ER()], compiled=True).learn(*data(), batch=4)
        assert len(tries) == 2

    def test_a_method_that_goes_by_tasks_does_not_try_in_every_task(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(COMPILE, fail)
        fleet = fleet_of("mlp", [PNN(), PNN()], compiled=True, tasks=2)
        with pytest.warns(SlowerWarning):
            fleet.learn(*data(), batch=4)
        fleet.next_task()
        monkeypatch.setattr(COMPILE, pytest.fail)
        fleet.learn(*data(), batch=4)

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_a_lack_of_memory_is_not_hidden(
        self, wrapped: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever started the fleet halves it."""

        def no_room(*_: object) -> Any:
            from torch._inductor.exc import InductorError

            error = torch.OutOfMemoryError("CUDA out of memory")
            raise InductorError(error, None) if wrapped else error

        monkeypatch.setattr(COMPILE, no_room)
        fleet = fleet_of(compiled=True)
        with pytest.raises(torch.OutOfMemoryError):
            fleet.learn(*data(), batch=4)
        assert "compiled" in fleet.execution

    def test_an_interrupt_is_not_hidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr(COMPILE, interrupted)
        with pytest.raises(KeyboardInterrupt):
            fleet_of(compiled=True).learn(*data(), batch=4)

    def test_what_a_method_refuses_is_its_own_error(self) -> None:
        @dataclass(frozen=True)
        class Greedy(Method):
            name: ClassVar[str] = "greedy"
            title: ClassVar[str] = "Greedy"

            def loss(self, step: Step) -> Tensor:
                step.draw()
                return step.net(step.x)[0].sum((1, 2))

        with pytest.raises(InputError, match=r"step\.draw more often"):
            fleet_of(methods=[Greedy(), Greedy()], compiled=True).learn(*data(), batch=4)

    def test_tensors_with_other_strides_are_compiled_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        layouts: list[list[tuple[int, ...]]] = []

        def noting(graph: Any, inputs: list[Tensor]) -> Any:
            layouts.append([tensor.stride() for tensor in inputs])
            return graph

        monkeypatch.setattr(COMPILE, noting)
        function = compiled.Compiled(
            lambda x: {"twice": x * 2}, "double", 0, torch.device("cpu"), "Double"
        )
        x = torch.arange(6.0).view(2, 3)
        for tensor in (x, x.clone(), x.t().contiguous().t(), x.double()):
            ready = function.ready([tensor])
            assert ready is not None
            assert torch.equal(ready(tensor)["twice"], 2 * tensor)
        assert layouts == [[(3, 1)], [(1, 2)], [(3, 1)]]

    def test_trying_a_compiled_function_changes_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(COMPILE, trace_only)

        def add(x: Tensor) -> dict[str, Tensor]:
            return {"sum": x.add_(1).clone()}

        function = compiled.Compiled(add, "add", 0, torch.device("cpu"), "Add")
        x = torch.zeros(3)
        ready = function.ready([x])
        assert ready is not None
        assert not x.any()
        assert ready(x)["sum"].tolist() == x.tolist() == [1.0] * 3


class TestRecording:
    """What cannot be recorded is taken as it comes."""

    @pytest.mark.parametrize("error", [RuntimeError, AssertionError, ValueError, TypeError])
    def test_a_failure_changes_no_result_and_is_said_once(
        self, error: type[Exception], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(function: Callable[[], None], pool: object) -> Any:
            raise error("operation not permitted when stream is capturing\nmore about it")

        monkeypatch.setattr("recollect.train.execution.captured", refuse)
        plain, fast = fleet_of(), fleet_of(recorded=True)
        self.pretend_gpu(fast)
        plain.learn(*data(), batch=4)
        with pytest.warns(SlowerWarning) as said:
            fast.learn(*data(), batch=4)
        assert [str(each.message) for each in said] == [
            "DER++: a step could not be recorded, so steps run eagerly, which gives the same "
            f"results more slowly ({error.__name__}: operation not permitted when stream is "
            "capturing)"
        ]
        assert_same(fast, plain)
        assert fast.execution == plain.execution
        fast.learn(*data(), batch=4)

    @pytest.mark.parametrize("error", [torch.OutOfMemoryError, KeyboardInterrupt, InputError])
    def test_some_errors_are_not_hidden(
        self, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(function: Callable[[], None], pool: object) -> Any:
            raise error("no")

        monkeypatch.setattr("recollect.train.execution.captured", refuse)
        fleet = fleet_of(recorded=True)
        self.pretend_gpu(fleet)
        with pytest.raises(error):
            fleet.learn(*data(), batch=4)

    @staticmethod
    def pretend_gpu(fleet: Fleet) -> None:
        """Only there, recording a step is more than to call it again."""
        assert fleet._stepper._execution.recorded
        fleet._stepper._execution._pool = (0, 1)  # type: ignore[assignment]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_command_line_says_it_in_one_line(
    workers: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """However many processes meet it."""
    monkeypatch.setattr(COMPILE, fail)
    monkeypatch.setattr("recollect.train.compiled.compiling_pays", lambda *_: True)
    with warnings.catch_warnings():
        warnings.simplefilter("default", SlowerWarning)
        status = main(["run", "seq-digits", "sgd", "--seeds", "2", "--workers", workers])
    said = [line for line in capfd.readouterr().err.splitlines() if "compiled" in line]
    assert status == 0
    assert said == [
        "recollect: SGD: a step could not be compiled, so steps run uncompiled, which gives the "
        "same results more slowly (AssertionError)"
    ]
