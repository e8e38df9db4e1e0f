"""Declarative rules as hooks: `on`, `match`, `do`, `reason`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.config import HookSettings, MatchSettings
from hookline.errors import ConfigError
from hookline.hooks import (
    CompositeMatcher,
    HookOutcome,
    Matcher,
    Point,
    ToolArgsMatcher,
    ToolNameMatcher,
)
from hookline.lifecycle import (
    HookPoint,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    SubagentHookContext,
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
    """The function a rule is, and what it is for."""
    match = _match(settings, point)
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
    _check_verdict(settings.do or "block", point)

    def rule(_ctx: Any) -> HookOutcome:
        return outcome

    return rule, matcher


def _check_verdict(do: str, point: Point[Any]) -> None:
    if do not in point.verdicts:
        raise ConfigError(
            f"a hook at {point.value} cannot {do}.",
            remedy="`hookline hooks list` shows what each point can do.",
        )


def _match(settings: HookSettings, point: Point[Any]) -> MatchSettings:
    """What a rule is for, spelled out."""
    given = settings.match
    if isinstance(given, MatchSettings):
        return given
    if given is None:
        return MatchSettings()
    if not _has_tool(point) or settings.do == "redact":
        return MatchSettings(text=given)
    is_expression = len(given) > 1 and given.startswith("/")
    return (
        MatchSettings(rule=given)
        if "(" in given and not is_expression
        else MatchSettings(tool=given)
    )


def matcher_of(match: MatchSettings, point: Point[Any], root: Path) -> Matcher | None:
    """A matcher for all that is said; None where nothing is."""
    parts: list[Any] = []
    if match.tool is not None:
        parts.append(ToolNameMatcher(match.tool))
    if match.rule is not None:
        parts.append(_by_rule(match.rule, root))
    if match.args:
        parts.append(ToolArgsMatcher({name: _value(value) for name, value in match.args.items()}))
    if match.text is not None:
        parts.append(_by_text(match.text))
    if not _has_tool(point) and (match.tool or match.rule or match.args):
        raise ConfigError(
            f"there is no tool call at {point.value} that could be matched.",
            remedy='Match words there: match = "..." or match = { text = "..." }.',
        )
    if not parts:
        return None
    return CompositeMatcher.all_of(*parts)


def _has_tool(point: Point[Any]) -> bool:
    return issubclass(point.context, ToolHookContext)


def _by_rule(text: str, root: Path) -> Callable[[Any], bool]:
    from hookline.permissions import Rule

    rule = Rule.parse(text)

    def touches(ctx: ToolHookContext) -> bool:
        return rule.touches(ctx.tool_call, root)

    touches.__qualname__ = f"the call may be {text}"  # what `hooks list` says of it
    return touches


def _value(wanted: Any) -> Any:
    """A value, or a test for an expression between slashes."""
    if not (isinstance(wanted, str) and len(wanted) > 1 and wanted.startswith("/")):
        return wanted
    expression = _expression(wanted)
    return lambda value: isinstance(value, str) and expression.search(value) is not None


def _expression(text: str) -> re.Pattern[str]:
    body, slash, flags = text[1:].rpartition("/")
    if not slash or flags not in ("", "i"):
        return re.compile(re.escape(text))
    try:
        return re.compile(body, re.IGNORECASE if flags else 0)
    except re.error as error:
        raise ConfigError(f"{text!r} is not a regular expression: {error}.") from None


def _pattern(text: str) -> re.Pattern[str]:
    """Words, or an expression between slashes."""
    return (
        _expression(text) if len(text) > 1 and text.startswith("/") else re.compile(re.escape(text))
    )


def _by_text(text: str) -> Callable[[Any], bool]:
    pattern = _pattern(text)

    def has(ctx: Any) -> bool:
        return any(pattern.search(said) is not None for said in _texts(ctx))

    has.__qualname__ = f"the text has {text}"
    return has


def _texts(ctx: Any) -> list[str]:
    """All that is said at a point."""
    if isinstance(ctx, ToolHookContext):
        said: Any = ctx.tool_call.args if ctx.execution is None else ctx.execution.text()
    elif isinstance(ctx, PromptHookContext | SubagentHookContext):
        said = ctx.prompt
    elif isinstance(ctx, OutputHookContext):
        said = ctx.output
    elif isinstance(ctx, InferenceHookContext):
        said = (
            ctx.response.text
            if ctx.response is not None
            else [message.text for message in ctx.request.messages[-1:]]
        )
    else:
        said = getattr(ctx, "error_message", "")
    return list(_strings(said))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for each in value.values() for text in _strings(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in _strings(each)]
    return [] if value is None else [str(value)]


def _logs(name: str, reason: str) -> Callable[[Any], None]:
    def log(ctx: Any) -> None:
        call = getattr(ctx, "tool_call", None)
        about = f" {call.name}" if call is not None and call.name else ""
        _log.warning("%s at %s%s%s", name, ctx.point.value, about, f": {reason}" if reason else "")

    return log


def _redact(match: MatchSettings) -> Callable[[Any], Any]:
    if match.text is not None:
        pattern = _pattern(match.text)

        def without(value: Any) -> Any:
            return _mapped(value, lambda text: pattern.sub(_REDACTED, text))

    else:
        from hookline.redaction import Redactor

        secrets: Redactor = Redactor()

        def without(value: Any) -> Any:
            return secrets.value(value)

    return lambda ctx: _redacted(ctx, without)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _mapped(each, change) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(each, change) for each in value]
    return value


def _redacted(ctx: Any, without: Callable[[Any], Any]) -> Any:
    """The context without what is not to be seen; None where there was nothing of it."""
    if isinstance(ctx, ToolHookContext):
        if ctx.point == HookPoint.BEFORE_TOOL_USE:
            given = ctx.tool_call.args  # their names are the tool's, and stay
            args = {name: without({name: value}).popitem()[1] for name, value in given.items()}
            return ctx.with_args(**args) if args != ctx.tool_call.args else None
        made = None if ctx.execution is None else _cleaned(ctx.execution, without)
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


def _cleaned(made: ToolResult, without: Callable[[Any], Any]) -> ToolResult:
    """What came of a call, a failed one too, without what is not to be seen."""
    error = made.error
    if error is not None:
        error = msgspec.structs.replace(error, message=without(error.message))
    return msgspec.structs.replace(
        made, result=without(made.result), error=error, reason=without(made.reason)
    )
