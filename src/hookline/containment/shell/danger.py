"""What is denied in a line, and which environment files it names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from hookline.containment.links import is_below, real_path
from hookline.containment.shell.denylist import (
    find_denied,
    guess_name,
    is_device,
    is_network,
    is_protected,
)
from hookline.containment.shell.places import MAGIC, Places, expand
from hookline.containment.shell.programs import PICKING, roots_of
from hookline.containment.shell.removal import (
    REMOVAL,
    Location,
    find_removal_of_all,
    find_vital,
)
from hookline.containment.shell.words import Word
from hookline.secret_tables import is_env_file
from hookline.shell_text import UNREAD, PipelineStage, TooDeep
from hookline.shell_text.command_search import (
    MAX_LENGTH,
    CommandSearch,
    TooManyShells,
    TooMuch,
)
from hookline.shell_text.runners import code_words, is_source, name_of

_LONGEST = 1_000
_JOINTS = re.compile(r"[=:,@]")
_UNREAD = "it runs what comes from the network or has been decoded"
_LIST_OPTION = re.compile(r"-[1Ad]+")
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})


class _DenialFound(Exception):
    """Something that is denied was found: why, and where."""


class Danger(CommandSearch):
    """Judges each command where it would run. What is not known counts as nothing: `r$()m` is taken for `rm`."""

    def __init__(self, location: Location) -> None:
        super().__init__(variables={}, unknown="")
        self.visited = [location]
        """Where the text has been: a `cd` may fail, or be in a group."""
        self.problem = ""
        """Why it is denied."""
        self.part = ""
        """The part of the text that is."""
        self.removal = ""
        """Why it is asked about in a sandbox too."""
        self.env_files: dict[str, None] = {}
        """The environment files that a word names."""
        self.complete = True
        """Whether all of it was looked at. If not, it must not be allowed."""
        self._seen: set[tuple[str, str]] = set()
        """Words that were looked at for environment files, each with where."""

    @property
    def location(self) -> Location:
        """Where the text stands."""
        return self.visited[-1]

    def command(self, words: list[str], text: str, inner: Sequence[list[str]]) -> None:
        self._note_env_files(words)
        super().command(words, text, inner)

    def examine(self, argv: list[str], text: str) -> None:
        named = [guess_name(name_of(argv)), *argv[1:]]
        if reason := find_denied(named, self.location):
            raise _DenialFound(reason, text)
        if vital := find_vital(named, self.location):
            raise _DenialFound(f"it removes {vital}", text)
        self.removal = self.removal or find_removal_of_all(named, self.visited)
        given = [argv[0], *code_words(argv)]
        if any(UNREAD in word or self.is_file_unread(word) for word in given):
            self.runs_unread(text)
        if name_of(argv) in {"cd", "pushd"}:
            target = next((word for word in argv[1:] if word and not word.startswith("-")), "~")
            self.visited.append(Location(self.location.root, self.location.path(target)))

    def runs_unread(self, text: str) -> None:
        raise _DenialFound(_UNREAD, text)

    def find_printed(self, argv: Sequence[str]) -> list[str]:
        """Also all that is in the directories that a command lists: `ls | xargs rm`."""
        name, words = name_of(argv), [word for word in argv[1:] if not _LIST_OPTION.fullmatch(word)]
        if name == "ls" or (name == "find" and PICKING.isdisjoint(words)):
            return [os.path.join(root, "*") for root in roots_of(words) or ["."]]
        return super().find_printed(argv)

    def stage(self, stage: PipelineStage) -> None:
        """Look at the files that are written, too."""
        written = [target for operator, target in stage.redirects if operator in _WRITING]
        for _, target in stage.redirects:
            self._note_env_files([target])
            if is_network(target):
                raise _DenialFound("it opens a connection through /dev/tcp", stage.text)
        for target in filter(None, written):
            if is_protected(target, self.location) or is_device(target, self.location):
                raise _DenialFound(f"it writes to {target}", stage.text)
        if written and any(map(is_source, self.argvs(stage))):
            self.note_files(written)
        super().stage(stage)

    def function(self, name: str, body: PipelineStage) -> None:
        """Look for a function that calls itself more than once."""
        calls = any(words[0] == name for words in body.commands)
        if calls and body.joints & {"&", "|"}:
            raise _DenialFound("it starts copies of itself without end", body.text)

    def _note_env_files(self, words: Iterable[str]) -> None:
        where, root = self.location.where, self.location.root
        for word in words:
            if (word, where) not in self._seen:
                self._seen.add((word, where))
                self.env_files |= dict.fromkeys(_env_files_in(word, where, root))


def find_danger(text: str, places: Places) -> Danger:
    """Look through every command of a text; if it is too long, of its beginning: it is asked about anyway."""
    text = text[:MAX_LENGTH]
    danger = Danger(Location(places.root, places.wheres[0]))
    try:
        danger.script(text)
    except _DenialFound as denied:
        danger.problem, danger.part = denied.args
    except TooManyShells as nested:
        danger.problem, danger.part = "it is nested too deeply to be read", str(nested)
    except (TooMuch, TooDeep):
        danger.complete = False
        if REMOVAL.search(text):
            danger.removal = danger.removal or "it is not known what it removes"
    return danger


def _env_files_in(word: str, where: str, root: str) -> Iterator[str]:
    """The whole paths of existing environment files below the work directory that a word names, or leads to.

    A name may be joined to an option or to other names: `--env-file=.env`, `-f.env`, `./.env:/x`, `@.env`.
    """
    if len(word) > _LONGEST or "\0" in word:
        return
    pieces = {word, *_JOINTS.split(word), *([word[2:]] if word.startswith("-") else ())}
    for piece in pieces - {""}:
        texts = [piece]
        if MAGIC.search(piece):
            texts = [one.text for one in expand(Word(piece, exact=False), where) or ()]
        for text in texts:
            path = os.path.normpath(os.path.join(where, os.path.expanduser(text)))
            if is_env_file(os.path.basename(path)) or os.path.islink(path):
                real = real_path(path)
                for each in {path, real}:
                    is_one = is_below(each, root) and is_env_file(os.path.basename(each))
                    if is_one and os.path.exists(each) and not os.path.isdir(each):
                        yield each
