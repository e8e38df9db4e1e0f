"""Pages that are true: what they show is written and run, and the output is compared.

The blocks of a page are taken in order, in one namespace and one directory that is empty at first. A comment on the
line before a block says how it is treated:

    <!-- not run: reason -->   the Python block that follows is shown, not run
    <!-- output -->            the block that follows is what the Python block before it prints
    <!-- file: NAME -->        the block that follows is put into a file; a script that begins with #! can be run
    <!-- example: PATH -->     the same, and it is what that file of the repository says
    <!-- run -->               the block that follows is a terminal: what stands after `$ ` is run, and prints the
                               lines below it, on standard output and standard error

`...` in what is shown stands for anything.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

FENCE = re.compile(r"(?P<indent> *)(?P<fence>```+|~~~+) *(?P<language>[\w+-]*)")
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
FILE = re.compile(r"<!-- (?:file: (?P<name>\S+)|example: (?P<example>\S+)) -->")
OUTPUT = "<!-- output -->"
TERMINAL = "<!-- run -->"
SAME_OUTPUT = doctest.OutputChecker().check_output

_ROOT = Path(__file__).parents[2]
_SOURCE = _ROOT / "src"
_PROGRAM = "import sys; from hookline.cli import main; sys.exit(main())"
_PATIENCE = 100.0


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
        return self.is_python and not (
            NOT_RUN.fullmatch(self.comment) or FILE.fullmatch(self.comment)
        )


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
    """Do all that a page shows, compare the output, and return how many blocks ran."""
    module = types.ModuleType("__main__")
    ran, printed = 0, None
    for block in blocks_of(path.read_text(encoding="utf-8")):
        if block.runs:
            printed = _run(block, path, module)
            ran += 1
        elif block.comment == OUTPUT:
            _compare(block, printed, path)
        elif block.comment == TERMINAL:
            _type(block, path)
            ran += 1
        elif file := FILE.fullmatch(block.comment):
            if file["example"]:
                original = (_ROOT / file["example"]).read_text(encoding="utf-8")
                _same(
                    block.text,
                    original,
                    f"{path.name}:{block.line}: the page says",
                    "the file says",
                )
            _write(Path(name_of(file)), block.text)
    return ran


def name_of(file: re.Match[str]) -> str:
    """The name under which a block is written."""
    return file["name"] or Path(file["example"]).name


def _run(block: Block, path: Path, module: types.ModuleType) -> str:
    # The empty lines put the code on the lines it has in the page, so a traceback points there.
    code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, module.__dict__)
    return printed.getvalue()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if text.startswith("#!"):
        path.chmod(0o755)


def _compare(block: Block, printed: str | None, path: Path) -> None:
    if printed is None:
        pytest.fail(f"{path.name}:{block.line}: {OUTPUT} follows no Python block that runs")
    _same(block.text, printed, f"{path.name}:{block.line}: the page says", "the code printed")


def _same(shown: str, printed: str, where: str, who: str) -> None:
    # `...` on the first or the last line stands for lines, and there may be none.
    before, after = ("\n" * has for has in (shown.startswith("..."), shown.endswith("\n...\n")))
    if not SAME_OUTPUT(_trimmed(shown), f"{before}{_trimmed(printed)}{after}", doctest.ELLIPSIS):
        pytest.fail(f"{where}\n{shown}\nand {who}\n{printed}")


def _trimmed(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())


# --- commands -------------------------------------------------------------------------------------


def _type(block: Block, path: Path) -> None:
    for command, shown in commands_of(block.text):
        where = f"{path.name}:{block.line}: after `{command}` the page says"
        _same(shown, _typed(command), where, "the command printed")


def commands_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a terminal, each with what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def _typed(command: str) -> str:
    """What a command prints, in the page's directory, for a person who has nothing at home."""
    here = Path.cwd()
    home = here.parent / f"{here.name}-home"
    programs = home / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name, program in (("hookline", f"-c {shlex.quote(_PROGRAM)}"), ("python", "")):
        _write(programs / name, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {program} "$@"\n')
    known = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOOKLINE_", "XDG_"))
        or name in ("HOOKLINE_CACHE_DIR", "HOOKLINE_DATABASE_URL")
    }
    done = subprocess.run(
        ["sh", "-c", command],
        env={
            **known,
            "HOME": str(home),
            "PATH": os.pathsep.join((str(programs), known.get("PATH", os.defpath))),
            "PYTHONPATH": str(_SOURCE),
            "NO_COLOR": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_PATIENCE,
        check=False,
    )
    return done.stdout.decode(errors="replace")
