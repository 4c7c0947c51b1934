"""Prediction service that learns from late labels, in one file.

    python examples/service.py --folder state --port 8000

POST /predict returns a prediction and stores the example under its id. POST /label sends the label
of an id; the response follows when it is on disk. A killed process resumes from its state: no
acknowledged label is lost or learned twice. SIGTERM saves and exits with status 0.
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import signal
import sys
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import torch
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field

from recollect import MLP, DataError, DERpp, InputError, Learner, RecollectError, prometheus

FEATURES, LARGEST_BODY, AT_ONCE = 4, 100_000, 64
Id = Annotated[str, Field(min_length=1, max_length=200)]
GONE = "no prediction waits under this id: it was never asked for, or too long ago"
Number = Annotated[float, Field(allow_inf_nan=False)]


class Question(BaseModel):
    """Request body of /predict."""

    id: Id
    features: Annotated[list[Number], Field(min_length=FEATURES, max_length=FEATURES)]


class Truth(BaseModel):
    """Request body of /label: the label of an id."""

    id: Id
    label: Annotated[str, Field(min_length=1, max_length=100)]


Waiting = tuple[Truth, Future[str]]


def learner_in(folder: Path) -> Learner:
    """Load the learner of a folder with all acknowledged labels, or create a new one."""
    torch.manual_seed(0)
    network = MLP(FEATURES, 1, hidden=(32,))
    found = Learner.resume(folder, network, checkpoint_every=100)
    return found or Learner(
        network, DERpp(), memory=500, lr=0.05, checkpoints=folder, checkpoint_every=100,
        pending=10_000, expires=7 * 24 * 3600,
    )  # fmt: skip


def learn(learner: Learner, waiting: list[Waiting]) -> None:
    """Take one training step with all waiting labels, and respond to each."""
    try:
        found = learner.label([t.id for t, _ in waiting], [t.label for t, _ in waiting])
    except Exception as error:
        if isinstance(error, InputError) and len(waiting) > 1:  # one bad label stops no other
            for each in waiting:
                learn(learner, [each])
        else:
            for _, answer in waiting:
                answer.set_exception(error)
        return
    statuses = dict.fromkeys(found.ignored, "gone") | dict.fromkeys(found.repeated, "repeated")
    statuses |= dict.fromkeys(found.left_out_ids, "left out")
    for truth, answer in waiting:
        answer.set_result(statuses.get(truth.id, "learned"))


def write(learner: Learner, labels: queue.Queue[Waiting | None]) -> None:
    """Learn from labels until None arrives; labels that queue up meanwhile share a step."""
    while (first := labels.get()) is not None:
        batch = [first]
        while len(batch) < AT_ONCE and not labels.empty() and (more := labels.queue[0]):
            batch.append(more)
            labels.get()
        learn(learner, [each for each in batch if each[1].set_running_or_notify_cancel()])


def service(folder: Path) -> FastAPI:
    """Create the application; its whole state is in the folder."""
    labels: queue.Queue[Waiting | None] = queue.Queue()
    learner = learner_in(folder)
    writer = Thread(target=write, args=(learner, labels), name="labels")

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        writer.start()
        yield
        labels.put(None)  # all requests are answered by now
        writer.join()
        learner.checkpoint()
        learner.close()

    app = FastAPI(title="recollect", lifespan=running)

    @app.middleware("http")
    async def small(request: Request, answer: Any) -> Response:
        size = request.headers.get("content-length", "")
        if request.method == "POST" and not (size.isdecimal() and int(size) <= LARGEST_BODY):
            return refused(413, f"a body has a Content-Length of at most {LARGEST_BODY} bytes")
        return await answer(request)  # type: ignore[no-any-return]

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return refused(422, f"{'.'.join(map(str, first['loc'][1:])) or 'body'}: {first['msg']}")

    @app.exception_handler(RecollectError)
    def failed(request: Request, error: RecollectError) -> Response:
        status = {InputError: 422, DataError: 503}.get(type(error), 409)
        return refused(status, str(error))

    @app.post("/predict")
    def predict(question: Question) -> dict[str, Any]:
        shares = learner.predict_proba(question.features, ids=question.id).tolist()
        named = dict(zip(learner.classes, shares, strict=False))
        best = max(named, key=named.__getitem__, default=None)
        return {"id": question.id, "label": best, "probabilities": named}

    @app.post("/label")
    async def label(truth: Truth) -> Any:
        answer: Future[str] = Future()
        labels.put((truth, answer))
        found = await asyncio.wrap_future(answer)
        return refused(404, GONE) if found == "gone" else {"id": truth.id, "status": found}

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> str:
        return prometheus(learner, gauges={"pending": learner.pending})

    @app.get("/health")
    def health() -> Response:
        facts = {"seen": learner.seen, "pending": learner.pending, "saved": learner.saved}
        return JSONResponse(facts, 200 if writer.is_alive() else 503)

    return app


def refused(status: int, why: str) -> JSONResponse:
    """Return an error response."""
    return JSONResponse({"error": why.encode(errors="replace").decode()}, status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("state"))
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises it again at its end
    try:
        app = service(given.folder)
    except RecollectError as error:  # as if another process has the folder
        sys.exit(f"service: {error}")
    uvicorn.run(app, port=given.port, timeout_graceful_shutdown=10, limit_concurrency=1000)
