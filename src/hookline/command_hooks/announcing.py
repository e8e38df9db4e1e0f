"""The first line of a hook that says that it goes on beside the agent: `{"async": true}`."""

from __future__ import annotations

import msgspec

from hookline.command_hooks.answers import Answer, json_object
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects import Dialect
from hookline.command_hooks.process import Ran

_USUAL = 15.0
"""Seconds that such a hook has, where it does not say how many."""
_LONGEST = 3600.0


def may_detach(handler: Handler) -> bool:
    """Whether a hook can say that: a program of Claude's, while there is a run beside which it could go on."""
    is_program = handler.source.dialect == "claude" and handler.kind == "command"
    return is_program and not handler.is_async and handler.event != "SessionEnd"


def seconds_beside(printed: bytes) -> float | None:
    """How long a program may go on beside the agent, by what it has printed first; None if it does not want that."""
    line = printed.lstrip().split(b"\n", 1)[0].strip()
    if not line.endswith(b"}"):
        return None
    said = json_object(line.decode(errors="replace")) or {}
    if said.get("async") is not True:
        return None
    given = said.get("asyncTimeout")
    if isinstance(given, int | float) and not isinstance(given, bool) and given > 0:
        return min(given / 1000, _LONGEST)
    return _USUAL


def understood(dialect: Dialect, handler: Handler, ran: Ran) -> Answer:
    """What the end of a program means. After it has gone on beside the agent it has words, and no decision."""
    first, _, rest = ran.stdout.lstrip().partition("\n")
    if not may_detach(handler) or seconds_beside(first.encode()) is None:
        return dialect.understand(handler, ran)
    lines = (text for text in (rest, *rest.splitlines()) if json_object(text) is not None)
    said = dialect.understand(handler, msgspec.structs.replace(ran, stdout=next(lines, "")))
    if said.has_failed:
        return said
    return Answer(contexts=said.contexts, messages=said.messages)
