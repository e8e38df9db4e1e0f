"""Facts, tables and sentences, laid out as text that fits a screen."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence

WIDTH = 100
_NARROWEST = 16
"""How narrow the last column of a table may get."""
_WIDEST = (3, 26, 12, 13, 36)
"""How wide the other columns may get: number, name, source, tier, matcher."""
_INDENT = "  "

Row = tuple[str, ...]
Section = tuple[str, list[Row]]
"""A heading, and the rows under it."""


def facts(*given: tuple[str, list[str]]) -> Iterator[str]:
    """Labels, and the lines beside each."""
    width = max(len(label) for label, _ in given) + 4
    for label, lines in given:
        for number, line in enumerate(lines):
            yield from wrapped(f"  {'' if number else label:{width - 2}}", line)


def wrapped(label: str, text: str) -> list[str]:
    """A text beside its label, wrapped where the screen ends."""
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=" " * len(label))


def tables(titles: Row, sections: list[Section]) -> Iterator[str]:
    """Headings and tables, all with the same columns."""
    rows = [row for _, table in sections for row in table]
    widths = [
        min(most, max(len(cell) for cell in column))
        for most, *column in zip(_WIDEST, *(row[:-1] for row in (titles, *rows)), strict=True)
    ]
    spare = WIDTH - len(_INDENT) - 2 * len(widths) - sum(widths[:-1])
    widths[-1] = min(widths[-1], spare - _NARROWEST)
    widths.append(spare - widths[-1])
    yield from _line(titles, widths) if rows else ()
    for heading, table in sections:
        yield from wrapped("", heading)
        for row in table:
            yield from _line(row, widths)
        yield ""


def _line(row: Row, widths: Sequence[int]) -> Iterator[str]:
    """One row; a cell that is too long goes on below itself."""
    cells = [textwrap.wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
    cells[0] = [row[0].rjust(widths[0])]
    for parts in itertools.zip_longest(*cells, fillvalue=""):
        padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
        yield (_INDENT + "  ".join(padded)).rstrip()
