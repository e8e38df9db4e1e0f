"""Where code may come from that nobody has read: the network, and data that has to be decoded first."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from itertools import pairwise

from hookline.containment.shell.unwrap import INTERPRETERS, name_of

_FETCHERS = frozenset(
    """
    curl wget fetch aria2c http https httpie xh curlie lwp-request lwp-download GET nc ncat netcat socat ftp tftp lynx
    links elinks w3m axel ssh telnet dig nslookup host drill kdig smbclient
    """.split()
)
_STORERS = frozenset("wget aria2c axel fetch lwp-download ftp tftp".split())
"""Those that put what they get in a file of the same name."""
_ALWAYS_DECODE = frozenset(
    "uudecode zcat gunzip bzcat xzcat zstdcat lz4cat rev openssl gpg gpg2 b64decode funzip unlz4 uncompress".split()
)
_MAY_DECODE = frozenset(
    "base64 base32 basenc xxd gzip bzip2 xz zstd gbase64 uuencode lz4 brotli lzop".split()
)
_UNPACKS = {
    "unzip": r"-[A-Za-z]*[pc]",
    "tar": r"-?[A-Za-z]*O|--to-stdout",
    "bsdtar": r"-?[A-Za-z]*O",
    "7z": r"-so",
}
"""What prints what is in an archive."""
_FETCHES = re.compile(
    r"urlopen|urlretrieve|requests\.get|httpx\.get|\bfetch\(|https?\.get|LWP|Net::HTTP|file_get_contents\(.http|open-uri"
)
_OF_HOST = re.compile(r"[\w.@-]+:(?!\\)")

_FETCHES_AND_RUNS = re.compile(
    rf"(?s)(?=.{{0,4000}}({_FETCHES.pattern}))"
    r"(?=.{0,4000}(\bexec|\beval|system|compile\())"
)
_LONGEST = 4_000
_DECODING = (
    r"(?:b64decode|b32decode|b85decode|decode_base64|base64_decode|decode64|atob\(|['\"]base64['\"]|unhexlify|fromhex"
    r"|codecs\.decode|rot13|decompress\(|gzinflate|marshal\.loads|pickle\.loads|unpack\(|\bpack\(['\"]?[Hh])"
)
_DECODES_AND_RUNS = re.compile(
    rf"(?s)(?=.{{0,4000}}{_DECODING})(?=.{{0,4000}}(?:\b(?:exec|eval|compile|Function|passthru)\b"
    rf"|(?:system|popen|subprocess|execSync|spawn)[^;\n]{{0,200}}{_DECODING}))"
)


_GIVES_SHELL = re.compile(
    r"(?s)(?=.{0,4000}(?:connect\(|fsockopen|TCPSocket|net\.Socket|/inet/tcp))"
    r"(?=.{0,4000}(?:dup2|pty\.spawn|\bexec|popen|spawn\(|proc_open|system\(|bin/(?:ba)?sh|\|\s*getline))"
)
"""A program that opens a connection, and runs what comes from there."""


def is_fetch(argv: Sequence[str]) -> bool:
    """Whether a command prints or stores what it gets from the network."""
    name = name_of(argv)
    if name == "gh":
        return argv[1:2] == ["api"] or argv[1:3] in (["gist", "view"], ["release", "download"])
    if name in {"aws", "gsutil", "gcloud", "rclone"}:
        return bool({"cp", "cat", "sync", "copy"} & set(argv[1:]))
    if name in {"scp", "sftp", "rsync"}:
        return any(map(_OF_HOST.match, argv[1:-1]))
    if name in {"svn", "git", "az"}:
        return "cat" in argv or "download" in argv or any("--remote=" in word for word in argv)
    if INTERPRETERS.fullmatch(name):
        return any(_FETCHES.search(word[:_LONGEST]) for word in argv[1:])
    return name in _FETCHERS


def is_decoder(argv: Sequence[str]) -> bool:
    """Whether a command turns data into something else that cannot be read beforehand."""
    name = name_of(argv)
    if name in _ALWAYS_DECODE:
        return True
    if name in _UNPACKS:
        return any(re.match(_UNPACKS[name], word) for word in argv[1:])
    if INTERPRETERS.fullmatch(name):
        decodes = any(re.search(_DECODING, word[:_LONGEST]) for word in argv[1:])
        return decodes or argv[1:3] == ["-m", "base64"]
    if name == "tr":  # taking characters out hides nothing
        return not any(word.startswith(("-d", "--delete")) for word in argv[1:])
    return name in _MAY_DECODE and any(re.match(r"-[A-Za-z]*[dDr]|--d", word) for word in argv[1:])


def stored_by(argv: Sequence[str]) -> list[str]:
    """The files in which a fetch puts what it gets."""
    names: list[str] = []
    if name_of(argv) in {"scp", "sftp", "rsync"}:
        names += [argv[-1]]
    below = next((after for word, after in pairwise(argv) if word in {"-P", "--output-dir"}), "")
    for at, word in enumerate(argv):
        if word in {"-o", "-O", "--output", "--output-document"} or re.fullmatch(
            r"-[A-Za-z]+[oO]", word
        ):
            names += argv[at + 1 : at + 2]
        elif found := re.match(r"--output(?:-document)?=|-[A-Za-z]{0,5}[oO](?=[\w/.~])", word):
            names.append(word[found.end() :])
        if ("/" in word or (at and name_of(argv) in _STORERS)) and not word.startswith("-"):
            names.append(posixpath.join(below, posixpath.basename(word.partition("?")[0])))
    return [posixpath.normpath(name) for name in names if name and name != "-"]


def runs_unread(code: str) -> bool:
    """Whether a program looks as if it ran what it fetches or decodes."""
    if len(code) <= 10:
        return False
    forms = (_FETCHES_AND_RUNS, _DECODES_AND_RUNS, _GIVES_SHELL)
    return any(form.match(code) for form in forms)
