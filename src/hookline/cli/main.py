"""The `hookline` command: it runs the function that the parser names, and reports errors in one line."""

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

from hookline.cli.exits import Exit, exit_for
from hookline.cli.parser import COMMANDS, make_parser, parse
from hookline.cli.standard_streams import discard, open_streams, private_stdout

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
        return _report_unknown(command)
    arguments = parse(given, command)
    if arguments.version:
        from hookline import __version__

        print(f"hookline {__version__}")
        return Exit.DONE
    if not hasattr(arguments, "run"):
        make_parser().print_help()
        return Exit.DONE
    return _run(arguments)


def _report_unknown(command: str) -> int:
    from hookline.cli.terminal import report
    from hookline.config.validation import suggest

    if " " in command:
        remedy = f"To run an agent on a task: hookline run {shlex.quote(command)}"
    else:
        remedy = suggest(command, COMMANDS, otherwise="`hookline --help` lists them.")
    report(f"there is no command {command!r}. {remedy}")
    return Exit.USAGE


def _run(arguments: argparse.Namespace) -> int:
    """Run the command. An error becomes one line with a remedy, and an exit code."""
    # A server's streams belong to its client. It separates them itself.
    with contextlib.nullcontext() if hasattr(arguments, "serves") else private_stdout():
        try:
            module, _, function = arguments.run.partition(":")
            return int(getattr(import_module(f"hookline.cli.{module}"), function)(arguments))
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
    from hookline.cli.terminal import print_text, printable
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
        text = f"{type(error).__name__}: {text} (HOOKLINE_DEBUG=1 shows the traceback)"
    print_text(f"hookline: {printable(text, lines=True)}", sys.stderr)
    return exit_for(error)


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True
