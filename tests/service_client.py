"""The service of examples/service.py in processes of its own, and requests to it."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import recollect

__all__ = ["MISSING", "Client", "Service", "installed"]

MISSING = 'the service needs FastAPI and uvicorn (pip install "recollect[examples]"), and forks'
WORKER = Path(__file__).with_name("service_worker.py")


def installed() -> bool:
    """Whether the service can be started here."""
    found = all(importlib.util.find_spec(name) for name in ("fastapi", "uvicorn"))
    return found and hasattr(os, "fork")


class Client:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def send(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """The status and the answer, from JSON if it is that; bytes are sent as they are."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        self._connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        text = answer.read().decode()
        plain = answer.headers.get_content_type() != "application/json"
        return answer.status, text if plain else json.loads(text)

    def predict(self, name: str, features: object) -> tuple[int, Any]:
        return self.send("POST", "/predict", {"id": name, "features": features})

    def label(self, name: str, label: object) -> tuple[int, Any]:
        return self.send("POST", "/label", {"id": name, "label": label})

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Service:
    """The service in a folder, started and ended as often as one likes."""

    def __init__(self, folder: Path, segment: int = 0) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]
        source = str(Path(recollect.__file__).parents[1])
        self._worker = subprocess.Popen(
            [sys.executable, str(WORKER), str(folder), str(self.port), str(segment)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self._pid = 0

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._pid = int(self._tell("start"))
        for _ in range(600):
            with suppress(OSError), Client(self.port) as client:
                if client.send("GET", "/health")[0] == 200:
                    return
            time.sleep(0.05)
        raise AssertionError("the service does not answer")

    def end(self, how: signal.Signals) -> int:
        """Send a signal, and wait for the end; the exit status, negative after a kill."""
        os.kill(self._pid, how)
        self._pid, status = 0, int(self._tell(""))
        return status

    def close(self) -> None:
        """End all processes."""
        if self._pid:
            self.end(signal.SIGKILL)
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.close()
        self._worker.wait(60)
        self._worker.stdout.close()

    def _tell(self, line: str) -> str:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(line + "\n")
        self._worker.stdin.flush()
        return self._worker.stdout.readline()
