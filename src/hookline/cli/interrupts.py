"""Ctrl-C: the first stops after the current step and saves, the second stops now."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

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
        yield register(HookPoint.SHOULD_CONTINUE, self._between, options)
        yield register(HookPoint.BEFORE_STEP, self._before, options)

    def _between(self, ctx: StopHookContext) -> StopHookContext | None:
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
            # The third ends the process, should something hang.
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def end(self) -> None:
        """SIGTERM or SIGHUP."""
        self.hits += 2
        if self.leave is not None:
            self.leave()
        self.cancel()

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals within this block."""
        loop = asyncio.get_running_loop()
        handlers = [(signal.SIGINT, self.hit), (signal.SIGTERM, self.end)]
        if hasattr(signal, "SIGHUP"):
            handlers.append((signal.SIGHUP, self.end))
        with contextlib.suppress(NotImplementedError):  # not on Windows
            for number, act in handlers:
                loop.add_signal_handler(number, act)
        try:
            yield
        finally:
            with contextlib.suppress(NotImplementedError):
                for number, _ in handlers:
                    loop.remove_signal_handler(number)
