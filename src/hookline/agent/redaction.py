"""Keeps secrets out of the state and the record: those in texts of hooks, and in the arguments of calls."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from hookline.hooks import Result
from hookline.journal.durable import Redact
from hookline.state import AgentState, ContinuationEvaluation, Decision, ToolCall

S = TypeVar("S", Decision, ContinuationEvaluation)
F = TypeVar("F", bound=Callable[..., Any])
_MOST_BYTES = 64 * 2**20
"""Of arguments that are kept. The oldest are dropped first; the calls they belong to are then not run."""


class Originals:
    """The arguments of redacted calls, by what `ToolCall.redacted` says.

    That is a keyed hash. The key is random and never leaves the process, so nobody can find the arguments by trying.
    A plain hash was rejected: all of a command but its password is in the journal, and passwords can be guessed. A
    random number was rejected: an answer "for this session" would not be found again for the same call.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._key = secrets.token_bytes(32)
        self._kept: OrderedDict[str, tuple[ToolCall, ToolCall, int]] = OrderedDict()
        self._bytes = 0
        self._most_bytes = most_bytes
        self._lock = threading.Lock()

    def keep(self, call: ToolCall, shown: ToolCall) -> ToolCall:
        """Keep a call. Gives what is shown of it, with the name by which it is found again."""
        content = msgspec.json.encode([call.name, call.args], order="deterministic")
        name = hmac.new(self._key, content, hashlib.sha256).hexdigest()[:32]
        shown = msgspec.structs.replace(shown, redacted=name)
        with self._lock:
            if name in self._kept:
                self._bytes -= self._kept.pop(name)[2]
            self._kept[name] = call, shown, len(content)
            self._bytes += len(content)
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1][2]
        return shown

    def find(self, shown: ToolCall) -> ToolCall | None:
        """The call as it was made; None if this process does not have it, or something else is shown than then."""
        with self._lock:
            known = self._kept.get(shown.redacted)
        if known is None:
            return None
        call, then, _ = known
        if (then.name, then.args) != (shown.name, shown.args):
            return None
        return ToolCall(shown.id, call.name, call.args)


ORIGINALS = Originals()
"""One for the process: an agent that is built anew for each request finds what the one before it kept."""


def find_original(call: ToolCall) -> ToolCall | None:
    """The call as it was made, where secrets were taken out of it and this process knows them."""
    return ORIGINALS.find(call) if call.redacted else None


def original(call: ToolCall) -> ToolCall:
    """The call as it was made, where this process knows it; otherwise the call as it is shown."""
    return find_original(call) or call


# --- what hooks say and note --------------------------------------------------------------------------


def chain_redactors(one: F | None, other: F | None) -> F | None:
    """One redactor that does the work of both. A child run uses its own and the one of its parent."""
    if one is None or other is None or one is other:
        return one or other
    # With the text that came directly before, where that matters.
    return cast("F", lambda value, *before: one(other(value, *before), *before))


def result_without(result: Result[Any], redact: Redact) -> Result[Any]:
    """What hooks decided, with reasons that hold no secret."""
    said: dict[str, Any] = {}
    reason = redact(result.reason)
    if reason != result.reason:
        said["reason"] = reason
    if result.withheld is not None:
        why, who = result.withheld
        said["withheld"] = (redact(why), who)
    if result.asks:
        said["asks"] = tuple((who, redact(why)) for who, why in result.asks)
    if isinstance(result.answer, Decision):
        said["answer"] = reason_without(result.answer, redact)
    return msgspec.structs.replace(result, **said) if said else result


def reason_without(said: S, redact: Redact) -> S:
    """A decision or an evaluation, with a reason that holds no secret."""
    reason = redact(said.reason)
    return said if reason == said.reason else msgspec.structs.replace(said, reason=reason)


def context_without(before: Any, after: Any, redact: Redact) -> Any:
    """What a hook left, without secrets in what it noted, said about continuing, or gave as the answer."""
    if after.state.metadata is not before.state.metadata:
        state = _state_without(before.state, after.state, redact)
        if state is not after.state:
            after = msgspec.structs.replace(after, state=state)
    if after.evaluations is not before.evaluations:
        redacted = tuple(reason_without(each, redact) for each in after.evaluations)
        after = msgspec.structs.replace(after, evaluations=redacted)
    output = getattr(after, "output", None)
    if output is not getattr(before, "output", None) and isinstance(output, str | list | dict):
        after = msgspec.structs.replace(after, output=redact(output))
    return after


def _state_without(before: AgentState, after: AgentState, redact: Redact) -> AgentState:
    old = before.metadata
    new = {name: value for name, value in after.metadata.items() if old.get(name) is not value}
    cleaned = redact(new)
    if cleaned is new:
        return after
    kept = {name: value for name, value in after.metadata.items() if name not in new}
    return msgspec.structs.replace(after, metadata={**kept, **cleaned}).freeze()
