"""What the model has seen of which file. It is kept in the run's metadata, so it is still known after a resume."""

from __future__ import annotations

import threading

from hookline.lifecycle import ToolHookContext
from hookline.state import AgentState

KEY = "files"
"""Where in the metadata: the fingerprint of each file as it was seen last, by its path."""
RESULT_KEY = "file"
"""Where in a result's metadata: the path, and the fingerprint."""
MOST = 300
"""How many files are remembered, the latest ones."""


class Ledger:
    """What was seen, including by calls of the step that is being made, which the state does not know of yet."""

    def __init__(self) -> None:
        self._fresh: dict[str, tuple[int, dict[str, str]]] = {}
        """By run: how many steps it had made, and what the calls of this step have seen."""
        self._noting = threading.Lock()

    def seen(self, state: AgentState, path: str) -> str | None:
        """The fingerprint of a file when this run saw it last; None if it never did."""
        steps, fresh = self._fresh.get(state.run_id, (-1, {}))
        if steps == len(state.steps) and path in fresh:
            return fresh[path]
        known = state.metadata.get(KEY)
        found = known.get(path) if isinstance(known, dict) else None
        return found if isinstance(found, str) else None

    def note(self, state: AgentState, path: str, fingerprint: str) -> None:
        """A call of this step has seen, or made, this."""
        with self._noting:  # the calls of a step run in threads
            steps, fresh = self._fresh.pop(state.run_id, (-1, {}))
            if steps != len(state.steps):
                fresh = {}
            self._fresh[state.run_id] = (len(state.steps), {**fresh, path: fingerprint})
            while len(self._fresh) > MOST:  # runs that are over
                del self._fresh[next(iter(self._fresh))]

    def settle(self, ctx: ToolHookContext) -> ToolHookContext | None:
        """After a call: what it has seen becomes part of the run."""
        execution = ctx.execution
        seen = execution.metadata.get(RESULT_KEY) if execution is not None else None
        if not isinstance(seen, dict) or execution is None or not execution.is_success:
            return None
        path, fingerprint = seen["path"], seen["fingerprint"]
        known = ctx.metadata.get(KEY)
        kept = {**known} if isinstance(known, dict) else {}
        if kept.pop(path, None) == fingerprint:
            return None
        kept[path] = fingerprint
        for oldest in list(kept)[: max(0, len(kept) - MOST)]:
            del kept[oldest]
        return ctx.with_metadata(KEY, kept)
