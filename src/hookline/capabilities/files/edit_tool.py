"""`edit`: exact replacements in a text, all of them or none, with the line ends of the file."""

from __future__ import annotations

import bisect
import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hookline.capabilities.files.read_tool import cut
from hookline.capabilities.files.text import Text, lines_of
from hookline.errors import ToolError

_MOST_COMPARED = 4_000
"""Lines of a file in which something similar is looked for."""
_SIMILAR = 0.6
_LINE_END = re.compile(r"\r?\n")
_LINE_NUMBER = re.compile(r"^ *\d+\t")


@dataclass(frozen=True)
class Replacement:
    """One replacement: `old` is the exact text to replace, `new` what to put there."""

    old: str
    new: str
    replace_all: bool = False


class EditedText(NamedTuple):
    """A text after its replacements."""

    text: str
    lines: tuple[int, ...]
    """Where something was replaced: lines of the new text."""


class _Placement(NamedTuple):
    """New text, and where it goes."""

    start: int
    stop: int
    new: str


def apply_edits(found: Text, replacements: Sequence[Replacement], name: str) -> EditedText:
    """The text with every replacement made, each on what the one before it made."""
    text, starts = found.text, list[int]()
    for number, each in enumerate(replacements, 1):
        which = f" {number} of {len(replacements)}" if len(replacements) > 1 else ""
        old, new = each.old.replace("\r\n", "\n"), each.new.replace("\r\n", "\n")
        spans = _spans(text, old, new, each.replace_all, f"edit{which} of '{name}'")
        places = [
            _Placement(*span, _match_line_ends(new, old, text, span, found)) for span in spans
        ]
        text, starts = _replace_at(text, places, starts)
    return EditedText(text, _lines_at(text, starts))


def _match_line_ends(new: str, old: str, text: str, span: tuple[int, int], found: Text) -> str:
    """The new text with the line ends that are there: line by line where it has lines of the old one."""
    wanted = new.count("\n")
    if not wanted:
        return new
    ends = _LINE_END.findall(text, *span)
    after, before = new.split("\n"), old.split("\n")
    if len(ends) != wanted:
        most = min(len(ends), wanted)
        head = _count_equal_lines(after[:most], before[:most])
        tail = _count_equal_lines(after[::-1][: most - head], before[::-1][: most - head])
        here = _LINE_END.search(text, span[1])  # how the line ends in which the old text ends
        usual = max(ends, key=ends.count) if ends else here[0] if here else found.line_end
        ends = [*ends[:head], *[usual] * (wanted - head - tail), *ends[len(ends) - tail :]]
    return "".join(line + end for line, end in zip(after, [*ends, ""], strict=True))


def _count_equal_lines(some: list[str], others: list[str]) -> int:
    """How many lines are the same, from the first on."""
    pairs = enumerate(zip(some, others, strict=True))
    return next((at for at, (one, other) in pairs if one != other), len(some))


def _replace_at(text: str, places: list[_Placement], starts: list[int]) -> tuple[str, list[int]]:
    """The text with something new in some places, and where that is, as are the `starts` of earlier places."""
    pieces, kept, length, fresh = list[str](), 0, 0, list[int]()
    for start, stop, new in places:
        length += start - kept
        fresh.append(length)
        pieces += (text[kept:start], new)
        length, kept = length + len(new), stop
    ends = [stop for _, stop, _ in places]
    shifts = [0, *itertools.accumulate(len(new) - (stop - start) for start, stop, new in places)]
    moved = [at + shifts[bisect.bisect_right(ends, at)] for at in starts]
    return "".join((*pieces, text[kept:])), moved + fresh


def _lines_at(text: str, places: Iterable[int]) -> tuple[int, ...]:
    """The lines in which these places are, from 1, each once."""
    lines, line, last = dict[int, None](), 1, 0
    for at in sorted(places):
        line += text.count("\n", last, at)
        lines[line], last = None, at
    return tuple(lines)


def _spans(text: str, old: str, new: str, every: bool, which: str) -> list[tuple[int, int]]:
    """Where the old text is, if it is clear which place is meant."""
    if not old:
        raise ToolError(
            f"{which}: `old` is empty.",
            remedy="Use `write` to make a file or to replace all of it.",
        )
    if old == new:
        raise ToolError(f"{which}: `old` and `new` are the same, so nothing would change.")
    expression = re.compile(r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, old.split("\n"))))
    spans = [match.span() for match in expression.finditer(text)]
    if len(spans) == 1 and not every:
        # `aa` is in `aaa` twice: it is not clear which of the two is meant.
        again = expression.search(text, spans[0][0] + 1)
        spans += [again.span()] if again else []
    if not spans:
        raise ToolError(f"{which}: `old` is not in the file.", remedy=_near_miss(text, old))
    if len(spans) > 1 and not every:
        lines = list(map(str, _lines_at(text, (start for start, _ in spans[:10]))))
        more = " and more" if len(spans) > 10 else ""
        where = f"line{'s' * (len(lines) > 1)} {', '.join(lines)}{more}"
        raise ToolError(
            f"{which}: `old` is in the file {len(spans)} times, at {where}.",
            remedy="Add more of the lines around it to `old`, or set replace_all.",
        )
    return spans


# --- what was meant ----------------------------------------------------------------------------------


def _near_miss(text: str, old: str) -> str:
    """What to do about a text that is not there: the place that looks most like it, as it really is."""
    lines, wanted = lines_of(text), lines_of(old) or [old]
    bare = [_LINE_NUMBER.sub("", line) for line in wanted]
    if bare != wanted and _position(lines, bare) is not None:
        return "The file has this text without the line numbers: leave them out, and the tab after them."
    for squeeze, what in ((_inner, "other spaces"), (str.casefold, "other capital letters")):
        at = _position([squeeze(line) for line in lines], [squeeze(line) for line in wanted])
        if at is not None:
            return f"The file has this text with {what}:\n{_excerpt(lines, at, len(wanted))}\nCopy it exactly."
    at = _closest(lines, wanted)
    if at is None:
        return "Nothing in it looks similar: read the file again."
    return f"The closest is:\n{_excerpt(lines, at, len(wanted))}\nCopy it exactly, or read the file again."


def _inner(line: str) -> str:
    return " ".join(line.split())


def _position(lines: list[str], wanted: list[str]) -> int | None:
    last = len(lines) - len(wanted)
    return next(
        (
            at
            for at in range(last + 1)
            if lines[at] == wanted[0] and lines[at : at + len(wanted)] == wanted
        ),
        None,
    )


def _closest(lines: list[str], wanted: list[str]) -> int | None:
    """Where the longest wanted line, or something like it, is."""
    place, model = max(enumerate(wanted), key=lambda each: len(each[1].strip()))
    matcher = difflib.SequenceMatcher(b=model.strip()[:200])
    best, found = _SIMILAR, None
    for at, line in enumerate(lines[:_MOST_COMPARED]):
        matcher.set_seq1(line.strip()[:200])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            ratio = matcher.ratio()
            if ratio > best:
                best, found = ratio, max(0, at - place)
    return found


def _excerpt(lines: list[str], at: int, count: int) -> str:
    shown = lines[at : at + min(count, 12)]
    return "\n".join(f"{number:>6}\t{cut(line, 300)}" for number, line in enumerate(shown, at + 1))
