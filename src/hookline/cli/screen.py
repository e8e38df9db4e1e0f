"""The display of a run: the answer on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

from hookline.cli.standard_streams import user_code
from hookline.cli.terminal import (
    Paint,
    count,
    end_column,
    fit_text,
    is_smart,
    is_terminal,
    printable,
    width,
    wrap_text,
)
from hookline.hooks.run import ON_ASKED
from hookline.journal import (
    ApprovalAnswered,
    CallAdmitted,
    CallSettled,
    ChildFinished,
    ChildStarted,
    ErrorRaised,
    HookRan,
    Record,
    RequestSent,
    ResponseReceived,
    StepStarted,
    TextDelta,
    ToolProgress,
)

if TYPE_CHECKING:
    from hookline.agent import RunResult
    from hookline.state import ErrorInfo, ToolCall

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_FRAMES = "|/-\\"
_ERASED = "\r\x1b[K"
_BELOW, _BACK = "\x1bD\x1b[A\x1b7\x1bD", "\x1b8"
"""To the line below, which is made if there is none, and back. Nothing scrolls between the two."""
_THINKING = "thinking"
_SHORT = 0.2
"""Seconds. Shorter work is not announced."""
_NOTHING = ("", 0.0)
_INDENT = "      "
_NOT_SHOWN = ("state", "evaluations", "request")
"""Changes that hooks make all the time. The journal has them."""
_NOT_RUN = ("blocked", "denied", "invalid", "not_run")
"""The statuses of a call that was not started. One in doubt may have been."""
_MARKS = {"block": "red", "stop": "red", "failed": "red", "ask": "yellow", "allow": "green"}


class Screen:
    """Shows the records of a run as they happen. It is a listener, and cannot change the run."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
        spins: bool = True,
    ) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.quiet = quiet
        self.paint = Paint(self.err)
        self.is_live = is_terminal(self.out)
        """A person sees the answer as it comes. A pipe gets it when it is known to be the answer."""
        self._spinner = Spinner(self.err) if spins and is_smart(self.err) and not quiet else None
        self._column = 0
        """Where the answer ends on the terminal; 0 if nothing of it stands on this line."""
        self._streamed = ""
        self._instead: str | None = None
        """Text that is shown instead of the model's; empty once it is shown."""
        self._top, self._steps_before = "", 0
        self._calls: dict[tuple[str, str], ToolCall] = {}
        """The calls of the step, by run and id. Verdicts refer to them."""
        self._failure: tuple[str, str] | None = None
        """Why a hook failed, and the line about it. If the run ends with it, the last line of the run says it."""
        self._running: set[tuple[str, str]] = set()
        self._above: tuple[str, str] | None = None
        """The call that the last line is about: its result can stand directly below."""
        self._is_step_shown = False
        self._model = ""
        self._folder = os.path.join(os.getcwd(), "")
        """Names of hooks begin with the path of their file. The spinner has no room for this part of it."""

    @property
    def is_spinning(self) -> bool:
        """Whether a spinner is shown while something happens."""
        return self._spinner is not None

    def begin(self, *, after: int = 0) -> None:
        """Begin another run, after this many steps of the conversation: the next record belongs to a new top run."""
        self._top, self._steps_before = "", after
        self._streamed = ""

    def recall(self, records: Iterable[Record]) -> None:
        """Read the open calls of a run that is resumed: verdicts will refer to them."""
        for record in records:
            if isinstance(record, ResponseReceived):
                self._calls.update({(record.run_id, call.id): call for call in record.calls})
            elif isinstance(record, CallSettled):
                self._calls.pop((record.run_id, record.result.call_id), None)

    def note(self, text: str) -> None:
        """Show a line of the command itself, about text of others."""
        self.say(self.wrap(f"hookline: {printable(text)}"))

    # --- records --------------------------------------------------------------------------------------

    def __call__(self, record: Record) -> None:
        """Show a record."""
        if isinstance(record, TextDelta):
            self._text(record)
            return
        self._top = self._top or record.run_id
        depth = "" if record.run_id == self._top else "  | "
        if isinstance(record, StepStarted):
            self._streamed, self._instead = "", None
            if not depth:
                self._is_step_shown = False
            self.spin(_THINKING)
        elif isinstance(record, RequestSent):
            self.spin(_THINKING)
        elif isinstance(record, ResponseReceived):
            self._show_response(record, depth)
        elif isinstance(record, CallAdmitted):
            self._show_start(record, depth)
        elif isinstance(record, CallSettled):
            self._show_result(record)
        elif isinstance(record, HookRan):
            self._hook(record, depth)
        else:
            self._show_other(record, depth)

    def _show_other(self, record: Record, depth: str) -> None:
        if (
            isinstance(record, ErrorRaised)
            and record.error is not None
            and record.action != "ignore"
        ):
            if record.action != "stop" or depth:
                self._show_error(record, depth)
            elif self._failure is not None and self._failure[0] in error_text(record.error):
                self._failure = None
        elif isinstance(record, ChildStarted):
            self.line(f"{depth}  {self.paint('subagent', 'cyan')} {printable(record.name)}")
        elif isinstance(record, ChildFinished):
            self.line(
                f"{depth}  {self.paint('subagent', 'cyan')} {printable(record.name)}: {record.status.value}"
            )
        elif isinstance(record, ApprovalAnswered) and record.decision is not None:
            by = f" by {printable(record.by)}" if record.by not in ("", "resume") else ""
            self.line(f"{depth}  {self.paint('answer', 'cyan')} {record.decision.answer.value}{by}")
            self._show_edit(record)
        elif isinstance(record, ToolProgress) and isinstance(record.message, str):
            self.spin(printable(record.message))

    def _show_edit(self, record: ApprovalAnswered) -> None:
        """A call that a person has edited is shown with its new arguments from now on."""
        key = (record.run_id, record.approval_id.rpartition("/")[2])
        call, args = self._calls.get(key), record.decision.args if record.decision else None
        if call is not None and args is not None:
            self._calls[key] = call.with_args(**args)

    def _text(self, record: TextDelta) -> None:
        if not self.is_live or (self._top and record.run_id != self._top):
            return
        self.rest()
        if not self._is_step_shown and record.text:
            self._show_step(record.step, "", f" {self._model}" if self._model else "")
        self._above = None
        said, self._instead = (record.text, None) if self._instead is None else (self._instead, "")
        self._streamed += record.text
        self._write(printable(said, lines=True))
        self.spin(_THINKING)  # if the rest is slow to come

    def _show_response(self, record: ResponseReceived, depth: str) -> None:
        self.rest()
        self._calls.update({(record.run_id, call.id): call for call in record.calls})
        tokens = record.usage.total_tokens
        used = f", {tokens:,} tokens" if tokens else ""
        does = count(len(record.calls), "call") if record.calls else "answers"
        model = printable(record.model)
        what = ("discarded by a hook" if record.discarded else does) + used
        if depth or not self._is_step_shown:
            self._show_step(record.step, depth, f"{f' {model}' if model else ''}: {what}")
        elif record.calls or record.discarded:  # its answer stands below it, and ends the run
            self.line(f"  {what}")
        self._model = self._model if depth else model

    def _show_step(self, step: int, depth: str, what: str) -> None:
        number = step + 1 + (0 if depth else self._steps_before)
        self._is_step_shown = self._is_step_shown or not depth
        self.line(f"{depth}{self.paint(f'step {number}', 'bold')}{what}")

    def _show_start(self, record: CallAdmitted, depth: str) -> None:
        """A call that runs alone is shown at once; of several, each is shown with its result."""
        key = (record.run_id, record.call.id)
        self._running.add(key)
        self._calls[key] = record.call
        if sum(run_id == record.run_id for run_id, _ in self._calls) == 1:
            self._show_call(key, depth, self.paint("run", "cyan"))
        self.spin(f"running {printable(record.call.name)}")

    def _show_call(self, key: tuple[str, str], depth: str, label: str) -> None:
        call = self._calls.get(key)
        if call is not None:
            self.line(f"{depth}  {label} {format_call(call)}")
            self._above = key

    def show_settled(self, record: CallSettled) -> str:
        """Show the call of a result, unless the last line is about it; gives the place of its run."""
        depth = "" if record.run_id == self._top else "  | "
        key = (record.run_id, record.result.call_id)
        if self._above != key:
            was_kept = record.result.status in _NOT_RUN
            label = "run" if key in self._running else "not run" if was_kept else "call"
            self._show_call(key, depth, self.paint(label, "red" if was_kept else "cyan"))
        self._calls.pop(key, None)
        self._running.discard(key)
        return depth

    def _show_result(self, record: CallSettled) -> None:
        result, depth = record.result, self.show_settled(record)
        text = printable(result.text, lines=True)
        lines = text.splitlines() or [""]
        rest = len(lines) - 1
        more = f" (+{count(rest, 'line')})" if rest else ""
        took = f" {result.duration:.1f} s" if result.duration >= 0.05 else ""
        mark, colour = ("ok", "green") if result.is_success else ("no", "red")
        first = next((line for line in lines if line.strip()), "").replace("\t", " ")
        self.line(f"{depth}    {self.paint(mark, colour)}{took} {first}{more}")
        self.spin(_THINKING)

    def _hook(self, record: HookRan, depth: str) -> None:
        if record.verdict == "proceed":
            made = record.changes or {}
            changed = [name for name in made if name not in _NOT_SHOWN]
            if not changed and not record.reason:
                return
            what, colour = f"changes {', '.join(changed)}" if changed else "says", "yellow"
        else:
            what, colour = record.verdict, _MARKS.get(record.verdict, "yellow")
        call = self._calls.get((record.run_id, record.call_id))
        about = f" {format_call(call)}" if call is not None else ""
        shadow = " (shadow)" if record.shadow else ""
        why = f": {printable(record.reason)}" if record.reason else ""
        failed = error_text(record.error) if record.error is not None else ""
        who = f"{depth}  {self.paint('hook', colour)} {printable(record.hook)} at {record.point}: "
        text = f"{who}{self.paint(what, colour)}{about}{shadow}{f': {failed}' if failed else why}"
        if failed and not (depth or call or record.shadow):
            self._show_failure()
            self._failure = failed, text
        else:
            self.sentence(text)
        if record.message:
            self.sentence(f"{who}{self.paint('says', colour)}: {printable(record.message)}")
        if call is not None and record.verdict in ("block", "stop"):
            self._above = (record.run_id, record.call_id)
        if record.traceback and os.environ.get("HOOKLINE_DEBUG"):
            self.say(textwrap.indent(printable(record.traceback, lines=True), f"{depth}    "))

    def _show_error(self, record: ErrorRaised, depth: str) -> None:
        assert record.error is not None
        does = record.action + (f" in {record.delay:.1f} s" if record.delay else "")
        self.sentence(f"{depth}  {self.paint('error', 'red')} {error_text(record.error)} ({does})")
        if record.action in ("retry", "fallback"):
            self._streamed = ""

    # --- lines ----------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Show a line of progress. What does not fit is cut off."""
        if not self.quiet:
            self.say(fit_line(text, is_terminal(self.err)))

    def sentence(self, text: str) -> None:
        """Show progress that a person must be able to read to its end, such as a verdict with its reason."""
        if not self.quiet:
            self.say(self.wrap(fit_line(text, is_live=False)))

    def wrap(self, text: str) -> str:
        """Break a text between words to fit the terminal. In a pipe it stays as it is."""
        is_live = is_terminal(self.err)
        return "\n".join(wrap_text(text, width(), _INDENT)) if is_live else text

    def say(self, text: str) -> None:
        """Show a line, also in quiet mode. The spinner continues below it."""
        with self._spinner.clear_line() if self._spinner is not None else nullcontext():
            self._show_failure()
            self._above = None
            self._fresh_line()
            self.err.write(f"{text}\n")
            self.err.flush()

    def send(self, sequence: str) -> None:
        """Send the terminal a control sequence: a title, the bell."""
        if is_terminal(self.err) and not self.quiet:
            self.err.write(sequence)
            self.err.flush()

    def show_instead(self, text: str) -> None:
        """Show this text instead of the model's. The conversation is not changed."""
        self._instead = text

    def spin(self, what: str) -> None:
        """Show what happens now, until the next record: below the answer, as far as it has come."""
        # Behind a full line a terminal is about to wrap; it would forget that on the way down and back.
        if self._spinner is not None and self._column < width():
            self._spinner.show(what, is_below=self._column > 0)

    def show_progress(self, text: str) -> None:
        """Show with the spinner how far the model is that is fetched."""
        if self._spinner is not None:
            self._spinner.change(text or _THINKING)

    def rest(self) -> None:
        """Nothing happens until the next record: no spinner."""
        if self._spinner is not None:
            self._spinner.hide()

    @contextmanager
    def user_code(self) -> Iterator[None]:
        """While user code runs: its prints go to standard error, and the spinner names the hook that is asked."""
        with ExitStack() as stack:
            if self._spinner is None:
                stack.enter_context(user_code())
            else:
                shared: Any = _SharedStream(self.err, self._spinner)
                stack.enter_context(redirect_stdout(shared))
                stack.enter_context(redirect_stderr(shared))
                stack.callback(ON_ASKED.reset, ON_ASKED.set(self._show_hook))
            yield

    @contextmanager
    def show_start(self) -> Iterator[None]:
        """While the agent is made, and its servers are connected."""
        with self.user_code():
            self.spin("starting")
            try:
                yield
            finally:
                self.rest()

    def _show_hook(self, name: str) -> None:
        # As in `spin`: not behind a full line.
        if self._spinner is not None and self._column < width():
            what = f"hook {printable(name.removeprefix(self._folder))}" if name else ""
            self._spinner.show_aside(what, is_below=self._column > 0)

    def _fresh_line(self) -> None:
        if self._column:
            self._write("\n")

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()
        self._column = end_column(text, self._column, width())

    # --- the end --------------------------------------------------------------------------------------

    def finish(self, result: RunResult) -> None:
        """Show the answer, if it was not streamed."""
        self.rest()
        text = result.text
        if text and not (self.is_live and self._streamed.strip() == text.strip()):
            self._fresh_line()
            text = self._instead or text if self.is_live else text
            self._write(printable(text, lines=True) if self.is_live else text)
        self._fresh_line()

    def close(self) -> None:
        """Finish the current line."""
        self.rest()
        self._fresh_line()
        self._show_failure()

    def _show_failure(self) -> None:
        held, self._failure = self._failure, None
        if held is not None:
            self.sentence(held[1])


def error_text(error: ErrorInfo) -> str:
    """An error in words. One of Python's own has its type, too: `KeyError: 'name'`."""
    if not error.message and error.type.endswith("CancelledError"):
        return "it was cancelled while it waited"
    if not error.message and error.error_class == "tool":
        return "the tool failed"  # its message is in the result, which hooks may change first
    is_pythons_own = error.message and "." not in error.type
    return printable(f"{error.type}: {error.message}" if is_pythons_own else str(error))


def format_call(call: ToolCall) -> str:
    """A call in one line: its command, or its arguments."""
    args = call.args
    for name in ("command", "argv", "path", "pattern", "url"):
        if name in args:
            value = args[name]
            words = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            rest = len(args) - 1
            return printable(
                f"{call.name}({words})" + (" ..." if rest and name != "command" else "")
            )
    return printable(
        f"{call.name}({', '.join(f'{name}={value!r}' for name, value in args.items())})"
    )


def fit_line(text: str, is_live: bool) -> str:
    """Cut a line to the terminal. In a pipe, only very long lines are cut."""
    return fit_text(text, width() if is_live else 500)


class Spinner:
    """A line on the terminal that moves while nothing else does."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        encoding = (getattr(stream, "encoding", "") or "").lower().replace("-", "")
        self._frames = _FRAMES if encoding == "utf8" else _PLAIN_FRAMES
        self._lock = threading.RLock()  # a signal may come while its own thread writes
        self._work = self._aside = _NOTHING
        """What happens, and what happens in the midst of it, each with the time of its start."""
        self._is_below = False
        self._is_held = False
        self._shown = ""
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self, what: str, *, is_below: bool = False) -> None:
        """Show the text, on the line of the cursor or on the line below; the cursor stays where it is."""
        with self._lock:
            self._work = what, time.monotonic()
            self._is_held = False
            self._move(is_below)

    def show_aside(self, what: str, *, is_below: bool = False) -> None:
        """Show what happens in the midst of the work. With no text, the work is shown again, with its own time."""
        with self._lock:
            self._aside = (what, time.monotonic()) if what else _NOTHING
            self._move(is_below)

    def _move(self, is_below: bool) -> None:
        if is_below != self._is_below or not self._now()[0]:
            self._erase()
            self._is_below = is_below
        if self._thread is None:
            self._thread = threading.Thread(target=self._turn, name="spinner", daemon=True)
            self._thread.start()
        self._wake.set()

    def change(self, what: str) -> None:
        """Show another text, with the same time; nothing if none is shown."""
        with self._lock:
            self._work = (what, self._work[1]) if self._work[0] else _NOTHING

    def hide(self) -> None:
        """Erase the line, and stop."""
        with self._lock:
            self._work = self._aside = _NOTHING
            self._is_held = False
            self._erase()

    @contextmanager
    def clear_line(self, *, is_held: bool = False) -> Iterator[None]:
        """Erase the line for what is written in the block. It is drawn again below that, or held until more comes."""
        with self._lock:
            self._erase()
            self._is_below, self._is_held = False, is_held
            yield

    def _erase(self) -> None:
        if self._shown:
            self._draw("")

    def _draw(self, text: str) -> None:
        line = f"{_ERASED}{text}"
        self._stream.write(f"{_BELOW}{line}{_BACK}" if self._is_below else line)
        self._stream.flush()
        self._shown = text

    def _now(self) -> tuple[str, float]:
        """What is shown: short work in the midst of other work is not announced."""
        is_long = time.monotonic() - self._aside[1] >= _SHORT
        return self._aside if self._aside[0] and is_long else self._work

    def _turn(self) -> None:
        frame = 0
        while True:
            self._wake.wait()
            time.sleep(0.1)
            with self._lock:
                if not (self._work[0] or self._aside[0]):
                    self._wake.clear()
                    continue
                what, since = self._now()
                passed = time.monotonic() - since
                if not what or self._is_held or passed < (1.0 if self._is_below else _SHORT):
                    continue
                frame += 1
                took = f" {passed:.0f} s"
                text = f"{self._frames[frame % len(self._frames)]} {what}"
                self._draw(fit_text(text, width() - 1 - len(took)) + took)


class _SharedStream:
    """A stream for code that does not know of the spinner. None turns behind an unfinished line, such as a question."""

    def __init__(self, stream: TextIO, spinner: Spinner) -> None:
        self._stream = stream
        self._spinner = spinner

    def write(self, text: str) -> int:
        """Write in the place of the spinner."""
        with self._spinner.clear_line(is_held=not text.endswith("\n")):
            written = self._stream.write(text)
            self._stream.flush()
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        """Write them one after the other."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
