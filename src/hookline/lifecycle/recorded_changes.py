"""What a hook changed, as JSON for the journal: enough to do the change again without running the hook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from hookline.flow import ErrorDecision
from hookline.hooks import Context
from hookline.journal.fold import with_changes
from hookline.lifecycle.contexts import AgentContext, InferenceHookContext, expect_context
from hookline.state import (
    AgentState,
    Attachment,
    FrozenDict,
    FrozenList,
    InferenceRequest,
    InferenceResponse,
    Log,
    Message,
    ToolCall,
    ToolResult,
    freeze,
)
from hookline.state.frozen import encode_as_text

A = TypeVar("A", bound=AgentContext)
_KINDS: dict[str, Any] = {
    "tool_call": ToolCall,
    "execution": ToolResult,
    "request": InferenceRequest,
    "response": InferenceResponse,
    "attachments": tuple[Attachment, ...],
    "decision": ErrorDecision,
}
_JSON = frozenset({str, int, float, bool, type(None), dict, list, FrozenDict, FrozenList})
_AS_IT_IS = frozenset({"prompt", "output", "instructions"})


def describe_changes(before: Context, after: Context) -> dict[str, Any] | None:
    """The changed fields of a context with their new values; None when nothing changed."""
    if after is before:
        return None
    changes: dict[str, Any] = {}
    for name in after.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if name == "output" and new is not old and type(new) not in _JSON:
            changes["typed_output"] = _describe_answer(new)
        elif name == "request" and isinstance(new, InferenceRequest) and new is not old:
            changes[name] = describe_request(old, new)
        elif new is not old:
            changes[name] = (
                _state(old, new) if isinstance(new, AgentState) else _plain(name, old, new)
            )
    return changes or None


def describe_request(old: InferenceRequest, new: InferenceRequest) -> dict[str, Any]:
    """A changed request by the fields that differ. Of messages that were only added to, the added ones are kept:

    a conversation is as long as the run, and hooks add to it at every step.
    """
    changed: dict[str, Any] = {}
    for name in new.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        if name == "messages":
            if after is not before and (shown := _describe_messages(before, after)) is not None:
                changed[name] = shown
        elif after is not before and after != before:
            changed[name] = msgspec.to_builtins(after, enc_hook=encode_as_text)
    return changed


def _describe_messages(old: Sequence[Message], new: Sequence[Message]) -> Any:
    """How the messages changed; None if they are the same."""
    added = new.since(old) if isinstance(old, Log) and isinstance(new, Log) else None
    if added is None:  # they share nothing but, perhaps, what they say
        was, now = tuple(old), tuple(new)
        if now[: len(was)] != was:
            return msgspec.to_builtins(list(now))
        added = now[len(was) :]
    return {"added": msgspec.to_builtins(list(added))} if added else None


def redo_request(request: InferenceRequest, changed: dict[str, Any]) -> InferenceRequest:
    """A request with its changes made again."""
    plain = {name: value for name, value in changed.items() if name != "messages"}
    made = msgspec.convert(plain, InferenceRequest)
    redone = {name: getattr(made, name) for name in plain}
    messages = changed.get("messages")
    if isinstance(messages, dict):
        added = tuple(msgspec.convert(messages["added"], list[Message]))
        redone["messages"] = Log(request.messages).extend(added)
    elif messages is not None:
        redone["messages"] = Log(msgspec.convert(messages, list[Message]))
    return msgspec.structs.replace(request, **redone)


def _describe_answer(value: object) -> Any:
    """An answer of a user's type as JSON, for display only: it cannot be made again."""
    try:
        return freeze(value)
    except Exception:  # the author's own type, which may do as it likes
        return repr(value)


def _plain(name: str, old: Any, new: Any) -> Any:
    if name == "evaluations":
        return msgspec.to_builtins(new[len(old) :])
    return msgspec.to_builtins(new, enc_hook=encode_as_text)


def _state(old: AgentState, new: AgentState) -> dict[str, Any]:
    """A changed state by what differs: metadata set and removed, messages added or replaced."""
    delta: dict[str, Any] = {}
    if new.metadata is not old.metadata:
        set_ = {
            key: value
            for key, value in new.metadata.items()
            if key not in old.metadata or old.metadata[key] is not value
        }
        removed = [key for key in old.metadata if key not in new.metadata]
        delta["metadata"] = {"set": set_, "removed": removed} if removed else {"set": set_}
    if new.messages is not old.messages:
        delta["messages"] = _messages(old.messages, new.messages)
    for name in new.__struct_fields__:
        if name not in ("metadata", "messages") and getattr(new, name) is not getattr(old, name):
            delta[name] = msgspec.to_builtins(getattr(new, name), enc_hook=encode_as_text)
    return delta


def _messages(old: Log[Message], new: Log[Message]) -> dict[str, Any]:
    added = new.since(old)
    if added is None:
        return {"replaced": msgspec.to_builtins(list(new), enc_hook=encode_as_text)}
    return {"added": msgspec.to_builtins(added, enc_hook=encode_as_text)}


def can_be_redone(changes: dict[str, Any] | None) -> bool:
    """Whether what a hook changed can be done again from the journal: all but a child's result and a typed answer."""
    known = {"state", "evaluations", *_KINDS, *_AS_IT_IS}
    return changes is None or changes.keys() <= known


def redo_changes(ctx: A, changes: dict[str, Any] | None) -> A:
    """A context with what a hook did to it done again. Evaluations are in the hook's record beside the changes."""
    redone: dict[str, Any] = {}
    for name, value in (changes or {}).items():
        if name == "state":
            redone[name] = with_changes(ctx.state, value)
        elif name == "request":
            redone[name] = redo_request(expect_context(ctx, InferenceHookContext).request, value)
        elif name in _KINDS:
            redone[name] = msgspec.convert(value, _KINDS[name])
        elif name in _AS_IT_IS:
            redone[name] = value
        elif name == "typed_output":
            redone["output"] = value
    return msgspec.structs.replace(ctx, **redone) if redone else ctx
