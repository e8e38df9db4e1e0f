"""Which commands need the network, and which of these also need the user's git credentials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hookline import containment  # what reads commands is loaded for the first of them
from hookline.capabilities.bash.git_credentials import GitLocation, objection
from hookline.containment import Sandbox, SandboxGrant

_PROGRAMS = """
    curl wget ssh scp sftp ftp lftp telnet nc ncat netcat ping traceroute dig nslookup host whois gh glab
    uvx apt apt-get aptitude dnf yum apk pacman zypper brew snap flatpak aws gcloud az kubectl helm doctl flyctl
    heroku vercel netlify rclone s3cmd
"""
_ALWAYS = frozenset(_PROGRAMS.split())
_SOMETIMES: Mapping[str, frozenset[str]] = {
    program: frozenset(words.split())
    for programs, words in {
        "git": "push pull fetch clone ls-remote",
        "npm pnpm yarn bun": "install i ci add update upgrade publish audit view info outdated login create dlx",
        "pip pip3": "install download index",
        "uv": "sync add lock pip tool python publish",
        "poetry pdm": "install add update lock publish",
        "pipx conda mamba": "install update upgrade create search",
        "cargo": "install fetch update publish search add",
        "go": "get install",
        "gem bundle": "install update push fetch",
        "composer": "install update require",
        "docker podman": "pull push login build run search",
        "terraform tofu pulumi": "init plan apply destroy up preview",
        "mvn": "deploy",
        "twine": "upload",
    }.items()
    for program in programs.split()
}
"""Programs that need it for some of what they do, by their sub-command."""

_OFFLINE = frozenset({"--offline", "--no-index", "--no-install", "--cached-only"})
"""Options of package managers for work without it."""
_NEWS = frozenset({"-o", "--outdated", "-u", "--uptodate"})
"""Options by which pip asks for the newest versions of what it lists."""
_GIT_OPTIONS = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"})
"""Options of git itself that are followed by a value."""
_RUNS_PROGRAMS = ("--u", "--e", "--rec")
"""How options begin that name a program to be run (`--upload-pack`, `--exec`), or go into submodules. git takes them
shortened. A remote with `::` in it names a program too."""
_GIT_KEYS = (
    "~/.ssh",
    "~/.git-credentials",
    "~/.config/git/credentials",
    "~/.netrc",
    "~/.config/gh",
)


@dataclass(frozen=True)
class NetworkGrant:
    """What a command gets together with the network, and a note on why it does not get more."""

    grant: SandboxGrant
    note: str = ""


def needs_network(command: str) -> bool:
    """Whether some part of a command is a program that uses the network, as far as its words show."""
    return any(
        _goes_out(each.argv) for each in containment.read_command(command).commands if each.argv
    )


def _goes_out(argv: tuple[str, ...]) -> bool:
    program, *rest = argv
    name = os.path.basename(program)
    if name in {"python", "python3"} and rest[:2] == ["-m", "pip"]:
        name, rest = "pip", rest[2:]
    if name == "rsync":
        return any(":" in word for word in rest)
    if name == "git":
        rest = _after_options(rest)
    if not _OFFLINE.isdisjoint(rest):
        return False
    words = [word for word in rest if not word.startswith("-")]
    if name == "git" and words[:1] == ["clone"]:
        return any(":" in word for word in words[1:2])  # else it is a directory
    if name == "uv" and words[:1] == ["pip"]:
        return words[1:2] in (["install"], ["sync"], ["compile"])
    if name in {"pip", "pip3"} and words[:1] == ["list"]:
        return not _NEWS.isdisjoint(rest)
    if name == "go" and rest[:1] == ["mod"]:
        return rest[1:2] in (["download"], ["tidy"])
    return name in _ALWAYS or (bool(words) and words[0] in _SOMETIMES.get(name, ()))


def _after_options(words: list[str]) -> list[str]:
    """The words of a git command after git's own options."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _GIT_OPTIONS else 1
    return words[at:]


def network_grant(command: str, cwd: Path, sandbox: Sandbox) -> NetworkGrant:
    """What a command gets that is given the network: with it, for a plain `git push` and its like, git's keys.

    Only where it is git's own doing what is run with them: one command, written out, in the repository of the work
    directory, whose configuration no command can change and names nothing that one can.
    """
    bare = NetworkGrant(SandboxGrant(network=True))
    words = _plain_git(command)
    if words is None or _is_in_another_repository(cwd, sandbox.root):
        return bare
    grant = _with_credentials(words)
    variables = sandbox.environment(grant=grant, place="workspace")
    location = GitLocation(sandbox.root, sandbox.writable, variables)
    reason = objection(location, words)
    if reason is not None:
        return replace(bare, note=f"git got no keys: {reason}" if reason else "")
    return NetworkGrant(replace(grant, env={**location.variables(), **grant.env}))


def _with_credentials(words: tuple[str, ...]) -> SandboxGrant:
    """The grant for `git <words>`. `git push -u` also writes the upstream of the branch into the configuration."""
    sets_upstream = words[0] == "push" and any(
        word == "-u" or word.startswith("--set-up") for word in words
    )
    socket = os.environ.get("SSH_AUTH_SOCK", "")
    agent = {"SSH_AUTH_SOCK": socket} if socket and os.path.exists(socket) else {}
    return SandboxGrant(
        network=True,
        reveal=(*_GIT_KEYS, *agent.values()),
        unprotected=(".git/config",) if sets_upstream else (),
        unix_sockets=bool(agent),
        env=agent,
    )


def _plain_git(command: str) -> tuple[str, ...] | None:
    """The words after `git`, if the command is nothing but a push, pull, fetch or ls-remote that runs no program."""
    reading = containment.read_command(command)
    if not reading.static or len(reading.commands) != 1 or not reading.commands[0].argv:
        return None
    program, *rest = reading.commands[0].argv
    if program != "git" or not rest or rest[0] not in _SOMETIMES["git"] - {"clone"}:
        return None
    named = (*_RUNS_PROGRAMS, "-u") if rest[0] == "ls-remote" else _RUNS_PROGRAMS
    is_plain = not any(word.startswith(named) or "::" in word for word in rest[1:])
    return tuple(rest) if is_plain else None


def _is_in_another_repository(cwd: Path, root: Path) -> bool:
    """Whether git would find a repository below the work directory, which a command may have made, or none of ours."""
    place = Path(os.path.realpath(cwd))
    while place != root:
        if not place.is_relative_to(root) or (place / ".git").exists() or (place / "HEAD").exists():
            return True
        place = place.parent
    return not (root / ".git").exists()
