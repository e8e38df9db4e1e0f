"""Write the end of docs/design-coverage.md: every public name of every package, and a test file that imports it.

python3 scripts/package_names.py

Like the reference it is made from the source text alone.
"""

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "design-coverage.md"
TITLE = "## Names of the packages"
HEAD = f"""{TITLE}

Every public name of every package, and a test file that imports it. `scripts/package_names.py` makes this part from
the source.
"""
REASON = "Reason: no test imports it by name; it is a type or a part of what the tests of the package go through"


def main() -> None:
    """Write it."""
    PAGE.write_text(hand_written() + section(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)


def hand_written() -> str:
    """The page up to this part."""
    return PAGE.read_text(encoding="utf-8").partition(TITLE)[0].rstrip("\n") + "\n\n"


def section() -> str:
    """This part: a table per package, of which a row has all names with the same test file."""
    parts = [HEAD]
    for module in modules():
        files: dict[str, list[str]] = {}
        for name in reference.exported_names(module):
            file = next(iter(users(module, name)), "")
            files.setdefault(f"`{file}`" if file else REASON, []).append(f"`{name}`")
        rows = [f"| {', '.join(names)} | {shown} |" for shown, names in sorted(files.items())]
        parts.append("\n".join((f"### {module}\n", "| name | test |", "|---|---|", *rows, "")))
    return "\n".join(parts)


def modules() -> list[str]:
    """The packages, and the public modules that are none."""
    found = [path.parent.name for path in (ROOT / "src/hookline").glob("*/__init__.py")]
    return [f"hookline.{name}" for name in sorted([*found, *reference.MODULES])]


def users(module: str, name: str) -> list[str]:
    """The test files that import a name of a package: first those in the package's own folder."""
    own = f"tests/{module.removeprefix('hookline.')}/"
    files = [file for file, names in test_files() if {(module, name), ("hookline", name)} & names]
    return sorted(files, key=lambda file: (not file.startswith(own), file))


@functools.cache
def test_files() -> tuple[tuple[str, frozenset[tuple[str, str]]], ...]:
    """Every test file, with the names it imports from Hookline and the package of each."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return tuple((path.relative_to(ROOT).as_posix(), frozenset(imports(path))) for path in paths)


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The names that a file imports from Hookline, each with its package."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            package = ".".join(node.module.split(".")[:2])
            yield from ((package, alias.name) for alias in node.names)


if __name__ == "__main__":
    import environment

    environment.argument_parser(__doc__).parse_args()
    main()
