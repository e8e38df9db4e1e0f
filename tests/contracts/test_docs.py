"""README.md and docs/ are true: their Python runs, and prints what they say it prints.

The blocks of a page run in order, in one namespace, in an empty directory. In the page, a comment
on the line before a block says how it is treated:

    <!-- not run: reason -->   the Python block that follows is shown, not run
    <!-- output -->            the block that follows is what the Python block before it prints;
                               `...` in it stands for anything
    <!-- needs a sandbox -->   anywhere: the page is passed over where no sandbox works
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hookline.containment import Sandbox

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

FENCE = re.compile(r"(?P<indent> *)(?P<fence>```+|~~~+) *(?P<language>[\w+-]*)")
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
OUTPUT = "<!-- output -->"
NEEDS_SANDBOX = "<!-- needs a sandbox -->"
SAME_OUTPUT = doctest.OutputChecker().check_output


class Block(NamedTuple):
    """A fenced block: its language, the comment before it, its text and where that begins."""

    language: str
    comment: str
    text: str
    line: int

    @property
    def is_python(self) -> bool:
        return self.language.lower() in {"py", "python", "python3"}

    @property
    def runs(self) -> bool:
        return self.is_python and not NOT_RUN.fullmatch(self.comment)


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a Markdown text, in order."""
    lines = iter(enumerate(text.splitlines(), start=1))
    comment = ""
    for number, line in lines:
        if fence := FENCE.match(line):
            body = _until_closed(lines, fence["fence"])
            content = "".join(f"{inner.removeprefix(fence['indent'])}\n" for inner in body)
            yield Block(fence["language"], comment, content, number + 1)
            comment = ""
        elif line.strip():
            comment = line.strip()


def _until_closed(lines: Iterator[tuple[int, str]], fence: str) -> Iterator[str]:
    for _, line in lines:
        if line.strip().startswith(fence):
            return
        yield line
    pytest.fail(f"a block opened with {fence} is never closed")


def run_page(path: Path) -> int:
    """Run the Python of a page, compare what it prints, and return how many blocks ran."""
    module = types.ModuleType("__main__")
    ran, printed = 0, None
    for block in blocks_of(path.read_text(encoding="utf-8")):
        if block.runs:
            printed = _run(block, path, module)
            ran += 1
        elif block.comment == OUTPUT:
            _compare(block, printed, path)
    return ran


def _run(block: Block, path: Path, module: types.ModuleType) -> str:
    # The empty lines put the code on the lines it has in the page, so a traceback points there.
    code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, module.__dict__)
    return printed.getvalue()


def _compare(block: Block, printed: str | None, path: Path) -> None:
    where = f"{path.name}:{block.line}"
    if printed is None:
        pytest.fail(f"{where}: {OUTPUT} follows no Python block that runs")
    if not SAME_OUTPUT(_trimmed(block.text), _trimmed(printed), doctest.ELLIPSIS):
        pytest.fail(f"{where}: the page says\n{block.text}\nand the code printed\n{printed}")


def _trimmed(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())


@pytest.fixture
def as_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in an empty directory, with `__main__` free for the page to be."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))


@pytest.mark.usefixtures("as_a_script")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_true(page: Path) -> None:
    """Every Python block of the page runs, and every output it shows is what was printed."""
    if NEEDS_SANDBOX in page.read_text(encoding="utf-8"):
        status = Sandbox(".").status
        if not status.contained:
            pytest.skip(f"no sandbox works here: {status.reason}")
    run_page(page)


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_readers_are_shown_public_imports_only(path: Path) -> None:
    """Pages and examples import from `hookline` or from a room, never from deeper."""
    text = path.read_text(encoding="utf-8")
    is_page = path.suffix == ".md"
    sources = [block.text for block in blocks_of(text) if block.is_python] if is_page else [text]
    assert [name for source in sources for name in deep_imports(source)] == []


def deep_imports(source: str) -> list[str]:
    """Return the modules a source imports that lie deeper than a room, or are private."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
    return [name for name in names if re.match(r"hookline\.(_|\w+\.)", name)]


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
    """A room may be imported, what is inside it or private may not."""
    allowed = "import hookline\nfrom hookline.testing import say\nimport hookline_other.deep.er\n"
    refused = "from hookline.hooks.stack import HookStack\nimport hookline._aio\n"
    assert deep_imports(allowed) == []
    assert deep_imports(refused) == ["hookline.hooks.stack", "hookline._aio"]
