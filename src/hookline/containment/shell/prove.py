"""The first pass: proving that a command only looks.

Nothing is assumed: a program that is in no table, an option that is in no table, a word that might turn out to be
an option, each is a reason to ask.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import reduce
from itertools import chain

import msgspec

from hookline.containment.shell.call import Use, read_call, read_use
from hookline.containment.shell.names import prints_names, takes_names
from hookline.containment.shell.outputs import is_plain_output, may_assign
from hookline.containment.shell.paths import is_place, names_in, places_of, seen_from
from hookline.containment.shell.reach import (
    is_variable,
    recurses,
)
from hookline.containment.shell.reading import read_command
from hookline.containment.shell.repository import repository_objection
from hookline.containment.shell.scan_redirects import writes_a_file
from hookline.containment.shell.secrets import (
    is_secret,
    is_whole_home,
    picks_secret,
)
from hookline.containment.shell.standing import MOVES, Standing, program_name
from hookline.containment.shell.tables.all import PROGRAMS
from hookline.containment.shell.tables.find import Search, take_apart
from hookline.containment.shell.tables.git import GIT_VERBS
from hookline.containment.shell.tables.modules import MODULE, with_module
from hookline.containment.shell.tables.questions import is_question
from hookline.containment.shell.tables.wrappers import (
    NAMES,
    SHELLS,
    STDIN,
    assigned_words,
    cuts_lines,
    inner_script,
    inner_words,
    listed_in,
)
from hookline.containment.shell.variables import Variables
from hookline.containment.shell.words import Command, Word, pieces_of

_DEEPEST = 3
_CLOUDS = frozenset({"aws", "gcloud", "az", "gsutil", "bq", "heroku", "fly", "flyctl", "glab"})
"""Programs by which others learn what is asked for: the owner of a bucket sees each key."""
_ENDLESS = re.compile(r"/dev/(?:zero|full|u?random)")
_COUNTED = frozenset("head od xxd hexdump cmp stat ls file".split())
_RUN_GIT = frozenset({"git", "gh", "glab", "heroku", "cloc"})
"""Cloc takes a name that is no file for a commit, and has git unpack it."""
_IN_GIT = re.compile(r"(?:^|/)\.git(?:/|$)")
_PIPS = frozenset({"pip", "pip3", MODULE})
_FREEZES = frozenset({"freeze", "pip freeze", "pip3 freeze"})
_LOOKS_AT_OPEN = frozenset(
    "printf test [ [[ set printenv read date awk gawk mawk nawk sed gsed find grep egrep fgrep rg ag".split()
)
"""Programs whose checks know that a word may be open. The others look at its text."""
_TOLD_EXACTLY = frozenset({"sysctl", "lsof", "fuser", "ss"})
"""Programs to which the name of a file that a pattern finds may be a host, or a setting."""


class Proof(Standing):
    """Looks at the commands of a line, one after the other."""

    @classmethod
    def at(cls, where: str, root: str) -> Proof:
        """Begin in a directory, as seen from the work directory."""
        named = bool(where) and (is_whole_home(where) or is_secret(where))
        return cls(wheres=[where], root=root, secrets_named=named)

    def take_up(self, commands: Sequence[Command]) -> None:
        """The line that is to be looked at, for what it gives to its variables."""
        self.variables = Variables(commands)

    def again(self) -> Proof:
        """The beginning of the same line when it is come to again, from where it may have led."""
        return Proof(
            wheres=self.wheres,
            root=self.root,
            adrift=self.adrift,
            changed=self.changed,
            lost=self.lost,
            secrets_named=self.secrets_named,
            reads_names=self.reads_names,
            loops_homes=self.loops_homes,
            loops_names=self.loops_names,
            loops_unknown=self.loops_unknown or (self.loops_names and len(self.wheres) > 1),
            variables=self.variables,
            depth=self.depth,
            handed=self.handed,
        )

    def objection(self, command: Command) -> str | None:
        """Why a command may do more than look, or None. Later commands are seen from where it leaves the shell."""
        if command.assignments and not command.words:
            return self._named([value for _, value in command.assignments])
        problem = self._surroundings(command)
        if problem or not command.words:
            return problem
        self.fed = _is_fed(command)
        targets: list[Word] = []
        ways = self.variables.ways(command.words[1:])
        if ways is None:
            return "its variables may be too many things"
        self.moves = any(word.text in MOVES for word in command.words)
        name = program_name(command.words[0].text)
        for words in chain(*(self._with_output(name, one) for one in ways)):
            one = (command.words[0], *words)
            self.use, self.apart = None, []
            if problem := self._words(one):
                return problem
            targets += self._targets(one)
            self._remember(msgspec.structs.replace(command, words=one))
        if targets:
            self._move(targets, again=command.again)
        return None

    def follow(self, command: Command) -> None:
        """Note what a command that a rule allows leaves behind, whatever there is to say against it."""
        if self.objection(command) and program_name(command.words[0].text) in {
            "cd",
            "pushd",
            "popd",
        }:
            self.lost = True
        self.names_only, self.changed = False, True

    def _remember(self, command: Command) -> None:
        words = command.words
        while words[0].text in {"builtin", "command"}:  # `builtin cd` moves as `cd` does
            words = inner_words(words[0].text, words[1:]) or (Word(""),)
        name = program_name(words[0].text)
        if name == "read":
            self.loops_unknown = True  # of a variable that was known, too
            known = takes_names(command, fed=self.fed) and self._knows_names()
            self.reads_names, self.read_from = self.reads_names and known, len(self.wheres)
        printed = self.use is not None and prints_names(name, self.use, fed=self.fed)
        self.names_only = self.names_only and (printed or takes_names(command, fed=self.fed))
        self.secrets_named = self.secrets_named or self._names_secrets(name, words[1:])

    def _surroundings(self, command: Command) -> str | None:
        """What stands around the words: assignments and redirects."""
        for name, value in command.assignments:
            if name == "IFS" and command.words[0] == Word("read"):
                continue
            if not may_assign(name, value):
                return f"it sets {name}"
        self.given = {name for name, _ in command.assignments}
        for redirect in command.redirects:
            if writes_a_file(redirect):
                return f"it writes to {redirect.target.text}"
            counted = bool(command.words) and program_name(command.words[0].text) in _COUNTED
            if redirect.operator == "<" and (
                problem := self._read_from(redirect.target, counted=counted)
            ):
                return problem
        return None

    def _read_from(self, target: Word, *, counted: bool) -> str | None:
        """Whether a file that a command is given to read may be a secret, or has no end."""
        ways = self.variables.ways([target])
        if ways is None or (self.lost and not target.start.startswith("/")):
            return "it is not known what it reads"
        words = list(chain(*ways))
        for word in words:
            unseen = word.hidden or (self.loops_unknown and not word.exact and "$" in word.text)
            if unseen and not self._is_known_name(word):
                return "it is not known what it reads"
            if self._is_secret(word):
                return f"{word.text} may hold secrets"
            if _ENDLESS.fullmatch(word.text) and not counted:
                return f"{word.text} has no end"
        return self._settings_of_git([word.text for word in words])

    def _words(self, words: Sequence[Word]) -> str | None:
        if not words or not (
            words[0].exact or words[0].text == "[["
        ):  # no pattern, but a word of bash
            return "its program is not known"
        name, rest = program_name(words[0].text), words[1:]
        if is_question(name, rest):
            return self._obeys(name, rest)
        name, rest = with_module(name, rest)
        if script := inner_script(name, rest):
            return self._script(script)
        if name == "env":
            given, inner_ = assigned_words(rest)
            if not inner_:
                return "the environment often holds secrets"
            odd = next((one for one, value in given if not may_assign(one, value)), None)
            self.given |= {one for one, _ in given}
            return f"it sets {odd}" if odd else self._words(inner_)
        if inner := inner_words(name, rest):
            listed = listed_in(rest) if name == "xargs" else []
            if secret := next(filter(self._is_secret, listed), None):
                return f"{secret.text} may hold secrets"
            names = (
                not listed
                and self.fed
                and self._knows_names()
                and not (name == "xargs" and cuts_lines(rest))
            )
            return self._words([NAMES if names and word == STDIN else word for word in inner])
        return self._program(name, rest)

    def _script(self, script: str) -> str | None:
        """What a shell is given to run. It is read like a line of its own, with variables of its own."""
        reading = read_command(script)
        if not reading.known or not reading.commands or self.depth >= _DEEPEST:
            return f"it cannot be said what it runs: {reading.problem or 'too much'}"
        if used := next(
            (name for name in sorted(self.handed | self.given) if name in script), None
        ):
            return f"{used} is set for it, and may be anything there"
        outer, handed, given = self.variables, self.handed, self.given
        self.handed = handed | given
        self.take_up(reading.commands)
        self.depth += 1
        self.names_only = True  # what it is fed itself, no command in it is known to be fed
        problem = self._first_objection(reading.commands)
        self.variables, self.handed, self.given = outer, handed, given
        self.names_only = False
        self.depth, self.use = self.depth - 1, None
        return problem

    def _first_objection(self, commands: Sequence[Command]) -> str | None:
        """What is to be said against some commands. Where there is a loop, they are looked at a second time."""
        problem = next(filter(None, map(self.objection, commands)), None)
        if problem or not any(command.again for command in commands):
            return problem
        return next(filter(None, map(self.again().objection, commands)), None)

    def _program(self, name: str, rest: Sequence[Word]) -> str | None:
        program = PROGRAMS.get(name)
        if program is None:
            return f"{name or 'it'} is not known to be read-only"
        rest = self._settled(name, rest)
        use = read_use(program, rest)
        if isinstance(use, str):
            return use
        self.use = use
        if problem := self._circumstances(name, use, rest):
            return problem
        if name == "find":
            return self._found(take_apart(rest), rest)
        if name == "for":
            return self._named(use.call.operands)
        if program.reads and use.options.shows:
            return self._files(name, use)
        read = [
            value for option, value in use.call.options if option in use.options.takes and value
        ]
        secret = next(filter(self._is_secret, read), None)
        return f"{secret.text} may hold secrets" if secret else None

    def _repository(self, use: Use, rest: Sequence[Word]) -> str | None:
        """Git obeys the repository that it finds where it stands, or where `-C` says."""
        before = read_call(PROGRAMS["git"].options, rest, to_operand=True)
        options = () if isinstance(before, str) else before.options
        named = [value for name, value in options if value and name == "-C"]
        if self.lost or self.adrift or not all(map(is_place, named)):
            return "it is not known in which repository"
        texts = [word.text for word in named]
        self.apart = [reduce(seen_from, texts, where) for where in self.wheres] if texts else []
        places = {place for where in self.wheres for place in places_of(self.root, [where, *texts])}
        if self.changed and not all(map(os.path.isdir, places)):
            return "it is not known what will be there"
        shows = use.verb.partition(" ")[0] in {"config", "remote"}
        return repository_objection(places, GIT_VERBS, shows_settings=shows)

    def _found_far(self, words: Sequence[Word]) -> str | None:
        """A name with a colon that a pattern may find here: tar takes what stands before it for a host."""
        if all(word.exact or "/" in word.start for word in words):
            return None
        if self.lost or self.adrift:
            return "*"
        places = {place for where in self.wheres for place in places_of(self.root, [where])}
        return next((name for name in names_in(places) if ":" in name), None)

    def _circumstances(self, name: str, use: Use, rest: Sequence[Word]) -> str | None:
        """What is to be said against a harmless use where it stands, and with what it is given."""
        if name in _CLOUDS and any(map(self._is_unseen, rest)):
            return "it may send what a command prints"
        given = [value for _, value in use.call.options if value]
        given += () if name == "git" else use.call.operands
        if use.options.check and name not in _LOOKS_AT_OPEN and any(map(self._is_unseen, given)):
            return "it is not known what it is given"
        if name in _TOLD_EXACTLY and any(
            not word.exact and "/" not in word.start for word in given
        ):
            return "it is not known what it is given"
        unknown = self.loops_unknown and not self._knows_names()
        if use.options.loose and unknown and any(map(is_variable, rest)):
            return "a variable may turn out to be an option"
        if name == "tar" and (far := self._found_far(use.files)):
            return f"{far!r} may lie on another machine"
        if (name in _PIPS and use.verb in _FREEZES) or name == "pipdeptree":
            below = self.lost or self.adrift or self._stands_below(".hg")
            return (
                "it starts hg, which runs what .hg/hgrc says" if below else self._obeys(name, rest)
            )
        if problem := self._obeys(name, rest):
            return problem
        return self._repository(use, rest) if name in _RUN_GIT else None

    def _named(self, values: Sequence[Word]) -> str | None:
        """What a variable will be: bash may take it apart at blanks. What is not known matters where it names files."""
        for word in values:
            pieces = [Word(piece) for piece in pieces_of(word.text)]
            if any(map(self._is_secret, (word, *pieces))):
                return f"{word.text} may hold secrets"
            self.loops_homes = self.loops_homes or any(map(self._is_whole_home, pieces))
            hidden = word.hidden and not (word.text == "$()" and is_plain_output(word.output))
            if hidden and not (word.text == "$()" and self._knows_names()):
                self.loops_unknown = True
            self.loops_names = self.loops_names or hidden
        return None

    def _found(self, search: Search | None, rest: Sequence[Word]) -> str | None:
        use, adrift = self.use, self.adrift
        self.adrift = adrift or Word("-execdir") in rest
        for inner in search.commands if search else ():
            if program_name(inner[0].text) in SHELLS:
                return "it runs a shell on what it finds"
            if problem := self._words(inner):
                return problem
            program = PROGRAMS.get(program_name(inner[0].text))
            reads = program is None or program.reads
            if reads and (self._names_secrets("find", rest) or any(word.hidden for word in inner)):
                return "it may show secrets"
        self.use, self.adrift = use, adrift
        return None

    def _files(self, name: str, use: Use) -> str | None:
        """Whether what is shown may be a secret."""
        recursive = name in {"rg", "ag"} or recurses(name, use)
        if self.lost:
            return "it is not known where it is"
        if recursive and any(is_whole_home(where) or is_secret(where) for where in self.wheres):
            return "it searches where secrets lie"
        for word in use.files:
            hidden = word.hidden or (self.loops_unknown and not word.exact and "$" in word.text)
            if hidden and not self._is_known_name(word):
                return "it is not known which files it shows"
            if self._is_secret(word):
                return f"{word.text} may hold secrets"
            if _ENDLESS.fullmatch(word.text) and name not in _COUNTED:
                return f"{word.text} has no end"
            if recursive and self._may_be_home(word):
                return f"{word.text} holds secrets somewhere"
        picked = next(filter(picks_secret, self._picks(name, use)), None)
        if picked:
            return f"{picked} may pick files with secrets"
        return self._settings_of_git([word.text for word in use.files])

    def _settings_of_git(self, texts: Sequence[str]) -> str | None:
        """What is shown of a repository's own directory holds the secrets that its settings hold."""
        if not any(map(_IN_GIT.search, (*texts, *self.wheres))):
            return None
        steps = (
            [where, *step] for where in self.wheres for step in ([], *([text] for text in texts))
        )
        places = {place for each in steps for place in places_of(self.root, each)}
        return repository_objection(places, GIT_VERBS, shows_settings=True)


def _is_fed(command: Command) -> bool:
    """Whether a command reads from a pipe, and from nothing else."""
    return command.piped and not any(one.operator.startswith("<") for one in command.redirects)
