"""Rules about tools that there are none of: most likely a name was mistyped, and the rule holds nobody back."""

from __future__ import annotations

from collections.abc import Callable

from hookline.agent import Agent
from hookline.config import Settings


def warn_of_strangers(
    agent: Agent, settings: Settings, warn: Callable[[str], None], *, is_own: bool = False
) -> None:
    """Tell of each rule that names no tool of the agent. For an agent of the user's own, those of flags alone hold.

    A file may be for several agents: a rule of it is told only where it is clear which tool it means.
    """
    approvals = settings.configuration.approvals
    if not (approvals.deny or approvals.ask or approvals.allow):
        return
    from hookline.permissions import Rules

    names = [tool.name for tool in agent.definition.toolbox]
    for kind in ("deny", "ask", "allow"):
        for position, text in enumerate(getattr(approvals, kind)):
            where = settings.where("approvals", kind, position)
            is_flag = where.startswith("--")
            for rule, meant in Rules(deny=[text]).strangers(names):
                if is_flag or (meant and not is_own):
                    hint = f" Did you mean '{meant}'?" if meant else ""
                    warn(f"{where}: there is no tool '{rule.tool}' here for '{text}'.{hint}")
