"""`hookline hooks list|explain|lint|test`: the hooks of the agent, and what they would decide."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from hookline.agent import Agent
from hookline.cli.assembly.agent import AgentAdditions, open_agent, without_model
from hookline.cli.assembly.capabilities import packages_of
from hookline.cli.exits import Exit
from hookline.cli.interrupts import watch_signals
from hookline.cli.json_output import print_json
from hookline.cli.options import load_settings, take_target
from hookline.cli.standard_streams import user_code
from hookline.cli.terminal import page_width, print_note, print_table, print_text, printable
from hookline.config import Settings
from hookline.drivers import ScriptedDriver, call, say
from hookline.errors import HookError, UsageError, where_raised
from hookline.hooks import (
    Entry,
    HookAnswer,
    HookOptions,
    HookOutcome,
    Kind,
    Plan,
    Registration,
    describe,
    register,
    run_hooks,
)
from hookline.inspection import explain
from hookline.journal.durable import Redact
from hookline.lifecycle import AgentContext, HookPoint, OutputHookContext, ToolHookContext
from hookline.state import ToolResult

_EXAMPLE = """'{"path": "a.txt"}'"""


def _with_agent(
    settings: Settings, action: Callable[[Agent], Awaitable[Any]], *, is_lenient: bool = False
) -> Any:
    """Run an action with the agent."""

    async def run() -> Any:
        async with open_agent(settings, without_model(is_lenient=is_lenient)) as agent:
            return await action(agent)

    return asyncio.run(run())


# --- list, explain, lint --------------------------------------------------------------------------------


def list_hooks(arguments: argparse.Namespace) -> int:
    """Every hook of the agent, or every point."""
    if arguments.points:
        return _list_points(arguments)
    take_target(arguments, arguments.words, most=0)

    settings = load_settings(arguments)

    async def print_hooks(agent: Agent) -> None:
        rows = _rows(agent, packages_of(settings))
        if arguments.json:
            print_json(*rows)
            return
        for row in rows:
            if package := row.pop("package", ""):
                row["from"] += f" ({package})"
        print_table([[printable(cell) for cell in row.values()] for row in rows])

    _with_agent(settings, print_hooks)
    return Exit.DONE


def _rows(agent: Agent, packages: dict[str, str]) -> list[dict[str, str]]:
    rows = []
    for point in HookPoint:
        plan = agent.definition.plans.of(point.value)
        for entry in plan.entries if plan is not None else ():
            matcher, source = entry.registration.matcher, entry.registration.source
            row = {
                "point": point.value,
                "hook": entry.name,
                "tier": entry.tier_name,
                "from": source or "yours",
                "when": "always" if matcher is None else describe(matcher),
            }
            rows.append({**row, "package": packages[source]} if source in packages else row)
    return rows


def _list_points(arguments: argparse.Namespace) -> int:
    if arguments.words:
        raise UsageError(
            f"{arguments.words[0]!r} is not expected here.",
            remedy="--points lists those of every agent.",
        )
    for point in HookPoint:
        can = ", ".join(sorted(point.verdicts)) if not point.around else "wrap the action"
        print_text(f"{point.value:<20} {can or 'only observe'}")
        if point.blocks:
            print_text(f"{'':<20} a block: {point.blocks}", indent=21)
    return Exit.DONE


def explain_hooks(arguments: argparse.Namespace) -> int:
    """Which hooks run, in which order, and about which calls."""
    take_target(arguments, arguments.words, most=2)
    tool, *rest = arguments.words or [None]

    settings = load_settings(arguments)

    async def explain_call(agent: Agent) -> None:
        args = arguments_for(agent, tool, rest) if tool else {}
        model = "" if settings.target else _model_words(settings)
        text = explain(agent.definition, tool, args, width=page_width(sys.stdout), model=model)
        print_text(printable(text, lines=True))

    _with_agent(settings, explain_call)
    return Exit.DONE


def _model_words(settings: Settings) -> str:
    """The model that a run would have, and where that was decided."""
    from hookline.providers.local.weights import DEFAULT  # only where it is needed

    given = settings.configuration.model or ""
    names = [given] if isinstance(given, str) else list(given)
    is_default = ("local", "local:")
    shown = ", then ".join(f"local:{DEFAULT.name}" if n in is_default else n for n in names)
    where = settings.where("model")
    if where == "default":
        return f"{shown}, because none is named: no --model, no $HOOKLINE_MODEL, no file"
    return f"{shown}, by {where}"


def lint_hooks(arguments: argparse.Namespace) -> int:
    """The mistakes in the hooks."""
    take_target(arguments, arguments.words, most=0)
    settings = load_settings(arguments)

    async def lint(agent: Agent) -> list[str]:
        from hookline.cli.assembly.tool_names import wrong_names

        found = list(map(str, agent.lint()))
        # Rules about tools that are known, and that this agent lacks. The rest is among the findings.
        for each in wrong_names(settings, agent.definition.toolbox):
            if not any(f"'{each.name}'" in one for one in found):
                found.append(f"missing-tool: {each} {each.remedy}".rstrip())
        return found

    # An agent in Python has its own hooks: those of the configuration are not its.
    held = [] if settings.target else settings.held
    findings = [
        f"untrusted: {each.where}: the hook is not in force. Read it, then: hookline trust"
        for each in held
        if each.setting.startswith("hooks[")
    ]
    findings += _with_agent(settings, lint, is_lenient=True)
    for finding in findings:
        print_text(printable(finding))
    if not findings:
        print_note("no mistakes found")
    return Exit.FAILED if findings else Exit.DONE


# --- test ---------------------------------------------------------------------------------------------


def arguments_for(agent: Agent, name: str, given: list[str]) -> dict[str, Any]:
    """The arguments of a call: JSON, or as plain text the only argument that the tool needs."""
    text = given[0] if given else "{}"
    tool = agent.definition.toolbox.get(name)
    if tool is None:
        unknown = agent.definition.toolbox.unknown_error(name)
        raise UsageError(unknown.message, remedy=unknown.remedy)
    try:
        args = json.loads(text)
    except ValueError as error:
        schema = tool.spec.parameters
        needed = schema.get("required", ())
        is_text = len(needed) == 1 and schema["properties"][needed[0]].get("type") == "string"
        if is_text and text.lstrip()[:1] not in ("{", "["):
            return {str(needed[0]): text}
        raise UsageError(
            f"the arguments are not JSON: {error}.", remedy=f"Write {_EXAMPLE}."
        ) from None
    if not isinstance(args, dict):
        raise UsageError(f"the arguments are {args!r}.", remedy=f"Give an object: {_EXAMPLE}.")
    return args


def test_hooks(arguments: argparse.Namespace) -> int:
    """What each hook would answer."""
    _check_test(arguments)
    answers = asyncio.run(_ask_hooks(load_settings(arguments), arguments))
    if arguments.json:
        print_json(*answers)
    else:
        for answer in answers:
            for line in printable(str(answer), lines=True).split("\n"):
                print_text(line, indent=11)
    if not answers:
        print_note("no hook is asked about that")
    kinds = {answer.kind for answer in answers if not (answer.shadow or answer.fails_open)}
    if kinds & {"block", "stop", "failed"}:
        return Exit.BLOCKED
    return Exit.WAITING if "ask" in kinds else Exit.DONE


def _check_test(arguments: argparse.Namespace) -> None:
    take_target(arguments, arguments.words, most=2)
    given = ["a tool"] if arguments.words else []
    given += [f"--{name}" for name in ("prompt", "answer") if getattr(arguments, name) is not None]
    if len(given) != 1:
        raise UsageError(
            f"{' and '.join(given)} cannot be asked about together."
            if given
            else "there is nothing to ask the hooks about.",
            remedy="Name a tool, --prompt or --answer.",
        )
    if arguments.result is not None and not arguments.words:
        raise UsageError(
            "--result is the result of a tool, and no tool is named.",
            remedy=f"Name it: hookline hooks test read {_EXAMPLE} --result TEXT.",
        )


# --- each hook by itself, about an imagined call, prompt or answer -------------------------------

_FIRST = 10**9
_NAME = "hooks-test"
_MAX_SHOWN = 300


class TestedHook(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hook, and what it answers."""

    hook: str
    point: str
    kind: str
    tier: str = "hook"
    source: str = ""
    reason: str = ""
    changes: str = ""
    shadow: bool = False
    fails_open: bool = False
    """The hook failed, and its failure stops nothing."""
    scope: str = ""
    """Where the hook is asked at all; empty for everywhere."""
    tells: str = ""
    """What the hook adds to the conversation."""
    message: str = ""
    """What the hook tells the user, beside its decision."""
    traceback: str = ""
    """Of a hook in Python that crashed: file, line and code of each frame."""

    def __str__(self) -> str:
        words = " ".join(self.tells.split())
        tells = f"tells the model: {words[:_MAX_SHOWN]}{'...' * (len(words) > _MAX_SHOWN)}"
        notes = (
            self.scope,
            self.changes and f"changes {self.changes}",
            words and tells,
            self.message and f"tells you: {self.message}",
            "shadow: not enforced" if self.shadow else "",
        )
        head = f"{self.kind:<10} {self.hook} ({self.source or 'yours'}, {self.tier})"
        details = "".join(f" ({note})" for note in notes if note)
        frames = f"\n{textwrap.indent(self.traceback, '  ')}" if self.traceback else ""
        return f"{head}{details}{f': {self.reason}' if self.reason else ''}{frames}"


class _AnswerLog:
    """Keeps the answer of one hook."""

    monotonic = staticmethod(time.perf_counter)
    error: HookError | None = None
    answer: HookAnswer[Any] | None = None

    def report_passed(self, names: Any, readings: Sequence[float]) -> None:
        """The hook had no objection."""

    def report_context(self, ctx: AgentContext) -> None:
        """The failure itself is raised after this."""

    def report_appended(self, _entry: Entry, started: float, _ctx: AgentContext) -> float:
        """The hook said whether to continue."""
        return started

    def report_answer(self, _entry: Entry, started: float, answer: HookAnswer[Any]) -> float:
        """The hook answered, or failed."""
        self.error, self.answer = answer.error, answer
        return started


class HookTester:
    """A capability that runs before all hooks at a point, asks each of them alone, and ends the run there."""

    name = _NAME

    def __init__(self, case: argparse.Namespace) -> None:
        self._case = case  # what the flags say: a prompt, an answer, or the result of a call
        self.agent: Agent | None = None
        self.answers: list[TestedHook] | None = None

    def hooks(self) -> list[Registration]:
        """One at the point of the case, and one that keeps the tool from running."""
        options = HookOptions(name=_NAME, priority=_FIRST)
        return [
            register(HookPoint(self._point), self._ask_all, options),
            register(HookPoint.AROUND_TOOL_USE, self._replace_tool, options),
        ]

    @property
    def _point(self) -> str:
        """The point at which this would happen."""
        if self._case.prompt is not None:
            return "prompt_submit"
        if self._case.answer is not None:
            return "stop"
        return "before_tool_use" if self._case.result is None else "after_tool_use"

    async def _replace_tool(self, ctx: ToolHookContext, next: Any) -> ToolResult:  # noqa: ARG002 # the name makes it a hook
        call, result = ctx.tool_call, self._case.result or ""
        return ToolResult(result, call_id=call.id, name=call.name)

    async def _ask_all(self, ctx: AgentContext) -> HookOutcome:
        self.answers = await self._ask_at(ctx)
        if self._case.answer is not None:  # with an objection the run would not reach this point
            output = OutputHookContext(
                point=HookPoint.OUTPUT,
                state=ctx.state,
                evaluations=ctx.evaluations,
                live=ctx.live,
                output=self._case.answer,
            )
            self.answers += await self._ask_at(output)
        return HookOutcome.stop("the test is over")

    async def _ask_at(self, ctx: AgentContext) -> list[TestedHook]:
        assert self.agent is not None
        plan = self.agent.definition.plans.of(ctx.point.value)
        entries = plan.entries if plan is not None else ()
        said = [await _ask(ctx, entry.registration) for entry in entries if entry.name != _NAME]
        redact = self.agent.definition.redact
        return said if redact is None else [_without_secrets(each, redact) for each in said]


def _without_secrets(answer: TestedHook, redact: Redact) -> TestedHook:
    said = {
        name: redact(getattr(answer, name)) for name in ("reason", "tells", "message", "traceback")
    }
    return msgspec.structs.replace(answer, **said)


async def _ask(ctx: AgentContext, hook: Registration) -> TestedHook:
    matcher = hook.matcher
    answer = partial(
        TestedHook,
        hook=hook.name,
        point=hook.point.value,
        tier=hook.tier.value,
        source=hook.source,
        shadow=hook.shadow,
    )
    # A hook of a subagent or of a skill is asked as it would be there.
    matches = getattr(matcher, "matches_anywhere", None) or getattr(matcher, "matches", None)
    if matcher is not None and matches is not None and not matches(ctx):
        return answer(kind="no match", reason=f"it is for {describe(matcher)}")
    scope = getattr(matcher, "scope", "")
    enforced = msgspec.structs.replace(hook, shadow=False, matcher=None)
    log = _AnswerLog()
    try:
        result = await run_hooks(Plan(hook.point, (enforced,)), ctx, log)
    except HookError as error:
        return answer(kind="failed", reason=error.problem, scope=scope, traceback=_frames(error))
    if log.error is not None and hook.on_failure == "open":
        # Without this, a broken guard would look like one that agrees.
        reason = f"{log.error.problem} (the run continues)"
        return answer(
            kind="failed",
            reason=reason,
            fails_open=True,
            scope=scope,
            traceback=_frames(log.error),
        )
    changed = [
        name
        for name in ("tool_call", "execution", "prompt", "output")
        if getattr(ctx, name, None) != getattr(result.context, name, None)
    ]
    # An answer without effect, such as "no need to ask", is shown as the hook gave it.
    said = log.answer if result.kind is Kind.PROCEED and log.answer is not None else result
    added = result.context.state.messages.since(ctx.state.messages) or ()
    return answer(
        kind=said.kind.label,
        reason=said.reason,
        changes=", ".join(changed),
        scope=scope,
        tells="\n".join(message.text for message in added if message.text),
        message="" if log.answer is None else log.answer.message,
        traceback="" if log.error is None else _frames(log.error),
    )


def _frames(error: HookError) -> str:
    """Where the hook itself failed."""
    return where_raised(error.__cause__ or error)


async def _ask_hooks(settings: Settings, arguments: argparse.Namespace) -> list[TestedHook]:
    """The answer of each hook, in the order in which they would be asked."""
    tester, driver = HookTester(arguments), ScriptedDriver([])
    tool, *rest = arguments.words or [""]
    # Rules that log would report a run that nobody has started.
    logging.getLogger("hookline").addHandler(logging.NullHandler())
    async with open_agent(settings, AgentAdditions(driver=driver, capabilities=(tester,))) as agent:
        tester.agent = agent
        args = arguments_for(agent, tool, rest) if tool else {}
        driver.turns = [call(tool, **args) if tool else say(arguments.answer or "")]
        with watch_signals(), user_code():
            result = await agent.run(arguments.prompt or "hookline hooks test")
    if tester.answers is None:
        results = [each for step in result.steps for each in step.results]
        problem = results[0].text if results else result.explain()
        raise UsageError(f"no hook was asked: {problem}")
    return tester.answers
