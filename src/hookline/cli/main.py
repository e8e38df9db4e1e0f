"""The `hookline` command. Each sub-command is a module of its own, which is loaded when it is used."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import io
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from hookline.cli.exits import Exit

COMMANDS = {
    "run": ("run", "run an agent on a task"),
    "chat": ("chat", "talk with an agent"),
    "resume": ("resume", "go on with a run that waits, or was cut off"),
    "runs": ("runs", "list the runs of this project"),
    "show": ("show", "show what happened in a run"),
    "fork": ("fork", "go on from a step of a run with another prompt"),
    "replay": ("replay", "drive a recorded run again and compare"),
    "backtest": ("backtest", "what the hooks of now would say about recorded runs"),
    "hooks": ("hooks", "list, explain, lint or test hooks"),
    "tools": ("tools", "list the tools the agent has here"),
    "trust": ("trust", "approve the configuration of a directory as it is now"),
    "config": ("config", "show each setting and where it came from"),
    "init": ("init", "make a project with one hook, one test and one agent"),
    "doctor": ("doctor", "what works on this machine, and how to mend the rest"),
    "model": ("model", "list, fetch or remove local models"),
    "mcp-serve": ("mcp_serve", "offer an agent as an MCP server"),
    "completion": ("completion", "print a completion script for your shell"),
}
"""Each command, the module it is in, and what it does."""
_BROKEN_PIPE = 141
_UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What goes wrong with a file that is written to, and only then."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    given = list(sys.argv[1:] if argv is None else argv)
    gc.disable()  # what is loaded now stays: looking through it again and again takes a tenth of the start
    _open_streams()
    try:
        code = _main(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _leave_stdout()
        return _BROKEN_PIPE
    except OSError as error:  # what was said could not be written, as on a disk that is full
        _leave_stdout()
        return _told(error)
    except KeyboardInterrupt:
        print("hookline: interrupted.", file=sys.stderr)
        return Exit.INTERRUPTED
    finally:
        gc.enable()


def _open_streams() -> None:
    """Whoever starts a program may have closed its streams, or have them in an encoding that lacks most characters."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    told = sys.__stderr__
    if told is not None and sys.stderr is told:
        from hookline.cli.telling import never_failing

        sys.stderr = never_failing(told)


def _leave_stdout() -> None:
    """Whoever read our output has left. Python would complain once more when it closes it."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _main(given: list[str]) -> int:
    command = next((word for word in given if not word.startswith("-")), "")
    if command == "help":
        command, given = "", ["--help"]
    if command and command not in COMMANDS:
        return _unknown(command)
    parser = make_parser(command)
    arguments, rest = parser.parse_known_args(given)
    _take(arguments, rest, parser, command)
    if arguments.version:
        from hookline import __version__

        print(f"hookline {__version__}")
        return Exit.DONE
    if not hasattr(arguments, "run"):
        parser.print_help()
        return Exit.DONE
    return _guarded(arguments)


def _unknown(command: str) -> int:
    if " " in command:
        remedy = f"To run an agent on a task: hookline run {shlex.quote(command)}"
    else:
        remedy = closest(command, list(COMMANDS)) or "`hookline --help` lists them."
    print(f"hookline: there is no command {command!r}. {remedy}", file=sys.stderr)
    return Exit.USAGE


def closest(word: str, known: Sequence[str]) -> str:
    """What was probably meant, as a question; empty if that is anybody's guess."""
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"Did you mean '{close[0]}'?" if close else ""


def _take(
    arguments: argparse.Namespace, rest: list[str], parser: argparse.ArgumentParser, command: str
) -> None:
    """Words of a task that come after a flag. argparse itself takes only those that stand together."""
    flags = [word for word in rest if word.startswith("-")]
    parser = of_command(parser, command)
    if rest and hasattr(arguments, "task") and not flags:
        arguments.task += rest
        return
    if flags:
        flag = flags[0].partition("=")[0]
        remedy = closest(flag, _flags(parser))
        parser.error(f"there is no flag {flag!r} here. {remedy}".rstrip())
    if rest:
        parser.error(f"there is nothing to do with {rest[0]!r}.")


def of_command(parser: argparse.ArgumentParser, command: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and command in action.choices:
            return action.choices[command]  # type: ignore[no-any-return]
    return parser


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    """Every flag of a command, those of its actions too."""
    found: list[str] = []
    for action in parser._actions:
        found += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            found += [flag for each in action.choices.values() for flag in _flags(each)]
    return found


def _guarded(arguments: argparse.Namespace) -> int:
    """What goes wrong is one line that says what to do, and the exit code that stands for it."""
    from hookline.cli.streams import ours

    # A server's streams belong to its client, and it keeps them apart itself.
    with contextlib.nullcontext() if hasattr(arguments, "serves") else ours():
        try:
            return int(arguments.run(arguments))
        except (BrokenPipeError, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            if _is_unwritten(error):
                raise
            return _told(error)


def _is_unwritten(error: Exception) -> bool:
    """Whether it is what was said that could not be written, which is told once it is given up."""
    return isinstance(error, OSError) and error.errno in _UNWRITTEN and not error.filename


def _told(error: Exception) -> int:
    from hookline.cli.exits import exit_for
    from hookline.cli.terminal import printable
    from hookline.errors import HooklineError

    if os.environ.get("HOOKLINE_DEBUG"):
        raise error
    said = str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        said = "the directory this was started in is not there any more. Go to another one."
    elif isinstance(error, OSError) and error.strerror:
        said = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
        if _is_unwritten(error):
            said = f"standard output cannot be written: {said} Runs are kept all the same: hookline show."
    elif not isinstance(error, HooklineError | OSError):
        said = f"{type(error).__name__}: {said} (HOOKLINE_DEBUG=1 shows where)"
    print(f"hookline: {printable(said, lines=True)}", file=sys.stderr)
    return exit_for(error)


def _is_nowhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


class _Help(argparse.HelpFormatter):
    """Help in which the longest command has its line: argparse forgets that commands are indented."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24)
        self._action_max_length = 4 + max(map(len, COMMANDS))


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line. Half a flag is none: a later one may begin like it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.allow_abbrev = (
            False  # also in the parsers of actions, which argparse makes of this class
        )

    def error(self, message: str) -> NoReturn:
        """Wrong use."""
        self.exit(Exit.USAGE, f"hookline: {message} (`{self.prog} --help` says more)\n")


def make_parser(command: str = "") -> argparse.ArgumentParser:
    """The parser. Only the command that is named gets its arguments: loading all of them would take too long."""
    parser = Parser(
        prog="hookline",
        formatter_class=_Help,
        description="An agent runtime in which hooks are the skeleton.",
        epilog="In Python: from hookline import AgentBuilder",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, (module, summary) in COMMANDS.items():
        if name == command:
            import_module(f"hookline.cli.{module}").add_to(commands)
        else:
            commands.add_parser(name, help=summary, add_help=False)
    return parser
