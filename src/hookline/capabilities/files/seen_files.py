"""What the model has seen of which file. It is kept in the run's metadata, so it is known after a resume."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hookline.capabilities.files.text import fingerprint_of
from hookline.containment import FileJail
from hookline.errors import HooklineError, NoSuchFileError
from hookline.lifecycle import AfterToolHookContext
from hookline.state import AgentState

KEY = "files"
"""Where in the metadata: the fingerprint of each file as it was seen last, by its path; and behind it which lines were
seen, as in `1-100,201-300`, if those are not all."""
RESULT_KEY = "file"
"""Where in a result's metadata: the path, the fingerprint, and which lines, if not all."""
Lines: TypeAlias = tuple[int, ...]
"""How many lines there are in the file, 0 if that is not known, and then the first and the last of each part."""
NO_LINES: Lines = (0,)
MOST = 300
"""How many files are remembered, the latest ones."""


_CHANGED = (
    "[A hook has changed it since: read it again to see its content. `edit` uses the new content.]"
)


class SeenFiles:
    """What was seen, also by calls of the current step, which are not in the state yet."""

    def __init__(self, now: Callable[[str], str | None] = lambda _path: None) -> None:
        self._now = now
        """The fingerprint of a file as it is now; None if there is none."""
        self._fresh: dict[str, tuple[int, dict[str, str]]] = {}
        """By run: how many steps it had made, and what the calls of this step have seen."""
        self._noting = threading.Lock()

    def seen_fingerprint(self, state: AgentState, path: str) -> str | None:
        """The fingerprint of a file when this run saw it last; None if it never did."""
        known = self._known_entry(state, path)
        return None if known is None else known.partition(" ")[0]

    def is_whole(self, state: AgentState, path: str) -> bool:
        """Whether all of a file was seen."""
        return " " not in (self._known_entry(state, path) or " ")

    def _known_entry(self, state: AgentState, path: str) -> str | None:
        steps, fresh = self._fresh.get(state.run_id, (-1, {}))
        if steps == len(state.steps) and path in fresh:
            return fresh[path]
        known = state.metadata.get(KEY)
        found = known.get(path) if isinstance(known, dict) else None
        return found if isinstance(found, str) else None

    def note(
        self, state: AgentState, path: str, fingerprint: str, lines: Lines | None = None
    ) -> None:
        """A call of this step has seen, or made, this; or these lines of it."""
        with self._noting:  # the calls of a step run in threads
            seen = _add_lines(self._known_entry(state, path), fingerprint, lines)
            steps, fresh = self._fresh.pop(state.run_id, (-1, {}))
            if steps != len(state.steps):
                fresh = {}
            self._fresh[state.run_id] = (len(state.steps), {**fresh, path: seen})
            while len(self._fresh) > MOST:  # runs that are over
                del self._fresh[next(iter(self._fresh))]

    def settle(self, ctx: AfterToolHookContext) -> AfterToolHookContext | None:
        """After a call: what it has seen becomes part of the run."""
        execution = ctx.execution
        seen = execution.metadata.get(RESULT_KEY)
        if not isinstance(seen, dict) or not execution.is_success:
            return None
        path, fingerprint, lines = seen["path"], seen["fingerprint"], seen.get("lines")
        now = None
        if execution.name in ("write", "edit"):
            with contextlib.suppress(HooklineError):  # it is not a file any more
                now = self._now(path)
        # Another call of this step may have changed it too. Otherwise a hook has, such as a formatter.
        if now not in (None, fingerprint, self.seen_fingerprint(ctx.state, path)):
            fingerprint, lines = str(now), NO_LINES
            self.note(ctx.state, path, fingerprint, lines)
            ctx = ctx.with_result(f"{execution.text}\n{_CHANGED}")
        known = ctx.metadata.get(KEY)
        kept = {**known} if isinstance(known, dict) else {}
        before = kept.pop(path, None)
        kept[path] = _add_lines(before, fingerprint, lines)
        if kept[path] == before:
            return None if ctx.execution is execution else ctx
        for oldest in list(kept)[: max(0, len(kept) - MOST)]:
            del kept[oldest]
        return ctx.with_metadata(KEY, kept)


def _add_lines(known: object, fingerprint: str, lines: Sequence[int] | None) -> str:
    """What is known of a file once these lines of it have been seen, too."""
    before, _, spans = known.partition(" ") if isinstance(known, str) else ("", "", "")
    if lines is None or (before == fingerprint and not spans):
        return fingerprint
    count, *ends = lines
    seen = list(zip(ends[::2], ends[1::2], strict=True))
    if before == fingerprint:
        pairs = (text.split("-") for text in spans.split(",") if "-" in text)
        seen += [(int(start), int(end)) for start, end in pairs]
    joined: list[tuple[int, int]] = []
    for start, end in sorted(seen):
        if joined and start <= joined[-1][1] + 1:
            start, end = joined[-1][0], max(end, joined.pop()[1])
        joined.append((start, end))
    if joined == [(1, count)]:
        return fingerprint
    return f"{fingerprint} {','.join(f'{start}-{end}' for start, end in joined) or 'none'}"


# --- files as they are now ---------------------------------------------------------------------


def file_state(jail: FileJail, path: str) -> tuple[os.stat_result | None, str | None]:
    """The stat result and the fingerprint of a file; None if there is no file."""
    try:
        with jail.open(path, "rb") as file:
            return os.fstat(file.fileno()), fingerprint_of(file)
    except NoSuchFileError:
        return None, None
