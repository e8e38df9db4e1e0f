"""The order of the hooks of a point: by tier, then `before=` and `after=`, then priority, then registration.

`agent.explain()` shows it with the reasons (`inspection/explain.py`). In a child run, the hooks of the runs above come
first in their tier (`Plans` in `definition/definition.py`).
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

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


def sort_hooks(
    registrations: Sequence[Registration], known: Iterable[str] = ()
) -> tuple[Registration, ...]:
    """The registrations of one point in the order they run.

    Names win over priorities: among the hooks whose constraints are met the highest priority goes
    first, ties by registration. `known` are the names at other points, which may be mentioned.
    """
    if not any(registration.before or registration.after for registration in registrations):
        return tuple(sorted(registrations, key=_rank))
    sorter = TopologicalSorter(_predecessors(registrations, known))
    try:
        sorter.prepare()
    except CycleError as error:
        raise OrderError(
            f"the hooks at {registrations[0].point.value} wait for each other: "
            + " -> ".join(registrations[index].name for index in error.args[1])
            + " (each must run before the next).",
            remedy="Drop one of these before=/after= options.",
        ) from None
    ordered: list[Registration] = []
    ready: list[tuple[tuple[int, int], int]] = []
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, (_rank(registrations[index]), index))
        _, index = heapq.heappop(ready)
        ordered.append(registrations[index])
        sorter.done(index)
    return tuple(ordered)


def _rank(registration: Registration) -> tuple[int, int]:
    return _TIERS[registration.tier], -registration.priority


def _predecessors(
    registrations: Sequence[Registration], known: Iterable[str]
) -> dict[int, set[int]]:
    """For each registration, which others come before it. Checks that names exist and tiers do not forbid it."""
    positions = {registration.name: index for index, registration in enumerate(registrations)}
    predecessors: dict[int, set[int]] = {index: set() for index in range(len(registrations))}
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
                predecessors[second].add(first)
    return predecessors


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
