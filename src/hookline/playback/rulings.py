"""What hooks made of one thing, so that what they said then and what others say now can be compared."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.errors import HookError
from hookline.hooks import Kind, Result
from hookline.lifecycle.changes import describe_changes
from hookline.state import ContinuationEvaluation, ContinuationOutcome, Decision, InferenceRequest

UNKNOWN = "unknown"
_OF_THE_AGENT = ("system", "tools")
"""What is in every request of an agent, whatever hooks do."""


class HookRuling(msgspec.Struct, frozen=True, kw_only=True):
    """What all hooks of a round decided."""

    verdict: str = "proceed"
    """`proceed`, `ask`, `block`, `stop`, `failed`; a person's answer; `change`; or `unknown`."""
    reason: str = ""
    hook: str = ""
    """Whose word it is."""
    changes: dict[str, Any] = {}
    """What they made of the thing, by field. Metadata is theirs, and changes nothing by itself."""
    says: str = ""
    """The strongest evaluation."""
    said_by: str = ""
    said_why: str = ""


def ruling_of(before: Any, result: Result[Any], changed_by: str, answered_by: str) -> HookRuling:
    """What hooks decided, from the context they were given and what came of it."""
    after = result.context
    said = _strongest(after.evaluations[len(before.evaluations) :])
    changes = _changes(before, after)
    verdict, hook, reason = result.kind.label, result.decided_by, result.reason
    if isinstance(result.answer, Decision):
        verdict, hook, reason = result.answer.answer.value, answered_by, result.answer.reason
    elif result.kind is Kind.PROCEED and changes:
        verdict, hook, reason = "change", changed_by, f"changes {', '.join(changes)}"
    return HookRuling(
        verdict=verdict,
        reason=reason,
        hook=hook,
        changes=changes,
        says=said.decision.value if said is not None else "",
        said_by=said.source if said is not None else "",
        said_why=said.reason if said is not None else "",
    )


def failed(error: HookError) -> HookRuling:
    """What a hook decided that failed where that is an error."""
    return HookRuling(verdict=Kind.FAILED.label, reason=error.problem, hook=error.hook)


def is_same(old: HookRuling, new: HookRuling) -> bool:
    """Whether two rulings have the same effect, whoever gave them and in whatever words."""
    return (
        old.verdict == new.verdict
        and old.says == new.says
        and old.changes.keys() == new.changes.keys()
        and all(_is_same(name, old.changes[name], new.changes[name]) for name in old.changes)
    )


def _is_same(name: str, old: Any, new: Any) -> bool:
    if name == "request":
        # An agent of now has its own tools and system prompt: only what its hooks made of them counts.
        ignored = [field for field in _OF_THE_AGENT if field not in new]
        old = {field: value for field, value in old.items() if field not in ignored}
    return bool(old == new)


def _changes(before: Any, after: Any) -> dict[str, Any]:
    described = describe_changes(before, after) or {}
    described.pop("evaluations", None)
    if "typed_output" in described:  # what is on record of it is the same as JSON
        described["output"] = described.pop("typed_output")
    state = described.pop("state", {})
    state.pop("metadata", None)
    if state:
        described["state"] = state
    if described.pop("request", None) and (changed := _request_changes(before, after)):
        described["request"] = changed
    # As JSON: a recorded hook makes a list of messages where the hook itself made a tuple.
    return msgspec.json.decode(msgspec.json.encode(described, enc_hook=list))  # type: ignore[no-any-return]


def _request_changes(before: Any, after: Any) -> dict[str, Any]:
    """What hooks made of a request, apart from showing the model the conversation they have changed."""
    expected: InferenceRequest = before.request.with_messages(after.state.messages)
    return {
        name: getattr(after.request, name)
        for name in InferenceRequest.__struct_fields__
        if getattr(after.request, name) != getattr(expected, name)
    }


def _strongest(said: tuple[ContinuationEvaluation, ...]) -> ContinuationEvaluation | None:
    outcome = ContinuationOutcome.from_evaluations(said)
    for evaluation in said:
        if (evaluation.source, evaluation.reason) == (outcome.resolved_by, outcome.reason):
            return evaluation
    return None
