"""What an operator may do wrong or meet: forks, typing errors on resume, damaged notes, exports."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recollect import ER, MLP, InputError, Learner
from recollect.errors import DataError
from recollect.learner.fair_lock import FairLock
from recollect.methods import CLSER

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4)).astype(np.float32)
Y = [int(row.sum() > 0) for row in X]


def learned(folder: Path | None = None, steps: int = 4) -> Learner:
    torch.manual_seed(0)
    every = None if folder is None else 1
    learner = Learner(MLP(4, 2), ER(), memory=20, checkpoints=folder, checkpoint_every=every)
    for step in range(steps):
        learner.observe(X[10 * step : 10 * step + 10], Y[10 * step : 10 * step + 10])
    return learner


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("busy", [True, False])
def test_a_forked_process_does_not_wait_for_a_thread_that_it_does_not_have(busy: bool) -> None:
    lock, entered, leave = FairLock(), threading.Event(), threading.Event()

    def work() -> None:
        with lock:
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=work)
    if busy:
        thread.start()
        entered.wait(60)
    child = os.fork()
    if not child:  # it must not run any more of the tests
        status = 2
        try:
            with lock:
                status = 0
        except InputError as error:
            status = 1 if "forked from process" in str(error) else 3
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    leave.set()
    if busy:
        thread.join()
    assert os.waitstatus_to_exitcode(status) == int(busy)


@pytest.mark.parametrize("full", [True, False])
def test_an_argument_that_resume_has_not_is_said_before_a_file_is_read(
    full: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if full:
        learned(tmp_path / "c").close()
    with pytest.raises(TypeError, match="no argument 'chekpoint_every'"):
        Learner.resume(tmp_path / "c", MLP(4, 2), chekpoint_every=3)
    with pytest.raises(TypeError, match="no argument 'lr'"):
        Learner.resume(tmp_path / "c", MLP(4, 2), lr=0.5)
    assert not caplog.records


def test_an_argument_that_load_has_not_is_said_with_the_ones_it_has(tmp_path: Path) -> None:
    path = tmp_path / "missing"
    with pytest.raises(TypeError, match=r"Learner.load has no argument 'lr' .*assign learner\.lr"):
        Learner.load(path, MLP(4, 2), lr=0.3)
    with pytest.raises(TypeError, match=r"'memory' .*call learner\.resize\(\.\.\.\) afterwards"):
        Learner.load(path, MLP(4, 2), memory=5)
    with pytest.raises(
        TypeError, match=r"'compield': did you mean 'compiled'\? \(it takes method,"
    ):
        Learner.load(path, MLP(4, 2), compield=True)


def test_damaged_notes_remove_no_version(tmp_path: Path) -> None:
    with learned(tmp_path, 1) as learner:
        pinned = learner.checkpoint(pin=True)
    (tmp_path / "versions.json").write_text("{")
    again = Learner.resume(tmp_path, MLP(4, 2), checkpoint_every=1, keep=1)
    assert again is not None
    with again:
        for _ in range(4):
            again.observe(X[:10], Y[:10])
            again.flush()
        with pytest.raises(DataError, match="cannot be read: delete it"):
            again.pin(pinned)
        assert pinned.exists()
        assert len(Learner.versions(tmp_path)) == 5
        (tmp_path / "versions.json").unlink()
        again.observe(X[:10], Y[:10])
    assert len(Learner.versions(tmp_path)) == 1


def test_cls_er_exports_the_copy_that_predicts() -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)]
    method = CLSER(plastic_decay=0.9, stable_decay=0.95)
    learner = Learner(nn.Sequential(*layers), method, memory=20, lr=0.1)
    for _ in range(5):
        for start in range(0, 40, 10):
            learner.observe(X[start : start + 10], Y[start : start + 10])
    module = learner.trained_module().eval()
    with torch.no_grad():
        shares = module(torch.from_numpy(X)).double().softmax(1).numpy()
    np.testing.assert_allclose(shares, learner.predict_proba(X), atol=1e-6)
