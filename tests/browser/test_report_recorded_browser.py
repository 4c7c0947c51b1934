"""Curves, accuracy per class and confusion matrices on the pages of a report."""

from __future__ import annotations

import importlib.util

import pytest
from tests.browser.chromium import PROGRAM, Chromium, count, texts

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here"),
    pytest.mark.skipif(
        importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
    ),
]
PAGE = "#run/seq-mnist/derpp/200"


def shown(browser: Chromium, address: str) -> None:
    browser.open(address)
    browser.wait("document.querySelectorAll('.fine figure').length > 0")
    browser.wait("document.querySelectorAll('.confusion').length === 2")


def test_a_configuration_has_curves_classes_and_confusions(
    browser: Chromium, recorded_report: str
) -> None:
    shown(browser, recorded_report + PAGE)
    assert texts(browser, "#view h2") == [
        "Scores", "Curves", "Accuracy matrix", "Accuracy per class", "Confusion matrix",
        "Provenance",
    ]  # fmt: skip
    assert texts(browser, ".scores thead th")[-2:] == [
        "Average incremental accuracy", "Any-time accuracy"
    ]  # fmt: skip
    (cell, *_) = texts(browser, ".scores tbody tr td:last-child")
    assert cell == "80.38 ±0.53over 2 seeds", "one seed recorded nothing"
    assert texts(browser, ".fine figcaption") == [
        "Class-IL: mean of the tasks so far", "Class-IL: accuracy on each task, mean of 2 seeds",
        "Task-IL: mean of the tasks so far", "Task-IL: accuracy on each task, mean of 2 seeds",
        "Training loss",
    ]  # fmt: skip
    assert any("Recorded by 2 of 3 seeds." in text for text in texts(browser, "#view > * p"))
    assert texts(browser, ".perclass:first-child li") == ["class 075.0 ±0.0", "class 150.0 ±0.0"]
    widths = browser.js(
        "[...document.querySelectorAll('.perclass:first-child .track span')]"
        ".map((e) => e.getBoundingClientRect().width / e.parentNode.clientWidth)"
    )
    assert widths == pytest.approx([0.75, 0.5], abs=0.02)
    assert texts(browser, ".maps .scroll:first-child .confusion tbody tr") == ["07525", "15050"]
    said = browser.js("document.querySelector('.confusion td:nth-of-type(2)').title")
    assert said == "class 0 predicted as class 1: 2 of 8"


def test_a_seed_stands_out_among_the_others_and_a_point_leads_to_it(
    browser: Chromium, recorded_report: str
) -> None:
    shown(browser, recorded_report + PAGE + "@1")
    assert len(texts(browser, ".fine figcaption")) == 3, "no means of several seeds"
    assert count(browser, '.fine svg.dim [data-key="seed 1"].lit') == 3
    assert count(browser, ".fine .lit") == 3
    said = browser.js("document.querySelector('.confusion td:nth-of-type(2)').title")
    assert said == "class 0 predicted as class 1: 1 of 4"
    browser.js("document.querySelector('.fine svg').focus()")
    browser.press("ArrowRight")
    assert texts(browser, ".fine figure:first-child .tip")[0] == "seed 0after 10 steps90.00"
    assert count(browser, '.fine figure:first-child [data-key="seed 0"].lit') == 1
    browser.press("Enter")
    browser.wait("location.hash === '#run/seq-mnist/derpp/200@0'")


def test_what_recorded_nothing_has_no_such_sections(
    browser: Chromium, recorded_report: str
) -> None:
    for page in ("#run/seq-mnist/er/200", f"{PAGE}@2"):
        browser.open(recorded_report + page)
        wanted = ["Scores", "Accuracy matrix", "Provenance"]
        assert texts(browser, "#view h2") == wanted
        assert count(browser, ".fine, .confusion, .classes") == 0
    browser.open(recorded_report + "#run/seq-mnist/er/200")
    assert "Any-time accuracy" not in texts(browser, ".scores thead th")
    assert "Average incremental accuracy" in texts(browser, ".scores thead th")


def test_the_tables_and_figures_have_them_too(browser: Chromium, recorded_report: str) -> None:
    browser.open(recorded_report + "#tables?metric=anytime_accuracy")
    assert texts(browser, "#view h2") == ["Any-time accuracy"]
    assert texts(browser, ".results tbody th a") == ["DER++"], "ER recorded no curves"
    browser.open(recorded_report + "#figures")
    browser.wait("!!document.querySelector('[data-figure=curves] svg')")
    assert texts(browser, "[data-figure=curves] figcaption") == [
        "seq-mnist, Class-IL, buffer 200", "seq-mnist, Task-IL, buffer 200"
    ]  # fmt: skip
    assert texts(browser, "[data-figure=curves] .legend") == ["DER++", "DER++"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_screen(
    scheme: str, browser: Chromium, recorded_report: str
) -> None:
    browser.screen(390, 800, scheme)
    shown(browser, recorded_report + PAGE)
    assert browser.js("document.documentElement.scrollWidth") <= 390
    text, ground = browser.js(
        "(() => { const cell = document.querySelector('.confusion .strong');"
        "const style = getComputedStyle(cell); return [style.color, style.backgroundColor]; })()"
    )
    assert text != ground
