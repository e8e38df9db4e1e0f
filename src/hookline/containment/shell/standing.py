"""What has been seen of a line so far: where it stands, what its words may name, and which names are known."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from hookline.containment.shell.call import Use
from hookline.containment.shell.named import Values
from hookline.containment.shell.open_word import READ
from hookline.containment.shell.paths import is_network, is_place, lies_above, places_of, seen_from
from hookline.containment.shell.reach import GREPS, MAY_BE_UNSET, RECURSIVE, is_variable, spelled
from hookline.containment.shell.secrets import (
    is_secret,
    is_whole_home,
    picks_secret,
    spells_secret,
)
from hookline.containment.shell.tables.find import take_apart
from hookline.containment.shell.tables.wrappers import inner_words
from hookline.containment.shell.variables import Variables
from hookline.containment.shell.words import Word

_BIN = re.compile(r"(?:/usr)?(?:/local)?/s?bin/|/opt/homebrew/bin/")
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
    values: Values = msgspec.field(default_factory=dict)
    """What the variables may be that the line sets itself, of which all is known."""
    variables: Variables = msgspec.field(default_factory=Variables)
    """The same, as far as it is known."""
    depth: int = 0
    """How many shells it is in that were given a script."""
    apart: list[str] = []
    """Where the command itself goes before it looks, as `git -C` does."""
    use: Use | None = None
    """What the command that was looked at last comes to, without wrappers; None if it is a mere question."""

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

    def _stands_below(self, name: str) -> bool:
        places = {place for where in self.wheres for place in places_of(self.root, [where])}
        return any(lies_above(place, name) for place in places)

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


def program_name(text: str) -> str:
    """The name of a program that lies where programs of the system lie; another path stays as it is."""
    found = _BIN.match(text)
    return text[found.end() :] if found else text
