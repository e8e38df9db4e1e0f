"""What git is told of the user inside the sandbox: who commits, and which files are ignored. Never the user's own file.

That file may hold tokens and name programs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from functools import lru_cache

from hookline.containment.git_settings import GIT

_HARMLESS = ("user.name", "user.email", "safe.directory", "core.excludesfile", "init.defaultbranch")
_WANTED = rf"^({'|'.join(_HARMLESS)})$"
_TIMEOUT = 10.0


def git_configuration(root: str) -> bytes:
    """A configuration file with the settings of the user's that are harmless, as they hold in a directory."""
    lines = []
    for key, value in _settings(root, _changed()):
        section, _, name = key.partition(".")
        lines.append(f"[{section}]\n\t{name} = {_quoted(value)}\n")
    return "".join(lines).encode(errors="surrogateescape")


def ignore_file() -> list[str]:
    """The user's own list of ignored files, where there is one."""
    named = [value for key, value in _settings("/", _changed()) if key == "core.excludesfile"]
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    paths = [os.path.expanduser(each) for each in named] or [f"{base}/git/ignore"]
    return [path for path in paths if os.path.isabs(path) and os.path.isfile(path)]


def configuration_of_user() -> list[str]:
    """The files of the system and of the user in which git looks for settings, where there are any."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    named = os.environ.get("GIT_CONFIG_GLOBAL")
    own = [named] if named else [f"{base}/git/config", os.path.expanduser("~/.gitconfig")]
    return [path for path in ("/etc/gitconfig", *own) if os.path.isfile(path)]


def _changed() -> tuple[tuple[str, int], ...]:
    """The files that the settings are in, and when they changed last."""
    found = []
    for path in configuration_of_user():
        with contextlib.suppress(OSError):
            found.append((path, os.stat(path).st_mtime_ns))
    return tuple(found)


@lru_cache(maxsize=64)
def _settings(root: str, changed: tuple[tuple[str, int], ...]) -> tuple[tuple[str, str], ...]:
    """As git prints them: it knows what the user's file includes. Listing runs nothing."""
    if not changed or GIT is None:
        return ()
    argv = [GIT, "config", "--global", "--includes", "-z", "--get-regexp", _WANTED]
    env = {
        name: os.environ[name]
        for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")
        if name in os.environ
    }
    env |= {"PATH": os.path.dirname(GIT), "GIT_CONFIG_NOSYSTEM": "1"}
    for place in (root, "/"):  # a repository that cannot be read must not cost the user's name
        try:
            ran = subprocess.run(
                argv, cwd=place, env=env, capture_output=True, timeout=_TIMEOUT, check=True
            )
        except (OSError, subprocess.SubprocessError):
            continue
        entries = ran.stdout.decode(errors="surrogateescape").split("\0")
        pairs = (entry.partition("\n") for entry in entries if entry)
        return tuple((key, value) for key, _, value in pairs)
    return ()


def _quoted(value: str) -> str:
    escaped = (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    )
    return f'"{escaped}"'
