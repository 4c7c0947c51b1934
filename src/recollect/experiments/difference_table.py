"""Format the table of a comparison as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from recollect.experiments.difference import Difference
from recollect.experiments.labels import decimals, score_title, setting_title
from recollect.experiments.paired import p_words

__all__ = ["as_html", "as_text"]

HEADS = ("setting", "score", "A", "B", "A - B", "95 % CI", "p (t)", "p (sign flips)", "seeds")
TEXTS = 2  # leading columns of text, aligned left; the others are numbers, aligned right


def as_text(found: Iterable[Difference]) -> str:
    """Format differences as a plain-text table, one row each."""
    rows = [_cells(each) for each in found]
    widths = [max(map(len, column)) for column in zip(HEADS, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        both = enumerate(zip(cells, widths, strict=True))
        return "  ".join(
            cell.ljust(width) if at < TEXTS else cell.rjust(width) for at, (cell, width) in both
        )

    return "\n".join([line(HEADS), "  ".join("-" * width for width in widths), *map(line, rows)])


def as_html(found: Iterable[Difference]) -> str:
    """Format differences as an HTML table, one row each."""

    def line(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(line("td", _cells(each)) for each in found)
    return f"<table><thead>{line('th', HEADS)}</thead><tbody>{body}</tbody></table>"


def _cells(each: Difference) -> tuple[str, ...]:
    bounds, ps = each.interval, (each.p, each.p_sign_flip)
    digits = decimals(max(abs(each.a), abs(each.b)), each.setting)
    return (
        setting_title(each.setting),
        score_title(each.score, each.setting),
        f"{each.a:.{digits}f}",
        f"{each.b:.{digits}f}",
        f"{each.mean:+.{digits}f}",
        f"[{bounds[0]:+.{digits}f}, {bounds[1]:+.{digits}f}]" if bounds else "-",
        *("-" if p is None else p_words(p).removeprefix("= ") for p in ps),
        str(len(each.differences)),
    )
