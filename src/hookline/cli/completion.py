"""`hookline completion bash|zsh|fish`: completion for a shell, as a script it can source."""

from __future__ import annotations

import argparse
from typing import Any

from hookline.cli.exits import Exit

_BASH = """\
# hookline completion for bash: eval "$(hookline completion bash)"
_hookline() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands} --version --help" -- "$word"))
        return
    fi
    case "$command" in
{cases}
    esac
}}
complete -o default -F _hookline hookline
"""
_ZSH = """\
# hookline completion for zsh: eval "$(hookline completion zsh)"
autoload -Uz bashcompinit && bashcompinit
{bash}"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "completion",
        help="print a completion script for your shell",
        description='For bash: eval "$(hookline completion bash)" in ~/.bashrc; zsh likewise. For fish: '
        "hookline completion fish > ~/.config/fish/completions/hookline.fish",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    words = _words()
    if arguments.shell == "fish":
        print(_fish(words), end="")
    else:
        bash = _bash(words)
        print(bash if arguments.shell == "bash" else _ZSH.format(bash=bash), end="")
    return Exit.DONE


def _words() -> dict[str, list[str]]:
    """For each command, the flags and actions it takes."""
    from hookline.cli.main import COMMANDS, make_parser

    found: dict[str, list[str]] = {}
    for name in COMMANDS:
        parser = _subparser(make_parser(name), name)
        words: list[str] = []
        waiting = [parser]
        while waiting:
            for action in waiting.pop()._actions:
                words += [flag for flag in action.option_strings if flag.startswith("--")]
                if isinstance(action, argparse._SubParsersAction):
                    words += list(action.choices)
                    waiting += list(action.choices.values())
                elif not action.option_strings and action.choices is not None:
                    words += [str(choice) for choice in action.choices]
        found[name] = sorted(set(words))
    return found


def _subparser(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return commands.choices[name]  # type: ignore[no-any-return]


def _bash(words: dict[str, list[str]]) -> str:
    cases = "\n".join(
        f'        {name}) COMPREPLY=($(compgen -W "{" ".join(flags)}" -- "$word")) ;;'
        for name, flags in words.items()
    )
    return _BASH.format(commands=" ".join(words), cases=cases)


def _fish(words: dict[str, list[str]]) -> str:
    from hookline.cli.main import COMMANDS

    lines = ["# hookline completion for fish"]
    for name, (_module, summary) in COMMANDS.items():
        lines.append(f"complete -c hookline -n __fish_use_subcommand -a {name} -d '{summary}'")
    for name, flags in words.items():
        seen = f"'__fish_seen_subcommand_from {name}'"
        for flag in flags:
            kind = f"-l {flag.removeprefix('--')}" if flag.startswith("--") else f"-a {flag}"
            lines.append(f"complete -c hookline -n {seen} {kind}")
    return "\n".join(lines) + "\n"
