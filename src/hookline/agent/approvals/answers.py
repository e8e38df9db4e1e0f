"""The answers that are handed to `resume`: all of them can be used, or none of them is used up."""

from __future__ import annotations

from collections.abc import Mapping

from hookline.agent.approvals.questions import misfit
from hookline.errors import UsageError
from hookline.state import EMPTY, AgentState, Decision
from hookline.tools import Toolbox


def checked_answers(
    state: AgentState,
    decisions: Mapping[str, Decision | bool],
    toolbox: Toolbox,
    on_record: Mapping[str, Decision] = EMPTY,
) -> dict[str, Decision]:
    """The answers to what a run waits for, by question; refuses what answers nothing, or cannot be done.

    `on_record` is what it was answered before its process died. The same answer may be given again, as by somebody
    who tries again; another one comes too late.
    """
    answers = _named(state, decisions, on_record)
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


def _named(
    state: AgentState,
    decisions: Mapping[str, Decision | bool],
    on_record: Mapping[str, Decision],
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
        if key not in known and key not in on_record:
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
        if key in known:
            answers[key] = decision
        elif decision != on_record[key]:
            raise UsageError(
                f"question '{key}' was answered already ({on_record[key].answer.value}), and its call may have run.",
                remedy="Nothing waits for that answer. Resume the run without it.",
            )
    return answers
