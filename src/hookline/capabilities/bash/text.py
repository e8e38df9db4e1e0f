"""Output as a model reads it: text, whatever bytes were printed, and a note of what came of the command."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hookline.containment.sandbox import Excerpt, Place

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
"""Colours, cursor movements, titles: meant for a terminal."""
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n\r])")
"""What a line was before it was written over, as progress bars do."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_BLANK = re.compile(r"\s")
_WORD = 300
"""Letters of a word that is cut in two which are left out with the rest: half a token is not known to be one."""

_HINTS: tuple[tuple[re.Pattern[str], Mapping[Place, str]], ...] = (
    (
        re.compile(
            r"read-only file system|\bEROFS\b|readonly database|unable to open database file"
            r"|device or resource busy"
            r"|\.(git|github|claude|codex|gemini|cursor|vscode|idea|hookline|devcontainer|envrc|mcp\.json"
            r"|agents|husky|windsurf|cursorrules|windsurfrules)\b[^\n]*: "
            r"(Not a directory|File exists|No such device)",
            re.IGNORECASE,
        ),
        {
            "read-only": "this command ran in the read-only place: it can write in /tmp and the home directory, and "
            'that is gone with it; place="workspace" lets a command write in {root}, where the mode or a person '
            "agrees",
            "workspace": "only {root} and /tmp can be written here; configuration that other programs run or obey "
            "(.git/config, .git/hooks, .vscode, .claude and their like) and the Python environment that runs this "
            'agent cannot be changed; place="host" runs a command without the sandbox, if a person agrees',
        },
    ),
    (
        re.compile(
            r"ould not resolve host|Temporary failure in name resolution|Network is unreachable|ENOTFOUND|EAI_AGAIN"
            r"|failure to look up|Name or service not known|dial tcp: lookup"
        ),
        {
            "read-only": 'there is no network in the read-only place; network=true with place="workspace" gives it to '
            "one command, if a person agrees",
            "workspace": "there is no network here; network=true gives it to one command, if a person agrees",
        },
    ),
)


def readable(data: bytes) -> str:
    """Bytes as text: without what is meant for a terminal, and with a mark for what cannot be text."""
    text = _ESCAPES.sub("", data.decode(errors="replace")).replace("\r\n", "\n")
    text = _OVERWRITTEN.sub("", text).replace("\r", "\n")
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\a", "").replace("\b", ""))


def shown(excerpt: Excerpt, whole: str) -> str:
    """What was printed; when it is too long, its beginning and its end, and what `whole` says of where all of it is."""
    head, tail = excerpt.parts()
    if not excerpt.left_out:
        return readable(head + tail)
    head, tail = _whole_lines(head, tail)
    between = excerpt.total - len(head) - len(tail)
    where = f"; {whole}" if whole else ""
    return f"{readable(head)}\n[... {between:,} bytes left out here{where} ...]\n{readable(tail)}"


def _whole_lines(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Cut the beginning at the end of a line if one is near, else of a word; the end at a line, whatever is lost.

    The rest of a line that was cut may be a secret whose name is not shown, and by which it would be recognised.
    """
    end, start = head.rfind(b"\n"), tail.find(b"\n")
    head = head[:end] if end > len(head) // 2 else head[: -len(_last_word(head)) or None]
    return head, tail[start + 1 :] if start >= 0 else b""


def _last_word(data: bytes) -> str:
    """What the data ends with, from a blank on."""
    text = data[::-1].decode("latin-1")
    near = text[: min(_WORD, len(text) // 2)]
    blank = _BLANK.search(near)
    return near if blank is None else near[: blank.start()]


def hint(text: str, root: str, place: Place) -> str:
    """What the sandbox had to do with what a command printed, and which argument helps."""
    for pattern, words in _HINTS:
        if place in words and pattern.search(text):
            return f"\n[the sandbox: {words[place].format(root=root)}]"
    return ""


def took(seconds: float) -> str:
    """A duration in words."""
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
