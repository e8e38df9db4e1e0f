from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hookline.state import Log
from hookline.state.frozen import BLOCK


class Item:
    """A message, as far as a log is concerned: something that compares by value and has no hash."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Item({self.number})"


def blocks(log: Log[Any]) -> list[tuple[Any, ...]]:
    """The full blocks of a log, newest first."""
    found = []
    block = log._blocks
    while block is not None:
        found.append(block.items)
        block = block.before
    return found


class Branching(RuleBasedStateMachine):
    """A family of logs that grow out of one another, beside tuples that do the same."""

    def __init__(self) -> None:
        super().__init__()
        self.family: list[tuple[Log[Item], tuple[Item, ...]]] = [(Log(), ())]
        self.count = 0

    def items(self, number: int) -> tuple[Item, ...]:
        """New items."""
        self.count += number
        return tuple(Item(n) for n in range(self.count - number, self.count))

    @rule(who=st.integers(0), number=st.integers(0, 3 * BLOCK))
    def extend(self, who: int, number: int) -> None:
        """Grow any member of the family; it stays as it is, and the longer one joins."""
        log, model = self.family[who % len(self.family)]
        new = self.items(number)
        self.family.append((log.extend(new), model + new))

    @rule(who=st.integers(0))
    def append(self, who: int) -> None:
        """Grow any member by one."""
        log, model = self.family[who % len(self.family)]
        (new,) = self.items(1)
        self.family.append((log.append(new), (*model, new)))

    @rule(who=st.integers(0))
    def with_last(self, who: int) -> None:
        """Replace the last item of any member."""
        log, model = self.family[who % len(self.family)]
        if model:
            (new,) = self.items(1)
            self.family.append((log.with_last(new), (*model[:-1], new)))

    @rule(who=st.integers(0))
    def rebuild(self, who: int) -> None:
        """Make a member again from its items, as reading a saved state does."""
        log, model = self.family[who % len(self.family)]
        self.family.append((Log(log), model))

    @invariant()
    def every_member_is_what_it_was(self) -> None:
        """Nothing that was done to a relative has changed a log."""
        for log, model in self.family[-4:]:
            assert (len(log), tuple(log)) == (len(model), model)
            assert tuple(reversed(log)) == model[::-1]
            assert bool(log) is bool(model)

    @invariant()
    def members_compare_by_value(self) -> None:
        """Two logs are equal when their items are, however they were built."""
        log, model = self.family[-1]
        for other, other_model in self.family[-4:]:
            assert (log == other) is (model == other_model)

    @rule(one=st.integers(0), other=st.integers(0))
    def since(self, one: int, other: int) -> None:
        """What is said to have been appended is what has to be appended."""
        later, later_model = self.family[one % len(self.family)]
        earlier, earlier_model = self.family[other % len(self.family)]
        added = later.since(earlier)
        if added is not None:
            assert earlier_model + added == later_model
        elif later_model[: len(earlier_model)] == earlier_model:
            # Equal items in other blocks: only a log that was made again can be taken for unrelated.
            assert later._blocks is not earlier._blocks


Branching.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestBranching = Branching.TestCase


@given(st.integers(0, 5 * BLOCK), st.lists(st.integers(0, 2 * BLOCK), max_size=6))
def test_what_was_appended_is_reported(start: int, steps: list[int]) -> None:
    """`since` gives what was appended to any earlier log of the same line."""
    log: Log[int] = Log(range(start))
    line = [log]
    for step in steps:
        log = log.extend(tuple(range(step)))
        line.append(log)
    for position, earlier in enumerate(line):
        added = log.since(earlier)
        assert added is not None
        assert len(added) == sum(steps[position:])
        assert tuple(earlier) + added == tuple(log)
    assert log.since(log) == ()


@given(st.integers(1, 3 * BLOCK), st.integers(0, 2 * BLOCK), st.integers(1, 2 * BLOCK))
def test_a_branch_does_not_continue_its_sibling(shared: int, one: int, other: int) -> None:
    """Logs that went different ways are distinguished, also when they are equally long."""
    trunk = Log([Item(n) for n in range(shared)])
    left = trunk.extend(tuple(Item(1000 + n) for n in range(one)))
    right = trunk.extend(tuple(Item(2000 + n) for n in range(other)))
    assert left.since(right) is None
    replaced = trunk.with_last(Item(-1))
    assert replaced.since(trunk) is None
    assert left.since(replaced) is None


def test_a_shorter_log_does_not_continue_a_longer_one() -> None:
    """Taking something away is not appending."""
    log: Log[int] = Log(range(100))
    assert Log(range(99)).since(log) is None
    assert Log(()).since(log) is None
    assert log.since(Log(())) == tuple(range(100))


@given(st.integers(0, 4 * BLOCK), st.data())
def test_indices_and_slices_are_those_of_a_tuple(length: int, data: st.DataObject) -> None:
    """Positive, negative, out of range, with steps: all as a tuple has them."""
    model = tuple(range(length))
    log: Log[int] = Log(model[: length // 2]).extend(model[length // 2 :])
    bound = st.none() | st.integers(-length - 5, length + 5)
    cut = slice(
        data.draw(bound), data.draw(bound), data.draw(st.sampled_from([None, 1, 2, -1, -3]))
    )
    assert log[cut] == model[cut]
    index = data.draw(st.integers(-length - 3, length + 3))
    if -length <= index < length:
        assert log[index] == model[index]
    else:
        with pytest.raises(IndexError):
            log[index]


@given(st.lists(st.integers(0, 5), max_size=3 * BLOCK), st.integers(0, 6))
def test_searching_is_that_of_a_tuple(items: list[int], wanted: int) -> None:
    """Membership, counting and the first position."""
    log = Log(items)
    assert (wanted in log) is (wanted in items)
    assert log.count(wanted) == items.count(wanted)
    if wanted in items:
        assert log.index(wanted) == items.index(wanted)


@pytest.mark.parametrize("length", [BLOCK, BLOCK + 1, 10 * BLOCK, 10 * BLOCK + 7])
def test_appending_shares_every_full_block(length: int) -> None:
    """A longer log holds the very blocks of the shorter one: the past is not copied, however long it is."""
    log: Log[int] = Log(range(length))
    longer = log.append(-1)
    assert all(
        new is old for new, old in zip(blocks(longer)[::-1], blocks(log)[::-1], strict=False)
    )
    assert len(blocks(longer)) - len(blocks(log)) in (0, 1)
    assert len(longer._tail) <= BLOCK
    changed = log.with_last(-1)
    assert changed._blocks is log._blocks


def test_branches_share_what_they_have_in_common() -> None:
    """A state that is derived and dropped costs one tail; the chain behind it is the same object."""
    log: Log[int] = Log(range(10_000))
    assert {id(log.append(n)._blocks) for n in range(5)} == {id(log.append(0)._blocks)}


def test_a_log_cannot_be_changed_or_hashed() -> None:
    """It has no way to change, and as it holds JSON it has no hash."""
    log = Log([1])
    with pytest.raises(TypeError):
        log[0] = 2  # type: ignore[index]
    with pytest.raises(TypeError, match="cannot be hashed"):
        hash(log)
    with pytest.raises(AttributeError):
        log.extra = 1  # type: ignore[attr-defined]


def test_a_log_is_not_equal_to_other_sequences() -> None:
    """Only logs compare; everything else is something else."""
    assert Log([1]) != [1]
    assert Log([1]) != (1,)
    assert Log([1]) == Log([1])
    assert repr(Log([1, 2])) == "Log([1, 2])"
