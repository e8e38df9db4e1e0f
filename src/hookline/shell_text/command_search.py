"""Every command that a line may run, wherever in the text it hides.

Commands are found in substitutions, loops and functions, behind programs that run others, in the text given to a
shell, and in what is piped to one. Finding nothing proves nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from hookline.shell_text.reader import (
    UNKNOWN,
    UNREAD,
    PipelineStage,
    ShellVisitor,
    TooDeep,
    read_shell_text,
    unescape,
)
from hookline.shell_text.runners import (
    FEEDERS,
    SHELLS,
    can_run_code,
    can_run_input,
    commands_in,
    is_source,
    name_of,
    scripts_in,
)

MAX_LENGTH = 8_000
"""Characters of a line that is read. A longer one is asked about."""
MAX_DEPTH = 6
"""Texts inside each other that are given to a shell."""
MAX_COMMANDS = 400
MAX_WORK = 60_000
"""How many characters are looked at, those of texts inside texts included."""
_COPIERS = frozenset({"mv", "cp", "ln", "install"})
_PRINT_OPTION = re.compile(r"-[neE]+")
_PRINT_FORMAT = re.compile(r"(?:%[sb]|\\n|\s)+")


class TooMuch(Exception):
    """There is more to look at than a verdict may cost."""


class TooManyShells(TooDeep):
    """A shell is given a text for a shell that is given a text, and so on."""


def find_commands(text: str) -> tuple[tuple[str, ...], ...] | None:
    """The words of every command that a text may run, with `UNKNOWN` in a word for each value. None: too many."""
    search = CommandSearch()
    try:
        search.script(text[:MAX_LENGTH])
    except (TooMuch, TooDeep):
        return None
    return tuple(search.commands) if len(text) <= MAX_LENGTH else None


class CommandSearch(ShellVisitor):
    """What is known while a text is searched."""

    def __init__(self, variables: dict[str, str] | None = None, unknown: str = UNKNOWN) -> None:
        super().__init__(variables, unknown)
        self.commands: list[tuple[str, ...]] = []
        self.files: set[str] = set()
        """Files that hold what was fetched or decoded."""
        self.depth = 0
        self.budget = MAX_WORK

    def script(self, text: str) -> None:
        """Search a piece of bash."""
        if self.depth > MAX_DEPTH:
            raise TooManyShells(text)
        self._spend(len(text) + 100)
        self.depth += 1
        read_shell_text(text, self)
        self.depth -= 1

    def examine(self, argv: list[str], text: str) -> None:
        """Look at a command, one that another one runs included. `text` is where it stands."""

    def runs_unread(self, text: str) -> None:
        """Look at a pipeline in which something that was fetched or decoded is run."""

    def find_printed(self, argv: Sequence[str]) -> list[str]:
        """What a command prints, as far as its words say it."""
        words = [word for word in argv[1:] if not _PRINT_OPTION.fullmatch(word)]
        if name_of(argv) not in {"echo", "printf"}:
            return []
        if name_of(argv) == "printf" and len(words) > 1 and _PRINT_FORMAT.fullmatch(words[0]):
            words = words[1:]
        text = " ".join(words)
        return list(dict.fromkeys([text, unescape(text).replace("\0", " ")]))

    def is_file_unread(self, word: str) -> bool:
        """Whether a file has something in it that was fetched or decoded."""
        return bool(word) and posixpath.normpath(word) in self.files

    def note_files(self, words: Iterable[str]) -> None:
        """Remember files that hold what was fetched or decoded."""
        self.files.update(posixpath.normpath(word) for word in words if word)
        self.files -= {".", "-"}

    # --- what the reader finds --------------------------------------------------------------------

    def command(self, words: list[str], text: str, inner: Sequence[list[str]]) -> None:
        """Search one command, and everything that it would run."""
        self.search_words(words, text)
        echoed = [text for each in inner for text in self.find_printed(each)]
        if echoed and any(map(can_run_code, commands_in(words))):
            self.script("\n".join(echoed))

    def stage(self, stage: PipelineStage) -> None:
        """Search what is given to a command by a redirect."""
        if not (stage.redirects or stage.inputs):
            return
        argvs = self.argvs(stage)
        reads = [target for operator, target in stage.redirects if operator in {"<", "<>"}]
        is_unread = any(UNREAD in text for text in (*reads, *stage.inputs))
        is_unread = is_unread or any(map(self.is_file_unread, reads))
        # `curl x > >(bash)`
        is_unread = is_unread or (">(" in stage.text and any(map(is_source, argvs)))
        if is_unread or stage.inputs:
            self._read_piped(stage.inputs, argvs, stage.text, is_unread=is_unread)

    def pipeline(self, stages: Sequence[PipelineStage], text: str) -> None:
        """Search what each member of a pipeline is given by those before it."""
        is_unread, printed = False, list[str]()
        for stage in stages:
            argvs = self.argvs(stage)
            self._read_piped(printed, argvs, text, is_unread=is_unread)
            for argv in argvs if is_unread else ():
                self.note_files(argv[1:] if name_of(argv) in {"tee", "sponge"} else ())
            words = [word for argv in argvs for word in argv]
            is_unread = is_unread or any(map(is_source, argvs))
            is_unread = is_unread or any(UNREAD in w or self.is_file_unread(w) for w in words)
            printed += [text for argv in argvs for text in self.find_printed(argv)] + stage.inputs

    def is_unread(self, stage: PipelineStage) -> bool:
        """Whether the output was fetched or decoded by one of the commands."""
        return super().is_unread(stage) or any(map(is_source, self.argvs(stage)))

    # --- commands ---------------------------------------------------------------------------------

    def search_words(self, argv: list[str], text: str) -> None:
        """Search a command, and those that it runs."""
        for inner in commands_in(argv):
            if len(self.commands) > MAX_COMMANDS:
                raise TooMuch
            self.commands.append(tuple(inner))
            self.examine(inner, text)
            self._note_stored(inner)
            for script in scripts_in(inner):
                self.script(script)

    def argvs(self, stage: PipelineStage) -> list[list[str]]:
        """Every command of a stage, and what each may run."""
        self._spend(len(stage.text))
        found: list[list[str]] = []
        for words in stage.commands[:MAX_COMMANDS]:
            for argv in commands_in(words):
                found.append(argv)
                for script in scripts_in(argv):
                    known = None if self.variables is None else dict(self.variables)
                    plain = ShellVisitor(known, self.unknown)
                    found += read_shell_text(script[:500], plain).commands
        return found

    def _note_stored(self, argv: Sequence[str]) -> None:
        """Remember where a command puts what it fetches or decodes, and where it goes from there."""
        names = [word for word in argv[1:] if word and not word.startswith("-")]
        if is_source(argv):
            self.note_files(names)
            self.note_files(_joined_values(argv[1:]))
            self.note_files(posixpath.basename(word.partition("?")[0]) for word in names)
        elif name_of(argv) in _COPIERS and any(map(self.is_file_unread, names[:-1])):
            self.note_files(names[-1:])

    def _spend(self, characters: int) -> None:
        self.budget -= characters
        if self.budget < 0:
            raise TooMuch

    def _read_piped(
        self, printed: list[str], stage: list[list[str]], text: str, *, is_unread: bool
    ) -> None:
        """What is printed may be run as it is, or become the words of what xargs runs."""
        names = {name_of(argv) for argv in stage}
        is_fed = bool(names & FEEDERS)
        runs = any(map(can_run_input, stage)) or (is_fed and bool(names & SHELLS))
        if runs and is_unread:
            self.runs_unread(text)
        if runs and printed:
            self.script("\n".join(printed))
        words = [word for line in printed for word in line.split()][:32] if is_fed else []
        for argv in stage if words else ():
            if name_of(argv) in FEEDERS:
                self.search_words([*argv, *words], text)


def _joined_values(words: Sequence[str]) -> Iterator[str]:
    """What may be the value of an option in the same word: `--output=x`, `-ox`, `-sLox`."""
    for word in words:
        if word.startswith("--"):
            yield word.partition("=")[2]
        elif word.startswith("-"):
            yield from (word[at:] for at in range(2, min(len(word), 12)))
