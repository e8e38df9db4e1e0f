"""The entries of Claude Code's settings: what each kind of hook is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookline.command_hooks.definition import Handler, Source
from hookline.command_hooks.reading.files import (
    Dropped,
    Warn,
    seconds_field,
    text_field,
    texts_field,
)
from hookline.command_hooks.tool_calling import tool_of

_DEFAULTS = {"UserPromptSubmit": 30.0, "MessageDisplay": 10.0, "SessionEnd": 1.5}
_BY_MODEL = {
    "prompt": 30.0,
    "agent": 60.0,
}  # kinds that a model answers, with the seconds they have
_MODEL_EVENTS = frozenset(
    {"PermissionRequest", "PostToolBatch", "PostToolUse", "PostToolUseFailure", "PreToolUse", "Stop", "SubagentStop",
     "UserPromptSubmit"}
)  # fmt: skip
_LONGEST_AT_END = 60.0
_BESIDE = 86400.0  # seconds for a hook that runs beside the agent, and ends with it at the latest
_TOOL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest")


def make(
    source: Source,
    event: str,
    group: Mapping[str, Any],
    hook: Mapping[str, Any],
    warn: Warn,
) -> Handler | None:
    """The handler that an entry describes. Keys that nobody knows are passed over."""
    kind = hook.get("type", "command")
    if kind not in ("command", "http", "mcp_tool", *_BY_MODEL):
        warn(Dropped(f"{event}: hooks of type {kind!r} are not run here"))
        return None
    if "if" in hook and event not in _TOOL_EVENTS:
        warn(f"{event}: a hook with 'if' runs for tools only, so this one never runs")
        return None
    usual = _BY_MODEL.get(kind, _DEFAULTS.get(event, 600.0))
    timeout = seconds_field(hook, usual, warn)
    is_program, wakes = kind == "command", hook.get("asyncRewake") is True
    if is_program and hook.get("async") is True and not wakes:
        timeout = max(timeout, _BESIDE)  # nothing waits for it, so its time is that of the run
    handler = Handler(
        source=source,
        event=event,
        matcher=text_field(group, "matcher"),
        rule=text_field(hook, "if"),
        timeout=min(timeout, _LONGEST_AT_END) if event == "SessionEnd" else timeout,
        is_async=is_program and (hook.get("async") is True or wakes),
        wakes=is_program and wakes,
        shell=text_field(hook, "shell"),
        definition={"event": event, "matcher": group.get("matcher"), "hook": dict(hook)},
    )
    if kind == "http":
        return _called(handler, hook, warn)
    if kind == "mcp_tool":
        return _used(handler, hook, warn)
    if kind in _BY_MODEL:
        return _asked(handler, kind, hook, warn)
    return _run(handler, hook, warn)


def _run(handler: Handler, hook: Mapping[str, Any], warn: Warn) -> Handler | None:
    """One that is a program: a line for a shell, or words for none; some write all of these as `args`."""
    command, args = text_field(hook, "command"), hook.get("args")
    if args is not None and not (isinstance(args, list) and all(map(_is_text, args))):
        warn(f"{handler.event}: 'args' is not a list of texts, so the hook is left out")
        return None
    if not command.strip() and not args:
        warn(Dropped(f"{handler.event}: a hook names no command, so it is left out"))
        return None
    if args is None:
        return msgspec.structs.replace(handler, command=command)
    return msgspec.structs.replace(handler, argv=(*filter(str.strip, [command]), *args))


def _called(handler: Handler, hook: Mapping[str, Any], warn: Warn) -> Handler | None:
    url = text_field(hook, "url")
    if not url:
        warn(f"{handler.event}: a hook names no url, so it is left out")
        return None
    if handler.event == "SessionStart":
        warn("SessionStart: hooks of type 'http' are not run there")
        return None
    allowed = hook.get("allowedEnvVars")
    return msgspec.structs.replace(
        handler,
        kind="http",
        url=url,
        headers=texts_field(hook, "headers"),
        allowed_env=tuple(filter(_is_text, allowed)) if isinstance(allowed, list) else (),
    )


def _used(handler: Handler, hook: Mapping[str, Any], warn: Warn) -> Handler | None:
    server, tool, given = text_field(hook, "server"), text_field(hook, "tool"), hook.get("input")
    if not server or not tool or not isinstance(given, dict | None):
        warn(Dropped(f"{handler.event}: an mcp_tool hook needs 'server', 'tool' and 'input'"))
        return None
    return msgspec.structs.replace(
        handler,
        kind="mcp_tool",
        tool=tool_of(server, tool),
        input=dict(given or {}),
    )


def _asked(handler: Handler, kind: str, hook: Mapping[str, Any], warn: Warn) -> Handler | None:
    prompt = text_field(hook, "prompt")
    is_run = handler.event in _MODEL_EVENTS - ({"PermissionRequest"} if kind == "agent" else set())
    if not is_run or not prompt.strip():
        why = "has no prompt" if is_run else "is not run there"
        warn(Dropped(f"{handler.event}: a hook of type {kind!r} {why}, so it is left out"))
        return None
    return msgspec.structs.replace(
        handler,
        kind=kind,
        prompt=prompt,
        model=text_field(hook, "model").strip(),
        continues=hook.get("continueOnBlock") is True,
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)
