"""Variables that hooks set when a session begins: for the commands of the agent, and for hooks that come later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from hookline.command_hooks.answers import Answer
from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects import Place
from hookline.command_hooks.environment import may_be_set, variables_in
from hookline.state import AgentState


def session_of(state: AgentState) -> str:
    """The session a run is in; a run without one is a session of its own."""
    return state.session_id or state.run_id


class KeptVariables:
    """What was set, by session and by whether a repository's hook did it. It may be secret, so no state has it."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[bool, dict[str, str]]] = {}

    def keep(self, handler: Handler, ctx: Any, path: Path, answer: Answer) -> Answer:
        """Keep what a hook sets, and have the user told what is not taken over."""
        found, left_out = variables_in(path)
        for name, value in (answer.env or {}).items():
            if may_be_set(str(name)):
                found[str(name)] = str(value)
            else:
                left_out.append(str(name))
        if found:
            by_whom = self._kept.setdefault(session_of(ctx.state), {})
            by_whom.setdefault(handler.source.level.is_repository, {}).update(found)
        if not left_out:
            return answer
        words = f"not set for others: {', '.join(dict.fromkeys(left_out))}"
        return msgspec.structs.replace(answer, messages=(*answer.messages, words))

    def of(self, handler: Handler, place: Place) -> dict[str, str]:
        """What a hook finds. A repository's are for its own hooks and for commands, never for the user's hooks."""
        return self._in(place.session_id, of_repository=handler.source.level.is_repository)

    async def around_command(self, ctx: Any, call_next: Any) -> Any:
        """Run a command of the agent with the variables that hooks have set."""
        variables = self._in(session_of(ctx.state), of_repository=True)
        if not variables:
            return await call_next()
        from hookline.containment import variables_besides

        with variables_besides(variables):
            return await call_next()

    def forget(self, session: str) -> None:
        """A session is over."""
        self._kept.pop(session, None)

    def _in(self, session: str, *, of_repository: bool) -> dict[str, str]:
        by_whom = self._kept.get(session, {})
        theirs = by_whom.get(True, {}) if of_repository else {}
        return {**theirs, **by_whom.get(False, {})}
