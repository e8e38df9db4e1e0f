"""Which commands print nothing but names of files, so that what they print may be shown in turn."""

from __future__ import annotations

from hookline.containment.shell.call import Use
from hookline.containment.shell.words import Command


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LS = _names("-1 -d -F -h -p -r -R -S -t -U -v -X --directory --reverse --recursive --sort")
"""With these `ls` prints whole names and nothing else. Hidden files, which it leaves out, are those with secrets."""
_FIND = _names("-printf -exec -execdir -ls")
"""With these find prints other things, or what it runs does."""
_FD = _names(
    "-s -i -g -F -a -L -p -0 -1 -d -t -e -E -S --glob --type --extension --exclude --max-depth --print0 --absolute-path"
)
_GIT = _names(
    "--name-only --diff-filter -z -c -m --deleted --modified --exclude-standard --full-name --no-renames"
)
"""The names in the index are those of files. A commit may name anything, a path from the root too."""
_GREP_LISTS = _names("-l -L --files-with-matches --files-without-match")
_GREP = _GREP_LISTS | _names(
    """
    -r -R -i -n -w -x -E -F -G -P -s -a -I -e -v -H -Z -m --include --exclude --exclude-dir --recursive --ignore-case
    --word-regexp --extended-regexp --fixed-strings --null --invert-match --regexp --dereference-recursive
    """
)
_RG = _GREP_LISTS | _names(
    "--files -i -n -w -x -F -P -s -S -a -e -g -t -T -v -0 -d -j -U --glob --type --type-not --ignore-case --null --sort"
)
_FILTERS = {
    "grep": _GREP - _names("-r -R -l -L --recursive --dereference-recursive") - _GREP_LISTS,
    "head": _names("-n -# --lines -q"),
    "tail": _names("-n -# --lines -q"),
    "sort": _names(
        "-u -r -n -f -V -h -R -d -b -k -t -s -z --unique --reverse --numeric-sort --version-sort"
    ),
    "uniq": _names("-i -z -f -s -w --ignore-case"),
}
"""Programs that print some of the lines they are given, whole, with these options."""


def prints_names(name: str, use: Use, *, fed: bool) -> bool:
    """Whether a command prints nothing but names of files that exist, or fewer of the names it is fed."""
    given = {option for option, _ in use.call.options}
    if name in {"cd", "which", "wc"}:
        return True
    if name == "seq":
        return given <= {"-w", "-#"}
    if name == "find":
        return _FIND.isdisjoint(use.call.texts)
    if name in {"ls", "fd", "fdfind"}:
        return given <= (_LS if name == "ls" else _FD)
    if name == "git":
        listed = use.verb == "diff" and "--name-only" in given and not use.call.operands
        return (listed or use.verb == "ls-files") and given <= _GIT
    if name == "rg":
        return given <= _RG and bool(given & (_GREP_LISTS | {"--files"}))
    if name in {"grep", "egrep"} and given & _GREP_LISTS:
        return given <= _GREP
    # What is not fed by a command of the line reads whatever a file, or whoever started the shell, has to say.
    return fed and _filters("grep" if name == "egrep" else name, use, given)


def _filters(name: str, use: Use, given: set[str]) -> bool:
    harmless = _FILTERS.get(name)
    if harmless is None or not given <= harmless:
        return False
    operands = use.call.operands
    of_pattern = name == "grep" and not given & {"-e", "--regexp"}
    return len(operands) <= (1 if of_pattern else 0)


def takes_names(command: Command, *, fed: bool) -> bool:
    """Whether a command reads what the one before it prints, and prints nothing itself."""
    whole = not any(value.text for _, value in command.assignments)  # IFS would take names apart
    names = [word for word in command.words[1:] if not word.text.startswith("-")]
    return whole and fed and command.words[0].text == "read" and len(names) == 1
