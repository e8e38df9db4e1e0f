"""`hookline completion bash|zsh|fish`: completion for a shell, as a script it can source."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

from hookline.cli.exits import Exit

_BASH = """\
# hookline completion for bash: eval "$(hookline completion bash)"
_hookline_runs() {{
    echo last
    hookline runs --json --limit 50 2>/dev/null | sed -n 's/^{{"run_id":"\\([^"]*\\)".*/\\1/p'
}}
_hookline() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" action="${{COMP_WORDS[2]}}" words="" start=""
    COMPREPLY=()
    # --flag=value is three words in bash, and one in zsh.
    if [ "$word" = "=" ]; then
        word=""
    elif [ "$before" = "=" ]; then
        before="${{COMP_WORDS[COMP_CWORD-2]}}"
    elif [ "${{word#--*=}}" != "$word" ]; then
        before="${{word%%=*}}" start="${{word%%=*}}=" word="${{word#*=}}"
    fi
    case "$before" in
{values}
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands} --version --help"
    else
        case "$command:$action" in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _hookline hookline
"""
_ZSH = """\
# hookline completion for zsh: eval "$(hookline completion zsh)"
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit -i; }}
autoload -Uz bashcompinit && bashcompinit
{bash}"""
_RUNS = "_hookline_runs"


class Flag(msgspec.Struct, frozen=True):
    """A flag, and what can stand after it."""

    names: tuple[str, ...]
    help: str = ""
    takes: str = ""
    """What it takes: empty for nothing, else FILE, RUN, or the name of something that nobody can guess."""
    values: tuple[str, ...] = ()


class Shape(msgspec.Struct, frozen=True):
    """What can be said after a command, or after one of its actions."""

    flags: tuple[Flag, ...]
    words: str = ""
    """What its words are: RUN, DIR, or something that nobody can guess."""
    actions: dict[str, Shape] = {}
    choices: tuple[str, ...] = ()
    help: str = ""


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
    shapes = _shapes()
    if arguments.shell == "fish":
        print("\n".join(_fish(shapes)))
    else:
        bash = _bash(shapes)
        print(bash if arguments.shell == "bash" else _ZSH.format(bash=bash), end="")
    return Exit.DONE


# --- what there is ------------------------------------------------------------------------------------


def _shapes() -> dict[str, Shape]:
    from hookline.cli.main import COMMANDS, make_parser, of_command

    return {
        name: _shape(of_command(make_parser(name), name), summary)
        for name, (_module, summary) in COMMANDS.items()
    }


def _shape(parser: argparse.ArgumentParser, summary: str = "") -> Shape:
    flags: list[Flag] = []
    actions: dict[str, Shape] = {}
    words, choices = "", tuple[str, ...]()
    for action in parser._actions:
        if action.option_strings:
            flags.append(_flag(action))
        elif isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            actions = {
                name: _shape(each, helps.get(name, "")) for name, each in action.choices.items()
            }
        else:
            words = words or str(action.metavar or "")
            choices = tuple(map(str, action.choices or choices))
    return Shape(tuple(flags), words, actions, choices, summary)


def _flag(action: argparse.Action) -> Flag:
    from hookline.cli.assembly.capabilities import capability_names

    takes = "" if action.nargs == 0 else str(action.metavar or "VALUE")
    values = tuple(map(str, action.choices or ()))
    if action.option_strings[0] in ("--capability", "--without"):
        values = tuple(sorted(capability_names()))
    return Flag(tuple(action.option_strings), action.help or "", takes, values)


# --- bash and zsh -------------------------------------------------------------------------------------


def _bash(shapes: dict[str, Shape]) -> str:
    flags = {
        flag.names: flag
        for shape in shapes.values()
        for each in (shape, *shape.actions.values())
        for flag in each.flags
        if flag.takes
    }
    values = "\n".join(
        f"        {'|'.join(flag.names)}) {_bash_values(flag)}return ;;" for flag in flags.values()
    )
    cases = "\n".join(line for name, shape in shapes.items() for line in _bash_cases(name, shape))
    return _BASH.format(commands=" ".join(shapes), values=values, cases=cases)


def _bash_values(flag: Flag) -> str:
    """What stands after a flag. Where nothing is given, the shell offers files."""
    if flag.takes == "RUN":
        return f'COMPREPLY=($(compgen -P "$start" -W "$({_RUNS})" -- "$word")); '
    if flag.values:
        values = " ".join(flag.values)
        return f'COMPREPLY=($(compgen -P "$start" -W "{values}" -- "$word")); '
    return ""


def _bash_cases(name: str, shape: Shape) -> Iterator[str]:
    if not shape.actions:
        yield f"            {name}:*) {_bash_words(shape)} ;;"
        return
    offered = f'words="{" ".join(shape.actions)}"'
    for action, each in shape.actions.items():
        inside = f'if [ "$COMP_CWORD" -gt 2 ]; then {_bash_words(each)}; else {offered}; fi'
        yield f"            {name}:{action}) {inside} ;;"
    yield f"            {name}:*) {offered} ;;"


def _bash_words(shape: Shape) -> str:
    """Flags where one is begun, else what the words may be."""
    flags = " ".join(name for flag in shape.flags for name in flag.names)
    said = f'words="$({_RUNS})"' if shape.words == "RUN" else f'words="{" ".join(shape.choices)}"'
    return f'case "$word" in -*) words="{flags}" ;; *) {said} ;; esac'


# --- fish ---------------------------------------------------------------------------------------------


_FISH = """\
# hookline completion for fish
function __hookline_is # the words begin like this, whatever follows
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    test (count $words) -ge $last
    and test "$words[2..$last]" = "$argv"
end
function __hookline_begins # these are all the words so far
    set -l words (commandline -opc)
    test "$words[2..-1]" = "$argv"
end
complete -c hookline -f"""


def _fish(shapes: dict[str, Shape]) -> Iterator[str]:
    yield _FISH
    start = "complete -c hookline -n __hookline_begins"
    yield f"{start} -l version -d 'show the version and exit'"
    yield f"{start} -s h -l help -d 'show what there is, and exit'"
    for name, shape in shapes.items():
        yield f"{start} -a {name} -d {_quoted(shape.help)}"
        for action, each in shape.actions.items():
            when = f"-n '__hookline_begins {name}'"
            yield f"complete -c hookline {when} -a {action} -d {_quoted(each.help)}"
            yield from _fish_shape(f"__hookline_is {name} {action}", each)
        if not shape.actions:
            yield from _fish_shape(f"__hookline_is {name}", shape)


_FISH_RUNS = """(hookline runs --json --limit 50 2>/dev/null | string replace -rf '^{"run_id":"([^"]*)".*' '$1')"""


def _fish_shape(when: str, shape: Shape) -> Iterator[str]:
    start = f"complete -c hookline -n '{when}'"
    for flag in shape.flags:
        names = " ".join(
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names
        )
        yield f"{start} {names}{_fish_values(flag)} -d {_quoted(flag.help)}"
    if shape.words == "RUN":
        yield f"{start} -a last"
        yield f"{start} -a {_quoted(_FISH_RUNS)}"
    elif shape.words == "DIR":
        yield f"{start} -a '(__fish_complete_directories)'"
    elif shape.choices:
        yield f"{start} -a {_quoted(' '.join(shape.choices))}"


def _fish_values(flag: Flag) -> str:
    if flag.takes == "RUN":
        return f" -x -a {_quoted(_FISH_RUNS)}"
    if flag.values:
        return f" -x -a {_quoted(' '.join(flag.values))}"
    if flag.takes == "FILE":
        return " -r -F"
    if flag.takes == "DIR":
        return " -x -a '(__fish_complete_directories)'"
    return " -x" if flag.takes else ""


def _quoted(text: str) -> str:
    """For fish, in which a backslash before a quote is all there is to know."""
    return "'" + text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'") + "'"
