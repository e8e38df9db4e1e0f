"""The plugins of Cursor's that a user has: those put beside each other by hand, and those of a marketplace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_MANIFEST = Path(".cursor-plugin") / "plugin.json"
_WHOLE = ".cache-complete"


def plugin_roots(home: Path) -> Iterator[Path]:
    """The directory of each, once: what is there by hand goes before what was fetched under the same name."""
    directory = home / ".cursor" / "plugins"
    by_hand = [path.parent for path in sorted((directory / "local").glob("*/.cursor-plugin"))]
    yield from by_hand
    names = {path.name for path in by_hand}
    for path in sorted((directory / "cache").glob("*/*/")):
        root = _latest(path)
        if root is not None and path.name not in names:
            names.add(path.name)
            yield root


def _latest(directory: Path) -> Path | None:
    """Of the versions of a plugin that were fetched the last one; of those that are marked as whole, if any is."""
    try:
        found = [each for each in directory.iterdir() if (each / _MANIFEST).is_file()]
        whole = [each for each in found if (each / _WHOLE).exists()]
        return max(whole or found, key=lambda each: (each.stat().st_mtime, each.name), default=None)
    except OSError:  # what cannot be read is not there, for Cursor neither
        return None
