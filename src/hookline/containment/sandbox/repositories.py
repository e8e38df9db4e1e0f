"""Which files of version control name programs or lead elsewhere, and which of them a command may leave behind.

Only git's configuration is looked into, as git itself prints it. Every other file of these kinds is judged by being
there. No program is ever started in a repository of the tree: it would obey what a command has left there.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from hookline.containment.git_settings import LARGEST, is_plain, settings_in
from hookline.containment.sandbox.quarantine import content_of
from hookline.secret_tables import names_in

Check: TypeAlias = Literal[
    "none",
    "git-config",
    "git-hooks",
    "git-ref",
    "packed-refs",
    "number",
    "histedit",
    "hg-requires",
    "too-deep",
]
"""What a new file has to pass to stay: nothing helps, its keys are all harmless, it holds samples only, it leads to
nothing but a branch, it names refs only, it holds a number, it is text, or it asks for no extension.
A directory that is too deep to look into is moved to the top, where it is looked into."""


class Part(NamedTuple):
    """A file or directory that somebody else runs or obeys."""

    path: str
    """Relative to the directory that commands can write."""
    check: Check = "none"


_OTHER_SYSTEMS = {
    ".hg": ("hgrc", "hgrc-not-shared", "sharedpath"),
    ".jj": (
        "repo/config.toml",
        "repo/config-id",
        "repo/store/git_target",
        "workspace-config.toml",
        "workspace-config-id",
        "config.toml",
    ),
    ".bzr": ("branch/branch.conf", "branch/location", "branch-format/branch.conf"),
    "_darcs": ("prefs/defaults", "prefs/prefs", "prefs/sources"),
    ".pijul": ("config",),
    ".sl": ("config", "hgrc", "sharedpath"),
}
"""Files that name programs or lead to another repository, by the directory that they are in."""

DIRECTORIES_OF_GIT = frozenset(
    names_in(
        "branches hooks info lfs logs modules objects rebase-apply rebase-merge refs rr-cache sequencer worktrees"
    )
)
"""What git and its helpers make in a git directory, and write in."""

_OBEYED = names_in(
    "config.worktree commondir gitdir sl/config glab-cli/config.yml lazygit.yml MERGE_AUTOSTASH MERGE_RR"
)
_NUMBERS = ("rebase-merge/msgnum", "rebase-merge/end", "rebase-apply/next", "rebase-apply/last")
_LARGEST_INDEX = 64 * 1024 * 1024
_LARGEST_REF = 4096
"""git itself writes no longer one, and nobody looks at where a longer one leads."""
_MOST_SYMBOLIC = 10
"""Symbolic refs that lead to one another. git follows five."""
_REQUIREMENTS = frozenset(
    b"bookmarksinstore delta-info-revlog dirstate-v2 dotencode exp-sparse fileindex-v1 fncache generaldelta "
    b"internal-phase internal-phase-2 persistent-nodemap plain-store-encode relshared revlog-compression-zstd revlogv1 "
    b"share-safe shared sparserevlog store treemanifest".split()
)
"""What a Mercurial repository may require: how it is stored. Extensions are not among it."""
_TO_BRANCH = re.compile(rb"ref:[ \t]*(refs/heads/(?![^\s]*\.\.)[^\s\0]+)\s*")
_NOT_PACKED = re.compile(rb"\n(?![0-9a-f]+ refs/|[#^]|\Z)")


def git_directories(top: str) -> tuple[str, str]:
    """The git directory of a work tree, and the one that it shares with others. A bare repository is its own."""
    git = f"{top}/.git"
    if os.path.isfile(git):
        git = _pointer_target(git) or git
    elif not os.path.lexists(git):
        git = top
    return git, _pointer_target(f"{git}/commondir") or git


def pointer_targets(pointer: str) -> tuple[str, ...]:
    """The git directories to which a `.git` that is a file, or a `commondir`, leads."""
    if os.path.basename(pointer) == ".git":
        return git_directories(os.path.dirname(pointer))
    return (_pointer_target(pointer),)


def _pointer_target(pointer: str) -> str:
    """As git reads it, up to a zero byte. Empty where there is no such file, or it leads nowhere."""
    path = text_of(pointer).partition("\0")[0].removeprefix("gitdir: ").rstrip("\r\n")
    return _resolve(os.path.join(os.path.dirname(pointer), path)) if path else ""


def _resolve(path: str) -> str:
    """Where a path leads, as the kernel resolves it. Empty if it leads to nothing.

    It refuses a path of more than 4 KiB, and more than 40 links. Python takes hours for a path that a command
    has written.
    """
    with contextlib.suppress(OSError, ValueError):
        fd = os.open(path, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC)
        try:
            return os.readlink(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
    return ""


def text_of(path: str, most: int = LARGEST) -> str:
    """The beginning of a file, or of what a link leads to; empty if that is no plain file."""
    return bytes_of(path, most).decode(errors="surrogateescape")


def bytes_of(path: str, most: int = LARGEST) -> bytes:
    """The same, as it is. Nobody waits for the other end of a pipe that a command has put there."""
    with contextlib.suppress(OSError, ValueError):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return file.read(most) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    return b""


def git_parts(git: str) -> Iterator[Part]:
    """The parts of one git directory. Those of submodules and further work trees are git directories themselves."""
    yield Part(f"{git}/config", "git-config")
    yield Part(f"{git}/hooks", "git-hooks")
    # The next commit puts what `MERGE_AUTOSTASH` names into the work tree, and copies files that `MERGE_RR` names,
    # wherever they are, into the repository.
    yield from (Part(f"{git}/{name}") for name in _OBEYED)
    # A prompt shows these numbers, and a shell may run what is in a prompt.
    yield from (Part(f"{git}/{name}", "number") for name in _NUMBERS)


def other_parts(system: str) -> Iterator[Part]:
    """The parts of a directory of another system, by its path."""
    name = os.path.basename(system)
    yield from (Part(f"{system}/{each}") for each in _OTHER_SYSTEMS[name])
    if name in (".hg", ".sl"):
        yield Part(f"{system}/histedit-state", "histedit")
        # Some requirements load an extension by themselves. That for large files copies what a file of the work tree
        # names to where that leads, at a commit: to `.hg/hgrc`, say.
        yield Part(f"{system}/requires", "hg-requires")
        yield Part(f"{system}/store/requires", "hg-requires")


def ref_parts(root: str, git: str) -> Iterator[Part]:
    """Where the next commit writes: `HEAD`, the branch that it names, and what a reset writes.

    A ref may lead to any file beside `HEAD`. By one that leads to `MERGE_AUTOSTASH`, a commit would write what it then
    puts into the work tree. Other branches are not looked at: who checks one out gets what a command put there anyway.
    """
    whole = os.path.normpath(f"{root}/{git}")
    common = _pointer_target(f"{whole}/commondir") or whole
    shared = os.path.relpath(common, root) if f"{common}/".startswith(f"{root}/") else git
    yield Part(f"{shared}/packed-refs", "packed-refs")
    yield from _symbolic(root, f"{git}/HEAD", shared)
    yield from _symbolic(root, f"{git}/ORIG_HEAD", shared)


def _symbolic(root: str, path: str, shared: str) -> Iterator[Part]:
    """A ref, and the branches to which it leads, as far as they have files of their own."""
    for _ in range(_MOST_SYMBOLIC):
        if not os.path.isfile(f"{root}/{path}"):
            return
        yield Part(path, "git-ref")
        found = _TO_BRANCH.fullmatch(bytes_of(f"{root}/{path}"))
        if found is None:
            return
        path = f"{shared}/{os.fsdecode(found[1])}"


def linked_ways(root: str, parts: Iterable[Part], base: str) -> Iterator[Part]:
    """Links in the place of directories below `base` in which parts are: they lead to others of these names."""
    ways = {
        part.path[: found.start()]
        for part in parts
        for found in re.finditer("/", part.path)
        if found.start() > len(base)
    }
    yield from (Part(way) for way in ways if os.path.islink(f"{root}/{way}"))


# --- what may stay ------------------------------------------------------------------------------------


def is_harmless_configuration(content: bytes) -> bool:
    """Whether every setting is one that runs nothing. What git cannot list is not, nor are refs in a table: nobody
    looks into that."""
    settings = settings_in(content)
    return settings is not None and all(
        is_plain(key, value) and (key != "extensions.refstorage" or value == "files")
        for key, value in settings
    )


def is_harmless(check: Check, content: bytes) -> bool:
    """Whether a file that git or Mercurial writes has in it what they would write."""
    if check == "number":
        return content.strip().isdigit()
    if check == "packed-refs":  # by any other name, it could stand for a file beside `HEAD`
        return not _NOT_PACKED.search(b"\n" + content)
    if check == "histedit":  # anything else is read as a pickle, which can run programs
        return content.startswith(b"v1\n")
    if check == "hg-requires":
        return _REQUIREMENTS.issuperset(content.split())
    if len(content) > _LARGEST_REF:
        return False
    return not content.startswith(b"ref:") or _TO_BRANCH.fullmatch(content) is not None


def may_be_tracked(path: str) -> bool:
    """Whether git may track a file, by the names in the index of the repository that it is in."""
    top, name = os.path.split(path)
    while top != "/" and not os.path.lexists(f"{top}/.git"):
        top, last = os.path.split(top)
        name = f"{last}/{name}"
    if top == "/":
        return False
    index = content_of(top, ".git/index", _LARGEST_INDEX)
    if index is None:  # there is none, or it is elsewhere
        return not os.path.isdir(f"{top}/.git")
    is_compressed = index[4:8] == b"\0\0\0\4"
    return is_compressed or os.fsencode(name) + b"\0" in index
