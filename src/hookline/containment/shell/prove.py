"""The first pass: proving that a command only looks.

Nothing is assumed: a program that is in no table, an option that is in no table, a word that might turn out to be
an option, each is a reason to ask.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from hookline.containment.shell.options import only, operands_of, refusal, verb_of
from hookline.containment.shell.paths import is_network, is_secret, is_whole_home
from hookline.containment.shell.scan import writes_a_file
from hookline.containment.shell.tables.all import PROGRAMS
from hookline.containment.shell.tables.find import take_apart
from hookline.containment.shell.tables.questions import QUESTIONS
from hookline.containment.shell.tables.wrappers import NAMES, STDIN, inner_words
from hookline.containment.shell.words import Command, Word

_BIN = re.compile(r"(?:/usr)?(?:/local)?/s?bin/|/opt/homebrew/bin/")
_ASSIGNABLE = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|CI|TERM|GIT_TERMINAL_PROMPT|GIT_OPTIONAL_LOCKS"
)
_PAGERS = frozenset({"PAGER", "GIT_PAGER", "MANPAGER"})
_NAMES_ONLY = re.compile(r"-[inwFsaI]*l[inwFsaI]*|--files(-with-matches)?")
_GREP_NAMES_ONLY = re.compile(r"-[rRinwEFsaI]*l[rRinwEFsaI]*|--files-with-matches")
_PRINTS_MORE = re.compile(r"-f?printf|--(form|lab|pat|out)|-[pu]$")
"""Options of programs that print names, with which they print other things."""
_FILTERS = {
    "head": only(takes="-n -c"),
    "tail": only(takes="-n -c"),
    "sort": only(takes="-k -t"),
    "uniq": only(takes="-f -s -w"),
}
"""Programs that print some of what they are given; and which of their options take a value."""
_TAKE_PATTERNS = frozenset(
    "grep egrep fgrep zgrep rg ag jq yq sed gsed awk gawk mawk nawk tr".split()
)
_PLAIN_PLACES = frozenset({"git rev-parse --show-toplevel", "pwd", "git rev-parse --show-cdup"})
"""Commands that print the name of a directory with nothing secret about it."""
_CUTS = re.compile(r"(?:^| )-d(?! ?\\[n0](?: |$))")
"""An xargs that takes lines apart at something else than their ends."""
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR]|--(dereference-)?recursive")


class Proof(msgspec.Struct):
    """What has been seen of a line so far: where it stands, and whether file names can have been made up on the way."""

    wheres: list[str] = msgspec.field(default_factory=lambda: [""])
    """Every directory it may stand in: a `cd` may fail, or be in a shell of its own."""
    lost: bool = False
    """Whether it may stand somewhere that is not known."""
    fed: bool = False
    """Whether the input of the command is what the one before it prints."""
    last: str = ""
    """The command before."""
    names_only: bool = True
    secrets_named: bool = False
    """Whether a command has named a place with secrets, so that what is found there must not be shown."""

    def objection(self, command: Command) -> str | None:
        """Why a command may do more than look, or None. Later commands are seen from where it leaves the shell."""
        problem = self._surroundings(command)
        if problem or not command.words:
            return problem
        self.fed = _is_fed(command)
        problem = self._words(command.words)
        if problem is None:
            self._remember(command)
        return problem

    def _remember(self, command: Command) -> None:
        words = command.words
        while words[0].text in {"builtin", "command"}:  # `builtin cd` moves as `cd` does
            words = inner_words(words[0].text, words[1:]) or (Word(""),)
        name, rest = program_name(words[0].text), words[1:]
        if name in {"cd", "pushd"}:
            self._move(rest)
        self.names_only = self.names_only and (_prints_names(name, rest) or _takes_names(command))
        self.secrets_named = self.secrets_named or self._names_secrets(rest)
        self.last = command.text

    def _move(self, rest: Sequence[Word]) -> None:
        target = rest[-1] if rest else Word("~")
        known = not target.hidden or (target.text == "$()" and self.last in _PLAIN_PLACES)
        self.lost = self.lost or not known or len(self.wheres) > 32
        if not self.lost:
            self.wheres += [
                f"{where}/{target.text}" if where else target.text for where in self.wheres
            ]

    def _surroundings(self, command: Command) -> str | None:
        """What stands around the words: assignments and redirects."""
        for name, value in command.assignments:
            plain = value.exact and "/" not in value.text
            if name == "IFS" and command.words[0] == Word("read"):
                continue
            if not plain or not (
                _ASSIGNABLE.fullmatch(name) or (name in _PAGERS and value.text == "cat")
            ):
                return f"it sets {name}"
        for redirect in command.redirects:
            if writes_a_file(redirect):
                return f"it writes to {redirect.target.text}"
            if redirect.operator == "<" and self._is_secret(redirect.target):
                return f"{redirect.target.text} may hold secrets"
        return None

    def _words(self, words: Sequence[Word]) -> str | None:
        if not words or not words[0].exact:
            return "its program is not known"
        name, rest = program_name(words[0].text), words[1:]
        if len(rest) == 1 and rest[0].exact and rest[0].text in QUESTIONS.get(name, ()):
            return None
        if inner := inner_words(name, rest):
            names = self.fed and self._knows_names() and not _CUTS.search(" ".join(_texts(rest)))
            return self._words([NAMES if names and word == STDIN else word for word in inner])
        return self._program(name, rest)

    def _program(self, name: str, rest: Sequence[Word]) -> str | None:
        program = PROGRAMS.get(name)
        if program is None:
            return f"{name or 'it'} is not known to be read-only"
        options, words = program.options, rest
        if program.verbs is not None:
            verb = verb_of(program, rest)
            if isinstance(verb, str):
                return f"{verb} is not known to be read-only"
            options, words = program.verbs[verb[0]], verb[1]
        if problem := refusal(options, words):
            return problem
        if name == "find":
            return self._found(rest)
        return self._files(name, rest) if program.reads else None

    def _found(self, rest: Sequence[Word]) -> str | None:
        search = take_apart(rest)
        for inner in search.commands if search else ():
            if problem := self._words(inner):
                return problem
            program = PROGRAMS.get(program_name(inner[0].text))
            reads = program is None or program.reads
            if reads and (self._names_secrets(rest) or any(word.hidden for word in inner)):
                return "it may show secrets"
        return None

    def _files(self, name: str, rest: Sequence[Word]) -> str | None:
        """Whether what is shown may be a secret."""
        words = _without_pattern(name, rest) if name in _TAKE_PATTERNS else rest
        recursive = name in {"rg", "ag"} or any(
            _RECURSIVE.match(word.start) or word.text == "--no-index" for word in rest
        )
        if self.lost:
            return "it is not known where it is"
        if recursive and any(is_whole_home(where) or is_secret(where) for where in self.wheres):
            return "it searches where secrets lie"
        for word in words:
            if word.hidden and not (word.text == "$()" and self._knows_names()):
                return "it is not known which files it shows"
            if self._is_secret(word):
                return f"{word.text} may hold secrets"
            if recursive and self._is_whole_home(word):
                return f"{word.text} holds secrets somewhere"
        return None

    def _knows_names(self) -> bool:
        """Whether what came before prints names of files, and of none with secrets."""
        return self.names_only and not self.secrets_named

    def _names_secrets(self, words: Sequence[Word]) -> bool:
        return any(self._is_secret(word) or self._is_whole_home(word) for word in words)

    def _is_whole_home(self, word: Word) -> bool:
        return any(is_whole_home(word.text, where) for where in self.wheres)

    def _is_secret(self, word: Word) -> bool:
        """Also in the value of an option, joined to it or after an equals sign. gawk takes `/inet` for the network."""
        texts = [word.text]
        if word.text.startswith("-"):
            texts = [word.text[at:] for at in range(2, min(len(word.text), 8))]
            texts.append(word.text.partition("=")[2])
        return any(
            is_secret(text, where) or is_network(text) or text.startswith("/inet")
            for text in texts
            for where in self.wheres
        )


def _texts(words: Sequence[Word]) -> list[str]:
    return [word.text for word in words]


def _takes_names(command: Command) -> bool:
    """Whether a command reads what the one before it prints, and prints nothing itself."""
    whole = not any(value.text for _, value in command.assignments)  # IFS would take names apart
    return whole and _is_fed(command) and command.words[0].text == "read"


def _is_fed(command: Command) -> bool:
    """Whether a command reads from a pipe, and from nothing else."""
    return command.piped and not any(one.operator.startswith("<") for one in command.redirects)


def _prints_names(name: str, rest: Sequence[Word]) -> bool:
    """Whether a command prints nothing but names of files that exist, or fewer of the names it is given."""
    texts = set(_texts(rest))
    if any(_PRINTS_MORE.match(word.start) for word in rest):
        return False
    if name == "ls":  # hidden files are those with secrets
        return not any(re.match(r"-[A-Za-z]*[aA]|--al|--f", word.start) for word in rest)
    if name in {"find", "fd", "fdfind", "cd", "wc"}:
        return True
    if name == "git":
        names_only = "--name-only" in texts and bool({"ls-tree", "diff"} & texts)
        return "ls-files" in texts or names_only
    listing = _NAMES_ONLY if name == "rg" else _GREP_NAMES_ONLY
    if name in {"grep", "egrep", "rg"} and any(listing.fullmatch(word.start) for word in rest):
        return True
    if any(re.match(r"-[A-Za-z]*[oc]|--(on|by)", word.start) for word in rest):
        return False  # parts of names, which may be other names
    filters = name in {"grep", "egrep"} and not any(_RECURSIVE.match(w.start) for w in rest)
    if filters:
        return not operands_of(PROGRAMS[name].options, _without_pattern(name, rest))
    return name in _FILTERS and not operands_of(_FILTERS[name], rest)


def _without_pattern(name: str, words: Sequence[Word]) -> list[Word]:
    """Leave out the first word that is neither an option nor the value of one: it is a pattern, not a file.

    Only where it does not depend on which options take values: in `grep --color KEY .env` the pattern is KEY.
    """
    if any(re.match(r"-[A-Za-z]*[ef]|--(regexp|file|expression)", word.start) for word in words):
        return list(words)
    pattern = next(iter(operands_of(PROGRAMS[name].options, words)), None)
    first = next((word for word in words if not word.start.startswith("-")), None)
    return [word for word in words if word is not pattern or word is not first]


def program_name(text: str) -> str:
    """The name of a program that lies where programs of the system lie; another path stays as it is."""
    found = _BIN.match(text)
    return text[found.end() :] if found else text
