"""Asking one hook: is it still what was trusted, what is it sent, and what does its answer mean."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hookline.command_hooks import http, other_transcripts
from hookline.command_hooks.announcing import understood
from hookline.command_hooks.answers import Answer, failed
from hookline.command_hooks.consulting import AGENT_ID, consult, is_of_a_hook
from hookline.command_hooks.definition import Handler, home_directory
from hookline.command_hooks.dialects import DIALECTS, Place
from hookline.command_hooks.dialects.endings import is_abandoned
from hookline.command_hooks.environment import environment, expanded
from hookline.command_hooks.gemini_transcript import GeminiTranscripts
from hookline.command_hooks.models import Models
from hookline.command_hooks.process import Order, Ran, run_program
from hookline.command_hooks.questions import Questions
from hookline.command_hooks.rules import applies
from hookline.command_hooks.scoping import is_in_scope, is_over, mark_of
from hookline.command_hooks.sequences import is_harmless
from hookline.command_hooks.stopping import ENDS, objections_in_a_row
from hookline.command_hooks.texts import Spill
from hookline.command_hooks.tool_calling import call_tool
from hookline.command_hooks.transcript import Transcripts
from hookline.command_hooks.trusting import changed_script
from hookline.command_hooks.variables import KeptVariables, session_of
from hookline.lifecycle import HookPoint
from hookline.state import AgentState, AssistantMessage, Log, Message, ToolCall

_MODES = {"plan": "plan", "accept_edits": "acceptEdits", "deny_unlisted": "dontAsk"}


class Asked(msgspec.Struct, frozen=True):
    """What one hook said, and how the program behind it ended."""

    answer: Answer
    ran: Ran


class Runner:
    """Asks hooks on behalf of one agent."""

    def __init__(
        self, project: Path, transcripts: Transcripts, spill: Spill, cwd: Path | None = None
    ) -> None:
        self.project = project
        self.cwd = str(cwd or project)
        """Where the agent works: there begin the paths that its tools are given."""
        self.mode = "default"
        """The approval mode of runs whose state does not say one."""
        self.transcripts = transcripts
        self._others: dict[str, Transcripts | GeminiTranscripts] = {
            **other_transcripts.beside(transcripts),
            "gemini": GeminiTranscripts(transcripts.directory),
        }
        self.spill = spill
        self.terminal: Callable[[str], None] | None = None
        """Who sends the terminal what hooks want it to be sent, where there is one."""
        self.display: Callable[[str], None] | None = None
        """Who shows what hooks want shown in the place of what the model says. Without one they only look on."""
        self.models = Models()
        # Matchers look at the call alone, so that `explain` can say without a run whether a hook would be asked.
        self._here = Place(str(project), self.cwd, "")
        self.variables = KeptVariables()
        self.questions = Questions()
        self.answered: dict[str, str] = {}
        """The call whose question a hook has answered last, by run: nobody needs to be told of it."""
        self._before_summary: dict[str, Log[Message]] = {}
        """The conversation that is about to be summarised, by run."""
        self._said: dict[tuple[str, int], tuple[ToolCall, Asked]] = {}
        """What a hook said about a call that it would be asked about once more, by run and by hook."""
        self.had_their_time: dict[str, set[str]] = {}
        """Hooks that were asked for the one time they are to be asked, by session: not all points can keep it in the
        state."""
        self._begun: set[str] = set()
        """Sessions whose hooks were told of their beginning in this process: what they have set is known."""
        self._models_seen: dict[str, str] = {}
        """The model that has answered last, by run: most points do not say it."""
        self.sent_back: dict[str, int] = {}
        """How often hooks have sent a child back to work, by its run."""

    # --- when ---------------------------------------------------------------------------------------

    def matches(self, handler: Handler, ctx: Any, *, anywhere: bool = False) -> bool:
        """Whether a hook is asked about this; `anywhere` as if its subagent or its skill were at work."""
        is_out = (
            not is_in_scope(handler, ctx) or is_over(handler, ctx) or self._was_last(handler, ctx)
        )
        if is_out and not anywhere:
            return False
        by_model = handler.kind in ("prompt", "agent")
        if is_of_a_hook(ctx) or (by_model and ctx.state.agent_id == AGENT_ID):
            return False
        dialect = DIALECTS[handler.source.dialect]
        if not dialect.fires(handler.event, ctx) or self._is_answered(handler, ctx):
            return False
        if ctx.point == HookPoint.STOP and is_abandoned(ctx) and not dialect.is_told_of_interrupts:
            return False
        is_foreign = dialect.name != "hookline"
        if ctx.point == HookPoint.PERMISSION_REQUEST and is_foreign and self.questions.is_put(ctx):
            return False
        begins_again = ctx.point == HookPoint.EXECUTION_START and dialect.begins_again(
            handler.event
        )
        if begins_again and (not ctx.resumed or session_of(ctx.state) in self._begun):
            return False
        is_late = ctx.point == HookPoint.BEFORE_INFERENCE and self.waits_for_summary(handler)
        if is_late and not self._is_summarised(ctx.state):
            return False
        place = self._here
        subject = dialect.subject(handler.event, ctx, place)
        if subject is not None and not dialect.test(handler)(subject):
            return False
        if not handler.rule:
            return True
        call: ToolCall | None = getattr(ctx, "tool_call", None)
        return call is not None and applies(handler.rule, call, place.cwd)

    def _was_last(self, handler: Handler, ctx: Any) -> bool:
        return handler.once and mark_of(handler) in self.had_their_time.get(
            session_of(ctx.state), ()
        )

    @staticmethod
    def waits_for_summary(handler: Handler) -> bool:
        """Whether a hook is asked once history has been summarised."""
        return handler.event in DIALECTS[handler.source.dialect].after_compacting

    def compacting(self, ctx: Any) -> None:
        """History is about to be summarised, if nobody objects."""
        self._before_summary[ctx.state.run_id] = ctx.state.messages

    def compacted(self, ctx: Any) -> None:
        """Whoever wanted to know has been told."""
        self._before_summary.pop(ctx.state.run_id, None)

    def _is_summarised(self, state: AgentState) -> bool:
        before = self._before_summary.get(state.run_id)
        return before is not None and state.messages.since(before) is None

    def _is_answered(self, handler: Handler, ctx: Any) -> bool:
        is_told = handler.event in DIALECTS[handler.source.dialect].observing
        call = getattr(ctx, "tool_call", None)
        return is_told and call is not None and self.answered.get(ctx.state.run_id) == call.id

    # --- asking -------------------------------------------------------------------------------------

    async def ask(
        self,
        handler: Handler,
        ctx: Any,
        place: Place,
        watch: Callable[[bytes], float | None] | None = None,
    ) -> Asked:
        """Run a hook, and understand what it says. It never raises but when the task is cancelled.

        `watch` is shown what a program prints first, and may give it another time from then on.
        """
        if handler.event not in DIALECTS[handler.source.dialect].answered_once:
            return await self._ask(handler, ctx, place, watch)
        key = (ctx.state.run_id, id(handler))
        call, said = self._said.pop(key, (None, None))
        if said is not None and call == ctx.tool_call and ctx.point == HookPoint.PERMISSION_REQUEST:
            return said
        said = await self._ask(handler, ctx, place, watch)
        self._said[key] = (ctx.tool_call, said)
        return said

    async def _ask(self, handler: Handler, ctx: Any, place: Place, watch: Any) -> Asked:
        changed = changed_script(handler)
        if changed:
            return Asked(self._changed(changed, ctx), Ran(None, problem="spawn_error"))
        dialect = DIALECTS[handler.source.dialect]
        is_start = ctx.point == HookPoint.SESSION_START or (
            ctx.point == HookPoint.EXECUTION_START and dialect.begins_again(handler.event)
        )
        env_file = _env_file() if is_start else ""
        place = msgspec.structs.replace(place, env_file=env_file)
        payload = dialect.payload(handler, ctx, place)
        try:
            if handler.kind in ("command", "http"):
                ran = await self._run(handler, ctx, place, payload, watch)
            else:
                ran = await _answered(handler, ctx, payload, self.models.driver(handler.model))
            answer = self._shown(understood(dialect, handler, ran))
            if env_file and not answer.has_failed:
                answer = self.variables.keep(handler, ctx, Path(env_file), answer)
        finally:
            if env_file:
                os.unlink(env_file)
        return Asked(self._short(answer), ran)

    async def _run(
        self, handler: Handler, ctx: Any, place: Place, payload: dict[str, Any], watch: Any
    ) -> Ran:
        body = encoded(payload)
        if handler.kind == "http":
            problem = http.problem_with(handler, ctx.point.value)
            if problem:
                return Ran(None, problem="spawn_error", detail=problem)
            return await http.post(handler, body)
        _make_directories(handler)
        argv = _argv(handler, place)
        if (
            handler.in_argument
        ):  # of a program without a shell, so that it cannot mean anything else
            argv, body = (*argv, body.decode().strip()), b""
        order = Order(
            argv=argv,
            stdin=body,
            env={
                **DIALECTS[handler.source.dialect].told(payload),
                **environment(handler, place, self.variables.of(handler, place)),
                **({"HOOKLINE_REPLAY": "1"} if ctx.run is not None and ctx.run.is_replay else {}),
            },
            cwd=_directory(handler, place),
            timeout=handler.timeout,
            watch=watch,
        )
        return await run_program(order)

    def _shown(self, answer: Answer) -> Answer:
        """The answer, once the terminal has what is for it; what is not harmless is left out, and told."""
        if answer.display and self.display is not None:
            self.display(answer.display)
        if not answer.terminal:
            return msgspec.structs.replace(answer, display="") if answer.display else answer
        told = answer.messages
        if not is_harmless(answer.terminal):
            told = (*told, "what it sends to the terminal is no title, notification or bell")
        elif self.terminal is not None:
            self.terminal(answer.terminal)
        return msgspec.structs.replace(answer, terminal="", display="", messages=told)

    def _changed(self, script: str, ctx: Any) -> Answer:
        problem = (
            f"its script {script} has changed since it was trusted; look at it, and trust it again"
        )
        if ctx.point.blocks is not None and ctx.point.value in http.DECIDING:
            return Answer(decision="deny", reason=problem, status="blocked")
        return failed(problem)

    def _short(self, answer: Answer) -> Answer:
        return msgspec.structs.replace(
            answer,
            reason=self.spill.cut(answer.reason),
            contexts=tuple(map(self.spill.cut, answer.contexts)),
            messages=tuple(map(self.spill.cut, answer.messages)),
            stop_reason=self.spill.cut(answer.stop_reason),
        )

    def begun(self, ctx: Any) -> None:
        """A session has begun, or goes on here."""
        self._begun.add(session_of(ctx.state))

    def forget(self, state: AgentState) -> None:
        """A session is over."""
        for others in self._others.values():
            others.forget(state)
        self._begun.discard(session_of(state))
        self.variables.forget(session_of(state))
        self.had_their_time.pop(session_of(state), None)
        self.answered.pop(state.run_id, None)
        self._models_seen.pop(state.run_id, None)
        self._before_summary.pop(state.run_id, None)
        self._said = {key: said for key, said in self._said.items() if key[0] != state.run_id}
        self.sent_back = {
            run: n for run, n in self.sent_back.items() if not run.startswith(f"{state.run_id}/")
        }
        self.transcripts.forget(state)

    # --- where --------------------------------------------------------------------------------------

    def place(self, ctx: Any) -> Place:
        """Where this happens, without bringing the transcript up to date."""
        state: AgentState = ctx.state
        mode = state.metadata.get("hookline.approval")
        named = mode.get("mode", "") if isinstance(mode, dict) else self.mode
        child = getattr(ctx, "child_run_id", "")
        model = self._models_seen[state.run_id] = _model(ctx) or self._models_seen.get(
            state.run_id, ""
        )
        return Place(
            project=str(self.project),
            cwd=self.cwd,
            session_id=session_of(state),
            transcript=str(self.transcripts.path(state)),
            permission_mode=_MODES.get(named, "default"),
            model=model,
            objections=self.sent_back.get(child, 0) if child else state.counters.objections,
            in_a_row=objections_in_a_row(ctx) if ctx.point.value in ENDS else 0,
        )

    def placed(self, ctx: Any, dialect: str = "claude") -> Place:
        """Where this happens, with transcripts that are up to date, in the form that scripts of a dialect read.

        It is called before any hook of the batch is started: while they read a file nobody writes it.
        """
        place = self.place(ctx)
        kept = self._others.get(dialect, self.transcripts)
        child = getattr(getattr(ctx, "result", None), "state", None)
        try:
            written = {"transcript": str(kept.write(ctx.state, place, _turn(ctx)))}
            if isinstance(child, AgentState):
                written["child_transcript"] = str(kept.write(child, place))
        except OSError:
            return place  # a full disk is no reason not to ask the hooks
        return msgspec.structs.replace(place, **written)


async def _answered(handler: Handler, ctx: Any, payload: dict[str, Any], driver: Any) -> Ran:
    """The answer of a hook that is no program and no address, if it comes in time."""
    try:
        async with asyncio.timeout(handler.timeout):
            if handler.kind == "mcp_tool":
                return await call_tool(handler, ctx, payload)
            return await consult(handler, ctx, encoded(payload), driver)
    except TimeoutError:
        return Ran(None, problem="timeout", detail=f"{handler.timeout:g} s")


def _turn(ctx: Any) -> tuple[Message, ...]:
    """What the model has just said, while that is not in the state yet."""
    response = getattr(ctx, "response", None)
    if response is None:
        return ()
    return (AssistantMessage(response.text, response.calls, response.reasoning),)


def _model(ctx: Any) -> str:
    """The model that has answered, or the one that is asked; empty where the agent's driver does not say."""
    response = getattr(ctx, "response", None)
    if response is not None and response.model:
        return str(response.model)
    return "" if ctx.run is None else ctx.run.model.partition(", then ")[0]  # of several the first


def _env_file() -> str:
    """An empty file for the variables that a hook sets."""
    descriptor, name = tempfile.mkstemp(".sh", "hookline-env-")
    os.close(descriptor)
    return name


def encoded(payload: dict[str, Any]) -> bytes:
    """The JSON that a hook reads, on one line that ends."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode(errors="replace") + b"\n"


def _make_directories(handler: Handler) -> None:
    """Make what hooks find made elsewhere: the directory of a plugin's data, and the one of the agent in the home."""
    own = DIALECTS[handler.source.dialect].own
    wanted = (handler.source.data, str(home_directory() / own) if own else "")
    for each in filter(None, wanted):
        with contextlib.suppress(OSError):
            os.makedirs(each, mode=0o700, exist_ok=True)


def _argv(handler: Handler, place: Place) -> tuple[str, ...]:
    """What to start. Nothing of the event is ever in it: that goes over stdin."""
    if handler.argv is not None:
        return tuple(expanded(word, handler, place) for word in handler.argv)
    command = expanded(handler.command, handler, place, for_shell=True)
    if handler.shell == "powershell":
        return ("pwsh", "-NoProfile", "-NonInteractive", "-Command", command)
    shell = handler.shell or DIALECTS[handler.source.dialect].shell
    # Not a machine's `/bin/sh`, which may know less: `[[ ... ]]` is an error to it, and errors look like a refusal.
    return (shell if shell == "bash" and shutil.which("bash") else "/bin/sh", "-c", command)


def _directory(handler: Handler, place: Place) -> str:
    # In the project, wherever the agent works: files that hooks name and keep are written from there.
    base = Path(place.project)
    for each in (base / handler.cwd, base, home_directory()):
        if each.is_dir():
            return str(each)
    return "/"
