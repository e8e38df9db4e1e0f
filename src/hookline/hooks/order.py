"""One order everyone can read: tiers, then names, then priority, then registration."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Sequence

import msgspec

from hookline.errors import OrderError, RegistrationError
from hookline.hooks.hook import Registration, Tier

_TIERS = {tier: position for position, tier in enumerate(Tier)}


def unique_names(registrations: Sequence[Registration]) -> tuple[Registration, ...]:
    """The registrations of one point with distinct names: given names must differ, others are numbered."""
    taken: dict[str, Registration] = {}
    for registration in registrations:
        if registration.named and registration.name in taken:
            raise RegistrationError(
                f"two hooks at {registration.point.value} are named '{registration.name}'.",
                remedy="Give each its own name=.",
            )
        if registration.named:
            taken[registration.name] = registration
    distinct: list[Registration] = []
    for registration in registrations:
        if not registration.named:
            name, number = registration.name, 1
            while name in taken:
                number += 1
                name = f"{registration.name}-{number}"
            taken[name] = registration
            if name != registration.name:
                registration = msgspec.structs.replace(registration, name=name)
        distinct.append(registration)
    return tuple(distinct)


def in_order(
    registrations: Sequence[Registration], known: Iterable[str] = ()
) -> tuple[Registration, ...]:
    """The registrations of one point in the order they run.

    Names win over priorities: among the hooks whose constraints are met the highest priority goes
    first, ties by registration. `known` are the names at other points, which may be mentioned.
    """
    if len(registrations) == 1 and not (registrations[0].before or registrations[0].after):
        return tuple(registrations)
    ordered: list[Registration] = []
    constrained = any(registration.before or registration.after for registration in registrations)
    followers = _followers(registrations, known) if constrained else None
    for tier in Tier:
        members = [
            index for index, registration in enumerate(registrations) if registration.tier is tier
        ]
        if followers is None:
            ordered.extend(
                sorted((registrations[i] for i in members), key=lambda each: -each.priority)
            )
        else:
            ordered.extend(_topological(registrations, members, followers))
    return tuple(ordered)


def _followers(registrations: Sequence[Registration], known: Iterable[str]) -> list[set[int]]:
    """For each registration, which others must come later. Checks that names exist and tiers do not forbid it."""
    positions = {registration.name: index for index, registration in enumerate(registrations)}
    followers: list[set[int]] = [set() for _ in registrations]
    for index, registration in enumerate(registrations):
        for option, names in (("before", registration.before), ("after", registration.after)):
            for name in names:
                other = positions.get(name)
                if other is None:
                    _refuse_unknown(registration, option, name, {*positions, *known})
                    continue
                first, second = (index, other) if option == "before" else (other, index)
                _refuse_against_tiers(
                    registrations[first], registrations[second], registration, option
                )
                followers[first].add(second)
    return followers


def _refuse_unknown(registration: Registration, option: str, name: str, known: set[str]) -> None:
    if name in known:
        return  # it exists at another point: nothing to order here, and `lint()` mentions it
    close = difflib.get_close_matches(name, sorted(known), n=1)
    raise OrderError(
        f"hook '{registration.name}' at {registration.point.value}: {option}='{name}' names no hook.",
        remedy=f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(sorted(known))}.",
    )


def _refuse_against_tiers(
    first: Registration, second: Registration, asked: Registration, option: str
) -> None:
    if _TIERS[first.tier] > _TIERS[second.tier]:
        other = second if asked is first else first
        raise OrderError(
            f"hook '{asked.name}' ({asked.tier.value}) at {asked.point.value} cannot run {option} "
            f"'{other.name}' ({other.tier.value}): tiers run in the order hook, policy, observer."
        )


def _topological(
    registrations: Sequence[Registration], members: list[int], followers: list[set[int]]
) -> list[Registration]:
    inside = set(members)
    waiting_for = dict.fromkeys(members, 0)
    for index in members:
        for follower in followers[index] & inside:
            waiting_for[follower] += 1
    ready = [(-registrations[i].priority, i) for i in members if waiting_for[i] == 0]
    heapq.heapify(ready)
    ordered: list[Registration] = []
    while ready:
        _, index = heapq.heappop(ready)
        ordered.append(registrations[index])
        for follower in followers[index] & inside:
            waiting_for[follower] -= 1
            if waiting_for[follower] == 0:
                heapq.heappush(ready, (-registrations[follower].priority, follower))
    if len(ordered) < len(members):
        stuck = {index for index in members if waiting_for[index] > 0}
        raise OrderError(
            f"the hooks at {registrations[members[0]].point.value} wait for each other: "
            + " -> ".join(_cycle(registrations, stuck, followers))
            + " (each must run before the next).",
            remedy="Drop one of these before=/after= options.",
        )
    return ordered


def _cycle(
    registrations: Sequence[Registration], stuck: set[int], followers: list[set[int]]
) -> list[str]:
    """One cycle among hooks that wait for each other, as names, first and last the same."""
    path: list[int] = []
    index = min(stuck)
    while index not in path:
        path.append(index)
        # Every stuck hook waits for a stuck one; walking backwards along "who must come before me" must loop.
        index = min(other for other in stuck if index in followers[other])
    loop = [*path[path.index(index) :], index]
    return [registrations[i].name for i in reversed(loop)]
