"""Cancelling runs from outside: by a call from any thread, at a deadline, or on a signal."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any

from hookline.errors import BuildError, UsageError
from hookline.option_checks import check_positive

if TYPE_CHECKING:
    from hookline.agent import AgentBuilder

Cancel = Callable[[str], bool]


class Cancellation:
    """`cancel()` ends every run of every agent that has this capability, children included.

    `seconds` ends a run that long after it was started or resumed, and interrupts a model or a tool, unlike a limit on
    seconds. `at` is a moment that also holds after a resume. `signals` end the runs when the process gets one; the next
    one of its kind does what it did before.
    """

    def __init__(
        self,
        *,
        seconds: float | None = None,
        at: datetime | None = None,
        signals: Iterable[signal.Signals | int] = (),
        name: str = "cancellation",
    ) -> None:
        self.name = name
        self._seconds = (
            None if seconds is None else check_positive("cancellation", "seconds", seconds)
        )
        self._at = _check_moment(at)
        self._signals = _check_signals(signals)
        self._lock = threading.Lock()
        self._watched: dict[int, Cancel] = {}
        self._count = 0
        self._before: dict[int, Any] = {}
        self._reason: str | None = None

    # --- for those outside --------------------------------------------------------------------------

    def cancel(self, reason: str = "") -> int:
        """Cancel what runs, and what is started from now on, from any thread. Returns how many runs it cancelled."""
        if not isinstance(reason, str):
            raise UsageError(f"the reason to cancel must be text, not {reason!r}.")
        with self._lock:
            if self._reason is None:
                self._reason = reason
            watched = list(self._watched.values())
        return sum([cancel(reason) for cancel in watched])

    def reset(self) -> None:
        """Let new runs start again."""
        with self._lock:
            self._reason = None

    @property
    def is_cancelled(self) -> bool:
        return self._reason is not None

    # --- a capability -------------------------------------------------------------------------------

    def configure(self, builder: AgentBuilder) -> None:
        builder.with_cancel_source(self)

    def watch(self, cancel: Cancel) -> Callable[[], None]:
        """Watch a run that `cancel` cancels. The function that is returned ends the watch."""
        with self._lock:
            if not self._watched:
                self._listen()
            self._count += 1
            number = self._count
            self._watched[number] = cancel
            reason = self._reason
        if reason is not None:
            cancel(reason)
        timers = self._start_timers(cancel)

        def unwatch() -> None:
            for timer in timers:
                timer.cancel()
            with self._lock:
                self._watched.pop(number, None)
                if not self._watched:
                    for listened, before in self._before.items():
                        signal.signal(listened, before)
                    self._before.clear()

        return unwatch

    def _start_timers(self, cancel: Cancel) -> list[asyncio.TimerHandle]:
        loop = asyncio.get_running_loop()
        timers = []
        if self._seconds is not None:
            why = f"its {self._seconds:g} s are over"
            timers.append(loop.call_later(self._seconds, cancel, why))
        if self._at is not None:
            left = (self._at - datetime.now(UTC)).total_seconds()
            why = f"its deadline, {self._at.isoformat()}, has passed"
            if left <= 0:
                cancel(why)
            else:
                timers.append(loop.call_later(left, cancel, why))
        return timers

    # --- signals ------------------------------------------------------------------------------------

    def _listen(self) -> None:
        if not self._signals:
            return
        if threading.current_thread() is not threading.main_thread():
            raise UsageError(
                "signals arrive in the main thread, and this run is not in it.",
                remedy="Leave out signals=, and call cancel() from your own signal handler.",
            )
        for number in self._signals:
            self._before[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        # The lock may be held by the very code this interrupts, so nothing here waits for it.
        signal.signal(number, self._before.pop(number, signal.SIG_DFL))
        for cancel in list(self._watched.values()):
            cancel(f"the process got {signal.Signals(number).name}")

    def __repr__(self) -> str:
        return f"<Cancellation '{self.name}': {len(self._watched)} runs>"


def _check_moment(at: datetime | None) -> datetime | None:
    if at is None:
        return None
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise BuildError(
            f"at={at!r} is not a datetime with a time zone.",
            remedy="For example: datetime.now(UTC) + timedelta(minutes=5).",
        )
    return at


def _check_signals(signals: Iterable[signal.Signals | int]) -> tuple[int, ...]:
    try:
        return tuple(signal.Signals(each) for each in signals)
    except (TypeError, ValueError) as error:
        raise BuildError(
            f"signals={signals!r}: {error}.", remedy="For example: signals=(signal.SIGTERM,)."
        ) from None
