"""Which Markdown files of a directory describe subagents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hookline.errors import BuildError
from hookline.markdown.document import Document

_NO_AGENTS = frozenset({"readme.md", "agents.md", "claude.md", "contributing.md", "license.md"})


def agent_pages(source: str | os.PathLike[str]) -> Iterator[Document]:
    """The pages of a file or a directory that describe subagents; those that say they are disabled are left out."""
    try:
        path = Path(os.path.expanduser(source))
    except TypeError:
        raise BuildError(
            f"{source!r} is not a subagent.",
            remedy="Give Subagent(...), a Markdown file, or a directory of them.",
        ) from None
    if path.is_file():
        yield Document.read(path)
        return
    if not path.is_dir():
        raise BuildError(
            f"there is no file or directory '{source}' with subagents.",
            remedy="Make it, or leave it out; a subagent is a Markdown file with front matter.",
        )
    for file in sorted(path.rglob("*.md")):
        below = file.relative_to(path).parts
        is_hidden = any(part.startswith(".") or part == "node_modules" for part in below)
        if is_hidden or file.name.lower() in _NO_AGENTS or not file.is_file():
            continue
        page = Document.read(file)
        if not page.flag("disabled"):
            yield page


def agent_name(page: Document) -> str:
    """What the subagent of a page is called: as it says, or as its file."""
    return page.text("name") or Path(page.where).stem
