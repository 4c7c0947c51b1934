"""Starts the service of examples/service.py again and again; `service_client.py` starts this.

The process imports torch and FastAPI once. For every line on its input it forks a child that serves
in a folder on a port, and prints its process id; an empty line waits for it and prints its status.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path

import torch
import uvicorn

from recollect.learner.late import journalled

EXAMPLE = Path(__file__).parents[1] / "examples" / "service.py"


def main(folder: Path, port: int, segment: int) -> None:
    """Serve in a child for every line; files of the journal are so short, and all are kept."""
    torch.set_num_threads(1)
    if segment:
        journalled.SEGMENT = segment
        journalled.remove_old = lambda folder: None  # type: ignore[attr-defined]
    service = runpy.run_path(str(EXAMPLE))["service"]
    for line in sys.stdin:
        if line.strip():
            child = os.fork()
            if not child:
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
                uvicorn.run(service(folder), port=port, log_level="warning")
                sys.exit(1)
            print(child, flush=True)
        else:
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
