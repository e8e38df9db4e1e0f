"""Archives: listing what is in them."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.containment.shell.options import Program, but, only
from hookline.containment.shell.words import Word


def _tar(words: Sequence[Word]) -> str | None:
    """Listing only; and no file with a colon, which tar fetches from another machine with a program."""
    if not words or not words[0].exact:
        return "it cannot be said what it does"
    first = words[0].text
    clusters = [
        word.text
        for word in words
        if word.start.startswith("-") and not word.start.startswith("--")
    ]
    if not first.startswith("-"):
        if not set(first) <= set("tvzjJaf"):
            return "it does more than list"
        clusters.append(first)
    lists = any("t" in cluster.partition("f")[0] for cluster in clusters)
    if not lists and Word("--list") not in words:
        return "it does more than list"
    far = next((word for word in words if ":" in word.text), None)
    return f"{far.text!r} may lie on another machine" if far else None


def _unzip(words: Sequence[Word]) -> str | None:
    first = words[0].text if words else ""
    asks = first in {"-l", "-v", "-t", "-Z", "-Z1", "-z", "-lv", "-lq", "-tq"}
    return None if asks else "it does more than list"


_LISTING = frozenset("-l -t -lv -tv -vl -vt --list --test".split())
_TO_OUTPUT = frozenset("-c -dc -cd -kc -ck -dkc -cdk --stdout".split())
_PRINTING = _TO_OUTPUT | {"-d", "-k", "--decompress", "--keep"}


def _gzip(words: Sequence[Word]) -> str | None:
    """Listing and testing, or printing; never both, for the last of them would count. After `--` all are files."""
    options = [word.text for word in words if word.start.startswith("-")]
    looks = all(option in _LISTING for option in options)
    prints = all(option in _PRINTING for option in options) and not _TO_OUTPUT.isdisjoint(options)
    return None if options and (looks or prints) else "it replaces files"


def _seven(words: Sequence[Word]) -> str | None:
    return None if words and words[0].text in {"l", "t"} else "it does more than list"


_COMPRESSED = Program(
    only("-l -t -c -d -v -k --list --test --stdout --decompress --keep", check=_gzip)
)

ARCHIVES: dict[str, Program] = {
    "tar": Program(
        only(
            "-t -v -z -j -J -a --list --verbose --gzip --bzip2 --xz --zstd --numeric-owner --full-time --wildcards",
            takes="-f -C --file --directory --exclude --strip-components",
            check=_tar,
        )
    ),
    "unzip": Program(only("-l -v -t -Z -Z1 -z -q -lv -lq -tq", check=_unzip)),
    "zipinfo": Program(but()),
    "gzip": _COMPRESSED,
    "gunzip": _COMPRESSED,
    "bzip2": _COMPRESSED,
    "xz": _COMPRESSED,
    "zstd": _COMPRESSED,
    "7z": Program(only("-slt -ba", check=_seven)),
}
