"""One directory that commands can write: what others run or obey in it, what of that is new, and what may stay.

What was there before a command is read-only for it. What is new afterwards is moved aside, unless it is harmless: a
fresh git repository, or a file that was written through a jail, which asks first. What is there cannot be told from
what somebody else makes at the same time, so a user who saves such a file while a command runs finds it moved aside.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from hookline.containment.protected import is_accepted
from hookline.containment.sandbox.git_identity import hooks_of_user
from hookline.containment.sandbox.inventory import Inventory, left_behind
from hookline.containment.sandbox.quarantine import (
    content_of,
    facts_of,
    make_link,
    move_aside,
    names_in,
)
from hookline.containment.sandbox.repositories import (
    Part,
    files_named_by_git,
    files_named_in,
    is_harmless_configuration,
)
from hookline.containment.sandbox.tree_index import TICK, TreeIndex
from hookline.errors import SandboxError

Identity: TypeAlias = tuple[int, int, int]
"""Device, number and time of the last change. The time is 0 for what commands cannot change, and a user may."""

_LARGEST = 1024 * 1024
_READ_BY_SHELLS = (".envrc", "mise.toml", ".mise.toml", "hgrc")
"""Files whose words may be files that run with them."""


@dataclass(eq=False)
class Visit:
    """What one command is to leave as it is, and what it made that did not stay."""

    left_out: tuple[str, ...] = ()
    """Names that it may change after all."""
    kept: list[str] = field(default_factory=list)
    """Paths that are there and stay as they are."""
    env_files: list[str] = field(default_factory=list)
    """Environment files, as `.env` and `deploy/prod.env`."""
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
                self._learn()
                self._inventory = Inventory.begin(self.root, self._known)
            visit.kept = [path for path in self._known if not _is_below(path, visit.left_out)]
            visit.env_files = self._index.env_files()
            self._visits.append(visit)
        return visit

    def leave(self, visit: Visit) -> None:
        """A command has ended, with all that it started."""
        with self._lock:
            self.check()
            self._visits.remove(visit)
            if not self._visits and self._inventory is not None:
                self._inventory.end()
                self._inventory = None

    def check(self) -> None:
        """Move aside what is new and not harmless. Every command that runs now is told of it."""
        with self._lock:
            if not self._visits:
                return
            self._index.refresh(open_closed=True)
            left_out = [name for visit in self._visits for name in visit.left_out]
            moved = self._judge(left_out)
            for path, target in self._links.items():
                moved += self._restore_link(path, target)
            for visit in self._visits:
                visit.moved += moved

    def recover(self) -> list[str]:
        """Move aside what commands of a process left behind that died while they ran."""
        with self._lock:
            moved: list[str] = []
            if self._visits:
                return moved
            for known in left_behind(self.root):
                self._index.refresh(open_closed=True)
                self._known = known
                self._named = set(self._named_by(self._index.parts()))
                moved += self._judge(())
            return moved

    def env_files(self) -> list[str]:
        """Environment files, for a command that can write nothing."""
        with self._lock:
            self._index.refresh()
            return self._index.env_files()

    # --- what was there -------------------------------------------------------------------------------

    def _learn(self) -> None:
        """Take what is there now for what the user has made, but for what commands made and nobody changed since."""
        self._index.refresh()
        self._known, self._links, made = {}, {}, self._made
        self._made = {}
        parts = list(self._index.parts())
        self._named = set(self._named_by(parts))
        for path in (*(part.path for part in parts), *self._named):
            facts = facts_of(self.root, path)
            if facts is None or self._is_placeholder(path, facts):
                continue
            if path in made and made[path][0] == _identity(facts):
                self._made[path] = made[path]
            elif stat.S_ISLNK(facts.st_mode):
                self._links[path] = os.readlink(f"{self.root}/{path}")
                self._known[path] = _identity(facts)
            else:
                self._known[path] = (facts.st_dev, facts.st_ino, 0)

    def _named_by(self, parts: Iterable[Part]) -> Iterator[str]:
        """What the user's own configuration names inside this directory: included files, hooks, filters."""
        for part in parts:
            path = f"{self.root}/{part.path}"
            beside = os.path.dirname(path)
            if part.check == "git-config":
                text, top = content_of(self.root, part.path, _LARGEST), os.path.dirname(beside)
                named: Iterable[str] = [*files_named_by_git(text, top, beside)] if text else []
                named = [*named, *(os.path.join(top, path) for path in hooks_of_user())]
            elif part.path.endswith(_READ_BY_SHELLS):
                text = content_of(self.root, part.path, _LARGEST) or b""
                top = os.path.dirname(beside) if part.path.endswith("hgrc") else beside
                words = files_named_in(text.decode(errors="surrogateescape"), top)
                named = filter(os.path.isfile, words)
            else:
                continue
            for each in named:
                if self.root == each or self.root.startswith(f"{each}/"):
                    raise SandboxError(
                        f"'{path}' names the directory '{each}', in which commands write.",
                        remedy="Name a directory of its own there, for hooks say.",
                    )
                if each.startswith(f"{self.root}/"):
                    yield os.path.relpath(each, self.root)

    # --- what is new ----------------------------------------------------------------------------------

    def _judge(self, left_out: Iterable[str]) -> list[str]:
        before = {(os.path.basename(path), each) for path, each in self._known.items()}
        moved = []
        for part in sorted({*self._index.parts(open_closed=True), *map(Part, self._named)}):
            facts = facts_of(self.root, part.path)
            if facts is None or _is_below(part.path, left_out):
                continue
            if self._is_placeholder(part.path, facts):
                continue
            exact, lasting = _identity(facts), (facts.st_dev, facts.st_ino, 0)
            if self._known.get(part.path) in (exact, lasting) or self._made.get(part.path) == (
                exact,
                True,
            ):
                continue
            if (os.path.basename(part.path), lasting) in before:
                continue  # it was moved with a directory that it is in
            if self._may_stay(part, facts):
                self._made[part.path] = (exact, time.time_ns() - facts.st_ctime_ns > TICK)
            else:
                stuck = f"{part.path} (it cannot be moved aside: remove it)"
                moved.append(move_aside(self.root, part.path) or stuck)
        return moved

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
        if self._identity(path) == self._known.get(path):
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


def _identity(facts: os.stat_result) -> Identity:
    return (facts.st_dev, facts.st_ino, facts.st_ctime_ns)


def _is_below(path: str, names: Iterable[str]) -> bool:
    return any(path == name or path.startswith(f"{name}/") for name in names)
