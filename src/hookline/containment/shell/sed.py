"""sed: which scripts only print, delete and substitute."""

from __future__ import annotations

import re

from hookline.containment.shell.options import Call, only

_SCRIPT = ("-e", "--expression")
_ADDRESS = re.compile(r"[0-9]+(?:~[0-9]+)?|\$|\+[0-9]+|~[0-9]+")
_BRACKET = re.compile(r"\[\^?\]?(?:\[:\w+:\]|[^\]\n])*\]")
_SIMPLE = frozenset("pdDPqQ=nNhHgGxlF")
_TEXT = re.compile(r"[ \t]*(?:\\\n?)?[^\\\n]+(?=\n|\Z)")
_LONGEST = 1_000
"""The time that brackets take grows with the square of a script's length."""
_SUBSTITUTE_FLAGS = re.compile(r"[gpiImM0-9]*")


class _UnreadScript(Exception):
    """Something in the script that is not known to be harmless."""


def check_sed(call: Call) -> str | None:
    """Why a call of sed may write, run or read something else, or None."""
    given = [value for name, value in call.options if value and name in _SCRIPT]
    if given and call.early < len(call.options):  # some take the first word for the script then
        return "an option after a file"
    scripts = given or list(call.operands[:1])
    return _script_problem("\n".join(script.text for script in scripts))


def _script_problem(script: str) -> str | None:
    if len(script) > _LONGEST:
        return "its script is too long to be read"
    try:
        _Script(script).read()
    except _UnreadScript as odd:
        return f"its script does more than print and substitute ({odd})"
    return None


class _Script:
    """A position in a sed script."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.has_label = self.has_text = False

    def read(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at] in " \t\n;{}":
                self.at += 1
                continue
            self._addresses()
            self._command()
            if self.has_label and self.has_text:  # where a label ends differs, and so what is text
                raise _UnreadScript("a text beside a label")

    def _addresses(self) -> None:
        self._address()
        if self._peek() == ",":
            self.at += 1
            self._blanks()
            self._address()
        self._blanks()
        while self._peek() == "!":
            self.at += 1
            self._blanks()

    def _address(self) -> None:
        if found := _ADDRESS.match(self.text, self.at):
            self.at = found.end()
        elif self._peek() == "/":
            self.at += 1
            self._until("/")
            while self._peek() in {"I", "M"}:
                self.at += 1
        self._blanks()

    def _command(self) -> None:
        name = self._peek()
        self.at += 1
        if name == "{":
            return
        if name in _SIMPLE:
            self._end_of_command(name)
        elif name in {"s", "y"}:
            self._substitute(name)
        elif name in {"a", "i", "c"}:
            self._text()
        elif name in {":", "b", "t", "T"}:
            self._label()
        else:
            raise _UnreadScript(f"the command {name!r}")

    def _end_of_command(self, name: str) -> None:
        self._blanks()
        if name in "qQl":
            while self._peek().isdigit():
                self.at += 1
        if self._peek() not in {"", ";", "\n", "}"}:
            raise _UnreadScript(f"what follows {name!r}")

    def _label(self) -> None:
        self.has_label = True
        self._blanks()
        while self._peek().isalnum() or self._peek() == "_":
            self.at += 1
        self._end_of_command("b")

    def _text(self) -> None:
        """A text goes to the end of its line. With another backslash in it, it would go on."""
        self.has_text = True
        found = _TEXT.match(self.text, self.at)
        if found is None:
            raise _UnreadScript("a text of several lines")
        self.at = found.end()

    def _substitute(self, name: str) -> None:
        delimiter = self._peek()
        if delimiter in {"", "\n", "\\", "[", "]"} or delimiter.isalnum() or delimiter.isspace():
            raise _UnreadScript("an unusual delimiter")
        self.at += 1
        self._refuse_cut_brackets(delimiter)
        self._until(delimiter, pattern=name == "s")
        self._until(delimiter, pattern=False)
        if name == "s":
            flags = _SUBSTITUTE_FLAGS.match(self.text, self.at)
            self.at = flags.end() if flags else self.at
        self._blanks()
        if self._peek() not in {"", ";", "\n", "}"}:
            raise _UnreadScript("the flags of a substitution")

    def _refuse_cut_brackets(self, delimiter: str) -> None:
        """To old versions a delimiter ends a pattern also inside brackets; what they then take for flags can write."""
        pieces = self.text[self.at :].split(delimiter)
        if len(pieces) > 2 and re.match(r"[gpiImMe0-9]*w", pieces[2]) and "[" in pieces[0]:
            raise _UnreadScript("a delimiter in brackets")

    def _until(self, delimiter: str, *, pattern: bool = True) -> None:
        """Go past the next delimiter. In a pattern, one inside brackets is no delimiter."""
        while self._peek() != delimiter:
            if self._peek() in {"", "\n"}:
                raise _UnreadScript("a pattern that does not end")
            if pattern and (bracket := _BRACKET.match(self.text, self.at)):
                if "[." in bracket[0] or "[=" in bracket[0]:
                    raise _UnreadScript("an unusual bracket")
                self.at = bracket.end()
            else:
                self.at += 2 if self._peek() == "\\" else 1
        self.at += 1

    def _blanks(self) -> None:
        while self._peek() in {" ", "\t"}:
            self.at += 1

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]


SED = only(
    """
    -n -E -r -s -u -z --quiet --silent --regexp-extended --separate --unbuffered --null-data --posix --sandbox
    --help --version
    """,
    texts="-e --expression",
    pattern="-e --expression",
    check=check_sed,
)
