"""The strict reader of loops: over words, over what is read, and those that count."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from hookline.containment.shell.scan_parts import Parts
from hookline.containment.shell.scan_redirects import RedirectScanner, writes_a_file
from hookline.containment.shell.scan_sums import COUNTED_FOR, STEP, counts_to_its_end
from hookline.containment.shell.scan_words import Unreadable
from hookline.containment.shell.settable import may_fill, may_set
from hookline.containment.shell.words import SUM, Command, Redirect, Word

MAX_COMMANDS = 64
_MOST_ROUNDS = 24
"""Of a loop that counts: the values of its variable are looked at one by one up to so many."""

_COMMENT = re.compile(r"#[\t\x20-\x7e]*")
_LOOP = re.compile(r"for[ \t]+([A-Za-z][A-Za-z0-9_]*)[ \t]+in(?=[ \t])")
_ANY_NUMBER = Word(SUM, exact=False, whole=True)


class Found(NamedTuple):
    """A command, and where its words lie in the text."""

    command: Command
    spans: tuple[tuple[int, int], ...]


class LoopScanner(RedirectScanner):
    """A position in a text, the commands found before it, and how to read a loop from there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.plain = True
        self.found: list[Found] = []
        self.loops = 0
        """How many loops there are around the position, in the same shell."""

    def read_list(self, closers: tuple[str, ...], *, piped: bool = False) -> None:
        """Read commands and the operators between them, up to the end or to something that closes the list."""
        raise NotImplementedError

    def _read_operator(self, closers: tuple[str, ...]) -> str:
        raise NotImplementedError

    def _skip_blanks(self, *, newlines: bool = False) -> None:
        """Skip blanks and comments. Inside other commands a comment is not read: it may hide their end."""
        blanks = " \t\n" if newlines else " \t"
        while self.at < len(self.text):
            if self.text[self.at] in blanks:
                self.at += 1
                if self.below and self.text[self.at - 1] == "\n":
                    self.read_texts_below()
            elif self._goes_on():
                self.blanks.append((self.at, self.at + 2))
                self.at += 2
            elif self.text[self.at] == "#" and self.depth <= 1:
                comment = _COMMENT.match(self.text, self.at)
                self.at = comment.end() if comment else self.at
                if self.at < len(self.text) and self.text[self.at] != "\n":
                    raise Unreadable("a comment holds an unusual character")
            else:
                return

    def _goes_on(self) -> bool:
        """Whether the line goes on in the next. Only after a blank: bash joins what is not apart."""
        before = self.text[self.at - 1 : self.at] if self.at else " "
        return self.text.startswith("\\\n", self.at) and before in " \t\n"

    def _keep(self, command: Command, parts: Parts) -> None:
        if len(self.found) >= MAX_COMMANDS:
            raise Unreadable("it has too many commands")
        self.found.append(Found(command, tuple(parts.spans)))

    def _head(self, parts: Parts, start: int, *, piped: bool = False) -> Command:
        """What stands before the commands that another one holds."""
        text = self.text[start : self.at]
        return parts.command(text, piped=piped, again=self.loops > 0, plain=False)

    def _read_body(self, closers: tuple[str, ...], *, piped: bool = False) -> None:
        """Commands, at least one."""
        count = len(self.found)
        self.read_list(closers, piped=piped)
        if len(self.found) == count:
            raise Unreadable("a list without commands")

    def _read_trailing(self) -> list[Redirect]:
        """The redirects of a compound command. Those that matter are kept, as a command without words."""
        start, redirects = self.at, list[Redirect]()
        self._skip_blanks()
        while self.at < len(self.text) and (redirect := self.read_redirect()):
            redirects.append(redirect)
            self._skip_blanks()
        if any(one.operator == "<<" for one in redirects):
            raise Unreadable("a text below a line with other commands in it")
        if any(writes_a_file(one) or one.operator == "<" for one in redirects):
            text = self.text[start : self.at].strip()
            self._keep(Command(None, text, redirects=tuple(redirects)), Parts())
        return redirects

    def _read_for(self, piped: bool) -> None:
        """The head of a loop is kept like a command: its words are what the variable will be."""
        if counted := COUNTED_FOR.match(self.text, self.at):
            self._read_counted(counted, piped)
            return
        start, parts = self.at, Parts()
        head = _LOOP.match(self.text, self.at)
        if head is None or not may_set(head[1]):
            raise Unreadable("an unusual loop")
        for name in ("for", head[1], "in"):
            self._skip_blanks()
            parts.spans.append((self.at, self.at + len(name)))
            parts.words.append(Word(name))
            self.at += len(name)
        self._skip_blanks()
        while not self.ends_word(self.at):
            began = self.at
            parts.words.append(self.read_word())
            parts.spans.append((began, self.at))
            self._skip_blanks()
        self._keep(self._head(parts, start, piped=piped), parts)
        self._read_rounds(head[1])

    def _read_counted(self, head: re.Match[str], piped: bool) -> None:
        """`for ((i=0; i<3; i++))`. Its head is kept as assignments of the numbers."""
        name = head[1]
        if not may_set(name):
            raise Unreadable("an unusual loop")
        self.at = head.end()
        low, high = sorted(int(one) for one in (head[2], head[3] or head[4]))
        few = high - low < _MOST_ROUNDS
        numbers = [Word(str(one)) for one in range(low, high + 1)] if few else [_ANY_NUMBER]
        self.plain = False
        self.computed.add(name)
        given = tuple((name, number) for number in numbers)
        again = self.loops > 0
        self._keep(Command(None, head[0], assignments=given, piped=piped, again=again), Parts())
        self._skip_blanks()
        self._read_rounds(name)

    def _read_rounds(self, name: str) -> None:
        """The commands of a loop over words."""
        if self._read_operator(()) not in {";", "\n"}:
            raise Unreadable("an unusual loop")
        self._skip_blanks(newlines=True)
        self._close("do")
        outer = len(self.looped)
        self.looped.append(name)
        self.loops += 1
        self._read_body(("done",))
        self.loops -= 1
        del self.looped[outer:]
        self._close("done")
        self._read_trailing()

    def _read_while(self, keyword: str, piped: bool) -> None:
        """A loop over what is read, whose variables hold what nobody has seen; or one that counts."""
        self.at += len(keyword)
        self.loops += 1
        count = len(self.found)
        self._read_body(("do",), piped=piped)
        tests = [found.command for found in self.found[count:]]
        names = _filled_by(tests) if keyword == "while" else []
        self._close("do")
        self.filled.append(names)
        self._read_body(("done",))
        body = [found.command for found in self.found[count + len(tests) :]]
        if not names and not (len(tests) == 1 and counts_to_its_end(keyword, tests[0], body)):
            raise Unreadable("a loop that may not end")
        self.loops -= 1
        self.filled.pop()
        self._close("done")
        if any(one.operator.startswith("<") for one in self._read_trailing()) and piped:
            raise Unreadable("a loop with two inputs")

    def _read_step(self) -> None:
        """`((i++))`. It is kept as an assignment of some number."""
        step = STEP.match(self.text, self.at)
        if step is None or step[1] not in self.looped:
            raise Unreadable("arithmetic")
        self.at = step.end()
        self.plain = False
        self.computed.add(step[1])
        set_ = ((step[1], _ANY_NUMBER),)
        self._keep(Command(None, step[0], assignments=set_, again=self.loops > 0), Parts())
        self._read_trailing()


def _filled_by(commands: Iterable[Command]) -> list[str]:
    """The variables that commands read from their input."""
    reads = (command.words[1:] for command in commands if command.words[:1] == (Word("read"),))
    return [word.text for words in reads for word in words if may_fill(word.text)]
