"""Hooks that are installed together, under one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import msgspec

from hookline.errors import BuildError
from hookline.hooks import HookLike, HookOptions, Point, Registration, Tier, name_of, register
from hookline.lifecycle import point_named
from hookline.lifecycle.stack import registrations_of


class Hooks:
    """A bundle of hooks that are installed together, all of them or none.

        safety = Hooks("safety", {"PreToolUse": check}).on("after_tool_use", redact, matcher="bash")
        builder.with_capability(safety)

    It takes what `with_hooks` takes (decorated functions, objects that say where they run, what `hook(...)` makes) and
    mappings from a point, in any spelling, to one hook or several. `shadow=True` runs the whole bundle without
    enforcing what it says.
    """

    def __init__(self, name: str, *hooks: Any, shadow: bool = False) -> None:
        if not (isinstance(name, str) and name):
            raise BuildError(
                f"a bundle of hooks needs a name, and {name!r} is not a name.",
                remedy='For example: Hooks("safety", first, second).',
            )
        if not isinstance(shadow, bool):
            raise BuildError(f"hooks '{name}': shadow= takes True or False, not {shadow!r}.")
        self.name = name
        self.shadow = shadow
        self._registrations: tuple[Registration, ...] = ()
        for given in hooks:
            if not isinstance(given, Mapping):
                self._registrations += tuple(registrations_of(given))
                continue
            for point, several in given.items():
                for each in several if isinstance(several, list | tuple) else (several,):
                    self.on(point, each)

    def on(
        self,
        point: Point[Any] | str,
        hook: HookLike,
        **options: Unpack[HookOptions],
    ) -> Hooks:
        """Add one hook at a point, with the options of every hook; returns the bundle."""
        who = f"hook '{options.get('name') or name_of(hook)}' of '{self.name}'"
        self._registrations += (register(point_named(point, who), hook, options),)
        return self

    def hooks(self) -> tuple[Registration, ...]:
        """The registrations of the bundle, in the order they were given."""
        if not self._registrations:
            raise BuildError(
                f"the bundle of hooks '{self.name}' is empty.",
                remedy="Give it hooks, or leave it out.",
            )
        if not self.shadow:
            return self._registrations
        return tuple(
            each if each.tier is Tier.OBSERVER else msgspec.structs.replace(each, shadow=True)
            for each in self._registrations
        )

    def __repr__(self) -> str:
        return f"<Hooks '{self.name}': {', '.join(each.name for each in self._registrations)}>"
