"""The `hookline` command. Each sub-command is a module of its own, which is loaded when it is used."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    given = list(sys.argv[1:] if argv is None else argv)
    gc.disable()  # what is loaded now stays: looking through it again and again takes a tenth of the start
    try:
        code = _main(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has left. Python would complain once more when it closes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        print("hookline: interrupted.", file=sys.stderr)
        return Exit.INTERRUPTED
    finally:
        gc.enable()


def _main(given: list[str]) -> int:
    parser = make_parser(next((word for word in given if not word.startswith("-")), ""))
    arguments, rest = parser.parse_known_args(given)
    _take(arguments, rest, parser)
    if arguments.version:
        from hookline import __version__

        print(f"hookline {__version__}")
        return Exit.DONE
    if not hasattr(arguments, "run"):
        parser.print_help()
        return Exit.DONE
    return _guarded(arguments)


def _take(arguments: argparse.Namespace, rest: list[str], parser: argparse.ArgumentParser) -> None:
    """Words of a task that come after a flag. argparse itself takes only those that stand together."""
    if not rest:
        return
    if hasattr(arguments, "task") and not any(word.startswith("-") for word in rest):
        arguments.task += rest
    else:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")


def _guarded(arguments: argparse.Namespace) -> int:
    """What goes wrong is one line that says what to do, and the exit code that stands for it."""
    try:
        return int(arguments.run(arguments))
    except (BrokenPipeError, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        return _told(error)


def _told(error: Exception) -> int:
    from hookline.cli.exits import exit_for
    from hookline.errors import HooklineError

    if os.environ.get("HOOKLINE_DEBUG"):
        raise error
    said = str(error) or type(error).__name__
    if not isinstance(error, HooklineError | OSError):
        said = f"{type(error).__name__}: {said} (HOOKLINE_DEBUG=1 shows where)"
    print(f"hookline: {said}", file=sys.stderr)
    return exit_for(error)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, after the usage."""

    def error(self, message: str) -> NoReturn:
        """Wrong use."""
        self.print_usage(sys.stderr)
        self.exit(Exit.USAGE, f"hookline: {message}\n")


def make_parser(command: str = "") -> argparse.ArgumentParser:
    """The parser. Only the command that is named gets its arguments: loading all of them would take too long."""
    parser = Parser(
        prog="hookline",
        description="An agent runtime in which hooks are the skeleton.",
        epilog="In Python: from hookline import AgentBuilder",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for name, (module, summary) in COMMANDS.items():
        if name == command:
            import_module(f"hookline.cli.{module}").add_to(commands)
        else:
            commands.add_parser(name, help=summary, add_help=False)
    return parser
