"""The report's figures in a headless Chromium: filters, hovering, the keyboard, light and dark."""

from __future__ import annotations

import pytest
from tests.browser.chromium import PROGRAM, Chromium, count, texts

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")


def test_figures_follow_filters_and_hovering(browser: Chromium, report: str) -> None:
    browser.open(report + "#figures?benchmark=seq-mnist")
    browser.wait("document.querySelectorAll('figure svg[tabindex]').length === 13")
    assert count(browser, "[data-figure=memory] figure:first-child [data-key=er] .mark") == 3
    browser.hover("[data-figure=memory] [data-key=er] .mark:nth-of-type(2)")
    browser.wait("!document.querySelector('.tip').hidden")
    assert "buffer 200" in texts(browser, ".tip")[0]
    assert count(browser, "figure svg.dim [data-key=er].lit") >= 1
    browser.click('[data-filter=method] [data-value="derpp"]')
    browser.wait("document.querySelectorAll('[data-key=derpp]').length > 0")
    assert count(browser, "[data-key=er]") == 0
    for choice, value in (("Across", "buffer"), ("Accuracy on", "1"), ("Measure", "bwt")):
        browser.js(
            f"(() => {{ const s = [...document.querySelectorAll('label.choice')].find((l) => "
            f"l.textContent.startsWith('{choice}')).querySelector('select'); "
            f"s.value = '{value}'; s.dispatchEvent(new Event('change')); }})()"
        )
    browser.wait("document.body.textContent.includes('Backward transfer, percent')")
    browser.wait("document.querySelectorAll('figure svg[tabindex]').length === 11")


def test_the_points_of_a_figure_can_be_walked_from_the_keyboard(
    browser: Chromium, report: str
) -> None:
    browser.open(report + "#figures?benchmark=seq-mnist&method=er")
    browser.wait("!!document.querySelector('figure svg[tabindex]')")
    browser.js("document.querySelector('figure svg[tabindex]').focus()")
    for _ in range(3):
        browser.press("ArrowRight")
    assert "ER, buffer 500" in texts(browser, "#said")[0]
    browser.press("Enter")
    browser.wait("location.hash.startsWith('#run/seq-mnist/er/500')")


def test_the_papers_figures_are_there_and_say_what_they_show(
    browser: Chromium, report: str
) -> None:
    browser.open(report + "#figures")
    assert texts(browser, ".jumps button") == [
        "Accuracy against memory", "Time per run", "What a step costs",
        "The energy of the Fisher matrix", "DER++ against ER at tiny memories",
        "What arrives on MNIST-360", "Accuracy over time", "Forgetting and transfer",
    ]  # fmt: skip
    browser.wait("document.querySelectorAll('[data-figure=fisher] svg .band').length === 14")
    (about,) = texts(browser, "[data-figure=fisher] > p")
    for part in ("sum of rate / B · |F(j)|", "Frobenius norm", "rate 0.03", "5 seeds"):
        assert part in about
    browser.hover("[data-figure=fisher] [data-key=er] .mark:last-of-type")
    browser.wait("!!document.querySelector('[data-figure=fisher] .tip:not([hidden])')")
    tip = browser.js("document.querySelector('[data-figure=fisher] .tip:not([hidden])').innerText")
    assert tip.split("\n") == ["ER", "after 120 steps: 100 ±9", "accuracy at the end 80.00 ±1.00"]
    assert count(browser, "[data-figure=fisher] figure:first-child .boundary") == 1
    assert texts(browser, "[data-figure=tiny-memories] .legend")[0] == "ER (reservoir)ER (ring)"
    assert texts(browser, "[data-figure=wall-clock] figcaption") == ["one core"]
    browser.click(".jumps button:nth-child(6)")
    assert browser.js("document.activeElement.textContent") == "What arrives on MNIST-360"


def test_what_arrives_is_shown_in_the_ink_of_the_page(browser: Chromium, report: str) -> None:
    ink = "getComputedStyle(document.querySelector('img.batch')).filter"
    for scheme, expected in (("light", "none"), ("dark", "invert(1)")):
        browser.screen(1280, 900, scheme)
        browser.open(report + "#figures")
        assert count(browser, "img.batch") == 27
        assert browser.js("[...document.images].every((i) => i.complete && i.naturalWidth === 8)")
        assert browser.js(ink) == expected
    assert browser.js("document.images[10].alt") == ("round 2, digits 1 and 2: 0 1 0 1 0 1 0 1 0")


def test_the_papers_figures_follow_the_filters(browser: Chromium, report: str) -> None:
    browser.open(report + "#figures?method=derpp&buffer=500")
    browser.wait("document.querySelectorAll('[data-figure=fisher] svg[tabindex]').length === 2")
    assert count(browser, "[data-figure=fisher] [data-key=derpp-at-ends]") == 1
    assert count(browser, "[data-figure=fisher] [data-key=der]") == 0
    assert count(browser, "[data-figure=wall-clock]") == 0, "it has no DER++"
    browser.open(report + "#figures?benchmark=rot-mnist")
    assert count(browser, "[data-figure=fisher], [data-figure=mnist-360]") == 0


def test_tasks_can_be_seen_side_by_side(browser: Chromium, report: str) -> None:
    browser.open(report + "#figures?benchmark=rot-mnist")
    browser.js(
        "(() => { const s = document.querySelector('[data-figure=over-time] select');"
        "s.value = 'each'; s.dispatchEvent(new Event('change')); })()"
    )
    assert texts(browser, "[data-figure=over-time] figcaption") == [
        f"rot-mnist, Domain-IL, task {task}" for task in (1, 4, 7, 10)
    ]


def test_a_figure_that_is_not_there_says_what_makes_it(browser: Chromium, bare_report: str) -> None:
    browser.open(bare_report + "#figures")
    for name in ("fisher", "mnist-360"):
        said = texts(browser, f"[data-figure={name}] .command code")
        assert said == [
            f"recollect figures {name} --format json", "recollect report --figures figures"
        ]  # fmt: skip
    assert texts(browser, "[data-figure=wall-clock] .command code")[0].startswith("make bench")
    assert len(texts(browser, "[data-figure=tiny-memories] .command code")) == 7
