"""The `hookline` command. Each sub-command is a module, which is imported when it is used."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from hookline.cli.exits import Exit
from hookline.cli.streams import discard, open_streams, private_stdout

COMMANDS = {
    "run": ("run", "run an agent on a task"),
    "chat": ("chat", "talk with an agent"),
    "resume": ("resume", "continue a run that waits, or was interrupted"),
    "runs": ("runs", "list the runs of this project"),
    "show": ("show", "show what happened in a run"),
    "replay": ("replay", "repeat a recorded run and compare"),
    "backtest": ("backtest", "what the current hooks would decide about recorded runs"),
    "hooks": ("hooks", "list, explain, lint or test hooks"),
    "tools": ("tools", "list the tools the agent has here"),
    "trust": ("trust", "approve the configuration of a directory as it is now"),
    "config": ("config", "show each setting and where it came from"),
    "init": ("init", "make a project with one hook, one test and one agent"),
    "doctor": ("doctor", "what works on this machine, and how to fix the rest"),
    "model": ("model", "list, fetch or remove local models"),
    "mcp-serve": ("mcp_serve", "offer an agent as an MCP server"),
    "completion": ("completion", "print a completion script for your shell"),
}
"""Each command: its module, and a summary."""
_BROKEN_PIPE = 141
_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors that only writing to a file causes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    given = list(sys.argv[1:] if argv is None else argv)
    gc.disable()  # collecting while modules are imported takes a tenth of the start, and frees nothing
    open_streams()
    try:
        code = _main(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _leave_stdout()
        return _BROKEN_PIPE
    except OSError as error:  # the output could not be written: the disk is full, for example
        _leave_stdout()
        return _report(error)
    except KeyboardInterrupt:
        print("hookline: interrupted.", file=sys.stderr)
        return Exit.INTERRUPTED
    finally:
        gc.enable()


def _leave_stdout() -> None:
    """The reader of our output has left. Without this, Python would complain when it closes the stream."""
    with contextlib.suppress(OSError, ValueError):
        discard(sys.stdout.fileno())


def _main(given: list[str]) -> int:
    command = next((word for word in given if not word.startswith("-")), "")
    if command == "help":
        command, given = "", ["--help"]
    if command and command not in COMMANDS:
        return _unknown(command)
    parser = make_parser(command)
    arguments, rest = parser.parse_known_args(given)
    _take_rest(arguments, rest, parser, command)
    if arguments.version:
        from hookline import __version__

        print(f"hookline {__version__}")
        return Exit.DONE
    if not hasattr(arguments, "run"):
        parser.print_help()
        return Exit.DONE
    return _run(arguments)


def _unknown(command: str) -> int:
    from hookline.config import suggest

    if " " in command:
        remedy = f"To run an agent on a task: hookline run {shlex.quote(command)}"
    else:
        remedy = suggest(command, COMMANDS, otherwise="`hookline --help` lists them.")
    print(f"hookline: there is no command {command!r}. {remedy}", file=sys.stderr)
    return Exit.USAGE


def _take_rest(
    arguments: argparse.Namespace, rest: list[str], parser: argparse.ArgumentParser, command: str
) -> None:
    """Add words of a task that come after a flag. argparse itself takes only the first group of words."""
    flags = [word for word in rest if word.startswith("-")]
    if rest and hasattr(arguments, "task") and not flags:
        arguments.task += rest
        return
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and command in action.choices:
            parser = action.choices[command]
    if flags:
        from hookline.config import suggest

        flag = flags[0].partition("=")[0]
        remedy = suggest(flag, _flags(parser), otherwise="")
        parser.error(f"there is no flag {flag!r} here. {remedy}".rstrip())
    if rest:
        parser.error(f"{rest[0]!r} has no meaning here.")


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    """Every flag of a command and of its actions."""
    found: list[str] = []
    for action in parser._actions:
        found += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            found += [flag for each in action.choices.values() for flag in _flags(each)]
    return found


def _run(arguments: argparse.Namespace) -> int:
    """Run the command. An error becomes one line with a remedy, and an exit code."""
    # A server's streams belong to its client. It separates them itself.
    with contextlib.nullcontext() if hasattr(arguments, "serves") else private_stdout():
        try:
            return int(arguments.run(arguments))
        except (BrokenPipeError, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            if _is_write_error(error):
                raise
            return _report(error)


def _is_write_error(error: Exception) -> bool:
    """Whether standard output could not be written. This is reported once the stream is given up."""
    return isinstance(error, OSError) and error.errno in _WRITE_ERRORS and not error.filename


def _report(error: Exception) -> int:
    from hookline.cli.exits import exit_for
    from hookline.cli.terminal import printable
    from hookline.errors import HooklineError

    if os.environ.get("HOOKLINE_DEBUG"):
        raise error
    text = str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        text = "the current directory does not exist any more. Change to another one."
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
        if _is_write_error(error):
            text = f"standard output cannot be written: {text} The run is recorded: hookline show."
    elif not isinstance(error, HooklineError | OSError):
        text = f"{type(error).__name__}: {text} (HOOKLINE_DEBUG=1 shows where)"
    print(f"hookline: {printable(text, lines=True)}", file=sys.stderr)
    return exit_for(error)


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


class _Help(argparse.HelpFormatter):
    """Help with one line for each command. argparse forgets that commands are indented."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24)
        self._action_max_length = 4 + max(map(len, COMMANDS))


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and which takes no abbreviated flags."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.allow_abbrev = False  # also in the parsers of actions, which argparse makes

    def error(self, message: str) -> NoReturn:
        """Report wrong use."""
        self.exit(Exit.USAGE, f"hookline: {message} (`{self.prog} --help` says more)\n")


def make_parser(command: str = "", *, every: bool = False) -> argparse.ArgumentParser:
    """Make the parser. Only the named command gets its arguments: importing every command takes too long."""
    parser = Parser(
        prog="hookline",
        formatter_class=_Help,
        description="An agent runtime in which hooks decide.",
        epilog="In Python: from hookline import AgentBuilder",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, (module_name, summary) in COMMANDS.items():
        if not (every or name == command):
            commands.add_parser(name, help=summary, add_help=False)
            continue
        module = import_module(f"hookline.cli.{module_name}")
        each = commands.add_parser(name, help=summary, description=module.DESCRIPTION)
        module.add_flags(each)
        if hasattr(module, "run"):  # else its actions have functions of their own
            each.set_defaults(run=module.run)
    return parser
