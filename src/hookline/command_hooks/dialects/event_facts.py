"""Events as a table: the point of each, when it happens there, and what hooks are sent.

`EventFacts` has what there is to say about an event. A dialect chooses of it, and has its own names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

from hookline.command_hooks.dialect import Dialect
from hookline.command_hooks.handler import (
    TITLE,
    Handler,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    as_uuid,
)
from hookline.command_hooks.tools import ShownCall, command_of, file_path
from hookline.hooks import Kind
from hookline.lifecycle import (
    AgentContext,
    CompactHookContext,
    FailureHookContext,
    HookPoint,
    InferenceHookContext,
    PromptHookContext,
    StepHookContext,
    SubagentHookContext,
    ToolHookContext,
)
from hookline.lifecycle.contexts import expect_context
from hookline.state import (
    AgentState,
    AssistantMessage,
    InferenceResponse,
    ResultStatus,
    RunStatus,
    Step,
    StopReason,
    ToolCall,
    ToolResult,
)

_NAMES_ERROR = re.compile(r"(?:Uncaught )?[\w.]*(?:Error|Exception)\b[^:]*: ")
"""How Python, Node and others begin the line that names the error."""
_HOW_IT_ENDED = re.compile(
    r"^\[(?:exit code -?\d|stopped after |timed out after |ended because ).*\]$", re.M
)
"""The note under the output of a command; the sandbox may have added others below it."""
_NUMBERED = re.compile(r" *(?P<number>\d+)\t(?P<line>.*)", re.DOTALL)
_ENDINGS = {
    "timeout": "The command took too long and was ended",
    "output": "The command printed too much and was ended",
    "processes": "The command started too many processes and was ended",
    "memory": "The command used too much memory and was ended",
    "disk": "The command wrote too much to the disk and was ended",
    "stopped": "The command was stopped",
}
SHELL_TOOLS = ("bash", "exec")
_SESSION_ENDINGS = {RunStatus.FAILED: "error", RunStatus.CANCELLED: "aborted"}


_NOT_EXECUTABLE = 126
"""The exit code of shells that found a program and could not start it."""


def failure_words(result: ProgramResult) -> str:
    """How a program failed: with the line of its output that names the error, or the first."""
    if result.detail:
        return result.detail
    said = result.stderr if result.stderr.strip() else result.stdout
    lines = [line.strip() for line in said.splitlines() if len(line.strip()) > 1]
    line = next(filter(_NAMES_ERROR.match, lines), lines[0] if lines else "")
    reason = f": {line[:300]}" if line else ""
    remedy = "; is it executable? (chmod +x)" if result.code == _NOT_EXECUTABLE else ""
    return f"it ended with exit code {result.code}{reason}{remedy}"


def is_interrupted(execution: ToolResult) -> bool:
    """Whether a tool was ended with its run."""
    return execution.status in (ResultStatus.CANCELLED, ResultStatus.IN_DOUBT)


def output_text(execution: ToolResult) -> str:
    """A result as text: the output of a command without our notes, the lines of a file without numbers."""
    text = execution.text
    if "exit_code" in execution.metadata:
        notes = list(_HOW_IT_ENDED.finditer(text))
        return text[: notes[-1].start()].removesuffix("\n") if notes else text
    if execution.name == "read" and execution.is_success:
        return plain_lines(text)
    return text


def plain_lines(text: str) -> str:
    """Lines without the numbers that a model is shown; a text that is not numbered throughout is unchanged."""
    lines = text.split("\n")
    if len(lines) > 1 and lines[-1].startswith("[") and lines[-1].endswith("]"):
        lines.pop()  # our note
    found = [_NUMBERED.fullmatch(line) for line in lines]
    numbers = [int(each["number"]) for each in found if each is not None]
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(lines))):
        return text
    return "\n".join(each["line"] for each in found if each is not None)


def failure_text(execution: ToolResult) -> str:
    """Why a tool failed; for a command how it ended, and its output."""
    said, code = output_text(execution), execution.metadata.get("exit_code")
    if code in (0, None):
        return said
    how = was_ended(execution) or "The command failed"
    return "\n".join(filter(None, (f"{how} (exit code {code}).", said)))


def was_ended(execution: ToolResult) -> str:
    """How a command was ended by others; empty if it ended by itself."""
    return _ENDINGS.get(str(execution.metadata.get("ended", "")), "")


def last_words(state: AgentState) -> str:
    """The last text of the model."""
    for message in reversed(state.messages):
        if isinstance(message, AssistantMessage) and message.text:
            return message.text
    return ""


def agent_fields(ctx: AgentContext, called: Callable[[str], str] = str) -> dict[str, str]:
    """The fields that name a child run; `called` makes an id of its run id."""
    state: AgentState = ctx.state
    if state.parent_run_id is None:
        return {}
    return {"agent_id": called(state.run_id), "agent_type": state.agent_id}


def agent_id(run_id: str) -> str:
    """A child's id without slashes: scripts use it in file names."""
    return f"a{as_uuid(run_id).replace('-', '')[:16]}"


def session_source(ctx: AgentContext) -> str:
    """How a session began: `startup`, `resume`, `clear`, `compact` or `fork`."""
    if ctx.point == HookPoint.EXECUTION_START:
        return "resume"
    source = getattr(ctx, "source", "compact")
    return source if source in ("startup", "resume", "clear", "compact", "fork") else "startup"


def session_title(state: AgentState) -> str:
    """The title that a hook gave the session; empty if none did."""
    title = state.metadata.get(TITLE)
    return title if isinstance(title, str) else ""


def server_of(
    ctx: ToolHookContext, command: Callable[[tuple[str, ...]], dict[str, Any]]
) -> dict[str, Any]:
    """The MCP server of a tool, without secrets: its address, or its command in this form. Empty if it has none."""
    tool = ctx.run.tool(ctx.tool_call.name) if ctx.has_run else None
    if tool is None or not tool.served_by:
        return {}
    from hookline.redaction import redact  # only where there is a server: it takes a while

    words = tuple(map(redact, tool.served_by))
    return {"url": words[0]} if len(words) == 1 and "://" in words[0] else command(words)


def ending_of(state: AgentState) -> str:
    """How the last run of a session ended: `completed`, `error`, `aborted` or `timeout`."""
    ending = state.ending
    if ending is None:
        return "completed"
    if ending.stop_reason is StopReason.TIME_LIMIT:
        return "timeout"
    if ending.stop_reason is StopReason.CANCELLED:  # between two steps it is stopped by a hook
        return "aborted"
    return _SESSION_ENDINGS.get(ending.status, "completed")


def end_reason(ctx: AgentContext) -> str:
    """Why a session is over: `clear`, `prompt_input_exit` or `other`."""
    said = getattr(ctx, "source", "")
    return said if said in ("clear", "prompt_input_exit") else "other"


def server_result(execution: ToolResult) -> dict[str, Any]:
    """The result of an MCP tool, in the form of the protocol."""
    content = [{"type": "text", "text": execution.text}]
    return {"content": content, "isError": not execution.is_success}


def result_of(call: ToolCall, value: Any) -> Any:
    """A changed response in the form of the tool: the text of a command or of a file, out of Claude's form of it.

    Hooks of other dialects that are for Claude, too, use that.
    """
    if isinstance(value, list) and value and all(map(_is_text_block, value)):
        return "\n".join(each["text"] for each in value)
    if not isinstance(value, dict):
        return value
    if call.name in SHELL_TOOLS and isinstance(value.get("stdout"), str):
        return "\n".join(filter(None, (value["stdout"], str(value.get("stderr") or ""))))
    file = value.get("file")
    if call.name == "read" and isinstance(file, dict) and isinstance(file.get("content"), str):
        return file["content"]
    if call.name == "spawn_subagent" and isinstance(value.get("content"), list):
        return result_of(call, value["content"])
    return value


def _is_text_block(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") == "text"
        and isinstance(value.get("text"), str)
    )


# --- the table of a dialect's events --------------------------------------------------------------------


class EventFacts:
    """What there is to say about one event. Everything is worked out when it is asked for."""

    def __init__(self, dialect: Dialect, ctx: AgentContext, run: RunFacts) -> None:
        self.ctx = ctx
        self.run = run
        self._dialect = dialect

    # --- the context, which has one kind at each point --------------------------------------------------

    @property
    def tool(self) -> ToolHookContext:
        """The context, at the points of a tool."""
        return expect_context(self.ctx, ToolHookContext)

    @property
    def inference(self) -> InferenceHookContext:
        """The context, at the points of a request to the model."""
        return expect_context(self.ctx, InferenceHookContext)

    @property
    def child(self) -> SubagentHookContext:
        """The context, at the start and the end of a child run."""
        return expect_context(self.ctx, SubagentHookContext)

    @property
    def compaction(self) -> CompactHookContext:
        """The context, before history is summarised."""
        return expect_context(self.ctx, CompactHookContext)

    @property
    def error(self) -> FailureHookContext:
        """The context, where a run failed."""
        return expect_context(self.ctx, FailureHookContext)

    @property
    def prompt(self) -> str:
        """The user's text."""
        return expect_context(self.ctx, PromptHookContext).prompt

    @property
    def step(self) -> Step:
        """The step that ended; an empty one before its end."""
        return expect_context(self.ctx, StepHookContext).step or Step(0)

    @property
    def call(self) -> ToolCall:
        """The call that the event is about."""
        return self.tool.tool_call

    @property
    def execution(self) -> ToolResult:
        """The result of the call, which a context after a tool has."""
        if self.tool.execution is None:
            raise TypeError(f"{self.ctx.point} has no result of a call.")
        return self.tool.execution

    @property
    def response(self) -> InferenceResponse:
        """The model's response; an empty one before it has answered."""
        return self.inference.response or InferenceResponse()

    # --- what dialects make of it -----------------------------------------------------------------------

    def show(self, call: ToolCall) -> ShownCall:
        """A call under the dialect's names."""
        return self._dialect.show(call, self.run)

    @cached_property
    def shown(self) -> ShownCall:
        """The call that the event is about, under the dialect's names."""
        return self.show(self.call)

    @property
    def command(self) -> str:
        """The command line of the call, whatever the dialect calls it."""
        return command_of(self.call)

    @property
    def path(self) -> str:
        """The file of the call, whatever the dialect calls it: an absolute path; empty if it has none."""
        path = self.call.args.get("path")
        return file_path(path, self.run.cwd) if path else ""

    @property
    def has_failed(self) -> bool:
        """Whether the tool failed or was interrupted; a command fails with any exit code but 0."""
        execution = self.tool.execution
        if execution is None or execution.status is ResultStatus.ERROR:
            return True
        return is_interrupted(execution) or execution.metadata.get("exit_code") not in (0, None)

    @property
    def output(self) -> str:
        """The result of the tool, as text."""
        return output_text(self.execution)

    @property
    def failure(self) -> str:
        """Why the tool failed."""
        return failure_text(self.execution)

    @property
    def milliseconds(self) -> int:
        """How long the tool took."""
        return int(self.execution.duration * 1000 + 0.5)

    @property
    def is_undecided(self) -> bool:
        """No hook has decided yet."""
        verdict = self.ctx.decided
        return verdict is None or verdict.kind is Kind.PROCEED

    @property
    def was_kept_going(self) -> bool:
        """Hooks have kept the run, or the child, from stopping."""
        return self.run.objections > 0

    @property
    def last_words(self) -> str:
        """The last text of the model."""
        return last_words(self.ctx.state)

    @property
    def child_text(self) -> str:
        """The answer of the child run."""
        return getattr(self.child.result, "text", "") or ""


Sent: TypeAlias = Callable[[EventFacts], dict[str, Any]]
TOOL = "the tool"
"""Matchers are tested with the names of the tool."""


class Event(NamedTuple):
    """One event of a dialect."""

    point: str
    sent: Sent = lambda _facts: {}
    """The fields that only this event has."""
    matched: str = ""
    """The field that matchers are tested with, or `TOOL`; empty where there are no matchers."""
    when: Callable[[EventFacts], bool] = lambda _facts: True
    """Whether what happens at the point is this event."""

    def with_fields(self, more: Sent) -> Event:
        """The same event with more fields, or others."""
        return self._replace(sent=lambda facts: {**self.sent(facts), **more(facts)})


class EventDialect(Dialect):
    """A dialect with a table of its events."""

    events: ClassVar[Mapping[str, Event]]

    def __init_subclass__(cls) -> None:
        cls.points = {name: event.point for name, event in cls.events.items()}

    def fires(self, event: str, ctx: AgentContext) -> bool:
        return self.events[event].when(EventFacts(self, ctx, _NOWHERE))

    def subject(self, event: str, ctx: AgentContext, facts: RunFacts) -> tuple[str, ...] | None:
        about, found = self.events[event], EventFacts(self, ctx, facts)
        if about.matched == TOOL:
            return found.shown.names
        return (str(about.sent(found)[about.matched]),) if about.matched else None

    def names_of_tool(self, event: str, tool: str) -> tuple[str, ...]:
        return self.tools.names(tool) if self.events[event].matched == TOOL else ()

    def payload(self, handler: Handler, ctx: AgentContext, facts: RunFacts) -> dict[str, Any]:
        found = EventFacts(self, ctx, facts)
        return {
            **self.common_fields(handler.event, found),
            **self.events[handler.event].sent(found),
        }

    def take_result(self, call: ToolCall, answer: ProgramAnswer) -> Any:
        return result_of(call, answer.updated_output)

    def common_fields(self, event: str, found: EventFacts) -> dict[str, Any]:
        """The fields that all events have."""
        raise NotImplementedError


_NOWHERE = RunFacts("", "", "")
