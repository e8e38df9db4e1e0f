"""Facts, tables and sentences, laid out as text that fits a screen."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence

import msgspec

WIDTH = 100
"""Columns of a page if no width is given."""
_LEAST = 20
_NARROWEST = 16
"""How narrow the last two columns of a table may get. Where they would be narrower, there is no table."""
_WIDEST = (3, 26, 13, 13, 36)
"""How wide the other columns may get: number, name, source, tier, matcher."""
_INDENT = "  "
_BELOW = "    "

Row = tuple[str, ...]
Section = tuple[str, list[Row]]
"""A heading, and the rows under it."""


class Page(msgspec.Struct, frozen=True):
    """A page of so many columns. On a narrow one, columns become lines."""

    width: int = WIDTH

    @property
    def _room(self) -> int:
        return max(self.width, _LEAST)

    def facts(self, *given: tuple[str, list[str]]) -> Iterator[str]:
        """Labels, and the lines beside each."""
        width = max(len(label) for label, _ in given) + 4
        for label, lines in given:
            for number, line in enumerate(lines):
                yield from self.wrapped(f"  {'' if number else label:{width - 2}}", line)

    def wrapped(self, label: str, text: str) -> list[str]:
        """A text beside its label, wrapped where the screen ends; where that is soon, below its label."""
        if len(label) + _NARROWEST <= self._room:
            below = " " * len(label)
            return textwrap.wrap(text, self._room, initial_indent=label, subsequent_indent=below)
        said = [label.rstrip()] if label.strip() else []
        lines = textwrap.wrap(text, self._room, initial_indent=_BELOW, subsequent_indent=_BELOW)
        return [*said, *lines]

    def tables(self, titles: Row, sections: list[Section]) -> Iterator[str]:
        """Headings and tables, all with the same columns."""
        rows = [row for _, table in sections for row in table]
        widths = self._widths([titles, *rows])
        yield from _line(titles, widths) if rows and widths else ()
        for heading, table in sections:
            yield from self.wrapped("", heading)
            for row in table:
                yield from _line(row, widths) if widths else self._listed(titles, row)
            yield ""

    def _widths(self, rows: list[Row]) -> list[int]:
        """The width of each column; none where they cannot stand beside each other."""
        widths = [
            min(most, max(len(cell) for cell in column))
            for most, *column in zip(_WIDEST, *(row[:-1] for row in rows), strict=True)
        ]
        spare = self._room - len(_INDENT) - 2 * len(widths) - sum(widths[:-1])
        if spare < 2 * _NARROWEST:
            return []
        widths[-1] = min(widths[-1], spare - _NARROWEST)
        return [*widths, spare - widths[-1]]

    def _listed(self, titles: Row, row: Row) -> Iterator[str]:
        """One row as a paragraph, each of its cells with its title."""
        number, name, *cells = row
        yield from self.wrapped(f"{_INDENT}{number:>2}  ", name.strip())
        for title, cell in zip(titles[2:], cells, strict=True):
            if cell:
                yield from self.wrapped(f"{_INDENT}    ", f"{title}: {cell}")


def _line(row: Row, widths: Sequence[int]) -> Iterator[str]:
    """One row; a cell that is too long continues below itself."""
    cells = [textwrap.wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
    cells[0] = [row[0].rjust(widths[0])]
    for parts in itertools.zip_longest(*cells, fillvalue=""):
        padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
        yield (_INDENT + "  ".join(padded)).rstrip()
