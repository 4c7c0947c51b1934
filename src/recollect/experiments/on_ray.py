"""Train fleets on a Ray cluster, and retry the work of nodes that fail."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import fields
from typing import Any, final

import torch

from recollect.errors import InputError, RecollectError
from recollect.extras import needs
from recollect.streams import Stream
from recollect.train import Job, Result, TimeUp
from recollect.train.devices import one_thread
from recollect.train.interrupts import stop_asked
from recollect.train.loop import train
from recollect.train.parallel import Events, Work

RETRIES = 5
POLL_SECONDS = 1.0
PATIENCE = 5.0
ANYWHERE = ("auto", "local")
# Ray uses HTTP/2: the client's connection preface with an empty SETTINGS frame.
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
SETTINGS_FRAME = 4


@final
class OnRay:
    """Train pieces of work on the Ray cluster at an address, or on a local one.

    The pieces of a worker or node that fails are trained again elsewhere. Results arrive as pieces
    finish. Every node needs the same version of recollect.
    """

    def __init__(self, address: str | None = None) -> None:
        if address is not None:  # Ray tries 20 times, a second each, and warns every time
            os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "5")
        with needs("ray", extra="ray", what="--on ray"):
            import ray
        self._ray: Any = ray
        if not self._ray.is_initialized():
            if address is not None and address not in ANYWHERE:
                _check_reachable(address)
            try:
                self._ray.init(address=address, include_dashboard=False, log_to_driver=False,
                         logging_level="ERROR")  # fmt: skip
            except ConnectionError as error:
                raise RecollectError(
                    f"there is no Ray cluster at {address}: {str(error).splitlines()[0]}"
                ) from None

    @property
    def workers(self) -> int:
        """Number of pieces that can train at the same time."""
        found = self._ray.cluster_resources()
        return max(int(found.get("GPU", 0)) or int(found.get("CPU", 1)), 1)

    @property
    def device(self) -> torch.device:
        """Device that pieces train on: a GPU if the cluster has any."""
        return torch.device("cuda" if self._ray.cluster_resources().get("GPU") else "cpu")

    def __call__(self, work: Work) -> Events:
        """Train all pieces, and yield their results in the order in which they finish."""
        ray = self._ray
        gpus = 1 if any(piece.device.type == "cuda" for piece in work.pieces) else 0
        remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(_trained)
        streams: dict[int, Any] = {}
        tries = [0] * len(work.pieces)
        running: dict[Any, int] = {}

        def send(index: int) -> None:
            piece = work.pieces[index]
            if id(piece.stream) not in streams:  # the data are sent once for all pieces
                streams[id(piece.stream)] = ray.put(piece.stream)
            parts = {name: value for name, value in vars(piece).items() if name != "stream"}
            running[remote.remote(parts, streams[id(piece.stream)])] = index

        for index in sorted(range(len(work.pieces)), key=lambda n: -work.pieces[n].work):
            send(index)
        try:
            while running:
                ready, _ = ray.wait(list(running), timeout=POLL_SECONDS)
                for done in ready:
                    index = running.pop(done)
                    try:
                        results = ray.get(done)
                    except ray.exceptions.RayTaskError as error:
                        raise _cause(error) from None
                    except ray.exceptions.RayError as error:
                        tries[index] += 1
                        if tries[index] > RETRIES:
                            raise RecollectError(
                                f"a piece of work failed {tries[index]} times on the Ray cluster: "
                                f"{str(error).splitlines()[0]}"
                            ) from None
                        work.notice("a worker of the Ray cluster failed: retrying its work")
                        send(index)
                        continue
                    yield index, "steps", work.pieces[index].steps
                    yield index, "results", results
                if stop_asked():
                    return
                if running and work.checkpoints is not None and work.checkpoints.time_is_up():
                    limit = TimeUp(
                        f"the time limit was reached with {len(running)} pieces of work left; "
                        f"run the same command to continue with them"
                    )
                    yield next(iter(running.values())), "stopped", limit
                    return
        finally:
            for unfinished in running:
                ray.cancel(unfinished, force=True)


def _check_reachable(address: str) -> None:
    """Refuse an address that no cluster listens on; Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise InputError(f"{address!r} is not the address of a Ray cluster: give HOST:PORT")
    found: list[str] = []

    def connect() -> None:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), PATIENCE) as connection:
                found.append(_greet(connection))
        except (OSError, UnicodeError) as error:
            found.append(str(getattr(error, "strerror", None) or error))

    # In a thread, because a DNS lookup has no timeout.
    asking = threading.Thread(target=connect, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    why = found[0] if found else f"no answer within {PATIENCE:g} s"
    if why:
        raise RecollectError(
            f"there is no Ray cluster at {address}: {why}; start one there (ray start --head), or "
            f"correct the address"
        )


def _greet(connection: socket.socket) -> str:
    """Return why the server cannot be Ray; empty if it can. A gateway may accept any connection."""
    if os.environ.get("RAY_USE_TLS", "0") == "1":
        return ""
    connection.sendall(GREETING)
    reply = connection.recv(9)
    return "" if len(reply) > 3 and reply[3] == SETTINGS_FRAME else "what listens there is not Ray"


def _trained(parts: dict[str, Any], stream: Stream) -> list[Result]:
    names = {field.name for field in fields(Job)}
    job = Job(stream=stream, **{name: parts[name] for name in names & parts.keys()})
    vars(job).update(parts)  # keep the fingerprints: source files may differ on another machine
    with one_thread():
        return train(job, lambda steps: None, None)


def _cause(error: Any) -> Exception:
    """Unwrap the exception that a worker raised."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, RecollectError):
        return cause
    return RuntimeError(f"training failed on the Ray cluster:\n{error}")
