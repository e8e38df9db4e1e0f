from __future__ import annotations

import itertools
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import ContinuationDecision, ContinuationEvaluation, ContinuationOutcome, StopReason

FORBID = ContinuationDecision.FORBID_CONTINUATION
REQUEST = ContinuationDecision.REQUEST_CONTINUATION
ALLOW_STOP = ContinuationDecision.ALLOW_STOP
ALLOW_CONTINUE = ContinuationDecision.ALLOW_CONTINUATION

EVALUATIONS = st.builds(
    ContinuationEvaluation,
    source=st.sampled_from(["a", "b", "c"]),
    decision=st.sampled_from(ContinuationDecision),
    reason=st.sampled_from(["", "x", "y"]),
    stop_reason=st.none() | st.sampled_from([StopReason.STEP_LIMIT, StopReason.COST_LIMIT]),
)
from_evaluations = ContinuationOutcome.from_evaluations


@given(st.lists(EVALUATIONS, max_size=7), st.randoms())
def test_the_outcome_does_not_depend_on_the_order(
    evaluations: list[ContinuationEvaluation], random: Random
) -> None:
    """Whoever speaks first, the same things are decided by the same hook for the same reason."""
    shuffled = list(evaluations)
    random.shuffle(shuffled)
    one, other = from_evaluations(evaluations), from_evaluations(shuffled)
    assert msgspec.structs.replace(one, evaluations=()) == msgspec.structs.replace(
        other, evaluations=()
    )
    assert one.is_forbidden is other.is_forbidden
    assert one.evaluations == tuple(evaluations)


@given(st.lists(EVALUATIONS, min_size=1, max_size=7))
def test_the_resolution(evaluations: list[ContinuationEvaluation]) -> None:
    """Any Forbid stops; else any Request continues; else any AllowStop stops; else it continues."""
    decisions = {evaluation.decision for evaluation in evaluations}
    outcome = from_evaluations(evaluations)
    deciding = next(
        each for each in (FORBID, REQUEST, ALLOW_STOP, ALLOW_CONTINUE) if each in decisions
    )
    assert outcome.should_continue is (deciding in (REQUEST, ALLOW_CONTINUE))
    assert outcome.is_forbidden is (FORBID in decisions)
    assert outcome.resolved_by in {each.source for each in evaluations if each.decision is deciding}
    assert (outcome.stop_reason is None) is outcome.should_continue


TABLE: dict[frozenset[ContinuationDecision], tuple[bool, StopReason | None]] = {
    frozenset(said): (
        (False, StopReason.HOOK)
        if FORBID in said
        else (True, None)
        if REQUEST in said
        else (False, StopReason.COMPLETED)
        if ALLOW_STOP in said
        else (True, None)
    )
    for size in range(1, 5)
    for said in itertools.combinations(ContinuationDecision, size)
}


@pytest.mark.parametrize("said", TABLE, ids=lambda said: "+".join(sorted(said)))
def test_every_combination_of_decisions(said: frozenset[ContinuationDecision]) -> None:
    """All fifteen mixtures, each in every order."""
    for order in itertools.permutations(said):
        outcome = from_evaluations(ContinuationEvaluation(each, each) for each in order)
        assert (outcome.should_continue, outcome.stop_reason) == TABLE[said]


def test_nothing_said_is_a_stop_that_says_so() -> None:
    """A run in which nobody decides does not continue forever."""
    outcome = from_evaluations([])
    assert not outcome.should_continue
    assert (outcome.stop_reason, outcome.resolved_by) == (StopReason.NO_DECISION, None)
    assert outcome.evaluations == ()
    assert not outcome.is_forbidden


def test_the_outcome_names_the_hook_and_the_reason() -> None:
    """The deciding evaluation lends its source, reason and stop reason."""
    outcome = from_evaluations(
        [
            ContinuationEvaluation("eager", REQUEST, "more to do"),
            ContinuationEvaluation("budget", FORBID, "0.5 of 0.5 used", StopReason.COST_LIMIT),
            ContinuationEvaluation("tool-calls", ALLOW_STOP),
        ]
    )
    assert (outcome.resolved_by, outcome.reason) == ("budget", "0.5 of 0.5 used")
    assert outcome.stop_reason is StopReason.COST_LIMIT
    assert [each.source for each in outcome.evaluations] == ["eager", "budget", "tool-calls"]


def test_a_stop_reason_counts_only_when_it_decides() -> None:
    """A weaker evaluation's stop reason is kept and not taken."""
    outcome = from_evaluations(
        [
            ContinuationEvaluation("a", ALLOW_STOP, "", StopReason.TIME_LIMIT),
            ContinuationEvaluation("b", REQUEST, "not yet"),
        ]
    )
    assert outcome.should_continue
    assert outcome.stop_reason is None


@given(st.lists(EVALUATIONS, max_size=5))
def test_an_outcome_survives_json(evaluations: list[ContinuationEvaluation]) -> None:
    """Every evaluation of it too."""
    outcome = from_evaluations(evaluations)
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=ContinuationOutcome) == outcome


def test_evaluations_cannot_be_changed() -> None:
    """Nor can the outcome they add up to."""
    evaluation = ContinuationEvaluation("a", FORBID)
    with pytest.raises(AttributeError):
        evaluation.decision = REQUEST  # type: ignore[misc]
    with pytest.raises(AttributeError):
        from_evaluations([evaluation]).should_continue = True  # type: ignore[misc]
