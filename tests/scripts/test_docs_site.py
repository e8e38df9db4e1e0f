"""The documentation site: built without a warning, complete, and without anything from another host."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")

pytestmark = pytest.mark.timeout(600)  # two cores that others use too


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Load scripts/docs_site.py."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts/docs_site.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return module


@pytest.fixture(scope="module")
def generator(script: ModuleType) -> None:
    """Zensical, which scripts/test.py installs."""
    if script.system_tools.find(script.GENERATOR) is None:
        pytest.skip("Zensical is not installed")


@pytest.mark.usefixtures("generator")
def test_the_site_is_built_and_has_every_page_and_every_public_name(
    script: ModuleType, tmp_path: Path
) -> None:
    """No warning, no link that leads nowhere, nothing from another host; each public name has its anchor."""
    assert script.build(tmp_path / "site") == []
    html = tmp_path / "site" / "html"
    for page in script.all_pages(ROOT):
        name = page.relative_to(ROOT).with_suffix("")
        place = name.parent if name.name == "README" else name
        assert (html / place / "index.html").is_file(), page
    for module in script.reference.modules():
        text = (html / "docs/reference" / module / "index.html").read_text(encoding="utf-8")
        anchors = script.Page(text).anchors
        names = script.reference.exported_names(module)
        assert [name for name in names if f"{module}.{name}" not in anchors] == []
    text = (html / "index.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in text
    assert "fonts.g" not in text


def test_every_page_has_one_place_in_the_navigation(script: ModuleType) -> None:
    """A page that nobody finds is no page."""
    listed = [line.removeprefix("- ") for line in map(str.strip, SETTINGS.splitlines())]
    pages = [str(page.relative_to(ROOT)) for page in script.all_pages(ROOT)]
    assert [page for page in pages if listed.count(page) != 1] == []


def repository(place: Path, page: str) -> Path:
    """A repository with a front page and one other page."""
    (place / "docs").mkdir(parents=True)
    (place / "examples/sample").mkdir(parents=True)
    (place / "scripts").mkdir()
    (place / "scripts/site_theme").symlink_to(ROOT / "scripts/site_theme")
    (place / "README.md").write_text("# Front\n\n[other](docs/other.md#part)\n")
    (place / "docs/README.md").write_text("# Front\n")
    (place / "docs/other.md").write_text(f"# Other\n\n## Part\n\n{page}\n")
    (place / "examples/sample/run.py").write_text('print("a `quoted` text")\n')
    head = SETTINGS.partition("\nnav:")[0]
    (place / "mkdocs.yml").write_text(f"{head}\nnav:\n  - README.md\n  - docs/other.md\n")
    return place


@pytest.fixture
def small(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Let the reference have one package, which saves time."""
    monkeypatch.setattr(script.reference, "modules", lambda: ["hookline.flow"])
    monkeypatch.setattr(script.reference, "names_of_hookline", dict)
    return script


@pytest.mark.usefixtures("generator")
def test_a_link_that_leads_nowhere_fails_the_build(small: ModuleType, tmp_path: Path) -> None:
    """A page, a heading, a file: each is named with the page that has the link."""
    page = "[a](missing.md) [b](../README.md#no-such-part) [c](missing.txt) [d](../missing.py)"
    said = "\n".join(small.build(tmp_path / "site", repository(tmp_path / "repository", page)))
    assert "docs/other.md:5" in said
    for link in ("missing", "no-such-part", "missing.txt", "missing.py"):
        assert link in said, said


@pytest.mark.usefixtures("generator")
def test_files_of_the_repository_are_shown_as_pages(small: ModuleType, tmp_path: Path) -> None:
    """A link to an example leads to its text; links in code are left alone; pipes in cells are pipes.

    A block that is a file shows its name.
    """
    page = (
        "<!-- file: named.toml -->\n```toml\na = 1\n```\n\n"
        "[one](../examples/sample/run.py) and [all](../examples/sample)\n\n"
        "`[x](../examples/x.py)`\n\n| a | b |\n|---|---|\n| `x\\|y` | c |\n"
    )
    assert small.build(tmp_path / "site", repository(tmp_path / "repository", page)) == []
    html = tmp_path / "site" / "html"
    other = (html / "docs/other/index.html").read_text(encoding="utf-8")
    assert "<code>x|y</code>" in other
    assert ">named.toml<" in other
    assert "<code>[x](../examples/x.py)</code>" in other
    for name in ("examples/sample/run.py", "examples/sample"):
        assert "quoted" in (html / name / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        '<link rel="stylesheet" href="https://fonts.example/css">',
        '<link rel="preconnect" href="//fonts.example">',
        '<script src="https://cdn.example/x.js"></script>',
        '<img srcset="a.png 1x, https://cdn.example/x.png 2x">',
        "<style>@import 'https://cdn.example/x.css';</style>",
        "<p style=\"background: url('https://cdn.example/x.png')\"></p>",
        '<svg><image xlink:href="https://cdn.example/x.png"/></svg>',
    ],
)
def test_what_would_come_from_another_host_is_found(
    script: ModuleType, tmp_path: Path, text: str
) -> None:
    """In elements, attributes and style sheets. A link that a reader follows may lead anywhere."""
    (tmp_path / "a.png").touch()
    (tmp_path / "index.html").write_text('<a href="https://elsewhere.example/">x</a>')
    assert list(script.problems_of(tmp_path)) == []
    (tmp_path / "index.html").write_text(text)
    assert [said.partition(": ")[0] for said in script.problems_of(tmp_path)] == ["index.html"]


def test_style_sheets_and_relative_links_are_checked(script: ModuleType, tmp_path: Path) -> None:
    """In files of their own, too; a link may not leave the site."""
    (tmp_path / "a.css").write_text("a { background: url(//cdn.example/x.png) }")
    (tmp_path / "index.html").write_text('<a href="../up.html">x</a> <a href="#no">y</a>')
    (tmp_path.parent / "up.html").touch()
    assert list(script.problems_of(tmp_path)) == [
        "index.html: the link ../up.html leads nowhere",
        "index.html: the link #no leads nowhere",
        "a.css: loads //cdn.example/x.png",
    ]
