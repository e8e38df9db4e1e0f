"""A word while it is being read: its text so far, and from where on its value is open."""

from __future__ import annotations

from hookline.containment.shell.words import SUM, Word

_PATHS = {"HOME": "~", "PWD": ".", "OLDPWD": "$OLDPWD"}
"""Variables that hold an absolute path, and how a path that begins with them is shown."""

READ = "$<>"
"""How a variable is shown that is read from an input."""


_MARKS = frozenset("{}[],")


class OpenWord:
    """Collects a word. What is opened first decides the prefix; what is split into words takes it away."""

    __slots__ = (
        *("begins", "brace_at", "braces", "dollar", "exact", "hidden", "loop", "marks", "output"),
        *("prefix", "several", "text"),
    )

    def __init__(self) -> None:
        self.text = ""
        self.exact = True
        self.hidden = False
        self.several = False
        self.prefix: str | None = None
        self.brace_at: int | None = None
        self.braces = 0
        self.loop = ""
        self.marks = False
        self.dollar = False
        self.begins = ""
        self.output: str | None = None

    def add_quoted(self, text: str) -> None:
        """Add what stands in quotes, and remember whether it looks like a pattern, which it is not."""
        self.text += text
        self.marks = self.marks or not _MARKS.isdisjoint(text)
        self.dollar = self.dollar or "$" in text

    def open(self, known: str = "") -> None:
        """From here on the value is open; `known` is how what follows begins."""
        self.exact = False
        if self.prefix is None:
            self.prefix = self.text + known

    def split(self) -> None:
        """What follows becomes any number of words, so nothing is known of how they begin."""
        self.exact = False
        self.several = True
        self.prefix = ""

    def open_pattern(self) -> None:
        """From here on it is a pattern of files: one word, several or itself."""
        self.open()
        self.several = True

    def open_brace(self) -> None:
        """Remember where the first brace stands: what comes before it begins every word it makes."""
        self.braces += 1
        if self.brace_at is None:
            self.brace_at = len(self.text)

    def open_variable(self, name: str, *, quoted: bool) -> None:
        """Add a variable. In quotes it stays in one word; outside them its value is split."""
        known = "/" if name in _PATHS and not self.text else ""
        if quoted:
            self.open(known)
        else:
            self.split()
        if self.text or name not in _PATHS:
            self.text += f"${name}"
        else:
            self.begins, self.text = name, _PATHS[name]

    def open_sum(self) -> None:
        """Add a number that is computed. Nothing in it would be taken apart."""
        self.open()
        self.text += SUM

    def open_loop(self, name: str, *, quoted: bool) -> None:
        """Add the variable of a loop, whose values the head of the loop has named."""
        if quoted:
            self.open()
        else:
            self.split()
        self.loop = f"${{{name}}}"
        self.text += self.loop

    def open_output(self, output: str, *, quoted: bool) -> None:
        """Add what a command will print. Which one is kept if it is the only one."""
        self.output = output if self.output is None else ""
        self.hidden = True
        if quoted:
            self.open()
        else:
            self.split()
        self.text += "$()"

    def open_read(self, *, quoted: bool) -> None:
        """Add a variable that a loop reads from its input."""
        self.hidden = True
        if quoted:
            self.open()
        else:
            self.split()
        self.text += READ

    def open_part(self, *, quoted: bool) -> None:
        """Add a part of a variable: what it comes to was not seen."""
        self.hidden = True
        if quoted:
            self.open()
        else:
            self.split()
        self.text += "${}"

    def close(self) -> Word:
        """The word as it was read."""
        if self.brace_at is not None and ("," in self.text or ".." in self.text):
            self._expand_braces(self.brace_at)
        if self.exact:
            return Word(self.text)
        if (
            self.loop and self.text != self.loop
        ):  # together with something else it names what was not seen
            self.hidden = True
        if self.marks:  # which brackets and braces are only characters is no longer told
            self.hidden = True
        below = self.text[1:2] in {"", "/"} or (self.begins == "HOME" and not self.loop)
        if self.begins and not below:  # it only begins like that directory
            self.text = f"${self.begins}{self.text.removeprefix(_PATHS[self.begins])}"
        if self.dollar and "${" in self.text:  # which of them is a variable is no longer told
            self.text, self.hidden = "${}", True
        prefix, whole = self.prefix or "", not self.several
        output = self.output or ""
        return Word(self.text, False, prefix, self.hidden, whole, output)

    def _expand_braces(self, brace_at: int) -> None:
        before = self.text[:brace_at]
        if self.prefix is None or len(before) < len(self.prefix):
            self.prefix = before
        self.exact = False
        self.several = True
        if self.braces > 3:  # each may double the number of words
            self.hidden = True
