"""What has been seen of a line so far: where it stands, what its words may name, and which names are known."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import islice

import msgspec

from hookline.containment.shell.call import Use
from hookline.containment.shell.open_word import READ
from hookline.containment.shell.options import Options
from hookline.containment.shell.outputs import (
    PLACES,
    is_plain_output,
    may_print_several,
    program_sought,
)
from hookline.containment.shell.paths import (
    is_network,
    is_place,
    lies_above,
    names_in,
    places_of,
    seen_from,
    trees_above,
)
from hookline.containment.shell.project import project_objection
from hookline.containment.shell.reach import GREPS, MAY_BE_UNSET, RECURSIVE, is_variable, spelled
from hookline.containment.shell.secrets import (
    is_secret,
    is_whole_home,
    picks_secret,
    spells_secret,
)
from hookline.containment.shell.tables.all import PROGRAMS
from hookline.containment.shell.tables.find import take_apart
from hookline.containment.shell.tables.modules import MODULE, shadow_objection
from hookline.containment.shell.tables.obeyed import OWN, obeyed_by
from hookline.containment.shell.tables.wrappers import inner_words
from hookline.containment.shell.variables import Variables
from hookline.containment.shell.words import Word

_BIN = re.compile(r"(?:/usr)?(?:/local)?/s?bin/|/opt/homebrew/bin/")
_MOST_PLACES = 8
_NUMBER = "0"
_SEVERAL = 3
"""More words than any program may be given that counts them."""
_NO_PAGER = Word("--no-pager")
_MOST_NAMES = 2_000
_TAKE_FILES = frozenset("awk gawk mawk nawk file find git gsed sed sort tar".split())
"""Programs with options that do harm, to which a word that is none is a file and nothing else."""
_ANY_NAME = re.compile(r"[*?\[][\w.*?\[\]!^/-]*")
_PLAIN_NAME = re.compile(r"[\w.][\w .+~-]*")
_PLAIN_PATH = re.compile(r"[\w./+@:,=-]+")
MOVES = frozenset({"cd", "pushd"})


class Standing(msgspec.Struct):
    """Where a line stands, and whether file names can have been made up on the way."""

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
    moves: bool = False
    """Whether the command goes to another directory, or names a command that does."""
    fed: bool = False
    """Whether the input of the command is what the one before it prints."""
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
    variables: Variables = msgspec.field(default_factory=Variables)
    """What the variables may be that the line sets itself."""
    depth: int = 0
    """How many shells it is in that were given a script."""
    given: set[str] = msgspec.field(default_factory=set)
    """What is set for the command alone."""
    handed: set[str] = msgspec.field(default_factory=set)
    """What was set for the shells it is in: there, no variable of that name is what it usually is."""
    apart: list[str] = []
    """Where the command itself goes before it looks, as `git -C` does."""
    use: Use | None = None
    """What the command that was looked at last comes to, without wrappers; None if it is a mere question."""

    def _with_output(self, name: str, words: Sequence[Word]) -> list[Sequence[Word]]:
        """The words with what a command prints put in, once for each thing it may print. It may also print nothing."""
        places = [at for at, word in enumerate(words) if word.output]
        if len(places) != 1:
            return [words]
        at = places[0]
        word, before, after = words[at], words[:at], words[at + 1 :]
        below = word.text.removeprefix("$()")
        if "$" in below or (below and not (word.whole and below.startswith("/"))):
            return [words]
        alone = not below and not self.moves and (not at or _leaves_alone(name, before))
        printed = self._printed(word.output, alone=alone)
        nothing = [Word(below)] if word.whole else []
        spelled = [(*before, Word(text + below), *after) for text in printed]
        if spelled and not word.whole and may_print_several(word.output):
            spelled.append((*before, *[Word(_NUMBER)] * _SEVERAL, *after))
        return [*spelled, (*before, *nothing, *after)] if spelled else [words]

    def _printed(self, output: str, *, alone: bool) -> list[str]:
        """What a command prints, if that is a place, or a plain word that stands alone, and for nothing but itself."""
        if name := program_sought(output):
            return [f"/bin/{name}"] if alone else []
        if output not in PLACES:
            return [_NUMBER] if alone and is_plain_output(output) else []
        if self.lost or self.adrift or len(self.wheres) > _MOST_PLACES:
            return []
        if output == "pwd":
            return [where or "." for where in self.wheres]
        return trees_above(
            place for where in self.wheres for place in places_of(self.root, [where])
        )

    def _targets(self, words: Sequence[Word]) -> list[Word]:
        """Where a command goes, if it goes anywhere."""
        while words[0].text in {"builtin", "command"}:  # `builtin cd` moves as `cd` does
            words = inner_words(words[0].text, words[1:]) or (Word(""),)
        if program_name(words[0].text) not in MOVES or not self.use:
            return []
        target = self.use.call.operands[-1:] or (Word("~", exact=False, prefix="/"),)
        unset = not target[0].single and MAY_BE_UNSET.fullmatch(target[0].text)
        return [*target, Word("~", exact=False, prefix="/")] if unset else [*target]

    def _move(self, targets: Sequence[Word], *, again: bool) -> None:
        """Go to each of some places. `again`: in a loop, in which a relative one leads further with each round."""
        for target in targets:
            strange = target.text == "-" or target.text.startswith(("+", "$OLDPWD"))
            strange = strange or (again and not target.text.startswith(("/", "~")))
            strange = strange or ("$" in target.text and (self.loops_homes or self.loops_unknown))
            self.lost = self.lost or target.hidden or strange
            self.adrift = self.adrift or not is_place(target)
        self.loops_unknown = self.loops_unknown or self.loops_names  # they were names elsewhere
        texts = [target.text for target in targets]
        self.wheres += [seen_from(where, text) for where in self.wheres for text in texts]
        self.lost = self.lost or len(self.wheres) > 256
        self.wheres = self.wheres[:256]

    def _settled(self, name: str, words: Sequence[Word]) -> list[Word]:
        """The words of a program, with what is known of those that begin with a file or a directory of this place."""
        if self.lost or self.adrift or self.changed:
            return list(words)
        if name in _TAKE_FILES and any(map(_may_be_any_name, words)) and self._has_plain_names():
            words = [_here(word) if _may_be_any_name(word) else word for word in words]
        if any(map(_is_directory_itself, words)) and self._is_plainly_named():
            words = [
                msgspec.structs.replace(word, prefix="/", whole=True)
                if _is_directory_itself(word)
                else word
                for word in words
            ]
        return list(words)

    def _has_plain_names(self) -> bool:
        """Whether no file here is called like an option, an address, or anything else that is more than a name."""
        places = {place for where in self.wheres for place in places_of(self.root, [where])}
        names = list(islice(names_in(places), _MOST_NAMES))
        return len(names) < _MOST_NAMES and all(map(_PLAIN_NAME.fullmatch, names))

    def _is_plainly_named(self) -> bool:
        """Whether the way here has nothing in it at which bash would take it apart."""
        places = {place for where in self.wheres for place in places_of(self.root, [where])}
        return all(_PLAIN_PATH.fullmatch(os.path.abspath(place)) for place in places)

    def _stands_below(self, name: str) -> bool:
        places = {place for where in self.wheres for place in places_of(self.root, [where])}
        return any(lies_above(place, name) for place in places)

    def _obeys(self, name: str, words: Sequence[Word]) -> str | None:
        """What of the project it stands in may make a program do more than it is asked."""
        obeyed = obeyed_by(name, words)
        if obeyed is None and name != MODULE:
            return None
        if self.lost or self.adrift or self.changed:
            return "it is not known which files it will obey"
        places = {place for where in self.wheres for place in places_of(self.root, [where])}
        if obeyed is None:
            return shadow_objection(places, words)
        return project_objection(places, obeyed, OWN)

    def _is_unseen(self, word: Word) -> bool:
        return word.hidden or (self.loops_unknown and is_variable(word))

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


def _may_be_any_name(word: Word) -> bool:
    """Whether a word is a pattern of files of this place, of which nothing says how they begin."""
    return (
        not (word.exact or word.hidden or word.start) and _ANY_NAME.fullmatch(word.text) is not None
    )


def _here(word: Word) -> Word:
    return msgspec.structs.replace(word, prefix="./")


def _is_directory_itself(word: Word) -> bool:
    """Whether a word is `$PWD`, or begins with it, without quotes."""
    opened = not (word.exact or word.hidden or word.whole or word.prefix)
    return opened and re.fullmatch(r"\.(?:/[\w./-]*)?", word.text) is not None


def _leaves_alone(name: str, before: Sequence[Word]) -> bool:
    """Whether the word before another is no option, or one to which the other is a text at most, never a place."""
    last = before[-1]
    if not last.start.startswith("-"):
        return True
    program = PROGRAMS.get(name)
    options = program.options if program else None
    if program and program.verbs is not None:
        verb = program.verbs.get(next((word.text for word in before if word != _NO_PAGER), ""))
        options = verb if isinstance(verb, Options) else None
    if options is None or not last.exact:
        return False
    option, equals, _ = last.text.partition("=")
    counts = re.fullmatch("-[0-9]+", option) is not None and "-#" in options.flags
    alone = option in options.flags | options.texts | options.maybe or counts
    return alone or (bool(equals) and options.knows(option))


def program_name(text: str) -> str:
    """The name of a program that lies where programs of the system lie; another path stays as it is."""
    found = _BIN.match(text)
    return text[found.end() :] if found else text
