"""Commands that must never run, by their words."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence

from hookline.containment.shell.paths import (
    is_above,
    is_device,
    is_network,
    is_outside,
    is_protected,
)
from hookline.containment.shell.secrets import is_whole_home
from hookline.containment.shell.unwrap import name_of
from hookline.containment.shell.written import written_by

PRIVILEGE = frozenset(
    "sudo sudoedit su doas pkexec run0 gosu su-exec runuser gksudo kdesudo".split()
)
_DISKS = frozenset(
    "wipefs fdisk sfdisk cfdisk gdisk sgdisk parted blkdiscard mkswap mke2fs newfs sg_format".split()
)
_MAKES_DISK = re.compile(r"mk(?:fs|ntfs|dosfs|exfatfs|reiserfs|udffs)")
_ERASING = re.compile(
    r"(?i)--security-erase|--trim-sector|-[a-z]*w$|luksformat|erase|zerodisk|partitiondisk|format$|sanitize$"
)
_NEVER_ASKS = re.compile("--i[a-z]*=n")
_DOWN = frozenset("shutdown reboot halt poweroff telinit killall5 kexec".split())
Finding = str | None


def deadly(argv: Sequence[str], where: str = "") -> Finding:
    """Why a command must never run, seen from the directory `where`, or None."""
    name = _guess_name(name_of(argv))
    words = argv[1:]
    if name in PRIVILEGE:
        return f"{name} gives it the rights of another user"
    if name in _DOWN or (name == "init" and words[:1] and words[0] in {"0", "6", "1", "S"}):
        return "it stops the machine"
    listing = {"-l", "--list", "print"} & set(words)
    if _MAKES_DISK.match(name) or (name in _DISKS and not listing):
        return "it works on whole disks"
    if any(is_network(word) for word in words):
        return "it opens a connection through /dev/tcp"
    check = _CHECKS.get(name)
    return (check(words, where) if check else None) or written_by(name, words, where)


def _guess_name(name: str) -> str:
    """`r?` and `r[m]` may be rm."""
    if len(name) > 30 or not re.search(r"[?*\[]", name) or not re.search(r"\w", name):
        return name
    known = ("rm", "sudo", "dd", "su", "mkfs", "shutdown", "reboot", "chmod", "tee")
    return next((one for one in known if fnmatch.fnmatchcase(one, name)), name)


def _rm(words: Sequence[str], where: str) -> Finding:
    flags = [word for word in words if word.startswith("-")]
    recursive = any(_has(flag, "rR", "--recursive") for flag in flags)
    forced = any(_has(flag, "f", "--force") or _NEVER_ASKS.match(flag) for flag in flags)
    if recursive and forced:
        return "it removes whole directories without asking"
    if any(flag.startswith("--no-p") for flag in flags):
        return "it may remove the root directory"
    return _removed(words, where)


def _removed(words: Sequence[str], where: str) -> Finding:
    for word in words:
        if word.startswith("-"):
            continue
        if is_outside(word, where) or is_above(word):
            return f"it removes {word}, outside of where it works"
        if is_protected(word, where):
            return f"it removes {word}, which others run or obey"
    return None


def _has(flag: str, letters: str, long: str) -> bool:
    """Whether a word is a short option with one of these letters, or a long one, perhaps cut short."""
    if flag.startswith("--"):
        return len(flag) > 2 and long.startswith(flag)
    return any(letter in flag[1:] for letter in letters)


def _find(words: Sequence[str], where: str) -> Finding:
    roots = []
    for word in words:
        if word.startswith("-") or word in {"(", "!"}:
            break
        roots.append(word)
    found = [f"{root}/found" for root in roots]
    above = any(map(is_above, roots))
    if "-delete" in words and (above or any(is_outside(one, where) for one in found)):
        return "it removes files outside of where it works"
    if "-delete" in words and any(is_protected(one, where) for one in found):
        return "it removes what others run or obey"
    for at, word in enumerate(words):
        if word.startswith(("-fprint", "-fls")) and is_protected(
            "".join(words[at + 1 : at + 2]), where
        ):
            return f"it writes to {words[at + 1]}"
    return None


def _dd(words: Sequence[str], where: str) -> Finding:
    for word in words:
        if word.startswith("of=") and (is_device(word[3:]) or is_protected(word[3:], where)):
            return f"it writes to {word[3:]}"
    return None


def _owner(words: Sequence[str], where: str) -> Finding:
    recursive = any(_has(word, "R", "--recursive") for word in words if word.startswith("-"))
    for word in words[1:]:
        if word.startswith("-"):
            continue
        if is_protected(word, where) or (recursive and is_outside(word, where)):
            return f"it changes who may use {word}"
    return None


def _mv(words: Sequence[str], where: str) -> Finding:
    """Of several names the last is where the others go."""
    names = [word for word in words if not word.startswith("-")]
    for name in names[:-1] or names:
        whole = name.removesuffix("/*")
        if is_whole_home(whole or "/", where) or is_above(name):
            return f"it moves {name}"
    return None


def _systemctl(words: Sequence[str], _where: str) -> Finding:
    down = {
        "poweroff",
        "reboot",
        "halt",
        "kexec",
        "suspend",
        "hibernate",
        "rescue",
        "emergency",
        "soft-reboot",
    }
    verb = next((word for word in words if not word.startswith("-")), "")
    if re.match("status|show|cat|is-|list-|help|get-", verb):
        return None
    names = {word.removesuffix(".target") for word in words}
    return "it stops the machine" if down & names else None


def _erases(words: Sequence[str], _where: str) -> Finding:
    erases = any(_ERASING.match(word) for word in words)
    return "it works on whole disks" if erases else None


def _kill(words: Sequence[str], _where: str) -> Finding:
    return "it ends every process" if "-1" in words[1:] else None


def _netcat(words: Sequence[str], _where: str) -> Finding:
    runs = any(re.match(r"-[A-Za-z]*[ec]$|--(sh-)?exec|--lua-exec", word) for word in words)
    return "it gives a shell to the network" if runs else None


def _socat(words: Sequence[str], _where: str) -> Finding:
    runs = any(re.search(r"(?i)\b(exec|system):", word) for word in words)
    return "it gives a shell to the network" if runs else None


_CHECKS: dict[str, Callable[[Sequence[str], str], Finding]] = {
    "rm": _rm,
    **dict.fromkeys(("unlink", "shred", "rmdir"), _removed),
    "find": _find,
    **dict.fromkeys(("dd", "dcfldd", "dc3dd"), _dd),
    "mv": _mv,
    **dict.fromkeys(("systemctl", "loginctl"), _systemctl),
    "nvme": _erases,
    "hdparm": _erases,
    "badblocks": _erases,
    "cryptsetup": _erases,
    "diskutil": _erases,
    "kill": _kill,
    "socat": _socat,
    **dict.fromkeys(("nc", "ncat", "netcat"), _netcat),
    **dict.fromkeys(("chmod", "chown", "chgrp"), _owner),
}
