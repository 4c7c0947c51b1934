"""MkDocs hook: files that the pages link to outside of docs become pages of the site.

A page links to `../src/recollect/methods/er.py` as a reader of the repository would. Here such a
file gets a page with its code, and the link leads to that page. A link to what does not exist is
left alone, so that the strict build finds it.
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
    """Add a page for every file that is linked to, and for those that these link to in turn."""
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
    """Turn links to files of the repository into links to their pages."""
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
    """The repository's folder."""
    return Path(config.docs_dir).parent


def home(uri: str) -> str:
    """Where in the repository a page of the site comes from: the inverse of `place`."""
    if not uri.startswith(f"{ROOM}/"):
        return f"docs/{uri}"
    path = uri.removeprefix(f"{ROOM}/")
    return path.removesuffix(".page.md") if path.endswith(".page.md") else path


def place(path: str) -> str:
    """Where in the site a file of the repository is."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{ROOM}/{path}" if path.endswith(".md") else f"{ROOM}/{path}.page.md"


def target(link: str, here: str, root: Path) -> str | None:
    """The file or folder of the repository that a relative link leads to, if there is one."""
    path = os.path.normpath(PurePosixPath(here).parent / link)
    return path if not path.startswith("..") and (root / path).exists() else None


def linked(text: str, here: str, root: Path) -> list[str]:
    """The files and folders outside of docs that a text links to."""
    links: list[str] = []

    def note(prose: str) -> str:
        links.extend(LINK.findall(prose))
        return prose

    outside_code(text, note)
    paths = (target(link, here, root) for link in links)
    return [path for path in paths if path and not path.startswith("docs/")]


def is_prose(path: str, root: Path) -> bool:
    """Whether a file's links are links: text of ours, and folders, but not code."""
    return path.endswith(".md") or (root / path).is_dir()


def content(path: Path) -> str:
    """The page of a file or a folder."""
    if path.suffix == ".md":
        return path.read_text("utf-8")
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {path.name}\n\n"
    if path.is_dir():
        names = sorted(found.name for found in path.glob("*.py"))
        return head + "\n".join(f"- [{name}]({path.name}/{name})" for name in names) + "\n"
    language = LANGUAGES.get(path.suffix, "text")
    return f'{head}````{language} linenums="1"\n{path.read_text("utf-8")}````\n'


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text, changed everywhere but in its blocks of code."""
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
