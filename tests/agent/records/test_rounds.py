from __future__ import annotations

from hookline.agent.records.rounds import HookRounds, Place, place_of
from hookline.journal import (
    ApprovalAnswered,
    ErrorRaised,
    HookRan,
    HooksPassed,
    Record,
    RunTakenUp,
    StepFinished,
    StepStarted,
)
from hookline.state import Step

CALL: Place = ("before_tool_use", 0, "c1")


def ran(hook: str, verdict: str = "proceed", *, tier: str = "hook", point: str = "") -> HookRan:
    """A hook's verdict about the call, or at another point."""
    where = (point, hook, 0.0, 0, "") if point else ("before_tool_use", hook, 0.0, 0, "c1")
    return HookRan("run", 0, 0.0, *where, tier, verdict)


def passed(*hooks: str) -> HooksPassed:
    """Hooks that had nothing against the call."""
    readings = tuple(range(len(hooks) + 1))
    return HooksPassed(
        "run", 0, 0.0, "before_tool_use", hooks, readings, 0, "c1", ("hook",) * len(hooks)
    )


def heard(*records: Record) -> HookRounds:
    """The rounds of these records."""
    rounds = HookRounds()
    for record in records:
        rounds.add(record)
    return rounds


def names(rounds: HookRounds, place: Place) -> list[list[str]]:
    """The hooks of each round_ at a place."""
    found = []
    while round_ := rounds.at(place, len(found)):
        found.append([each.hook for each in round_])
    return found


def answered() -> Record:
    """Something that is no verdict."""
    return ApprovalAnswered("run", 0, 0.0)


def test_hooks_that_speak_one_after_the_other_speak_of_one_thing() -> None:
    """Whether they say something or let it be; observers and hooks around it are not among them."""
    told = (passed("a", "b"), ran("c", "ask"), ran("o", tier="observer"), passed("d"))
    rounds = heard(*told, ran("x", point="around_tool_use"))
    assert names(rounds, CALL) == [["a", "b", "c", "d"]]
    assert rounds.points() == {"before_tool_use"}


def test_a_call_that_is_judged_again_is_another_round_() -> None:
    """After an answer, or after a verdict that ended the first."""
    rounds = heard(passed("a"), answered(), passed("a"), ran("b", "block"), passed("a"))
    assert names(rounds, CALL) == [["a"], ["a", "b"], ["a"]]
    assert [each.hook for each in rounds.all_at(CALL)] == ["a", "a", "b", "a"]


def test_a_guard_that_stood_alone_was_asked() -> None:
    """It has no record of its own."""
    rounds = heard(StepStarted("run", 0, 0.0, 0, "limits"))
    assert names(rounds, ("before_step", 0, "")) == [["limits"]]


def test_errors_count_although_nobody_said_anything_to_them() -> None:
    """So that what is said to the second is not taken for what was said to the first."""
    error = ErrorRaised("run", 0, 0.0, None, "ignore", 0.0, 0)
    rounds = heard(error, ran("e", point="error"), error)
    assert rounds.at(("error", 0, ""), 0) == ()
    assert [each.hook for each in rounds.at(("error", 0, ""), 1)] == ["e"]


def test_what_is_said_after_a_crash_belongs_to_what_was_said_before() -> None:
    """Those who were not asked continue, policies say it again; whoever else speaks again speaks of something new."""
    policy = ran("p", "block", tier="policy")
    taken_up = RunTakenUp("run", 0, 0.0)
    assert names(heard(passed("a"), taken_up, passed("b")), CALL) == [["a", "b"]]
    again = heard(passed("a"), ran("p", tier="policy"), taken_up, policy)
    assert [each.verdict for each in again.at(CALL, 0)] == ["proceed", "block"]
    assert names(heard(passed("a"), answered(), taken_up, passed("a")), CALL) == [["a"], ["a"]]
    settled = heard(passed("a"), StepFinished("run", 0, 0.0, Step(0)), taken_up, passed("b"))
    assert names(settled, CALL) == [["a"], ["b"]]


def test_points_of_the_run_belong_to_no_step() -> None:
    """Whichever was made last; and only hooks about a call are told apart by it."""
    assert place_of("output", 3, "") == ("output", None, "")
    assert place_of("error", 3, "c1") == ("error", 3, "")
    assert place_of("after_tool_use", 3, "c1") == ("after_tool_use", 3, "c1")
