"""Which settings of a repository make git start a program, though it is only asked to look.

A repository's own configuration comes with whatever made the repository: an archive, a checkout with another
repository inside, an earlier command. The user's own, in the home and in the system, is the user's affair and is not
read here.
"""

from __future__ import annotations

import os
import re
import stat
from functools import lru_cache

import msgspec

MAX_BYTES = 1_000_000
"""Of a configuration. A longer one is not read."""

_BLANK = re.compile(r"(?:[ \t\r\n]|[#;][^\n]*)*")
_BLANKS = " \t\r\n\f\v"
_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\.)*)")?\]')
_NAME = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:(=)|(?=\n)|\Z)")
_VALUE = re.compile(
    r'((?:[^\n\\"#;]|\\[\n\\"tnb]|"(?:[^"\\\n]|\\[\n\\"tnb])*")*)(?:[#;][^\n]*)?(?=\n|\Z)'
)
_ESCAPE = re.compile(r'\\([\n\\"tnb])|"')
_MEANS = {"\n": "", "t": "\t", "n": "\n", "b": "\b"}

_STARTS_PROGRAM = re.compile(
    r".*(?:command|cmd|program|driver|textconv|external|clean|smudge|process|hook|fsmonitor|difffilter)"
)
"""What the names of settings end in whose values are programs."""
_NOT_WHILE_LOOKING = frozenset(
    """
    browser credential difftool guitool gui instaweb man mergetool sendemail sequence svn tar trailer uploadpack web
    """.split()
)
"""Sections whose programs only verbs start that do more than look, or that git reads from the user's own files only."""
_FETCHES = frozenset({"core.sshcommand", "core.gitproxy", "core.askpass", "remote.uploadpack"})
"""What decides how objects are fetched. Looking fetches only where some were left out."""
_LEAVES_OUT = frozenset({"extensions.partialclone", "remote.promisor", "remote.partialclonefilter"})
"""With these, objects may be missing, and looking at them asks whatever server the repository names."""
_GOES_INSIDE = {
    "diff.submodule": {"short", "log"},
    "status.submodulesummary": {"false", "0", "no", "off"},
}
"""Settings by which git starts itself in the repositories inside, also in those that only a commit names, and the
values with which it does not."""
_LFS = re.compile(r"git-lfs (?:clean|smudge(?: --skip)?) -- %f|git-lfs filter-process(?: --skip)?")
"""What git-lfs sets for itself, also in a repository."""
_PASSWORD = re.compile(r"://[^/@]+@(?<!://git@)")
_PLAIN_PAGER = re.compile(r"(?:cat|less|more|true|false|)(?: -[FRSXMNiq]+)*")
_SWITCHES = frozenset({"", "true", "false", "no", "off", "0"})
"""Values of `core.fsmonitor` that name no program, to a git that does not know them as switches either."""


class Unreadable(Exception):
    """A configuration of which it cannot be said what it sets."""


class Setting(msgspec.Struct, frozen=True):
    """One setting: `[section "part"] name = value`. Section and name in small letters."""

    section: str
    part: str
    name: str
    value: str

    @property
    def key(self) -> str:
        """The section and the name, without what stands between them."""
        return f"{self.section}.{self.name}"


def read_settings(path: str) -> tuple[Setting, ...]:
    """The settings in a file; none if there is no file. Raises `Unreadable` where git might see others."""
    fd = _opened(path)
    if fd is None:
        return ()
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
            raise Unreadable(f"{path} cannot be read")
        return _kept(
            fd, (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        )
    finally:
        os.close(fd)


_read: dict[tuple[int, ...], tuple[Setting, ...]] = {}


def _kept(fd: int, version: tuple[int, ...]) -> tuple[Setting, ...]:
    """What was read before of the same version of a file, or what is read now."""
    found = _read.get(version)
    if found is None:
        text = os.read(fd, MAX_BYTES + 1).decode(errors="surrogateescape")
        found = parse_settings(text)
        if len(_read) > 500:
            _read.clear()
        _read[version] = found
    return found


def _opened(path: str) -> int | None:
    """A file that is opened without waiting for anybody, as one would at a pipe."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path} cannot be read") from error


def parse_settings(text: str) -> tuple[Setting, ...]:
    """Read a configuration as git does, but give up on anything odd."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    settings: list[Setting] = []
    section = part = ""
    at = _end(_BLANK, text, 0)
    while at < len(text):
        if found := _SECTION.match(text, at):
            section, _, dotted = found[1].lower().partition(".")
            part = dotted if found[2] is None else re.sub(r"\\(.)", r"\1", found[2])
        else:
            found = _NAME.match(text, at)
            if found is None or not section:
                raise Unreadable("its configuration cannot be read")
            name, value = found[1].lower(), "true"
            if found[2]:
                found = _VALUE.match(text, found.end())
                if found is None:
                    raise Unreadable("its configuration cannot be read")
                written = found[1].strip(_BLANKS)  # in quotes they are kept
                value = _ESCAPE.sub(lambda one: _MEANS.get(one[1] or "", one[1] or ""), written)
            settings.append(Setting(section, part, name, value))
        at = _end(_BLANK, text, found.end())
    return tuple(settings)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def starting_program(settings: tuple[Setting, ...], verbs: frozenset[str]) -> str | None:
    """The first setting by which git would start a program while it only looks, or None.

    `verbs` are those that are allowed: one that git does not know itself could be a program of the configuration's.
    """
    return next((one.key for one in settings if _starts(one, verbs)), None)


def kept_secret(settings: tuple[Setting, ...]) -> str | None:
    """The first setting that holds a secret: a header that is sent along, or an address with a password in it."""
    secrets = (one for one in settings if one.name == "extraheader" or _PASSWORD.search(one.value))
    return next((one.key for one in secrets), None)


@lru_cache(1000)
def _starts(one: Setting, verbs: frozenset[str]) -> bool:
    if one.section == "alias":
        return (one.part or one.name) in verbs
    if one.key == "core.fsmonitor":
        return one.value.lower() not in _SWITCHES
    if one.section == "pager" or one.key == "core.pager":
        return _PLAIN_PAGER.fullmatch(one.value) is None
    if one.key in _LEAVES_OUT:
        return True
    if one.key in _GOES_INSIDE:
        return one.value.lower() not in _GOES_INSIDE[one.key]
    if one.section in _NOT_WHILE_LOOKING or one.key in _FETCHES:
        return False
    return _STARTS_PROGRAM.fullmatch(one.name) is not None and not _is_known(one)


def _is_known(one: Setting) -> bool:
    switch = one.value.lower() in {"true", "false"} and one.section != "core"
    return switch or (one.section == "filter" and _LFS.fullmatch(one.value) is not None)
