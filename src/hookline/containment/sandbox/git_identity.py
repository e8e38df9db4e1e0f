"""What git is told of the user inside the sandbox: who commits, and which files are ignored. Never the user's own file.

That file may hold tokens and name programs.
"""

from __future__ import annotations

import os

from hookline.containment.git_settings import settings_of_user

_HARMLESS = ("user.name", "user.email", "safe.directory", "core.excludesfile", "init.defaultbranch")
_WANTED = rf"^({'|'.join(_HARMLESS)})$"


def git_configuration(root: str) -> bytes:
    """A configuration file with the settings of the user's that are harmless, as they hold in a directory."""
    lines = []
    for key, value in settings_of_user(root, _WANTED):
        section, _, name = key.partition(".")
        lines.append(f"[{section}]\n\t{name} = {_quoted(value)}\n")
    return "".join(lines).encode(errors="surrogateescape")


def ignore_file() -> list[str]:
    """The user's own list of ignored files, where there is one."""
    named = [value for key, value in settings_of_user("/", _WANTED) if key == "core.excludesfile"]
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    paths = [os.path.expanduser(each) for each in named] or [f"{base}/git/ignore"]
    return [path for path in paths if os.path.isabs(path) and os.path.isfile(path)]


def _quoted(value: str) -> str:
    escaped = (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    )
    return f'"{escaped}"'
