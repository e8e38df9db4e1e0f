"""sed: which scripts only print, delete and substitute.

Such a script matches one regular expression, command by command. Blocks, labels, inserted text and delimiters inside
brackets ask: where they end differs between the versions of sed, and what follows could write or run something.
"""

from __future__ import annotations

import re

from hookline.containment.shell.options import Call, only

_SCRIPT = ("-e", "--expression")


def _until(delimiter: str) -> str:
    """What stands before a delimiter, as a pattern. Repeats are possessive: the time is linear."""
    inside = rf"(?!{delimiter})(?:[^\]\[\\\n]|\\[a-z])"
    bracket = rf"\[\^?+\]?+(?:\[:\w++:\]|{inside})*+\]"
    return rf"(?:(?!{delimiter})[^\\\n\[]|\\[^\n]|{bracket})*+{delimiter}"


_ADDRESS = rf"(?:[0-9]+(?:~[0-9]+)?|\$|/{_until('/')}[IM]*)"
_COMMAND = re.compile(
    rf"""
    [ \t\n;]*+
    (?: {_ADDRESS} (?: ,[ \t]*(?:{_ADDRESS}|[+~][0-9]+) )? [ \t]*!?[ \t]* )?
    (?: [pdDPqQ=nNhHgGxlF][0-9]*
      | [sy](?P<mark>[/|,\#:@!%~]){_until("(?P=mark)")}(?:(?!(?P=mark))[^\\\n]|\\[^\n])*+(?P=mark)[gpiImM0-9]*
    )
    [ \t]*(?:[;\n]|\Z)
    """,
    re.VERBOSE,
)


def check_sed(call: Call) -> str | None:
    """Why a call of sed may write, run or read something else, or None."""
    given = [value for name, value in call.options if value and name in _SCRIPT]
    if given and call.early < len(call.options):  # some take the first word for the script then
        return "an option after a file"
    script = "\n".join(word.text for word in given or call.operands[:1])
    at = 0
    script = script.rstrip(" \t\n;")
    while at < len(script):
        command = _COMMAND.match(script, at)
        if command is None:
            return f"its script does more than print and substitute ({script[at : at + 20]!r})"
        at = command.end()
    return None


SED = only(
    """
    -n -E -r -s -u -z --quiet --silent --regexp-extended --separate --unbuffered --null-data --posix --sandbox
    --help --version
    """,
    texts="-e --expression",
    pattern="-e --expression",
    check=check_sed,
)
