"""Grid points, comparisons and variants of a report in a headless Chromium."""

from __future__ import annotations

import re
import statistics

import pytest
from tests.browser.chromium import PROGRAM, Chromium, count, texts

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")

ER = "#tables?benchmark=seq-mnist&method=er&buffer=200"


def choose(browser: Chromium, selector: str, value: str) -> None:
    browser.js(
        f"(() => {{ const s = document.querySelector('{selector}');"
        f"s.value = '{value}'; s.dispatchEvent(new Event('change')); }})()"
    )


def test_a_grid_point_can_be_chosen_and_stays_in_the_address(
    browser: Chromium, report: str
) -> None:
    browser.open(report + ER)
    assert (
        "1 of 16 methods and buffers has several configurations, 2 in total"
        in (texts(browser, "#one-of-several")[0])
    )
    assert texts(browser, ".results option") == ["lr 0.03 (65.00)", "lr 0.5 (64.50)"]
    choose(browser, ".results select", "seq-mnist/er/200~2")
    assert "1 of 2 configurations: selected" in texts(browser, ".results tbody th")[0]
    assert texts(browser, ".results .number")[0].startswith("64.50")
    browser.open(browser.js("location.href"))
    assert texts(browser, ".results .number")[0].startswith("64.50")
    browser.click("[data-every=true]")
    assert texts(browser, ".results tbody th small")[0] == "lr 0.03"
    assert count(browser, ".results tbody tr") == 2


def test_the_page_of_a_configuration_lists_the_others(browser: Chromium, report: str) -> None:
    browser.open(report + "#run/seq-mnist/er/200~2")
    rows = texts(browser, "table[aria-label=Configurations] tbody tr")
    assert [row[:8] for row in rows] == ["lr 0.03 ", "lr 0.564"]
    browser.click("table[aria-label=Configurations] a")
    browser.wait("location.hash.startsWith('#run/seq-mnist/er/200?') || "
                 "location.hash === '#run/seq-mnist/er/200'")  # fmt: skip


def test_two_configurations_are_compared_seed_by_seed(browser: Chromium, report: str) -> None:
    browser.open(report + "#compare?a=seq-mnist/derpp/500&b=seq-mnist/noisy/500")
    differences = [70 - 68.0, 71 - 70.5, 72 - 66.0]
    mean = statistics.mean(differences)
    half = 4.302653 * statistics.stdev(differences) / 3**0.5  # Student's t, two degrees of freedom
    (said,) = texts(browser, "#interval")
    low, high = (float(text.replace("−", "-")) for text in re.findall(r"[+−]\d+\.\d+", said))
    assert (low, high) == (round(mean - half, 2), round(mean + half, 2))
    assert "over 3 pairs" in said
    assert "p = 0.226" in said  # scipy.stats.ttest_1samp([2, 0.5, 6], 0)
    assert "seed 3" in texts(browser, "#view")[0], "it has no partner"
    assert texts(browser, "table[aria-label='Settings that differ'] tbody th") == ["Method"]
    choose(browser, "select[aria-label=B]", "seq-mnist/er/200")
    assert "b=seq-mnist%2Fer%2F200" in browser.js("location.hash")
    assert texts(browser, "table[aria-label='Settings that differ'] tbody th") == [
        "Method", "Buffer"
    ]  # fmt: skip


def test_two_networks_on_one_stream_have_tables_and_plots_of_their_own(
    browser: Chromium, report: str
) -> None:
    browser.open(report + "#tables?benchmark=two+networks")
    assert texts(browser, ".benchmark h3") == [
        "two networks, network Small", "two networks, network Large"
    ]  # fmt: skip
    assert [text[:5] for text in texts(browser, ".results .number")] == ["70.00", "71.00"]
    assert texts(browser, ".results tbody th a") == ["My method", "My method"]
    browser.open(report + "#figures?benchmark=two+networks")
    browser.wait("document.querySelectorAll('[data-figure=memory] figure').length === 2")
    assert texts(browser, "[data-figure=memory] figcaption") == [
        "two networks, Domain-IL, network Small", "two networks, Domain-IL, network Large"
    ]  # fmt: skip
    assert texts(browser, "[data-figure=memory] .legend li") == ["My method", "My method"]
