"""The first pass: proving that a command only looks.

Nothing is assumed: a program that is in no table, an option that is in no table, a word that might turn out to be
an option, each is a reason to ask.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import reduce

import msgspec

from hookline.containment.shell.call import Use, read_call, read_use
from hookline.containment.shell.named import Values, spelled_out, values_of
from hookline.containment.shell.names import prints_names, takes_names
from hookline.containment.shell.open_word import READ
from hookline.containment.shell.paths import is_network, is_place, lies_above, places_of, seen_from
from hookline.containment.shell.reach import (
    GREPS,
    MAY_BE_UNSET,
    RECURSIVE,
    is_variable,
    recurses,
    spelled,
)
from hookline.containment.shell.reading import read_command
from hookline.containment.shell.repository import repository_objection
from hookline.containment.shell.scan_redirects import writes_a_file
from hookline.containment.shell.secrets import (
    is_secret,
    is_whole_home,
    picks_secret,
    spells_secret,
)
from hookline.containment.shell.tables.all import PROGRAMS
from hookline.containment.shell.tables.find import Search, take_apart
from hookline.containment.shell.tables.git import GIT_VERBS
from hookline.containment.shell.tables.questions import is_question
from hookline.containment.shell.tables.wrappers import (
    NAMES,
    SHELLS,
    STDIN,
    assigned_words,
    cuts_lines,
    inner_script,
    inner_words,
)
from hookline.containment.shell.variables import Variables
from hookline.containment.shell.words import Command, Word

_BIN = re.compile(r"(?:/usr)?(?:/local)?/s?bin/|/opt/homebrew/bin/")
_ASSIGNABLE = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|CI|TERM|GIT_TERMINAL_PROMPT|GIT_OPTIONAL_LOCKS"
    r"|DEBUG|VERBOSE|NODE_ENV|PYTHONDONTWRITEBYTECODE|PYTHONUNBUFFERED"
)
_PAGERS = frozenset({"PAGER", "GIT_PAGER", "MANPAGER", "GH_PAGER", "AWS_PAGER", "SYSTEMD_PAGER"})
_PLAIN_PLACES = frozenset({"git rev-parse --show-toplevel", "pwd", "git rev-parse --show-cdup"})
"""Commands that print the name of a directory with nothing secret about it."""
_PLAIN_OUTPUT = re.compile(
    r"""
    git[ ]rev-parse[ ](?:--short[ ])?HEAD(?:[~^][0-9]*)* | git[ ]merge-base(?:[ ][\w./@][\w./@~^-]*){2}
    | date(?:[ ]-u)?[ ]\+%[YmdHMSFTsjy](?:%[YmdHMSFTsjy]|[:_-])* | whoami | id[ ]-un? | uname(?:[ ]-[smr])? | nproc
    | wc[ ]-[clmw](?:[ ]?<[ ]?[\w./-]+)? | docker[ ]ps[ ](?:-q|-aq|-qa)(?:[ ](?:-f|--filter)[ ][\w=.-]+)*
    """,
    re.VERBOSE,
)
"""Commands that print one word that is no option, nor the name of anything secret: a number, a date, a hash."""
_SUBSTITUTION = re.compile(r"\$\(([^()`;&\n]*)\)")
_DEEPEST = 3
_CLOUDS = frozenset({"aws", "gcloud", "az"})
"""Programs by which others learn what is asked for: the owner of a bucket sees each key."""
_ENDLESS = re.compile(r"/dev/(?:zero|full|u?random)")
_COUNTED = frozenset("head od xxd hexdump cmp stat ls file".split())
_PIPS = frozenset({"pip", "pip3"})
_LOOKS_AT_OPEN = frozenset(
    "printf test [ [[ set printenv read date awk gawk mawk nawk sed gsed find grep egrep fgrep rg ag".split()
)
"""Programs whose checks know that a word may be open. The others look at its text."""
_TOLD_EXACTLY = frozenset({"sysctl", "lsof", "fuser", "ss"})
"""Programs to which the name of a file that a pattern finds may be a host, or a setting."""
_MOVES = frozenset({"cd", "pushd"})


class Proof(msgspec.Struct):
    """What has been seen of a line so far: where it stands, and whether file names can have been made up on the way."""

    wheres: list[str] = msgspec.field(default_factory=lambda: [""])
    """Every directory it may stand in: a `cd` may fail, or be in a shell of its own."""
    root: str = ""
    """The work directory, from which they are seen. Empty: that of this process."""
    adrift: bool = False
    """Whether one of them is a pattern, or holds a variable, so that it cannot be looked at."""
    changed: bool = False
    """Whether a command before may have made files and directories."""
    lost: bool = False
    """Whether it may stand somewhere that is not known."""
    outputs: int = 0
    """How many substitutions the command holds."""
    output: str = ""
    """The command that alone prints what the one substitution of the command comes to."""
    fed: bool = False
    """Whether the input of the command is what the one before it prints."""
    last: str = ""
    """The command before."""
    names_only: bool = True
    reads_names: bool = True
    """Whether every variable that is read from an input is a whole name of a file."""
    read_from: int = 0
    """How many places there were when it was read: a name is of no use elsewhere."""
    secrets_named: bool = False
    """Whether a command has named a place with secrets, so that what is found there must not be shown."""
    loops_homes: bool = False
    """Whether a variable may be a whole home."""
    loops_names: bool = False
    """Whether a variable holds names of files that a command has printed."""
    loops_unknown: bool = False
    """Whether a variable may be anything."""
    values: Values = msgspec.field(default_factory=dict)
    """What the variables may be that the line sets itself, where each of their values is a plain word."""
    variables: Variables = msgspec.field(default_factory=Variables)
    depth: int = 0
    """How many shells it is in that were given a script."""
    apart: list[str] = []
    """Where the command itself goes before it looks, as `git -C` does."""
    use: Use | None = None
    """What the command that was looked at last comes to, without wrappers; None if it is a mere question."""

    @classmethod
    def at(cls, where: str, root: str) -> Proof:
        """Begin in a directory, as seen from the work directory."""
        named = bool(where) and (is_whole_home(where) or is_secret(where))
        return cls(wheres=[where], root=root, secrets_named=named)

    def take_up(self, commands: Sequence[Command]) -> None:
        """The line that is to be looked at, for what it gives to its variables."""
        self.values, self.variables = values_of(commands), Variables(commands)

    def again(self) -> Proof:
        """The beginning of the same line when it is come to again, from where it may have led."""
        return Proof(
            wheres=self.wheres,
            root=self.root,
            adrift=self.adrift,
            changed=self.changed,
            lost=self.lost,
            secrets_named=self.secrets_named,
            values=self.values,
            variables=self.variables,
        )

    def objection(self, command: Command) -> str | None:
        """Why a command may do more than look, or None. Later commands are seen from where it leaves the shell."""
        if command.assignments and not command.words:
            return self._named([value for _, value in command.assignments])
        problem = self._surroundings(command)
        if problem or not command.words:
            return problem
        self.fed = _is_fed(command)
        self.outputs = sum(word.text.count("$()") for word in command.words)
        self.output = self._only_output(command)
        for words in spelled_out(command.words[1:], self.values):
            one = (command.words[0], *self._with_output(words))
            self.use, self.apart = None, []
            if problem := self._variants(one) or self._words(one):
                return problem
            self._remember(msgspec.structs.replace(command, words=one))
        self.last = command.text
        return None

    def _with_output(self, words: Sequence[Word]) -> list[Word]:
        """The words with what a command prints replaced by a plain word, if it prints nothing else."""
        plain = _PLAIN_OUTPUT.fullmatch(self.output)
        before = (Word(""), *words)
        return [
            Word("0") if plain and word.text == "$()" and not last.start.startswith("-") else word
            for last, word in zip(before, words, strict=False)
        ]

    def _only_output(self, command: Command) -> str:
        """The command that alone prints what the one substitution of another comes to."""
        found = _SUBSTITUTION.findall(command.text)
        alone = self.outputs == len(found) == 1 and "||" not in found[0]
        return self.last if alone and found[0].strip().endswith(self.last) else ""

    def _variants(self, words: Sequence[Word]) -> str | None:
        """Whether something is to be said against a command with one of the values that its variables may have."""
        variants = self.variables.variants(words[1:])
        if variants is None:
            return "its variables may be too many things"
        targets: list[Word] = []
        for rest in variants:
            if problem := self._words((words[0], *rest)):
                return problem
            if self.use and program_name(words[0].text) in _MOVES:
                targets += self.use.call.operands[-1:]
        if targets:
            self._move(targets)
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
        if name in _MOVES and self.use:
            target = self.use.call.operands[-1:] or (Word("~"),)
            unset = not target[0].single and MAY_BE_UNSET.fullmatch(target[0].text)
            self._move([*target, Word("~")] if unset else target)
        printed = self.use is not None and prints_names(name, self.use)
        self.names_only = self.names_only and (printed or takes_names(command, fed=self.fed))
        self.secrets_named = self.secrets_named or self._names_secrets(name, words[1:])

    def _move(self, targets: Sequence[Word]) -> None:
        for target in targets:
            known = not target.hidden or (target.text == "$()" and self.output in _PLAIN_PLACES)
            strange = target.text == "-" or target.text.startswith("+")
            strange = strange or ("$" in target.text and (self.loops_homes or self.loops_unknown))
            self.lost = self.lost or not known or strange
            self.adrift = self.adrift or not (is_place(target) or target.text == "$()")
        self.loops_unknown = self.loops_unknown or self.loops_names  # they were names elsewhere
        texts = [target.text for target in targets]
        self.wheres += [seen_from(where, text) for where in self.wheres for text in texts]
        self.lost = self.lost or len(self.wheres) > 256
        self.wheres = self.wheres[:256]

    def _surroundings(self, command: Command) -> str | None:
        """What stands around the words: assignments and redirects."""
        for name, value in command.assignments:
            if name == "IFS" and command.words[0] == Word("read"):
                continue
            if not _may_assign(name, value):
                return f"it sets {name}"
        for redirect in command.redirects:
            if writes_a_file(redirect):
                return f"it writes to {redirect.target.text}"
            read = [redirect.target, *self.variables.of(redirect.target)]
            if redirect.operator == "<" and any(map(self._is_secret, read)):
                return f"{redirect.target.text} may hold secrets"
            counted = bool(command.words) and program_name(command.words[0].text) in _COUNTED
            if _ENDLESS.fullmatch(redirect.target.text) and not counted:
                return f"{redirect.target.text} has no end"
        return None

    def _words(self, words: Sequence[Word]) -> str | None:
        if not words or not (
            words[0].exact or words[0].text == "[["
        ):  # no pattern, but a word of bash
            return "its program is not known"
        name, rest = program_name(words[0].text), words[1:]
        if is_question(name, rest):
            return None
        if script := inner_script(name, rest):
            return self._script(script)
        if name == "env":
            given, inner_ = assigned_words(rest)
            if not given and not (inner_ and is_question(program_name(inner_[0].text), inner_[1:])):
                return "it runs another program, and sets nothing for it"
            odd = next((one for one, value in given if not _may_assign(one, value)), None)
            return f"it sets {odd}" if odd else self._words(inner_)
        if inner := inner_words(name, rest):
            names = self.fed and self._knows_names() and not (name == "xargs" and cuts_lines(rest))
            return self._words([NAMES if names and word == STDIN else word for word in inner])
        return self._program(name, rest)

    def _script(self, script: str) -> str | None:
        """What a shell is given to run. It is read like a line of its own, with variables of its own."""
        reading = read_command(script)
        if not reading.known or not reading.commands or self.depth >= _DEEPEST:
            return f"it cannot be said what it runs: {reading.problem or 'too much'}"
        if len(reading.commands) == 1:
            # Nobody needs a shell for it, and so it is what examples of harm look like.
            return "it is one command, which needs no shell around it"
        outer = self.values, self.variables
        self.take_up(reading.commands)
        self.depth += 1
        self.last, self.names_only = "", False
        problem = next(filter(None, map(self.objection, reading.commands)), None)
        (self.values, self.variables), self.depth, self.use = outer, self.depth - 1, None
        return problem

    def _program(self, name: str, rest: Sequence[Word]) -> str | None:
        program = PROGRAMS.get(name)
        if program is None:
            return f"{name or 'it'} is not known to be read-only"
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

    def _stands_below(self, name: str) -> bool:
        places = {place for where in self.wheres for place in places_of(self.root, [where])}
        return any(lies_above(place, name) for place in places)

    def _repository(self, rest: Sequence[Word]) -> str | None:
        """Git obeys the repository that it finds where it stands, or where `-C` says."""
        before = read_call(PROGRAMS["git"].options, rest, to_operand=True)
        options = () if isinstance(before, str) else before.options
        named = [value for _, value in options if value]
        if self.lost or self.adrift or not all(map(is_place, named)):
            return "it is not known in which repository"
        texts = [word.text for word in named]
        self.apart = [reduce(seen_from, texts, where) for where in self.wheres] if texts else []
        places = {place for where in self.wheres for place in places_of(self.root, [where, *texts])}
        if self.changed and not all(map(os.path.isdir, places)):
            return "it is not known what will be there"
        return repository_objection(places, GIT_VERBS)

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
        if use.options.loose and self.loops_unknown and any(map(is_variable, rest)):
            return "a variable may turn out to be an option"
        if name in _PIPS and use.verb == "freeze" and not use.call.has("--exclude-editable"):
            below = self.lost or self.adrift or self._stands_below(".hg")
            return "it starts hg, which runs what .hg/hgrc says" if below else None
        return self._repository(rest) if name in {"git", "gh"} else None

    def _is_unseen(self, word: Word) -> bool:
        return word.hidden or (self.loops_unknown and is_variable(word))

    def _named(self, values: Sequence[Word]) -> str | None:
        """What a variable will be: bash may take it apart at blanks. What is not known matters where it names files."""
        for word in values:
            pieces = [Word(piece) for piece in word.text.split()]
            if any(map(self._is_secret, (word, *pieces))):
                return f"{word.text} may hold secrets"
            self.loops_homes = self.loops_homes or any(map(self._is_whole_home, pieces))
            if word.hidden and not (word.text == "$()" and self._knows_names()):
                self.loops_unknown = True
            self.loops_names = self.loops_names or word.hidden
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
            word = self._from_place(word)
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
        return f"{picked} may pick files with secrets" if picked else None

    def _from_place(self, word: Word) -> Word:
        """A path below what the command before has printed, if that is a place with nothing secret about it."""
        place, _, below = word.text.partition("$()/")
        known = self.output in _PLAIN_PLACES and not place and "$" not in below
        bare = Word(f"/{below}")  # it may print nothing
        known = known and not self._is_secret(bare) and not self._is_whole_home(bare)
        return Word(below, exact=False, prefix="/") if known and below else word

    def _picks(self, name: str, use: Use) -> list[str]:
        """The patterns by which a program itself picks files: to them a star may be a leading dot."""
        patterns = use.call.values(*use.options.picks)
        return patterns + (use.call.texts if name == "git" else [])

    def _may_be_home(self, word: Word) -> bool:
        return self._is_whole_home(word) or (self.loops_homes and "$" in word.text)

    def _is_known_name(self, word: Word) -> bool:
        """Whether a word was printed by what prints names of files, or read from that."""
        if word.text == READ:
            still_there = self.read_from == len(self.wheres)
            return self.reads_names and still_there and not self.secrets_named
        return word.text == "$()" and self._knows_names()

    def _knows_names(self) -> bool:
        """Whether what came before prints names of files, and of none with secrets."""
        return self.names_only and not self.secrets_named

    def _names_secrets(self, name: str, words: Sequence[Word]) -> bool:
        if any(self._is_secret(word) or self._is_whole_home(word) for word in words):
            return True
        if name == "find":
            search = take_apart(words)
            return search is None or (
                any(map(picks_secret, search.picks()))
                or any(map(spells_secret, search.expressions()))
            )
        use = self.use
        patterns = self._picks(name, use) if use else []
        if name in {"fd", "fdfind"} and use:
            patterns += [f"*{text}*" for text in use.call.texts[:1]]
            patterns += [f"*.{text}" for text in use.call.values("-e", "--extension")]
        return any(map(picks_secret, patterns)) or self._filters_secrets(name)

    def _filters_secrets(self, name: str) -> bool:
        """Whether a grep that is given names looks for those of secrets among them."""
        if name not in GREPS or not self.fed or self.use is None:
            return False
        call = self.use.call
        if call.has("-v", "--invert-match") or call.has(*RECURSIVE):
            return False
        return any(map(spells_secret, call.values("-e", "--regexp") or call.texts[:1]))

    def _is_whole_home(self, word: Word) -> bool:
        return any(
            is_whole_home(text, where)
            for text in spelled(word)
            for where in (*self.wheres, *self.apart)
        )

    def _is_secret(self, word: Word) -> bool:
        """Also in the value of an option, joined to it or after an equals sign. gawk takes `/inet` for the network."""
        texts = spelled(word)
        if word.text.startswith("-"):
            texts = [word.text[at:] for at in range(2, min(len(word.text), 8))]
            texts.append(word.text.partition("=")[2])
        return any(
            is_secret(text, where) or is_network(text) or text.startswith("/inet")
            for text in texts
            for where in (*self.wheres, *self.apart)
        )


def _may_assign(name: str, value: Word) -> bool:
    """Whether a variable may be set for one command: it says how things are shown, and names no file."""
    if name in _PAGERS:
        return value.exact and value.text in {"", "cat"}
    plain = value.exact and ("/" not in value.text or (name == "TZ" and _is_zone(value)))
    return plain and _ASSIGNABLE.fullmatch(name) is not None


def _is_zone(value: Word) -> bool:
    """Whether a time zone is named as cities are. A path leads to any file."""
    return re.fullmatch(r"[A-Z][A-Za-z_]+(/[A-Z][A-Za-z_-]+){1,2}", value.text) is not None


def _is_fed(command: Command) -> bool:
    """Whether a command reads from a pipe, and from nothing else."""
    return command.piped and not any(one.operator.startswith("<") for one in command.redirects)


def program_name(text: str) -> str:
    """The name of a program that lies where programs of the system lie; another path stays as it is."""
    found = _BIN.match(text)
    return text[found.end() :] if found else text
