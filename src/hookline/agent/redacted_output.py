"""What hooks say and note, without the secrets that nobody is to know: before it enters the state."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.hooks import Result
from hookline.journal import Redact, RedactContent
from hookline.state import AgentState, ContinuationEvaluation, Decision


def both(one: Redact | None, other: Redact | None) -> Redact | None:
    """What takes out all that either takes out: a child is held to what its parent is."""
    if one is None or other is None or one is other:
        return one or other
    return lambda value: one(other(value))


def both_content(one: RedactContent | None, other: RedactContent | None) -> RedactContent | None:
    """The same for what models and tools write."""
    if one is None or other is None or one is other:
        return one or other
    return lambda value, before="": one(other(value, before), before)


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
        said["answer"] = decision_without(result.answer, redact)
    return msgspec.structs.replace(result, **said) if said else result


def decision_without(decision: Decision, redact: Redact) -> Decision:
    """An answer, with a reason that holds no secret."""
    reason = redact(decision.reason)
    return (
        decision if reason == decision.reason else msgspec.structs.replace(decision, reason=reason)
    )


def context_without(before: Any, after: Any, redact: Redact) -> Any:
    """What a hook left, without secrets in what it noted, said about going on, or gave as the answer."""
    if after.state.metadata is not before.state.metadata:
        state = _state_without(before.state, after.state, redact)
        if state is not after.state:
            after = msgspec.structs.replace(after, state=state)
    if after.evaluations is not before.evaluations:
        told = tuple(_evaluation_without(each, redact) for each in after.evaluations)
        after = msgspec.structs.replace(after, evaluations=told)
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
    return msgspec.structs.replace(after, metadata={**kept, **cleaned}).checked()


def _evaluation_without(
    evaluation: ContinuationEvaluation, redact: Redact
) -> ContinuationEvaluation:
    reason = redact(evaluation.reason)
    if reason == evaluation.reason:
        return evaluation
    return msgspec.structs.replace(evaluation, reason=reason)
