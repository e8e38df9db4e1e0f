"""Asks one hook: whether it matches, whether it is still what was trusted, and what it is sent.

Which dialect a hook has is never asked here: `Dialect` has all differences.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hookline._temporary import temporary_directory
from hookline.command_hooks.dialect import Dialect, Transcripts, dialect_named, dialect_of, event_of
from hookline.command_hooks.handler import (
    HOOK_AGENT,
    Handler,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    denied,
    failed,
    json_line,
    not_started,
    session_of,
)
from hookline.command_hooks.hook_kinds import HookModels, ask_hook, can_decide
from hookline.command_hooks.objections import ENDS, is_abandoned, objections_in_a_row
from hookline.command_hooks.replies import (
    cut_answer,
    deny_unreadable,
    detach_seconds,
    is_harmless,
    read_reply,
)
from hookline.command_hooks.script import (
    ProgramSpec,
    SessionVariables,
    Watch,
    command_line,
    directory_of,
    environment,
    make_directories,
    run_program,
)
from hookline.command_hooks.trusted_files import (
    describe_change,
    search_variables,
)
from hookline.containment.session_files import remove_texts
from hookline.lifecycle import (
    AgentContext,
    ExecutionHookContext,
    HookPoint,
    SubagentHookContext,
    ToolHookContext,
)
from hookline.lifecycle.contexts import expect_context, own_and_parent_states
from hookline.state import AgentState, AssistantMessage, Log, Message, ToolCall

A = TypeVar("A", bound=AgentContext)

# --- what is remembered between events ------------------------------------------------------------------

LOADED_SKILLS = "skills.loaded"
"""The metadata key of the skills with hooks that were loaded."""
ACTIVE_SKILL = "skills.active"
_ONCE = "hookline.command_hooks.once"
"""The metadata key of the hooks that were asked for their one time."""
_QUESTIONS = "hookline.command_hooks.put"
"""The metadata key of the calls of a step that hooks were asked about."""


class RunMemory(msgspec.Struct):
    """What is remembered about one run."""

    model: str = ""
    """The model that answered last: most points do not have it."""
    answered_call: str = ""
    """The call whose question a hook answered last: no notification is needed."""
    before_summary: Log[Message] | None = None
    """The conversation that is about to be summarised."""
    replies: dict[int, tuple[Any, Any]] = {}
    """By hook, its last call and reply, if it would be asked about the call again."""
    sent_back: dict[str, int] = {}
    """How often hooks had a child continue, by its run."""
    questions: set[str] = set()
    """The calls that hooks were asked about since the run began, or was resumed."""


class SessionMemory(msgspec.Struct):
    """What is remembered about one session in this process."""

    has_begun: bool = False
    """Its hooks were asked about its start in this process."""
    model: str = ""
    """The model that answered last."""
    asked_once: set[str] = set()
    """Hooks that were asked for their one time: not all points can keep it in the state."""


def is_in_scope(handler: Handler, ctx: AgentContext) -> bool:
    """Whether a hook is asked in this run at all."""
    if handler.agent:
        if isinstance(ctx, SubagentHookContext) and ctx.name == handler.agent:
            return True
        return any(
            state.parent_run_id is not None and state.agent_id == handler.agent
            for state in own_and_parent_states(ctx)
        )
    if handler.skill:
        return any(
            handler.skill in _list_of(state, LOADED_SKILLS) for state in own_and_parent_states(ctx)
        )
    return True


def with_once_mark(handler: Handler, ctx: A) -> A:
    """The context in which a hook was asked for its one time; unchanged where the state cannot be changed."""
    if "state" not in ctx.point.changes:
        return ctx
    marks = dict.fromkeys([*_list_of(ctx.state, _ONCE), once_mark(handler)])
    return ctx.with_metadata(_ONCE, list(marks))


def once_mark(handler: Handler) -> str:
    """The name of a hook in the list of those that were asked for their one time."""
    return f"{handler.event} {handler.matcher}: {handler.name}"


def _question(ctx: ToolHookContext) -> str:
    # It is kept in the state: a fingerprint of the exact call would let somebody guess a secret in it.
    call = ctx.tool_call if ctx.live is None else ctx.live.call_without_secrets(ctx.tool_call)
    return f"{ctx.step_index} {call.id} {call.fingerprint()}"


def _list_of(state: AgentState, key: str) -> list[Any]:
    found = state.get(key)
    return found if isinstance(found, list) else []


# --- asking a hook --------------------------------------------------------------------------------------

_MODES = {"plan": "plan", "accept_edits": "acceptEdits", "deny_unlisted": "dontAsk"}
_BEFORE_AND_AT_QUESTION = ("before_tool_use", "permission_request")
"""The points of an event that happens twice for one call."""


class HookReply(msgspec.Struct, frozen=True):
    """What one hook answered, and how the program behind it ended."""

    answer: ProgramAnswer
    result: ProgramResult


class Runner:
    """Asks hooks on behalf of one agent."""

    def __init__(self, project: Path, transcripts: Path, cwd: Path) -> None:
        self.project = project
        self.cwd = str(cwd)
        """The directory of the agent's tools."""
        self.mode = "default"
        """The approval mode of runs whose state does not say one."""
        self.directory = transcripts
        self.terminal: Callable[[str], None] | None = None
        """Gets the control sequences of hooks, if there is a terminal."""
        self.display: Callable[[str], None] | None = None
        """Shows text in place of the model's. Without it, such hooks only observe."""
        self.models = HookModels()
        self.variables = SessionVariables()
        self._search_variables: dict[int, tuple[Handler, dict[str, str]]] = {}
        # Matchers look at the call alone, so that `explain` knows without a run whether a hook would be asked.
        self._anywhere = RunFacts(str(project), self.cwd, "")
        self._transcripts: dict[type[Transcripts], Transcripts] = {}
        self._runs: dict[str, RunMemory] = {}
        self._sessions: dict[str, SessionMemory] = {}

    def run(self, state: AgentState) -> RunMemory:
        """What is remembered about a run."""
        return self._runs.setdefault(state.run_id, RunMemory())

    def session(self, state: AgentState) -> SessionMemory:
        """What is remembered about a session."""
        return self._sessions.setdefault(session_of(state), SessionMemory())

    # --- whether it is asked ------------------------------------------------------------------------

    def matches(self, handler: Handler, ctx: AgentContext, *, anywhere: bool = False) -> bool:
        """Whether a hook is asked about this; `anywhere` as in the runs of its subagent or its skill."""
        if not anywhere and not self._is_in_force(handler, ctx):
            return False
        by_model = handler.kind in ("prompt", "agent")
        is_of_hook = str(getattr(ctx, "name", "")).startswith(f"{HOOK_AGENT}: ")
        if is_of_hook or (by_model and ctx.state.agent_id == HOOK_AGENT):
            return False
        dialect = dialect_of(handler)
        if not dialect.fires(handler.event, ctx) or self._is_over(handler, dialect, ctx):
            return False
        subject = dialect.subject(handler.event, ctx, self._anywhere)
        if subject is not None and not dialect.matcher(handler)(subject):
            return False
        if not handler.rule:
            return True
        from hookline.command_hooks.permission_rules import is_rule_for  # takes a while to load

        call: ToolCall | None = getattr(ctx, "tool_call", None)
        return call is not None and is_rule_for(handler.rule, call, self.cwd)

    def _is_in_force(self, handler: Handler, ctx: AgentContext) -> bool:
        if not is_in_scope(handler, ctx):
            return False
        if not handler.once:
            return True
        mark = once_mark(handler)
        is_marked = any(mark in _list_of(state, _ONCE) for state in own_and_parent_states(ctx))
        return not is_marked and mark not in self.session(ctx.state).asked_once

    def _is_over(self, handler: Handler, dialect: Dialect, ctx: AgentContext) -> bool:
        """Whether the event is over for this hook: it was answered, or asked about, or has not happened yet.

        The state is looked at only where it counts: `explain` has none.
        """
        point, call = ctx.point, getattr(ctx, "tool_call", None)
        event = dialect.events[handler.event]
        if event.observes and call is not None and self.run(ctx.state).answered_call == call.id:
            return True
        if point == HookPoint.STOP:
            return is_abandoned(ctx) and not dialect.is_asked_when_cancelled
        if isinstance(ctx, ToolHookContext) and point == HookPoint.PERMISSION_REQUEST:
            mark, now = _question(ctx), self.run(ctx.state).questions
            was_asked = mark in _list_of(ctx.state, _QUESTIONS) and mark not in now
            return was_asked and not dialect.repeats_questions
        if isinstance(ctx, ExecutionHookContext) and dialect.is_restart(handler.event):
            return not ctx.resumed or self.session(ctx.state).has_begun
        if point == HookPoint.BEFORE_INFERENCE and event.after_summary:
            before = self.run(ctx.state).before_summary
            return before is None or ctx.state.messages.since(before) is not None
        return False

    # --- asking -------------------------------------------------------------------------------------

    async def ask(
        self, handler: Handler, ctx: AgentContext, facts: RunFacts, watch: Watch | None = None
    ) -> HookReply:
        """Run a hook, and read its answer. It raises only when the task is cancelled.

        `watch` is shown the beginning of a program's output, and may change its time limit.
        """
        event = event_of(handler)
        if (event.also, event.point) != _BEFORE_AND_AT_QUESTION:
            return await self._ask(handler, ctx, facts, watch)
        replies, asked = self.run(ctx.state).replies, expect_context(ctx, ToolHookContext).tool_call
        call, reply = replies.pop(id(handler), (None, None))
        is_second = ctx.point == HookPoint.PERMISSION_REQUEST
        if isinstance(reply, HookReply) and call == asked and is_second:
            return reply
        reply = await self._ask(handler, ctx, facts, watch)
        replies[id(handler)] = (asked, reply)
        return reply

    async def ask_or_detach(
        self, handler: Handler, ctx: AgentContext, facts: RunFacts
    ) -> tuple[HookReply, asyncio.Task[HookReply] | None]:
        """A hook's reply; once it has become async, an empty one, and the task that will have the real one."""
        if not dialect_of(handler).can_detach(handler):
            return await self.ask(handler, ctx, facts), None
        detached = asyncio.get_running_loop().create_future()

        def watch(printed: bytes) -> float | None:
            seconds = detach_seconds(printed)
            if seconds is not None and not detached.done():
                detached.set_result(None)
            return seconds

        task = asyncio.ensure_future(self.ask(handler, ctx, facts, watch))
        try:
            await asyncio.wait({task, detached}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        if task.done():
            return task.result(), None
        return HookReply(ProgramAnswer(), ProgramResult(0)), task

    async def _ask(
        self, handler: Handler, ctx: AgentContext, facts: RunFacts, watch: Watch | None
    ) -> HookReply:
        problem = describe_change(handler, self.project)
        if problem:
            is_denied = can_decide(handler, ctx.point)
            return HookReply(denied(problem) if is_denied else failed(problem), not_started(""))
        dialect = dialect_of(handler)
        is_start = ctx.point == HookPoint.SESSION_START or (
            ctx.point == HookPoint.EXECUTION_START and dialect.is_restart(handler.event)
        )
        env_file = _empty_file() if is_start else ""
        facts = msgspec.structs.replace(facts, env_file=env_file)
        payload = dialect.payload(handler, ctx, facts)
        try:
            if handler.kind == "command":
                result = await self._run(handler, ctx, facts, payload, watch)
            else:
                result = await ask_hook(handler, ctx, payload, self.models)
            answer = deny_unreadable(read_reply(dialect, handler, result), result, handler, ctx)
            answer = self._show(answer)
            if env_file and not answer.has_failed:
                answer = self.variables.keep(handler, ctx, Path(env_file), answer)
        finally:
            if env_file:
                shutil.rmtree(os.path.dirname(env_file), ignore_errors=True)
        return HookReply(cut_answer(answer, facts.session_id), result)

    async def _run(
        self,
        handler: Handler,
        ctx: AgentContext,
        facts: RunFacts,
        payload: dict[str, Any],
        watch: Watch | None,
    ) -> ProgramResult:
        """Run a program. Nothing of the event is in its command line: that is in its input."""
        make_directories(handler)
        argv, body = command_line(handler, facts), json_line(payload)
        if handler.in_argument:  # without a shell, which could read it as commands
            argv, body = (*argv, body.decode().strip()), b""
        env = dialect_of(handler).event_variables(payload)
        search = self._search_variables_of(handler)
        env |= environment(handler, facts, self.variables.of(handler, facts), search)
        if ctx.has_run and ctx.run.is_replay:
            env["HOOKLINE_REPLAY"] = "1"
        cwd = directory_of(handler, facts)
        return await run_program(ProgramSpec(argv, body, env, cwd, handler.timeout, watch))

    def prepare(self, handlers: Iterable[Handler]) -> None:
        """Note where programs and modules of hooks are searched, before a command can change that."""
        for handler in handlers:
            self._search_variables_of(handler)

    def _search_variables_of(self, handler: Handler) -> dict[str, str]:
        if id(handler) not in self._search_variables:
            found = search_variables(handler, os.environ, self.project)
            self._search_variables[id(handler)] = handler, found
        return self._search_variables[id(handler)][1]

    def _show(self, answer: ProgramAnswer) -> ProgramAnswer:
        """The answer without what is for the terminal, which is sent there if it is harmless."""
        if answer.display and self.display is not None:
            self.display(answer.display)
        if not answer.terminal:
            return msgspec.structs.replace(answer, display="") if answer.display else answer
        messages = answer.messages
        if not is_harmless(answer.terminal):
            messages = (
                *messages,
                "its terminal sequence is not a title, a notification or a bell",
            )
        elif self.terminal is not None:
            self.terminal(answer.terminal)
        return msgspec.structs.replace(answer, terminal="", display="", messages=messages)

    # --- what it is sent ----------------------------------------------------------------------------

    def prepare_facts(self, ctx: AgentContext, dialect: str) -> RunFacts:
        """What hooks are sent about a run, with the transcript of a dialect brought up to date.

        It is called before any hook of a batch is started: nobody writes the file while they read it.
        """
        state: AgentState = ctx.state
        memory = self.run(state)
        mode = state.metadata.get("hookline.approval")
        named = mode.get("mode", "") if isinstance(mode, dict) else self.mode
        child = getattr(ctx, "child_run_id", "")
        memory.model = _model(ctx) or memory.model
        if state.parent_run_id is None:
            session = self.session(state)
            session.model = memory.model = memory.model or session.model
        facts = RunFacts(
            project=str(self.project),
            cwd=self.cwd,
            session_id=session_of(state),
            permission_mode=_MODES.get(named, "default"),
            model=memory.model,
            objections=memory.sent_back.get(child, 0) if child else state.counters.objections,
            objections_in_a_row=objections_in_a_row(ctx) if ctx.point.value in ENDS else 0,
        )
        form = dialect_named(dialect).transcripts
        return facts if form is None else self._with_transcript(form, ctx, facts)

    def _with_transcript(
        self, form: type[Transcripts], ctx: AgentContext, facts: RunFacts
    ) -> RunFacts:
        if form not in self._transcripts:  # several dialects may have one form
            self._transcripts[form] = form(self.directory)
        kept = self._transcripts[form]
        written = {"transcript": str(kept.path(ctx.state))}
        child = getattr(getattr(ctx, "result", None), "state", None)
        response, turn = getattr(ctx, "response", None), list[Message]()
        if response is not None:  # it is not in the state yet
            turn = [AssistantMessage(response.text, response.calls, response.reasoning)]
        with contextlib.suppress(OSError):  # a full disk is no reason not to ask the hooks
            kept.write(ctx.state, facts, turn)
            if isinstance(child, AgentState):
                written["child_transcript"] = str(kept.write(child, facts))
        return msgspec.structs.replace(facts, **written)

    # --- what happened ------------------------------------------------------------------------------

    def begin_session(self, ctx: AgentContext) -> None:
        """A session has begun, or continues in this process."""
        self.session(ctx.state).has_begun = True

    def begin_summary(self, ctx: AgentContext) -> None:
        """History is about to be summarised, if nobody objects."""
        self.run(ctx.state).before_summary = ctx.state.messages

    def end_summary(self, ctx: AgentContext) -> None:
        """All hooks after a summary were asked."""
        self.run(ctx.state).before_summary = None

    def remember_question(self, ctx: ToolHookContext) -> ToolHookContext | None:
        """All hooks were asked about a call. Gives the context that says so; None if it does already."""
        mark, before = _question(ctx), _list_of(ctx.state, _QUESTIONS)
        if mark in before:
            return None
        self.run(ctx.state).questions.add(mark)
        kept = [each for each in before if each.startswith(f"{ctx.step_index} ")]
        return ctx.with_metadata(_QUESTIONS, [*kept, mark])

    def end_run(self, state: AgentState, *, is_paused: bool) -> None:
        """A run is over, or paused."""
        if is_paused:
            self.run(state).questions.clear()
        else:
            self._runs.pop(state.run_id, None)

    def end_session(self, state: AgentState) -> None:
        """A session is over."""
        for each in self._transcripts.values():
            each.forget(state)
        self._sessions.pop(session_of(state), None)
        self._runs.pop(state.run_id, None)
        self.variables.forget(session_of(state))
        remove_texts(session_of(state))


def _model(ctx: AgentContext) -> str:
    """The model that has answered, or that is asked; empty where the driver does not say."""
    response = getattr(ctx, "response", None)
    if response is not None and response.model:
        return str(response.model)
    return ctx.run.model.partition(", then ")[0] if ctx.has_run else ""  # of several the first


def _empty_file() -> str:
    """An empty file for the variables that a hook sets."""
    path = temporary_directory() / "env.sh"
    path.touch(0o600)
    return str(path)
