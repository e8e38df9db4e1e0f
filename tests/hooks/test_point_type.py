"""A point: a name with rules, and the contexts hooks are shown there."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import UsageError
from hookline.hooks import Context, Point, normalize_name


class Parcel(Context, frozen=True, kw_only=True):
    weight: int = 1


def test_a_point_prints_compares_and_hashes_like_its_name() -> None:
    """It can be written into a record, looked up in a dict and compared with text."""
    gate = Point("gate", Parcel)
    assert gate == "gate"
    assert f"{gate}" == "gate"
    assert {gate: 1}["gate"] == 1
    assert type(gate.value) is str
    assert repr(gate) == "<point gate>"


def test_a_point_without_further_words_is_strict() -> None:
    """Nothing may be changed or blocked, and a failing hook is an error."""
    gate = Point("gate", Parcel)
    assert (gate.changes, gate.answers, gate.blocks) == (frozenset(), (), None)
    assert not gate.failure_blocks
    assert gate.verdicts == {"stop"}
    assert not gate.around
    assert not gate.unskippable


@pytest.mark.parametrize("blocks", [None, "the parcel stays"])
def test_block_is_a_word_only_where_something_can_be_blocked(blocks: str | None) -> None:
    """What a block means is said by the point; without a meaning there is no block."""
    gate = Point("gate", Parcel, blocks=blocks, verdicts=frozenset({"block", "stop", "ask"}))
    assert ("block" in gate.verdicts) is (blocks is not None)
    assert {"stop", "ask"} <= gate.verdicts


@pytest.mark.parametrize(
    "text", ["before_gate", "BeforeGate", "before-gate", "PRE_GATE", "preGate"]
)
def test_a_point_is_known_by_every_spelling(text: str) -> None:
    """Case and separators do not matter, for its name and for its aliases."""
    assert Point("before_gate", Parcel, aliases=("pre_gate",)).is_named(text)


def test_another_name_is_not_a_spelling() -> None:
    """Only the name and its aliases count."""
    gate = Point("before_gate", Parcel, aliases=("pre_gate",))
    assert not any(gate.is_named(text) for text in ("gate", "before", "after_gate", ""))


@given(st.text(alphabet="abcXYZ_-", max_size=12))
def test_spelling_forgets_case_and_separators_once_and_for_all(text: str) -> None:
    """It does not depend on how the text was written, and doing it twice changes nothing."""
    assert (
        normalize_name(normalize_name(text))
        == normalize_name(text)
        == normalize_name(text.upper())
        == normalize_name(f"_{text}-")
    )


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((), "None, a HookOutcome, a changed Parcel"),
        ((int,), "None, a HookOutcome, a changed Parcel or int"),
        ((int, str), "None, a HookOutcome, a changed Parcel, int or str"),
    ],
)
def test_a_point_says_what_a_hook_may_return(answers: tuple[type, ...], expected: str) -> None:
    """This sentence is the remedy when a hook returned something else."""
    gate = Point("gate", Parcel, answers=tuple((kind, lambda ctx, _: ctx) for kind in answers))
    assert gate.describe_expected() == expected


def test_a_context_cannot_be_changed_in_place() -> None:
    """What a hook wants changed it derives and returns."""
    parcel = Parcel(point=Point("gate", Parcel))
    with pytest.raises(AttributeError):
        parcel.weight = 2  # type: ignore[misc]
    assert (msgspec.structs.replace(parcel, weight=2).weight, parcel.weight) == (2, 1)


def test_a_point_that_cannot_do_what_it_says_is_refused() -> None:
    """A context that is none, a field that it has not, a verdict that does not exist."""
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (int, {}, "int'> is not a context"),
        (Parcel(point=Point("gate", Parcel)), {}, "is not a context"),
        (Parcel, {"changes": {"wieght"}}, "changes= has 'wieght', which is none of"),
        (Parcel, {"blocks": "no", "verdicts": {"deny"}}, "verdicts= has 'deny', which is none of"),
    ]
    for context, options, said in wrong:
        with pytest.raises(UsageError, match=re.escape(said)):
            Point("gate", context, **options)
