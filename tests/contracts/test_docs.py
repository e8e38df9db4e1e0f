"""README.md and docs/ are true: what they show is run, and prints what they say it prints.

`tests/support/true_pages.py` says how a page is read. Besides, anywhere in a page:

    <!-- needs a sandbox -->           the page is passed over where no sandbox works
    <!-- needs the local model -->     the page is passed over where the model was not fetched
    <!-- needs PostgreSQL -->          HOOKLINE_DATABASE_URL names a database without tables
"""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from true_pages import blocks_of, run_page

from hookline.containment import Sandbox
from hookline.providers.local.weights import DEFAULT

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
GUIDES = [ROOT / "CONTRIBUTING.md", ROOT / "docs/architecture.md", ROOT / "docs/dialects.md"]
SOURCE = sorted((ROOT / "src").rglob("*.py"))

NEEDS_SANDBOX = "<!-- needs a sandbox -->"
NEEDS_MODEL = "<!-- needs the local model -->"
NEEDS_POSTGRES = "<!-- needs PostgreSQL -->"


@pytest.fixture
def as_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in an empty directory, with `__main__` free for the page to be. What is written there can be imported."""
    place = tmp_path / "page"  # beside it there is space for the home of whoever runs its commands
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    monkeypatch.syspath_prepend(str(place))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(place)):
            del sys.modules[name]


@pytest.mark.usefixtures("as_a_script")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.timeout(600)  # two cores that others use too, and a page with a real model
def test_a_page_is_true(
    page: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Every Python block and every command of the page runs, and every output it shows is what was printed."""
    text = page.read_text(encoding="utf-8")
    if NEEDS_MODEL in text:
        pytest.importorskip("xllamacpp")
        if not DEFAULT.path.is_file():
            pytest.skip("the model is not here; `hookline model get` fetches it")
        monkeypatch.setenv("HOOKLINE_CACHE_DIR", str(DEFAULT.path.parents[1]))
    if NEEDS_POSTGRES in text:
        server = request.getfixturevalue("postgres")
        server.ask("DROP SCHEMA IF EXISTS hookline CASCADE")
        monkeypatch.setenv("HOOKLINE_DATABASE_URL", server.url())
    if NEEDS_SANDBOX in text:
        status = Sandbox(".").status
        if not status.contained:
            pytest.skip(f"no sandbox works here: {status.reason}")
    run_page(page)


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_readers_are_shown_public_imports_only(path: Path) -> None:
    """Pages and examples import from `hookline` or from a package, never from deeper."""
    text = path.read_text(encoding="utf-8")
    is_page = path.suffix == ".md"
    sources = [block.text for block in blocks_of(text) if block.is_python] if is_page else [text]
    assert [name for source in sources for name in deep_imports(source)] == []


def deep_imports(source: str) -> list[str]:
    """Return the modules a source imports that lie deeper than a package, or are private."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
    return [name for name in names if re.match(r"hookline\.(_|\w+\.)", name)]


def test_every_file_that_is_named_is_there() -> None:
    """The pages for contributors and the source name no file that has been moved."""
    named = {(path.name, file) for path in [*GUIDES, *SOURCE] for file in files_in(path)}
    assert sorted((where, file) for where, file in named if not exists(file)) == []


def files_in(path: Path) -> list[str]:
    """Return the Python files in directories that a text names between backquotes."""
    return re.findall(r"`([a-z_]+/[\w/]*\.py)`", path.read_text(encoding="utf-8"))


def exists(file: str) -> bool:
    """Whether a file is in the project, named from its root, from the package, or from one of its packages."""
    places = (ROOT, ROOT / "src/hookline")
    return any((place / file).is_file() for place in places) or any(
        str(path).endswith(f"/{file}") for path in SOURCE
    )


def test_the_functions_on_the_way_of_a_call_are_where_the_page_says() -> None:
    """Each function that the page names for a breakpoint is defined in one of the files of its row."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| .* \| ([^|]*) \| ([^|]*) \|$", text, re.MULTILINE)
    assert len(rows) == 13 + 6  # a tool call, and a command hook
    for functions, cell in rows:
        files = [ROOT / "src/hookline" / name for name in cell.split("`")[1::2]]
        for function in functions.split("`")[1::2]:
            assert any(f"def {function}(" in path.read_text(encoding="utf-8") for path in files), (
                function
            )


SAMPLE = """\
```python
def twice(n: int) -> int:
    return 2 * n
```

<!-- not run: it would fail -->
```python
raise SystemExit
```

- in a list

  ```py
  print(twice(21), "and more")
  ```

<!-- output -->

```text
42 and ...
```
"""


@pytest.mark.usefixtures("as_a_script")
def test_blocks_share_a_namespace_and_their_output_is_compared(tmp_path: Path) -> None:
    """A page's blocks run in order and together, apart from those marked as not run."""
    page = tmp_path / "page.md"
    page.write_text(SAMPLE, encoding="utf-8")
    assert run_page(page) == 2


@pytest.mark.usefixtures("as_a_script")
def test_a_wrong_output_is_found(tmp_path: Path) -> None:
    """A page that shows something else than what is printed fails, naming the line."""
    page = tmp_path / "page.md"
    page.write_text(SAMPLE.replace("42 and", "41 and"), encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:20: the page says\n41"):
        run_page(page)


@pytest.mark.usefixtures("as_a_script")
def test_an_error_points_into_the_page(tmp_path: Path) -> None:
    """The traceback of a failing block carries the page's own line number."""
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nfirst = 1\n1 / 0\n```\n", encoding="utf-8")
    with pytest.raises(ZeroDivisionError) as failure:
        run_page(page)
    last = failure.traceback[-1]
    assert (str(last.path), last.lineno + 1) == (str(page), 5)


def test_a_reason_is_needed_to_leave_a_block_out() -> None:
    """`not run` without a reason does not count."""
    assert [b.runs for b in blocks_of("<!-- not run: -->\n```python\n1\n```\n")] == [True]


def test_deep_imports_are_seen() -> None:
    """A package may be imported, what is inside it or private may not."""
    allowed = "import hookline\nfrom hookline.testing import say\nimport hookline_other.deep.er\n"
    refused = "from hookline.hooks.stack import HookStack\nimport hookline._aio\n"
    assert deep_imports(allowed) == []
    assert deep_imports(refused) == ["hookline.hooks.stack", "hookline._aio"]


TERMINAL = """\
<!-- file: tool/says.sh -->
```sh
#!/bin/sh
echo "$1 from $(pwd | sed 's/.*\\///')"
```

<!-- run -->
```console
$ tool/says.sh hello && echo more >&2
hello from ...
more
$ false
$ echo $HOME
...page-home
```
"""


@pytest.mark.usefixtures("as_a_script")
def test_files_are_written_and_commands_are_run(tmp_path: Path) -> None:
    """A page's files are there for its commands, which run in its directory with a home of their own."""
    page = tmp_path / "page.md"
    page.write_text(TERMINAL, encoding="utf-8")
    assert run_page(page) == 1


@pytest.mark.usefixtures("as_a_script")
def test_a_wrong_terminal_is_found(tmp_path: Path) -> None:
    """A page that shows something else than what a command prints fails, naming the command."""
    page = tmp_path / "page.md"
    page.write_text(TERMINAL.replace("\nmore\n", "\nless\n"), encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match=r"echo more >&2` the page says\n"):
        run_page(page)
