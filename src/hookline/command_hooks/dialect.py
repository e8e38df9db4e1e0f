"""What a dialect is: one protocol of hooks, with its files, events, names, fields and rules.

Whoever runs hooks knows this class and no dialect. The dialects are in `dialects/`, one file or folder each;
`register_dialect` adds one of your own.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from hookline.command_hooks.handler import (
    Handler,
    HookSearch,
    HookSource,
    Level,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    as_uuid,
    denied,
    json_line,
)
from hookline.command_hooks.tools import (
    NameTest,
    ShownCall,
    ToolNames,
    command_of,
    failure_text,
    file_path,
    has_failed,
    output_text,
    result_of,
)
from hookline.errors import BuildError, HooklineError, RegistrationError, UsageError, in_words
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
from hookline.own_directories import state_directory
from hookline.state import (
    AgentState,
    AssistantMessage,
    InferenceRequest,
    InferenceResponse,
    Log,
    Message,
    RunStatus,
    Step,
    StopReason,
    ToolCall,
    ToolResult,
)

_NOTHING: Mapping[str, str] = MappingProxyType({})
_NONE: frozenset[str] = frozenset()


# --- the table of its events ------------------------------------------------------------------------------

_ENDINGS = {RunStatus.FAILED: "error", RunStatus.CANCELLED: "aborted"}
_SOURCES = ("startup", "resume", "clear", "compact", "fork")


class EventFacts:
    """What there is to say about one event. A dialect chooses of it, and has its own names for it."""

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
    def response(self) -> InferenceResponse:
        """The model's response; an empty one before it has answered."""
        return self.inference.response or InferenceResponse()

    # --- a call -----------------------------------------------------------------------------------------

    @property
    def call(self) -> ToolCall:
        """The call that the event is about."""
        return self.tool.tool_call

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

    def server(self, command: Callable[[tuple[str, ...]], dict[str, Any]]) -> dict[str, Any]:
        """The MCP server of the tool, without secrets: its address, or its command in this form; empty without one."""
        tool = self.ctx.run.tool(self.call.name) if self.ctx.has_run else None
        if tool is None or not tool.served_by:
            return {}
        from hookline.redaction import redact  # only where there is a server: it takes a while

        words = tuple(map(redact, tool.served_by))
        return {"url": words[0]} if len(words) == 1 and "://" in words[0] else command(words)

    @property
    def execution(self) -> ToolResult:
        """The result of the call, which a context after a tool has."""
        if self.tool.execution is None:
            raise TypeError(f"{self.ctx.point} has no result of a call.")
        return self.tool.execution

    @property
    def has_failed(self) -> bool:
        """Whether the tool failed or was interrupted; a command fails with any exit code but 0."""
        return self.tool.execution is None or has_failed(self.tool.execution)

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

    # --- the run and the session ------------------------------------------------------------------------

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
        said = (m for m in reversed(self.ctx.state.messages) if isinstance(m, AssistantMessage))
        return next((message.text for message in said if message.text), "")

    @property
    def child_text(self) -> str:
        """The answer of the child run."""
        return getattr(self.child.result, "text", "") or ""

    def agent_fields(self, called: Callable[[str], str] = str) -> dict[str, str]:
        """The fields that name a child run; `called` makes an id of its run id. Empty for the user's own run."""
        state = self.ctx.state
        if state.parent_run_id is None:
            return {}
        return {"agent_id": called(state.run_id), "agent_type": state.agent_id}

    @property
    def session_source(self) -> str:
        """How a session began: `startup`, `resume`, `clear`, `compact` or `fork`."""
        if self.ctx.point == HookPoint.EXECUTION_START:
            return "resume"
        source: str = getattr(self.ctx, "source", "compact")
        return source if source in _SOURCES else "startup"

    @property
    def session_end(self) -> str:
        """Why a session is over: `clear`, `prompt_input_exit` or `other`."""
        said: str = getattr(self.ctx, "source", "")
        return said if said in ("clear", "prompt_input_exit") else "other"

    @property
    def ending(self) -> str:
        """How the last run of a session ended: `completed`, `error`, `aborted` or `timeout`."""
        ending = self.ctx.state.ending
        if ending is None:
            return "completed"
        if ending.stop_reason is StopReason.TIME_LIMIT:
            return "timeout"
        if ending.stop_reason is StopReason.CANCELLED:  # between two steps it is stopped by a hook
            return "aborted"
        return _ENDINGS.get(ending.status, "completed")


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
    also: str = ""
    """A second point where it happens. If both are about one call, the answer at the first holds at the second."""
    observes: bool = False
    """Its hooks decide nothing."""
    displays: bool = False
    """Its hooks say what is shown in place of the model's words."""
    after_summary: bool = False
    """Before a request to the model it happens only if history has just been summarised."""
    is_later: bool = False
    """It happens after the others of its point."""
    denies_failure: bool = False
    """A hook that does not start, or that fails, denies."""

    def with_fields(self, more: Sent) -> Event:
        """The same event with more fields, or others."""
        return self._replace(sent=lambda facts: {**self.sent(facts), **more(facts)})


_NOWHERE = RunFacts("", "", "")


# --- the interface ------------------------------------------------------------------------------------


class ModelVerdict(msgspec.Struct, frozen=True):
    """A model's answer to a hook of the kind `prompt` or `agent`."""

    ok: bool
    reason: str = ""
    impossible: bool = False


class Dialect:
    """One protocol of hooks.

    A dialect must have `name`, `events`, `common_fields` and `read_answer`. Everything else has a default.
    """

    name: ClassVar[str]
    events: ClassVar[Mapping[str, Event]] = {}
    """The table of its events: the point of each, its fields, its matcher and when it happens."""

    # --- its files ----------------------------------------------------------------------------------

    has_files: ClassVar[bool] = False
    """It has configuration files of its own, which `find` and `read` know."""
    home_folder: ClassVar[str] = ""
    """The directory in a user's home that hooks expect to be there."""
    configuration_folders: ClassVar[tuple[str, ...]] = ()
    """Directories of a project that hold its files: code in them is there for hooks."""
    protected_folders: ClassVar[tuple[str, ...]] = ()
    """Directories of a project where any new file is a new hook."""
    manifests: ClassVar[tuple[str, ...]] = ()
    """Files of a plugin that say which hooks it has."""
    agent_folders: ClassVar[tuple[str, ...]] = ()
    """Directories of a project with subagents, whose pages may have hooks."""
    skill_folders: ClassVar[tuple[str, ...]] = ()
    """Directories of a project with skills, whose pages may have hooks."""

    def find(self, search: HookSearch) -> Iterable[Handler]:  # noqa: ARG002 - for dialects with files
        """The hooks of all its files, for a project and a user."""
        return ()

    def find_named(self, search: HookSearch) -> Iterable[Handler]:  # noqa: ARG002 - as above
        """The hooks of named plugins, settings and pages, where its other files are not read."""
        return ()

    def read(self, path: Path, level: Level, search: HookSearch) -> Iterable[Handler]:  # noqa: ARG002 - as above
        """The hooks of one file."""
        return ()

    def mistakes(self, handler: Handler) -> Iterator[tuple[str, str]]:  # noqa: ARG002 - for dialects that have some
        """What is probably wrong with a hook, each with a remedy."""
        return iter(())

    def tools_named(self, handler: Handler) -> Iterator[str]:  # noqa: ARG002 - as above
        """The names in a matcher that must be tools of ours. Other agents have tools that we do not know."""
        return iter(())

    def names_of_tool(self, event: str, tool: str) -> tuple[str, ...]:
        """The names of a tool of ours that matchers of an event are tested with; none if it is not about tools."""
        return self.tools.names(tool) if self.events[event].matched == TOOL else ()

    # --- its events ---------------------------------------------------------------------------------

    unsupported: ClassVar[frozenset[str]] = _NONE
    """Events that exist and do not happen here."""
    starts_again: ClassVar[bool] = True
    """Hooks at the start of a session are asked again when another process resumes a run."""
    is_asked_when_cancelled: ClassVar[bool] = False
    """Hooks at the end are asked also when a person has ended the run."""
    repeats_questions: ClassVar[bool] = False
    """Hooks are asked about a permission again when a run is resumed that paused over it."""

    def points_of(self, handler: Handler) -> Iterator[str]:
        """The points where a hook is asked."""
        event = self.events[handler.event]
        yield event.point
        if event.also:
            yield event.also
        if self.is_restart(handler.event):
            yield "execution_start"

    def is_restart(self, event: str) -> bool:
        """Whether an event happens also when another process resumes a run."""
        return self.starts_again and self.events[event].point == "session_start"

    def fires(self, event: str, ctx: AgentContext) -> bool:
        """Whether what happens at the point is this event."""
        return self.events[event].when(EventFacts(self, ctx, _NOWHERE))

    def subject(self, event: str, ctx: AgentContext, facts: RunFacts) -> tuple[str, ...] | None:
        """The names that matchers are tested with; None where there are no matchers."""
        about, found = self.events[event], EventFacts(self, ctx, facts)
        if about.matched == TOOL:
            return found.shown.names
        return (str(about.sent(found)[about.matched]),) if about.matched else None

    def matcher(self, handler: Handler) -> NameTest:  # noqa: ARG002 - for dialects with matchers
        """The test of a hook's matcher. A wrong matcher is a UsageError."""
        return lambda _names: True

    # --- what goes in -------------------------------------------------------------------------------

    tools: ClassVar[ToolNames] = ToolNames({})
    """Our tools under its names."""
    placeholders: ClassVar[Mapping[str, str]] = _NOTHING
    """More placeholders in commands, with their values."""
    transcripts: ClassVar[type[Transcripts] | None] = None
    """Writes conversations in a form that hooks can read; None if they get no transcript."""
    shell: ClassVar[str] = "/bin/sh"
    """What reads command lines, unless a hook names another."""
    runs_in_order: ClassVar[bool] = False
    """The hooks of an event run one after the other."""
    expands_env: ClassVar[bool] = False
    """Values in a hook's own `env` may name variables."""
    identity_variables: ClassVar[frozenset[str]] = _NONE
    """More variables by which scripts recognise the agent. They are not inherited, nor are those for plugins and
    skills: scripts would use another dialect."""
    reserved_prefixes: ClassVar[tuple[str, ...]] = ()
    """How variables begin, in capitals, that a hook cannot set for commands and for later hooks."""
    scrub_variables: ClassVar[frozenset[str]] = _NONE
    """Variables with which a user keeps credentials from all hooks."""
    project_variables: ClassVar[frozenset[str]] = _NONE
    """Variables and placeholders for the project's directory."""
    root_variables: ClassVar[frozenset[str]] = _NONE
    """Variables and placeholders for the directory of a plugin."""
    skill_variables: ClassVar[frozenset[str]] = _NONE
    """Variables and placeholders for the directory of a skill."""
    data_variables: ClassVar[frozenset[str]] = _NONE
    """Variables and placeholders for the directory of a plugin's data."""

    def show(self, call: ToolCall, facts: RunFacts) -> ShownCall:
        """A call under the dialect's names."""
        return self.tools.show(call, facts.cwd)

    def payload(self, handler: Handler, ctx: AgentContext, facts: RunFacts) -> dict[str, Any]:
        """The JSON that a hook reads."""
        found, event = EventFacts(self, ctx, facts), handler.event
        return {**self.common_fields(event, found), **self.events[event].sent(found)}

    def common_fields(self, event: str, found: EventFacts) -> dict[str, Any]:
        """The fields that all events have."""
        raise NotImplementedError

    def variables(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        """The variables that a hook finds: the directories of the project and of a plugin."""
        found = dict.fromkeys(self.project_variables, facts.project)
        if handler.source.root:
            found |= dict.fromkeys(self.root_variables, handler.source.root)
            found |= dict.fromkeys(self.data_variables, handler.source.data)
        return found

    def event_variables(self, payload: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG002 - for dialects with some
        """The variables that repeat what is in the JSON."""
        return {}

    # --- what comes out -----------------------------------------------------------------------------

    fails_closed: ClassVar[bool] = False
    """A hook that a program or a settings file of ours names blocks when it fails, unless it says otherwise. Hooks of
    its own files have the `on_failure` that `read` gives them."""
    is_strict: ClassVar[bool] = False
    """A decision that a point cannot carry out is an error. Elsewhere it is shown as a message."""
    withholds_results: ClassVar[bool] = False
    """A denial after a tool keeps its result from the model. Elsewhere it is feedback beside the result."""
    context_is_lasting: ClassVar[bool] = True
    """Words before a request to the model stay in the conversation. Elsewhere they are for that request alone."""
    objections_in_a_row: ClassVar[int | None] = 8
    """How often hooks may keep a run from stopping while no tool is called."""
    caps_objections: ClassVar[bool] = True
    """It limits objections to the end of a run itself, so that the agent's own cap does not count them."""

    def frame(self, handler: Handler, result: ProgramResult) -> str:  # noqa: ARG002 - the same for all in most dialects
        """The part of a program's output that is its answer: one JSON object, or text."""
        return result.stdout

    def read_answer(self, handler: Handler, result: ProgramResult) -> ProgramAnswer:
        """What the exit code and the output of a program mean, that came to its end.

        `result.stdout` is what `frame` gave, and `result.answer` the object in it. If it cannot be read, only a denial
        counts, by the exit code say.
        """
        raise NotImplementedError

    def read_failure(self, handler: Handler, answer: ProgramAnswer) -> ProgramAnswer:
        """What it means that a program did not start, or took too long: a failure, or a denial."""
        is_denial = answer.status != "timeout" and self.events[handler.event].denies_failure
        return denied(answer.problem) if is_denial else answer

    def combine(self, answers: Sequence[ProgramAnswer]) -> Sequence[ProgramAnswer]:
        """The answers of hooks that were asked together, where one changes what another means."""
        return answers

    def take_back(self, call: ToolCall, shown: ShownCall, answer: ProgramAnswer) -> ToolCall:
        """The call with a hook's changes, under our names."""
        return self.tools.take_back(call, shown, answer.updated_input or {})

    def take_result(self, call: ToolCall, answer: ProgramAnswer) -> Any:
        """A tool's result as a hook changed it, in the form of the tool."""
        return result_of(call, answer.updated_output)

    def change_request(self, request: InferenceRequest, answer: ProgramAnswer) -> InferenceRequest:  # noqa: ARG002 - for dialects with such hooks
        """A request to the model as a hook changed it."""
        return request

    def new_response(self, answer: ProgramAnswer) -> str | None:  # noqa: ARG002 - as above
        """The text that a hook gives in place of the model's; None if it gives none."""
        return None

    def can_detach(self, handler: Handler) -> bool:  # noqa: ARG002 - as above
        """Whether the first line of a program's output may make it an async hook."""
        return False

    def verdict_answer(
        self, handler: Handler, verdict: ModelVerdict, reason: str
    ) -> dict[str, Any]:
        """A model's no, as the JSON that a program would have printed."""
        raise NotImplementedError

    def objection_cap(self, handler: Handler) -> int | None:  # noqa: ARG002 - the same for all in most dialects
        """How often in a row a hook may object to the end of a run; None for no cap of its own."""
        return self.objections_in_a_row


# --- the conversation as a file of JSON lines, which hooks read ---------------------------------------

_DAY = 24 * 3600.0
_MONTH = 30 * _DAY
"""Seconds that a transcript is kept after the last line."""
_LONGEST_NAME = 200

Line: TypeAlias = dict[str, Any]


class Transcripts:
    """One file for each conversation, at a path that stays the same. What is settled is written once."""

    suffix: ClassVar[str] = ".jsonl"
    id_key: ClassVar[str] = ""
    """The key of a line's own id, where lines have one."""
    parent_key: ClassVar[str] = ""
    """The key in which a line names the one before it."""
    is_written_anew: ClassVar[bool] = False
    """The whole file is written each time: what is settled may change."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written: dict[Path, tuple[Log[Message], int, str | None]] = {}
        """By file: the messages in it, where they end, and the id of their last line."""
        self._next_removal = 0.0
        self._lock = threading.Lock()

    def path(self, state: AgentState) -> Path:
        """The file of a conversation."""
        name = state.session_id if state.parent_run_id is None else state.run_id
        return self.directory / f"{as_uuid(name or state.run_id or 'conversation')}{self.suffix}"

    def write(self, state: AgentState, facts: RunFacts, turn: Sequence[Message] = ()) -> Path:
        """Bring a file up to date. `turn` is what is said and not settled yet: it is written after the rest."""
        path = self.path(state)
        with self._lock:
            self._update(path, state, facts, turn)
        return path

    def _update(
        self, path: Path, state: AgentState, facts: RunFacts, turn: Sequence[Message]
    ) -> None:
        before, end, last = self._written.get(path, (Log[Message](), 0, None))
        added = state.messages.since(before) if end else None
        if added is None or self.is_written_anew:
            added, end, last = tuple(state.messages), 0, None
        if path not in self._written:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._remove_old()
        head, last = (b"", last) if end else self._encode(self.head(facts), None)
        text, last = self._encode(self.lines(added, facts, state), last)
        said, _ = self._encode(self.lines(turn, facts, None), last)
        _write_from(path, end, head + text + said)
        self._written[path] = (state.messages, end + len(head) + len(text), last)

    def head(self, facts: RunFacts) -> Iterable[Line]:  # noqa: ARG002 - for the forms that have one
        """The lines at the beginning of a file."""
        return ()

    def lines(
        self,
        messages: Sequence[Message],
        facts: RunFacts,
        state: AgentState | None,  # noqa: ARG002 - as above
    ) -> Iterable[Line]:
        """The lines of messages. There is no state for what is not settled."""
        for message in messages:
            yield from self.lines_of(message, facts)

    def lines_of(self, message: Message, facts: RunFacts) -> Iterable[Line]:
        """The lines of one message, where they do not depend on others."""
        raise NotImplementedError

    def _encode(self, lines: Iterable[Line], last: str | None) -> tuple[bytes, str | None]:
        """The lines as JSON, each with the id of the one before it, and the id of the last of them."""
        text = b""
        for line in lines:
            if self.id_key in line:
                line[self.parent_key], last = last, line[self.id_key]
            text += json_line(line)
        return text, last

    def _remove_old(self) -> None:
        """Once a day, remove what nobody has written to for a month."""
        now = time.time()
        if now < self._next_removal:
            return
        self._next_removal = now + _DAY
        for path in self.directory.rglob("*.jsonl"):
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime > _MONTH:
                    path.unlink()

    def forget(self, state: AgentState) -> None:
        """A conversation is over. The file stays."""
        self._written.pop(self.path(state), None)


def _write_from(path: Path, at: int, text: bytes) -> None:
    """Replace what a file has after a place."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while text:
            written = os.pwrite(descriptor, text, at)
            text, at = text[written:], at + written
        os.ftruncate(descriptor, at)
    finally:
        os.close(descriptor)


def timestamp() -> str:
    """Now, as most agents write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def default_directory(project: Path) -> Path:
    """The usual directory of a project's transcripts. Scripts read the project's name off the path."""
    name = re.sub(r"[^A-Za-z0-9]", "-", str(project))[-_LONGEST_NAME:]
    state = state_directory(os.environ)
    if state.is_relative_to(os.devnull):  # no home
        state = Path("/tmp") / f"hookline-{os.getuid()}"
    return state / "transcripts" / name


# --- which there are ------------------------------------------------------------------------------------

_REGISTERED: dict[str, Dialect] = {}
_OURS = "hookline.command_hooks.dialects"
"""Imported by name, at first use: dialects are above the modules that ask for them."""


def register_dialect(dialect: Dialect) -> None:
    """Add a dialect, or replace one of yours. Those of Hookline cannot be replaced."""
    if not isinstance(dialect, Dialect):
        raise RegistrationError(
            f"{dialect!r} is not a dialect.", remedy="Subclass hookline.command_hooks.Dialect."
        )
    name = getattr(dialect, "name", "")
    if not name or not dialect.events:
        raise RegistrationError(
            f"the dialect {type(dialect).__name__} has no name or no events.",
            remedy="Set `name`, and `events` with the point of each of its events.",
        )
    for method in ("common_fields", "read_answer"):
        if getattr(type(dialect), method) is getattr(Dialect, method):
            raise RegistrationError(
                f"the dialect '{name}' ({type(dialect).__name__}) has no {method}.",
                remedy="Define `common_fields` (the JSON that a hook reads) and `read_answer` (what its answer means).",
            )
    if type(_REGISTERED.get(name)).__module__.startswith(_OURS):
        raise RegistrationError(
            f"'{name}' is a dialect of Hookline.", remedy="Give yours another name."
        )
    _REGISTERED[name] = dialect


def all_dialects() -> Mapping[str, Dialect]:
    """The dialects by name."""
    importlib.import_module(_OURS)
    return _REGISTERED


def dialect_named(name: str) -> Dialect:
    """The dialect of a name."""
    found = _REGISTERED.get(name) or all_dialects().get(name)
    if found is None:
        raise UsageError(
            f"there is no dialect {name!r}.", remedy=f"Dialects: {', '.join(_REGISTERED)}."
        )
    return found


def dialect_of(handler: Handler | HookSource) -> Dialect:
    """The dialect of a hook."""
    return dialect_named((handler.source if isinstance(handler, Handler) else handler).dialect)


def event_of(handler: Handler) -> Event:
    """The event of a hook."""
    return dialect_of(handler).events[handler.event]


def page_folders(project: Path) -> dict[str, list[Path]]:
    """The usual directories of a project's subagents (`agents`) and skills (`skills`), whose pages may have hooks."""
    known = all_dialects().values()
    agents = dict.fromkeys(project / name for each in known for name in each.agent_folders)
    skills = dict.fromkeys(project / name for each in known for name in each.skill_folders)
    return {"agents": list(agents), "skills": list(skills)}


# --- hooks of all of them --------------------------------------------------------------------------------


def find_hooks(search: HookSearch, dialects: Iterable[str] | None = None) -> list[Handler]:
    """The hooks of all files that these dialects have, and those of named settings, plugins and pages."""
    wanted = _with_files() if dialects is None else tuple(dialects)
    handlers: list[Handler] = []
    for name, dialect in all_dialects().items():
        if name not in wanted:
            handlers += _find(dialect, lambda each: each.find_named(search))
    for name in wanted:
        _check_files(name)
        handlers += _find(dialect_named(name), lambda each: each.find(search))
    # An administrator's hook fails closed in any dialect.
    return [
        msgspec.structs.replace(each, on_failure="closed")
        if each.source.level is Level.MANAGED
        else each
        for each in handlers
    ]


def _find(
    dialect: Dialect, find: Callable[[Dialect], Iterable[Handler]], file: str = ""
) -> list[Handler]:
    """The hooks that a dialect finds. Of files that it fails on nobody knows which guards are in them."""
    try:
        return list(find(dialect))
    except HooklineError:
        raise
    except Exception as error:
        where = file or ", ".join(dialect.configuration_folders) or "its files"
        words = f"{type(error).__name__}: {in_words(error)}"
        raise BuildError(
            f"the dialect '{dialect.name}' cannot read the hooks in {where}: {words}.",
            remedy="Correct the file. The dialect should read it with hook_file(...), which reports what is wrong.",
        ) from error


def read_file(path: Path, dialect: str, level: Level, search: HookSearch) -> list[Handler]:
    """The hooks of one named file."""
    if not path.is_file():
        raise UsageError(f"there is no file '{path}'.", remedy="Name a file with hooks.")
    _check_files(dialect)
    return _find(dialect_named(dialect), lambda each: each.read(path, level, search), str(path))


def _with_files() -> tuple[str, ...]:
    return tuple(name for name, dialect in all_dialects().items() if dialect.has_files)


def _check_files(name: str) -> None:
    if name not in _with_files():
        raise UsageError(
            f"the dialect {name!r} has no files.", remedy=f"Dialects: {', '.join(_with_files())}."
        )
