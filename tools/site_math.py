"""MkDocs hook that converts equations to MathML at build time, so pages need no script."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

# Output of the extension pymdownx.arithmatex for $...$ and $$...$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\\\[(.+?)\\\]</div>', re.DOTALL)

# Replacements for commands that the converter does not support.
OTHERWISE = {r"\arg\min": r"\argmin", r"\big\|": r"\|", r"\Big\|": r"\|"}


def on_page_content(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace all equations of a page; an invalid one fails the build."""
    try:
        text = INLINE.sub(lambda found: mathml(found[1], "inline"), text)
        text = DISPLAY.sub(lambda found: f"<div class='equation'>{mathml(found[1])}</div>", text)
    except Exception as error:
        raise PluginError(f"{page.file.src_uri}: {error!r} in an equation") from error
    return text


def mathml(latex: str, display: str = "block") -> str:
    """Convert LaTeX from HTML to MathML.

    >>> mathml("a &lt; b", "inline")  # doctest: +ELLIPSIS
    '<math ... display="inline"><mrow><mi>a</mi><mo>&#x0003C;</mo><mi>b</mi></mrow></math>'
    """
    latex = html.unescape(latex).strip()
    for command, known in OTHERWISE.items():
        latex = latex.replace(command, known)
    made = convert(latex, display=display)
    if "\\" in made:
        raise ValueError(f"unsupported command in {latex}")
    return made
