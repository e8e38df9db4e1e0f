"""Driving a run for a person: shown as it happens, asked about, interrupted, and summed up at its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import shlex
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.cli.exits import REFUSED, Exit, exit_of
from hookline.cli.interrupts import Interrupts
from hookline.cli.past import is_cut_off, limit_reached
from hookline.cli.screen import Screen, shown_call
from hookline.cli.streams import theirs
from hookline.cli.terminal import is_terminal, printable
from hookline.config import LimitSettings
from hookline.errors import JournalError
from hookline.journal import (
    CallDelta,
    HookRan,
    ReasoningDelta,
    Record,
    TextDelta,
    ToolProgress,
    encode,
)
from hookline.state import RunStatus, StopReason

if TYPE_CHECKING:
    from hookline.agent import Agent, RunResult
    from hookline.config import Settings
    from hookline.state import Decision, PendingApproval

_NOT_JOURNALLED = (TextDelta, ReasoningDelta, CallDelta, ToolProgress)


_GRACE = 0.3
"""Seconds in which the limit itself can stop the run, between two steps."""


def limits_for(settings: Settings) -> LimitSettings:
    """The limits that settings give a run. An agent in Python has limits of its own, but for those that flags say."""
    limits = settings.configuration.limits
    if not settings.target:
        return limits
    names = [
        name for name in limits.__struct_fields__ if settings.where("limits", name).startswith("--")
    ]
    return LimitSettings(**{name: getattr(limits, name) for name in names})


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is shown."""

    json: bool = False
    quiet: bool = False
    saved: bool = True
    """It can be taken up again."""
    prompts: bool = True
    """A person may be asked."""
    journal: str = ""
    """The file that was named for the run, which whoever reopens it must name again."""
    settings: tuple[str, ...] = ()
    """What was set for it besides, which whoever reopens it must set again."""
    limits: LimitSettings = LimitSettings()
    """What it may spend. Its time is over in the middle of a step too: a limit alone is looked at between steps."""


class Telling(logging.Handler):
    """Shows what is logged as a line among the others."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """Show it. Whoever logs is in the middle of the run, which goes on where nothing can be shown."""
        with contextlib.suppress(OSError):
            self._screen.line(
                f"  {self._screen.paint('log', 'yellow')} {printable(record.getMessage())}"
            )


class Stage:
    """Everything between a run and the person who started it."""

    def __init__(self, manner: Manner, folder: Path) -> None:
        self.manner = manner
        self.screen = Screen(quiet=manner.quiet or manner.json)
        self.interrupts = Interrupts(self.screen.say)
        self._folder = folder
        self._began = time.monotonic()
        self._lost: OSError | None = None
        """Why records cannot be printed any more."""
        self._refused: HookRan | None = None
        """The last hook that refused the run, the prompt, a step or the answer."""
        self._active = 0.0
        """Seconds that the run went on, without those in which a person was asked."""
        self._out_of_time: Callable[[], object] = lambda: None
        logging.getLogger("hookline").addHandler(Telling(self.screen))

    def listen(self, record: Record) -> None:
        """Show a record, or print it as JSON."""
        if isinstance(record, HookRan) and record.verdict == "block":
            self._refused = record
        if not self.manner.json:
            self.screen(record)
        elif not isinstance(record, _NOT_JOURNALLED) and self._lost is None:
            self._print(encode(record) + b"\n")

    def _print(self, line: bytes) -> None:
        """A record, in UTF-8 whatever the terminal speaks. Where nobody takes it any more, the run ends."""
        try:
            self.screen.out.flush()
            self.screen.out.buffer.write(line)
            self.screen.out.buffer.flush()
        except OSError as error:  # nothing that a listener raises would reach the command
            self._lost = error
            self.interrupts.end()

    async def play(
        self,
        agent: Agent,
        start: Callable[[], Coroutine[Any, Any, RunResult]],
        go_on: Callable[[RunResult, dict[str, Decision]], Coroutine[Any, Any, RunResult]],
    ) -> RunResult:
        """Drive the run to its end, or to where nobody answers. `go_on` takes it up again with the answers."""
        gc.enable()
        self.interrupts.hits = 0
        self.screen.begin()
        self._refused, self._active = None, 0.0
        self._began = time.monotonic()
        self.interrupts.cancel = lambda: agent.cancel(reason="interrupted")
        self._out_of_time = lambda: agent.cancel(
            reason=f"{self.manner.limits.seconds:g} s are over", out_of_time=True
        )
        with self.interrupts.heard():
            result = await self._timed(start())
            while result.status is RunStatus.PAUSED and self.asks and not self.interrupts.hits:
                answers = await self._answers(result, agent)
                if answers is None:
                    break
                result = await self._timed(go_on(result, answers))
        return result

    async def _timed(self, running: Coroutine[Any, Any, RunResult]) -> RunResult:
        """The run, ended where it is once its time is over."""
        seconds = self.manner.limits.seconds
        if seconds is None:
            with theirs():
                return await running
        began = time.monotonic()
        left = max(seconds - self._active, 0.0) + _GRACE
        timer = asyncio.get_running_loop().call_later(left, self._time_is_up)
        try:
            with theirs():
                return await running
        finally:
            timer.cancel()
            self._active += time.monotonic() - began

    def _time_is_up(self) -> None:
        self.screen.line("the time is up: stopping now")
        self._out_of_time()

    async def _answers(self, result: RunResult, agent: Agent) -> dict[str, Decision] | None:
        """What a person says to the questions of a run; None if they leave without an answer."""
        from hookline.cli.approve import Desk, Left

        try:
            desk = Desk(self.screen, self.interrupts, self._folder)
            return await desk.ask(result.pending, agent)
        except Left:
            return None

    @property
    def asks(self) -> bool:
        """Whether somebody is there to answer: a terminal to show questions on, and one to read keys from."""
        is_there = is_terminal(sys.stdin) and is_terminal(sys.stderr)
        return self.manner.prompts and not self.manner.json and is_there

    def end(self, result: RunResult) -> Exit:
        """The answer, the closing line, and the exit code."""
        if self._lost is not None:
            raise self._lost
        code = exit_of(result.status, result.stop_reason)
        if self.interrupts.hits and code is Exit.WAITING:
            code = Exit.INTERRUPTED
        if self.manner.json:
            self.screen.close()
        else:
            self._answer(result)
        if result.status is RunStatus.PAUSED:
            self._waiting(result.pending, result.run_id)
        if self.manner.json:
            return code
        if not self.manner.quiet:
            self.screen.say(self.closing(result))
        elif code not in (Exit.DONE, Exit.WAITING):
            self.screen.say(f"hookline: {self.why(result)}")
        return code

    def _answer(self, result: RunResult) -> None:
        """The answer on standard output. Where there is no room for it, how to find it again is told all the same."""
        try:
            self.screen.finish(result)
        except BrokenPipeError:  # whoever read it has left, and wants nothing more
            raise
        except OSError:
            if not self.manner.quiet:
                self.screen.say(self.closing(result))
            raise

    def recall(self, result: RunResult) -> Exit:
        """What a run that is over had come to, and how to go on from there."""
        code = exit_of(result.status, result.stop_reason)
        if self.manner.json:
            self._print(encode(result.records[-1]) + b"\n")
            if self._lost is not None:
                raise self._lost
        else:
            self.screen.finish(result)
        if not self.manner.quiet or code is not Exit.DONE:
            self.screen.say(
                f"hookline: run {result.run_id} is over ({self.why(result)}): nothing in it waits. "
                f"To go on from there: {self._reopening(result)}"
            )
        return code

    def _waiting(self, pending: Sequence[PendingApproval], run_id: str) -> None:
        """How to answer."""
        for question in pending:
            self.screen.say(
                f"waiting: {shown_call(question.tool_call)}, asked by {printable(question.asked_by)}: "
                f"{printable(question.reason)}"
            )
        if not self.manner.saved:
            self.screen.say("nobody can answer: the run was not saved (--no-save).")
            return
        for question in pending:
            self.screen.say(f"  yes: {self._resume(run_id)} --allow '{question.id}'")
            self.screen.say(f"  no:  {self._resume(run_id)} --deny '{question.id}'")

    def _resume(self, run_id: str, but: str = "model_settings") -> str:
        # What is set about a model may be its key, which is not shown.
        told = [
            each for each in self.manner.settings if not each.startswith(("model_settings", but))
        ]
        again = "".join(f" --set {shlex.quote(each)}" for each in told)
        return f"hookline resume {run_id}{self._journal}{again}"

    @property
    def _journal(self) -> str:
        return f" --journal {shlex.quote(self.manner.journal)}" if self.manner.journal else ""

    def closing(self, result: RunResult) -> str:
        """Steps, tokens, cost, time, why it stopped, and the command that reopens the run."""
        usage, steps = result.usage, len(result.steps)
        parts = [f"{steps} step{'s' * (steps != 1)}", f"{usage.total_tokens:,} tokens"]
        if usage.cost is not None:
            parts.append(f"${usage.cost:.4f}" + (" and more" if usage.unpriced_requests else ""))
        parts.append(f"{time.monotonic() - self._began:.1f} s")
        paint = self.screen.paint
        colour = "green" if result.is_completed else "yellow"
        reopen = f"; reopen: {self._reopening(result)}" if self.manner.saved else ""
        return f"{paint(self.why(result), colour)}; {', '.join(parts)}{reopen}"

    def _reopening(self, result: RunResult) -> str:
        """The command that goes on from here. What was interrupted, or needs more of something, needs no new prompt."""
        is_unwritten = isinstance(
            result.error, JournalError
        )  # nothing on record says that it is over
        is_left = is_unwritten or is_cut_off(result.stop_reason, result.state)
        if result.status is RunStatus.PAUSED or is_left:
            return self._resume(result.run_id)
        limit = limit_reached(result.stop_reason, result.state)
        more = getattr(self.manner.limits, limit) if limit else None
        if more:
            again = self._resume(result.run_id, but=f"limits.{limit}")
            return f"{again} --set limits.{limit}={2 * more:.10g}"
        return f'hookline run --from {result.run_id}{self._journal} "..."'

    def why(self, result: RunResult) -> str:
        """Why the run stopped, in a few words: for a refusal, whose it was."""
        refused = self._refused
        if result.stop_reason is None or result.stop_reason.value not in REFUSED or refused is None:
            return why(result)
        return f"stopped by '{printable(refused.hook)}', {result.stop_reason.value}: {printable(refused.reason)}"


def why(result: RunResult) -> str:
    """Why the run stopped, in a few words."""
    if result.status is RunStatus.FAILED:
        said = str(result.error or result.state.explain_stop())
        return f"failed: {printable(said).rstrip('.')}"
    if result.status is RunStatus.PAUSED:
        count = len(result.pending)
        return f"paused: {count} question{'s' * (count != 1)} to answer"
    if result.status is RunStatus.CANCELLED or result.stop_reason is StopReason.CANCELLED:
        return "interrupted"
    outcome = result.outcome
    if result.is_completed:
        return "done"
    reason = f": {printable(outcome.reason)}" if outcome is not None and outcome.reason else ""
    by = (
        f" by '{printable(outcome.resolved_by)}'"
        if outcome is not None and outcome.resolved_by
        else ""
    )
    return f"stopped{by}, {result.stop_reason.value}{reason}"


def answers_of(
    pending: Sequence[PendingApproval], allowed: list[str], denied: list[str], reason: str = ""
) -> dict[str, Decision]:
    """The answers that flags give, by the id of a question, by how it ends, or `all`."""
    from hookline.errors import UsageError
    from hookline.state import Decision

    answers: dict[str, Decision] = {}
    both = [each for each in allowed if each in denied]
    if both:
        raise UsageError(f"'{both[0]}' is both allowed and denied.", remedy="Say one of them.")
    for given, decision in [(each, Decision.allow()) for each in allowed] + [
        (each, Decision.deny(reason or "a person said no")) for each in denied
    ]:
        found = [
            each.id
            for each in pending
            if given in ("all", each.id) or each.id.endswith(f"/{given}")
        ]
        if not found:
            waiting = ", ".join(each.id for each in pending) or "nothing"
            raise UsageError(
                f"no question '{given}' waits for an answer.", remedy=f"Waiting: {waiting}."
            )
        answers.update(dict.fromkeys(found, decision))
    return answers
