"""A file jail: one directory, and every path below it. Works alone, without an agent."""

from __future__ import annotations

import builtins
import codecs
import contextlib
import copy
import errno
import os
import stat
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

from hookline.containment import openat2
from hookline.containment.interpreter import environments_below
from hookline.containment.jail.directory import (
    FileEntry,
    entries_of,
    has_file,
    make_directories,
    present,
    remove,
    write_file,
)
from hookline.containment.jail.faults import (
    cannot_open,
    fault,
    leads_through_link,
    no_content,
    not_a_file,
    part_of_repository,
    protected_error,
    second_name,
    secret,
)
from hookline.containment.jail.paths import (
    GIT_NAMES,
    JailPath,
    Parts,
    first_of,
    is_only_of_git,
    jail_path,
    plain,
    plain_names,
    split,
    within,
    without_dots,
)
from hookline.containment.jail.steps import open_by_steps, resolve
from hookline.containment.links import is_inside_any, real_path
from hookline.containment.own_places import own_places
from hookline.containment.protected import (
    PARTS_OF_GIT,
    PROTECTED,
    VERSION_CONTROL,
    is_git_directory,
)
from hookline.errors import (
    FileJailError,
    FileKindError,
    FileTooLargeError,
    NoSuchFileError,
    UsageError,
)
from hookline.locked_files import is_locked, keep_if_locked

AnyPath: TypeAlias = str | os.PathLike[str]

LARGEST = 64 * 1024 * 1024
"""How many bytes are read at once unless somebody wants more."""
_TRIES = 16
"""How often a path may turn into another one while it is being opened."""
_LINK_IN_THE_WAY = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)
_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATING = os.O_CREAT | os.O_EXCL | os.O_TRUNC


class FileJail:
    """The files below one directory, opened by relative path, and nothing outside it, whatever the path says.

        with FileJail("project") as jail:
            jail.write_text("notes/today.md", "...")
            jail.open("../secrets.txt")          # OutsideJailError

    `protected` names can be read and not changed, at any depth and in any spelling; `secret` names cannot even be
    read. `mounts=False` refuses what is mounted below the root, `links=False` paths with symbolic links in them. `way`
    is how paths are opened: `auto` takes the system call `openat2` where there is one, and walks name by name where
    there is none.
    """

    def __init__(
        self,
        root: AnyPath,
        *,
        protected: Iterable[str] = PROTECTED,
        secret: Iterable[str] = (),
        mounts: bool = True,
        links: bool = True,
        way: openat2.Way = "auto",
    ) -> None:
        self.root = _path_of_root(root)
        """The directory, as it was given."""
        self.protected = plain_names(protected, "protected")
        self.secret = plain_names(secret, "secret")
        self.mounts = mounts
        self.links = links
        self.way = openat2.check_way(way)
        """How paths are opened: `openat2` or `steps`."""
        self._fd = _open_root(self.root)
        self._close = weakref.finalize(self, os.close, self._fd)
        real = real_path(self.root)
        self._real, self._name = real, os.path.basename(real)
        self._around = _system_around(real)
        self._roots = tuple(dict.fromkeys((split(str(self.root)), split(real))))
        inside = environments_below(real) if self.protected else ()
        self._environments = tuple(map(split, inside))

    # --- files --------------------------------------------------------------------------------------

    def open(
        self,
        path: AnyPath,
        mode: str = "r",
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open a plain file, with the modes of the built-in `open`. Text is UTF-8 unless said otherwise."""
        asked = self._read_path(path)

        def opener(_name: str, flags: int) -> int:
            return self._open_file(asked, flags)

        if "b" not in mode and encoding is None:
            encoding = "utf-8"
        try:
            codecs.lookup(encoding or "utf-8")  # before the file is made, or emptied
            return builtins.open(  # which knows what each mode means; how to open is ours to say
                asked.given, mode, encoding=encoding, errors=errors, newline=newline, opener=opener
            )
        except FileJailError:  # of which one is a ValueError too
            raise
        except (ValueError, LookupError) as error:
            raise cannot_open(mode, error) from None

    def read_bytes(self, path: AnyPath, *, limit: int | None = LARGEST) -> bytes:
        """A file's content. One that is larger than `limit` bytes is an error; None reads anything."""
        with self.open(path, "rb") as file:
            content: bytes = file.read() if limit is None else file.read(limit + 1)
        if limit is not None and len(content) > limit:
            raise FileTooLargeError(
                os.fspath(path),
                f"is larger than {limit:,} bytes.",
                remedy="Open it and read a part of it, or raise limit=.",
                code=errno.EFBIG,
            )
        return content

    def read_text(
        self, path: AnyPath, *, encoding: str = "utf-8", limit: int | None = LARGEST
    ) -> str:
        """A file's content as text, with its line ends as they are."""
        return self.read_bytes(path, limit=limit).decode(encoding)

    def write_bytes(
        self,
        path: AnyPath,
        content: bytes,
        *,
        parents: bool = True,
        overwrite: bool = True,
        fsync: bool = False,
        expected: os.stat_result | None = None,
    ) -> None:
        """Give a file this content, as a whole or not at all, and keep its mode.

        `parents` makes directories that are missing. `overwrite=False` is an error if the file is there. `fsync` waits
        until it is on the disk. With `expected`, a file that is not as `stat` saw it then is left alone.
        """
        if not isinstance(content, bytes | bytearray | memoryview):
            raise no_content("write_bytes", content, "bytes", "write_text")
        asked = self._read_path(path)
        true = self._resolve(asked, to_change=True)
        if asked.is_directory or not true:
            raise FileKindError(asked.given, "is the path of a directory.", code=errno.EISDIR)
        with self._own_words(asked), self._directory(true[:-1], make=parents) as directory:
            write_file(asked.given, directory, true[-1], content, overwrite, fsync, expected)

    def write_text(
        self,
        path: AnyPath,
        text: str,
        *,
        encoding: str = "utf-8",
        parents: bool = True,
        overwrite: bool = True,
        fsync: bool = False,
    ) -> None:
        """The same with text. Line ends are written as they are."""
        if not isinstance(text, str):
            raise no_content("write_text", text, "text", "write_bytes")
        content = text.encode(encoding)
        self.write_bytes(path, content, parents=parents, overwrite=overwrite, fsync=fsync)

    # --- the tree -----------------------------------------------------------------------------------

    def mkdir(self, path: AnyPath, *, exist_ok: bool = True) -> None:
        """Make a directory and those above it."""
        asked = self._read_path(path)
        true = self._resolve(asked, to_change=True)
        with self._own_words(asked):
            made = make_directories(self._fd, true)
        if not (made or exist_ok):
            raise fault(asked.given, FileExistsError(errno.EEXIST, "exists"))

    def list(self, path: AnyPath = ".") -> list[FileEntry]:
        """What is in a directory, in the order of the names. Links are shown, not followed."""
        asked = self._read_path(path)
        fd, true = self._open(asked, _READ_DIRECTORY)
        with self._own_words(asked), close_at_end(fd):
            if os.fstat(fd).st_nlink == 0:
                raise NoSuchFileError(asked.given, "has been removed.", code=errno.ENOENT)
            found = entries_of(fd, "/".join(true))
            return [entry for entry in found if not first_of((entry.name,), self.secret)]

    def walk(self, path: AnyPath = ".") -> Iterator[FileEntry]:
        """Everything below a directory, each directory before what is in it. Links are shown, not followed.

        A directory that cannot be read, or is gone when its turn comes, is passed over.
        """
        waiting = list(reversed(self.list(path)))
        while waiting:
            entry = waiting.pop()
            yield entry
            if entry.is_directory:
                with contextlib.suppress(FileJailError):
                    waiting += reversed(self.list(entry.path))

    def remove(self, path: AnyPath, *, recursive: bool = False) -> None:
        """Remove a file, a link itself, or an empty directory; with `recursive` all that is in it too."""
        asked = self._read_path(path)
        true = self._resolve(asked, to_change=True, follow_last=False)
        if not true:
            raise FileJailError(
                asked.given, "is the root, which cannot be removed.", code=errno.EBUSY
            )
        if recursive:
            self._refuse_protected_below(asked, true)
        with self._own_words(asked), self._directory(true[:-1]) as directory:
            remove(directory, true[-1], recursive=recursive)

    # --- questions ----------------------------------------------------------------------------------

    def locate(self, path: AnyPath, *, to_change: bool = False) -> str:
        """Where a path leads, relative to the root and without links in it, whether or not there is something.

        Raises an `OutsideJailError` for one that leads out, a `ProtectedPathError` for one that is not to be used.
        """
        return "/".join(self._resolve(self._read_path(path), to_change=to_change)) or "."

    def stat(self, path: AnyPath) -> os.stat_result:
        """What the system knows of a file or directory; nothing is opened for it."""
        asked = self._read_path(path)
        fd, _ = self._open(asked, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK))
        with close_at_end(fd):
            return os.fstat(fd)

    def exists(self, path: AnyPath) -> bool:
        """Whether there is something inside at this path. A path that leads out is an error here too."""
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def without_links(self) -> FileJail:
        """The same jail, which follows no links: for paths of which somebody has said where they lead."""
        made = copy.copy(self)
        made.links, made._fd = False, os.dup(self._fd)
        made._close = weakref.finalize(made, os.close, made._fd)
        return made

    def close(self) -> None:
        """Let go of the root. Files that were opened stay open."""
        self._close()

    def __enter__(self) -> FileJail:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<FileJail {self.root} by {self.way}>"

    # --- opening ------------------------------------------------------------------------------------

    def _read_path(self, path: AnyPath) -> JailPath:
        if not self._close.alive:
            raise UsageError("this file jail is closed.", remedy="Make another FileJail.")
        return jail_path(path, self._roots)

    def _open_file(self, asked: JailPath, flags: int) -> int:
        """A descriptor of a plain file; what would truncate or create waits until it is known what is there."""
        writes = flags & (os.O_WRONLY | os.O_RDWR) != 0
        if asked.is_directory:
            raise FileKindError(asked.given, "is the path of a directory.", code=errno.EISDIR)
        if flags & os.O_EXCL:
            return self._create(asked, flags)
        plain = flags & ~_CREATING | os.O_NONBLOCK | os.O_NOCTTY
        for _ in range(_TRIES):
            try:
                self._refuse_locked(asked)
                fd, _ = self._open(asked, plain, to_change=writes)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
                with contextlib.suppress(FileExistsError):
                    return self._create(asked, flags)
            else:
                return _check_file(asked, fd, flags, writes)
        raise fault(asked.given, OSError(errno.EAGAIN, "changes"))

    def _refuse_locked(self, asked: JailPath) -> None:
        """Refuse the file of a journal while it is not open: once it is, it stays so until the journal is closed.

        On a system without `O_PATH` each attempt keeps one more descriptor.
        """
        if hasattr(os, "O_PATH"):
            fd, _ = self._open(asked, os.O_PATH)
            with close_at_end(fd):
                if is_locked(os.fstat(fd)):
                    raise _of_journal(asked)

    def _create(self, asked: JailPath, flags: int) -> int:
        true = self._resolve(asked, to_change=True)
        if not true:
            raise fault(asked.given, FileExistsError(errno.EEXIST, "exists"))
        with self._own_words(asked), self._directory(true[:-1]) as directory:
            flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            return os.open(true[-1], flags, 0o666, dir_fd=directory)

    def _open(self, asked: JailPath, flags: int, *, to_change: bool = False) -> tuple[int, Parts]:
        """Open a path, and say where that is. It is opened without links in it: what is opened is what was checked."""
        step = asked
        for _ in range(_TRIES):
            plain = without_dots(step)
            self._refuse(asked, plain, to_change)
            try:
                return self._strictly(step.parts, flags), plain
            except OSError as error:
                if error.errno not in _LINK_IN_THE_WAY:
                    raise fault(asked.given, error) from None
                true = self._resolve(asked, to_change=to_change)
                if true == step.parts:
                    raise fault(asked.given, error) from None
                step = asked._replace(parts=true)
        raise fault(asked.given, OSError(errno.EAGAIN, "changes"))

    def _strictly(self, parts: Parts, flags: int) -> int:
        if self.way == "steps":
            return open_by_steps(self._fd, parts, flags, same_device=not self.mounts)
        strict = openat2.BENEATH | openat2.NO_MAGICLINKS | openat2.NO_SYMLINKS
        if not self.mounts:
            strict |= openat2.NO_XDEV
        return openat2.openat2(self._fd, os.fsencode("/".join(parts) or "."), flags, strict)

    def _resolve(self, asked: JailPath, *, to_change: bool, follow_last: bool = True) -> Parts:
        """Where a path leads, if that is inside and may be used."""
        try:
            true = resolve(self._fd, asked.parts, follow_last=follow_last)
        except OSError as error:
            raise fault(asked.given, error) from None
        if not self.links and true != without_dots(asked):
            raise leads_through_link(asked.given)
        self._refuse(asked, true, to_change)
        return true

    @contextlib.contextmanager
    def _directory(self, true: Parts, *, make: bool = False) -> Iterator[int]:
        """A directory by its true path, held open meanwhile."""
        try:
            fd = self._strictly(true, _READ_DIRECTORY)
        except FileNotFoundError:
            if not make:
                raise
            make_directories(self._fd, true)
            fd = self._strictly(true, _READ_DIRECTORY)
        with close_at_end(fd):
            yield fd

    # --- refusing -----------------------------------------------------------------------------------

    def _refuse(self, asked: JailPath, true: Parts, to_change: bool) -> None:
        name = first_of(true, self.secret)
        if name:
            raise secret(asked.given, name)
        if not to_change:
            return
        # The root itself may have such a name: then nothing in it is changed.
        *_, above, here = ("", "", *split(self._real))
        name = first_of(self._around, self.protected)
        name = name or first_of((here, *true), self.protected, above)
        name = name or within(true, self._protected_places())
        if name:
            raise protected_error(asked.given, name)
        if self._is_of_repository(true):
            raise part_of_repository(asked.given)

    def _protected_places(self) -> tuple[Parts, ...]:
        """What is protected by where it is: what is our own, and where protected names at the top lead.

        Links deeper down are not looked for: each change would have to read the whole tree.
        """
        with os.scandir(self._fd) as entries:
            links = [each.name for each in entries if each.is_symlink()]
        named = (name for name in links if first_of((name,), self.protected, self._name))
        led_to = (real_path(f"{self._real}/{name}") for name in named)
        ways, real = own_places() if self.protected else ((), ())
        if is_inside_any(self._real, real):
            return ((),)  # all of it
        inside = (
            os.path.relpath(path, self._real)
            for path in (*ways, *real, *led_to)
            if path.startswith(f"{self._real}/")
        )
        return (*self._environments, *map(split, inside))

    def _is_of_repository(self, true: Parts) -> bool:
        """Whether a path leads to a part of a git repository under another name than `.git`, if that is protected.

        The order in which the parts are written makes no difference, nor what a command in the sandbox adds: a `HEAD`
        and a `commondir` always are such parts, and no part is written that makes a git directory.
        """
        if ".git" not in self.protected or not true:
            return False
        return (
            is_only_of_git(true[-1])
            or self._is_in_repository(true)
            or any(
                self._is_repository_with(true[:depth], plain(part))
                for depth, part in enumerate(true)
            )
        )

    def _is_in_repository(self, true: Parts) -> bool:
        """Whether a path lies in a git directory under another name, and in no linked work tree inside of that.

        The `.git` of such a work tree is a file. A directory of that name does not count: a command can make one.
        """
        for depth in reversed(range(len(true))):
            with contextlib.suppress(OSError), self._directory(true[:depth]) as fd:
                if is_git_directory(present(fd, PARTS_OF_GIT)):
                    return True
                if has_file(fd, ".git"):
                    return False
        return False

    def _is_repository_with(self, directory: Parts, name: str) -> bool:
        """Whether a directory is git's with this name in it, or is about to be: with a `HEAD`, only git has such."""
        if name not in GIT_NAMES:
            return False
        try:
            with self._directory(directory) as fd:
                there = present(fd, PARTS_OF_GIT)
        except OSError:  # it is missing, or a link is in the way, behind which it is judged again
            return False
        return "HEAD" in there or is_git_directory({*there, name})

    def _refuse_protected_below(self, asked: JailPath, true: Parts) -> None:
        places = self._protected_places()
        own = next((each for each in places if each[: len(true)] == true), None)
        if own is not None:
            raise protected_error(asked.given, "/".join(own))
        with contextlib.suppress(FileKindError):  # what is no directory has nothing below it
            for entry in self.walk("/".join(true)):
                name = first_of(split(entry.path), self.protected | self.secret, self._name)
                if name:
                    raise protected_error(asked.given, name)
                is_part = is_only_of_git(entry.name) and not entry.is_directory
                if is_part and ".git" in self.protected:
                    raise part_of_repository(asked.given)

    @contextlib.contextmanager
    def _own_words(self, asked: JailPath) -> Iterator[None]:
        try:
            yield
        except FileJailError:
            raise
        except OSError as error:
            raise fault(asked.given, error) from None


@contextlib.contextmanager
def close_at_end(fd: int) -> Iterator[int]:
    """Close a descriptor at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def _path_of_root(root: object) -> Path:
    """Where a jail begins, from what was given."""
    if not isinstance(root, str | os.PathLike):
        raise UsageError(
            f"{root!r} cannot be the root of a file jail: it is not a path.",
            remedy="Give a directory that exists and can be read.",
        )
    return Path(os.path.abspath(os.fspath(root)))


def _system_around(real: str) -> Parts:
    """The directory of version control in which a root lies, unless a work tree of git is in between."""
    around = [real, *map(str, Path(real).parents)]
    for path in around:
        if os.path.lexists(f"{path}/.git"):
            return ()
        if path == real:
            continue  # what is in the root is looked at each time
        if os.path.basename(path) in VERSION_CONTROL:
            return (os.path.basename(path),)
        with contextlib.suppress(OSError), close_at_end(os.open(path, _READ_DIRECTORY)) as fd:
            if is_git_directory(present(fd, PARTS_OF_GIT)):
                return (".git",)
    return ()


def _open_root(root: Path) -> int:
    """A descriptor of the directory that a jail is made of."""
    try:
        return os.open(root, _READ_DIRECTORY)
    except OSError as error:
        raise UsageError(
            f"'{root}' cannot be the root of a file jail: {os.strerror(error.errno or 0).lower()}.",
            remedy="Give a directory that exists and can be read.",
        ) from None


def _of_journal(asked: JailPath) -> FileKindError:
    words = "belongs to a journal that this process has open, and cannot be opened here."
    return FileKindError(asked.given, words, code=errno.EBUSY)


def _check_file(asked: JailPath, fd: int, flags: int, writes: bool) -> int:
    """The descriptor, if what it opens is a plain file that may be used like this."""
    if keep_if_locked(fd):  # it took the place of another one meanwhile
        raise _of_journal(asked)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise not_a_file(asked.given, found.st_mode)
        if writes and found.st_nlink > 1:
            raise second_name(asked.given)
        if flags & os.O_TRUNC:
            os.ftruncate(fd, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd
