"""Start the command `recollect` so that a signal in its first moments is one line, no traceback."""

from __future__ import annotations

import os
import signal


def main() -> int:
    """Import and run the command; return its exit status."""
    signals = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    ours = {each: usual for each, usual in signals.items() if signal.getsignal(each) is usual}
    for each in ours:
        signal.signal(each, stop_at_once)
    from recollect.cli.main import main as run

    for each, usual in ours.items():
        signal.signal(each, usual)
    return run()


def stop_at_once(number: int, frame: object) -> None:
    """End the process with one line; during imports, an exception would be lost or a traceback."""
    os.write(2, b"recollect: interrupted during startup\n")
    os._exit(128 + number)
