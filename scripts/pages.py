"""Write the pages that are made of others: docs/README.md is the README again, and llms.txt lists all pages.

python3 scripts/pages.py
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
FRONT = ROOT / "docs" / "README.md"
LIST = ROOT / "llms.txt"

LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|\*\*")
SECTIONS = (  # title, and which pages
    ("Start", ("README.md",)),
    ("Guides: one thing each, with output", ("docs/guides/README.md", "docs/guides/*.md")),
    ("Examples", ("examples/README.md",)),
    ("Reference", ("docs/*.md",)),
    ("Capabilities", ("docs/capabilities/README.md", "docs/capabilities/*.md")),
    ("Project", ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")),
)


def main() -> None:
    """Write them."""
    for path, text in ((FRONT, front_page()), (LIST, list_of_pages())):
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}", file=sys.stderr)


def front_page() -> str:
    """The README, with its links as they are written in docs/."""
    text = README.read_text(encoding="utf-8")
    return LINK.sub(lambda link: os.path.relpath(ROOT / link[1], FRONT.parent), text)


def list_of_pages() -> str:
    """Every page with its title and its first sentence, in the form of llmstxt.org."""
    title, about = describe(README)
    parts = [f"# {title}\n\n> {about}\n"]
    listed: set[Path] = {FRONT}  # it is the README
    for heading, patterns in SECTIONS:
        pages = [page for pattern in patterns for page in sorted(ROOT.glob(pattern))]
        lines = [line(page) for page in dict.fromkeys(pages) if page not in listed]
        listed.update(pages)
        parts.append("\n".join((f"## {heading}\n", *lines)) + "\n")
    return "\n".join(parts)


def line(page: Path) -> str:
    """A page in the list."""
    title, about = describe(page)
    return f"- [{title}]({page.relative_to(ROOT).as_posix()}): {about}"


def describe(page: Path) -> tuple[str, str]:
    """The title of a page, and the first sentence below it."""
    lines = page.read_text(encoding="utf-8").splitlines()
    title = next(line[2:] for line in lines if line.startswith("# "))
    paragraph = " ".join(first_paragraph(lines))
    sentence = re.split(r"(?<=[.!?])\s|:$", paragraph)[0]
    return title, MARKUP.sub(r"\1", sentence)


def first_paragraph(lines: list[str]) -> Iterator[str]:
    """The first lines of running text: no heading, list, comment or code."""
    in_code = begun = False
    for each in lines:
        in_code ^= each.startswith("```")
        is_text = not in_code and bool(re.match(r"[\w`\[*]", each)) and not each.startswith("```")
        if is_text:
            begun = True
            yield each.strip()
        elif begun:
            return


if __name__ == "__main__":
    import environment

    environment.argument_parser(__doc__).parse_args()
    main()
