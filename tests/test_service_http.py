"""The service of the examples over real HTTP: answers, glitches, many clients, stop and restart."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.service_client import MISSING, Client, Service, installed

from recollect import MLP, DERpp, Learner

pytestmark = pytest.mark.skipif(not installed(), reason=MISSING)

EXAMPLE = Path(__file__).parents[1] / "examples" / "service.py"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    found = Service(tmp_path_factory.mktemp("service") / "state")
    found.start()
    yield found
    found.close()


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.port) as found:
        yield found


def test_predict_then_label(client: Client) -> None:
    status, first = client.predict("one", [2, 0, 0, 0])
    assert (status, first["id"]) == (200, "one")
    assert client.label("one", "up") == (200, {"id": "one", "status": "learned"})
    assert client.label("one", "up") == (200, {"id": "one", "status": "repeated"})
    status, answer = client.label("never asked", "up")
    assert status == 404
    assert "no prediction waits" in answer["error"]
    _, second = client.predict("two", [2, 0, 0, 0])
    assert second["label"] in second["probabilities"]
    assert sum(second["probabilities"].values()) == pytest.approx(1)


def test_an_example_that_is_not_trusted_is_left_out(client: Client) -> None:
    for number in range(5):
        client.predict(f"near {number}", [1, 0, 0, number])
        assert client.label(f"near {number}", "up")[1]["status"] == "learned"
    client.predict("far", [1e30, 0, 0, 0])
    before = client.send("GET", "/health")[1]["seen"]
    assert client.label("far", "up") == (200, {"id": "far", "status": "left out"})
    assert client.label("far", "up") == (200, {"id": "far", "status": "repeated"})
    assert client.send("GET", "/health")[1]["seen"] == before


def test_a_second_process_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with Learner(MLP(4, 1), DERpp(), checkpoints=tmp_path) as learner:
        learner.checkpoint()
        found = subprocess.run(
            [sys.executable, str(EXAMPLE), "--folder", str(tmp_path), "--port", "0"],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert found.returncode == 1
    assert re.fullmatch(r"service: \S+ is in use by process \d+ .*\n", found.stderr)


GLITCHES: dict[str, tuple[str, object]] = {
    "NaN": ("/predict", b'{"id": "x", "features": [NaN, 0, 0, 0]}'),
    "infinity": ("/predict", b'{"id": "x", "features": [1e999, 0, 0, 0]}'),
    "too large for float32": ("/predict", {"id": "x", "features": [1e39, 0, 0, 0]}),
    "a number with 500 digits": ("/predict", {"id": "x", "features": [10**500, 0, 0, 0]}),
    "three features": ("/predict", {"id": "x", "features": [0, 0, 0]}),
    "nested features": ("/predict", {"id": "x", "features": [[0, 0, 0, 0]]}),
    "texts": ("/predict", {"id": "x", "features": ["a", "b", "c", "d"]}),
    "no features": ("/predict", {"id": "x"}),
    "no id": ("/predict", {"features": [0, 0, 0, 0]}),
    "an empty id": ("/predict", {"id": "", "features": [0, 0, 0, 0]}),
    "a long id": ("/predict", {"id": "x" * 201, "features": [0, 0, 0, 0]}),
    "an id that is not Unicode": ("/predict", b'{"id": "\\ud800", "features": [0, 0, 0, 0]}'),
    "not JSON": ("/predict", b"features=1"),
    "not UTF-8": ("/predict", b"\xff\xfe\x00"),
    "nothing": ("/predict", b""),
    "a list": ("/predict", []),
    "deeply nested": ("/predict", b"[" * 50_000),
    "a huge body": ("/predict", b"[" * 500_000),
    "a label that is a number": ("/label", {"id": "x", "label": 3}),
    "a label that is null": ("/label", {"id": "x", "label": None}),
    "an empty label": ("/label", {"id": "x", "label": ""}),
    "a long label": ("/label", {"id": "x", "label": "x" * 101}),
    "no such page": ("/predictions", {}),
}


@pytest.mark.parametrize("name", GLITCHES)
def test_a_glitch_is_refused_with_a_sentence_and_changes_nothing(name: str, client: Client) -> None:
    before = client.send("GET", "/health")
    status, answer = client.send("POST", *GLITCHES[name])
    assert 400 <= status < 500, answer
    (sentence,) = answer.values()
    assert isinstance(sentence, str)
    assert 5 < len(sentence) < 200
    assert client.send("GET", "/health") == before


def test_many_clients_at_once_with_glitches(service: Service, client: Client) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 4)).round(3)
    failed: list[object] = []

    def use(first: int) -> None:
        with Client(service.port) as own:
            for row in range(first, 160, 8):
                label = "up" if x[row].sum() > 0 else "down"
                told = [own.predict(f"many {row}", x[row].tolist())]
                if row % 5 == 0:
                    own.send("POST", *GLITCHES["NaN"])
                told.append(own.label(f"many {row}", label))
                failed.extend(each for each in told if each[0] != 200)
                if row % 3 == 0:
                    again = own.label(f"many {row}", label)[1]
                    failed.extend([again] if again["status"] != "repeated" else [])

    before = client.send("GET", "/health")[1]["seen"]
    threads = [threading.Thread(target=use, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert client.send("GET", "/health")[1]["seen"] == before + 160
    status, text = client.send("GET", "/metrics")
    assert status == 200
    assert f"recollect_examples_total {before + 160}\n" in text
    assert "recollect_pending " in text


def test_it_stops_at_sigterm_and_goes_on(service: Service) -> None:
    with Client(service.port) as client:
        client.predict("later", [1, 1, 1, 1])
        client.predict("soon", [1, 1, 1, 0])
        client.label("soon", "up")
        _, before = client.send("GET", "/health")
        _, answer = client.predict("asked", [1, 1, 1, 1])
    assert service.end(signal.SIGTERM) == 0
    service.start()
    with Client(service.port) as client:
        _, after = client.send("GET", "/health")
        assert (after["seen"], after["pending"]) == (before["seen"], before["pending"] + 1)
        assert after["saved"] == after["seen"]
        assert client.predict("asked", [1, 1, 1, 1])[1] == answer
        assert client.label("later", "up")[1]["status"] == "learned"
        assert client.label("soon", "up")[1]["status"] == "repeated"
