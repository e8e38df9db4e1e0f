"""What a hook may answer, and what all answers add up to."""

from __future__ import annotations

import itertools

import pytest

from hookline.hooks import Context, HookOutcome, Kind, Point, Result, Verdict


class Parcel(Context, frozen=True, kw_only=True):
    weight: int = 1


GATE = Point("gate", Parcel)
PARCEL = Parcel(point=GATE)


def test_the_strictest_kind_is_the_greatest() -> None:
    """stop > block > ask > proceed > allow, so that comparing them is judging them."""
    kinds = [Kind.STOP, Kind.BLOCK, Kind.ASK, Kind.PROCEED, Kind.ALLOW]
    assert all(stricter > milder for stricter, milder in itertools.pairwise(kinds))
    assert [kind.label for kind in kinds] == ["stop", "block", "ask", "proceed", "allow"]


@pytest.mark.parametrize(
    ("outcome", "kind", "reason"),
    [
        (HookOutcome.proceed(), Kind.PROCEED, ""),
        (HookOutcome.block("no"), Kind.BLOCK, "no"),
        (HookOutcome.stop("enough"), Kind.STOP, "enough"),
        (HookOutcome.ask("sure?"), Kind.ASK, "sure?"),
        (HookOutcome.allow(), Kind.ALLOW, ""),
        (HookOutcome.allow("known"), Kind.ALLOW, "known"),
    ],
)
def test_each_word_makes_its_kind(outcome: HookOutcome, kind: Kind, reason: str) -> None:
    """An outcome says what it is, and exactly that."""
    assert (outcome.kind, outcome.reason, outcome.context) == (kind, reason, None)
    assert outcome.is_blocked is (kind is Kind.BLOCK)
    assert outcome.is_stopped is (kind is Kind.STOP)
    assert outcome.is_asking is (kind is Kind.ASK)


def test_every_outcome_can_carry_a_changed_context() -> None:
    """A hook that blocks can still leave a note behind."""
    outcomes = (
        HookOutcome.proceed(PARCEL),
        HookOutcome.block("no", PARCEL),
        HookOutcome.stop("enough", PARCEL),
        HookOutcome.ask("sure?", PARCEL),
        HookOutcome.allow("known", PARCEL),
    )
    assert all(outcome.context is PARCEL for outcome in outcomes)


def test_a_stop_can_say_which_kind_of_stop_it_is() -> None:
    """The engine only hands it on."""
    assert HookOutcome.stop("enough", stop_reason="limit").stop_reason == "limit"
    assert HookOutcome.stop("enough").stop_reason is None


def test_an_outcome_is_immutable() -> None:
    """Nobody can turn a block into something else on the way."""
    outcome = HookOutcome.block("no")
    with pytest.raises(AttributeError):
        outcome.kind = Kind.PROCEED  # type: ignore[misc]


@pytest.mark.parametrize("word", ["block", "stop", "ask"])
def test_a_word_against_something_needs_a_reason(word: str) -> None:
    """Someone, a person or a model, is going to read it."""
    with pytest.raises(TypeError, match="reason"):
        getattr(HookOutcome, word)()


@pytest.mark.parametrize("kind", list(Kind))
def test_a_result_knows_its_kind_and_gives_it_as_a_verdict(kind: Kind) -> None:
    """The verdict is what observers are shown: what was decided, why, and by whom."""
    result = Result(PARCEL, kind, "because", "guard")
    assert result.is_blocked is (kind is Kind.BLOCK)
    assert result.is_stopped is (kind is Kind.STOP)
    assert result.is_asking is (kind is Kind.ASK)
    assert result.verdict == Verdict(kind, "because", "guard")
    assert result.verdict.label == kind.label


def test_a_result_nobody_had_a_hand_in_proceeds() -> None:
    """The context is the one that was asked about, and nobody decided."""
    result = Result(PARCEL)
    assert result.context is PARCEL
    assert result.verdict == Verdict(Kind.PROCEED, "", "")
