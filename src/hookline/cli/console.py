"""One run at the terminal: it is shown, asked about, interrupted, and summed up at its end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import hashlib
import logging
import os
import shlex
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from hookline.agent import Agent, RunResult
from hookline.agent.inbox import watch
from hookline.cli.assembly.agent import AgentAdditions
from hookline.cli.exits import REFUSED, Exit, exit_of
from hookline.cli.guards import Guards, can_ask
from hookline.cli.interrupts import Interrupts
from hookline.cli.json_output import print_json
from hookline.cli.recorded_runs import is_interrupted, limit_reached
from hookline.cli.screen import Screen, error_text, format_call
from hookline.cli.terminal import columns, count, is_terminal, printable, width
from hookline.config import Settings
from hookline.config.schema import LimitSettings
from hookline.errors import HookError, JournalError, UsageError
from hookline.journal import (
    CallDelta,
    HookRan,
    InboxCancel,
    InboxMessage,
    JournalStore,
    ReasoningDelta,
    Record,
    RunHandedOver,
    TextDelta,
    ToolProgress,
)
from hookline.own_directories import data_directory
from hookline.state import Decision, ErrorInfo, PendingApproval, RunStatus, StopReason

_NOT_JOURNALLED = (TextDelta, ReasoningDelta, CallDelta, ToolProgress, RunHandedOver)
_GRACE = 0.3
"""Seconds after the time limit in which the limit itself can stop the run, between two steps."""
Resume = Callable[["RunResult", dict[str, Decision]], "Coroutine[Any, Any, RunResult]"]
"""Continues a paused run with the answers."""


def limits_for(settings: Settings) -> LimitSettings:
    """The limits of a run. For an agent in Python, only those of flags: it has limits of its own."""
    limits = settings.configuration.limits
    if not settings.target:
        return limits
    names = [
        name for name in limits.__struct_fields__ if settings.where("limits", name).startswith("--")
    ]
    return LimitSettings(**{name: getattr(limits, name) for name in names})


def _is_new_notice(text: str) -> bool:
    """Whether this user sees a notice for the first time. If that cannot be noted, it is shown again."""
    path = data_directory(os.environ) / "notices"
    mark = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if mark in path.read_text().split():
            return False
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("a") as file:
            file.write(f"{mark}\n")
    return True


class _LogHandler(logging.Handler):
    """Shows log messages as lines among the others."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def take_over(self) -> None:
        """Show the messages from now on, instead of an earlier command in this process."""
        log = logging.getLogger("hookline")
        for handler in log.handlers[:]:
            if isinstance(handler, _LogHandler):
                log.removeHandler(handler)
        log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Show it. A line that cannot be shown must not fail the run. That a hook failed is shown by its record.

        What protects less than configured (`is_protection`) is shown also in quiet mode, a notice (`is_once`) once.
        """
        if any(isinstance(each, HookError) for each in record.args or ()):
            return
        text = record.getMessage()
        with contextlib.suppress(
            OSError, ValueError
        ):  # ValueError: the stream of an earlier command is closed
            if getattr(record, "is_protection", False):
                self._screen.note(text)
            elif not self._screen.quiet and (
                not getattr(record, "is_once", False) or _is_new_notice(text)
            ):
                self._screen.sentence(f"  {self._screen.paint('log', 'yellow')} {printable(text)}")


class Console:
    """Connects a run and the person who started it."""

    def __init__(
        self, arguments: argparse.Namespace, guards: Guards, *, repeat: Sequence[str] = ()
    ) -> None:
        """Show a run as the flags ask for. The command to reopen it must repeat the `--set` flags in `repeat`."""
        settings = guards.settings
        self._guards = guards
        self.is_saved = not getattr(arguments, "no_save", False)
        self._json: bool = getattr(arguments, "json", False)
        self._quiet: bool = arguments.quiet
        self._arguments = arguments
        self._journal: str = arguments.journal or ""
        """The journal that was named for the run. The command that reopens it must name it again."""
        self._repeat = tuple(repeat)
        self._limits = limits_for(settings)
        """The time limit also ends a step that is in progress: the agent checks its limits only between steps."""
        self.screen = Screen(quiet=self._quiet or self._json)
        self.interrupts = Interrupts(self.screen.say)
        self._folder = Path.cwd()  # user code may change it
        self._began = time.monotonic()
        self._output_error: OSError | None = None
        """Why records cannot be printed any more."""
        self._refusal: HookRan | None = None
        """The last hook that refused the run, the prompt, a step or the answer."""
        self._active = 0.0
        """Seconds of the run, without those in which a person was asked."""
        _LogHandler(self.screen).take_over()
        if "local:" in str(settings.configuration.model):
            from hookline.providers.local.weights import ProgressBar

            ProgressBar.line = self.screen.show_progress if self.screen.is_spinning else None
        if settings.trust_hint and not guards.missing:  # else all of it is listed already
            self.screen.note(settings.trust_hint)

    def additions(
        self, journal: JournalStore | None, *capabilities: Any, **more: Any
    ) -> AgentAdditions:
        """What the command adds to an agent that is shown here."""
        return AgentAdditions(
            commands=self._guards.commands,
            journal=journal,
            listeners=(self.listen,),
            terminal=self.screen.send,
            display=self.screen.show_instead if self.screen.is_live else None,
            capabilities=(self.interrupts, *capabilities),
            note=self._note,
            warn=self.screen.note,
            while_opening=self.screen.show_start,
            **more,
        )

    def _note(self, text: str) -> None:
        """Show what a user needs to read once."""
        if not self.screen.quiet and _is_new_notice(text):
            self.screen.sentence(f"hookline: {printable(text)}")

    def listen(self, record: Record) -> None:
        """Show a record, or print it as JSON."""
        if isinstance(record, HookRan) and record.verdict == "block":
            self._refusal = record
        if not self._json:
            self.screen(record)
        elif not isinstance(record, _NOT_JOURNALLED) and self._output_error is None:
            self._print(record)

    def _print(self, record: Record) -> None:
        """Print a record as JSON. If nobody reads it any more, the run ends."""
        try:
            print_json(record, out=self.screen.out)
        except OSError as error:  # an exception in a listener would not reach the command
            self._output_error = error
            self.interrupts.end()

    # --- the run ------------------------------------------------------------------------------------------

    async def drive(
        self,
        agent: Agent,
        start: Callable[[], Coroutine[Any, Any, RunResult]],
        resume: Resume,
        *,
        after: int = 0,
    ) -> RunResult:
        """Drive the run to its end, or until nobody answers. Its steps are shown with numbers above `after`."""
        gc.enable()
        self.interrupts.hits = 0
        self.screen.begin(after=after)
        self._refusal, self._active = None, 0.0
        self._began = time.monotonic()
        self.interrupts.cancel = lambda: agent.cancel(reason="interrupted")
        with self.interrupts.handle_signals():
            result = await self._run(agent, start())
            while result.status is RunStatus.PAUSED and not self.interrupts.hits:
                answers = await self._ask(result, agent) if can_ask(self._arguments) else None
                if answers is None:
                    break
                result = await self._run(agent, resume(result, answers))
        return result

    async def _run(self, agent: Agent, running: Coroutine[Any, Any, RunResult]) -> RunResult:
        """Run, and cancel when the time is up."""
        seconds, began = self._limits.seconds, time.monotonic()

        def cancel() -> None:
            self.screen.line("the time is up: stopping now")
            agent.cancel(reason=f"{seconds:g} s are over", out_of_time=True)

        with contextlib.ExitStack() as stack:
            stack.callback(self.screen.rest)
            if seconds is not None:
                left = max(seconds - self._active, 0.0) + _GRACE
                stack.callback(asyncio.get_running_loop().call_later(left, cancel).cancel)
            stack.enter_context(self.screen.user_code())
            result = await running
        self._active += time.monotonic() - began
        return result

    async def _ask(self, result: RunResult, agent: Agent) -> dict[str, Decision] | None:
        """Ask a person the questions of a run; None if they leave without an answer.

        When somebody answers elsewhere or cancels the run, it continues without the answers of this person.
        """
        from hookline.cli.approval_prompt import ApprovalPrompt, NoAnswer

        asked = {(each.id, each.fingerprint) for each in result.pending}
        posted: list[InboxMessage] = []

        def leave(messages: list[InboxMessage]) -> None:
            posted[:] = [
                each
                for each in messages
                if isinstance(each, InboxCancel) or (each.question, each.fingerprint) in asked
            ]
            if posted and self.interrupts.leave is not None:  # not while they edit a call
                self.interrupts.leave()

        with contextlib.ExitStack() as stack:
            if agent.definition.journal is not None:
                stack.callback(watch(agent.definition.journal, result.run_id, leave))
            try:
                prompt = ApprovalPrompt(self.screen, self.interrupts, self._folder)
                return await prompt.ask(result.pending, agent)
            except NoAnswer:
                if not posted or self.interrupts.hits:
                    return None
        did = "cancelled the run" if isinstance(posted[0], InboxCancel) else "answered"
        self.screen.say(f"{printable(posted[0].by)} {did}.")
        return {}

    # --- the end ------------------------------------------------------------------------------------------

    def finish(self, result: RunResult) -> Exit:
        """Print the answer and the closing line. Returns the exit code."""
        if self._output_error is not None:
            raise self._output_error
        code = exit_of(result.status, result.stop_reason)
        if self.interrupts.hits and code is Exit.WAITING:
            code = Exit.INTERRUPTED
        if self._json:
            self.screen.close()
        else:
            self._print_answer(result)
        if result.status is RunStatus.PAUSED:
            again = self._resume_command(result.run_id) if self.is_saved else ""
            show_questions(self.screen, result.pending, again)
        if self._json:
            return code
        if not self._quiet:
            self.screen.say(self._closing_line(result))
        elif code not in (Exit.DONE, Exit.WAITING):
            self.screen.note(self._stop_reason_text(result))
        return code

    def _print_answer(self, result: RunResult) -> None:
        """Print the answer. If that fails, the closing line says how to find it again."""
        try:
            self.screen.finish(result)
        except BrokenPipeError:  # the reader has left, and wants nothing more
            raise
        except OSError:
            if not self._quiet:
                self.screen.say(self._closing_line(result))
            raise

    def show_finished(self, result: RunResult) -> Exit:
        """Show the answer of a run that has ended already, and how to continue from there."""
        code = exit_of(result.status, result.stop_reason)
        if self._json:
            self._print(result.records[-1])
            if self._output_error is not None:
                raise self._output_error
        else:
            self.screen.finish(result)
        if not self._quiet or code is not Exit.DONE:
            self.screen.note(
                f"run {result.run_id} is over ({self._stop_reason_text(result)}): nothing in it waits. "
                f"To continue from there: {self._reopen_command(result)}"
            )
        return code

    def _resume_command(self, run_id: str, without: str = "model_settings") -> str:
        # A setting of the model may be its key, which is not shown.
        left_out = ("model_settings", without)
        kept = [each for each in self._repeat if not each.startswith(left_out)]
        again = "".join(f" --set {shlex.quote(each)}" for each in kept)
        return f"hookline resume {run_id}{self._journal_flag}{again}"

    @property
    def _journal_flag(self) -> str:
        return f" --journal {shlex.quote(self._journal)}" if self._journal else ""

    def _closing_line(self, result: RunResult) -> str:
        """Why it stopped, steps, tokens, cost, time, and the command that reopens the run."""
        usage, steps = result.usage, len(result.steps)
        parts = [count(steps, "step"), f"{usage.total_tokens:,} tokens"]
        if usage.cost:  # a local model costs nothing
            parts.append(f"${usage.cost:.4f}" + (" and more" if usage.unpriced_requests else ""))
        parts.append(f"{time.monotonic() - self._began:.1f} s")
        why = self.screen.paint(
            self._stop_reason_text(result), "green" if result.is_completed else "yellow"
        )
        line = f"{why}; {', '.join(parts)}"
        reopen = f"reopen: {self._reopen_command(result)}" if self.is_saved else ""
        if is_terminal(self.screen.err) and columns(f"{line}; {reopen}") > width():
            return "\n".join(filter(None, (self.screen.wrap(line), reopen)))
        return "; ".join(filter(None, (line, reopen)))

    def _reopen_command(self, result: RunResult) -> str:
        """The command that continues from here. It needs a prompt only if the run has an answer."""
        is_unrecorded = isinstance(result.error, JournalError)  # the record does not end the run
        if (
            result.status is RunStatus.PAUSED
            or is_unrecorded
            or is_interrupted(result.stop_reason, result.state)
        ):
            return self._resume_command(result.run_id)
        limit = limit_reached(result.stop_reason, result.state)
        more = getattr(self._limits, limit) if limit else None
        if more:
            again = self._resume_command(result.run_id, without=f"limits.{limit}")
            return f"{again} --set limits.{limit}={2 * more:.10g}"
        return f'hookline run --from {result.run_id}{self._journal_flag} "..."'

    def _stop_reason_text(self, result: RunResult) -> str:
        """Why the run stopped, in a few words. A refusal names its hook."""
        stop, refusal, outcome = result.stop_reason, self._refusal, result.outcome
        if stop is not None and stop.value in REFUSED and refusal is not None:
            return (
                f"stopped by '{printable(refusal.hook)}', {stop.value}: {printable(refusal.reason)}"
            )
        if result.status is RunStatus.FAILED:
            known = result.error and error_text(ErrorInfo.from_exception(result.error))
            return f"failed: {(known or printable(result.state.explain_stop())).rstrip('.')}"
        if result.status is RunStatus.PAUSED:
            return f"paused: {count(len(result.pending), 'question')} to answer"
        if result.status is RunStatus.CANCELLED or stop is StopReason.CANCELLED:
            return "interrupted"
        if result.is_completed:
            return "done"
        by = reason = ""
        if outcome is not None:
            by = f" by '{printable(outcome.resolved_by)}'" if outcome.resolved_by else ""
            reason = f": {printable(outcome.reason)}" if outcome.reason else ""
        return f"stopped{by}, {stop.value if stop else ''}{reason}"


def show_questions(screen: Screen, pending: Sequence[PendingApproval], command: str) -> None:
    """Show what a run waits for, and the commands that answer. Without a command nobody can."""
    for question in pending:
        waiting = (
            f"waiting: {format_call(question.tool_call)}, asked by {printable(question.asked_by)}: "
        )
        screen.say(screen.wrap(f"{waiting}{printable(question.reason)}"))
    if not command:
        screen.say("nobody can answer: the run was not saved (--no-save).")
        return
    for question in pending:
        screen.say(f"  yes: {command} --allow '{question.id}'")
        screen.say(f"  no:  {command} --deny '{question.id}'")


def answers_from_flags(
    pending: Sequence[PendingApproval], allowed: list[str], denied: list[str], reason: str = ""
) -> dict[str, Decision]:
    """The answers that flags give, by the id of a question, by the end of its id, or `all`."""
    for each in allowed:
        if each in denied:
            raise UsageError(f"'{each}' is both allowed and denied.", remedy="Give one of them.")
    answers: dict[str, Decision] = {}
    deny = Decision.deny(reason or "a person said no")
    for given, decision in [
        *((each, Decision.allow()) for each in allowed),
        *((each, deny) for each in denied),
    ]:
        ids = [each.id for each in pending]
        found = [id for id in ids if given in ("all", id) or id.endswith(f"/{given}")]
        if not found:
            raise UsageError(
                f"no question '{given}' waits for an answer.",
                remedy=f"Waiting: {', '.join(ids) or 'nothing'}.",
            )
        answers.update(dict.fromkeys(found, decision))
    return answers
