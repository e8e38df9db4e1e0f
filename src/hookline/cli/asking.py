"""Asking each hook by itself about something that is only imagined: `hookline hooks test`."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.agent import Agent
from hookline.cli.assembly import Extras, opened
from hookline.cli.streams import theirs
from hookline.drivers import ScriptedDriver, call, say
from hookline.errors import HookError, UsageError
from hookline.hooks import (
    Answered,
    Entry,
    HookOutcome,
    Kind,
    Plan,
    Registration,
    describe,
    register,
    run_hooks,
)
from hookline.hooks import Options as HookOptions
from hookline.lifecycle import HookPoint, OutputHookContext
from hookline.state import ToolResult

if TYPE_CHECKING:
    from hookline.config import Settings

_FIRST = 10**9
_NAME = "hooks-test"
_MOST_TOLD = 300


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """What the hooks are asked about."""

    tool: str = ""
    args: dict[str, Any] = {}
    result: str | None = None
    prompt: str | None = None
    answer: str | None = None

    @property
    def point(self) -> str:
        """Where that would be."""
        if self.prompt is not None:
            return "prompt_submit"
        if self.answer is not None:
            return "stop"
        return "before_tool_use" if self.result is None else "after_tool_use"


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one hook says."""

    hook: str
    point: str
    kind: str
    tier: str = "hook"
    source: str = ""
    reason: str = ""
    changes: str = ""
    shadow: bool = False
    fails_open: bool = False
    """It failed, and that stops nothing."""
    scope: str = ""
    """Where it is asked at all; empty for everywhere."""
    tells: str = ""
    """What it tells the model."""

    def as_json(self) -> str:
        """One line of JSON."""
        return msgspec.json.encode(self).decode()

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        changes = f" (changes {self.changes})" if self.changes else ""
        shadow = " (shadow: not enforced)" if self.shadow else ""
        head = f"{self.kind:<10} {self.hook} ({self.source or 'yours'}, {self.tier})"
        scope = f" ({self.scope})" if self.scope else ""
        words = " ".join(self.tells.split())
        tells = f" (tells the model: {words[:_MOST_TOLD]}{'...' * (len(words) > _MOST_TOLD)})"
        return f"{head}{scope}{changes}{tells if words else ''}{shadow}{why}"


class _Heard:
    """Hears what a hook says, and whether it failed."""

    monotonic = staticmethod(time.perf_counter)
    error: HookError | None = None
    answer: Answered | None = None

    def passed(self, crew: Any, readings: Sequence[float]) -> None:
        """It let things be."""

    def left(self, ctx: Any) -> None:
        """The failure itself comes after this."""

    def appended(self, _entry: Entry, started: float, _ctx: Any) -> float:
        """It said whether to go on."""
        return started

    def judged(self, _entry: Entry, started: float, answer: Answered) -> float:
        """It answered, or failed."""
        self.error, self.answer = answer.error, answer
        return started


class Examiner:
    """A capability that comes before all hooks at a point, asks each of them alone, and ends it there."""

    name = _NAME

    def __init__(self, occasion: Occasion) -> None:
        self._occasion = occasion
        self.agent: Agent | None = None
        self.said: list[Said] | None = None

    def hooks(self) -> list[Registration]:
        """One at the point in question; and nothing is run, whatever happens."""
        options = HookOptions(name=_NAME, priority=_FIRST)
        point = HookPoint(self._occasion.point)
        return [
            register(point, self._examine, options),
            register(HookPoint.AROUND_TOOL_USE, self._instead, options),
        ]

    async def _instead(self, ctx: Any, _call_next: Any) -> ToolResult:
        return ToolResult(
            self._occasion.result or "", call_id=ctx.tool_call.id, name=ctx.tool_call.name
        )

    async def _examine(self, ctx: Any) -> HookOutcome:
        self.said = await self._each(ctx)
        if (
            self._occasion.answer is not None
        ):  # it would not get so far as to be given, if one objects
            self.said += await self._each(_given(ctx, self._occasion.answer))
        return HookOutcome.stop("asked, and nothing more")

    async def _each(self, ctx: Any) -> list[Said]:
        assert self.agent is not None
        plan = self.agent.definition.plans.of(ctx.point.value)
        entries = plan.entries if plan is not None else ()
        return [
            await self._one(ctx, entry.registration) for entry in entries if entry.name != _NAME
        ]

    async def _one(self, ctx: Any, registration: Registration) -> Said:
        head = (registration.name, registration.point.value)
        tail = (registration.tier.value, registration.source)
        matcher = registration.matcher
        scope = getattr(matcher, "scope", "")
        # A hook of a subagent or of a skill is asked as it would be there.
        matches = getattr(matcher, "matches_anywhere", None) or getattr(matcher, "matches", None)
        if matcher is not None and matches is not None and not matches(ctx):
            return Said(
                *head, "no match", *tail, f"it is for {describe(matcher)}", "", registration.shadow
            )
        enforced = msgspec.structs.replace(registration, shadow=False, matcher=None)
        trail = _Heard()
        try:
            result = await run_hooks(Plan(registration.point, (enforced,)), ctx, trail)
        except HookError as error:
            return Said(*head, "failed", *tail, error.problem, "", registration.shadow, scope=scope)
        if trail.error is not None and registration.on_failure == "open":
            # A guard that is broken looks like one that agrees, otherwise.
            why = f"{trail.error.problem} (things go on all the same)"
            return Said(
                *head, "failed", *tail, why, "", registration.shadow, fails_open=True, scope=scope
            )
        changed = [
            name
            for name in ("tool_call", "execution", "prompt", "output")
            if getattr(ctx, name, None) != getattr(result.context, name, None)
        ]
        kind, reason = _own_words(result, trail.answer)
        return Said(
            *head,
            kind,
            *tail,
            reason,
            ", ".join(changed),
            registration.shadow,
            scope=scope,
            tells=_told(ctx, result.context),
        )


def _given(ctx: Any, answer: str) -> OutputHookContext:
    """The answer, about to be given."""
    return OutputHookContext(
        point=HookPoint.OUTPUT,
        state=ctx.state,
        evaluations=ctx.evaluations,
        live=ctx.live,
        output=answer,
    )


def _own_words(result: Any, answer: Answered | None) -> tuple[str, str]:
    """What a hook said, and why. Where nothing comes of it, that there is no need to ask say, it is what it said."""
    if result.kind is Kind.PROCEED and answer is not None:
        return answer.kind.label, answer.reason
    return result.kind.label, result.reason


def _told(before: Any, after: Any) -> str:
    """What a hook has put into the conversation."""
    added = after.state.messages.since(before.state.messages) or ()
    return "\n".join(message.text for message in added if message.text)


async def asked(settings: Settings, occasion: Occasion) -> list[Said]:
    """What each hook says, in the order in which they would be asked."""
    examiner = Examiner(occasion)
    # What rules would log is about a run that nobody has asked for.
    logging.getLogger("hookline").addHandler(logging.NullHandler())
    turns = (
        [call(occasion.tool, **occasion.args)] if occasion.tool else [say(occasion.answer or "")]
    )
    extras = Extras(driver=ScriptedDriver(turns), capabilities=(examiner,))
    async with opened(settings, extras) as agent:
        examiner.agent = agent
        with theirs():
            result = await agent.run(occasion.prompt or "hookline hooks test")
    if examiner.said is None:
        made = [made for step in result.steps for made in step.results]
        problem = made[0].text() if made else result.explain()
        raise UsageError(f"no hook was asked: {problem}")
    return examiner.said
