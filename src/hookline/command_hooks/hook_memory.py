"""What is remembered about hooks between events: of a run, of a session, and in the metadata of the state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hookline.command_hooks.handler import Handler
from hookline.lifecycle import HookPoint
from hookline.state import AgentState, Log, Message

LOADED_SKILLS = "skills.loaded"
"""The metadata key of the skills with hooks that were loaded."""
ACTIVE_SKILL = "skills.active"
_ONCE = "hookline.command_hooks.once"
"""The metadata key of the hooks that were asked for their one time."""
_QUESTIONS = "hookline.command_hooks.put"
"""The metadata key of the calls of a step that hooks were asked about."""
_AROUND_CHILDREN = (HookPoint.SUBAGENT_START, HookPoint.SUBAGENT_STOP)


class RunMemory:
    """What is remembered about one run."""

    def __init__(self) -> None:
        self.model = ""
        """The model that answered last: most points do not have it."""
        self.answered_call = ""
        """The call whose question a hook answered last: no notification is needed."""
        self.before_summary: Log[Message] | None = None
        """The conversation that is about to be summarised."""
        self.replies: dict[int, tuple[Any, Any]] = {}
        """By hook, its last call and reply, if it would be asked about the call again."""
        self.sent_back: dict[str, int] = {}
        """How often hooks had a child continue, by its run."""
        self.questions: set[str] = set()
        """The calls that hooks were asked about since the run began, or was resumed."""

    def is_question_repeated(self, ctx: Any) -> bool:
        """Whether hooks were asked about this very call before the run paused."""
        mark = _question(ctx)
        return mark in _listed(ctx.state, _QUESTIONS) and mark not in self.questions

    def remember_question(self, ctx: Any) -> Any:
        """The context in which hooks were asked about a call; None if it is known already."""
        mark, before = _question(ctx), _listed(ctx.state, _QUESTIONS)
        if mark in before:
            return None
        self.questions.add(mark)
        step = f"{ctx.step_index} "
        kept = [each for each in before if each.startswith(step)]
        return ctx.with_metadata(_QUESTIONS, [*kept, mark])


class SessionMemory:
    """What is remembered about one session in this process."""

    def __init__(self) -> None:
        self.has_begun = False
        """Its hooks were asked about its start in this process."""
        self.model = ""
        """The model that answered last."""
        self.asked_once: set[str] = set()
        """Hooks that were asked for their one time: not all points can keep it in the state."""


def is_in_scope(handler: Handler, ctx: Any) -> bool:
    """Whether a hook is asked in this run at all."""
    if handler.agent:
        if ctx.point in _AROUND_CHILDREN and ctx.name == handler.agent:
            return True
        return any(
            state.parent_run_id is not None and state.agent_id == handler.agent
            for state in _states(ctx)
        )
    if handler.skill:
        return any(handler.skill in _listed(state, LOADED_SKILLS) for state in _states(ctx))
    return True


def was_asked_once(handler: Handler, ctx: Any) -> bool:
    """Whether a hook was asked for its one time."""
    return handler.once and any(once_mark(handler) in _listed(each, _ONCE) for each in _states(ctx))


def with_once_mark(handler: Handler, ctx: Any) -> Any:
    """The context in which a hook was asked for its one time; unchanged where the state cannot be changed."""
    if "state" not in ctx.point.changes:
        return ctx
    marks = dict.fromkeys([*_listed(ctx.state, _ONCE), once_mark(handler)])
    return ctx.with_metadata(_ONCE, list(marks))


def once_mark(handler: Handler) -> str:
    """The name of a hook in the list of those that were asked for their one time."""
    return f"{handler.event} {handler.matcher}: {handler.name}"


def _question(ctx: Any) -> str:
    # It is kept in the state: a fingerprint of the exact call would let somebody guess a secret in it.
    call = ctx.tool_call if ctx.live is None else ctx.live.shown(ctx.tool_call)
    return f"{ctx.step_index} {call.id} {call.fingerprint()}"


def _listed(state: AgentState, key: str) -> list[Any]:
    found = state.get(key)
    return found if isinstance(found, list) else []


def _states(ctx: Any) -> Iterator[AgentState]:
    """The state of this run, and of those above it."""
    yield ctx.state
    above = None if ctx.run is None else ctx.run.parent
    while above is not None:
        yield above.state
        above = above.parent
