"""Fleets on a real Ray cluster of two nodes, one of which is killed in the middle."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from recollect.cli.training import runner_named
from recollect.errors import InputError, RecollectError
from recollect.experiments import on_ray
from recollect.experiments.plan import plan
from recollect.experiments.recorder import Recorder
from recollect.experiments.store import Store
from recollect.methods import ER, DERpp, Method, Step
from recollect.streams import benchmark
from recollect.train import Job, Result, train_all
from recollect.train.parallel import Work

ray: Any = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and a second node, each with one core for training."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False}
    some: Any = Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=some.address, log_to_driver=False, logging_level="ERROR")
        some.second = some.add_node(num_cpus=1)
        some.wait_for_nodes()
        yield some
    finally:
        ray.shutdown()
        some.shutdown()


def jobs(kinds: tuple[type[Method], ...], seeds: int) -> list[Job]:
    """Some jobs on the digits."""
    known = benchmark("seq-digits")
    stream = known.stream()
    return [
        job
        for kind in kinds
        for job in plan(kind, benchmark=known, buffer=20, seeds=range(seeds), epochs=4).jobs(stream)
    ]


def scores(results: list[Result]) -> list[Any]:
    return [(run.method, run.seed, run.matrix) for run in results]


def test_the_cluster_gives_what_this_machine_gives_and_survives_a_node(
    cluster: Any, tmp_path: Path
) -> None:
    second = tmp_path / cluster.second.node_id

    class Marked(ER):
        """ER that leaves a file with its node's name, and waits for the second to learn too."""

        def loss(self, step: Step) -> Tensor:
            (tmp_path / ray.get_runtime_context().get_node_id()).touch()
            deadline = time.monotonic() + 100
            while not second.exists():
                assert time.monotonic() < deadline, "the second node never learned"
                time.sleep(0.01)
            return super().loss(step)

    from recollect.experiments.on_ray import OnRay

    runner = OnRay()
    assert runner.workers == 2
    assert runner.device.type == "cpu"
    expected = train_all(jobs((ER, DERpp), seeds=6), workers=2)
    told: list[str] = []
    came: list[int] = []
    store = Recorder(Store(), "recollect test")
    killed = threading.Event()

    def kill() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not second.exists():
            time.sleep(0.01)
        cluster.remove_node(cluster.second, allow_graceful=False)
        killed.set()

    threading.Thread(target=kill, daemon=True).start()
    found = train_all(
        jobs((Marked, DERpp), seeds=6),
        workers=runner.workers,
        runner=runner,
        notice=told.append,
        finished=lambda job, results: came.append(len(results)),
        store=store,
    )
    assert killed.wait(60)
    assert scores(found) == scores(expected)
    assert any("retrying its work" in text for text in told)
    assert came == [6, 6]
    assert sorted(scores(Store().runs())) == sorted(scores(expected))


def test_an_error_in_a_worker_is_the_users_error(cluster: Any) -> None:
    from recollect.experiments.on_ray import OnRay

    class Broken(ER):
        def loss(self, step: Any) -> Any:
            raise InputError("it cannot be done")

    known = benchmark("seq-digits")
    (job,) = plan(Broken, benchmark=known, buffer=20, seeds=[0]).jobs(known.stream())
    with pytest.raises(InputError, match="it cannot be done"):
        list(OnRay()(Work([job], None, lambda place, steps: None, lambda text: None)))


def test_places_are_named() -> None:
    assert runner_named(None) is None
    with pytest.raises(InputError, match="is not supported: give ray"):
        runner_named("moon")
    with pytest.raises(InputError, match="--on 'ray:' is not supported: give ray"):
        runner_named("ray:")


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """The address of something that answers this to whoever says something."""

    def answer() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_an_address_where_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from recollect.experiments.on_ray import OnRay

    def nowhere(**options: Any) -> None:
        raise ConnectionError("nobody answers")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", nowhere)
    settings = bytes([0, 0, 6, 4, 0, 0, 0, 0, 0])
    with answering(settings) as address, pytest.raises(RecollectError, match="nobody answers"):
        OnRay(address)
    monkeypatch.setattr(ray, "init", None)  # Ray itself is not asked where nothing listens
    with pytest.raises(RecollectError, match=f"no Ray cluster at {address}: Connection refused;"):
        OnRay(address)
    with pytest.raises(RecollectError, match=f"no Ray cluster at ray://{address}: Connection"):
        runner_named(f"ray://{address}")
    for reply in (b"HTTP/1.1 400", b""):
        with answering(reply) as other, pytest.raises(RecollectError, match="there is not Ray"):
            OnRay(other)


def test_an_address_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(on_ray, "PATIENCE", 0.1)

    def silent(*given: object) -> None:
        time.sleep(1)
        raise OSError("no answer")

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(RecollectError, match=r"no Ray cluster at 10\.0\.0\.1:1: no answer within"):
        runner_named("ray:10.0.0.1:1")


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.1:", ":6379", "host:port", "host:65536"])
def test_what_is_not_an_address_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InputError, match="is not the address of a Ray cluster: give HOST:PORT"):
        runner_named(f"ray:{address}")
