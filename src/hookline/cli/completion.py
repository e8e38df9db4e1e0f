"""`hookline completion bash|zsh|fish`: a completion script for a shell. shtab writes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from hookline.cli.exits import Exit

DESCRIPTION = (
    'For bash: eval "$(hookline completion bash)" in ~/.bashrc; zsh likewise. For fish: '
    "hookline completion fish > ~/.config/fish/completions/hookline.fish"
)
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


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command. `runs` prints what completes RUN, for the scripts themselves."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "runs"))


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    if arguments.shell == "runs":
        return _print_runs()
    try:
        import shtab
    except ImportError:
        from hookline.errors import ConfigError

        raise ConfigError(
            "completion needs the package 'shtab'.", remedy="pip install 'hookline[terminal]'"
        ) from None
    from hookline.cli.main import make_parser

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
    from hookline.cli.assembly.capabilities import capability_names

    if action.metavar in completers:
        action.complete = completers[action.metavar]
    elif "--capability" in action.option_strings or "--without" in action.option_strings:
        action.choices = sorted(capability_names())


def _print_runs() -> int:
    from pathlib import Path

    from hookline.cli.journal_location import recorded_runs
    from hookline.config import load

    print("last")
    for info in recorded_runs(load(Path.cwd()))[:50]:
        print(info.run_id)
    return Exit.DONE
