"""What every dialect has to say: its events, what a hook is sent, and what its answer means."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from hookline.command_hooks.answers import Answer, failed
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.matchers import Test
from hookline.command_hooks.process import Ran
from hookline.command_hooks.tool_names import Bridge, Shown
from hookline.journal import stream_of
from hookline.lifecycle import HookPoint
from hookline.state import AgentState, AssistantMessage, ResultStatus, ToolCall, ToolResult

_NAMES_ERROR = re.compile(r"(?:Uncaught )?[\w.]*(?:Error|Exception)\b[^:]*: ")
"""How Python, Node and others begin the line that matters, after or before others that do not."""
_HOW_IT_ENDED = re.compile(
    r"^\[(?:exit code -?\d|stopped after |timed out after |ended because ).*\]$", re.M
)
"""The note under what a command printed; the sandbox and others may have added theirs below it."""
_NUMBERED = re.compile(r" *(?P<number>\d+)\t(?P<line>.*)", re.DOTALL)
_ENDINGS = {
    "timeout": "The command took too long and was ended",
    "output": "The command printed too much and was ended",
    "processes": "The command started too many processes and was ended",
    "memory": "The command used too much memory and was ended",
    "disk": "The command wrote too much to the disk and was ended",
    "stopped": "The command was stopped",
}
_OF_A_SERVER = re.compile(r"mcp__(?P<server>.+?)__.+")
_SPACE = uuid.UUID("8f6d3c1e-2b7a-4f55-9d0e-6c1a5b0e7a42")
TOOL_POINTS = ("before_tool_use", "permission_request", "after_tool_use")
TITLE = "hookline.title"
"""Where in the metadata it is what hooks call the session; the session itself looks there."""
SHELL_TOOLS = ("bash", "exec")


class Place(msgspec.Struct, frozen=True):
    """Where a run happens: what hooks are told besides what happens."""

    project: str
    cwd: str
    session_id: str
    transcript: str = ""
    permission_mode: str = "default"
    model: str = ""
    env_file: str = ""
    child_transcript: str = ""
    objections: int = 0
    """How often hooks have kept the run, or the child in question, from stopping."""
    in_a_row: int = 0
    """How many of these since a tool was last called."""

    @property
    def session_uuid(self) -> str:
        """The session as a UUID. Scripts tell sessions apart by its first letters, which in ours are the time."""
        return as_uuid(self.session_id)


class Dialect:
    """One way of speaking with hooks."""

    name: ClassVar[str]
    points: ClassVar[Mapping[str, str]]
    """Event -> the point where it happens here."""
    also: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Event -> another point where it happens, with the same name and another story."""
    after_compacting: ClassVar[frozenset[str]] = frozenset()
    """Events that happen before the model is asked, if history has just been summarised."""
    answered_once: ClassVar[frozenset[str]] = frozenset()
    """Events that happen at two points of one call: what a hook said at the first holds at the second."""
    known: ClassVar[frozenset[str]] = frozenset()
    """Events that exist and do not happen here."""
    observing: ClassVar[frozenset[str]] = frozenset()
    """Events whose hooks only look on."""
    later: ClassVar[frozenset[str]] = frozenset()
    """Events that happen after the others of their point, and see what these have made of it."""
    runs_in_order: ClassVar[bool] = False
    is_told_of_interrupts: ClassVar[bool] = False
    """Hooks at the end hear of it also when a person has ended the run."""
    own: ClassVar[str] = ""
    """The directory in a user's home that whoever uses that agent has: hooks write their logs there."""
    shell: ClassVar[str] = "/bin/sh"
    """What reads command lines, where a hook does not say."""
    bridge: ClassVar[Bridge]

    # --- when ---------------------------------------------------------------------------------------

    def point(self, event: str) -> str | None:
        """The point where an event happens; None if there is none here."""
        return self.points.get(event)

    def points_of(self, handler: Handler) -> Iterator[str]:
        """The points where a handler is asked."""
        for point in (self.points.get(handler.event), self.also.get(handler.event)):
            if point is not None:
                yield point
        if self.begins_again(handler.event):
            yield "execution_start"

    def begins_again(self, event: str) -> bool:
        """Whether an event that begins a session happens once more when a run is taken up in another process."""
        return self.points.get(event) == "session_start"

    def fires(self, event: str, ctx: Any) -> bool:  # noqa: ARG002 - for those that look at more than the point
        """Whether what happens at the point is this event."""
        return True

    def test(self, handler: Handler) -> Test:
        """The handler's matcher, ready. A wrong one is a UsageError."""
        raise NotImplementedError

    def subject(self, event: str, ctx: Any, place: Place) -> tuple[str, ...] | None:
        """What matchers look at; None where they are not looked at."""
        raise NotImplementedError

    # --- what a hook is sent ------------------------------------------------------------------------

    def show(self, call: ToolCall, place: Place) -> Shown:
        """A call under the dialect's names."""
        return self.bridge.show(call, place.cwd)

    def back(self, call: ToolCall, shown: Shown, answer: Answer) -> ToolCall:
        """The call with a hook's changes."""
        updated = answer.updated_input or {}
        if answer.merges_input:
            updated = {**shown.input, **updated}
        return self.bridge.back(call, shown, updated)

    def payload(self, handler: Handler, ctx: Any, place: Place) -> dict[str, Any]:
        """The JSON that a hook reads."""
        raise NotImplementedError

    def variables(self, handler: Handler, place: Place) -> dict[str, str]:
        """What is added to a hook's environment."""
        raise NotImplementedError

    def told(self, payload: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG002 - for those that do
        """What of the event is in variables too."""
        return {}

    # --- what it answers ----------------------------------------------------------------------------

    def understand(self, handler: Handler, ran: Ran) -> Answer:
        """What the end of a program means."""
        raise NotImplementedError


def as_uuid(name: str) -> str:
    """A name as a UUID: always the same, and the name itself if it is one."""
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(name))
    return str(uuid.uuid5(_SPACE, name))


def unfinished(ran: Ran) -> Answer | None:
    """The answer of a program that did not come to an end, or was never begun."""
    if ran.problem == "timeout":
        return failed(f"it took longer than {ran.detail} and was ended", "timeout")
    if ran.problem:
        return failed(ran.detail, "spawn_error")
    return None


_NOT_EXECUTABLE = 126
"""What shells end with that found a program and could not start it."""


def failure_words(ran: Ran) -> str:
    """How a program failed, on one line: the one that names the error, or the first. Some say it on stdout.

    An address has no exit code, and says itself what went wrong.
    """
    if ran.detail:
        return ran.detail
    said = ran.stderr if ran.stderr.strip() else ran.stdout
    lines = [line.strip() for line in said.splitlines() if len(line.strip()) > 1]
    line = next(filter(_NAMES_ERROR.match, lines), lines[0] if lines else "")
    told = f": {line[:300]}" if line else ""
    remedy = "; is it executable? (chmod +x)" if ran.code == _NOT_EXECUTABLE else ""
    return f"it ended with exit code {ran.code}{told}{remedy}"


def has_failed(execution: ToolResult | None) -> bool:
    """Whether a tool ran and failed, or did not get to its end; a command fails with an exit code of its own."""
    if execution is None or execution.status is ResultStatus.ERROR or is_interrupted(execution):
        return True
    return execution.metadata.get("exit_code") not in (0, None)


def is_interrupted(execution: ToolResult) -> bool:
    """Whether a tool was ended with its run: nobody knows how far it got."""
    return execution.status in (ResultStatus.CANCELLED, ResultStatus.IN_DOUBT)


def output_text(execution: ToolResult) -> str:
    """What a tool gave, as text: what a command printed, without our notes; of a file its lines, without numbers."""
    text = execution.text()
    if "exit_code" in execution.metadata:
        notes = list(_HOW_IT_ENDED.finditer(text))
        return text[: notes[-1].start()].removesuffix("\n") if notes else text
    if execution.name == "read" and execution.is_success:
        return plain_lines(text)
    return text


def plain_lines(text: str) -> str:
    """Lines without the numbers that a model is shown; a text that is not numbered throughout is left as it is."""
    lines = text.split("\n")
    if len(lines) > 1 and lines[-1].startswith("[") and lines[-1].endswith("]"):
        lines.pop()  # our note on which lines these are
    found = [_NUMBERED.fullmatch(line) for line in lines]
    numbers = [int(each["number"]) for each in found if each is not None]
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(lines))):
        return text
    return "\n".join(each["line"] for each in found if each is not None)


def failure_text(execution: ToolResult) -> str:
    """Why a tool failed: of a command how it ended, in a sentence, and after it what it printed."""
    said, code = output_text(execution), execution.metadata.get("exit_code")
    if code in (0, None):
        return said
    how = was_ended(execution) or "The command failed"
    return "\n".join(filter(None, (f"{how} (exit code {code}).", said)))


def was_ended(execution: ToolResult) -> str:
    """How a command was ended by others; empty if it came to an end itself."""
    return _ENDINGS.get(str(execution.metadata.get("ended", "")), "")


def last_words(state: AgentState, response: Any = None) -> str:
    """What the model said last."""
    if response is not None and response.text:
        return str(response.text)
    for message in reversed(state.messages):
        if isinstance(message, AssistantMessage) and message.text:
            return message.text
    return ""


def agent_fields(ctx: Any, called: Callable[[str], str] = str) -> dict[str, str]:
    """Who is at work, where that is a child; `called` makes its name of its run."""
    state: AgentState = ctx.state
    if state.parent_run_id is None:
        return {}
    return {"agent_id": called(state.run_id), "agent_type": state.agent_id}


def agent_id(run_id: str) -> str:
    """A child by a name of letters and digits: scripts make names of files of it, and ours has slashes."""
    return f"a{as_uuid(run_id).replace('-', '')[:16]}"


def session_source(ctx: Any) -> str:
    """How a session began, in the words that scripts know; where none begins, its history was summarised."""
    if ctx.point == HookPoint.EXECUTION_START:
        return "resume"
    source = getattr(ctx, "source", "compact")
    return source if source in ("startup", "resume", "clear", "compact", "fork") else "startup"


def prompt_id(event: str, ctx: Any) -> dict[str, str]:
    """Which prompt all this is about: a run has one, and its children have none of their own.

    A session begins before anybody has said anything, and is closed when everything is said.
    """
    state: AgentState = ctx.state
    if event == "SessionStart" or state.run_id == stream_of(state.session_id):
        return {}
    return {"prompt_id": as_uuid(state.run_id.partition("/")[0])}


def session_title(state: AgentState) -> str:
    """What a hook has called the session, if one has."""
    title = state.metadata.get(TITLE)
    return title if isinstance(title, str) else ""


def server_of(tool: str) -> str:
    """The MCP server that a tool is from; empty if it is from none."""
    found = _OF_A_SERVER.fullmatch(tool)
    return "" if found is None else found["server"]


def served_by(ctx: Any) -> tuple[str, ...]:
    """The words of the command that a tool's server is, or its address; none for a tool of no server. Without keys."""
    tool = None if ctx.run is None else ctx.run.tool(ctx.tool_call.name)
    words = () if tool is None else tool.served_by
    if not words:
        return ()
    from hookline.redaction import redact  # only where there is a server: it takes a while

    return tuple(map(redact, words))


def is_address(words: tuple[str, ...]) -> bool:
    """Whether a server is behind an address, and no command."""
    return len(words) == 1 and "://" in words[0]


def user_name() -> str:
    """Who runs this, as far as the environment says so."""
    return os.environ.get("USER", "")
