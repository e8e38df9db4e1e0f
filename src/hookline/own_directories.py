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

_CONFIGURATION = ("HOOKLINE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")
_DATA = ("HOOKLINE_DATA_DIR", "XDG_DATA_HOME", ".local/share")
_STATE = ("", "XDG_STATE_HOME", ".local/state")


def configuration_directory(environ: Mapping[str, str]) -> Path:
    """The directory of the user's own configuration and of the trust file."""
    return Path(_directories(environ, *_CONFIGURATION)[0])


def data_directory(environ: Mapping[str, str]) -> Path:
    """The directory of the journals."""
    return Path(_directories(environ, *_DATA)[0])


def state_directory(environ: Mapping[str, str]) -> Path:
    """The directory of transcripts, and of what is on record of commands that run now."""
    return Path(_directories(environ, *_STATE)[0])


def own_directories(environ: Mapping[str, str]) -> list[str]:
    """All of them, also those that a process without Hookline's own variables would use."""
    kinds = (_CONFIGURATION, _DATA, _STATE)
    return [path for each in kinds for path in _directories(environ, *each)]


def _directories(environ: Mapping[str, str], own: str, base: str, otherwise: str) -> list[str]:
    """What Hookline's own variable names, if it is set, and the usual directory. By text: each command asks."""
    named = os.path.expanduser(environ.get(own, ""))
    given = environ.get(base, "")
    # The XDG specification says that a relative path is ignored.
    below = given if os.path.isabs(given) else f"{home(environ)}/{otherwise}"
    usual = f"{below}/hookline"
    return [os.path.join(os.getcwd(), named), usual] if named else [usual]


def home(environ: Mapping[str, str]) -> Path:
    """The home directory. Without one it is the null device, in which no file can be."""
    known = environ.get("HOME") or os.path.expanduser("~")
    return Path(known) if os.path.isabs(known) else Path(os.devnull)
