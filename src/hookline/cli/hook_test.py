"""`hookline hooks test`: ask each hook by itself about an imagined call, prompt or answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.agent import Agent
from hookline.cli.assembly.agent import Extras, opened
from hookline.cli.streams import user_code
from hookline.drivers import ScriptedDriver, call, say
from hookline.errors import HookError, UsageError
from hookline.hooks import (
    Answered,
    Entry,
    HookOptions,
    HookOutcome,
    Kind,
    Plan,
    Registration,
    describe,
    register,
    run_hooks,
)
from hookline.lifecycle import AgentContext, HookPoint, OutputHookContext, ToolHookContext
from hookline.state import ToolResult

if TYPE_CHECKING:
    from hookline.config import Settings

_FIRST = 10**9
_NAME = "hooks-test"
_MAX_SHOWN = 300


class HookTestCase(msgspec.Struct, frozen=True, kw_only=True):
    """What the hooks are asked about."""

    tool: str = ""
    args: dict[str, Any] = {}
    result: str | None = None
    prompt: str | None = None
    answer: str | None = None

    @property
    def point(self) -> str:
        """The point at which this would happen."""
        if self.prompt is not None:
            return "prompt_submit"
        if self.answer is not None:
            return "stop"
        return "before_tool_use" if self.result is None else "after_tool_use"


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

    def as_json(self) -> str:
        """One line of JSON."""
        return msgspec.json.encode(self).decode()

    def __str__(self) -> str:
        words = " ".join(self.tells.split())
        tells = f"tells the model: {words[:_MAX_SHOWN]}{'...' * (len(words) > _MAX_SHOWN)}"
        notes = (
            self.scope,
            self.changes and f"changes {self.changes}",
            words and tells,
            "shadow: not enforced" if self.shadow else "",
        )
        head = f"{self.kind:<10} {self.hook} ({self.source or 'yours'}, {self.tier})"
        details = "".join(f" ({note})" for note in notes if note)
        return f"{head}{details}{f': {self.reason}' if self.reason else ''}"


class _AnswerLog:
    """Keeps the answer of one hook."""

    monotonic = staticmethod(time.perf_counter)
    error: HookError | None = None
    answer: Answered[Any] | None = None

    def passed(self, crew: Any, readings: Sequence[float]) -> None:
        """The hook had no objection."""

    def left(self, ctx: AgentContext) -> None:
        """The failure itself is raised after this."""

    def appended(self, _entry: Entry, started: float, _ctx: AgentContext) -> float:
        """The hook said whether to continue."""
        return started

    def judged(self, _entry: Entry, started: float, answer: Answered[Any]) -> float:
        """The hook answered, or failed."""
        self.error, self.answer = answer.error, answer
        return started


class HookTester:
    """A capability that runs before all hooks at a point, asks each of them alone, and ends the run there."""

    name = _NAME

    def __init__(self, case: HookTestCase) -> None:
        self._case = case
        self.agent: Agent | None = None
        self.answers: list[TestedHook] | None = None

    def hooks(self) -> list[Registration]:
        """One at the point of the case, and one that keeps the tool from running."""
        options = HookOptions(name=_NAME, priority=_FIRST)
        return [
            register(HookPoint(self._case.point), self._ask_all, options),
            register(HookPoint.AROUND_TOOL_USE, self._replace_tool, options),
        ]

    async def _replace_tool(self, ctx: ToolHookContext, _call_next: Any) -> ToolResult:
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
        return [await _ask(ctx, entry.registration) for entry in entries if entry.name != _NAME]


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
        return answer(kind="failed", reason=error.problem, scope=scope)
    if log.error is not None and hook.on_failure == "open":
        # Without this, a broken guard would look like one that agrees.
        reason = f"{log.error.problem} (the run continues all the same)"
        return answer(kind="failed", reason=reason, fails_open=True, scope=scope)
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
    )


async def ask_hooks(settings: Settings, case: HookTestCase) -> list[TestedHook]:
    """The answer of each hook, in the order in which they would be asked."""
    tester = HookTester(case)
    # Rules that log would report a run that nobody has started.
    logging.getLogger("hookline").addHandler(logging.NullHandler())
    turn = call(case.tool, **case.args) if case.tool else say(case.answer or "")
    extras = Extras(driver=ScriptedDriver([turn]), capabilities=(tester,))
    async with opened(settings, extras) as agent:
        tester.agent = agent
        with user_code():
            result = await agent.run(case.prompt or "hookline hooks test")
    if tester.answers is None:
        results = [each for step in result.steps for each in step.results]
        problem = results[0].text() if results else result.explain()
        raise UsageError(f"no hook was asked: {problem}")
    return tester.answers
