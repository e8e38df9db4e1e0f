"""Cancelling a run: from another task, another thread, a signal handler, or one of its own hooks."""

from __future__ import annotations

import asyncio
import weakref


class CancelToken:
    """One run's cancellation. A child's token is cancelled when its parent's is."""

    __slots__ = (
        "__weakref__",
        "_children",
        "_closed",
        "_delivered",
        "_loop",
        "_task",
        "is_cancelled",
        "is_handed_over",
        "is_out_of_time",
        "parent",
        "reason",
        "requested",
    )
    is_cancelled: bool
    """Whether this run, or one above it, was cancelled."""

    def __init__(self, parent: CancelToken | None = None) -> None:
        self.parent = parent
        self.requested = False
        self.is_cancelled = parent is not None and parent.is_cancelled
        self.reason = ""
        self.is_out_of_time = False
        """The time of the run was over. The run then ends as stopped at its time limit, not as cancelled."""
        self.is_handed_over = False
        """The run is left after the step that it makes, without an end: another process continues it."""
        self._children: weakref.WeakSet[CancelToken] | None = None
        if parent is not None:
            parent._adopt(self)
        self._task: asyncio.Task[object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._delivered = False
        self._closed = False

    @property
    def why(self) -> str:
        """The reason that was given, here or above."""
        return self.reason or (self.parent.why if self.parent is not None else "")

    def attach(self) -> None:
        """The run begins in the current task."""
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """The run ends: what it does from here on is not interrupted."""
        self._closed = True

    def cancel(self, reason: str = "", *, out_of_time: bool = False) -> bool:
        """Cancel the run, from any thread: it ends at its next await or checkpoint. False: it is too late for that."""
        if self._closed:
            return False
        if self.requested:
            return True
        self.reason = reason
        self.is_out_of_time = out_of_time
        self.requested = True
        self._mark()
        if self._loop is None or self._loop.is_closed():
            return True  # not started yet: the first checkpoint sees it
        try:
            inside = asyncio.current_task() is self._task
        except RuntimeError:
            inside = False
        if not inside:
            # From inside the run (a hook cancels it) the next checkpoint is enough. From outside the task is
            # interrupted, by the loop's own thread, so that it is certain to be waiting when that happens.
            self._loop.call_soon_threadsafe(self._deliver)
        return True

    def _adopt(self, child: CancelToken) -> None:
        if self._children is None:
            self._children = weakref.WeakSet()
        self._children.add(child)

    def _mark(self) -> None:
        self.is_cancelled = True
        for child in tuple(self._children or ()):
            child._mark()

    def _deliver(self) -> None:
        if self._closed or self._delivered or self._task is None or self._task.done():
            return
        self._delivered = True
        self._task.cancel()

    def uncancel_task(self) -> bool:
        """Undo the cancellation of the task by the run. True if the run was cancelled, and the task by nobody else."""
        if self._task is None or not self.requested:
            return False
        if self._delivered:
            self._task.uncancel()
        return self._task.cancelling() == 0
