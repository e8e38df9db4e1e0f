"""One directory that commands can write: what others run or obey in it, what of that is new, and what may stay.

What was there when no command ran is read-only for all that start, whoever made it: to leave writable what earlier
commands had made was rejected, for nobody can tell it from what the user made or replaced while they ran. What is new
afterwards is moved aside, unless it is harmless: a fresh git repository, or a file that was written through a jail,
which asks first. So a user who saves such a file while a command runs finds it moved aside.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import shlex
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from hookline.containment.links import MOST_LINKS, links_and_target, real_path, ways_and_target
from hookline.containment.own_places import own_targets
from hookline.containment.protected import RUN_BELOW, is_accepted
from hookline.containment.sandbox.command import NOT_MOVED
from hookline.containment.sandbox.directory_entries import listing
from hookline.containment.sandbox.home import hidden_links, homes
from hookline.containment.sandbox.inventory import Inventory, records
from hookline.containment.sandbox.named_files import (
    files_named_by_git,
    files_named_by_script,
    hooks_of_user,
    turns,
)
from hookline.containment.sandbox.own_files import (
    LinkedFile,
    find_shared_outside,
    make_own,
    to_mount,
)
from hookline.containment.sandbox.paths import prefixes, printable
from hookline.containment.sandbox.quarantine import (
    IS_ASIDE,
    birth_of,
    content_of,
    facts_of,
    is_directory,
    make_link,
    move_aside,
    move_up,
    names_in,
    open_directory,
    refuse_one_case,
    target_of,
)
from hookline.containment.sandbox.repositories import (
    Part,
    git_directories,
    git_parts,
    is_harmless,
    is_harmless_configuration,
)
from hookline.containment.sandbox.tables import OF_PROJECTS, PROTECTED_AT_HOME
from hookline.containment.sandbox.tree_index import TreeIndex
from hookline.errors import SandboxError

Identity: TypeAlias = tuple[int, int, int]
"""Device, number, and a time: of the last change, or (below zero) of birth for what commands cannot change. The number
alone would not do: where the user replaces a file, a command can make one that gets the number of the old one."""

_log = logging.getLogger("hookline.containment")
_OWN = ".hookline"
"""Journals are in it, so entries come and go there while commands run."""
_LARGEST = 1024 * 1024
_LARGEST_REFS = 64 * _LARGEST
_WRITTEN_OFTEN = ("git-ref", "packed-refs", "number", "histedit")
"""Checks of files that git and Mercurial write as they work: they are not read-only while they pass."""
_MOST_FILES = 1000
"""Files of one directory of configuration that are looked at."""
_MOST_NAMED = 20_000
"""Paths that configuration may name, links on the way included. Each costs every command a look."""
_MOST_REPOSITORIES = 100
"""New repositories that may stay. Each costs later commands a start of git and three mounts."""


@dataclass(eq=False)
class TreeVisit:
    """What one command is to leave as it is, and what it made that did not stay."""

    left_out: tuple[str, ...] = ()
    """Names that it may change after all."""
    kept: list[str] = field(default_factory=list)
    """Paths that are there and stay as they are."""
    named: list[str] = field(default_factory=list)
    """Paths that the user's configuration names, whether or not they are there, and configuration that names files by
    relative paths. The way to them stays as it is."""
    ways: list[str] = field(default_factory=list)
    """Links by which something hidden is found, and directories that a path to it enters and leaves again."""
    git_directories: dict[str, bool] = field(default_factory=dict)
    """Each with whether it is one by its entries alone."""
    env_files: list[str] = field(default_factory=list)
    """Environment files, as `.env` and `deploy/prod.env`."""
    closed: list[str] = field(default_factory=list)
    """Directories that cannot be listed, so that nobody knows what is in them."""
    shared: list[str] = field(default_factory=list)
    """Files that have a name outside too and could not be copied, or directories with many of them."""
    moved: list[str] = field(default_factory=list)
    """The new paths of what was moved aside."""
    inventory: Inventory | None = None
    """The record of the directory, as long as the command runs."""


class WorkTree:
    """Watches over one directory for all commands of this process that can write in it."""

    def __init__(self, root: str) -> None:
        self.root = self._path = root
        self._held = -1
        """The directory itself, held open while commands run: a command of one above can move it."""
        self._owner_rights = 0
        """What its owner could do in it before commands ran: they can take that away."""
        self._index = TreeIndex(root)
        self._lock = threading.RLock()
        self._known: dict[str, Identity] = {}
        """What was there before the commands that run now."""
        self._times: dict[str, int] = {}
        """When that changed last."""
        self._alone = False
        """Whether no other command may run here, above or below as long as the one does that runs now."""
        self._on_host = 0
        """Commands outside of the sandbox beside which no contained one may start."""
        self._overlap = False
        """Whether a command started while another ran, of this process or of another, here, above or below. The other
        could move a directory at that moment, so that what is in it was not read-only for the one that started: then
        every change counts."""
        self._links: dict[str, str] = {}
        """What links say that are made again when a command has removed or replaced them."""
        self._named: set[str] = set()
        self._relative: set[str] = set()
        """Parts that would name other files in another place."""
        self._stuck: set[str] = set()
        """What could not be moved aside. It is never taken for the user's."""
        self._fresh = 0
        """New repositories that were looked at."""
        self._shared: frozenset[LinkedFile] = frozenset()
        """Files that have a name outside too and are not copied."""
        self._hidden: frozenset[str] = frozenset()
        """Whole paths of what is hidden besides environment files, as they are spelled."""
        self._ways: list[str] = []
        self._is_copied = True
        """Whether what could be copied of them was: not while other commands run."""
        self.shared: list[str] = []
        """What is read-only for commands because of them."""
        self._visits: list[TreeVisit] = []
        self._inventory: Inventory | None = None

    # --- commands come and go -------------------------------------------------------------------------

    def enter(
        self,
        left_out: Iterable[str] = (),
        *,
        alone: bool = False,
        held: Iterable[str] = (),
        hidden: Iterable[str] = (),
        is_shown: Callable[[str], bool] | None = None,
    ) -> TreeVisit:
        """A command is about to start. It can write nothing at the `held` names, and does not see the `hidden` paths.

        Nor does it see environment files that are not shown; without `is_shown` they all are.
        """
        visit = TreeVisit(left := tuple(left_out))
        near = [] if self._visits else trees_to_recover([self.root])
        for tree in near:  # not under our lock: each takes its own
            visit.moved += (
                path if tree is self else f"{tree.root}/{path}" for path in tree.recover()
            )
        with self._lock:
            self._hidden = frozenset(hidden)
            if self._visits:
                if alone or self._alone or any(tree._on_host for tree in self._near()):
                    raise _not_alone_error()
                self._overlap = True
                self.check()
                self._learn_ways(is_shown)
                self._learn_named()
                self._own_files({*held, *self._known}, left, can_copy=False)
            else:
                visit.moved += self._learn(held, left, is_shown)
                self._held = open_directory(self.root)
                self._owner_rights = os.fstat(self._held).st_mode & stat.S_IRWXU
                self._alone = alone
                self._begin_record()
                others = self._meet_others()
                if any(others) or (alone and others) or any(each._on_host for each in self._near()):
                    self._end(is_checked=True)
                    raise _not_alone_error()
            visit.kept = [path for path in self._find_older() if not _is_below(path, left)]
            visit.named = sorted(self._named | self._relative)
            visit.ways = self._ways
            visit.git_directories = self._index.git_directories()
            visit.env_files = self._index.env_files()
            visit.closed = self._index.find_closed()
            visit.shared = self.shared
            visit.inventory = self._inventory
            self._visits.append(visit)
        return visit

    def enter_on_host(self, *, alone: bool) -> None:
        """A command is about to start outside of the sandbox: what a contained one plants meanwhile, it would obey."""
        with self._lock:
            self.check()
            self._on_host += 1  # before it looks, as the others do
            is_free = not any(tree._held >= 0 for tree in self._near())
            is_free = is_free and not any(
                each.is_alive and _overlap(each.root, self.root) for each in records()
            )
            if not (is_free and alone):
                self._on_host -= 1
            if not is_free:
                raise _not_alone_error()

    def leave_host(self) -> None:
        """That command, which was to be alone, has ended."""
        with self._lock:
            self._on_host -= 1

    def leave(self, visit: TreeVisit) -> None:
        """A command has ended, with all that it started."""
        with self._lock:
            is_checked = False
            try:
                self.check()
                is_checked = True
            finally:
                self._visits.remove(visit)
                if not self._visits:
                    self._end(is_checked)

    def _begin_record(self) -> None:
        """Write down what is there, before the first command runs."""
        facts = self._known, self._times, self._named, self._links
        try:
            self._inventory = Inventory.begin(self.root, self._held, *facts, alone=self._alone)
        except BaseException:
            self._end(is_checked=True)
            raise

    def _end(self, is_checked: bool) -> None:
        """The last command has ended. What could not be checked is checked before the next one, by the record."""
        if self._inventory is not None:
            self._inventory.end() if is_checked else self._inventory.leave()
            self._inventory = None
        os.close(self._held)
        self._held = -1
        self._be_at(self._path)

    def check(self) -> None:
        """Move aside what is new and not harmless, and note it for every command that runs now."""
        with self._lock:
            if not self._visits:
                return
            self._follow()
            self._open_again()
            self._meet_others()
            left_out = set.intersection(*({*visit.left_out} for visit in self._visits))
            moved = self._judge_all(left_out)
            if self.root != self._path:
                moved = [f"{self.root}/{path}" for path in moved]
            for visit in self._visits:
                visit.moved += moved

    def _follow(self) -> None:
        """Look at the directory where it is now, if a command of one above has moved it."""
        try:
            facts = facts_of("/", self.root)
        except OSError:
            facts = None
        is_there = facts is not None and os.path.samestat(facts, os.fstat(self._held))
        if not is_there:
            self._be_at(os.readlink(f"/proc/self/fd/{self._held}"))

    def _open_again(self) -> None:
        """Give the owner of the directory back what a command took. Somebody else's is not ours to open, nor theirs."""
        mode = stat.S_IMODE(os.fstat(self._held).st_mode)
        if mode & self._owner_rights != self._owner_rights:
            with contextlib.suppress(OSError):
                os.chmod(f"/proc/self/fd/{self._held}", mode | self._owner_rights)

    def _be_at(self, path: str) -> None:
        if path != self.root:
            self.root, self._index = path, TreeIndex(path)

    def recover(self) -> list[str]:
        """Move aside what commands of a process left behind that died while they ran."""
        with self._lock:
            moved: list[str] = []
            for record in () if self._visits else records():
                if record.is_alive or record.root != self.root:
                    continue
                self._known, self._named = dict(record.known), set(record.named)
                # Nobody knows which commands ran at the same time. An older version wrote no times down.
                self._times, self._overlap = dict(record.times), bool(record.times)
                self._links = dict(record.links)
                moved += self._judge_all(())
                record.forget()
            return moved

    def look(self) -> TreeVisit:
        """What is hidden from a command that can write nothing."""
        with self._lock:
            self.check()  # which brings back a link by which something is hidden
            self._refresh()
            env_files = self._index.env_files()
            refuse_one_case(self.root, env_files)
            return TreeVisit(env_files=env_files, closed=self._index.find_closed())

    @property
    def is_used(self) -> bool:
        """Whether a command runs that can write here."""
        return bool(self._visits)

    def _own_files(
        self, read_only: Iterable[str], left_out: Iterable[str], *, can_copy: bool
    ) -> None:
        """Copy files that commands could write and that have another name outside, or in a place that is read-only.

        What is not copied is read-only. Files that are hidden are never copied: commands of the read-only place are in
        no record, and to replace what is hidden from one that runs would show it.
        """
        held = [path for path in read_only if not _is_below(path, left_out)]
        found = find_shared_outside(self._index.linked_files(), held)
        if self._shared == frozenset(found) and (self._is_copied or not can_copy):
            return
        # The name that is missing may be one that was made after its directory was read.
        self._index.forget()
        self._refresh()
        found = find_shared_outside(self._index.linked_files(), held)
        env_files = (real_path(f"{self.root}/{each}") for each in self._index.env_files())
        whole = {*map(real_path, self._hidden), *env_files}
        hidden = {os.path.relpath(each, self.root) for each in whole}
        copies = [file for file in found if can_copy and not _is_below(file.path, hidden)]
        left = {*found}.difference(copies).union(make_own(self.root, copies))
        self._shared, self._is_copied = frozenset(left), can_copy
        self.shared = to_mount(self._shared, by_directory=not can_copy)
        copied = len(found) - len(self._shared)
        if copied:
            _log.info(
                "%d files in '%s' had a second name outside: they were copied", copied, self.root
            )
        if self._shared:
            said = describe_shared(self.shared)
            _log.warning("in '%s' %s", self.root, said, extra={"is_protection": True})

    def look_ahead(self) -> None:
        """Begin the first look, which has to read the whole tree, before a command waits for it."""
        if not self._index.has_looked:
            threading.Thread(target=self.look, name="hookline-look", daemon=True).start()

    def _refresh(self, places: Iterable[str] = ("",), *, opens: bool = False) -> None:
        """Look at the tree again. A directory that cannot be listed must not pass for an empty one."""
        self._index.refresh(places, self._may_open if opens else None)
        if self._index.is_closed:
            raise SandboxError(
                f"'{self.root}' cannot be listed, so its content is not known.",
                remedy=f"Did a command change its mode? Run: `chmod u+rwx {shlex.quote(self.root)}`.",
            )

    # --- what was there -------------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        """What others run or obey here. In a home that is or lies in it, every entry that begins with a dot."""
        found = set(self._index.parts())
        held = {name.partition("/")[0] for name in PROTECTED_AT_HOME}
        for home in homes():
            if not f"{home}/".startswith(f"{self.root}/"):
                continue
            names = names_in(os.path.dirname(home), os.path.basename(home)) or []
            hidden = [name for name in names if name[:1] == "." and name not in OF_PROJECTS | held]
            inside = "" if home == self.root else f"{os.path.relpath(home, self.root)}/"
            found |= {Part(inside + name) for name in hidden if not IS_ASIDE.fullmatch(name)}
        return sorted(found)

    def _learn(
        self,
        held: Iterable[str],
        left_out: Iterable[str],
        is_shown: Callable[[str], bool] | None,
    ) -> list[str]:
        """Take what is there now for the user's: what commands have left passed the check when they ended.

        Commands of other processes may run in this directory, above or below it: what is new by their records is
        judged. Gives what was moved aside.
        """
        self._refresh()
        self._known, self._times, self._links = {}, {}, {}
        self._learn_ways(is_shown)
        near = [record for record in self._live_records() if _overlap(record[0], self.root)]
        others = [record for record in near if record[0]]  # of the rest nobody knows what was there
        parts = self._parts()
        obeyed = (each.path for each in parts if each.check not in _WRITTEN_OFTEN)
        read_only = {*held, *obeyed}.difference(self._stuck)
        self._own_files(read_only, left_out, can_copy=not near)
        own = [part for part in parts if not self._is_of(others, part)]
        named = set(self._files_named_by(own))
        self._named = named - {part.path for part in parts}
        self._relative = named - self._named
        # A closed directory of the user's is known, so that nobody opens it later to look for what is new.
        further = {*self._named, *self._index.find_closed()} - {part.path for part in parts}
        has_new = self._note((*parts, *map(Part, further)), others)
        # Also if the command that made it has ended by now: what is moved aside next is not there to be mounted.
        self._overlap = has_new
        return self._judge_all(()) if has_new else []

    def _learn_ways(self, is_shown: Callable[[str], bool] | None) -> None:
        """Find the ways to what is hidden by its path, so that the next command finds it at the same place."""
        env_files = self._index.env_files() if is_shown is not None else []
        links = [f"{self.root}/{each}" for each in env_files if is_shown and not is_shown(each)]
        links = [each for each in links if os.path.islink(each) and not os.path.isdir(each)]
        ways = (way for path in (*self._hidden, *links) for way in ways_and_target(path)[:-1])
        self._ways = [
            os.path.relpath(each, self.root) for each in ways if each.startswith(f"{self.root}/")
        ]
        for way in self._ways:
            if (target := self._target_of(way)) is not None:
                self._links.setdefault(way, target)

    def _learn_named(self) -> None:
        """Take in what links and settings of the user name that are new since commands run here."""
        parts = self._parts()
        named = set(self._files_named_by(part for part in parts if part.path in self._known))
        named -= {*self._named, *(part.path for part in parts)}
        self._named |= named
        self._note(map(Part, named), [])

    def _note(
        self,
        parts: Iterable[Part],
        others: list[tuple[str, dict[str, Identity]]],
    ) -> bool:
        """Write down what is there. Whether something has to be judged because it is new by the records of others.

        Of that, what they know by name was there before commands ran, and somebody has replaced it: it is written down
        as it was, so that it is read-only.
        """
        has_new = False
        for part in parts:
            path = part.path
            try:
                facts = facts_of(self.root, path)
            except OSError:
                if part.check != "too-deep":
                    raise
                continue  # nobody can tell later whether it is new: the result of each command names it
            if facts is None or self._is_placeholder(path, facts) or path in self._stuck:
                continue
            if part.check in _WRITTEN_OFTEN and self._may_stay(part, facts):
                continue  # it is judged by its content alone
            if self._is_new_to(others, path, facts):
                has_new = True
                self._known.update((path, was) for was in self._known_to(others, path) if was)
            elif stat.S_ISLNK(facts.st_mode):
                if (target := target_of(self.root, path)) is not None:
                    self._links[path] = target
                self._known[path] = _identity(facts)
            elif _has_second_name(facts):  # by which a command can change it: then its time changes
                self._known[path] = _identity(facts)
            else:
                self._known[path] = self._fixed_identity(path, facts)
                self._times[path] = self._change_time(path, facts)
        return has_new

    def _find_older(self) -> list[str]:
        """What was there before the commands that run now, where it is now: they can move a directory it is in."""
        if not self._overlap:
            return list(self._known)
        before = self._times_before()
        found = []
        for path in {*self._known, *(part.path for part in self._parts())}:
            facts = facts_of(self.root, path)
            if facts is not None and (
                path in self._known
                or (os.path.basename(path), self._fixed_identity(path, facts)) in before
            ):
                found.append(path)
        return found

    def _times_before(self) -> dict[tuple[str, Identity], int]:
        """When what was there before changed last, by its name and identity: a directory it is in may have moved."""
        return {
            (os.path.basename(path), each): self._times.get(path, 0)
            for path, each in self._known.items()
        }

    def _meet_others(self) -> list[bool]:
        """Note that commands of others run here, above or below, and let the others note it too.

        Everybody looks after writing a record, so of two that start at once at least one sees the other. Gives for
        each of them whether it is to be alone.
        """
        others: list[bool] = []
        elsewhere: list[bool] = []
        for record in records():
            if not record.is_alive or not _overlap(record.root, self.root):
                continue
            if not record.root:
                # Nobody knows where: no reason to take what the user changes here for a command's.
                elsewhere.append(record.alone)
                continue
            record.mark()
            others.append(record.alone)
        for tree in self._near():
            if tree is not self and tree._held >= 0:
                tree._overlap = True
                others.append(tree._alone)
        self._overlap = self._overlap or bool(others)
        if self._inventory is not None and self._inventory.is_marked:
            self._overlap = True
        return others + elsewhere

    @property
    def _place(self) -> str:
        """Where the directory is now: a command of one above may have moved it."""
        with contextlib.suppress(OSError):
            if self._held >= 0:
                return os.readlink(f"/proc/self/fd/{self._held}")
        return self.root

    def _near(self) -> list[WorkTree]:
        """The trees of this process here, above and below."""
        trees = list(_trees.values())  # other threads add some
        return [tree for tree in trees if _overlap(tree._place, self._place)]

    def _live_records(self) -> Iterator[tuple[str, dict[str, Identity]]]:
        yield from ((each.root, each.known) for each in records() if each.is_alive)
        yield from (
            (tree.root, tree._known)
            for tree in list(_trees.values())  # other threads add some
            if tree._visits and tree is not self
        )

    def _is_of(self, others: list[tuple[str, dict[str, Identity]]], part: Part) -> bool:
        """Whether a command of others made a part: what it names is not named by the user."""
        facts = facts_of(self.root, part.path) if others else None
        return facts is not None and self._is_new_to(others, part.path, facts)

    def _is_new_to(
        self, others: list[tuple[str, dict[str, Identity]]], path: str, facts: os.stat_result
    ) -> bool:
        """Whether a part appeared while commands of others ran, by what they wrote down."""
        same = (_identity(facts), self._fixed_identity(path, facts))
        return any(was not in same for was in self._known_to(others, path))

    def _known_to(
        self, others: list[tuple[str, dict[str, Identity]]], path: str
    ) -> Iterator[Identity | None]:
        """What a part was before the commands of others ran, for each in whose directory it is."""
        whole = f"{self.root}/{path}"
        for root, known in others:
            if whole.startswith(f"{root}/"):
                yield known.get(os.path.relpath(whole, root))

    def _files_named_by(self, parts: Iterable[Part]) -> Iterator[str]:
        """Paths in this directory that are obeyed elsewhere, or named by what is obeyed, and links on the way to them.

        Every such path, wherever it begins, is followed here as the kernel follows it: each step may be a link.
        """
        named = (each for part in parts for each in self._files_named_in(part))
        pending = [*self._files_named_above(), *named]
        seen: set[str] = set()
        while pending:
            path = pending.pop()
            if path in seen:
                continue
            seen.add(path)
            if len(seen) > _MOST_NAMED:
                raise _too_many(self.root, seen)
            *links, target = ways = links_and_target(path)
            # No program gets there, but a command could make the way shorter.
            if ".." in target.split("/"):
                raise SandboxError(
                    f"'{printable(path)}' leads through more than {MOST_LINKS} links, so it is not known what others "
                    "run or obey there.",
                    remedy=f"Remove it: `rm {shlex.quote(printable(links[0]))}`.",
                )
            pending += (turn for link in links for turn in _link_ways(link)[1:])
            inside = [way for way in ways if way.startswith(f"{self.root}/")]
            yield from (way[len(self.root) + 1 :] for way in inside)
            if target in inside:
                pending += _links_below(target)

    def _is_link(self, path: str) -> bool:
        facts = facts_of(self.root, path)
        return facts is not None and stat.S_ISLNK(facts.st_mode)

    def _files_named_above(self) -> Iterator[str]:
        """What is obeyed above, where this directory is a part of a repository, say, and what git names there."""
        above = list(map(str, Path(self.root).parents))
        names = (".git", "refs")
        tops = [
            top
            for top in (self.root, *above)
            if any(os.path.lexists(f"{top}/{name}") for name in names)
        ]
        for top in tops or [self.root]:
            yield from self._files_named_by_git(top)
        for top in {*above, *homes()} - {self.root}:
            yield from self._refuse_root(_obeyed_in(top))
        for place in own_targets():
            yield from self._refuse_root(f"{place}/{name}" for name in listing(place).links)
        for home in homes():  # people keep the files that are there in a directory of their own
            links = self._refuse_root(hidden_links(home))
            yield from itertools.chain(*map(_link_ways, links))

    def _files_named_in(self, part: Part) -> Iterator[str]:
        """What one part names. A link may lead to what is not there yet: who makes it decides what is obeyed."""
        path = f"{self.root}/{part.path}"
        if part.check == "git-config":
            beside = os.path.dirname(path)
            if os.path.lexists(path):
                is_plain = os.path.basename(beside) == ".git"
                yield from self._files_named_by_git(os.path.dirname(beside) if is_plain else beside)
            return
        if os.path.basename(path) == ".git":  # a file that leads to a git directory, maybe outside
            yield from self._files_named_by_git(os.path.dirname(path))
        scripts = [path]
        if os.path.islink(path):
            yield from _link_ways(path)
        elif os.path.isdir(path):
            yield from _links_below(path)
            scripts += (inner for inner, _ in _files_below(path))
        yield from itertools.chain(*map(files_named_by_script, scripts))

    def _files_named_by_git(self, top: str) -> Iterator[str]:
        """What git obeys in a repository, but for the parts that are in this directory themselves."""
        outside = (git for git in git_directories(top) if not _is_below(git, [self.root]))
        parts = (part.path for git in outside for part in git_parts(git))
        for path in self._refuse_root((*files_named_by_git(top, self.root), *parts)):
            yield path
            yield from _links_below(path)

    def _refuse_root(self, paths: Iterable[str]) -> Iterator[str]:
        for path in paths:
            if real_path(path) == self.root:
                raise SandboxError(
                    f"other programs obey '{path}', which leads to '{self.root}', where commands can write.",
                    remedy="Let it lead to another directory, which commands cannot write.",
                )
            yield path

    def _files_named_in_new(self, parts: Iterable[Part]) -> Iterator[str]:
        """The user's own hooks in repositories that are new, and links on the way to what is named."""
        new = [
            part for part in parts if part.check == "git-config" and part.path not in self._known
        ]
        for hooks in hooks_of_user(self.root) if new else ():
            for part in new:
                beside = os.path.dirname(f"{self.root}/{part.path}")
                for start in (beside, os.path.dirname(beside)):
                    path = os.path.normpath(os.path.join(start, os.path.expanduser(hooks)))
                    if path.startswith(f"{self.root}/"):
                        inside = path[len(self.root) + 1 :]
                        yield from (each for each in prefixes(inside) if self._is_link(each))
                        yield inside
        for path in self._named:
            yield from (each for each in prefixes(path) if self._is_link(each))

    # --- what is new ----------------------------------------------------------------------------------

    def _judge_all(self, left_out: Iterable[str]) -> list[str]:
        """Judge until nothing more is moved: in what was moved aside, there may be more. Then links are made again."""
        moved: list[str] = []
        self._fresh = 0
        self._stuck.clear()  # a directory that was moved to and fro at the last look may be quiet now
        self._refresh(opens=True)
        while found := self._judge(left_out):
            moved += found
            self._refresh(found, opens=True)
        if moved:
            self._refresh(opens=True)
        gone = [path for path, target in self._links.items() if self._target_of(path) != target]
        for path in gone:
            moved += self._restore_link(path, self._links[path])
        if gone:
            self._refresh(opens=True)
        return moved + [path + NOT_MOVED for path in self._stuck]

    def _judge(self, left_out: Iterable[str]) -> list[str]:
        before = self._times_before()
        moved = []
        parts = self._parts()
        named = {*self._named, *self._files_named_in_new(parts)}
        for part in sorted({*parts, *map(Part, named - {part.path for part in parts})}):
            if _is_below(part.path, left_out) or part.path in self._stuck:
                continue
            try:
                is_new = self._is_new(part, before)
            except OSError:  # what cannot be looked at is not taken for harmless
                is_new = True
            if not is_new:
                continue
            move = move_up if part.check == "too-deep" else move_aside
            if new := move(self.root, part.path):
                moved.append(new)
            elif os.path.lexists(f"{self.root}/{part.path}"):
                self._stuck.add(part.path)
        return moved

    def _is_new(self, part: Part, before: dict[tuple[str, Identity], int]) -> bool:
        """Whether a part is there, was not before, and may not stay."""
        facts = facts_of(self.root, part.path)
        if facts is None or self._is_placeholder(part.path, facts):
            return False
        if self._known.get(part.path) == _identity(facts):
            return False
        if self._was_there(part.path, facts, before):
            return False
        return not self._may_stay(part, facts)

    def _was_there(
        self, path: str, facts: os.stat_result, before: dict[tuple[str, Identity], int]
    ) -> bool:
        """Whether it is as it was, or was moved with a directory that it is in."""
        known = (os.path.basename(path), self._fixed_identity(path, facts))
        is_known = known in before
        return is_known and (not self._overlap or before[known] == self._change_time(path, facts))

    def _may_open(self, path: str) -> bool:
        """Whether a command may have closed a directory. Before the first one ran, the whole tree could be listed."""
        if not path:
            return True
        facts = facts_of(self.root, path)
        return facts is not None and not self._was_there(path, facts, self._times_before())

    def _may_stay(self, part: Part, facts: os.stat_result) -> bool:
        if is_accepted(facts):
            return True
        if part.check == "git-config" and stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
            self._fresh += 1
            text = content_of(self.root, part.path, _LARGEST + 1)
            is_allowed = text is not None and self._fresh <= _MOST_REPOSITORIES
            return is_allowed and is_harmless_configuration(text or b"")
        if part.check in (*_WRITTEN_OFTEN, "hg-requires"):
            text = content_of(self.root, part.path, _LARGEST_REFS)
            is_whole = text is not None and len(text) < _LARGEST_REFS
            return is_whole and is_harmless(part.check, text or b"")
        if part.check == "git-hooks" and stat.S_ISDIR(facts.st_mode):
            names = names_in(self.root, part.path)
            return names is not None and all(name.endswith(".sample") for name in names)
        return False

    def _restore_link(self, path: str, target: str) -> list[str]:
        """Make a link again that is gone, or move away what is in its place first."""
        moved = move_aside(self.root, path)
        make_link(self.root, path, target)
        restored = self._identity(path)
        if restored is not None and path in self._known:
            self._known[path] = restored
        return [moved] if moved else []

    def _target_of(self, path: str) -> str | None:
        with contextlib.suppress(OSError):  # it is no link
            return target_of(self.root, path)
        return None

    def _is_placeholder(self, path: str, facts: os.stat_result) -> bool:
        """Whether it only holds a place, for a command of ours or of another process: nobody obeys a socket."""
        if stat.S_ISSOCK(facts.st_mode):
            return True
        if not facts.st_mode & stat.S_ISVTX:
            return False
        with contextlib.suppress(OSError):  # a user's directory that cannot be listed is none
            return names_in(self.root, path) == []
        return False

    def _fixed_identity(self, path: str, facts: os.stat_result) -> Identity:
        """The identity of what commands cannot change. Below zero: a time of birth is not taken for one of change."""
        return (0, facts.st_ino, -birth_of(self.root, path))

    def _change_time(self, path: str, facts: os.stat_result) -> int:
        """When a file changed last. For a directory, all times of what is in it together: a change of any shows."""
        if os.path.basename(path) == _OWN:
            return 0
        times = [facts.st_ctime_ns]
        if stat.S_ISDIR(facts.st_mode):
            times += (each.st_ctime_ns for _, each in _files_below(f"{self.root}/{path}"))
        return sum(times)

    def _identity(self, path: str) -> Identity | None:
        facts = facts_of(self.root, path)
        return None if facts is None else _identity(facts)


_trees: dict[str, WorkTree] = {}
_trees_lock = threading.Lock()


def work_tree(root: str) -> WorkTree:
    """The one of this directory: all sandboxes of a process share it."""
    with _trees_lock:
        return _trees.setdefault(root, WorkTree(root))


def used_roots(own: Sequence[TreeVisit | None] = ()) -> list[str]:
    """Where commands can write now, of this process and of others, except for our own visits."""
    trees = list(_trees.values())  # other threads add some
    busy = [tree for tree in trees if any(visit not in own for visit in tree._visits)]
    return [
        *(tree._place for tree in busy),
        *(record.root for record in records() if record.is_alive),
    ]


def is_obeyed(root: str, path: str) -> bool:
    """Whether others obey a file because settings of git name it, or a link of the user's leads to it.

    Settings of the repositories that the file is in count. To look for others, all of the tree would have to be read.
    """
    parts: list[Part] = []
    for git in (".git", *(f"{each}/.git" for each in prefixes(path))):
        if os.path.isfile(f"{root}/{git}"):
            parts.append(Part(git))
        elif os.path.isdir(f"{root}/{git}"):
            parts += git_parts(git)
    try:
        return _is_below(path, set(WorkTree(root)._files_named_by(parts)))
    except SandboxError:  # they are too many, or all of the directory is named
        return True


def trees_to_recover(places: Sequence[str]) -> list[WorkTree]:
    """Those in which the commands of a process ran that died: at these places, above and below.

    Not where a link leads now: the directory is elsewhere, or will be back.
    """
    roots = {each.root for each in records() if not each.is_alive}
    near = (root for root in sorted(roots) if is_overlapping(root, places))
    return [work_tree(root) for root in near if is_directory(root)]


def describe_shared(paths: Sequence[str]) -> str:
    """Why some paths are read-only, and what helps."""
    named = ", ".join(f"'{printable(path)}'" for path in paths[:3])
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return (
        f"read-only are {named}{more}: files there have a second name outside (a hard link) and were not copied. "
        "Make them anew with UV_LINK_MODE=copy, `git clone --no-hardlinks`, or package-import-method=copy of pnpm"
    )


def _not_alone_error() -> SandboxError:
    """What a command may change is left out of the check, and what it obeys says what it does with keys.

    Another could change both: once git has replaced `.git/config`, the read-only mount of the old file is gone.
    """
    return SandboxError(
        "this command was not started. A command on the host, with the user's keys, or with access to protected "
        "files must be the only one in its directory.",
        remedy="Wait for the other command there, or end it.",
    )


def _too_many(root: str, named: Iterable[str]) -> SandboxError:
    directory, count = Counter(map(os.path.dirname, named)).most_common(1)[0]
    return SandboxError(
        f"configuration in '{root}' names more than {_MOST_NAMED:,} files, which is too many to protect.",
        remedy=f"Remove what is not needed: links, files with a second name, repositories. "
        f"'{directory}' has {count:,} of these files.",
    )


def _files_below(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    """What is in a directory of configuration, at any depth."""
    below = (
        f"{place}/{name}"
        for place, directories, files in os.walk(directory)
        for name in (*directories, *files)
    )
    for path in itertools.islice(below, _MOST_FILES):
        with contextlib.suppress(OSError):
            yield path, os.lstat(path)


def _links_below(path: str) -> Iterator[str]:
    """The links in a directory of configuration, and the files there that have a second name."""
    for inner, facts in _files_below(path):
        if stat.S_ISLNK(facts.st_mode) or _has_second_name(facts):
            yield inner


def _has_second_name(facts: os.stat_result) -> bool:
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink > 1


def _link_ways(link: str) -> list[str]:
    """Where a link leads, and then the directories on the way that it enters and leaves again."""
    with contextlib.suppress(OSError):
        here, target = os.path.dirname(link), os.readlink(link)
        return [os.path.join(here, target), *turns(here, target)]
    return []


def _obeyed_in(directory: str) -> Iterator[str]:
    """What others obey in a directory above, and links in that: commands cannot write there, but where they lead.

    Not git's own, which can be written where it leads: only some of its parts are obeyed.
    """
    index = _directory_index(directory)
    index.refresh(("", *RUN_BELOW))
    for path in (f"{directory}/{part.path}" for part in index.parts()):
        if not path.endswith("/.git"):
            yield path
            yield from (f"{path}/{name}" for name in listing(path).links)


@functools.lru_cache(256)
def _directory_index(directory: str) -> TreeIndex:
    """It looks again only where something has changed."""
    return TreeIndex(directory, 0)


def is_overlapping(directory: str, others: Iterable[str]) -> bool:
    """Whether a directory is one of the others, or lies in one or around one."""
    return any(_overlap(directory, other) for other in others)


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _identity(facts: os.stat_result) -> Identity:
    """Without the number of the device: it can be another one when the file system is mounted again."""
    return (0, facts.st_ino, facts.st_ctime_ns)


def _is_below(path: str, names: Iterable[str]) -> bool:
    return any(path == name or path.startswith(f"{name}/") for name in names)
