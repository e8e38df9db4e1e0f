"""Whether git may use the user's credentials: only if no command can have changed what git runs with them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hookline.containment.links import link_out_of
from hookline.containment.processes import run_briefly
from hookline.containment.sandbox import emptied, inside_any

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
_RUNNERS = re.compile(
    r"(ba|da|z|k|c|tc|fi)?sh|env|sudo|nice|nohup|xargs|exec|eval|source|\.|python[\d.]*|pypy[\d.]*|node(js)?|deno"
    r"|bunx?|np[mx]|pnpm|yarn|ruby|perl|php|lua|pwsh|make|just|task|uvx?|poetry|pdm|pipx|pipenv|rye|hatch|go|cargo"
    r"|java|dotnet|direnv|mise|lefthook|pre-commit|husky"
)
"""Programs that run what they find in the directory they are started in."""
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

    def holds(self, path: str) -> bool:
        """Whether a command can have made what is at a path. What it sees as /tmp is its own."""
        real = Path(os.path.realpath(self.root / os.path.expanduser(path)))
        return inside_any(real, (*self.writable, *emptied()))

    def variables(self) -> dict[str, str]:
        """Variables that make git read the configuration that was checked here, and run no hooks."""
        variables = dict(_QUIET)
        inside = self.root / ".git"
        if inside.is_dir():
            variables |= {"GIT_DIR": str(inside), "GIT_COMMON_DIR": str(inside)}
            variables["GIT_WORK_TREE"] = str(self.root)
        if self.holds("~"):
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
    if _stays_here(settings, words):
        return ""
    reasons = (_against(location, setting, words[0]) for setting in settings)
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
    if not location.holds(str(inside)):
        return ""  # no command can have put one there
    found = link_out_of(os.path.realpath(inside))
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


def _against(location: GitLocation, setting: GitSetting, verb: str) -> str:
    """What there is against one setting."""
    origin, key, value = setting
    said = f"git's configuration has {key}={value!r}"
    kind, _, file = origin.partition(":")
    ours = os.path.realpath(location.root / ".git" / "config")
    if kind != "file" or (os.path.realpath(location.root / file) != ours and location.holds(file)):
        return f"{said} from a file that commands can change"
    if key in {"core.worktree", "extensions.worktreeconfig"}:
        return said
    if key == "include.path" or re.fullmatch(r"includeif\..*\.path", key):
        beside = os.path.join(os.path.dirname(location.root / file), os.path.expanduser(value))
        return f"{said}, a file that commands can change" if location.holds(beside) else ""
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
    if _SHELL & set(value) or _RUNNERS.fullmatch(os.path.basename(program)):
        return False
    if "/" in program and location.holds(program):
        return False
    values = [part for word in rest for part in (word, word.rpartition("=")[2])]
    return not any(
        location.holds(part) and ("/" in part or (location.root / part).is_file())
        for part in values
    )


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
        f"the hook '{hook}' may run what commands have written; `git push --no-verify` leaves it out, and "
        'place="host" runs it as you do'
    )


def _stays_here(settings: Sequence[GitSetting], words: Sequence[str]) -> bool:
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
