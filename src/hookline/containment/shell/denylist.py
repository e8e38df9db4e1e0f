"""What is denied everywhere.

The list is short: changing user, devices and the machine, writes that change what the user's shell, git or an agent
does, and the removals of `removal.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from hookline.containment.links import is_inside_any, real_path
from hookline.containment.own_places import own_targets
from hookline.containment.protected import (
    AGENT_CONFIGURATION,
    INSTRUCTIONS,
    RUN_AT_LOGIN,
    RUN_BELOW,
)
from hookline.containment.shell.programs import PROGRAMS
from hookline.containment.shell.removal import REMOVERS, Location
from hookline.shell_text.runners import name_of
from hookline.wildcards import matches

PRIVILEGE = frozenset(
    "sudo sudoedit su doas pkexec run0 gosu su-exec runuser gksudo kdesudo newgrp".split()
)
_OTHER_USER = re.compile(r"--[re]+[ug]")
"""How the options of setpriv begin that change the user or the group."""
_PLAIN_OPTIONS = frozenset(
    "--no-new-privs --nnp --clear-groups --keep-groups --init-groups --reset-env".split()
)
"""Those of setpriv that take no value."""
_DOWN = frozenset("shutdown reboot halt poweroff telinit".split())
_DISKS = frozenset(
    "wipefs fdisk sfdisk cfdisk gdisk sgdisk parted blkdiscard mkswap mke2fs newfs".split()
)
_HARMLESS_DEVICES = frozenset(
    "null zero full random urandom stdin stdout stderr tty fd shm pts ptmx".split()
)
_SYSTEM = frozenset({"etc", "boot", "sys", "proc"})
_KEPT = frozenset(
    name.lower() for name in AGENT_CONFIGURATION | INSTRUCTIONS | RUN_AT_LOGIN
) | frozenset(
    """
    .bash_aliases .bashrc.d .zlogout .kshrc .cshrc .tcshrc .login .xinitrc .xprofile .xsessionrc .pam_environment
    config.fish .gitconfig .envrc authorized_keys
    """.split()
)
_KEPT_PAIRS = frozenset(
    {
        *((".hg", "hgrc"), ("fish", "conf.d"), ("fish", "functions")),
        *((above.lower(), name.lower()) for above, names in RUN_BELOW.items() for name in names),
    }
)
_KEPT_IN_GIT = frozenset({"hooks", "config", "config.worktree"})
_WRITERS = (
    frozenset(
        """
    tee touch truncate mkdir chmod chown chgrp chattr setfacl sponge mv mknod mkfifo ed ex vi vim nvim nano emacs
    """.split()
    )
    | REMOVERS
)
"""Programs that change each file they are given."""
_COPIERS = frozenset("cp ln install rsync scp".split())
"""Programs that change the last file they are given."""
_OUTPUT = r"-[a-zA-Z]*[oO]|--?out[a-z-]*"
"""How the option for the file that is written is called in most programs: `curl -o`, `gcc -o`, `git diff --output`."""
_OUTPUT_OPTIONS = {
    "wget": rf"{_OUTPUT}|-[a-zA-Z]*P|--directory-prefix",
    "sort": _OUTPUT,
    "tar": r"-[a-zA-Z]*C|--directory|-?(?=[a-zA-Z]*[cru])[a-zA-Z]*f",
    "unzip": r"-[a-zA-Z]*d",
    "find": r"-fprint0?|-fprintf|-fls",
    **dict.fromkeys(("cp", "mv", "ln", "install"), r"-[a-zA-Z]*t|--target-directory"),
}
"""Programs in which it is another one. To those that only read, `-o` is something else (`grep -o`, `ls -o`)."""
_GIT_RUNS = re.compile(
    r"""
    core\.(?: fsmonitor | hookspath | sshcommand | pager | editor | askpass | gitproxy | alternaterefscommand )
    | include\.path | includeif\..*\.path | init\.templatedir | sequence\.editor | pager\..* | interactive\.difffilter
    | diff\.external | diff\..*\.(?: command | textconv ) | filter\..*\.(?: clean | smudge | process )
    | merge\..*\.driver | (?: difftool | mergetool | browser | man | guitool )\..*\.(?: cmd | path )
    | credential\.(?: .*\. )?helper | gpg\.(?: .*\. )?program | gpg\.ssh\.defaultkeycommand
    | hook\..*\.command | remote\..*\.(?: receivepack | uploadpack | vcs ) | uploadpack\.packobjectshook
    | trailer\..*\.(?: cmd | command ) | submodule\..*\.update
    """,
    re.VERBOSE | re.DOTALL,
)
"""Settings of git that name a program, or a file that may name one."""
_GIT_READS = re.compile(r"--get.*|--list|--unset.*|--remove-section|--name-only|-l")
_SWITCHES = frozenset("true false yes no on off 1 0".split())


def find_denied(argv: Sequence[str], location: Location) -> str | None:
    """Why a command is denied everywhere, by its words alone; or None."""
    name, words = name_of(argv), argv[1:]
    if name in PRIVILEGE:
        return f"{name} gives it the rights of another user"
    if name == "setpriv" and _sets_user(words):
        return "setpriv gives it the rights of another user"
    if name == "chroot":
        return "chroot runs it in another root directory"
    if name in _DOWN or (name == "init" and words[:1] and words[0] in {"0", "1", "6", "S"}):
        return "it stops the machine"
    if name == "systemctl" and {"poweroff", "reboot", "halt", "kexec"} & set(words):
        return "it stops the machine"
    is_ours = name == "hookline" or list(words[:2]) == ["-m", "hookline"]
    if is_ours and "trust" in words and "--show" not in words:
        return "it changes what is trusted"
    if name.startswith("mkfs") or (name in _DISKS and not {"-l", "--list", "print"} & set(words)):
        return "it works on whole disks"
    for target in _files_written(name, words):
        if is_protected(target, location) or is_device(target, location):
            return f"it writes to {target}"
    return _check_git_config(words) if name == "git" else None


def _sets_user(words: Sequence[str]) -> bool:
    """Whether setpriv changes the user or the group. What follows its own options is for the program that it runs."""
    may_be_value = False
    for word in words:
        if _OTHER_USER.match(word):
            return True
        if word == "--" or not (word.startswith("-") or may_be_value):
            return False
        may_be_value = word.startswith("-") and "=" not in word and word not in _PLAIN_OPTIONS
    return False


def is_network(path: str) -> bool:
    """Whether bash would open a connection for a path."""
    return re.match("/+dev/+(?:tcp|udp)/", path) is not None


def is_device(text: str, location: Location) -> bool:
    """Whether a path is a disk or another device that must not be written to."""
    parts = location.path(text).split("/")
    return parts[1] == "dev" and len(parts) > 2 and parts[2] not in _HARMLESS_DEVICES


def is_protected(text: str, location: Location) -> bool:
    """Whether a write would change what the system, a shell, git or an agent does: as written, or where it leads."""
    path = location.path(text)
    if path.startswith("/dev/"):  # also where git's settings are the null device
        return _is_protected(path)
    leads = real_path(path)
    return any(map(_is_protected, {path, leads})) or is_inside_any(leads, own_targets())


def _is_protected(path: str) -> bool:
    parts = [part for part in path.lower().split("/") if part]
    if parts[:3] == ["proc", "self", "root"]:
        parts = parts[3:]
    if parts and parts[0] in _SYSTEM:
        return True
    if ".git" in parts:  # what is put into it may be called `hooks`
        inside = parts[parts.index(".git") + 1 :]
        if not inside or not _KEPT_IN_GIT.isdisjoint(inside):
            return True
    return any(map(_is_kept, parts)) or not _KEPT_PAIRS.isdisjoint(pairwise(parts))


def _is_kept(name: str) -> bool:
    """Whether a name is one of those, or a pattern that spells out most of one."""
    if not re.search(r"[*?\[]", name) or len(re.findall("[a-z]", name)) < 4 or len(name) > 40:
        return name in _KEPT
    return any(matches(one, name) for one in _KEPT)


def guess_name(name: str) -> str:
    """`r?` and `r[m]` may be rm."""
    if len(name) > 30 or not re.search(r"[?*\[]", name) or not re.search(r"\w", name):
        return name
    known = ("rm", "sudo", "dd", "su", "shutdown", "reboot", "tee")
    return next((one for one in known if matches(one, name)), name)


def _files_written(name: str, words: Sequence[str]) -> Iterator[str]:
    """The files that a command writes to, as far as its words say."""
    operands = [word for word in words if word and not word.startswith("-")]
    if name in _WRITERS or (
        name in {"sed", "perl"} and _has_option(words, r"-[A-Za-z]*i|--in-place")
    ):
        yield from operands
    elif name in _COPIERS:
        yield from operands[-1:]
    elif name == "dd":
        yield from (word[3:] for word in words if word.startswith("of="))
    is_reader = name in PROGRAMS or name.endswith("grep")
    option = _OUTPUT_OPTIONS.get(name, "(?!)" if is_reader else _OUTPUT)
    for word, following in pairwise([*words, ""]):
        if found := re.match(f"(?:{option})(?=[=/~.]|$)", word):
            value = word[found.end() :].lstrip("=") or following
            yield "" if re.match(r"\w+=", value) else value  # `ssh -o Name=value` is a setting


def _has_option(words: Sequence[str], option: str) -> bool:
    return any(re.match(option, word) for word in words)


def _check_git_config(words: Sequence[str]) -> str | None:
    """`git config` that has git run a program from now on, for whatever the user asks of it."""
    if "config" not in words:
        return None
    rest = words[words.index("config") + 1 :]
    if _GIT_READS.fullmatch(next((word for word in rest if word != "set"), "")):
        return None
    for key, value in pairwise(rest):
        is_shell = key.lower().startswith("alias.") and value.startswith("!")
        names_program = _GIT_RUNS.fullmatch(key.lower()) and value.lower() not in _SWITCHES
        if is_shell or names_program:
            return f"it makes git run the program in {key}"
    return None
