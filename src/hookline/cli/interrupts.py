"""Ctrl-C: the first stops after the current step and saves, the second stops now, the third ends the process.

The handlers are Python's and not those of the event loop, because a hook may hold up the loop. A hook that holds up
every thread is ended by the watchdog.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import FrameType

from hookline.cli import watchdog
from hookline.containment.interpreter import compiled_code
from hookline.containment.processes.background import start_background
from hookline.containment.processes.child import new_mark
from hookline.containment.processes.supervisor import set_mark
from hookline.hooks import HookOptions, HookOutcome, Registration, register
from hookline.lifecycle import HookPoint, StepHookContext, StopHookContext
from hookline.state import StopReason


class Interrupts:
    """Handles the signals. As a capability, it has the hooks that end the run."""

    name = "interrupt"

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.hits = 0
        self.cancel: Callable[[], object] = lambda: None
        """Ends the current step."""
        self.leave: Callable[[], object] | None = None
        """Leaves the question, while a person is asked one."""

    def hooks(self) -> Iterator[Registration]:
        """Between steps, in the run and its children."""
        options = HookOptions(name=self.name, scope="tree")
        yield register(HookPoint.SHOULD_CONTINUE, self._end_if_interrupted, options)
        yield register(HookPoint.BEFORE_STEP, self._before, options)

    def _end_if_interrupted(self, ctx: StopHookContext) -> StopHookContext | None:
        return ctx.forbid("interrupted", StopReason.CANCELLED) if self.hits else None

    def _before(self, _ctx: StepHookContext) -> HookOutcome | None:
        if not self.hits:
            return None
        return HookOutcome.stop("interrupted", stop_reason=StopReason.CANCELLED)

    def hit(self) -> None:
        """Ctrl-C."""
        self.hits += 1
        if self.leave is not None:
            self.leave()
        elif self.hits == 1:
            self._say("stopping after this step; Ctrl-C again stops now")
        else:
            self._say("stopping now")
            self.cancel()

    def end(self) -> None:
        """SIGTERM or SIGHUP."""
        self.hits += 2
        if self.leave is not None:
            self.leave()
        self.cancel()

    @contextlib.contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Handle the signals within this block. After a second Ctrl-C, another one ends the process at any time."""
        loop, pressed = asyncio.get_running_loop(), 0

        def press(_number: int, _frame: FrameType | None) -> None:
            nonlocal pressed
            pressed += 1
            if pressed > 1:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            loop.call_soon_threadsafe(self.hit)

        def end(_number: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self.end)

        actions = {signal.SIGINT: press, signal.SIGTERM: end, signal.SIGHUP: end}
        before = {number: signal.signal(number, act) for number, act in actions.items()}
        try:
            with watch_signals():
                yield
        finally:
            if pressed > 1:
                del before[signal.SIGINT]
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def watch_signals() -> Iterator[None]:
    """Have the watchdog read the signals within this block: the third Ctrl-C ends the process, whatever a hook does."""
    pipe = _start_watchdog()
    if pipe is None:
        yield
        return
    before = signal.set_wakeup_fd(pipe, warn_on_full_buffer=False)
    os.write(pipe, watchdog.FORGET)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.write(pipe, watchdog.FORGET)


@cache
def _start_watchdog() -> int | None:
    """The pipe to the watchdog, which stays open as long as this process lives; None where there can be none."""
    code = compiled_code(watchdog)
    if code is None:
        return None
    signals, pipe = os.pipe()
    os.set_blocking(pipe, False)
    mark = new_mark()
    try:
        start_background(code, signals, str(os.getpid()), str(mark))
        _mark_what_we_start(mark)
    except OSError:
        os.close(pipe)
        return None
    finally:
        os.close(signals)
    return pipe


def _mark_what_we_start(mark: int) -> None:
    """Have the watchdog find all of it, also what has left its parent."""
    if sys.platform == "linux":
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_RTTIME)
        if soft == resource.RLIM_INFINITY:  # else a supervisor marked us, and must find it too
            set_mark(0, mark)
