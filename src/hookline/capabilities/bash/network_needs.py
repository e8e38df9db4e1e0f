"""Which commands need the network, and which of these also need the user's git credentials."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from hookline import containment  # what reads commands is loaded for the first of them
from hookline.containment import Sandbox, SandboxGrant
from hookline.containment.links import link_out_of, real_path
from hookline.containment.processes import run_briefly
from hookline.containment.sandbox import emptied_directories, inside_any
from hookline.shell_text.runners import RUNNERS, RUNNERS_OF_ANY
from hookline.shell_text.started import is_interpreter, is_task_runner

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
_PLAIN_OPTIONS: Mapping[str, frozenset[str]] = {
    verb: frozenset(f"-q --quiet -v --verbose --progress -4 -6 {words}".split())
    for verb, words in {
        "push": "-u --set-upstream -f --force --force-with-lease --force-if-includes --tags --all --branches "
        "--follow-tags --atomic -n --dry-run -d --delete --prune --porcelain --no-verify --mirror",
        "pull": "--rebase -r --no-rebase --ff --ff-only --no-ff --autostash --no-autostash --no-edit --commit "
        "--no-commit --squash --no-squash --stat -n --no-stat --all -p --prune -t --tags --no-tags "
        "-f --force --unshallow --depth",
        "fetch": "--all -p --prune -P --prune-tags -t --tags --no-tags -f --force -n --dry-run --unshallow --depth "
        "-a --append -k --keep --atomic --multiple",
        "ls-remote": "-h --heads -b --branches -t --tags --refs --symref --exit-code --get-url",
    }.items()
}
"""The options of a command with keys. Another one may name a program (`--upload-pack`, `--strategy`), shortened too."""
_VALUES = re.compile(r"--(depth|force-with-lease|rebase)=[\w./:@^~-]*")
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
        _is_remote(each.argv) for each in containment.read_command(command).commands if each.argv
    )


def _is_remote(argv: tuple[str, ...]) -> bool:
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
        alone=True,
        env=agent,
    )


def _plain_git(command: str) -> tuple[str, ...] | None:
    """The words after `git`, if the command is nothing but a push, pull, fetch or ls-remote that runs no program."""
    reading = containment.read_command(command)
    if not reading.is_static or len(reading.commands) != 1 or not reading.commands[0].argv:
        return None
    program, *rest = reading.commands[0].argv
    if program != "git" or not rest or rest[0] not in _SOMETIMES["git"] - {"clone"}:
        return None
    options = [word for word in rest[1:] if word.startswith("-")]
    known = _PLAIN_OPTIONS[rest[0]]
    is_plain = all(word in known or _VALUES.fullmatch(word) for word in options)
    # A remote with `::` in it names a program.
    return tuple(rest) if is_plain and not any("::" in word for word in rest) else None


def _is_in_another_repository(cwd: Path, root: Path) -> bool:
    """Whether git would find a repository below the work directory, which a command may have made, or none of ours."""
    place = Path(real_path(cwd))
    while place != root:
        if not place.is_relative_to(root) or (place / ".git").exists() or (place / "HEAD").exists():
            return True
        place = place.parent
    return not (root / ".git").exists()


# --- whether git may use the credentials: only if no command can have changed what it runs with them -----


NETWORK = ("ssh", "https", "http", "git")
"""The ways to a remote on which keys are of use. On any other, git would run the hooks of a repository beside ours."""

_RUNS = re.compile(
    r"core\.(sshcommand|askpass|gitproxy|alternaterefscommand)|credential\.(.*\.)?helper|gpg\.(.*\.)?program"
    r"|gpg\.ssh\.defaultkeycommand|hook\..*\.command|remote\..*\.vcs|lfs\.(customtransfer|extension)\..*"
)
"""Settings that name a program that a push or a fetch runs. Editors, pagers, hooks and monitors are off."""
_RUNS_ON_FILES = re.compile(
    r"filter\..*\.(clean|smudge|process)|diff\.external|diff\..*\.(textconv|command)|merge\..*\.driver"
    r"|submodule\..*\.update"
)
"""Settings that name a program that a pull also runs, because it changes files."""
_PROGRAM_VARIABLES = frozenset({"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS"})
_PLAIN_VARIABLES = re.compile(r"GIT_(AUTHOR|COMMITTER)_\w+|GIT_SSL_CAINFO|GIT_SSH_VARIANT")
_RUN_FROM_DIRECTORY = frozenset(
    "uv poetry pdm pipx pipenv rye hatch java dotnet direnv mise lefthook husky".split()  # noqa: SIM905 - a table of names
)
"""More programs that run what they find in the directory they are started in."""
_SHELL = frozenset(";&|<>`$(){}*?\n")
_PATH = ("/", "./", "../", "~", "file:")
_URL = re.compile(r"[a-z+]+://|[^/:]+:(?!:)")


class GitSetting(NamedTuple):
    """One line of git's configuration, and the file it is in."""

    origin: str
    key: str
    value: str


@dataclass(frozen=True)
class GitLocation:
    """Where git is to run, and what commands can write there."""

    root: Path
    writable: Sequence[Path]
    env: Mapping[str, str]
    """The variables that git will have."""

    def can_hold(self, path: str) -> bool:
        """Whether a command can have made what is at a path. What it sees as /tmp is its own."""
        real = Path(real_path(self.root / os.path.expanduser(path)))
        return inside_any(real, (*self.writable, *emptied_directories()))

    def variables(self) -> dict[str, str]:
        """Variables that make git read the configuration that was checked here, and run no hooks."""
        variables = dict(_QUIET)
        inside = self.root / ".git"
        if inside.is_dir():
            variables |= {"GIT_DIR": str(inside), "GIT_COMMON_DIR": str(inside)}
            variables["GIT_WORK_TREE"] = str(self.root)
        if self.can_hold("~"):
            variables["GIT_CONFIG_GLOBAL"] = os.devnull
        return variables


_OFF = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    # What a submodule's own configuration says to run was not seen by the person who agreed.
    "fetch.recurseSubmodules": "no",
    "push.recurseSubmodules": "no",
    "submodule.recurse": "false",
}
_QUIET = {
    "GIT_CONFIG_COUNT": str(len(_OFF)),
    **{f"GIT_CONFIG_KEY_{at}": key for at, key in enumerate(_OFF)},
    **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(_OFF.values())},
    "GIT_ALLOW_PROTOCOL": ":".join(NETWORK),
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_PAGER": "cat",
}


def objection(location: GitLocation, words: Sequence[str]) -> str | None:
    """Why `git <words>` gets no keys; empty if it has no use for them, None if it may have them."""
    variables = location.variables()
    for name, value in location.env.items():
        if not _is_harmless_variable(location, name, value):
            return f"the variable {name} may have git run something else"
    if link := _link_out(location):
        return (
            f"{link} is a link that leads out of the repository, and git may print what it leads to"
        )
    settings = _settings(
        location, {name: variables[name] for name in variables if name not in _QUIET}
    )
    if settings is None:
        return "its configuration cannot be read"
    if _is_local(settings, words):
        return ""
    reasons = (_find_objection(location, setting, words[0]) for setting in settings)
    found = next(filter(None, reasons), None)
    return found or _hook_in_the_way(location, settings, words)


def _link_out(location: GitLocation) -> str:
    """A link in the repository's own directory that leads out of it; empty if there is none."""
    inside = location.root / ".git"
    if inside.is_file():
        try:
            named = inside.read_text(errors="surrogateescape").removeprefix("gitdir:").strip()
        except OSError:
            return ".git"
        inside = location.root / named
    if not location.can_hold(str(inside)):
        return ""  # no command can have put one there
    found = link_out_of(real_path(inside))
    return f"{os.path.relpath(inside, location.root)}/{found}" if found else ""


def _settings(location: GitLocation, where: Mapping[str, str]) -> list[GitSetting] | None:
    """All of git's configuration there, or None. Listing it runs nothing."""
    argv = ["git", "config", "--list", "--show-origin", "--includes", "-z"]
    env = {**location.env, **where}
    try:
        code, output, _ = run_briefly(argv, seconds=10, env=env, cwd=str(location.root))
    except OSError:
        return None
    if code:
        return None
    parts = output.decode(errors="surrogateescape").split("\0")
    lines = (entry.partition("\n") for entry in parts[1::2])
    return [
        GitSetting(origin, key, value)
        for origin, (key, _, value) in zip(parts[::2], lines, strict=False)
    ]


def _find_objection(location: GitLocation, setting: GitSetting, verb: str) -> str:
    """What there is against one setting."""
    origin, key, value = setting
    said = f"git's configuration has {key}={value!r}"
    kind, _, file = origin.partition(":")
    ours = real_path(location.root / ".git" / "config")
    if kind != "file" or (real_path(location.root / file) != ours and location.can_hold(file)):
        return f"{said} from a file that commands can change"
    if key in {"core.worktree", "extensions.worktreeconfig"}:
        return said
    if key == "include.path" or re.fullmatch(r"includeif\..*\.path", key):
        beside = os.path.join(os.path.dirname(location.root / file), os.path.expanduser(value))
        return f"{said}, a file that commands can change" if location.can_hold(beside) else ""
    runs = _RUNS.fullmatch(key) or (verb == "pull" and _RUNS_ON_FILES.fullmatch(key))
    if runs and not _is_from_outside(location, value):
        return f"{said}, which may run what commands have written"
    return ""


def _is_from_outside(location: GitLocation, value: str) -> bool:
    """Whether a command line is plainly that of a program which no command can have written, and which runs none."""
    try:
        words = shlex.split(value.removeprefix("!"))
    except ValueError:
        return False
    if not words:
        return True
    program, *rest = words
    if _SHELL & set(value) or _can_run_others(os.path.basename(program)):
        return False
    if "/" in program and location.can_hold(program):
        return False
    values = [part for word in rest for part in (word, word.rpartition("=")[2])]
    return not any(
        location.can_hold(part) and ("/" in part or (location.root / part).is_file())
        for part in values
    )


def _can_run_others(name: str) -> bool:
    """Whether a program runs others, or what it finds in the directory it is started in."""
    is_known = name in RUNNERS or name in RUNNERS_OF_ANY or name in _RUN_FROM_DIRECTORY
    return is_known or is_interpreter(name) or is_task_runner(name)


def _is_harmless_variable(location: GitLocation, name: str, value: str) -> bool:
    if name in _PROGRAM_VARIABLES:
        return _is_from_outside(location, value)
    return not name.startswith("GIT_") or _PLAIN_VARIABLES.fullmatch(name) is not None


def _hook_in_the_way(
    location: GitLocation, settings: Sequence[GitSetting], words: Sequence[str]
) -> str | None:
    """A hook may run anything in the work directory. To leave out one that checks a push is for the user to say."""
    if words[0] != "push" or "--no-verify" in words:
        return None
    places = [each.value for each in settings if each.key == "core.hookspath"]
    hook = location.root / os.path.expanduser(places[-1] if places else ".git/hooks") / "pre-push"
    if not os.access(hook, os.X_OK):
        return None
    return (
        f"the hook '{hook}' may run what commands have written; `git push --no-verify` skips it, and "
        'place="host" runs it as you do'
    )


def _is_local(settings: Sequence[GitSetting], words: Sequence[str]) -> bool:
    """Whether the remote is a directory, for which nobody needs keys."""
    urls: dict[str, list[str]] = {}
    for each in settings:
        found = re.fullmatch(r"remote\.(.*)\.(push)?url", each.key)
        if found:
            urls.setdefault(found[1], []).append(each.value)
    named = [url for word in words[1:] for url in urls.get(word, ())]
    if not named and any(word.startswith(_PATH) for word in words[1:]):
        return True
    known = named or [url for each in urls.values() for url in each]
    return bool(known) and not any(_URL.match(url) and not url.startswith("file:") for url in known)
