"""The programs and scripts that a command line or a shell script starts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hookline.shell_text.command_search import CommandSearch, TooMuch
from hookline.shell_text.reader import PipelineStage, TooDeep
from hookline.shell_text.runners import SHELLS, can_run_code, can_run_input, has_value

_MAX_WORK = 1 << 20
_MAX_COMMANDS = 5_000
_OUTPUT = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
_NO_SCRIPT = frozenset({"-c", "-e", "-m", "--eval", "--command", "-Command", "-p", "--print", "-"})
"""Options of interpreters after which there is no script: the code is written there, or comes from elsewhere."""
_NO_SCRIPT_FOR_A_SHELL = frozenset({"-c", "-s", "-"})
_TASK_RUNNERS = frozenset(
    "npm npx yarn pnpm make just task tox nox pytest cargo go gradle mvn rake bundle pre-commit".split()
)


class Started(NamedTuple):
    """A word that names a program, or a script that an interpreter is given."""

    word: str
    text: str
    """The command that starts it, as it is written."""
    is_script: bool = False


class StartSearch(CommandSearch):
    """Finds what a text starts, and every word that may name a file which it reads."""

    max_commands = _MAX_COMMANDS

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__(variables=dict(variables))
        self.budget = _MAX_WORK
        self.started: list[Started] = []
        self.texts: list[str] = []
        """What is assigned, and what is read: files, and texts in here-documents."""
        self.assigned: list[tuple[str, str]] = []
        """Variables that are set, with their values."""
        self.is_cut = False
        """Whether there was more to look at than is looked at."""

    @property
    def is_whole(self) -> bool:
        """Whether all of the text was read, and bash would take it."""
        return not (self.is_cut or self.is_broken)

    @property
    def words(self) -> list[str]:
        """Every word that may name a file, without those that are written to."""
        return [*self.texts, *(word for words in self.commands for word in words)]

    def search(self, line: str | Sequence[str]) -> None:
        """Search a text, or the words of one command. Nothing is raised; what was found counts."""
        try:
            if isinstance(line, str):
                self.script(line)
            else:
                self.search_words(list(line), " ".join(line))
        except (TooMuch, TooDeep):
            self.is_cut = True

    def examine(self, argv: list[str], text: str) -> None:
        """Note what one command starts."""
        self.started += started_by(argv, text)

    def assign(self, name: str, value: str) -> None:
        """Note what a variable is set to: it may be used in a program that is not read."""
        self.texts.append(value)
        self.assigned.append((name, value))
        super().assign(name, value)

    def stage(self, stage: PipelineStage) -> None:
        """Note what is read, and a script that an interpreter reads."""
        reads = [target for operator, target in stage.redirects if operator not in _OUTPUT]
        self.texts += [*reads, *stage.inputs]
        if reads and any(map(can_run_input, self.argvs(stage))):
            self.started += [Started(target, stage.text, is_script=True) for target in reads]
        super().stage(stage)


def started_by(argv: Sequence[str], text: str = "") -> Iterator[Started]:
    """The program of one command, and the script that it is given, or the files of a Python module."""
    yield Started(argv[0], text)
    if not is_interpreter(argv[0]):
        return
    name = os.path.basename(argv[0])
    ends = _NO_SCRIPT_FOR_A_SHELL if name in SHELLS else _NO_SCRIPT
    for place, word in enumerate(argv[1:], start=1):
        if word == "-m" and name not in SHELLS:
            for path in files_of_program("".join(argv[place + 1 : place + 2])):
                yield from (Started(each, text, is_script=True) for each in (path, f"src/{path}"))
        if word in ends:
            return
        if not word.startswith(("-", "+")) and not has_value(name, argv[place - 1]):
            yield Started(word, text, is_script=True)
            return


def files_of_program(module: str) -> tuple[str, ...]:
    """The files that `python -m module` runs first, relative to the directory on the search path."""
    parts = module.split(".")
    packages = ["/".join((*parts[:count], "__init__.py")) for count in range(1, len(parts) + 1)]
    path = "/".join(parts)
    return (f"{path}.py", f"{path}/__main__.py", *packages)


def is_interpreter(program: str) -> bool:
    """Whether a program runs a script that it is given."""
    return can_run_code([program]) and not is_task_runner(program)


def is_task_runner(program: str) -> bool:
    """Whether a program runs commands from other files of a project, such as `npm` and `make`."""
    return os.path.basename(program) in _TASK_RUNNERS
