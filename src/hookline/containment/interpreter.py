"""The interpreter that runs us: where it is, for programs of our own beside it, and what must not be changed of it.

A virtual environment often lies in the project that an agent works on. What a contained command wrote into it would be
run outside, by us: a program in the place of `python`, a module that nobody has imported yet.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

PYTHON = os.path.realpath(sys.executable) if sys.executable else "python3"
"""Looked up now, before anything is run that could put another one there."""


def isolated_command(module: ModuleType) -> tuple[str, ...]:
    """The command that runs a module of ours as a program of its own, with the standard library and nothing else.

    Its text is taken along, not its path: what is in the file may be another text by then.
    """
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    return (PYTHON, "-I", "-S", "-c", text)


def compiled_code(module: ModuleType) -> bytes | None:
    """A module of ours as the interpreter keeps it, which need not be read and compiled again; None if it is not kept.

    It is for the same interpreter only, which a program without one of its own, a frozen one, does not have.
    """
    loader = getattr(module.__spec__, "loader", None)
    if not sys.executable or loader is None or not hasattr(loader, "get_code"):
        return None
    return marshal.dumps(loader.get_code(module.__name__))


def from_pipe(fd: int) -> tuple[str, ...]:
    """The command that runs, alone as well, what was compiled and comes by a pipe."""
    words = f"import marshal;exec(marshal.load(open({fd},'rb')))"
    return (PYTHON, "-I", "-S", "-c", words)


def environments_below(root: str | Path) -> list[str]:
    """The environments that we run in, as far as they are below a directory, relative to it."""
    real = os.path.realpath(root)
    found = {os.path.realpath(each) for each in (sys.prefix, sys.exec_prefix, sys.base_prefix)}
    return sorted(os.path.relpath(each, real) for each in found if each.startswith(f"{real}/"))


def module_places_in(roots: Iterable[Path]) -> list[str]:
    """Where modules are looked for, as far as that is in one of these directories and not in our environment."""
    found = []
    for each in sys.path:
        place = os.path.realpath(each or os.getcwd())
        for root in roots:
            own = [f"{root}/{name}/" for name in environments_below(root)]
            inside = f"{place}/".startswith(f"{root}/")
            if inside and not any(f"{place}/".startswith(each) for each in own):
                found.append(place)
    return list(dict.fromkeys(found))
