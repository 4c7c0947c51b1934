"""A headless Chromium for tests, and what they ask of a page."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE = 30.0
PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def count(browser: Chromium, selector: str) -> int:
    found: int = browser.js(f"document.querySelectorAll({json.dumps(selector)}).length")
    return found


def texts(browser: Chromium, selector: str) -> list[str]:
    found: list[str] = browser.js(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
    )
    return found


class Chromium:
    """A headless Chromium with one page, driven through its DevTools protocol over pipes."""

    def __init__(self, program: str, folder: Path) -> None:
        to_browser, from_us = _high(os.pipe())
        from_browser, to_us = _high(os.pipe())
        # Chromium reads its orders from file descriptor 3 and answers on 4.
        starter = "import os, sys; a, b = map(int, sys.argv[1:3]); os.dup2(a, 3); os.dup2(b, 4); "
        starter += "os.execv(sys.argv[3], sys.argv[3:])"
        self._process = subprocess.Popen(
            [
                sys.executable, "-c", starter, str(to_browser), str(to_us), program,
                "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                "--no-first-run", "--disable-background-networking", "--disable-component-update",
                "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
                f"--user-data-dir={folder}",
            ],
            pass_fds=(to_browser, to_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(to_us)
        self._out, self._in, self._rest = from_us, from_browser, b""
        self._number, self._session = 0, None
        self.complaints: list[str] = []
        self.fetched: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give an order and wait for its answer."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            order["sessionId"] = self._session
        os.write(self._out, json.dumps(order).encode() + b"\0")
        while (message := self._next()).get("id") != self._number:
            self._note(message)
        assert "error" not in message, message
        answer: dict[str, Any] = message["result"]
        return answer

    def screen(self, width: int, height: int, scheme: str = "light") -> None:
        """Have a screen of this size, on a machine set to light or dark."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        scheme_wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", features=scheme_wanted)

    def open(self, address: str) -> None:
        """Load a page anew."""
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && !!document.querySelector('main > *')")

    def js(self, expression: str) -> Any:
        """What an expression comes to in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True,
                          awaitPromise=True, userGesture=True)  # fmt: skip
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.js(expression):
            assert time.monotonic() < until, f"never came true: {expression}"
            time.sleep(0.02)

    def hover(self, selector: str) -> None:
        """Put the mouse on the middle of an element."""
        found = json.dumps(selector)
        self.js(f"document.querySelector({found}).scrollIntoView({{block: 'center'}})")
        x, y = self.js(
            f"(() => {{ const r = document.querySelector({found}).getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self._mouse = (x, y)

    def click(self, selector: str) -> None:
        """Click on the middle of an element."""
        self.hover(selector)
        x, y = self._mouse
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key that has a name, such as Tab."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowRight": 39}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, code=key,
                 windowsVirtualKeyCode=code, **text)  # fmt: skip
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=key,
                 windowsVirtualKeyCode=code)  # fmt: skip

    def picture(self) -> bytes:
        """The screen as a PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot")["data"])

    def quit(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._out)
        os.close(self._in)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], PATIENCE)
            assert ready, "the browser does not answer"
            read = os.read(self._in, 1 << 16)
            assert read, "the browser is gone"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, message: dict[str, Any]) -> None:
        """Keep what a person would see in the console, and what the page asks the network for."""
        name, about = message.get("method", ""), message.get("params", {})
        if name in ("Runtime.exceptionThrown", "Log.entryAdded") or (
            name == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert")
        ):
            self.complaints.append(json.dumps(about))
        elif name == "Network.requestWillBeSent":
            self.fetched.append(about["request"]["url"])


def _high(pair: tuple[int, int]) -> tuple[int, int]:
    """The same pipe, out of the way of the numbers that the browser wants."""
    read, written = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 10) for number in pair)
    for number in pair:
        os.close(number)
    return read, written
