"""The report in a headless Chromium: what a reader sees and can do, and that nothing complains."""

from __future__ import annotations

import time

import pytest
from tests.browser.chromium import PROGRAM, Chromium, count, texts
from tests.browser.conftest import HOSTILE

from recollect.experiments.paper import MARKS

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")


def test_the_tables_are_there_with_ours_the_papers_and_a_verdict(
    browser: Chromium, report: str
) -> None:
    browser.open(report)
    assert texts(browser, "h1") == ["1 of 99 published accuracy results reproduced"]
    assert texts(browser, ".benchmark h3")[:3] == ["seq-mnist", "rot-mnist", "my stream"]
    rows = texts(browser, ".benchmark:first-of-type tbody tr")
    assert len(rows) == 8
    assert "1 of 2 configurations: the best mean accuracy of those with 3 seeds" in rows[2]
    assert "65.00 ±1.0080.43 ±1.89(▼) below, weak" in rows[2]
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
    assert count(browser, "[data-filter] [aria-pressed=true]") == 3
    browser.click('[data-filter=method] [data-value="sgd"]')
    browser.click('[data-filter=method] [data-value="derpp"]')
    assert texts(browser, ".empty") == ["No runs match the filters."]
    browser.click("details > .quiet")
    assert count(browser, ".results") == 5


def test_a_score_and_a_verdict_can_be_chosen(browser: Chromium, report: str) -> None:
    browser.open(report + "#tables?metric=forgetting&verdict=below")
    assert texts(browser, "#view h2") == ["Forgetting"]
    words = {f"({mark}) {kind}, weak" for kind, mark in MARKS.items()}
    assert set(texts(browser, ".verdict")) <= words | {""}, "three seeds"
    assert all("(▼) below" in row for row in texts(browser, ".results tbody tr"))
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


def test_a_run_has_a_page_with_a_heat_map_and_its_command(browser: Chromium, report: str) -> None:
    browser.open(report)
    browser.js("document.querySelector('.results tbody tr:nth-last-child(3) th a').click()")
    browser.wait("!!document.querySelector('.heat')")
    assert texts(browser, "h1")[-1] == "DER++, buffer 500, seq-mnist"
    assert texts(browser, ".scores tbody th") == ["Class-IL", "Task-IL"]
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
    assert texts(browser, "#view h2") == ["Scores", "Provenance"], "it has no matrix"
    browser.open(report + "#run/there/is/no/such?method=none")
    assert texts(browser, ".empty") == ["No runs match the filters."]
    browser.open(report + "#figures?method=none")
    assert texts(browser, ".empty") == ["No runs match the filters."]


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


@pytest.mark.parametrize(
    "view", ["", "#figures", "#compare", "#run/seq-mnist/er/200", "#run/rot-mnist/derpp/500@1"]
)
def test_on_a_phone_nothing_hangs_over_the_side(browser: Chromium, report: str, view: str) -> None:
    browser.screen(360, 740)
    browser.open(report + view)
    time.sleep(0.1)
    assert browser.js("document.documentElement.scrollWidth") == 360
    assert browser.js("document.querySelector('#theme').getBoundingClientRect().right") <= 360
    top, bottom = (
        browser.js(f"document.querySelector('{each}').getBoundingClientRect().bottom")
        for each in ("#theme", "#views")
    )
    assert abs(top - bottom) < 10, "the header is one line"


@pytest.mark.parametrize("width", [1040, 1180, 1440])
def test_tables_are_no_wider_than_the_page(browser: Chromium, report: str, width: int) -> None:
    browser.screen(width, 900)
    browser.open(report)
    assert browser.js("document.documentElement.scrollWidth") == width
    right = "getBoundingClientRect().right"
    page = browser.js(f"document.querySelector('#view').{right}")
    tables = browser.js(f"[...document.querySelectorAll('#view .scroll')].map((e) => e.{right})")
    assert tables
    assert max(tables) <= page
    if width > 1120:  # narrower tables scroll
        grids = browser.js(f"[...document.querySelectorAll('.results')].map((e) => e.{right})")
        assert max(grids) <= page + 1


def test_memory_has_the_units_of_the_figures(browser: Chromium, report: str) -> None:
    browser.open(report + "#tables?benchmark=seq-mnist&method=er&buffer=200")
    assert "160 kB" in texts(browser, ".results td")


def test_everything_that_can_be_used_has_a_name(browser: Chromium, report: str) -> None:
    for view in ("", "#figures", "#compare", "#run/seq-mnist/er/200"):
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
