"""The `match` of a hook in the configuration. It means the same for every kind of hook."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hookline.config.schema import HookSettings, MatchSettings
from hookline.errors import ConfigError
from hookline.hooks import CompositeMatcher, Matcher, Point, ToolArgsMatcher, ToolNameMatcher
from hookline.lifecycle import (
    AgentContext,
    CompactHookContext,
    ExecutionHookContext,
    FailureHookContext,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    SessionHookContext,
    StepHookContext,
    StopHookContext,
    SubagentHookContext,
    ToolHookContext,
)


def match_of(hook: HookSettings, point: Point[Any] | None = None) -> MatchSettings:
    """The match of a hook as a table. A command has no point here: it is matched by tool or by rule."""
    given = hook.match
    if isinstance(given, MatchSettings):
        return given
    if given is None:
        return MatchSettings()
    if hook.do == "redact" or (point is not None and not has_tool(point)):
        return MatchSettings(text=given)
    is_rule = "(" in given and not is_expression(given)
    return MatchSettings(rule=given) if is_rule else MatchSettings(tool=given)


def matcher_of(match: MatchSettings, point: Point[Any], root: Path) -> Matcher | None:
    """A matcher for all parts of a match; None if it has none."""
    parts: list[Any] = []
    if match.tool is not None:
        parts.append(_by_name(match.tool))
    if match.rule is not None:
        parts.append(_by_rule(match.rule, root))
    if match.args:
        parts.append(ToolArgsMatcher({name: _value(value) for name, value in match.args.items()}))
    if match.text is not None:
        parts.append(_by_text(match.text))
    if not has_tool(point) and (match.tool or match.rule or match.args):
        raise ConfigError(
            f"at {point.value} there is no tool call to match.",
            remedy='Match a text instead: match = "..." or match = { text = "..." }.',
        )
    if match.text is not None and not _has_words(point):
        raise ConfigError(
            f"there is no text to match at {point.value}.",
            remedy="Leave `match` out, or choose a point with text: prompt_submit, after_step, stop, output.",
        )
    if not parts:
        return None
    return CompositeMatcher.all_of(*parts)


def has_tool(point: Point[Any]) -> bool:
    """Whether a point is about a tool call."""
    return issubclass(point.context, ToolHookContext)


def _has_words(point: Point[Any]) -> bool:
    return point.value != "before_step" and not issubclass(
        point.context, SessionHookContext | ExecutionHookContext
    )


def is_expression(text: str) -> bool:
    """Whether a pattern is a regular expression between slashes."""
    return len(text) > 1 and text.startswith("/")


def _by_name(pattern: str) -> Matcher:
    """Match a tool by its name, or by the name that other agents use. `|` and `,` separate several names."""
    if pattern.startswith("/"):
        return ToolNameMatcher(pattern)
    found = [ToolNameMatcher(each) for name in names_in(pattern) for each in (name, *ours_of(name))]
    return found[0] if len(found) == 1 else CompositeMatcher.any_of(*found)


def names_in(pattern: str) -> list[str]:
    """The names or globs in a pattern that is not an expression."""
    names = [name.strip() for name in re.split(r"[|,]", pattern)]
    if not all(names):
        raise ConfigError(
            f"the match '{pattern}' has a '|' or ',' without a tool on one side.",
            remedy="Write 'read|write'.",
        )
    return names


def ours_of(name: str) -> list[str]:
    """Our tools that other agents call so. Their names begin with a capital letter, ours do not."""
    if not name[:1].isupper():
        return []
    from hookline.command_hooks.dialects.hookline import tools_called

    return tools_called(name)


def _by_rule(text: str, root: Path) -> Callable[[Any], bool]:
    from hookline.permissions import Rule

    rule = Rule.parse(text)

    def touches(ctx: ToolHookContext) -> bool:
        return rule.touches(ctx.tool_call, root)

    touches.__qualname__ = f"the call may be {text}"  # `hooks list` shows it
    return touches


def _value(wanted: Any) -> Any:
    """A value, or a test for an expression between slashes."""
    if not (isinstance(wanted, str) and is_expression(wanted)):
        return wanted
    expression = pattern_of(wanted)
    return lambda value: isinstance(value, str) and expression.search(value) is not None


def pattern_of(text: str) -> re.Pattern[str]:
    """A pattern for words, or for an expression between slashes."""
    body, slash, flags = text[1:].rpartition("/")
    if not is_expression(text) or not slash or flags not in ("", "i"):
        return re.compile(re.escape(text))
    try:
        return re.compile(body, re.IGNORECASE if flags else 0)
    except re.error as error:
        raise ConfigError(f"{text!r} is not a regular expression: {error}.") from None


def _by_text(text: str) -> Callable[[Any], bool]:
    pattern = pattern_of(text)

    def has(ctx: AgentContext) -> bool:
        return any(pattern.search(said) is not None for said in _texts(ctx))

    has.__qualname__ = f"the text has {text}"
    return has


def _texts(ctx: AgentContext) -> list[str]:
    """All text at a point."""
    if isinstance(ctx, ToolHookContext):
        said: Any = ctx.tool_call.args if ctx.execution is None else ctx.execution.text
    elif isinstance(ctx, PromptHookContext):
        said = ctx.prompt
    elif isinstance(ctx, SubagentHookContext):
        said = ctx.prompt if ctx.result is None else getattr(ctx.result, "text", ctx.result)
    elif isinstance(ctx, OutputHookContext):
        said = ctx.output
    elif isinstance(ctx, StepHookContext | StopHookContext):
        said = None if ctx.step is None else ctx.step.text
    elif isinstance(ctx, CompactHookContext):
        said = [ctx.instructions, *(message.text for message in ctx.messages)]
    elif isinstance(ctx, InferenceHookContext) and ctx.response is not None:
        said = [ctx.response.text, *(call.args for call in ctx.response.calls)]
    elif isinstance(ctx, InferenceHookContext):
        said = [message.text for message in ctx.request.messages[-1:]]
    else:
        said = ctx.error_message if isinstance(ctx, FailureHookContext) else None
    return list(_strings(said))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for each in value.values() for text in _strings(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in _strings(each)]
    return [] if value is None else [str(value)]
