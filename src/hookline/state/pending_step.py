"""A step that waits for a person: its calls, the questions about them, and the answers (`Decision`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from hookline.errors import UsageError
from hookline.state.calls import ErrorInfo, ToolCall, ToolResult
from hookline.state.continuation import ContinuationEvaluation
from hookline.state.frozen import FrozenDict, checked_text, freeze_dict, valid_text
from hookline.state.messages import NO_USAGE, ProviderToolUse, Reasoning, Usage


class Answer(enum.StrEnum):
    """The possible answers of a person about a call."""

    ALLOW = "allow"
    DENY = "deny"
    EDIT = "edit"


_ANSWERS = tuple(answer.value for answer in Answer)


class Decision(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An answer to an asked call. `remember` makes it valid for the same call for the rest of the session.

    With a `rule`, for example `bash(git push *)`, it is valid for all calls that match, when the same hook asks.
    """

    answer: Answer
    reason: str = ""
    args: dict[str, Any] | None = None
    remember: bool = False
    rule: str = ""

    def __post_init__(self) -> None:
        # It may come from a web page: what is not a clear answer must not count as one.
        set_field = msgspec.structs.force_setattr
        if type(self.answer) is not Answer:
            set_field(self, "answer", _answer(self.answer))
        if not isinstance(self.reason, str):
            raise UsageError(f"the reason of a decision is text, not {self.reason!r}.")
        if not isinstance(self.rule, str):
            raise UsageError(f"the rule of a decision is text, not {self.rule!r}.")
        if type(self.reason) is not str or not self.reason.isascii():
            set_field(
                self, "reason", valid_text(self.reason)
            )  # a no must not fail because of its text
        set_field(self, "rule", checked_text(self.rule, "the rule of a decision"))
        if type(self.remember) is not bool:
            raise UsageError(
                f"remember={self.remember!r} of a decision is neither True nor False.",
                remedy="Pass True or False.",
            )
        if type(self.args) is not FrozenDict:
            set_field(self, "args", _freeze_edit(self.answer, self.args))

    @staticmethod
    def allow(reason: str = "", *, remember: bool = False, rule: str = "") -> Decision:
        """Run it as it is: once, for the rest of the session (`remember`), or all calls that match a `rule`."""
        return Decision(
            answer=Answer.ALLOW, reason=reason, remember=remember or bool(rule), rule=rule
        )

    @staticmethod
    def deny(reason: str = "", *, remember: bool = False, rule: str = "") -> Decision:
        """Do not run it; the model reads the reason. `remember` and `rule` are as for `allow`."""
        return Decision(
            answer=Answer.DENY, reason=reason, remember=remember or bool(rule), rule=rule
        )

    @staticmethod
    def edit(**args: Any) -> Decision:
        """Run it with these arguments changed; the changed call is validated and judged again."""
        return Decision(answer=Answer.EDIT, args=args)


def _answer(given: object) -> Answer:
    """The answer that a text names."""
    if isinstance(given, str) and given in _ANSWERS:
        return Answer(given)
    raise UsageError(
        f"{given!r} is not an answer to a call.",
        remedy=f"The answers are: {', '.join(_ANSWERS)}. Or write, for example, Decision.allow().",
    )


def _freeze_edit(answer: Answer, args: dict[str, Any] | None) -> FrozenDict | None:
    """The arguments of an edit, frozen. Other answers must have none: they would be ignored."""
    if answer is not Answer.EDIT and not args:
        return None
    if answer is not Answer.EDIT or not isinstance(args, dict):
        raise UsageError(
            f"a decision to {answer.value} cannot have the arguments {args!r}.",
            remedy="Write Decision.edit(name=value) to change some of them.",
        )
    return freeze_dict(args, "an edited argument")


class PendingApproval(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A call that waits for a person. `fingerprint` binds an answer to exactly this tool and these arguments."""

    id: str
    tool_call: ToolCall
    reason: str
    asked_by: str
    fingerprint: str
    run_id: str = ""
    expires_at: float | None = None
    """Until when it can be answered, in seconds since 1970. A later answer is a no. None: for ever."""
    also_asked_by: tuple[str, ...] = ()
    """The other hooks that asked about the same call: an answer is one to all of them."""
    is_again: bool = False
    """It asks whether to run a call again that had started when its process died."""

    @property
    def askers(self) -> tuple[str, ...]:
        """All hooks that asked: a yes is one to all of them. Another hook asks its own question."""
        return (self.asked_by, *self.also_asked_by)

    def is_expired(self, at: float) -> bool:
        """Whether it is too late to answer."""
        return self.expires_at is not None and at > self.expires_at


def to_remember(approval: PendingApproval, decision: Decision) -> dict[str, Decision]:
    """What a state keeps of an answer that is valid for the session: the last answer, and the hooks that got a yes.

    With a rule, it is kept for the rule and each hook that asked.
    """
    if not decision.remember:
        return {}
    if decision.rule:
        return {rule_key(decision.rule, asker): decision for asker in approval.askers}
    kept = {approval.fingerprint: decision}
    if decision.answer is not Answer.DENY:
        kept |= {f"{approval.fingerprint}/{asker}": decision for asker in approval.askers}
    return kept


def find_remembered_answer(
    kept: Mapping[str, Decision], approval: PendingApproval
) -> Decision | None:
    """The remembered answer to a call: a no, or a yes to everybody who asks now."""
    last = kept.get(approval.fingerprint)
    if last is None or last.answer is Answer.DENY:
        return last
    said = (kept.get(f"{approval.fingerprint}/{asker}") for asker in approval.askers)
    same = (
        each is not None and (each.answer, each.args) == (last.answer, last.args) for each in said
    )
    return last if all(same) else None


def rule_key(rule: str, asker: str) -> str:
    """The name under which an answer for a rule is remembered, for the hook that asked."""
    return f"{asker}: {rule}"


class CallStage(enum.StrEnum):
    """How far a call of a paused step has come."""

    ADMITTED = "admitted"
    """Judged and cleared; not started."""
    ASKED = "asked"
    """Waits for a person."""
    SETTLED = "settled"
    """Has its result: blocked, invalid, or already run."""
    SUSPENDED = "suspended"
    """Started, and waits for a child run that waits for a person."""


class PendingCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call of a paused step."""

    call: ToolCall
    stage: CallStage
    result: ToolResult | None = None
    approval: PendingApproval | None = None
    decision: Decision | None = None
    children: dict[str, Any] | None = None
    """For a suspended call: its child runs by spawn key, each a result as JSON data."""
    child_approvals: tuple[PendingApproval, ...] = ()
    errors: tuple[int, ...] = ()
    """Which of the step's errors are of its failed attempts."""
    questions: int = 0
    """How many questions there were about it: each has an id of its own."""

    def __post_init__(self) -> None:
        if self.children is not None and type(self.children) is not FrozenDict:
            msgspec.structs.force_setattr(
                self, "children", freeze_dict(self.children, "a saved child run")
            )


class PendingStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A step that waits: all it needs to continue, in any process."""

    index: int
    text: str
    model_calls: tuple[ToolCall, ...]
    """The calls as the model made them."""
    calls: tuple[PendingCall, ...]
    evaluations: tuple[ContinuationEvaluation, ...] = ()
    usage: Usage = NO_USAGE
    started_at: float = 0.0
    active: float = 0.0
    errors: tuple[ErrorInfo, ...] = ()
    """What has failed in it so far."""
    follows: int | None = None
    """How many messages the model had seen, when hooks have added others since: those come after the results."""
    ends_session: bool = True
    """The session is the run's own, and ends with it."""
    reasoning: tuple[Reasoning, ...] = ()
    provider_tool_uses: tuple[ProviderToolUse, ...] = ()
    records: int = 0
    """How many records the journal had when the run paused: where the count continues."""

    def approvals(self) -> tuple[PendingApproval, ...]:
        """The questions that still wait for an answer, in call order, those of child runs included."""
        own_and_nested = (
            ((call.approval,) if call.approval and call.stage is CallStage.ASKED else ())
            + call.child_approvals
            for call in self.calls
        )
        return tuple(approval for group in own_and_nested for approval in group)
