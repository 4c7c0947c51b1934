"""The report's figures in a headless Chromium: filters, hovering, the keyboard, light and dark."""

from __future__ import annotations

import pytest
from tests.browser.chromium import PROGRAM, Chromium, count, texts

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")


def plots(figure: str) -> str:
    return f"document.querySelectorAll('[data-figure={figure}] figure svg[tabindex]').length"


def choose(browser: Chromium, figure: str, view: str) -> None:
    browser.js(
        f"(() => {{ const s = document.querySelector('[data-figure={figure}] select');"
        f"s.value = '{view}'; s.dispatchEvent(new Event('change')); }})()"
    )


def tip(browser: Chromium, figure: str) -> list[str]:
    open_tip = f"document.querySelector('[data-figure={figure}] .tip:not([hidden])')"
    browser.wait(f"!!{open_tip}")
    found: str = browser.js(f"{open_tip}.innerText")
    return found.split("\n")


def test_figures_follow_filters_and_hovering(browser: Chromium, report: str) -> None:
    browser.open(report + "#figures?benchmark=seq-mnist")
    browser.wait(f"{plots('memory')} === 2")
    assert count(browser, "[data-figure=memory] figure:first-child [data-key=er] use") == 2
    browser.hover("[data-figure=memory] [data-key=er] use")
    assert tip(browser, "memory") == [
        "ER",
        "buffer 200",
        "65.00 ±1.00 over 3 seeds",
        "160 kB stored",
        "1 of 2 configurations: the best mean accuracy of those with 3 seeds, Class-IL",
    ]
    assert count(browser, "figure svg.dim [data-key=er].lit") >= 1
    browser.click('[data-filter=method] [data-value="derpp"]')
    browser.wait("document.querySelectorAll('[data-key=derpp]').length > 0")
    assert count(browser, "[data-key=er]") == 0
    assert texts(browser, "[data-figure=memory] .legend li") == ["DER++", "DER++"]
    choose(browser, "transfer", "backward transfer")
    browser.wait(f"{plots('transfer')} === 2")
    assert "backward transfer (%)" in texts(browser, "[data-figure=transfer] svg text")


def test_the_points_of_a_figure_can_be_walked_from_the_keyboard(
    browser: Chromium, report: str
) -> None:
    browser.open(report + "#figures?benchmark=seq-mnist&method=er")
    browser.wait("!!document.querySelector('figure svg[tabindex]')")
    browser.js("document.querySelector('figure svg[tabindex]').focus()")
    for _ in range(2):
        browser.press("ArrowRight")
    assert "ER, buffer 500" in texts(browser, "#said")[0]
    browser.press("Enter")
    browser.wait("location.hash.startsWith('#run/seq-mnist/er/500')")


def test_the_papers_figures_are_there_and_say_what_they_show(
    browser: Chromium, report: str
) -> None:
    browser.open(report + "#figures")
    browser.wait(f"{plots('fisher')} === 4")
    assert texts(browser, ".jumps button") == [
        "Accuracy against the bytes that a method stores",
        "Training time of each method, per run", "Training time of each method, per step",
        "The energy of the Fisher matrix along training on seq-mnist",
        "What arrives on mnist-360: 27 pairs of digits",
        "DER++ and ER with tiny memories",
        "Accuracy on a task while later ones are learned", "Forgetting and transfer",
    ]  # fmt: skip
    (about,) = texts(browser, "[data-figure=fisher] > p")
    for part in ("rate / B · |F|", "Frobenius norm", "rate 0.03", "5 seeds"):
        assert part in about
    browser.js("document.querySelector('[data-figure=fisher] svg[tabindex]').focus()")
    for _ in range(3):
        browser.press("ArrowRight")
    expected = ["ER", "after 120 steps: 100 ±9", "accuracy at the end 80.00 ±1.00"]
    assert tip(browser, "fisher") == expected
    assert texts(browser, "[data-figure=tiny-memories] .legend")[0] == "ER (reservoir)ER (ring)"
    assert texts(browser, "[data-figure=wall-clock] figcaption") == ["one core"]
    browser.click(".jumps button:nth-child(5)")
    assert browser.js("document.activeElement.textContent").startswith("What arrives on mnist-360")


def test_what_was_drawn_on_white_turns_around_in_the_dark(browser: Chromium, report: str) -> None:
    ink = "getComputedStyle(document.querySelector('[data-figure=mnist-360] svg')).filter"
    inverted = "invert(0.9) hue-rotate(180deg) brightness(1.12)"
    for scheme, expected in (("light", "none"), ("dark", inverted)):
        browser.screen(1280, 900, scheme)
        browser.open(report + "#figures")
        browser.wait("document.querySelectorAll('[data-figure=mnist-360] svg image').length === 27")
        assert browser.js(ink) == expected


def test_the_papers_figures_follow_the_filters(browser: Chromium, report: str) -> None:
    browser.open(report + "#figures?method=derpp&buffer=500")
    browser.wait(f"{plots('fisher')} === 2")
    assert count(browser, "[data-figure=fisher] .legend li") == 3
    assert count(browser, "[data-figure=fisher] [data-key=derpp-at-ends]") == 2
    assert count(browser, "[data-figure=fisher] [data-key=der]") == 0
    assert count(browser, "[data-figure=wall-clock]") == 0, "it has no DER++"
    browser.open(report + "#figures?benchmark=rot-mnist")
    browser.wait(f"{plots('memory')} === 1")
    assert count(browser, "[data-figure=fisher], [data-figure=mnist-360]") == 0


def test_tasks_can_be_seen_one_by_one(browser: Chromium, report: str) -> None:
    browser.open(report + "#figures?benchmark=rot-mnist")
    browser.wait(f"{plots('over-time')} === 1")
    options = texts(browser, "[data-figure=over-time] option")
    assert options == ["task 1", "task 4", "task 7", "task 10", "mean of the tasks so far"]
    choose(browser, "over-time", "task 7")
    captions = texts(browser, "[data-figure=over-time] figcaption")
    assert captions == ["rot-mnist, Domain-IL\ntask 7"]


def test_a_figure_without_runs_is_not_shown(browser: Chromium, bare_report: str) -> None:
    browser.open(bare_report + "#figures")
    browser.wait(f"{plots('memory')} === 2")
    shown = browser.js(
        "[...document.querySelectorAll('[data-figure]')].map((e) => e.dataset.figure)"
    )
    assert shown == ["memory", "time", "over-time", "transfer"]


def test_an_axis_of_close_values_has_ticks(browser: Chromium, bare_report: str) -> None:
    browser.open(bare_report + "#figures")
    browser.wait(f"{plots('memory')} === 2")
    labels = texts(browser, "[data-figure=memory] figure:first-child svg text")
    assert sum(label.endswith(" kB") for label in labels) >= 3


def test_a_point_that_stands_for_several_configurations_says_so(
    browser: Chromium, report: str
) -> None:
    browser.open(report + "#figures?benchmark=seq-mnist&method=er")
    browser.wait("!!document.querySelector('figure svg[tabindex]')")
    browser.js("document.querySelector('figure svg[tabindex]').focus()")
    browser.press("ArrowRight")
    assert "1 of 2 configurations: the best mean" in texts(browser, "#said")[0]
    browser.press("ArrowRight")
    assert "configurations" not in texts(browser, "#said")[0]
