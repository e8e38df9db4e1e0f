"""Errors of a jail. An error of the system is replaced by one that names only the path that was asked for."""

from __future__ import annotations

import errno
import os
import stat

from hookline.containment.jail.paths import outside
from hookline.errors import (
    BadPathError,
    FileJailError,
    FileKindError,
    FileThereError,
    NoSuchFileError,
    ProtectedPathError,
    UsageError,
)

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


_FAULTS: dict[int, tuple[type[FileJailError], str]] = {
    errno.ENOENT: (NoSuchFileError, "does not exist."),
    errno.EEXIST: (FileThereError, "exists already."),
    errno.ENAMETOOLONG: (BadPathError, "is too deep, or has a name in it that is too long."),
    errno.EISDIR: (FileKindError, "is a directory, not a file."),
    errno.ENXIO: (FileKindError, "is a pipe, a socket or a device, not a file."),
    errno.ENODEV: (FileKindError, "is a pipe, a socket or a device, not a file."),
    errno.ENOTDIR: (FileKindError, "is not a directory, or leads through a file."),
    errno.ELOOP: (FileJailError, "is a loop of symbolic links."),
}


def fault(given: str, error: OSError) -> FileJailError:
    """The error of a jail for one of the system."""
    code = error.errno or 0
    if code == errno.EXDEV:
        return outside(given)
    if code == errno.EAGAIN:
        remedy = "Try again."
        return FileJailError(given, "cannot be opened: the tree keeps changing.", remedy=remedy)
    unknown = (FileJailError, f"cannot be used: {os.strerror(code).lower()}.")
    kind, words = _FAULTS.get(code, unknown)
    return kind(given, words, code=error.errno)


def kind_of(mode: int) -> str:
    """What something is that is no plain file."""
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "something else")


def not_a_file(given: str, mode: int) -> FileKindError:
    """The error for something that is no plain file."""
    return FileKindError(given, f"is {kind_of(mode)}, not a file.", code=errno.EISDIR)


def second_name(given: str) -> FileKindError:
    """The error for writing to a file that is also somewhere else, maybe outside."""
    return FileKindError(
        given,
        "has a second name (a hard link), so writing to it might change a file outside the root.",
        remedy="Remove it first, and write it again.",
        code=errno.EMLINK,
    )


def leads_through_link(given: str) -> FileJailError:
    """The error for a path with a link in it, where links are not followed."""
    remedy = "Use the path that the link leads to."
    return FileJailError(given, "leads through a symbolic link.", remedy=remedy)


def protected_error(given: str, name: str) -> ProtectedPathError:
    """The error for changing what is protected."""
    return ProtectedPathError(
        given,
        f"is protected: '{name}' and what is in it must not be changed.",
        remedy="Leave it as it is, and ask the user to change it.",
        code=errno.EACCES,
    )


def part_of_repository(given: str) -> ProtectedPathError:
    """The error for changing a file that git would take for a part of a repository which is not called `.git`."""
    return ProtectedPathError(
        given,
        "is protected: git would take it for a part of a repository, whose configuration can run programs.",
        remedy="Use another name or directory, or ask the user to change it.",
        code=errno.EACCES,
    )


def secret(given: str, name: str) -> ProtectedPathError:
    """The error for anything that is done to what nobody is to see."""
    return ProtectedPathError(
        given, f"is secret: '{name}' and what is in it must not be opened.", code=errno.EACCES
    )


def cannot_open(mode: str, error: Exception) -> UsageError:
    """The error for a mode or an encoding that there is not."""
    return UsageError(
        f"open(..., {mode!r}) does not work: {error}.",
        remedy="Use the modes of the built-in open: 'r', 'w', 'a', 'x', with 'b' and '+'.",
    )


def no_content(method: str, content: object, wanted: str, other: str) -> UsageError:
    """The error for content of the wrong kind."""
    return UsageError(
        f"{method} takes {wanted}, and was given {type(content).__name__}.",
        remedy=f"Use {other} for that, or convert it.",
    )
