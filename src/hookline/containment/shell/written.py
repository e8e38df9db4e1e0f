"""The files that a command writes to, as far as its words say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from hookline.containment.shell.paths import is_device, is_outside, is_protected
from hookline.containment.shell.unwrap import INTERPRETERS

_WRITES_ALL = frozenset(
    """
    tee touch truncate shred unlink rmdir mkdir chattr setfacl patch mkfifo mknod sponge ed ex vi vim nvim nano emacs
    micro script
    """.split()
)
_WRITES_LAST = frozenset("cp mv ln install rsync scp sftp ditto".split())
_INTO_DIRECTORY = frozenset({"cp", "mv", "ln", "install"})
_WRITES_SECOND = {"uniq": "-f -s -w", "xxd": "-c -g -l -o -s -n", "split": "-a -b -C -l -n"}
"""Programs whose second name is what they write, and their options with a value."""
_OUTPUT_OPTIONS = {
    "curl": r"-[a-zA-Z]*o|--output(-dir)?",
    "wget": r"-[a-zA-Z]*[OPoa]|--output-document|--directory-prefix|--output-file|--append-output",
    "sort": r"-[a-zA-Z]*o|--o[a-z]*",
    "tar": r"-[a-zA-Z]*C|--directory",
    "bsdtar": r"-[a-zA-Z]*C|--directory",
    "cpio": r"-[a-zA-Z]*D|--directory",
    "unzip": r"-[a-zA-Z]*d",
    "7z": r"-o",
    "aria2c": r"-[od]|--out|--dir",
    "gpg": r"-o|--output",
    "openssl": r"-out",
    "iconv": r"-o|--output",
    "csplit": r"-f|--prefix",
    "patch": r"-[do]|--directory|--output",
}
_OF_GIT = {
    **dict.fromkeys(("archive", "format-patch"), r"-o|--output(-directory)?"),
    **dict.fromkeys(
        "diff log show shortlog stash reflog whatchanged diff-tree diff-index".split(), "--output"
    ),
    "apply": "--directory",
    "config": "-f|--file",
}
_ASKS_ABOUT_KEYS = re.compile(r"-[a-zA-Z]*[lyFBHLQ]")
_STRING = re.compile(r"'([^'\n]{1,200})'|\"([^\"\n]{1,200})\"")
_DOES_WITH = re.compile(
    r"(?:write|append|unlink|remove|rename|rmtree|rm_?rf|rmSync|copy|symlink|truncate|chmod|touch|file_put_contents|mkdir)"
    r"\w*\W{0,4}[^;\n]*$"
)
_OPENED_TO_WRITE = re.compile(
    r"\)*\s*(?:,\s*(?:mode\s*=\s*)?['\"]b?[wax+]|\.(?:write|touch|unlink|rename|append|open\(['\"][wax]))"
)
_REMOVES_TREE = re.compile(r"(?:rmtree|rm_?rf|rmSync|rimraf|remove_tree)\W{0,4}[^;\n]*$")
_LONGEST_CODE = 4_000


def written_by(name: str, words: Sequence[str], where: str) -> str | None:
    """What a command writes to that must not be written to, or None."""
    for target in _targets(name, words):
        if target and (is_protected(target, where) or is_device(target)):
            return f"it writes to {target}"
    if INTERPRETERS.fullmatch(name):
        return next((found for word in words if (found := _in_code(word, where))), None)
    return None


def _targets(name: str, words: Sequence[str]) -> Iterator[str]:
    names = [word for word in words if not word.startswith("-")]
    if name in _WRITES_ALL or (name == "install" and _has_flag(words, "d")):
        yield from names
    if name in _WRITES_LAST:
        yield from names if name == "mv" else names[-1:] if len(names) > 1 else ()
    if name in _INTO_DIRECTORY:
        yield from _after_option(r"-[a-zA-Z]*t|--t[a-z-]*", words)
    if name in _WRITES_SECOND:
        yield from _operands(words, _WRITES_SECOND[name])[1:]
    if option := _OUTPUT_OPTIONS.get(name):
        yield from _after_option(option, words)
    if more := _OTHERS.get(name):
        yield from more(words)


def _has_flag(words: Sequence[str], letter: str) -> bool:
    return any(re.match(rf"-[a-zA-Z]*{letter}", word) for word in words)


def _after_option(option: str, words: Sequence[str]) -> Iterator[str]:
    """The values of an option, in the next word or in the same."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if found := re.match(option, word):
            yield word[found.end() :].lstrip("=") or following


def _operands(words: Sequence[str], taking: str) -> list[str]:
    pairs = zip(("", *words), words, strict=False)
    return [
        word for before, word in pairs if not (word.startswith("-") or before in taking.split())
    ]


def _git(words: Sequence[str]) -> Iterator[str]:
    verb = next((word for word in words if not word.startswith("-")), "")
    asks = {"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"} & set(words)
    if (option := _OF_GIT.get(verb)) and not asks:
        yield from _after_option(f"(?:{option})(?=$|=)", words)
    if verb in {"mv", "clone"}:
        names = [word for word in words if not word.startswith("-")]
        yield from names[-1:] if len(names) > 2 else ()


def _edited(words: Sequence[str]) -> Iterator[str]:
    """What is edited in place: each word may be the file."""
    if any(re.match(r"-[A-Za-z]*i|--in-?place", word) for word in words):
        yield from words


def _sed(words: Sequence[str]) -> Iterator[str]:
    yield from _edited(words)
    for word in words:
        yield from re.findall(r"(?:^|[;{}0-9$/,|gpI ])w\s{1,9}(\S{1,200})", word[:_LONGEST_CODE])


def _awk(words: Sequence[str]) -> Iterator[str]:
    if "inplace" in words:
        yield from words
    for word in words:
        yield from re.findall(r'>>?\s{0,9}"([^"]{1,200})"', word[:_LONGEST_CODE])


def _ssh_keygen(words: Sequence[str]) -> Iterator[str]:
    if not any(map(_ASKS_ABOUT_KEYS.match, words)):
        yield from _after_option("-f", words)


_OTHERS: dict[str, Callable[[Sequence[str]], Iterator[str]]] = {
    "git": _git,
    "ssh-keygen": _ssh_keygen,
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("perl", "ruby", "yq"), _edited),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
}


def _in_code(code: str, where: str) -> str | None:
    """What a program that is given as text writes to, or removes, by a name that stands in it."""
    code = code[:_LONGEST_CODE]
    for found in _STRING.finditer(code):
        path = found[1] or found[2]
        before = code[max(0, found.start() - 60) : found.start()]
        after = code[found.end() : found.end() + 40]
        writes = path.startswith(">") or _DOES_WITH.search(before) or _OPENED_TO_WRITE.match(after)
        if writes and is_protected(path.lstrip("<>+ "), where):
            return f"it writes to {path}"
        if _REMOVES_TREE.search(before) and is_outside(path, where):
            return f"it removes {path}, outside of where it works"
    return None
