"""Where a line of commands stands, what bash makes of a word there, and where a path leads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import msgspec

from hookline.containment.links import MOST_LINKS, is_below, links_and_target, real_path
from hookline.containment.sandbox.home import dot_entry, is_of_system, mounted_homes
from hookline.containment.shell.secrets import DEVICES, USUAL_HOME
from hookline.containment.shell.words import Word
from hookline.wildcards import matches

MOST_PLACES = 8
_MOST_NAMES = 1_000
_MOST_ENTRIES = 20_000
MAGIC = re.compile(r"[*?\[]")
_BRACKETS = re.compile(r"\[.*\]|\*+", re.DOTALL)
_PLAIN_PATH = re.compile(r"[\w./+@:,=-]+")


class Places(msgspec.Struct):
    """The work directory, and every directory in which a line may stand: a `cd` may fail, or be in a group."""

    root: str
    """The work directory, without links."""
    wheres: list[str]
    """Whole paths."""
    homes: list[str]
    """The homes, also where they are mounted a second time: once for a verdict, because that takes a while."""

    @classmethod
    def at(cls, cwd: str, root: str) -> Places:
        """Begin in a directory, as seen from the work directory. `~` is the name of one: nobody has to expand it."""
        base = real_path(root or os.curdir)
        return cls(base, [real_path(os.path.join(base, cwd))], mounted_homes())

    def move(self, target: str) -> bool:
        """Go to a directory; it may also turn out that bash stays. False if there are too many places by then."""
        home = os.path.expanduser("~")
        for where in list(self.wheres):
            path = os.path.join(where, target or home)
            # Behind a link, `..` is one directory to bash and another to whoever has followed the link.
            self.wheres += [os.path.normpath(path), real_path(path)]
        self.wheres = list(dict.fromkeys(self.wheres))
        return len(self.wheres) <= MOST_PLACES

    def forms(self, text: str, where: str) -> set[str]:
        """A path as `secrets.py` wants it: as it is written, and where it leads."""
        path = os.path.join(where, text)
        plain = re.sub("^//+", "/", os.path.normpath(path))
        if text in DEVICES:  # `/dev/stdin` leads to what this process reads
            return {text}
        return {self.form(plain), self.form(leads_to(path))}

    def form(self, path: str) -> str:
        """A whole path: from the work directory, from a home or from the root.

        What is in a home that is the work directory, or lies in it, is seen from there.
        """
        home = self._home_of(path)
        if is_below(path, self.root) and not (home and is_below(home, self.root)):
            return os.path.relpath(path, self.root)
        if not home:
            return path
        is_own = home == real_path(os.path.expanduser("~"))
        name = "~" if is_own else f"~{os.path.basename(home)}"
        return os.path.join(name, os.path.relpath(path, home)).removesuffix("/.")

    def _home_of(self, path: str) -> str:
        """The innermost home that holds a whole path; empty if none does. Of one like `/` only dot entries count."""
        known = (
            each
            for each in self.homes
            if dot_entry(path, [each]) or (is_below(path, each) and not is_of_system(each))
        )
        usual = USUAL_HOME.match(path)
        return max((*known, usual[0] if usual else ""), key=len)


def leads_to(path: str) -> str:
    """Where a whole path leads, through all links. Those of a process lead elsewhere for every other process."""
    *links, target = links_and_target(path)
    of_process = any(link.startswith("/proc/") and link.count("/") > 2 for link in links)
    return "/proc/self/environ" if of_process or len(links) > MOST_LINKS else target


def expand(word: Word, where: str) -> list[Word] | None:
    """What bash makes of a word in a directory, by the files that are there now. None where that is not known.

    A word that is not exact is the name of a file that a pattern finds. There may be more of these than bash finds,
    never fewer.
    """
    if word.exact:
        return [word]
    text, home = word.text, os.path.expanduser("~")
    if text.startswith("~"):
        if not _PLAIN_PATH.fullmatch(home):
            return None
        text = home + text[1:]
    if not MAGIC.search(text):
        return [Word(text)]
    names = _find(text, where)
    if names is None or len(names) > _MOST_NAMES:
        return None
    if not names and text.startswith("-"):  # it stays as it is: `--include=*.py`
        return [Word(text)]
    # A pattern that finds nothing now may find something by the time it runs. With brackets, what was found may be more
    # than a shell finds.
    is_certain = names and "[" not in text and "".join(names).isascii()
    return [Word(name, exact=False) for name in (names if is_certain else [*names, text])]


def _find(pattern: str, where: str) -> list[str] | None:
    """The files that a pattern may find, as bash would write them. None if there are too many to look at."""
    paths, entries = [""], 0
    parts = pattern.split("/")
    for at, part in enumerate(parts):
        end = "" if at == len(parts) - 1 else "/"
        if not MAGIC.search(part):
            paths = [f"{path}{part}{end}" for path in paths]
            continue
        found: list[str] = []
        for path in paths:
            try:
                names = [".", "..", *os.listdir(os.path.join(where, path))]
            except OSError:
                continue
            entries += len(names)
            if entries > _MOST_ENTRIES:
                return None
            found += [f"{path}{name}{end}" for name in _match_names(names, part)]
        paths = found
    return sorted(path for path in paths if os.path.lexists(os.path.join(where, path)))


def _match_names(names: list[str], pattern: str) -> Iterator[str]:
    """From the first bracket to the last, any text fits: what brackets hold depends on the shell and its language.

    In a name that is not ASCII, any text also fits `?`: one shell counts characters, another one bytes.
    """
    plain = _BRACKETS.sub("*", pattern).replace("[", "[[]")
    wide = plain.replace("?", "*")
    for name in names:
        fits = matches(name, plain if name.isascii() else wide)
        if fits and (name[0] != "." or pattern[0] == "."):
            yield name
