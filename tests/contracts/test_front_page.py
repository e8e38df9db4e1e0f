"""The first page is short, is the documentation's front page too, and leads everywhere."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from true_pages import OUTPUT, blocks_of

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [
    *(ROOT / f"{each}.md" for each in ("README", "CONTRIBUTING", "SECURITY", "examples/README")),
    *DOCS,
]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """Load scripts/pages.py."""
    return runpy.run_path(str(ROOT / "scripts/pages.py"))


def test_the_front_page_of_the_documentation_is_the_readme(script: dict[str, Any]) -> None:
    """docs/README.md is the README with its links written from there."""
    kept = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    assert kept == script["front_page"](), "run scripts/pages.py"


def test_the_list_of_pages_is_made_of_the_pages(script: dict[str, Any]) -> None:
    """llms.txt is what scripts/pages.py makes of the pages today."""
    kept = (ROOT / "llms.txt").read_text(encoding="utf-8")
    assert kept == script["list_of_pages"](), "run scripts/pages.py"


def test_the_list_names_every_page_and_no_other() -> None:
    """Whatever llms.txt names exists, and no page of the documentation is left out."""
    named = [ROOT / link for link in LINK.findall((ROOT / "llms.txt").read_text(encoding="utf-8"))]
    assert [page for page in named if not page.is_file()] == []
    front = ROOT / "docs/README.md"  # it is the README
    assert [page for page in DOCS if page not in named and page != front] == []


def test_the_table_of_guides_has_every_guide() -> None:
    """Whoever looks for a pattern finds its page in the table, and every guide begins with Python."""
    table = (ROOT / "docs/guides/README.md").read_text(encoding="utf-8")
    guides = [page for page in DOCS if page.parent.name == "guides" and page.name != "README.md"]
    assert [page.name for page in guides if f"]({page.name})" not in table] == []
    first = [next(blocks_of(page.read_text(encoding="utf-8"))) for page in guides]
    assert [block.text for block in first if not block.runs] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A link in a page is an address, or a file of the repository with that heading."""
    links = LINK.findall(_without_code(page.read_text(encoding="utf-8")))
    assert [link for link in links if not _leads_somewhere(page, link)] == []


def _without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def _leads_somewhere(page: Path, link: str) -> bool:
    if re.match(r"https?:", link):
        return True
    name, _, heading = link.partition("#")
    target = page.parent / name if name else page
    if not heading or target.suffix != ".md":
        return target.exists()
    return heading in map(
        _anchor, re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
    )


def _anchor(heading: str) -> str:
    """A heading as links name it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_the_first_screen_is_short() -> None:
    """One sentence, a picture, the commands by line 30, and then an example of at most 12 lines with its output."""
    lines = README.splitlines()
    begins = lines.index("## Install")
    assert begins < 10
    assert "python3 scripts/test.py" in "\n".join(lines[:30])
    example, output = [block for block in blocks_of(README) if block.language][:2]
    assert (example.is_python, output.comment) == (True, OUTPUT)
    assert example.line <= 35
    assert len(example.text.splitlines()) <= 12


def test_the_second_example_is_a_hook_that_stops_a_tool() -> None:
    """It follows the first, and its output shows what the model read."""
    runs = [block for block in blocks_of(README) if block.runs or block.comment == OUTPUT]
    assert [block.is_python for block in runs[:4]] == [True, False, True, False]
    assert "HookOutcome.block" in runs[2].text
    assert "Blocked: " in runs[3].text
    pictures = re.findall(r"!\[[^]]*\]\((.*?)\)", README)
    assert pictures == ["docs/timeline.svg", "docs/terminal.svg"]


def test_a_real_model_needs_no_more_lines_than_a_scripted_one() -> None:
    """The second block of Python is the first one with a model that needs a key."""
    scripted, real = [block for block in blocks_of(README) if block.is_python][:2]
    assert (scripted.runs, real.runs) == (True, False)
    assert len(real.text.splitlines()) <= 10
    assert ".with_model(" in real.text


def test_what_the_first_page_installs_is_all_that_the_command_uses() -> None:
    """The extra it names brings the model without a key, the bash tool of its example, and Markdown."""
    named = re.search(r'^pipx install "\.\[(\w+)\]"', README, re.MULTILINE)
    assert named is not None
    assert {"local", "shell", "markdown"} <= _brought_by(named[1])


def _brought_by(extra: str) -> set[str]:
    """An extra, and those that it is made of."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    others = [
        name
        for wanted in extras[extra]
        if wanted.startswith("hookline[")
        for name in wanted[len("hookline[") : -1].split(",")
    ]
    return {extra}.union(*map(_brought_by, others))


def test_the_first_page_goes_from_the_example_to_the_notes() -> None:
    """What people need first comes first; status and security are last."""
    assert re.findall(r"^## (.*)$", README, re.MULTILINE) == [
        "Install",
        "An agent",
        "A hook that stops a tool",
        "What sets it apart",
        "The lifecycle",
        "The command",
        "Where to read on",
        "Status",
        "Security",
    ]
