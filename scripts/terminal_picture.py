"""Draw docs/terminal.svg: what a terminal shows of `hookline run` in the sample of `hookline demo`.

    .venv/bin/python scripts/terminal_picture.py

The command runs in a real terminal, with a scripted model. Only what differs from run to run, the id and the time,
is replaced; so the picture comes out the same every time.
"""

import fcntl
import itertools
import os
import pty
import re
import shutil
import struct
import sys
import tempfile
import termios
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pyte

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "src" / "hookline" / "cli" / "sample"
PICTURE = ROOT / "docs" / "terminal.svg"
PROMPT = "When is the meeting, and which key is in secret.env?"
COMMAND = ("run", "--model", "script:turns.json", PROMPT)
TYPED = f'$ hookline run --model script:turns.json "{PROMPT}"'

COLUMNS, ROWS = 108, 14
PROGRAM = "import sys; from hookline.cli import main; sys.exit(main())"
SAME = (  # what differs from run to run, and what stands there instead
    (re.compile(rb"\d{4}-\d{4}-[0-9a-f]{6}"), b"1115-1518-a38b9b"),
    (re.compile(rb"(tokens, )\d+\.\d s"), rb"\g<1>0.2 s"),
    (re.compile(rb"((?:ok|no)\x1b\[0m) \d+\.\d s"), rb"\1"),
)

LETTER, LINE = 8.4, 20  # how wide a letter and how high a line is
LEFT, TOP = 18, 52
COLOURS = {
    "default": "#d6dde6",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",  # what terminals call yellow
    "cyan": "#76e3ea",
}
STYLE = """\
    text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }
"""


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}", file=sys.stderr)


def picture() -> str:
    """The picture of the command's terminal when it has ended."""
    with tempfile.TemporaryDirectory(prefix="hookline-") as folder:
        home, sample = Path(folder) / "home", Path(folder) / "sample"
        home.mkdir()
        shutil.copytree(SAMPLE, sample, ignore=shutil.ignore_patterns("__pycache__"))
        environ = {**_plain(os.environ), "HOME": str(home), "TERM": "xterm-256color"}
        seen_in_terminal(("trust",), sample, environ)
        said = seen_in_terminal(COMMAND, sample, environ)
    return draw(shown(TYPED.encode() + b"\r\n" + same(said)))


def _plain(environ: Any) -> dict[str, str]:
    """The variables of this process, without those that change what a command shows."""
    ours = ("HOOKLINE_", "XDG_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHON")
    kept = {name: value for name, value in environ.items() if not name.startswith(ours)}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}


def seen_in_terminal(command: tuple[str, ...], folder: Path, environ: dict[str, str]) -> bytes:
    """Run `hookline COMMAND` in a terminal of its own, and give every byte it wrote there."""
    pid, terminal = pty.fork()
    if pid == 0:  # the child
        os.chdir(folder)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.execve(sys.executable, [sys.executable, "-c", PROGRAM, *command], environ)
    said = b"".join(_read(terminal))
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 0:
        sys.exit(f"`hookline {' '.join(command)}` ended with {code}:\n{said.decode()}")
    return said


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # Linux: the other end is closed
            return
        if not data:
            return
        yield data


def same(said: bytes) -> bytes:
    """What was said, with the same id and times as always."""
    for what, instead in SAME:
        said = what.sub(instead, said)
    return said


def shown(said: bytes) -> list[list[Any]]:
    """The lines of a terminal's screen after these bytes: for each column a letter and its looks."""
    screen = pyte.Screen(COLUMNS, ROWS)
    pyte.ByteStream(screen).feed(said)
    lines = [[screen.buffer[y][x] for x in range(COLUMNS)] for y in range(ROWS)]
    while lines and not "".join(letter.data for letter in lines[-1]).strip():
        lines.pop()
    return lines


def draw(lines: list[list[Any]]) -> str:
    """A window with these lines in it."""
    width, height = round(2 * LEFT + COLUMNS * LETTER), TOP + LINE * len(lines) + 6
    said = "A terminal: hookline runs an agent that reads two files; a hook blocks one of them, and the run continues."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{said}</title>",
        f"<style>\n{STYLE}  </style>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="9" fill="#0d1117" stroke="#3d444d"/>',
        *(f'<circle cx="{x}" cy="20" r="6" fill="#3d444d"/>' for x in (22, 42, 62)),
    ]
    for number, line in enumerate(lines):
        parts += words(line, TOP + LINE * number)
    return "\n  ".join(parts) + "\n</svg>\n"


def words(line: list[Any], y: int) -> Iterator[str]:
    """The words of a line, one piece for each change of looks; each as wide as its columns, whatever the font."""
    column = 0
    for (colour, bold), run in itertools.groupby(line, key=lambda letter: (letter.fg, letter.bold)):
        text = "".join(letter.data for letter in run)
        if text.strip():
            begin = column + len(text) - len(text.lstrip())
            kept = text.strip()
            weight = ' font-weight="700"' if bold else ""
            place = f'x="{LEFT + begin * LETTER:g}" y="{y}" textLength="{len(kept) * LETTER:g}"'
            yield f'<text {place} fill="{COLOURS[colour]}"{weight}>{escape(kept)}</text>'
        column += len(text)


if __name__ == "__main__":
    import environment

    environment.argument_parser(__doc__).parse_args()
    main()
