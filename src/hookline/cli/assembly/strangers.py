"""Rules and hooks for tools that there are none of: most likely a name was mistyped, and nobody is held back."""

from __future__ import annotations

from collections.abc import Callable

from hookline.agent import Agent
from hookline.config import Settings
from hookline.tools import Toolbox


def warn_of_strangers(
    agent: Agent, settings: Settings, warn: Callable[[str], None], *, is_own: bool = False
) -> None:
    """Tell of each rule and each hook that names no tool of the agent.

    For an agent of the user's own, those of flags alone hold. A file may be for several agents: what it says is told
    only where it is clear which tool it means.
    """
    names = tuple(tool.name for tool in agent.definition.toolbox)
    _of_rules(names, settings, warn, is_own=is_own)
    if not is_own:
        _of_hooks(agent.definition.toolbox, settings, warn)


def _of_rules(
    names: tuple[str, ...], settings: Settings, warn: Callable[[str], None], *, is_own: bool
) -> None:
    approvals = settings.configuration.approvals
    if not (approvals.deny or approvals.ask or approvals.allow):
        return
    from hookline.permissions import Rules

    for kind in ("deny", "ask", "allow"):
        for position, text in enumerate(getattr(approvals, kind)):
            where = settings.where("approvals", kind, position)
            is_flag = where.startswith("--")
            for rule, meant in Rules(deny=[text]).strangers(names):
                if is_flag or (meant and not is_own):
                    hint = f" Did you mean '{meant}'?" if meant else ""
                    warn(f"{where}: there is no tool '{rule.tool}' here for '{text}'.{hint}")


def _of_hooks(toolbox: Toolbox, settings: Settings, warn: Callable[[str], None]) -> None:
    for position, hook in enumerate(settings.configuration.hooks):
        if hook.match is None:
            continue
        from hookline.cli.assembly.hooks import unmet

        for name, meant in unmet(hook, toolbox):
            if meant:
                where = settings.where("hooks", position)
                warn(
                    f"{where}: the hook is for a tool '{name}' that there is none of here. "
                    f"Did you mean '{meant}'?"
                )
