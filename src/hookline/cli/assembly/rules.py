"""Rules of the configuration as hooks: `on`, `match`, `do`, `reason`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.cli.assembly.matchers import match_of, matcher_of, pattern_of
from hookline.config.schema import HookSettings, MatchSettings
from hookline.errors import ConfigError
from hookline.hooks import HookOutcome, Matcher, Point
from hookline.lifecycle import (
    AgentContext,
    HookPoint,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    ToolHookContext,
)

if TYPE_CHECKING:
    from hookline.redaction import Redactor
    from hookline.state import ToolResult

_log = logging.getLogger("hookline.rules")
_REDACTED = "[redacted]"
_CAN_REDACT = ("before_tool_use", "after_tool_use", "prompt_submit", "after_inference", "output")


def rule_of(
    settings: HookSettings, point: Point[Any], root: Path
) -> tuple[Callable[[Any], Any], Matcher | None]:
    """The function of a rule, and its matcher."""
    _check_point(settings, point)
    match = match_of(settings, point)
    matcher = matcher_of(match, point, root)
    name = settings.name or f"{settings.do} rule"
    if settings.do == "redact":
        if point.value not in _CAN_REDACT:
            raise ConfigError(
                f"nothing can be redacted at {point.value}.",
                remedy=f"Use one of: {', '.join(_CAN_REDACT)}.",
            )
        return _redact(match), matcher
    if settings.do == "log":
        return _logs(name, settings.reason), matcher
    verdict = {"block": HookOutcome.block, "ask": HookOutcome.ask, "stop": HookOutcome.stop}
    outcome = verdict[settings.do or "block"](settings.reason)

    def rule(_ctx: AgentContext) -> HookOutcome:
        return outcome

    return rule, matcher


def _check_point(settings: HookSettings, point: Point[Any]) -> None:
    """Refuse a rule that can have no effect at its point or in its tier."""
    do, tier = settings.do or "block", settings.tier
    if point.around:
        before, after = (point.value.replace("around", word) for word in ("before", "after"))
        raise ConfigError(
            f"a rule cannot be used at {point.value}.",
            remedy=f"Write {before} or {after}.",
        )
    if tier == "observer" and do != "log":
        raise ConfigError(
            f"an observer cannot {do}.",
            remedy="Leave `tier` out; `shadow = true` tries a rule without effect.",
        )
    if tier == "policy" and do == "redact":
        raise ConfigError(
            "a policy cannot redact: it only judges.",
            remedy="Leave `tier` out.",
        )
    if do in ("block", "ask", "stop") and do not in point.verdicts:
        raise ConfigError(
            f"a hook at {point.value} cannot {do}.",
            remedy="`hookline hooks list --points` shows what each point can do.",
        )


def _logs(name: str, reason: str) -> Callable[[Any], None]:
    def log(ctx: AgentContext) -> None:
        call = getattr(ctx, "tool_call", None)
        about = f" {call.name}" if call is not None and call.name else ""
        _log.warning("%s at %s%s%s", name, ctx.point.value, about, f": {reason}" if reason else "")

    return log


def _redact(match: MatchSettings) -> Callable[[Any], Any]:
    if match.text is not None:
        pattern = pattern_of(match.text)

        def without(value: Any) -> Any:
            return _map_texts(value, lambda text: pattern.sub(_REDACTED, text))

    else:
        from hookline.redaction import Redactor

        secrets: Redactor = Redactor()

        def without(value: Any) -> Any:
            return secrets.value(value)

    return lambda ctx: _redact_context(ctx, without)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _map_texts(each, change) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(each, change) for each in value]
    return value


def _redact_context(ctx: AgentContext, without: Callable[[Any], Any]) -> Any:
    """The context without the redacted text; None if there was none."""
    if isinstance(ctx, ToolHookContext):
        if ctx.point == HookPoint.BEFORE_TOOL_USE:
            given = ctx.tool_call.args  # the names are the tool's, and stay
            args = {name: without({name: value}).popitem()[1] for name, value in given.items()}
            return ctx.with_args(**args) if args != ctx.tool_call.args else None
        made = None if ctx.execution is None else _redact_result(ctx.execution, without)
        return None if made is None or made == ctx.execution else ctx.with_execution(made)
    if isinstance(ctx, PromptHookContext):
        prompt = without(ctx.prompt)
        return ctx.with_prompt(prompt) if prompt != ctx.prompt else None
    if isinstance(ctx, OutputHookContext):
        output = without(ctx.output)
        return ctx.with_output(output) if output != ctx.output else None
    if isinstance(ctx, InferenceHookContext) and ctx.response is not None:
        text = without(ctx.response.text)
        return (
            ctx.with_response(ctx.response.with_text(text)) if text != ctx.response.text else None
        )
    return None


def _redact_result(made: ToolResult, without: Callable[[Any], Any]) -> ToolResult:
    """The result of a call, also of a failed one, without the redacted text."""
    error = made.error
    if error is not None:
        error = msgspec.structs.replace(error, message=without(error.message))
    return msgspec.structs.replace(
        made, result=without(made.result), error=error, reason=without(made.reason)
    )
