"""A service that is killed under load: acknowledged labels are learned once, bit for bit."""

from __future__ import annotations

import http.client
import json
import random
import runpy
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests.service_client import MISSING, Client, Service, installed
from tests.torture import times

from recollect import Learner
from recollect.learner.late.recovery import Replay

pytestmark = pytest.mark.skipif(not installed(), reason=MISSING)

EXAMPLE = Path(__file__).parents[1] / "examples" / "service.py"
CLIENTS = 4


class Load:
    """Clients that ask, label later or never, repeat themselves and send nonsense."""

    def __init__(self, port: int) -> None:
        self.port, self.count = port, 0
        self.answered: dict[str, str] = {}  # ids, and the labels that they will get
        self.sent: set[str] = set()
        self.acknowledged: dict[str, str] = {}
        self.statuses: Counter[int] = Counter()
        self._lock, self._stop = threading.Lock(), threading.Event()

    def run(self, seconds: float, seed: int) -> list[threading.Thread]:
        """Start the clients, and come back after some time, while they are at work."""
        self._stop.clear()
        threads = [
            threading.Thread(target=self._use, args=(random.Random(f"{seed} {number}"),))
            for number in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        return threads

    def stop(self, threads: list[threading.Thread]) -> None:
        self._stop.set()
        for thread in threads:
            thread.join()

    def _use(self, rng: random.Random) -> None:
        killed = OSError, http.client.HTTPException, json.JSONDecodeError
        with suppress(*killed), Client(self.port) as client:
            while not self._stop.is_set():
                self._one(client, rng)

    def _one(self, client: Client, rng: random.Random) -> None:
        kind = rng.random()
        if kind < 0.5 or not self.answered:
            with self._lock:
                self.count += 1
                name = f"request {self.count}"
            x = [round(rng.gauss(0, 1), 3) for _ in range(4)]
            status, _ = client.predict(name, x)
            if status == 200:
                self.answered[name] = "up" if sum(x) > 0 else "down"
        elif kind < 0.95:
            name = rng.choice(list(self.answered))  # also one that was labelled before
            self.sent.add(name)
            status, answer = client.label(name, self.answered[name])
            assert status == 200, answer
            self.acknowledged[name] = self.answered[name]
        else:
            status, _ = client.predict("bad", rng.choice([[1, 2], [float("nan")] * 4, "x", None]))
            assert status == 422
        self.statuses[status] += 1


@pytest.mark.parametrize(
    ("kills", "segment"), [(times(30), 0), (times(10), 4_000)], ids=["one file", "many files"]
)
def test_every_acknowledged_label_is_learned_once(kills: int, segment: int, tmp_path: Path) -> None:
    rng, folder = random.Random(1), tmp_path / "state"
    service = Service(folder, segment)
    load = Load(service.port)
    try:
        for life in range(kills):
            service.start()
            threads = load.run(rng.uniform(0.2, 1.5), life)
            assert service.end(signal.SIGKILL) == -signal.SIGKILL
            load.stop(threads)
        service.start()
        load.stop(load.run(0.3, kills))
        assert service.end(signal.SIGTERM) == 0
    finally:
        service.close()

    replay = Replay(folder, 0)
    labelled = [pair for b in replay.batches() for pair in zip(b.ids, b.labels, strict=True)]
    found = dict(labelled)
    assert len(found) == len(labelled), "an id has two labels"
    assert {name: found.get(name) for name in load.acknowledged} == load.acknowledged
    assert set(found) <= load.sent
    assert load.acknowledged
    assert len(replay.pending) > 0
    files = len(list(folder.glob("*.journal")))
    assert (files > 1) == bool(segment)

    made = runpy.run_path(str(EXAMPLE))["learner_in"]
    fresh: Learner = made(tmp_path / "fresh")
    assert fresh.replay_journal(folder) == len(labelled)
    assert fresh.metrics().seen + fresh.metrics().left_out == len(labelled)
    last = Learner.versions(folder)[0].path
    assert last.read_bytes() == fresh._packed()
    again: Learner = made(folder)
    assert again._packed() == fresh._packed()
    assert again.pending == len(replay.pending)
    told = {
        "kills": kills, "answers": sum(load.statuses.values()), "steps": fresh.steps,
        "predictions": len(load.answered), "acknowledged": len(load.acknowledged),
        "learned": len(labelled), "pending at the end": again.pending,
        "files": files,
    }  # fmt: skip
    print(json.dumps(told))  # shown with `pytest -s`
