"""MkDocs hook that adds linked files outside of docs to the site.

A page links to repository files by relative path, such as `../src/recollect/methods/er.py`. Each
such file gets a page with its code, and the link is rewritten to that page. Links to missing files
are not changed, so that the strict build reports them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOM = "repository"  # the folder of the site that these pages are in
IN_MENU = ("CONTRIBUTING.md", "CHANGELOG.md")
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "sh", ".json": "json"}
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)\s#]+)")
FENCE = re.compile(r"^ *(```+|~~~+)", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every linked file, recursively."""
    root = root_of(config)
    waiting = [*IN_MENU]
    for file in files.documentation_pages():
        waiting += linked(file.content_string, home(file.src_uri), root)
    while waiting:
        path = waiting.pop()
        if files.get_file_from_path(place(path)) is None:
            text = content(root / path)
            level = InclusionLevel.INCLUDED if path in IN_MENU else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, place(path), content=text, inclusion=level))
            waiting += linked(text, path, root) if is_prose(path, root) else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links to repository files as links to their pages."""
    uri, root = page.file.src_uri, root_of(config)
    here = home(uri)
    if not is_prose(here, root):
        return markdown

    def lead(found: re.Match[str]) -> str:
        path = target(found[1], here, root)
        if path is None or (here.startswith("docs/") and path.startswith("docs/")):
            return found[1]
        return os.path.relpath(place(path), PurePosixPath(uri).parent)

    return outside_code(markdown, lambda prose: LINK.sub(lead, prose))


def root_of(config: MkDocsConfig) -> Path:
    """Return the root folder of the repository."""
    return Path(config.docs_dir).parent


def home(uri: str) -> str:
    """Return the repository path of a page of the site; the inverse of `place`."""
    if not uri.startswith(f"{ROOM}/"):
        return f"docs/{uri}"
    path = uri.removeprefix(f"{ROOM}/")
    return path.removesuffix(".page.md") if path.endswith(".page.md") else path


def place(path: str) -> str:
    """Return the site path of a repository file."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{ROOM}/{path}" if path.endswith(".md") else f"{ROOM}/{path}.page.md"


def target(link: str, here: str, root: Path) -> str | None:
    """Return the repository file or folder that a relative link points to, or None."""
    path = os.path.normpath(PurePosixPath(here).parent / link)
    return path if not path.startswith("..") and (root / path).exists() else None


def linked(text: str, here: str, root: Path) -> list[str]:
    """Return the files and folders outside of docs that a text links to."""
    links: list[str] = []

    def note(prose: str) -> str:
        links.extend(LINK.findall(prose))
        return prose

    outside_code(text, note)
    paths = (target(link, here, root) for link in links)
    return [path for path in paths if path and not path.startswith("docs/")]


def is_prose(path: str, root: Path) -> bool:
    """Return True if links in a file should be followed: Markdown and folders, not code."""
    return path.endswith(".md") or (root / path).is_dir()


def content(path: Path) -> str:
    """Return the Markdown page of a file or a folder."""
    if path.suffix == ".md":
        return path.read_text("utf-8")
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {path.name}\n\n"
    if path.is_dir():
        names = sorted(found.name for found in path.glob("*.py"))
        return head + "\n".join(f"- [{name}]({path.name}/{name})" for name in names) + "\n"
    language = LANGUAGES.get(path.suffix, "text")
    return f'{head}````{language} linenums="1"\n{path.read_text("utf-8")}````\n'


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply a change to a text, except within its code blocks."""
    done, start, fence = [], 0, ""
    for found in FENCE.finditer(text):
        if not fence:
            done.append(change(text[start : found.start()]))
            start, fence = found.start(), found[1]
        elif found[1].startswith(fence):
            done.append(text[start : found.end()])
            start, fence = found.end(), ""
    rest = text[start:]
    return "".join(done) + (rest if fence else change(rest))
