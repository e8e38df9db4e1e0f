"""What a program has answered: read strictly, and cut to what a model and a terminal may get."""

from __future__ import annotations

import re

import msgspec

from hookline.command_hooks.dialect import Dialect
from hookline.command_hooks.handler import (
    Handler,
    JsonObject,
    ProgramAnswer,
    ProgramResult,
    denied,
    failed,
    is_refusal,
    is_too_long,
    json_object,
    reason_of,
    refusal_in,
    unreadable,
)
from hookline.command_hooks.hook_kinds import can_decide
from hookline.containment.session_files import keep_text
from hookline.errors import in_words
from hookline.lifecycle import AgentContext, HookPoint

LONGEST = 10_000
"""Characters that reach the model; the whole text goes into a file."""
_LONGEST_SEQUENCE = 4096
_PRINTABLE = r"[^\x00-\x1f\x7f-\x9f]*"
_SEQUENCES = re.compile(rf"(?:\x07|\x1b\](?:0|1|2|9|99|777);{_PRINTABLE}(?:\x07|\x1b\\))+")
"""Titles (OSC 0, 1, 2), notifications (OSC 9, 99, 777) and the bell."""


def cut_text(text: str, session: str) -> str:
    """A text that is short enough. All of it is in a file until the session is over."""
    text = text.encode(errors="replace").decode()
    if len(text) <= LONGEST:
        return text
    try:
        where = f"all of it can be read in {keep_text(session, text)}"
    except OSError:
        where = "the rest of it could not be kept"
    return (
        f"{text[:LONGEST]}\n[cut here: {LONGEST:,} of {len(text):,} characters are shown; {where}]"
    )


def is_harmless(sequence: str) -> bool:
    """Whether a control sequence is titles, notifications and the bell only."""
    return len(sequence) <= _LONGEST_SEQUENCE and _SEQUENCES.fullmatch(sequence) is not None


_DETACHED = 15.0
"""Seconds that a detached hook has, if it does not say how many."""
_LONGEST_DETACHED = 3600.0
_NO_MODULE = "ModuleNotFoundError: "
_NO_MODULE_REMEDY = (
    "Python finds modules of the project only beside the script that the command names, if that is not in the top "
    "directory, and in the `files` of the hook"
)


def read_reply(dialect: Dialect, handler: Handler, result: ProgramResult) -> ProgramAnswer:
    """What the end of a program means. A detached hook has words, and no decision."""
    if result.problem == "timeout":
        problem = f"it took longer than {result.detail} and was ended"
        return dialect.read_failure(handler, failed(problem, "timeout"))
    if result.problem:
        return dialect.read_failure(handler, failed(result.detail, result.problem))
    first, _, rest = result.stdout.lstrip().partition("\n")
    if not dialect.can_detach(handler) or detach_seconds(first.encode()) is None:
        return _read(dialect, handler, result)
    lines = (text for text in (rest, *rest.splitlines()) if json_object(text) is not None)
    last = msgspec.structs.replace(result, stdout=next(lines, ""))
    said = _read(dialect, handler, last)
    return (
        said if said.has_failed else ProgramAnswer(contexts=said.contexts, messages=said.messages)
    )


def _read(dialect: Dialect, handler: Handler, result: ProgramResult) -> ProgramAnswer:
    """What a program has answered: first the dialect's framing, then one strict reader, then the dialect's meaning.

    Of an answer that its dialect fails to read nobody knows that it was no denial.
    """
    try:
        text = dialect.frame(handler, result)
        problem = unreadable(text)
        if not problem and is_too_long(result.stdout) and result.stdout.lstrip()[:1] == "{":
            problem = unreadable(result.stdout)  # the answer may have been after what was kept
        found = None if problem else json_object(text)
        if found is None and not problem and is_about_call(dialect, handler):
            problem = refusal_in(text)
        answer = dialect.read_answer(
            handler, msgspec.structs.replace(result, stdout=text, answer=found)
        )
    except Exception as error:
        return denied(f"the dialect '{dialect.name}' could not read its answer: {in_words(error)}")
    if problem and answer.decision != "deny":
        return failed(problem, "unreadable")
    if found is None or not is_refusal(found):
        return answer
    if answer.has_failed:
        return denied(f"{reason_of(found) or 'it refuses'} ({answer.problem})")
    is_lost = not (answer.decision or answer.stops) and is_about_call(dialect, handler)
    return denied(reason_of(found)) if is_lost else answer


def is_about_call(dialect: Dialect, handler: Handler) -> bool:
    """Whether a hook decides about a call. There a no counts in the fields of any protocol: people copy scripts."""
    event = dialect.events[handler.event]
    is_there = event.point in (HookPoint.BEFORE_TOOL_USE, HookPoint.PERMISSION_REQUEST)
    return is_there and not event.observes


def detach_seconds(printed: bytes) -> float | None:
    """How long a program may continue beside the agent, by its first line; None if it does not detach."""
    line = printed.lstrip().split(b"\n", 1)[0].strip()
    if not line.endswith(b"}"):
        return None
    said = json_object(line.decode(errors="replace")) or JsonObject()
    if said.get("async") is not True:
        return None
    given = said.get("asyncTimeout")
    if isinstance(given, int | float) and not isinstance(given, bool) and given > 0:
        return min(given / 1000, _LONGEST_DETACHED)
    return _DETACHED


def cut_answer(answer: ProgramAnswer, session: str) -> ProgramAnswer:
    """An answer whose texts are short enough."""
    if answer.is_silent:
        return answer
    return msgspec.structs.replace(
        answer,
        reason=cut_text(answer.reason, session),
        contexts=tuple(cut_text(each, session) for each in answer.contexts),
        messages=tuple(cut_text(each, session) for each in answer.messages),
        stop_reason=cut_text(answer.stop_reason, session),
    )


def deny_unreadable(
    answer: ProgramAnswer, result: ProgramResult, handler: Handler, ctx: AgentContext
) -> ProgramAnswer:
    """An answer that cannot be read as a denial, where the hook could have given one.

    So is a missing Python module: it may be missing because we do not let Python search the project for it.
    """
    problem = answer.problem if answer.status == "unreadable" else ""
    if answer.has_failed and _NO_MODULE in result.stderr:
        problem = f"{answer.problem}; {_NO_MODULE_REMEDY}"
    is_closed = bool(problem) and handler.on_unreadable == "closed"
    if is_closed and not handler.is_async and can_decide(handler, ctx.point):
        return denied(f"the hook failed: {problem}")
    return answer
