"""The order hooks run in: tiers, then names, then priority, then registration."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import BuildError, OrderError, RegistrationError
from hookline.hooks import (
    Context,
    HookOptions,
    Point,
    Registration,
    Tier,
    register,
    sort_hooks,
    unique_names,
)
from hookline.lifecycle import HookStack

GATE = Point("gate", Context)
EXIT = Point("exit", Context)
TIERS = list(Tier)


def hook(ctx: Context) -> None:
    """Any hook."""


def named(
    name: str | None,
    priority: int = 0,
    *,
    before: str | Sequence[str] = (),
    after: str | Sequence[str] = (),
    tier: str = "hook",
) -> Registration:
    """A registration of which only the order matters."""
    return register(
        GATE, hook, HookOptions(name=name, priority=priority, before=before, after=after, tier=tier)
    )


def names(*registrations: Registration, known: Sequence[str] = ()) -> list[str]:
    """The order these registrations run in."""
    return [each.name for each in sort_hooks(unique_names(registrations), known)]


# --- priority, registration, tiers ----------------------------------------------------------------


def test_higher_priority_goes_first_and_ties_go_by_registration() -> None:
    """Negative ones come last."""
    assert names(
        named("log", -100), named("first"), named("guard", 100), named("second"), named("check", 50)
    ) == ["guard", "check", "first", "second", "log"]


def test_no_priority_outranks_a_tier() -> None:
    """Hooks, then policies, then observers, whatever their numbers."""
    assert names(
        named("watch", 1000, tier="observer"),
        named("law", 500, tier="policy"),
        named("rewrite", -1000),
    ) == ["rewrite", "law", "watch"]


def test_nothing_and_one_are_in_order() -> None:
    """The smallest plans."""
    assert names() == []
    assert names(named("only", 7)) == ["only"]


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_list", [False, True])
def test_names_win_over_priorities(as_list: bool) -> None:
    """Security before logging, although logging has the higher number; as text or as a list."""
    log = ["log"] if as_list else "log"
    security = ["security"] if as_list else "security"
    assert names(named("log", 100), named("security", before=log)) == ["security", "log"]
    assert names(named("log", 100, after=security), named("security")) == ["security", "log"]


def test_among_the_free_ones_the_highest_priority_goes_first() -> None:
    """A hook that waits takes its turn as soon as it may, not where its number alone would put it."""
    assert names(
        named("low", -5),
        named("waits", 100, after="low"),
        named("middle", 0),
        named("high", 10),
    ) == ["high", "middle", "low", "waits"]


def test_several_names_in_one_option() -> None:
    """All of them hold."""
    assert names(
        named("last", 9, after=("a", "b")),
        named("a"),
        named("b"),
        named("first", -9, before=["a", "b", "last"]),
    ) == ["first", "a", "b", "last"]


def test_a_name_across_tiers_may_say_what_holds_anyway() -> None:
    """A hook before a policy, an observer after a hook."""
    assert names(
        named("watch", after=("rewrite", "law"), tier="observer"),
        named("law", after="rewrite", tier="policy"),
        named("rewrite", before="law"),
    ) == ["rewrite", "law", "watch"]


def test_a_name_cannot_turn_the_tiers_around() -> None:
    """The error names both hooks and the order of the tiers."""
    with pytest.raises(OrderError) as caught:
        names(named("law", before="rewrite", tier="policy"), named("rewrite"))
    assert str(caught.value) == (
        "hook 'law' (policy) at gate cannot run before 'rewrite' (hook): "
        "tiers run in the order hook, policy, observer."
    )
    with pytest.raises(OrderError, match=r"'rewrite' \(hook\) at gate cannot run after 'watch'"):
        names(named("rewrite", after="watch"), named("watch", tier="observer"))


def test_two_hooks_of_one_given_name_are_refused() -> None:
    """The name would be ambiguous; the tier makes no difference."""
    with pytest.raises(RegistrationError, match=r"two hooks at gate are named 'guard'\. Give each"):
        names(named("guard"), named("guard", tier="policy"))


def test_hooks_that_were_not_named_are_numbered() -> None:
    """The first keeps the plain name unless somebody else was given it."""
    assert names(named(None), named(None), named(None)) == ["hook", "hook-2", "hook-3"]
    assert names(named(None), named("hook"), named("hook-2")) == ["hook-3", "hook", "hook-2"]


def test_one_name_may_be_used_at_two_points() -> None:
    """A name is unique where it has to be: among the hooks of one point."""
    stack = HookStack().with_hook(hook, GATE, name="guard").with_hook(hook, EXIT, name="guard")
    assert [stack.plan(point).entries[0].name for point in (GATE, EXIT)] == ["guard", "guard"]


@pytest.mark.parametrize("option", ["before", "after"])
def test_an_unknown_name_is_refused_with_the_one_that_was_meant(option: str) -> None:
    """The error names hook, point, option and the closest name there is."""
    registration = register(GATE, hook, HookOptions(name="log", **{option: "securty"}))  # type: ignore[arg-type]
    with pytest.raises(OrderError) as caught:
        names(registration, named("security"))
    assert str(caught.value) == (
        f"hook 'log' at gate: {option}='securty' names no hook. Did you mean 'security'?"
    )


def test_an_unknown_name_unlike_any_other_is_refused_with_all_there_are() -> None:
    """Also when it is the only hook."""
    with pytest.raises(OrderError, match=r"before='xyz' names no hook. Known: a, log."):
        names(named("log", before="xyz"), named("a"))
    with pytest.raises(OrderError, match=r"after='xyz' names no hook. Known: log."):
        names(named("log", after="xyz"))


def test_a_name_at_another_point_is_known_and_orders_nothing() -> None:
    """A hook may be registered at several points with one set of options."""
    assert names(named("log", 5, after="audit"), named("b", 9), known=["audit"]) == ["b", "log"]


# --- cycles ---------------------------------------------------------------------------------------


def test_a_cycle_is_refused_and_shown() -> None:
    """The chain is the one to break, without the hooks that only wait for it."""
    with pytest.raises(OrderError) as caught:
        names(
            named("free"),
            named("tail", after="c"),
            named("a", before="b"),
            named("b", before="c"),
            named("c", before="a"),
        )
    assert isinstance(caught.value, BuildError)
    assert str(caught.value) in {
        f"the hooks at gate wait for each other: {chain} (each must run before the next). "
        "Drop one of these before=/after= options."
        for chain in ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c")
    }


@pytest.mark.parametrize("others", [(), (named("other"),)])
@pytest.mark.parametrize("option", ["before", "after"])
def test_a_hook_cannot_wait_for_itself(option: str, others: tuple[Registration, ...]) -> None:
    """The shortest cycle, whether or not anyone else is there."""
    itself = register(GATE, hook, HookOptions(name="a", **{option: "a"}))  # type: ignore[arg-type]
    with pytest.raises(OrderError, match="wait for each other: a -> a "):
        names(itself, *others)


@pytest.mark.parametrize("tier", TIERS)
def test_a_cycle_is_found_in_every_tier(tier: Tier) -> None:
    """Policies and observers are ordered like hooks."""
    with pytest.raises(OrderError, match=r"wait for each other: (a -> b -> a|b -> a -> b)"):
        names(named("a", after="b", tier=tier), named("b", after="a", tier=tier), named("c"))


# --- what holds for every plan --------------------------------------------------------------------


@st.composite
def solvable(draw: st.DrawFn) -> list[Registration]:
    """Registrations whose constraints can be met: they all agree with one hidden order."""
    count = draw(st.integers(1, 8))
    tiers = sorted(
        draw(st.lists(st.sampled_from(TIERS), min_size=count, max_size=count)), key=TIERS.index
    )
    made: list[Registration] = []
    for index in range(count):
        before = draw(st.sets(st.integers(index + 1, count - 1))) if index + 1 < count else set()
        after = draw(st.sets(st.integers(0, index - 1))) if index else set()
        made.append(
            named(
                f"h{index}",
                draw(st.integers(-2, 2)),
                before=[f"h{other}" for other in draw(st.permutations(sorted(before)))],
                after=[f"h{other}" for other in draw(st.permutations(sorted(after)))],
                tier=tiers[index],
            )
        )
    return draw(st.permutations(made))


def must_precede(registrations: Sequence[Registration]) -> set[tuple[str, str]]:
    """Every (earlier, later) the constraints ask for."""
    return {
        pair
        for each in registrations
        for pair in (
            *((each.name, later) for later in each.before),
            *((earlier, each.name) for earlier in each.after),
        )
    }


@given(solvable())
def test_the_order_meets_every_constraint_and_every_tier(registrations: list[Registration]) -> None:
    """It is a topological order of the same hooks, tier after tier."""
    ordered = sort_hooks(registrations)
    assert sorted(each.name for each in ordered) == sorted(each.name for each in registrations)
    position = {each.name: index for index, each in enumerate(ordered)}
    assert all(position[first] < position[second] for first, second in must_precede(registrations))
    tiers = [TIERS.index(each.tier) for each in ordered]
    assert tiers == sorted(tiers)


@given(solvable())
def test_at_each_place_stands_the_best_of_those_that_were_free(
    registrations: list[Registration],
) -> None:
    """Tier first, then priority, then registration: the rule in its plainest form gives the same order."""
    pairs = must_precede(registrations)
    waiting, expected = list(registrations), []
    while waiting:
        left = {each.name for each in waiting}
        free = [
            each
            for each in waiting
            if not any(second == each.name and first in left for first, second in pairs)
        ]
        best = min(free, key=lambda each: (TIERS.index(each.tier), -each.priority))
        waiting.remove(best)
        expected.append(best.name)
    assert [each.name for each in sort_hooks(registrations)] == expected


@given(solvable(), st.randoms(use_true_random=False))
def test_how_the_names_are_listed_makes_no_difference(
    registrations: list[Registration], random: object
) -> None:
    """Their order, doubles, and whether it is said as before or as after."""
    expected = [each.name for each in sort_hooks(registrations)]
    pairs = must_precede(registrations)
    by_before = [
        register(
            GATE,
            hook,
            HookOptions(
                name=each.name,
                priority=each.priority,
                tier=each.tier,
                before=[second for first, second in pairs if first == each.name] * 2,
            ),
        )
        for each in registrations
    ]
    by_after = [
        register(
            GATE,
            hook,
            HookOptions(
                name=each.name,
                priority=each.priority,
                tier=each.tier,
                after={first for first, second in pairs if second == each.name},
            ),
        )
        for each in registrations
    ]
    assert [each.name for each in sort_hooks(by_before)] == expected
    assert [each.name for each in sort_hooks(by_after)] == expected


@given(solvable())
def test_ordering_twice_changes_nothing(registrations: list[Registration]) -> None:
    """The order of an order is that order: ties go by registration."""
    ordered = sort_hooks(registrations)
    assert sort_hooks(ordered) == ordered


@given(solvable(), st.data())
def test_any_cycle_is_found_and_the_chain_shown_is_one(
    registrations: list[Registration], data: st.DataObject
) -> None:
    """Close any chain of constraints within a tier: each pair in the error really is a constraint."""
    tier = data.draw(st.sampled_from(sorted({each.tier for each in registrations})))
    members = [each.name for each in registrations if each.tier is tier]
    ring = data.draw(st.lists(st.sampled_from(members), min_size=1, unique=True))
    links = [(first, second) for first, second in itertools.pairwise([*ring, ring[0]])]
    closed = [
        register(
            GATE,
            hook,
            HookOptions(
                name=each.name,
                priority=each.priority,
                tier=each.tier,
                before=[*each.before, *(second for first, second in links if first == each.name)],
                after=each.after,
            ),
        )
        for each in registrations
    ]
    with pytest.raises(OrderError) as caught:
        sort_hooks(closed)
    chain = caught.value.message.split(": ")[1].split(" (")[0].split(" -> ")
    assert chain[0] == chain[-1]
    assert len(set(chain)) == len(chain) - 1
    assert set(itertools.pairwise(chain)) <= must_precede(closed)


def test_the_order_does_not_depend_on_the_hash_seed() -> None:
    """The same program makes the same plan in every process."""
    program = """
from hookline.hooks import Context, Point
from hookline.lifecycle import HookStack
gate = Point("gate", Context)
stack = HookStack()
for index in range(40):
    stack = stack.with_hook(
        lambda ctx: None, gate, name=f"hook-{index}", priority=index % 3,
        after={f"hook-{other}" for other in (index // 2, index // 3) if other < index},
    )
print(*(entry.name for entry in stack.plan(gate).entries))
"""
    orders = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(orders) == 1
    assert len(orders.pop().split()) == 40
