"""`mypy --strict` accepts what README.md and docs/ show.

Every Python block that runs is checked, and every one that is a file (`<!-- file: NAME.py -->`). Those that are not run
(`<!-- not run: reason -->`) are parts of something larger. The blocks of a page are one module, as when they run, and a
file is a module of its own. There are no exceptions: an example of a mistake shows one that only Hookline can find.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from true_pages import FILE, NOT_RUN, blocks_of, name_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def modules_of(page: Path) -> dict[str, str]:
    """Return the Python modules of a page, each with its text. Lines have the numbers that they have in the page.

    A file that is written twice counts as it is in the end. An import of it finds the module.
    """
    whole = re.sub(r"\W", "_", str(page.relative_to(page.parents[1])).removesuffix(".md"))
    lines: dict[str, list[str]] = {}
    files: list[str] = []
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if not block.is_python or NOT_RUN.fullmatch(block.comment):
            continue
        name = whole
        if file := FILE.fullmatch(block.comment):
            files.append(Path(name_of(file)).stem)
            name = f"{whole}_{files[-1]}"
            lines.pop(name, None)
        module = lines.setdefault(name, [])
        module += [""] * (block.line - 1 - len(module)) + block.text.splitlines()
    found = {name: "\n".join([*text, ""]) for name, text in lines.items()}
    for file_name in files:
        ours = f"{whole}_{file_name}"
        found = {
            name: re.sub(
                rf"^import {file_name}$",
                f"import {ours} as {file_name}",
                text.replace(f"from {file_name} import", f"from {ours} import"),
                flags=re.MULTILINE,
            )
            for name, text in found.items()
        }
    return found


def errors_in(pages: list[Path], place: Path) -> list[str]:
    """Return what mypy says about the examples of the pages.

    It is started as for the source, and finds in its cache what it knows of Hookline and of all that it imports.
    """
    for page in pages:
        for name, text in modules_of(page).items():
            (place / f"{name}.py").write_text(text, encoding="utf-8")
    files = sorted(map(str, place.glob("*.py")))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    # An error that is in the cache has the directory of an earlier run.
    return [re.sub(r"^\S*/", "", line) for line in done.stdout.splitlines()]


@pytest.mark.timeout(300)
def test_mypy_accepts_every_example(tmp_path: Path) -> None:
    """All of them in one process."""
    pytest.importorskip("mypy")
    assert errors_in(PAGES, tmp_path) == []


@pytest.mark.timeout(300)
def test_an_example_that_mypy_rejects_is_found(tmp_path: Path) -> None:
    """With the line that it has in the page."""
    pytest.importorskip("mypy")
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text(
        "# Title\n\n```python\nx: int = 1\n```\n\n```python\nx = 'a'\n```\n", encoding="utf-8"
    )
    (place := tmp_path / "place").mkdir()
    found = errors_in([page], place)
    assert [line.partition(": error")[0] for line in found] == ["docs_page.py:8"]
