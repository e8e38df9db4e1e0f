"""Approvals: who answers a hook: permission hooks, `resume`, inbox, remembered answers, the approver; else it waits.

The rules that ask are in `capabilities/approval.py`, the questions and answers in `state/pending_step.py`, the keys of
the terminal in `cli/approval_prompt.py`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from hookline import permissions  # rules are read in when one is given, and not before
from hookline._aio import is_being_cancelled
from hookline.agent.in_progress import CallInProgress
from hookline.agent.redaction import original, reason_without
from hookline.agent.run import NOBODY, Run
from hookline.errors import ToolError, UsageError, in_words
from hookline.hooks import Result
from hookline.hooks.outcome import CRASHES
from hookline.journal import ApprovalAnswered, ApprovalAsked, InboxAnswer
from hookline.journal.durable import Redact
from hookline.journal.fold import remember_answers
from hookline.journal.inbox import FROM_INBOX, FirstAnswer
from hookline.lifecycle import HookPoint
from hookline.state import EMPTY, AgentState, Answer, Decision, PendingApproval, ToolCall
from hookline.state.pending_step import find_remembered_answer, rule_key, to_remember
from hookline.tools import Toolbox

_EXPIRED = Decision.deny("the question expired")
_UNREADABLE = Decision.deny(
    "a part of the call is hidden because it looks like a secret, but it may also be code, so nobody can be asked "
    "about it. Read the secret from the environment or a file."
)
_MARKED = "it contains [redacted:...], which stands for a hidden value: leave it unchanged, or write the value"
_MISFIT = " (it cannot be edited as it was: "
_MOST_MISFITS = 8
"""How often an approver may edit a call so that it does not fit its tool, before that is a no."""


class Ask(msgspec.Struct, frozen=True):
    """Why a call is asked about, and everybody who asks."""

    reason: str
    askers: tuple[str, ...]

    @property
    def asked_by(self) -> str:
        """Who asks first."""
        return self.askers[0]

    @staticmethod
    def of(result: Result[Any]) -> Ask:
        """What hooks asked."""
        reasons = dict.fromkeys(reason for _, reason in result.asks)
        askers = dict.fromkeys(name for name, _ in result.asks)
        return Ask("; ".join(filter(None, reasons)), tuple(askers))

    @staticmethod
    def anew(approval: PendingApproval, result: Result[Any] | None = None) -> Ask:
        """The same question again, with what other hooks ask now: they have had no answer."""
        new = (
            [] if result is None else [ask for ask in result.asks if ask[0] not in approval.askers]
        )
        reasons = dict.fromkeys((approval.reason, *(reason for _, reason in new)))
        return Ask("; ".join(filter(None, reasons)), (*approval.askers, *(name for name, _ in new)))


async def ask_person(
    run: Run, current: CallInProgress, ask: Ask, *, again: bool = False
) -> Decision | None:
    """The answer to an asked call; None when there is none yet, or when the run was stopped instead.

    `again` asks about a call that had its answer and has used it up: this is a question of its own.
    """
    before, approval = current.approval, question(run, current, ask, again=again)
    if approval is before and current.decision is not None:
        return current.decision  # it was answered before the run paused for another call
    if approval is not before:
        if before is not None and before.fingerprint != approval.fingerprint:
            current.is_changed = True
        current.approval, current.decision = approval, None  # an answer to another question is none
        run.append(ApprovalAsked(*run.record_head(), step=run.step_index or 0, approval=approval))
    decision, by = await _from_hooks(run, current, approval)
    if decision is None and not run.stopping:
        # An answer to this very question goes before one that was remembered from another.
        known = run.source.known.answers.get(approval.id)
        decision, by = known or _answer_from_resume(run, current, approval), "resume"
    if decision is None and not run.stopping:
        decision, by = _answer_from_inbox(run, approval)
    if decision is None and not run.stopping:
        decision, by = _find_remembered(run, current, approval), "a remembered answer"
    if decision is None and not run.stopping and not _can_be_read(current):
        decision, by = _UNREADABLE, "redaction"
    if decision is None and not run.stopping:
        if run.commit is not None:
            run.durable.flush()
        decision, by = await _ask_approver(run, approval)
    if decision is not None:
        decision = _record_answer(run, current, approval, decision, by)
    return decision


# --- the question about a call in progress: only this module writes it ---------------------------------


def allow_edited(run: Run, current: CallInProgress, ask: Ask) -> None:
    """Somebody said yes by editing the call like this. The yes is kept, should the run pause for another call."""
    current.approval, current.decision = question(run, current, ask), Decision.allow()


def close_question(current: CallInProgress) -> None:
    """The call was edited: what was asked and answered was about another one."""
    current.edits += 1
    current.approval = current.decision = None
    current.is_changed = True


def reopen_question(
    current: CallInProgress, approval: PendingApproval | None, decision: Decision | None
) -> None:
    """The call is again what this was asked and answered about."""
    current.approval, current.decision = approval, decision


def reuse_answers(current: CallInProgress, asked: list[PendingApproval], started: ToolCall) -> None:
    """A call that had started was approved as it started: nobody is asked that again, should the run pause."""
    current.questions += sum(not question.is_again for question in asked)
    approval = asked[-1] if asked else current.approval
    if approval is not None:
        current.decision = Decision.allow()
        current.approval = msgspec.structs.replace(
            approval, tool_call=started, fingerprint=started.fingerprint()
        )


async def ask_while_running(run: Run, call: ToolCall, reason: str, asked_by: str) -> Decision:
    """The answer to what a running tool asks. The run cannot pause here: without an answer at once, it is no."""
    shown = run.call_without_secrets(call)
    current = CallInProgress(call, shown, original=None if shown is call else call)
    if run.setup.redact is not None:
        reason = run.setup.redact(reason)
    async with run.hook_lock:  # other calls are running, and their hooks may be asked too
        decision = await ask_person(run, current, Ask(reason, (asked_by,)))
        if decision is None:
            decision = Decision.deny("nobody can answer it now")
            assert current.approval is not None
            _record_answer(run, current, current.approval, decision, "")
    return decision


def question(
    run: Run, current: CallInProgress, ask: Ask, *, again: bool = False
) -> PendingApproval:
    """The question about a call: the one that was asked already, in this process or another, or a new one.

    Its id names the question and not only the call, and is the same in every process that drives the run: who has
    been shown one call cannot be taken to have answered for what it has become since, or for somebody who asks since.
    """
    call, before = current.call, current.approval
    fingerprint, place = call.fingerprint(), f"{run.run_id}/{run.step_index}/{call.id}"
    askers, earlier = ask.askers, [] if before is None or again else [before]
    if again:
        # A yes settles what those asked, too, who asked before it ran the first time.
        askers = tuple(dict.fromkeys((*askers, *(before.askers if before is not None else ()))))
        id = f"{place}/again-{len(run.durable.records)}"
    else:
        if before is not None and is_same(before, fingerprint, ask):
            return before
        number = max(current.questions, len(earlier))
        while True:
            number += 1
            id = f"{place}/question-{number}" if number > 1 else place
            known = run.source.known.asked.get(id)
            if known is not None and is_same(known, fingerprint, ask):
                current.questions = number
                return known
            if known is None:
                break
            earlier.append(known)
        current.questions = number
    of_the_call = [each for each in earlier if each.fingerprint == fingerprint]
    return PendingApproval(
        id=id,
        tool_call=call,
        reason=ask.reason,
        asked_by=ask.asked_by,
        fingerprint=fingerprint,
        run_id=run.run_id,
        expires_at=of_the_call[0].expires_at if of_the_call else _deadline(run),
        also_asked_by=askers[1:],
        is_again=again or any(each.is_again for each in of_the_call),
    )


def is_same(approval: PendingApproval, fingerprint: str, ask: Ask) -> bool:
    """Whether a question is about this very call, and a yes to it settles what everybody asks."""
    return approval.fingerprint == fingerprint and {*ask.askers} <= {*approval.askers}


def _deadline(run: Run) -> float | None:
    """Until when a question that is asked now can be answered: what is set for the run, or for one above it."""
    given = (each.definition.expire_after for each in run.self_and_parents())
    seconds = min((each for each in given if each is not None), default=None)
    if seconds is None:
        return None
    run.clock()
    return run.at + seconds


def _is_expired(run: Run, approval: PendingApproval) -> bool:
    if approval.expires_at is None:
        return False
    run.clock()
    return approval.is_expired(run.at)


def _answer_from_resume(
    run: Run, current: CallInProgress, approval: PendingApproval
) -> Decision | None:
    """The answer that was handed to `resume`, unless it comes too late."""
    decision = run.source.resume_answer(run, approval.id)
    if decision is None or _is_expired(run, approval):
        return None
    problem = misfit(run.setup.definition.toolbox, approval, decision)
    if problem:  # of a child run: it keeps waiting, and says why when it is shown again
        current.approval = _question_after_bad_edit(approval, problem)
    return None if problem else decision


def _answer_from_inbox(run: Run, approval: PendingApproval) -> tuple[Decision | None, str]:
    """The answer that somebody put into the inbox, unless it is void or comes too late, and who that was."""
    found = None if run.inbox is None else run.inbox.answer_to(approval)
    if found is None or _is_expired(run, approval):
        return None, ""
    return found.decision, f"{FROM_INBOX}{found.who}"


def _question_after_bad_edit(approval: PendingApproval, problem: str) -> PendingApproval:
    """The same question, for whoever has edited the call so that it does not fit."""
    reason = f"{approval.reason}{_MISFIT}{problem})"
    return msgspec.structs.replace(approval, reason=reason)


def without_misfit(approval: PendingApproval) -> PendingApproval:
    """The question as it was before somebody edited the call so that it does not fit."""
    return msgspec.structs.replace(approval, reason=approval.reason.partition(_MISFIT)[0])


async def _ask_approver(run: Run, approval: PendingApproval) -> tuple[Decision | None, str]:
    """What the approver says, as long as the question can be answered."""
    shown, problem = approval, ""
    for _ in range(_MOST_MISFITS):
        if _is_expired(run, approval):
            return _EXPIRED, "expiry"
        decision, by = await _from_approver(run, shown)
        if decision is _EXPIRED or (decision is not None and _is_expired(run, approval)):
            return _EXPIRED, "expiry"
        problem = (
            "" if decision is None else misfit(run.setup.definition.toolbox, approval, decision)
        )
        if not problem:
            return decision, by
        shown = _question_after_bad_edit(approval, problem)
    return Decision.deny(f"the edited arguments do not fit: {problem}"), "approver"


def misfit(toolbox: Toolbox, approval: PendingApproval, decision: Decision) -> str:
    """Why a call cannot be edited as it was, if it cannot: who edited it should hear of it, and not the model."""
    if decision.answer is not Answer.EDIT:
        return ""
    if approval.is_again:
        return "what it did with its arguments is not known, so it can only run again unchanged, or not at all"
    call, changed = original(approval.tool_call), find_changed_args(approval, decision)
    if approval.tool_call.redacted and _is_marked(changed):
        return _MARKED
    tool = toolbox.get(call.name)
    if tool is None or call.redacted:
        return ""  # there is no such tool, or nobody knows its arguments: it does not run
    try:
        tool.validate_call(call.with_args(**changed))
    except ToolError as error:
        return str(error)
    return ""


def find_changed_args(approval: PendingApproval, decision: Decision) -> dict[str, Any]:
    """What somebody changed in a call. What is as it was shown stays as it was made."""
    shown = approval.tool_call.args
    given = decision.args or {}
    return {
        name: value for name, value in given.items() if name not in shown or shown[name] != value
    }


def is_redacted_edit(run: Run, changed: Mapping[str, Any]) -> bool:
    """Whether an edit comes from a journal or a state, without the secrets that were in it."""
    return run.setup.redact_content is not None and _is_marked(changed)


def _is_marked(args: Mapping[str, Any]) -> bool:
    from hookline.redaction import has_mark  # as above

    return has_mark(args)


async def _from_hooks(
    run: Run, current: CallInProgress, approval: PendingApproval
) -> tuple[Decision | None, str]:
    plan = run.plans.permission_request
    if plan is None:
        return None, ""
    ctx = run.context(
        HookPoint.PERMISSION_REQUEST,
        tool_call=current.exact,
        response=run.step.response,
        step_index=run.step_index or 0,
        reason=approval.reason,
        asked_by=approval.asked_by,
        also_asked_by=approval.also_asked_by,
    )
    result = await run.ask(plan, ctx, about=current.call.id)
    if result.is_blocked:
        denied = (
            result.answer
            if isinstance(result.answer, Decision) and result.answer.answer == "deny"
            else None
        )
        return denied or Decision.deny(result.reason), result.decided_by
    answer = result.answer
    if answer is not None and not isinstance(answer, Decision):
        answer = Decision.deny(f"a permission hook answered {answer!r}, which is not a Decision")
    return answer, "a permission hook"


def _can_be_read(current: CallInProgress) -> bool:
    """Whether a person who reads what is shown of a call sees all of it but single words that are secrets."""
    if current.original is None:
        return True
    from hookline.redaction import hides_only_words  # only where it is needed: it takes a while

    return hides_only_words(current.original.args, current.call.args)


def _find_remembered(
    run: Run, current: CallInProgress, approval: PendingApproval
) -> Decision | None:
    """What was answered for the session: in this run, or in one above it."""
    if approval.is_again:  # what is remembered of the call is no answer to running it a second time
        return None
    for each in run.self_and_parents():
        remembered = each.state.remembered
        known = find_remembered_answer(remembered, approval) or _by_rule(
            run, current, remembered, approval
        )
        if known is not None:
            return known
    return None


def _by_rule(
    run: Run, current: CallInProgress, remembered: Mapping[str, Decision], approval: PendingApproval
) -> Decision | None:
    """What was answered for a rule that is about this call, if it was answered to everyone who asks now."""
    given = dict.fromkeys(decision.rule for decision in remembered.values() if decision.rule)
    for text in given:
        answers = [remembered.get(rule_key(text, asker)) for asker in approval.askers]
        decision = answers[0]
        if decision is None or any(each != decision for each in answers):
            continue
        rule, call = permissions.Rule.parse(text), current.exact
        tool = run.setup.definition.toolbox.get(call.name)
        root = (tool and tool.root) or "."
        if rule.covers(call, root) if decision.answer is Answer.ALLOW else rule.touches(call, root):
            return decision
    return None


async def _from_approver(run: Run, approval: PendingApproval) -> tuple[Decision | None, str]:
    """What the approver says, or whoever answers through the inbox meanwhile."""
    by = "approver"
    try:
        answer: Any = run.source.approve(run, approval)
        if answer is NOBODY:
            return None, by
        if inspect.isawaitable(answer):
            answer = await _wait_until_expired(run, approval, _first_answer(run, approval, answer))
    except CRASHES as error:
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise
        return Decision.deny(f"the approver failed ({type(error).__name__}: {in_words(error)})"), by
    if isinstance(answer, InboxAnswer):
        return answer.decision, f"{FROM_INBOX}{answer.who}"
    return _as_decision(answer), by


async def _wait_until_expired(run: Run, approval: PendingApproval, answer: Awaitable[Any]) -> Any:
    """Wait for an answer, and not longer than it is good for anything."""
    if approval.expires_at is None:
        return await answer
    timer = asyncio.timeout(approval.expires_at - run.at)
    try:
        async with timer:
            return await answer
    except TimeoutError:
        if timer.expired():
            return _EXPIRED
        raise


async def _first_answer(run: Run, approval: PendingApproval, answer: Awaitable[Any]) -> Any:
    """What the approver says, or an answer from the inbox: whichever comes first."""
    if run.inbox is None:
        return await answer
    asking = asyncio.ensure_future(answer)
    posted = run.inbox.wait_for(approval)
    try:
        await asyncio.wait((asking, posted), return_when=asyncio.FIRST_COMPLETED)
        return await (asking if asking.done() else posted)
    finally:
        run.inbox.forget(approval)
        if not asking.done():
            asking.cancel()
            # A terminal is put back before anybody writes on it. What the approver says now comes too late.
            await asyncio.gather(asking, return_exceptions=True)


def _as_decision(answer: object) -> Decision:
    if isinstance(answer, Decision):
        return answer
    if answer is True:
        return Decision.allow()
    if answer is False:
        return Decision.deny("the approver said no")
    return Decision.deny(
        f"the approver answered {answer!r}, which is neither a Decision nor a bool"
    )


def _record_answer(
    run: Run, current: CallInProgress, approval: PendingApproval, decision: Decision, by: str
) -> Decision:
    if decision.answer is Answer.EDIT and approval.is_again:
        decision = Decision.deny(misfit(run.setup.definition.toolbox, approval, decision))
    if decision.remember and approval.is_again:
        decision = msgspec.structs.replace(decision, remember=False, rule="")
    decision = _with_valid_rule(decision)
    if run.setup.redact is not None:
        decision = reason_without(decision, run.setup.redact)
    if run.decision_without_secrets(decision) is not decision:
        # It holds once: a state has no secrets, so it cannot be remembered.
        decision = msgspec.structs.replace(decision, remember=False, rule="")
    current.decision, kept = decision, run.decision_without_secrets(decision)
    run.clock()  # the answer may have taken long
    run.append(
        ApprovalAnswered(
            *run.record_head(),
            step=run.step_index or 0,
            approval_id=approval.id,
            decision=kept,
            by=by,
        )
    )
    run.set_state(remember_answers(run.state, to_remember(approval, decision)))
    return decision


def _with_valid_rule(decision: Decision) -> Decision:
    """A decision whose rule can be understood; one whose rule cannot is a no, and says why."""
    if not decision.rule:
        return decision
    try:
        permissions.Rule.parse(decision.rule)
    except UsageError as error:
        return Decision.deny(f"the answer has a rule that is not valid: {in_words(error)}")
    return decision


# --- answers that are handed to `resume` --------------------------------------------------------------


def check_answers(
    state: AgentState,
    decisions: Mapping[str, Decision | bool],
    toolbox: Toolbox,
    first: Mapping[str, FirstAnswer] = EMPTY,
    redact: Redact | None = None,
) -> dict[str, Decision]:
    """The answers to what a run waits for, by question; refuses what answers nothing, or cannot be done.

    `first` are the answers that questions have already, on record or in the inbox. The same answer may be given again,
    as by somebody who tries again; another one comes too late. Answers are compared as a record
    has them: without secrets.
    """
    answers = _match_questions(state, decisions, first, redact)
    for approval in state.pending:
        decision = answers.get(approval.id)
        if decision is None or approval.run_id != state.run_id:
            continue  # what the tools of a child run take is known inside it only
        if problem := misfit(toolbox, approval, decision):
            raise UsageError(
                f"the call of question '{approval.id}' cannot be edited like that: {problem}",
                remedy="Nothing was answered, and the question still waits.",
            )
    return answers


def _match_questions(
    state: AgentState,
    decisions: Mapping[str, Decision | bool],
    first: Mapping[str, FirstAnswer],
    redact: Redact | None,
) -> dict[str, Decision]:
    """The answers, each to a question that waits."""
    known = {approval.id for approval in state.pending}
    if not isinstance(decisions, Mapping):
        raise UsageError(
            f"decisions= takes answers by approval id, not {decisions!r}.",
            remedy="Write {pending.id: Decision.allow() for pending in state.pending}.",
        )
    answers: dict[str, Decision] = {}
    for key, decision in decisions.items():
        if key not in known and key not in first:
            raise UsageError(
                f"no question with id '{key}' waits for an answer.",
                remedy=f"Waiting: {', '.join(sorted(known)) or 'nothing'}. Answer what waits now: "
                "a call that was changed, or that others ask about since, is another question.",
            )
        if isinstance(decision, bool):
            decision = Decision.allow() if decision else Decision.deny()
        if not isinstance(decision, Decision):
            raise UsageError(
                f"the answer to '{key}' is {decision!r}.",
                remedy="Use Decision.allow(), .deny(...) or .edit(...).",
            )
        if key in first:
            before, given = first[key], decision
            if redact is not None:
                before = before._replace(decision=reason_without(before.decision, redact))
                given = reason_without(given, redact)
            before.check_same(key, given)
        if key in known:
            answers[key] = decision
    return answers
