"""`search`: the lines of files that fit a text or a regular expression."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal, NamedTuple, TypeAlias

from hookline.capabilities.files import regex_worker
from hookline.capabilities.files.guard import is_hidden_env_file
from hookline.capabilities.files.patterns import path_patterns
from hookline.capabilities.files.read_tool import cut
from hookline.capabilities.files.text import (
    LARGEST,
    SNIFFED,
    decode_text,
    is_binary,
    lines_of,
    too_large,
)
from hookline.capabilities.files.tree import Walk, printable_path
from hookline.containment import FileEntry
from hookline.containment.interpreter import isolated_command
from hookline.containment.processes import start_program
from hookline.errors import FileJailError, ToolError

Mode: TypeAlias = Literal["lines", "files", "count"]

BATCH = 256 * 1024
"""Bytes of small files that are searched at once."""
LONGEST_LINE = 400
MOST_CHARACTERS = 30_000


class Hit(NamedTuple):
    """A file in which something was found."""

    path: str
    lines: list[str]
    found: list[int]


@dataclass
class Search:
    """One search."""

    walk: Walk
    seconds: float
    """How long it may take; the walk has the end of that time."""
    show: frozenset[str]
    """Environment files that are searched with the others."""
    pattern: str
    path: str
    include: str
    literal: bool
    ignore_case: bool
    context: int
    mode: Mode
    limit: int

    def __post_init__(self) -> None:
        if not self.pattern:
            raise ToolError("`pattern` is empty.", remedy="Say what to search for.")
        if "\n" in self.pattern:
            raise ToolError(
                "`pattern` has a new line in it, and lines are searched one by one.",
                remedy="Search for a part that is on one line.",
            )
        hidden = self.walk.everything
        self._includes = path_patterns(self.include, hidden=hidden, any_depth=True)

    def run(self) -> str:
        """What was found, as the model reads it."""
        out = _Output(self)
        try:
            with contextlib.closing(self._finder()) as finder:
                for hit in self._hits(finder):
                    out.add(hit)
                    if out.is_full:
                        break
        except TimeIsUpError:
            self.walk.notes.append(
                f"stopped after {self.seconds:g} s: use a simpler pattern or a narrower path"
            )
        return out.text(self.walk.notes)

    def _finder(self) -> Finder:
        if self.literal:
            return TextFinder(self.pattern, self.ignore_case)
        return ExpressionFinder(self.pattern, self.ignore_case, self.walk.deadline)

    def _hits(self, finder: Finder) -> Iterator[Hit]:
        for batch in self._batches():
            self._check_time()
            starts = [0, *itertools.accumulate(len(lines) for _, lines in batch)]
            found = finder.find([line for _, lines in batch for line in lines])
            for (name, lines), start, stop in zip(batch, starts, starts[1:], strict=False):
                first, last = (bisect.bisect_left(found, place) for place in (start, stop))
                if first < last:
                    shown = printable_path(name, self.walk.notes)
                    yield Hit(shown, lines, [place - start for place in found[first:last]])

    def _check_time(self) -> None:
        if time.monotonic() > self.walk.deadline:
            raise TimeIsUpError

    def _batches(self) -> Iterator[list[tuple[str, list[str]]]]:
        """The lines of the files, small ones together: a question for each alone would take longer than the search."""
        batch, size = list[tuple[str, list[str]]](), 0
        for entry, file in self._open_files():
            with contextlib.closing(file):
                content = file.read(SNIFFED)
                if is_binary(content):
                    continue
                content += file.read(LARGEST)
            found = decode_text(content)
            if found is None or not found.text:
                continue
            batch.append((entry.path, lines_of(found.text)))
            size += len(content)
            if size > BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    # --- which files --------------------------------------------------------------------------------

    def _open_files(self) -> Iterator[tuple[FileEntry, IO[Any]]]:
        for entry in self._entries():
            try:
                yield entry, self.walk.jail.open(entry.path, "rb")
            except FileJailError:  # it is gone, or not ours to read
                continue

    def _entries(self) -> Iterator[FileEntry]:
        """The files to search: a single one, or those below a directory that are not too large and hold no secrets."""
        start = self.walk.jail.locate(self.path)
        facts = self.walk.jail.stat(start)
        if not stat.S_ISDIR(facts.st_mode):
            if facts.st_size > LARGEST:
                raise too_large(self.path)
            yield FileEntry(start, start.rpartition("/")[2], "file", facts.st_size)
            return
        fits = self.walk.look_for(self._includes, start) if self.include else lambda _: True
        large = hidden = 0
        for entry in filter(fits, self.walk.files(start)):
            if is_hidden_env_file(entry.path, self.show):
                hidden += 1
            elif entry.size > LARGEST:
                large += 1
            else:
                yield entry
        if hidden:
            self.walk.notes.append(
                f"{hidden} environment file{'s' * (hidden > 1)} left out: to search one, name it as path, and a "
                "person is asked"
            )
        if large:
            self.walk.notes.append(
                f"{large} file{'s' * (large > 1)} of more than {LARGEST >> 20} MB left out"
            )


class _Output:
    """What was found, in the form that the search asks for, up to a limit."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._lines: list[str] = []
        self._shown = 0
        self._room = MOST_CHARACTERS
        self.is_full = False

    def add(self, hit: Hit) -> None:
        """One more file."""
        if self._shown >= self._search.limit:
            self.is_full = True
        elif self._search.mode == "lines":
            self._add_lines(hit)
        else:
            count = f": {len(hit.found)}" if self._search.mode == "count" else ""
            self._put(f"{hit.path}{count}")
            self._shown += 1

    def _add_lines(self, hit: Hit) -> None:
        fitting, context = frozenset(hit.found), self._search.context
        last = -1  # the line that was shown last
        for at in hit.found:
            if self._shown >= self._search.limit:
                self.is_full = True
                return
            first = max(0, at - context, last + 1)
            if context and self._lines and (last < 0 or first > last + 1):
                self._put("--")
            for last in range(first, min(len(hit.lines), at + context + 1)):
                sign = ":" if last in fitting else "-"
                text = cut(hit.lines[last], LONGEST_LINE)
                self._put(f"{hit.path}{sign}{last + 1}{sign} {text}")
            self._shown += 1

    def _put(self, line: str) -> None:
        self._room -= len(line) + 1
        if self._room < 0:
            self.is_full = True
            self._shown = self._search.limit
        else:
            self._lines.append(line)

    def text(self, notes: list[str]) -> str:
        """All of it, and what is missing."""
        notes = list(notes)
        if self.is_full:
            notes.insert(
                0, "there is more: use a narrower pattern, path or include, or raise limit"
            )
        body = "\n".join(self._lines) or "Nothing was found."
        return body + "".join(f"\n[{note}]" for note in notes)


# --- finding lines -----------------------------------------------------------------------------


_REGEX_WORKER = isolated_command(regex_worker)


class TimeIsUpError(Exception):
    """The time limit is over."""


class TextFinder:
    """Finds a plain text."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        self._fold = str.lower if ignore_case else str
        self._text = self._fold(text)

    def find(self, lines: list[str]) -> list[int]:
        return [at for at, line in enumerate(lines) if self._text in self._fold(line)]

    def close(self) -> None:
        pass


class ExpressionFinder:
    """Finds a regular expression, in another process that is killed when the time is up."""

    def __init__(self, pattern: str, ignore_case: bool, deadline: float) -> None:
        theirs, ours = os.pipe(), os.pipe()
        self._questions, self._answers = open(theirs[1], "wb"), open(ours[0], "rb")  # noqa: SIM115 - closed by `close`
        try:
            with open(os.devnull, "wb") as nothing:
                standard = (theirs[0], ours[1], nothing.fileno())
                self._process = start_program(_REGEX_WORKER, {"PATH": os.defpath}, "/", standard)
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(theirs[0])
            os.close(ours[1])
        self._is_late = False
        self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._end)
        self._timer.daemon = True
        self._timer.start()
        wanted = {"pattern": pattern, "ignore_case": ignore_case}
        try:
            answer = self._ask(json.dumps(wanted).encode() + b"\n")
        except BaseException:
            self.close()
            raise
        if isinstance(answer, dict) and "error" in answer:
            self.close()
            raise ToolError(
                f"'{pattern[:200]}' is not a regular expression: {answer['error']}.",
                remedy="Set literal to look for it as plain text.",
            )

    def find(self, lines: list[str]) -> list[int]:
        text = "\n".join(lines).encode("utf-8", "surrogatepass")
        answer = self._ask(len(text).to_bytes(8) + text)
        return answer if isinstance(answer, list) else []

    def _ask(self, question: bytes) -> object:
        try:
            self._questions.write(question)
            self._questions.flush()
            answer = self._answers.readline()
        except OSError:
            answer = b""
        if answer:
            return json.loads(answer)
        if self._is_late:
            raise TimeIsUpError
        raise ToolError(
            "the search failed: its process ended before it had answered.",
            remedy="Use a simpler pattern, or set literal.",
        )

    def _end(self) -> None:
        self._is_late = True
        self._process.terminate()

    def close(self) -> None:
        self._timer.cancel()
        self._process.end()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._questions, self._answers):
            with contextlib.suppress(OSError):  # what could not be sent any more
                pipe.close()


Finder: TypeAlias = TextFinder | ExpressionFinder
"""Finds the positions of the lines that fit."""
