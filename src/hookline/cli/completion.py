"""`hookline completion bash|zsh|fish`: a completion script for a shell. shtab writes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hookline.cli.assembly.capabilities import capability_names
from hookline.cli.assembly.packages import packaged_capabilities
from hookline.cli.exits import Exit
from hookline.cli.journal_location import recorded_runs
from hookline.cli.parser import make_parser
from hookline.config import load
from hookline.errors import ConfigError
from hookline.extras import install_command

_RUNS = {
    "bash": "_hookline_runs",
    "zsh": "_hookline_runs",
    "fish": "(hookline completion runs 2>/dev/null)",
}
_PREAMBLE: Any = {
    "bash": '_hookline_runs() { compgen -W "$(hookline completion runs 2>/dev/null)" -- "$1"; }',
    "zsh": """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
_hookline_runs() { compadd -- $(hookline completion runs 2>/dev/null) }""",
}


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    if arguments.shell == "runs":
        return _print_runs()
    try:
        import shtab
    except ImportError:
        raise ConfigError(
            "completion needs the package 'shtab'.", remedy=f"Run: {install_command('terminal')}"
        ) from None
    parser, shell = make_parser(every=True), arguments.shell
    for action in _actions(parser):
        _add_completer(action, {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY, "RUN": _RUNS})
    print(shtab.complete(parser, shell, preamble=_PREAMBLE))
    return Exit.DONE


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _actions(each)


def _add_completer(action: Any, completers: dict[str, Any]) -> None:
    if action.metavar in completers:
        action.complete = completers[action.metavar]
    elif "--capability" in action.option_strings or "--without" in action.option_strings:
        offered = (each.name for each in packaged_capabilities())
        action.choices = sorted({*capability_names(), *offered})


def _print_runs() -> int:
    print("last")
    for info in recorded_runs(load(Path.cwd()))[:50]:
        print(info.run_id)
    return Exit.DONE
