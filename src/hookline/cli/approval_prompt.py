"""Approval on the terminal: the call, who asks and why, and one key for the answer (`_show_keys` has the keys).

Who else may answer is in `agent/approvals.py`, and the rules that ask are in `capabilities/approval.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hookline._temporary import temporary_directory
from hookline.agent import Agent
from hookline.cli.interrupts import Interrupts
from hookline.cli.screen import Screen
from hookline.cli.terminal import (
    TOGETHER,
    Paint,
    is_smart,
    print_note,
    printable,
    width,
    wrap_text,
)
from hookline.inspection import explain
from hookline.permissions import Rule, suggest_rule
from hookline.state import Decision, PendingApproval, ToolCall

_INDENT = "    "


class NoAnswer(Exception):
    """The person left without an answer."""


class ApprovalPrompt:
    """Asks a person about each call that waits."""

    def __init__(self, screen: Screen, interrupts: Interrupts, folder: Path) -> None:
        self._screen = screen
        self._paint: Paint = screen.paint
        self._interrupts = interrupts
        self._folder = folder

    def _print_line(self, text: str = "", *, prose: bool = False) -> None:
        """Show a line. Only prose is wrapped: commands are shown as they are."""
        if prose and is_smart(self._screen.err):
            lines = wrap_text(text, width() - 1, _INDENT)
        else:
            lines = [text.replace(TOGETHER, " ")]
        for line in lines:
            self._screen.say(line)

    async def ask(self, pending: Sequence[PendingApproval], agent: Agent) -> dict[str, Decision]:
        """The answer to each question. Raises NoAnswer when the person gives none."""
        answers: dict[str, Decision] = {}
        for number, question in enumerate(pending, start=1):
            count = f" ({number} of {len(pending)})" if len(pending) > 1 else ""
            answers[question.id] = await self._ask_one(question, agent, count)
        return answers

    async def _ask_one(self, question: PendingApproval, agent: Agent, count: str) -> Decision:
        rule = suggest_rule(question.tool_call, self._folder)

        def show_again() -> None:
            self._show(question, count)
            self._show_keys(rule)

        self._show(question, count)
        while True:
            # Keys that were typed before the question are no answer to it.
            with _one_key_at_a_time(show_again):
                self._show_keys(rule)
                key = (await self._read())[:1].lower()
            if key == "y":
                return Decision.allow()
            if key == "a":
                return Decision.allow(remember=True)
            if key == "p" and rule is not None:
                return Decision.allow(rule=str(rule))
            if key == "n":
                return Decision.deny("a person said no")
            if key == "d":
                return Decision.deny(await self._line("tell the model: ") or "a person said no")
            if key == "e":
                edited = await self._edit_arguments(question.tool_call)
                if edited is not None:
                    return edited
            elif key == "?":
                self._explain(question, agent)
            elif key in ("q", "\x04", ""):
                raise NoAnswer
            else:
                self._print_line("  press one of the keys above")

    def _show(self, question: PendingApproval, count: str) -> None:
        paint, call = self._paint, question.tool_call
        askers = ", ".join(printable(name) for name in question.askers)
        self._print_line()
        self._print_line(
            f"{paint('?', 'yellow', 'bold')} {paint(printable(call.name), 'bold')} wants to run{count}"
        )
        for line in preview(call, self._folder, paint):
            self._print_line(f"    {line}")
        self._print_line(
            f"  asked by {paint(askers, 'yellow')}: {printable(question.reason)}", prose=True
        )

    def _show_keys(self, rule: Rule | None) -> None:
        paint = self._paint
        keys = [("y", "once"), ("a", "for this session")]
        if rule is not None:
            keys.append(("p", f"all {printable(str(rule))}"))
        keys += [("e", "edit"), ("n", "no"), ("d", "no, and say why"), ("?", "explain")]
        said = [f"{paint(key, 'bold')} {what}".replace(" ", TOGETHER) for key, what in keys]
        self._print_line(f"  {'  '.join(said)}", prose=True)

    def _explain(self, question: PendingApproval, agent: Agent) -> None:
        call = question.tool_call
        text = explain(agent.definition, call.name, call.args, width=width() - 3)
        for line in text.splitlines():
            self._print_line(f"  {printable(line)}".rstrip(), prose=True)
        if question.run_id:
            self._print_line(
                f"  asked in run {question.run_id}, question {question.id}", prose=True
            )

    async def _edit_arguments(self, call: ToolCall) -> Decision | None:
        """A decision with edited arguments; None if there is none."""
        whole = json.dumps(call.args, indent=2, ensure_ascii=False)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"  # as git does
        text = await asyncio.to_thread(_edit_file, editor, whole)
        if not text:
            return None
        try:
            args = json.loads(text)
        except ValueError as error:
            self._print_line(f"  that is not JSON: {error}", prose=True)
            return None
        if not isinstance(args, dict):
            self._print_line("  that is not an object with arguments")
            return None
        return self._decide_changed(call, args)

    def _decide_changed(self, call: ToolCall, args: dict[str, Any]) -> Decision | None:
        """A decision with these arguments. Leaving the editor without a change is no yes."""
        missing = next((name for name in call.args if name not in args), None)
        if missing is not None:  # an edit only replaces values
            self._print_line(
                f"  '{printable(missing)}' cannot be left out: give it another value", prose=True
            )
            return None
        if args != call.args:
            return Decision.edit(**args)
        self._print_line("  nothing was changed: y runs it as it is", prose=True)
        return None

    # --- keys and lines -------------------------------------------------------------------------------

    async def _line(self, prompt: str) -> str:
        """Read a line."""
        self._screen.err.write(f"  {prompt}")
        self._screen.err.flush()
        return (await self._read()).strip()

    async def _read(self) -> str:
        """Read a key, or a line if the terminal collects lines."""
        loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
        typed: asyncio.Future[bytes] = loop.create_future()

        def take() -> None:
            if not typed.done():
                typed.set_result(os.read(descriptor, 65_536))

        def leave() -> None:
            if not typed.done():
                typed.set_exception(NoAnswer())

        loop.add_reader(descriptor, take)
        self._interrupts.leave = leave
        try:
            return (await typed).decode(errors="replace")
        finally:
            self._interrupts.leave = None
            loop.remove_reader(descriptor)


@contextlib.contextmanager
def _one_key_at_a_time(show_again: Callable[[], None]) -> Iterator[None]:
    """Read single keys without showing them; Ctrl-C still works.

    After Ctrl-Z and `fg` the terminal is set again, because the shell has changed it, and the question is repeated.
    """
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def on_continue() -> None:
        if os.tcgetpgrp(descriptor) == os.getpgrp():
            tty.setcbreak(descriptor)
            show_again()

    # Not with a handler of the loop, which would take the signals away from the watchdog.
    last = signal.signal(signal.SIGCONT, lambda *_: loop.call_soon_threadsafe(on_continue))
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        signal.signal(signal.SIGCONT, last)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _edit_file(editor: str, text: str) -> str:
    place = temporary_directory()  # where no command can change the call that is approved
    with tempfile.NamedTemporaryFile("w+", suffix=".json", dir=place, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        try:
            code = subprocess.run([*shlex.split(editor), file.name], check=False).returncode
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            print_note(f"  the editor {editor!r} cannot be started: {said}")
            return ""
        if code != 0:
            print_note(f"  the editor ended with exit code {code}: nothing is changed")
            return ""
        return Path(file.name).read_text(encoding="utf-8")


# --- a call as people read it --------------------------------------------------------------------

_FIRST_LINES, _LAST_LINES = 45, 15
_FIRST_CHARACTERS, _LAST_CHARACTERS = 1_500, 500
"""Of one line. The end is shown too: what a command does at last is easily hidden behind much that is harmless."""
_MAX_BYTES = 1_000_000
_OWN_TOOLS = ("bash", "exec", "write", "edit")
_OLD = ("old", "old_string")
_NEW = ("new", "new_string")
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def preview(call: ToolCall, folder: Path, paint: Paint) -> list[str]:
    """The lines that show a call."""
    args = call.args
    if isinstance(args.get("command"), str):
        return [*_lines(f"$ {args['command']}"), *_rest(call, "command")]
    if isinstance(args.get("argv"), list | tuple):
        words = shlex.join(map(str, args["argv"]))
        return [*_lines(f"$ {words}"), *_rest(call, "argv")]
    changes = _changes(args, folder)
    if changes is None:
        return _arguments(args)
    said = ("path", "content", "edits", *_OLD, *_NEW)
    return [*_diff(str(args["path"]), changes, paint), *_rest(call, *said)]


def _rest(call: ToolCall, *said: str) -> list[str]:
    """The other arguments. Of our own tools without those that change nothing; `dry_run: false` of others counts."""
    nothing = (None, False, "") if call.name in _OWN_TOOLS else ()
    return _arguments(
        {
            name: value
            for name, value in call.args.items()
            if name not in said and not any(value is each for each in nothing)
        }
    )


def _arguments(args: Mapping[str, Any]) -> list[str]:
    return [
        line
        for name, value in args.items()
        for line in _lines(
            f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        )
    ]


def _lines(text: str) -> list[str]:
    lines = printable(text, lines=True).expandtabs(4).split("\n")
    return _shorten_lines([_shorten(line) for line in lines])


def _shorten_lines(lines: list[str]) -> list[str]:
    left_out = len(lines) - _FIRST_LINES - _LAST_LINES
    if left_out <= 0:
        return lines
    return [*lines[:_FIRST_LINES], f"... {left_out:,} lines more ...", *lines[-_LAST_LINES:]]


def _shorten(line: str) -> str:
    left_out = len(line) - _FIRST_CHARACTERS - _LAST_CHARACTERS
    if left_out <= 0:
        return line
    return f"{line[:_FIRST_CHARACTERS]} ... {left_out:,} characters more ... {line[-_LAST_CHARACTERS:]}"


# --- changes to a file ----------------------------------------------------------------------------------


def _changes(args: Mapping[str, Any], folder: Path) -> list[tuple[str, str]] | None:
    """The old and new texts of a change to a file; None if the call is something else."""
    path = args.get("path")
    if not isinstance(path, str):
        return None
    if isinstance(args.get("content"), str):
        return [(_present(folder / path), args["content"])]
    several = args.get("edits")
    each = several if isinstance(several, list | tuple) else []
    made = [change for change in map(_replacement, (args, *each)) if change is not None]
    return made or None


def _replacement(given: Any) -> tuple[str, str] | None:
    if not isinstance(given, Mapping):
        return None
    old = next((str(given[name]) for name in _OLD if name in given), None)
    new = next((str(given[name]) for name in _NEW if name in given), None)
    if not old and not new:
        return None
    parts = old or "", new or ""
    if any(part.endswith("\n") for part in parts):
        return parts
    # It is part of a line, not the end of a file.
    return (f"{parts[0]}\n" if parts[0] else "", f"{parts[1]}\n" if parts[1] else "")


def _diff(path: str, changes: list[tuple[str, str]], paint: Paint) -> list[str]:
    lines = [line for before, after in changes for line in _differences(path, before, after)]
    shown = _shorten_lines([_shorten(printable(line).expandtabs(4)) for line in lines])
    return [paint(line, _COLOURS[line[0]]) if line[:1] in _COLOURS else line for line in shown]


def _differences(path: str, before: str, after: str) -> Iterator[str]:
    made = difflib.unified_diff(
        _split_lines(before), _split_lines(after), path, path, lineterm="", n=2
    )
    is_same = True
    for number, line in enumerate(made):
        is_same = False
        yield line.removesuffix("\n")
        if number > 1 and not line.endswith("\n") and not line.startswith("@@"):
            yield "\\ no line break at the end"
    if is_same:
        yield f"{path}: no change"


def _split_lines(text: str) -> list[str]:
    """Lines with their line breaks. `splitlines` would break at other characters, too."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def _present(path: Path) -> str:
    """The content of a file, if it can be shown."""
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
