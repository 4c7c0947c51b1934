"""The report in a headless Chromium: what a reader sees and can do, and that nothing complains."""

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.experiments.made import Made
from recollect.experiments.report import build, write
from recollect.experiments.store import Stored, run_key
from recollect.train import Result

PATIENCE = 30.0
PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
HOSTILE = "</script><img src=x onerror=alert(1)>"

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")


def made(benchmark: str, method: str, buffer: int | None, seed: int, **others: Any) -> Stored:
    """A run whose numbers can be told apart."""
    settings = ["domain"] if benchmark == "rot-mnist" else ["class", "task"]
    level = 60.0 + seed + (buffer or 0) / 50
    tasks = 12 if benchmark == "rot-mnist" else 5
    matrix = [[level - 3 * (i - j) if j < i + 2 else None for j in range(tasks)]
              for i in range(tasks)]  # fmt: skip
    facts: dict[str, Any] = {
        "hyperparameters": {"lr": 0.03, "bs": 10},
        "accuracy": dict.fromkeys(settings, level),
        "fwt": dict.fromkeys(settings), "bwt": dict.fromkeys(settings, -9.0),
        "forgetting": dict.fromkeys(settings, 9.0), "epochs": 1, "validation": False,
        "matrix": dict.fromkeys(settings, matrix),
        "untrained": dict.fromkeys(settings, [10.0] * tasks),
        "train_seconds": 0.5, "steps": 100, "memory_bytes": 800 * (buffer or 0),
        "diverged": False, "device": "CPU", "execution": "eager",
    }  # fmt: skip
    run = Result(benchmark=benchmark, method=method, buffer=buffer, seed=seed, **facts | others)
    command = f"recollect reproduce {benchmark} --methods {method}"
    return Stored(run, run_key(run), Made("0.1.0", "abc", "a machine", command, "2026-01-01"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report of two benchmarks, and of somebody's own."""
    rows = [
        made(benchmark, method, buffer, seed)
        for benchmark in ("seq-mnist", "rot-mnist")
        for method, buffers in (("sgd", [None]), ("er", [200, 500]), ("derpp", [200, 500]))
        for buffer in buffers
        for seed in range(3)
    ]
    bare: dict[str, Any] = {"matrix": {}, "untrained": None, "accuracy": {"odd": 50.0}}
    rows += [made("my stream", HOSTILE, 10, 0, **bare, fwt={}, bwt={}, forgetting={})]
    rows += [made("seq-mnist", "er", 200, seed, hyperparameters={"lr": 0.5, "bs": 10})
             for seed in range(2)]  # fmt: skip
    file = tmp_path_factory.mktemp("report") / "report.html"
    write(build(rows), file)
    return file.as_uri()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    assert PROGRAM is not None
    browser = Chromium(PROGRAM, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()


@pytest.fixture
def browser(started: Chromium, report: str) -> Iterator[Chromium]:
    """A browser on a desk, which must not complain or fetch anything during a test."""
    started.complaints.clear()
    started.fetched.clear()
    started.screen(1280, 900)
    yield started
    assert started.complaints == []
    assert {address.partition("#")[0] for address in started.fetched} <= {report, "about:blank"}


def count(browser: Chromium, selector: str) -> int:
    found: int = browser.js(f"document.querySelectorAll({json.dumps(selector)}).length")
    return found


def texts(browser: Chromium, selector: str) -> list[str]:
    found: list[str] = browser.js(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
    )
    return found


def test_the_tables_are_there_with_ours_the_papers_and_a_verdict(
    browser: Chromium, report: str
) -> None:
    browser.open(report)
    assert texts(browser, "h1") == ["1 of 99 published accuracy figures reproduced"]
    assert texts(browser, ".benchmark h3") == ["seq-mnist", "rot-mnist", "my stream"]
    rows = texts(browser, ".benchmark:first-of-type tbody tr")
    assert len(rows) == 6
    assert rows[1].startswith("ERlr 0.03")
    assert "65.00 ±1.0080.43 ±1.89▼ below" in rows[1]
    assert (
        browser.js("getComputedStyle(document.querySelector('.results thead')).position")
        == "sticky"
    )


def test_filters_apply_to_tables_and_stay_in_the_address(browser: Chromium, report: str) -> None:
    browser.open(report)
    browser.click('[data-filter=method] [data-value="derpp"]')
    browser.click('[data-filter=buffer] [data-value="500"]')
    assert texts(browser, ".results tbody th a") == ["DER++", "DER++"]
    browser.click('[data-filter=benchmark] [data-value="rot-mnist"]')
    assert texts(browser, ".benchmark h3") == ["rot-mnist"]
    assert browser.js("location.hash") == "#tables?benchmark=rot-mnist&method=derpp&buffer=500"
    browser.open(browser.js("location.href"))
    assert texts(browser, ".results tbody th a") == ["DER++"]
    assert count(browser, "[aria-pressed=true]") == 4
    browser.click('[data-filter=method] [data-value="sgd"]')
    browser.click('[data-filter=method] [data-value="derpp"]')
    assert texts(browser, ".empty") == ["No run fits the filters."]
    browser.click("details > .quiet")
    assert count(browser, ".results") == 3


def test_a_score_and_a_verdict_can_be_chosen(browser: Chromium, report: str) -> None:
    browser.open(report + "#tables?metric=forgetting&verdict=below")
    assert texts(browser, "#view h2") == ["Forgetting"]
    assert set(texts(browser, ".verdict")) <= {"▼ below", "✓ reproduced", "▲ above", ""}
    assert all("▼ below" in row for row in texts(browser, ".results tbody tr"))
    assert count(browser, ".verdict.better") > 0, "less forgetting is better"


def test_columns_sort_both_ways_from_the_keyboard(browser: Chromium, report: str) -> None:
    browser.open(report + "#tables?benchmark=rot-mnist")
    browser.js("document.querySelector('[aria-label=\"Sort by Domain-IL ours\"]').focus()")
    ours = ".results tbody .number button"
    for expected, order in ((True, "descending"), (False, "ascending")):
        browser.press("Enter")
        values = [float(text.split(" ")[0]) for text in texts(browser, ours)]
        assert values == sorted(values, reverse=expected)
        assert count(browser, f"th[aria-sort={order}]") == 1


def test_a_number_explains_itself_on_hover_and_from_the_keyboard(
    browser: Chromium, report: str
) -> None:
    browser.open(report + "#tables?benchmark=rot-mnist&method=er")
    browser.hover(".results .number button")
    browser.wait("!document.getElementById('card').hidden")
    (card,) = texts(browser, "#card")
    for part in ("over 3 seeds", "Paper: 85.01 ±1.90", "seed 2", "lr 0.03", "--methods er"):
        assert part in card
    browser.click("#card .command button")
    browser.wait(
        "/Copied|Select/.test(document.querySelector('#card .command button').textContent)"
    )
    browser.press("Escape")
    assert browser.js("document.getElementById('card').hidden") is True
    browser.js("document.querySelector('.results .number button').focus()")
    browser.press("Enter")
    assert browser.js("document.activeElement.id") == "card"
    browser.press("Escape")
    assert browser.js("document.activeElement.closest('.number') !== null") is True


def test_figures_follow_filters_and_hovering(browser: Chromium, report: str) -> None:
    browser.open(report + "#figures?benchmark=seq-mnist")
    browser.wait("document.querySelectorAll('figure svg[tabindex]').length === 7")
    assert count(browser, ".figure:first-child figure:first-child [data-key=er] .mark") == 2
    browser.hover(".figure:first-child figure [data-key=er] .mark")
    browser.wait("!document.querySelector('.tip').hidden")
    assert "buffer 200" in texts(browser, ".tip")[0]
    assert count(browser, "figure svg.dim [data-key=er].lit") >= 1
    browser.click('[data-filter=method] [data-value="derpp"]')
    browser.wait("document.querySelectorAll('[data-key=derpp]').length > 0")
    assert count(browser, "[data-key=er]") == 0
    for choice, value in (("Across", "bytes"), ("Accuracy on", "1"), ("Measure", "bwt")):
        browser.js(
            f"(() => {{ const s = [...document.querySelectorAll('label.choice')].find((l) => "
            f"l.textContent.startsWith('{choice}')).querySelector('select'); "
            f"s.value = '{value}'; s.dispatchEvent(new Event('change')); }})()"
        )
    browser.wait("document.body.textContent.includes('Backward transfer, percent')")
    browser.wait("document.querySelectorAll('figure svg[tabindex]').length === 7")


def test_the_points_of_a_figure_can_be_walked_from_the_keyboard(
    browser: Chromium, report: str
) -> None:
    browser.open(report + "#figures?benchmark=seq-mnist&method=er")
    browser.wait("!!document.querySelector('figure svg[tabindex]')")
    browser.js("document.querySelector('figure svg[tabindex]').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert "ER, buffer 500" in texts(browser, "#said")[0]
    browser.press("Enter")
    browser.wait("location.hash.startsWith('#run/seq-mnist/er/500')")


def test_a_run_has_a_page_with_a_heat_map_and_its_command(browser: Chromium, report: str) -> None:
    browser.open(report)
    browser.js("document.querySelector('.results tbody tr:last-child th a').click()")
    browser.wait("!!document.querySelector('.heat')")
    assert texts(browser, "h1")[-1] == "DER++, buffer 500, seq-mnist"
    browser.click(".chips a:nth-child(4)")
    browser.wait("document.title === 'DER++ 500, seq-mnist, seed 2: recollect report'")
    assert browser.js("location.hash") == "#run/seq-mnist/derpp/500@2"
    assert texts(browser, ".heat caption") == ["Class-IL, seed 2", "Task-IL, seed 2"]
    first = texts(browser, ".heat:first-of-type tbody tr")
    assert first[0] == "untrained" + "10.0" * 5
    assert first[1].startswith("after 172.075.0not measured")
    assert count(browser, ".maps .scroll:first-child .cell") == 5 + 2 + 3 + 4 + 5 + 5
    colours = browser.js(
        "[...document.querySelectorAll('.cell')].map((e) => getComputedStyle(e).backgroundColor)"
    )
    assert len(set(colours)) > 5
    facts = texts(browser, "dd")
    assert {"lr 0.03, bs 10", "CPU: eager", "a machine"} <= {f.split(" (")[0] for f in facts}
    assert texts(browser, ".command code")[0] == "recollect reproduce seq-mnist --methods derpp"
    assert texts(browser, ".command code")[1].endswith("--seeds 2-2")
    browser.js("history.back()")
    browser.wait("document.title === 'DER++ 500, seq-mnist: recollect report'")


def test_what_the_library_does_not_know_is_shown_as_text(browser: Chromium, report: str) -> None:
    browser.open(report + "#tables?benchmark=my+stream")
    assert texts(browser, ".results tbody th a") == [HOSTILE]
    browser.click(".results tbody th a")
    browser.wait("document.title.includes('onerror')")
    assert count(browser, "img") == 0
    assert "no accuracy matrix was recorded" in texts(browser, "#view")[0]
    browser.open(report + "#run/there/is/no/such?method=none")
    assert texts(browser, ".empty") == ["No run fits the filters."]
    browser.open(report + "#figures?method=none")
    assert texts(browser, ".empty") == ["No run fits the filters."]


def test_it_is_light_or_dark_as_the_machine_and_as_chosen(browser: Chromium, report: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    browser.screen(1280, 900, "light")
    browser.open(report)
    light = browser.js(ground)
    browser.screen(1280, 900, "dark")
    dark = browser.js(ground)
    assert light != dark
    browser.click("#theme")
    assert browser.js(ground) == light
    browser.open(report)
    assert browser.js(ground) == light, "it is remembered"
    browser.click("#theme")
    assert browser.js(ground) == dark
    browser.js("localStorage.clear()")


@pytest.mark.parametrize("view", ["", "#figures", "#run/rot-mnist/derpp/500@1"])
def test_on_a_phone_nothing_hangs_over_the_side(browser: Chromium, report: str, view: str) -> None:
    browser.screen(360, 740)
    browser.open(report + view)
    time.sleep(0.1)
    assert browser.js("document.documentElement.scrollWidth") == 360
    assert browser.js("document.querySelector('#theme').getBoundingClientRect().right") <= 360


def test_everything_that_can_be_used_has_a_name(browser: Chromium, report: str) -> None:
    for view in ("", "#figures", "#run/seq-mnist/er/200"):
        browser.open(report + view)
        nodes = browser.ask("Accessibility.getFullAXTree")["nodes"]
        usable = ("button", "link", "combobox", "checkbox", "table", "image", "region", "heading")
        nameless = [
            node for node in nodes
            if node.get("role", {}).get("value") in usable and not node.get("ignored")
            and not node.get("name", {}).get("value")
        ]  # fmt: skip
        assert nameless == []


def test_the_first_tab_leads_past_the_navigation(browser: Chromium, report: str) -> None:
    browser.open(report)
    browser.press("Tab")
    assert browser.js("document.activeElement.textContent") == "Skip to the content"
    browser.press("Enter")
    assert browser.js("document.activeElement.id") == "main"


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
