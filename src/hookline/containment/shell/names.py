"""Which commands print nothing but names of files, so that what they print may be shown in turn."""

from __future__ import annotations

from hookline.containment.shell.call import Use
from hookline.containment.shell.words import Command

_MORE = ("--format", "--label", "--path-separator", "--json", "--replace")
"""Options of programs that print names, with which they print other things."""
_PARTS = ("-o", "-c", "--only-matching", "--count", "--bytes", "-b", "--byte-offset")
"""Options of filters with which they print parts of names, which may be other names."""
_LISTS = ("-l", "--files-with-matches", "-L", "--files-without-match")
_PATCHES = ("-p", "-u", "-U", "--patch", "--unified", "--stat", "--raw", "--summary")
_HIDDEN = ("--hidden", "--unrestricted", "--no-ignore")
_RECURSIVE = ("-r", "-R", "--recursive", "--dereference-recursive")


def prints_names(name: str, use: Use) -> bool:
    """Whether a command prints nothing but names of files that exist, or fewer of the names it is given."""
    call = use.call
    if call.has(*_MORE):
        return False
    if name == "seq":
        return not call.has("-f", "-s", "-t", "--separator", "--terminator")
    if name == "which":
        return True
    if name == "ls":  # hidden files are those with secrets
        return not call.has("-a", "-A", "-f", "--all", "--almost-all")
    if name == "find":  # what it runs may print anything
        return {"-printf", "-exec", "-execdir", "-ls"}.isdisjoint(call.texts)
    if name in {"fd", "fdfind", "cd", "wc"}:
        return name in {"cd", "wc"} or not call.has("-l", "-H", "-u", *_HIDDEN, "--list-details")
    if name == "git":
        lists = use.verb in {"ls-tree", "diff"} and call.has("--name-only")
        files = use.verb == "ls-files" and not call.has("-o", "--others")
        return files or (lists and not call.has(*_PATCHES))
    if name == "rg":
        return call.has(*_LISTS, "--files") and not call.has("-r", "-u", "-.", *_HIDDEN)
    if name in {"grep", "egrep"} and call.has(*_LISTS):
        return True
    return _filters(name, use)


def _filters(name: str, use: Use) -> bool:
    """Whether a command prints some of the lines it is given, whole."""
    call = use.call
    if name in {"grep", "egrep"}:
        files = call.files if not call.values("-f", "--file") else call.operands
        return not (files or call.has(*_PARTS) or call.has(*_RECURSIVE))
    if name in {"head", "tail", "sort", "uniq"}:
        return not (call.operands or call.has(*_PARTS))
    return False


def takes_names(command: Command, *, fed: bool) -> bool:
    """Whether a command reads what the one before it prints, and prints nothing itself."""
    whole = not any(value.text for _, value in command.assignments)  # IFS would take names apart
    return whole and fed and command.words[0].text == "read"
