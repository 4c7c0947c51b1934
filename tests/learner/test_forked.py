"""What a forked process may do: learn with its own learners, and not touch its parent's folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.learner.late_stream import examples, made, module

from recollect import InputError, Learner

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # from Python 3.12 on
]

# A small network never starts torch's threads, for which a forked process would wait for ever.
LEARN_AND_FORK = """
import os, sys
import numpy as np
import torch
from recollect import MLP, DERpp, Learner

def learned():
    learner = Learner(MLP(4, 1), DERpp(), memory=50, lr=0.1)
    for _ in range(3):
        learner.observe(np.eye(4), ["a", "b", "a", "b"])
    return learner

torch.set_num_threads(2)
learner = learned()
learner.save(sys.argv[1])
child = os.fork()
if not child:
    assert learned().trained_module()(torch.zeros(2, 4)).shape == (2, 2)
    assert Learner.load(sys.argv[1], MLP(4, 1)).seen == 12
    os._exit(42)
print(child, flush=True)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_can_learn_and_load(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", LEARN_AND_FORK, str(tmp_path / "a.recollect")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.communicate()
    assert process.returncode == 42


def test_a_forked_process_cannot_forget_in_the_journal_of_its_parent(tmp_path: Path) -> None:
    x, y = examples(3)
    learner = made(tmp_path)
    learner.predict(x, ids=[0, 1, 2])
    child = os.fork()
    if not child:
        code = 1
        try:
            learner.forget(1)
        except InputError as error:
            code = 0 if "forked" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert learner.label(0, y[0]).learned == 1
    learner.close()
    again = Learner.resume(tmp_path, module())
    assert again is not None
    assert (again.seen, again.pending) == (1, 2)
    again.close()
