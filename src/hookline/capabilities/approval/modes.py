"""The modes of runs: which holds now, and which answers are to be forgotten."""

from __future__ import annotations

import enum
import re
import time
from typing import Any, NamedTuple

from hookline.errors import HooklineError
from hookline.state import AgentState


class ApprovalMode(enum.StrEnum):
    """What happens to calls, besides what the rules say."""

    DEFAULT = "default"
    """Calls that no rule is about are left to the other hooks."""
    ASK_UNLISTED = "ask_unlisted"
    """Calls that no rule is about ask, unless they only read."""
    ACCEPT_EDITS = "accept_edits"
    """Changes to files inside the root pass without asking."""
    PLAN = "plan"
    """Nothing is changed: only what reads runs."""
    DENY_UNLISTED = "deny_unlisted"
    """Calls that no rule is about are blocked."""


STATE_KEY = "hookline.approval"
"""Where in the metadata the mode is kept that somebody has set."""
_UNCLEAR = 1 << 62
"""Later than any time: a note that cannot be understood lets nothing through."""


class _Set(NamedTuple):
    """A mode that somebody has set, and when: whichever was set last holds."""

    at: int
    """In nanoseconds since 1970, so that a mode in a state compares with one set in another process."""
    mode: ApprovalMode


class _Revoked(NamedTuple):
    number: int
    names: frozenset[str]
    """Answers to forget; none for all of them."""


class Modes:
    """The modes of the runs that are going on. A child has the mode of the run at the top of its tree."""

    def __init__(self, default: ApprovalMode) -> None:
        self._default = _Set(0, default)
        self._set: dict[str, _Set] = {}
        self._above: dict[str, str] = {}
        self._going: set[str] = set()
        self._revoked: dict[str, list[_Revoked]] = {}
        self._forgot: dict[str, int] = {}
        """How much of what was revoked a run has forgotten: once, so that it may learn it again."""
        self._now = 0

    @property
    def default(self) -> ApprovalMode:
        """The mode of runs that have not been given one of their own."""
        return self._default.mode

    def set(self, mode: ApprovalMode, run_id: str | None) -> None:
        """Set the mode of one run, or of all."""
        self._now = max(self._now + 1, time.time_ns())
        if run_id is None:
            self._default = _Set(self._now, mode)
        else:
            self._set[self._top(run_id)] = _Set(self._now, mode)

    def of(self, state: AgentState) -> ApprovalMode:
        """The mode that holds for a run."""
        return self._latest(state).mode

    def kept(self, ctx: Any) -> Any:
        """The context, with the mode in its metadata if somebody has set one."""
        state: AgentState = ctx.state
        top = self._top_of(state)
        if top == state.run_id:
            self._going.add(top)
        latest = self._latest(state)
        if top == state.run_id and latest.at:
            self._set[top] = latest  # its children go by it, and have states of their own
        if not latest.at or _set_in(state) == latest:
            return ctx
        return ctx.with_metadata(STATE_KEY, {"mode": latest.mode.value, "set_at": latest.at})

    def _latest(self, state: AgentState) -> _Set:
        given = (self._set.get(self._top_of(state)), _set_in(state), self._default)
        return max((each for each in given if each is not None), key=lambda each: each.at)

    def forget(self, names: tuple[str, ...], run_id: str | None) -> None:
        """Have a run, or all that are going on, forget answers."""
        for top in self._going if run_id is None else {self._top(run_id)}:
            revoked = self._revoked.setdefault(top, [])
            revoked.append(_Revoked(len(revoked) + 1, frozenset(names)))

    def forgotten(self, state: AgentState) -> tuple[str, ...] | None:
        """The answers to forget now: none of them (None), these, or, without any names, all."""
        revoked = self._revoked.get(self._top_of(state), [])
        before = self._forgot.get(state.run_id, 0)
        if len(revoked) == before:
            return None
        self._forgot[state.run_id] = len(revoked)
        new = revoked[before:]
        if any(not each.names for each in new):
            return ()
        names = frozenset[str]().union(*(each.names for each in new))
        return tuple(sorted(name for name in names if name in state.remembered)) or None

    def leave(self, state: AgentState) -> None:
        """A run has ended, or pauses: what is set for it is in its state."""
        run_id = state.run_id
        self._forgot.pop(run_id, None)
        if self._above.pop(run_id, None) is None:
            self._going.discard(run_id)
            self._set.pop(run_id, None)
            self._revoked.pop(run_id, None)

    def _top_of(self, state: AgentState) -> str:
        if state.parent_run_id is not None:
            self._above[state.run_id] = state.parent_run_id
        return self._top(state.run_id)

    def _top(self, run_id: str) -> str:
        while run_id in self._above:
            run_id = self._above[run_id]
        return run_id


def as_mode(mode: ApprovalMode | str, error: type[HooklineError]) -> ApprovalMode:
    """A mode by its name, also as other agents write it (`acceptEdits`), or an error that names them all."""
    spelled = (
        re.sub(r"(?<=[a-z])(?=[A-Z])|[- ]", "_", mode).lower() if isinstance(mode, str) else mode
    )
    try:
        return ApprovalMode(spelled)
    except ValueError:
        raise error(
            f"{mode!r} is not a mode.", remedy=f"Modes: {', '.join(ApprovalMode)}."
        ) from None


def _set_in(state: AgentState) -> _Set | None:
    """The mode that a state says; one that cannot be understood is the strictest, whatever is set later."""
    kept = state.metadata.get(STATE_KEY)
    if kept is None:
        return None
    try:
        at = kept.get("set_at", 1)
        return _Set(at if type(at) is int else 1, ApprovalMode(kept["mode"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return _Set(_UNCLEAR, ApprovalMode.DENY_UNLISTED)
