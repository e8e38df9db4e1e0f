"""sed and awk: which of their programs only compute and print.

A sed script that does so matches one regular expression, command by command. Blocks, labels, inserted text and
delimiters inside brackets ask: where they end differs between the versions of sed, and what follows could write or run
something.

Where a string or a pattern of awk ends depends on what comes before it, and differs between awks. So little is read:
names that could reach outside must not occur anywhere, and `>` and `|` beside a `print` only where no doubt about
strings and patterns is left.
"""

from __future__ import annotations

import re

from hookline.containment.shell.options import Call, only

# --- sed ----------------------------------------------------------------------------------------------

_SCRIPT = ("-e", "--expression")


def _until(delimiter: str) -> str:
    """What stands before a delimiter, as a pattern. Its groups are atomic: the time is linear."""
    inside = rf"(?!{delimiter})(?:[^\]\[\\\n]|\\[a-z])"
    bracket = rf"\[\^?+\]?+(?>(?:\[:\w++:\]|{inside})*)\]"
    return rf"(?>(?:(?!{delimiter})[^\\\n\[]|\\[^\n]|{bracket})*){delimiter}"


_ADDRESS = rf"(?:[0-9]+(?:~[0-9]+)?|\$|/{_until('/')}[IM]*)"
_COMMAND = re.compile(
    rf"""
    [ \t\n;]*+
    (?: {_ADDRESS} (?: ,[ \t]*(?:{_ADDRESS}|[+~][0-9]+) )? [ \t]*!?[ \t]* )?
    (?: [pdDPqQ=nNhHgGxlF][0-9]*
      | [sy](?P<mark>[/|,\#:@!%~]){_until("(?P=mark)")}(?>(?:(?!(?P=mark))[^\\\n]|\\[^\n])*)(?P=mark)[gpiImM0-9]*
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


# --- awk ----------------------------------------------------------------------------------------------

_REFUSED = re.compile(
    r"system|getline|close|ENVIRON|ARG[VC]|PROCINFO|SYMTAB|FUNCTAB|eval|extension|@|\\\n|\\\r|/inet"
)
"""Anywhere, also within a longer name: `1system(x)` is a number and a call."""
_REDIRECTS = re.compile(r">|(?<!\|)\|(?!\|)|\|{3}")
_FIRST_PATTERN = re.compile(
    r"""
    (?P<before> \A[ \t]* | \A[^"/\#\\]* (?:[~(,!]|&&) [ \t]* )
    /(?!=)[^"/\\\[\]\n\#]+/
    """,
    re.VERBOSE,
)
"""A pattern for certain: nothing before it opens a string or a comment, and it stands where no division can."""
_STRING = re.compile(r'"(?:[^"\\\n]|\\[nt])*"')
_UNCERTAIN = re.compile(r'["/#\\]')
_PRINTS_THERE = re.compile(r"print[^;{}]*[>|]")


def check_awk(call: Call) -> str | None:
    """Why a call of awk may write, run or read something else, or None."""
    if not call.operands:
        return None if call.options == (("--version", None),) else "its program is not known"
    late = next((word for word in call.operands[1:] if re.match("-.", word.start)), None)
    return f"the option {late.text}" if late else _program_problem(call.texts[0])


def _program_problem(program: str) -> str | None:
    if found := _REFUSED.search(program):
        return f"its program uses {found[0].strip()}"
    if "print" not in program or not _REDIRECTS.search(program):
        return None
    if program.count("/") == 1:  # a pattern needs two: it divides, or stands in a string
        program = program.replace("/", " ")
    plain = _without_texts(program)
    if _UNCERTAIN.search(plain):
        return "its program cannot be read for certain"
    if _PRINTS_THERE.search(plain.replace("||", "")):
        return "its program may write files, or run something"
    return None


def _without_texts(program: str) -> str:
    """The program without those patterns and strings that are certain to be such."""
    count = 1
    while count:
        program, count = _FIRST_PATTERN.subn(r"\g<before>0", program, count=1)
    return program if "/" in program or "#" in program else _STRING.sub("0", program)


AWK = only("--version", texts="-F -v", pattern="", check=check_awk)
