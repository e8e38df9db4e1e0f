"""How to install what an extra needs: the remedy of every error about a package that is missing."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

_NEEDED_BY = re.compile(r"extra == ['\"]([^'\"]+)['\"]")
_OURS = re.compile(r"hookline\[([^]]+)\]")


def install_command(extra: str) -> str:
    """The command that installs what an extra needs, for the Python that runs now.

    It names the packages of the extra. `hookline[EXTRA]` would need an index that has Hookline, and a path the file
    that it was installed from. A checkout whose metadata is missing or old is named by its path.
    """
    has_pip = find_spec("pip") is not None
    python = shlex.quote(sys.executable)
    install = f"{python} -m pip install" if has_pip else f"uv pip install --python {python}"
    packages = list(dict.fromkeys(_packages(extra))) or [f"{Path(__file__).parents[2]}[{extra}]"]
    return f"{install} {' '.join(map(shlex.quote, packages))}"


def _packages(extra: str) -> Iterator[str]:
    try:
        required = metadata.requires("hookline") or []
    except metadata.PackageNotFoundError:
        return
    for each in required:
        package, _, marker = each.partition(";")
        if extra not in _NEEDED_BY.findall(marker):
            continue
        if ours := _OURS.fullmatch(package.strip()):
            for other in ours[1].split(","):
                yield from _packages(other)
        else:
            yield package.strip()
