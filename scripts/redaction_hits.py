"""Count the lines of our own source, docs and tests in which redaction finds a secret.

There are no secrets in `src` and `docs` but examples, so a number that grows means false positives. With `--show` the
lines are printed. `PYTHONPATH` says which version of `hookline` counts, and an argument which repository is read.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from hookline.redaction import redact

FOLDERS = ("src", "docs", "tests")


def hits(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """The lines of a folder that redaction changes, and what it makes of them."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            made = redact(line)
            if made != line:
                yield path, number, made


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "repository", nargs="?", type=Path, default=Path(__file__).resolve().parents[1]
    )
    parser.add_argument("--show", action="store_true", help="print the lines, too")
    arguments = parser.parse_args()
    for name in FOLDERS:
        found = list(hits(arguments.repository / name))
        print(f"{name}: {len(found)} lines")
        for path, number, made in found if arguments.show else ():
            print(f"  {path.relative_to(arguments.repository)}:{number}: {made.strip()[:160]}")


if __name__ == "__main__":
    main()
