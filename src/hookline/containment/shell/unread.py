"""Code that nobody has read: what comes from the network, and data that has to be decoded first."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

SHELLS = frozenset("sh bash dash zsh ksh ash fish csh tcsh rbash mksh".split())
INTERPRETERS = re.compile(
    r"(?:python|pypy|perl|ruby|php|lua)[0-9.]*|node|nodejs|luajit|deno|bun|osascript|Rscript|tclsh|pwsh|make|[gm]?awk"
)
FETCHERS = frozenset(
    """
    curl wget fetch aria2c http https httpie xh lwp-request GET nc ncat netcat socat ftp tftp lynx w3m axel telnet
    """.split()
)
_ALWAYS_DECODE = frozenset(
    "uudecode zcat gunzip bzcat xzcat zstdcat lz4cat rev openssl gpg gpg2 uncompress".split()
)
_MAY_DECODE = frozenset("base64 base32 basenc xxd gzip bzip2 xz zstd gbase64".split())
_CODE_OPTION = re.compile(r"-[A-Za-z]*[cerf]$|--(?:eval|command|exec|file)$")
_QUOTES = re.compile(r"""['"\\]""")
_SEPARATORS = re.compile(r"[;\n|&(){}`]")


def name_of(argv: Sequence[str]) -> str:
    """The program's name without its directory."""
    return posixpath.basename(argv[0]) if argv else ""


def is_source(argv: Sequence[str]) -> bool:
    """Whether a command prints or stores what it fetches or decodes."""
    name = name_of(argv)
    if name in FETCHERS or name in _ALWAYS_DECODE:
        return True
    if name == "tr":  # to take characters out hides nothing
        return not any(word.startswith(("-d", "--delete")) for word in argv[1:])
    return name in _MAY_DECODE and any(re.match(r"-[A-Za-z]*[dDr]|--d", word) for word in argv[1:])


def is_unread(text: str) -> bool:
    """Whether one of the commands of a substitution is such a source, by its plain words."""
    pieces = _SEPARATORS.split(_QUOTES.sub("", text[:2000]))
    return any(is_source(piece.split()) for piece in pieces if piece.strip())


def runs_code(argv: Sequence[str]) -> bool:
    """Whether a command runs code that it is given."""
    name = name_of(argv)
    return name in SHELLS or name in {"eval", "source", "."} or bool(INTERPRETERS.fullmatch(name))


def code_words(argv: Sequence[str]) -> Iterator[str]:
    """The words of a command that are code, or name a file of code."""
    if not runs_code(argv):
        return
    if name_of(argv) == "eval":
        yield from argv[1:]
        return
    is_value = False
    for at, word in enumerate(argv[1:], start=1):
        if _CODE_OPTION.match(word):
            yield from argv[at + 1 : at + 2]
        elif not (is_value or word.startswith(("-", "+"))):
            yield word
            return
        is_value = word in {"-o", "+o", "-O", "+O", "--rcfile", "--init-file", "-W", "-X"}


def reads_code(argv: Sequence[str]) -> bool:
    """Whether a command runs what it is piped."""
    name = name_of(argv)
    if name == "eval" or name in {"at", "batch"}:
        return True
    if not runs_code(argv):
        return False
    if name == "make" or name.endswith("awk"):
        return any(word in {"-", "-f-", "/dev/stdin"} or "system(" in word for word in argv[1:])
    words = list(code_words(argv))
    piped = {"-", "-s", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}
    return not words or not piped.isdisjoint(argv) or argv[-1:] == ["-"]
