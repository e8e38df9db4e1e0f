"""Questions on the terminal: what, who asks and why, and one key for the answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookline.cli.board import Board
from hookline.cli.proposal import shown
from hookline.cli.terminal import TOGETHER, Paint, is_terminal, printable
from hookline.permissions import suggest_rule
from hookline.state import Decision, PendingApproval, ToolCall

if TYPE_CHECKING:
    from hookline.agent import Agent
    from hookline.cli.interrupts import Interrupts
    from hookline.cli.screen import Screen

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_MOST_TYPED = 2_000
"""Characters that can be changed in a line; for more there are editors."""


class Left(Exception):
    """Whoever was asked left without an answer."""


class Desk:
    """Asks about each call that waits, and gives the answers."""

    def __init__(self, screen: Screen, interrupts: Interrupts, folder: Path) -> None:
        self._screen = screen
        self._paint: Paint = screen.paint
        self._interrupts = interrupts
        self._folder = folder
        self._board = Board(screen)

    async def ask(self, pending: Sequence[PendingApproval], agent: Agent) -> dict[str, Decision]:
        """An answer to each question. Raises Left when somebody gives none."""
        answers: dict[str, Decision] = {}
        for number, question in enumerate(pending, start=1):
            count = f" ({number} of {len(pending)})" if len(pending) > 1 else ""
            answers[question.id] = await self._one(question, agent, count)
        return answers

    async def _one(self, question: PendingApproval, agent: Agent, count: str) -> Decision:
        rule = suggest_rule(question.tool_call, self._folder)
        self._board = Board(self._screen)
        self._show(question, count)
        while True:
            key = await self._key(None if rule is None else str(rule))
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
                edited = await self._edited(question.tool_call)
                if edited is not None:
                    return edited
            elif key == "?":
                self._explain(question, agent)
            elif key in ("q", "\x04", ""):
                raise Left
            else:
                self._board.put("  press one of the keys above")

    def _show(self, question: PendingApproval, count: str) -> None:
        paint, call = self._paint, question.tool_call
        askers = ", ".join(printable(name) for name in question.askers)
        put = self._board.put
        put()
        put(
            f"{paint('?', 'yellow', 'bold')} {paint(printable(call.name), 'bold')} wants to run{count}"
        )
        for line in shown(call, self._folder, paint):
            put(f"    {line}")
        put(f"  asked by {paint(askers, 'yellow')}: {printable(question.reason)}", prose=True)

    def _keys(self, rule: str | None) -> None:
        paint = self._paint
        keys = [("y", "once"), ("a", "for this session")]
        if rule is not None:
            keys.append(("p", f"all {printable(rule)}"))
        keys += [("e", "edit"), ("n", "no"), ("d", "no, and say why"), ("?", "explain")]
        said = [f"{paint(key, 'bold')} {what}".replace(" ", TOGETHER) for key, what in keys]
        line = "  ".join(said)
        self._board.put(f"  {line}", prose=True)

    def _explain(self, question: PendingApproval, agent: Agent) -> None:
        from hookline.inspection import explain

        call = question.tool_call

        def laid(room: int) -> list[str]:
            said = explain(agent.definition, call.name, call.args, width=room - 2)
            return [f"  {printable(line)}".rstrip() for line in said.splitlines()]

        self._board.put_laid(laid)
        if question.run_id:
            self._board.put(f"  asked in run {question.run_id}, question {question.id}", prose=True)

    async def _edited(self, call: ToolCall) -> Decision | None:
        """The call with other arguments; None if nothing came of it."""
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        whole = json.dumps(call.args, indent=2, ensure_ascii=False)
        if editor:
            text = await asyncio.to_thread(_in_editor, editor, whole)
        elif _is_command(call):
            said = await self._line("command: ", str(call.args["command"]))
            return self._changed(call, {**call.args, "command": said}) if said else None
        elif len(whole) > _MOST_TYPED:
            self._board.put("  that is too long for one line: say which editor, EDITOR=vi")
            return None
        else:
            text = await self._line("arguments: ", json.dumps(call.args, ensure_ascii=False))
        if not text:
            return None
        try:
            args = json.loads(text)
        except ValueError as error:
            self._board.put(f"  that is not JSON: {error}", prose=True)
            return None
        if not isinstance(args, dict):
            self._board.put("  that is not an object with arguments")
            return None
        return self._changed(call, args)

    def _changed(self, call: ToolCall, args: dict[str, Any]) -> Decision | None:
        """The call with these arguments. Whoever leaves an editor without a change has not said yes."""
        missing = next((name for name in call.args if name not in args), None)
        if missing is not None:  # an edit changes values: what it leaves out would stay as it is
            self._board.put(
                f"  '{printable(missing)}' cannot be left out: give it another value", prose=True
            )
            return None
        if args != call.args:
            return Decision.edit(**args)
        self._board.put("  nothing was changed: y runs it as it is", prose=True)
        return None

    # --- keys and lines -------------------------------------------------------------------------------

    async def _key(self, rule: str | None) -> str:
        # What was typed before the question was there is no answer to it: from here on keys count.
        with _one_key_at_a_time(self._board.repeat), self._board.kept_in_shape():
            self._keys(rule)
            return (await self._read())[:1].lower()

    async def _line(self, prompt: str, now: str = "") -> str:
        """A line that is typed; `now` is there already, and can be changed where the terminal has a line editor."""
        if now and is_terminal(sys.stdout):
            try:
                said = _typed_over(f"  {prompt}", now)
            except KeyboardInterrupt:
                self._interrupts.hits += 1
                self._screen.err.write("\n")
                raise Left from None
        else:
            self._screen.err.write(f"  {prompt}")
            self._screen.err.flush()
            said = await self._read()
        self._board.typed(f"  {prompt}{said}")
        return said.strip()

    async def _read(self) -> str:
        """What is typed: a key, or a line where the terminal collects lines."""
        loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
        typed: asyncio.Future[bytes] = loop.create_future()

        def take() -> None:
            if not typed.done():
                typed.set_result(os.read(descriptor, 65_536))

        def leave() -> None:
            if not typed.done():
                typed.set_exception(Left())

        loop.add_reader(descriptor, take)
        self._interrupts.leave = leave
        try:
            return (await typed).decode(errors="replace")
        finally:
            self._interrupts.leave = None
            loop.remove_reader(descriptor)


@contextlib.contextmanager
def _one_key_at_a_time(repeat: Callable[[], None]) -> Iterator[None]:
    """Keys come at once and are not shown; Ctrl-C still is Ctrl-C.

    After Ctrl-Z the shell has the terminal in its own way: it is set once more when it is ours again, and the question
    repeated, which other lines stand below by then.
    """
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def taken_up() -> None:
        if os.tcgetpgrp(descriptor) == os.getpgrp():
            tty.setcbreak(descriptor)
            repeat()

    loop.add_signal_handler(signal.SIGCONT, taken_up)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        loop.remove_signal_handler(signal.SIGCONT)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _typed_over(prompt: str, now: str) -> str:
    """A line that begins as it is now, in the line editor. Nothing goes on meanwhile: the run is paused."""
    try:
        import readline
    except ImportError:  # a Python without it
        return input(prompt)
    ending = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    before = {each: signal.signal(each, signal.default_int_handler) for each in ending}
    readline.set_startup_hook(lambda: readline.insert_text(now))
    readline.set_auto_history(False)
    try:
        return input(prompt)
    except EOFError:
        raise Left from None
    finally:
        readline.set_auto_history(True)
        readline.set_startup_hook()
        for each, handler in before.items():
            signal.signal(each, handler)


def _is_command(call: ToolCall) -> bool:
    """Whether all there is to it is a command of one line."""
    command = call.args.get("command")
    rest = [value for name, value in call.args.items() if name != "command"]
    return isinstance(command, str) and "\n" not in command and not any(rest)


def _in_editor(editor: str, text: str) -> str:
    with tempfile.NamedTemporaryFile("w+", suffix=".json", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        try:
            code = subprocess.run([*shlex.split(editor), file.name], check=False).returncode
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            print(f"  the editor {editor!r} cannot be started: {said}", file=sys.stderr)
            return ""
        if code != 0:
            print(f"  the editor ended with exit code {code}: nothing is changed", file=sys.stderr)
            return ""
        return Path(file.name).read_text(encoding="utf-8")
