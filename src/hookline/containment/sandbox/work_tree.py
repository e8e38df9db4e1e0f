"""One directory that commands can write: what others run or obey in it, what of that is new, and what may stay.

What was there before a command is read-only for it. What is new afterwards is moved aside, unless it is harmless: a
fresh git repository, or a file that was written through a jail, which asks first. What is there cannot be told from
what somebody else makes at the same time, so a user who saves such a file while a command runs finds it moved aside.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from hookline.containment.protected import is_accepted
from hookline.containment.sandbox.git_identity import files_of_user
from hookline.containment.sandbox.home import homes
from hookline.containment.sandbox.inventory import Inventory, records
from hookline.containment.sandbox.quarantine import (
    IS_ASIDE,
    content_of,
    facts_of,
    make_link,
    move_aside,
    move_to_top,
    names_in,
)
from hookline.containment.sandbox.repositories import (
    Part,
    files_named_by_git,
    files_named_in,
    is_harmless_configuration,
)
from hookline.containment.sandbox.tables import OF_PROJECTS, PROTECTED_AT_HOME
from hookline.containment.sandbox.tree_index import TICK, TreeIndex
from hookline.errors import SandboxError

Identity: TypeAlias = tuple[int, int, int]
"""Device, number and time of the last change. The time is 0 for what commands cannot change, and a user may."""

_LARGEST = 1024 * 1024
_READ_BY_SHELLS = re.compile(r"(?:.*/)?(?:\.envrc(?:\..*)?|hgrc|\.?mise\..*toml|mise/.*\.toml)")
"""Files whose words may be files that run with them."""
_MOST_LINKS = 1000
_PASSES = 64
"""How often a tree is looked at again after something was moved aside: other things may lie in that."""


@dataclass(eq=False)
class Visit:
    """What one command is to leave as it is, and what it made that did not stay."""

    left_out: tuple[str, ...] = ()
    """Names that it may change after all."""
    kept: list[str] = field(default_factory=list)
    """Paths that are there and stay as they are."""
    env_files: list[str] = field(default_factory=list)
    """Environment files, as `.env` and `deploy/prod.env`."""
    closed: list[str] = field(default_factory=list)
    """Directories that cannot be listed, so that nobody knows what is in them."""
    moved: list[str] = field(default_factory=list)
    """The new paths of what was moved aside."""


class WorkTree:
    """Watches over one directory for all commands of this process that can write in it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._index = TreeIndex(root)
        self._lock = threading.RLock()
        self._known: dict[str, Identity] = {}
        """What was there before the commands that run now."""
        self._made: dict[str, tuple[Identity, bool]] = {}
        """What commands made and may stay, and whether a change since would show. They can still change it."""
        self._links: dict[str, str] = {}
        self._named: set[str] = set()
        self._stuck: set[str] = set()
        """What could not be moved aside. It is never taken for the user's."""
        self._visits: list[Visit] = []
        self._inventory: Inventory | None = None

    # --- commands come and go -------------------------------------------------------------------------

    def enter(self, left_out: Iterable[str] = ()) -> Visit:
        """A command is about to start."""
        visit = Visit(tuple(left_out))
        with self._lock:
            if self._visits:
                self.check()
            else:
                visit.moved += self.recover()
                visit.moved += self._learn()
                self._inventory = Inventory.begin(self.root, self._known)
            visit.kept = [path for path in self._known if not _is_below(path, visit.left_out)]
            visit.env_files = self._index.env_files()
            visit.closed = self._index.closed()
            self._visits.append(visit)
        return visit

    def leave(self, visit: Visit) -> None:
        """A command has ended, with all that it started."""
        with self._lock:
            try:
                self.check()
            finally:
                self._visits.remove(visit)
                if not self._visits and self._inventory is not None:
                    self._inventory.end()
                    self._inventory = None

    def check(self) -> None:
        """Move aside what is new and not harmless. Every command that runs now is told of it."""
        with self._lock:
            if not self._visits:
                return
            left_out = [name for visit in self._visits for name in visit.left_out]
            moved = self._judge_all(left_out)
            for path, target in self._links.items():
                moved += self._restore_link(path, target)
            for visit in self._visits:
                visit.moved += moved

    def recover(self) -> list[str]:
        """Move aside what commands of a process left behind that died while they ran."""
        with self._lock:
            moved: list[str] = []
            for record in () if self._visits else records():
                if record.is_alive or record.root != self.root:
                    continue
                self._known, self._named, self._links = record.known, set(), {}
                moved += self._judge_all(())
                record.forget()
            return moved

    def env_files(self) -> list[str]:
        """Environment files, for a command that can write nothing."""
        with self._lock:
            self._index.refresh()
            return self._index.env_files()

    # --- what was there -------------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        """What others run or obey here. In a home that is the work directory, every entry that begins with a dot."""
        found = set(self._index.parts())
        if self.root in homes():
            names = names_in(os.path.dirname(self.root), os.path.basename(self.root)) or []
            held = {name.partition("/")[0] for name in PROTECTED_AT_HOME}
            others = OF_PROJECTS | held
            hidden = [name for name in names if name[:1] == "." and name not in others]
            found |= {Part(name) for name in hidden if not IS_ASIDE.fullmatch(name)}
        return sorted(found)

    def _learn(self) -> list[str]:
        """Take what is there now for what the user has made, but for what commands made and nobody changed since.

        Commands of other processes may run in this directory, above or below it: what is new by their records is
        judged. Gives what was moved aside.
        """
        self._index.refresh()
        self._known, self._links, made = {}, {}, self._made
        self._made = {}
        others = [record for record in self._live_records() if _overlap(record[0], self.root)]
        parts = self._parts()
        self._named = set(self._named_by(parts))
        new = []
        for path in (*(part.path for part in parts), *self._named):
            facts = facts_of(self.root, path)
            if facts is None or self._is_placeholder(path, facts) or path in self._stuck:
                continue
            if path in made and made[path][0] == _identity(facts):
                self._made[path] = made[path]
            elif self._is_new_to(others, path, facts):
                new.append(path)
            elif stat.S_ISLNK(facts.st_mode):
                self._links[path] = os.readlink(f"{self.root}/{path}")
                self._known[path] = _identity(facts)
            else:
                self._known[path] = (facts.st_dev, facts.st_ino, 0)
        return self._judge_all(()) if new else []

    def _live_records(self) -> Iterator[tuple[str, dict[str, Identity]]]:
        yield from ((each.root, each.known) for each in records() if each.is_alive)
        yield from (
            (tree.root, tree._known)
            for tree in list(_trees.values())  # other threads add some
            if tree._visits and tree is not self
        )

    def _is_new_to(
        self, others: list[tuple[str, dict[str, Identity]]], path: str, facts: os.stat_result
    ) -> bool:
        """Whether a part appeared while commands of others ran, by what they wrote down."""
        whole = f"{self.root}/{path}"
        for root, known in others:
            if whole.startswith(f"{root}/"):
                was = known.get(os.path.relpath(whole, root))
                if was not in (_identity(facts), (facts.st_dev, facts.st_ino, 0)):
                    return True
        return False

    def _named_by(self, parts: Iterable[Part]) -> Iterator[str]:
        """What the user's own configuration names inside this directory: files, hooks, filters, targets of links."""
        found = [*self._named_above(), *(each for part in parts for each in self._named_in(part))]
        for path in found:
            for each in {path, os.path.realpath(path)}:
                if each.startswith(f"{self.root}/"):
                    yield os.path.relpath(each, self.root)

    def _refuse_ours(self, path: str) -> str:
        if self.root == path or self.root.startswith(f"{path}/"):
            raise SandboxError(
                f"your configuration of git names the directory '{path}', in which commands write.",
                remedy="Name a directory of its own there, for hooks say.",
            )
        return path

    def _named_above(self) -> Iterator[str]:
        """What the user's own file names, and the repository that this directory is a part of."""
        yield from (
            path
            for path in files_of_user()
            if os.path.isabs(path) and f"{path}/".startswith(f"{self.root}/")
        )
        top = os.path.dirname(self.root)
        while top != "/" and not os.path.isdir(f"{top}/.git"):
            top = os.path.dirname(top)
        text = content_of(top, ".git/config", _LARGEST) if top != "/" else None
        if text:
            inside = files_named_by_git(text, top, f"{top}/.git")
            yield from (path for path in inside if path.startswith(f"{self.root}/"))

    def _named_in(self, part: Part) -> Iterator[str]:
        path = f"{self.root}/{part.path}"
        beside = os.path.dirname(path)
        if part.check == "git-config":
            top = os.path.dirname(beside)
            yield from (
                os.path.join(top, each) for each in files_of_user() if not os.path.isabs(each)
            )
            if text := content_of(self.root, part.path, _LARGEST):
                yield from map(self._refuse_ours, files_named_by_git(text, top, beside))
        elif _READ_BY_SHELLS.fullmatch(part.path):
            text = content_of(self.root, part.path, _LARGEST) or b""
            words, is_hg = text.decode(errors="surrogateescape"), part.path.endswith("hgrc")
            yield from files_named_in(words, beside, os.path.dirname(beside), directories=is_hg)
        elif os.path.isdir(path) and not os.path.islink(path):
            yield from _link_targets(path)

    # --- what is new ----------------------------------------------------------------------------------

    def _judge_all(self, left_out: Iterable[str]) -> list[str]:
        """Judge until nothing more is moved: in what was moved aside, there may be more."""
        moved: list[str] = []
        for _ in range(_PASSES):
            self._index.refresh(open_closed=True)
            found = self._judge(left_out)
            moved += found
            if not found:
                break
        return moved

    def _judge(self, left_out: Iterable[str]) -> list[str]:
        before = {(os.path.basename(path), each) for path, each in self._known.items()}
        moved = []
        for part in sorted({*self._parts(), *map(Part, self._named)}):
            if _is_below(part.path, left_out) or part.path in self._stuck:
                continue
            try:
                is_new = self._is_new(part, before)
            except OSError:  # what cannot be looked at is not taken for harmless
                is_new = True
            if not is_new:
                continue
            move = move_to_top if part.check == "too-deep" else move_aside
            if new := move(self.root, part.path):
                moved.append(new)
            elif os.path.lexists(f"{self.root}/{part.path}"):
                self._stuck.add(part.path)
                moved.append(f"{part.path} (it cannot be moved aside: remove it)")
        return moved

    def _is_new(self, part: Part, before: set[tuple[str, Identity]]) -> bool:
        """Whether a part is there, was not before, and may not stay."""
        facts = facts_of(self.root, part.path)
        if facts is None or self._is_placeholder(part.path, facts):
            return False
        exact, lasting = _identity(facts), (facts.st_dev, facts.st_ino, 0)
        if self._known.get(part.path) in (exact, lasting) or self._made.get(part.path) == (
            exact,
            True,
        ):
            return False
        if (os.path.basename(part.path), lasting) in before:
            return False  # it was moved with a directory that it is in
        if self._may_stay(part, facts):
            self._made[part.path] = (exact, time.time_ns() - facts.st_ctime_ns > TICK)
            return False
        return True

    def _may_stay(self, part: Part, facts: os.stat_result) -> bool:
        if is_accepted(facts):
            return True
        if part.check == "git-config" and stat.S_ISREG(facts.st_mode):
            text = content_of(self.root, part.path, _LARGEST + 1)
            return text is not None and is_harmless_configuration(text)
        if part.check == "git-hooks" and stat.S_ISDIR(facts.st_mode):
            names = names_in(self.root, part.path)
            return names is not None and all(name.endswith(".sample") for name in names)
        return False

    def _restore_link(self, path: str, target: str) -> list[str]:
        """Make a link again that is gone, or move away what is in its place first."""
        now = self._identity(path)
        if now == self._known.get(path):
            return []
        moved = move_aside(self.root, path)
        make_link(self.root, path, target)
        restored = self._identity(path)
        if restored is not None:
            self._known[path] = restored
        return [moved] if moved else []

    def _is_placeholder(self, path: str, facts: os.stat_result) -> bool:
        """Whether it only holds a place, for a command of ours or of another process: nobody obeys a socket."""
        if stat.S_ISSOCK(facts.st_mode):
            return True
        return bool(facts.st_mode & stat.S_ISVTX) and names_in(self.root, path) == []

    def _identity(self, path: str) -> Identity | None:
        facts = facts_of(self.root, path)
        return None if facts is None else _identity(facts)


_trees: dict[str, WorkTree] = {}
_trees_lock = threading.Lock()


def work_tree(root: str) -> WorkTree:
    """The one of this directory: all sandboxes of a process share it."""
    with _trees_lock:
        return _trees.setdefault(root, WorkTree(root))


def _link_targets(directory: str) -> Iterator[str]:
    """What the links in a directory of configuration lead to: who changes that changes what is obeyed."""
    seen = 0
    for place, directories, files in os.walk(directory):
        for name in (*directories, *files):
            seen += 1
            if seen > _MOST_LINKS:
                return
            if os.path.islink(f"{place}/{name}"):
                yield os.path.realpath(f"{place}/{name}")


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _identity(facts: os.stat_result) -> Identity:
    return (facts.st_dev, facts.st_ino, facts.st_ctime_ns)


def _is_below(path: str, names: Iterable[str]) -> bool:
    return any(path == name or path.startswith(f"{name}/") for name in names)
