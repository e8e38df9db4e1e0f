"""Makes the places on which bubblewrap mounts something in a directory that lasts and that commands can write.

bubblewrap makes what is missing, and follows links on the way. A command that has ended may have left a link there, so
that it would be made outside. Nothing here follows a link. No command runs in the directory meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence

from hookline.containment.sandbox.paths import outermost
from hookline.containment.sandbox.quarantine import in_directory, move_aside, open_to_us
from hookline.errors import SandboxError

_ARGUMENTS = {
    **dict.fromkeys(
        ("--ro-bind", "--ro-bind-try", "--bind", "--dev-bind", "--symlink", "--file"), 2
    ),
    **dict.fromkeys(("--tmpfs", "--dev", "--proc", "--remount-ro"), 1),
    **dict.fromkeys(("--perms", "--size"), 1),
}
_OF_DIRECTORIES = ("--tmpfs", "--dev", "--proc")


def prepare_mount_points(options: Sequence[str], inside: str, directory: str) -> None:
    """Make what is mounted below `inside`, in the directory that is mounted there."""
    try:
        _make_all(dict(_destinations(options)), inside, directory)
    except OSError as error:
        raise SandboxError(
            f"'{directory}', which commands see as {inside}, cannot be prepared ({error.strerror}).",
            remedy="Nothing was run. Make room there, or name another directory with tmp=.",
        ) from None


def _make_all(kinds: Mapping[str, bool | None], inside: str, directory: str) -> None:
    below = [path for path in kinds if path.startswith(f"{inside}/")]
    for path in outermost(below):
        name = os.path.relpath(path, inside)
        *parents, _ = parts = name.split("/")
        for depth in range(1, len(parts)):
            _ensure(directory, "/".join(parents[:depth]), is_directory=True)
        is_directory = kinds[path]
        if is_directory is not None:
            _ensure(directory, name, is_directory=is_directory)


def _destinations(options: Sequence[str]) -> Iterator[tuple[str, bool | None]]:
    """Where something is mounted, each with whether it is a directory; None for a link."""
    words = iter(options)
    for option in words:
        given = [next(words) for _ in range(_ARGUMENTS[option])]
        if option == "--symlink":
            yield given[-1], None
        elif option not in ("--perms", "--size", "--remount-ro"):
            is_directory = option in _OF_DIRECTORIES or os.path.isdir(given[0])
            yield given[-1], is_directory


def _ensure(directory: str, name: str, *, is_directory: bool) -> None:
    """Have a directory or a file there. Anything else is moved aside."""
    kind = stat.S_ISDIR if is_directory else stat.S_ISREG
    facts = in_directory(directory, name, lambda last, at: os.lstat(last, dir_fd=at))
    if facts is not None and kind(facts.st_mode):
        if is_directory:
            open_to_us(f"{directory}/{name}", stat.S_IRWXU)
        return
    if facts is not None:
        move_aside(directory, name)
    in_directory(directory, name, _make_directory if is_directory else _make_file)


def _make_directory(name: str, at: int) -> bool:
    os.mkdir(name, 0o755, dir_fd=at)
    return True


def _make_file(name: str, at: int) -> bool:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(name, flags, 0o644, dir_fd=at))
    return True
