"""The default guards of an agent that is being built: who may replace one, by what, and who may leave it out."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hookline.definition import default_guards
from hookline.errors import BuildError
from hookline.flow import RunLimits
from hookline.hooks import Registration, Tier

_EVERY_LIMIT = RunLimits(steps=0, tokens=0, seconds=0, cost=0, tool_calls=0)
"""So that every default guard there may be is among the guards of these limits."""


def guards_beside(
    own: Iterable[Registration], limits: RunLimits, without: Collection[str]
) -> tuple[Registration, ...]:
    """The default guards that stay, beside an agent's own hooks."""
    guards = default_guards(limits)
    replaced = {(each.point, each.name): each for each in own if each.named}
    if not replaced and not without:
        return guards
    return tuple(
        guard
        for guard in guards
        if guard.name not in without
        and not _is_replaced(guard, replaced.get((guard.point, guard.name)))
    )


def check_left_out(name: str, limits: RunLimits, capability: str) -> None:
    """Refuse to leave out what is no default guard, and to leave one out at a capability's word."""
    known = {registration.name for registration in default_guards(limits)}
    if name not in known:
        raise BuildError(
            f"'{name}' is not a default guard.", remedy=f"Defaults: {', '.join(sorted(known))}."
        )
    if capability:
        raise BuildError(
            f"capability '{capability}' cannot leave out the default guard '{name}'.",
            remedy="Only whoever builds the agent can: call without_default on the builder itself.",
        )


def refuse_replacement(registration: Registration, capability: str) -> None:
    """A capability adds to an agent: it takes nothing away that its user did not take away."""
    for guard in default_guards(_EVERY_LIMIT):
        if registration.named and (guard.point, guard.name) == (
            registration.point,
            registration.name,
        ):
            raise BuildError(
                f"capability '{capability}' cannot replace the default guard '{guard.name}' "
                f"at {guard.point.value}.",
                remedy="Give its hook another name; only whoever builds the agent replaces a default.",
            )


def _is_replaced(guard: Registration, by: Registration | None) -> bool:
    """Whether a hook takes the place of a default guard. What takes the place of a policy must be one."""
    if by is None:
        return False
    if guard.tier is Tier.POLICY and (by.tier is not Tier.POLICY or by.shadow):
        what = "is in shadow" if by.shadow else f"has tier '{by.tier.value}'"
        raise BuildError(
            f"hook '{by.name}' at {by.point.value} takes the place of a policy, and {what}.",
            remedy="Register it with tier='policy' and without shadow, give it another name, "
            f"or say without_default('{guard.name}').",
        )
    return True
