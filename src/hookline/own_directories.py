"""Where Hookline keeps its own files: configuration and trust, data such as journals, and state.

The configuration, the containment and the command hooks ask here. Each of them had a definition of its own, and a
relative path meant one directory to the code that wrote and another to the code that protected.

platformdirs is not used: the core needs these locations too (trust in command hooks), and has no extras; and a place
that changes when an extra is installed would lose the user's trust file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hookline.errors import ConfigError

_CONFIGURATION = ("HOOKLINE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")
_DATA = ("HOOKLINE_DATA_DIR", "XDG_DATA_HOME", ".local/share")
_STATE = ("", "XDG_STATE_HOME", ".local/state")


def configuration_directory(environ: Mapping[str, str]) -> Path:
    """The directory of the user's own configuration and of the trust file."""
    return _directory(environ, *_CONFIGURATION)


def data_directory(environ: Mapping[str, str]) -> Path:
    """The directory of the journals."""
    return _directory(environ, *_DATA)


def state_directory(environ: Mapping[str, str]) -> Path:
    """The directory of transcripts, and of what is on record of commands that run now."""
    return _directory(environ, *_STATE)


def own_directories(environ: Mapping[str, str]) -> list[str]:
    """All of them, also those that a process without Hookline's own variables would use."""
    kinds = (_CONFIGURATION, _DATA, _STATE)
    return [path for each in kinds for path in _directories(environ, *each)]


def _directory(environ: Mapping[str, str], own: str, base: str, otherwise: str) -> Path:
    """The one that is used. A relative path is an error: a repository could bring its own trust file."""
    if environ.get(own) and not os.path.isabs(os.path.expanduser(environ[own])):
        raise ConfigError(
            f"{own}={environ[own]!r} is a relative path: each directory that you enter would decide what is in it.",
            remedy=f"Set {own} to a whole path, or unset it.",
        )
    return Path(_directories(environ, own, base, otherwise)[0])


def _directories(environ: Mapping[str, str], own: str, base: str, otherwise: str) -> list[str]:
    """What Hookline's own variable names, if it is set, and the usual directory. By text: each command asks."""
    named = os.path.expanduser(environ.get(own, ""))
    given = environ.get(base, "")
    # The XDG specification says that a relative path is ignored.
    below = given if os.path.isabs(given) else f"{home(environ)}/{otherwise}"
    usual = f"{below}/hookline"
    return [whole_path(named), usual] if named else [usual]


def whole_path(path: str) -> str:
    """A path from the root on. Nothing is found by a relative one if the working directory was removed."""
    try:
        return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    except FileNotFoundError:
        return os.path.join(os.devnull, path)


def home(environ: Mapping[str, str]) -> Path:
    """The home directory. Without one it is the null device, in which no file can be."""
    known = environ.get("HOME") or os.path.expanduser("~")
    return Path(known) if os.path.isabs(known) else Path(os.devnull)
