r"""The tolerant reader of shell text: which commands a line or a script may run, and what their words may be.

It is for finding things (what must be denied, what a rule forbids, which files a script runs), never for proving that
something is not there: it guesses where bash would be sure, and it accepts any text. What is allowed because of its
words goes through `containment.read_command`, which is strict and is checked by a grammar. One reader cannot do both:
the strict one has to refuse what this one has to look through.

Quotes and escapes are removed, variables that the text sets are filled in, `$IFS` splits, braces are expanded,
`$(echo x)` is x. The commands in substitutions, groups, loops and functions are found like all others.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

UNREAD = "\x01"
"""Stands for text that was fetched or decoded, and that nobody has read."""
UNKNOWN = "\x02"
"""Stands for a value that is not known."""
MAX_DEPTH = 40
"""Groups and substitutions inside each other."""
_MAX_WORDS = 64
_MAX_VALUE = 2_000

_OPEN, _COMMA, _CLOSE = "\x03", "\x04", "\x05"
"""Braces and commas outside quotes, while a word is read."""
_MARKS = {"{": _OPEN, ",": _COMMA, "}": _CLOSE}
_UNMARKED = str.maketrans({mark: sign for sign, mark in _MARKS.items()})
_BRACES = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}\\s]*{_COMMA}[^{_OPEN}{_CLOSE}\\s]*){_CLOSE}")

_KNOWN = {"HOME": "~", "PWD": ".", "IFS": " ", "SHELL": "bash", "BASH": "bash", "0": "bash"}
_PLAIN = re.compile(r"[^ \t\n\\'\"$`<>;&|(){},]+")
_IN_QUOTES = re.compile(r"[^\\\"$`]+")
_IN_BRACES = re.compile(r"[^\\\"'$`}]+")
_ANSI_TEXT = re.compile(r"\$'((?:[^'\\]|\\.)*)'?", re.DOTALL)
_ANSI = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|c.|.)", re.DOTALL
)
_ESCAPES = dict(zip("ntrabeEfv", "\n\t\r\a\b\033\033\f\v", strict=True)) | {"\n": "\\\n"}
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_DEFAULT = re.compile(r"(?:\[[^]]*\])?(:?[-=+])(.*)", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`?", re.DOTALL)
_TICK_ESCAPES = re.compile(r"\\([$`\\])")
_QUOTES = re.compile(r"\$?(['\"])|\\(?=.)", re.DOTALL)
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\n")
_MAX_JOINED = 1 << 18
"""How many characters are read to find out which lines are continued; of a longer text, four times its length."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]\s]*\])?\+?=")
_FUNCTION = re.compile(
    r"([^ \t\n\\'\"$`<>;&|(){}]+)[ \t]*\([ \t]*\)|function[ \t]+([^ \t\n;&|()]+)"
)
_REDIRECT = re.compile(
    r"(?:[0-9]*|\{\w+\})(&>>|&>|<<<|<<-|<<|<>|>\||>>|>&|<&|<(?!\()|>(?!\())[ \t]*"
)
_DUPLICATE = re.compile(r"-|[0-9]+-?(?=[ \t\n;&|()<>]|$)")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|;|&(?!>)|\n")
_PREFIX = re.compile(
    r"(?:(?:!|then|do|else|elif)(?=[ \t\n(){<>;&|])|time(?:[ \t]+(?:-p|--))*(?=[ \t\n({<>])"
    r"|coproc(?=[ \t\n<>])(?:[ \t]+\w+(?=[ \t]+[{(]))?)[ \t\n]*"
)
"""Words of the shell before a command that change nothing about what runs."""
_KEYWORD = re.compile(r"(?:if|while|until|for|select|case)(?=[ \t\n(<>;&|])|\{(?=[ \t\n(<>;&|])")
_CLOSERS = {"if": "fi", "while": "done", "until": "done", "for": "done", "select": "done"}
_CLOSERS |= {"case": "esac", "{": "}"}
_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|\})(?=[ \t\n;&|()]|$)"
)
"""Words that are no command where one begins."""
_CASE_JOINTS = frozenset({";;", ";&", ";;&"})
_HEAD = re.compile(r"[ \t]*([A-Za-z_]\w*)[ \t\n;]*(in(?=[ \t\n;]))?")
_ASSIGNING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_PRINTER = re.compile(r"(?:(?:builtin|command) )?(?:echo|printf|which|command -v|type -P)(?: |$)")
_OPTION_OF_PRINTER = re.compile(r"-[neE]+|%[bs]")


class TooDeep(Exception):
    """The text has more groups inside each other than are read."""


class PipelineStage:
    """One member of a pipeline: a simple command, or a group with all that is in it."""

    def __init__(self) -> None:
        self.text = ""
        self.commands: list[list[str]] = []
        """The words of every command at and below it, those in substitutions included."""
        self.redirects: list[tuple[str, str]] = []
        """The operator without the descriptor, and the file."""
        self.inputs: list[str] = []
        """Here-documents and here-strings."""
        self.joints: set[str] = set()
        """The operators between its commands."""

    def add(self, other: PipelineStage) -> None:
        """Make another stage a part of this one."""
        self.commands += other.commands
        self.joints |= other.joints


class ShellVisitor:
    """Is called with what is found, in the order of the text."""

    def __init__(self, variables: dict[str, str] | None = None, unknown: str = UNKNOWN) -> None:
        self.variables = variables
        """The values that are known; None: no value counts as known, not even one that the text sets."""
        self.unknown = unknown
        """What a value that is not known is taken for."""
        self.is_broken = False
        """Whether bash would not take the text: something is left open, or an operator has no command."""

    def assign(self, name: str, value: str) -> None:
        """Take what a variable is set to."""
        if self.variables is not None:
            self.variables[name] = value[:_MAX_VALUE]

    def command(self, words: list[str], text: str, inner: Sequence[list[str]]) -> None:
        """Take a simple command, and the commands in the substitutions of it."""

    def stage(self, stage: PipelineStage) -> None:
        """Take a member of a pipeline, also of one that has no other member."""

    def pipeline(self, stages: Sequence[PipelineStage], text: str) -> None:
        """Take a pipeline of several members."""

    def function(self, name: str, body: PipelineStage) -> None:
        """Take the definition of a function."""

    def is_unread(self, stage: PipelineStage) -> bool:
        """Say whether what is printed by this was fetched or decoded."""
        return any(UNREAD in word for words in stage.commands for word in words)


def read_shell_text(text: str, visitor: ShellVisitor) -> PipelineStage:
    """Find every command of a text. Raises `TooDeep`, and nothing else."""
    stage = _Reader(plain_text(text), visitor, 0).read_list("")
    # bash drops a line that it cannot read, and begins again with one of the next. Not so if only a script in the text
    # is broken, which the visitor has read.
    if visitor.is_broken and _is_broken(text):
        joined = text.replace("\\\n", "")
        for line in dict.fromkeys((*text.split("\n"), *joined.split("\n"))):
            _Reader(plain_text(line), visitor, 0).read_list("")
    return stage


def _is_broken(text: str) -> bool:
    visitor = ShellVisitor()
    _Reader(plain_text(text), visitor, 0).read_list("")
    return visitor.is_broken


@lru_cache(8)
def plain_text(text: str) -> str:
    """A text without comments, and with its continued lines joined. Raises `TooDeep`, and nothing else.

    A line is not continued in a comment, in single quotes and in a quoted here-document, and only a reader knows where
    these are. So all lines are joined and the text is read. What should not have been joined is taken apart, and the
    text is read again. A pass with its own notion of quotes was rejected: where the two disagree, a command hides.
    """
    text = text.replace("\0", "")
    if "#" not in text and "\\\n" not in text:
        return text
    lines, left = _Lines(text), max(_MAX_JOINED, 4 * len(text))
    while left > 0:
        left -= len(text)
        lines.join()
        try:
            _Reader(lines.text, ShellVisitor(), 0, lines).read_list("")
        except _TakenApart:
            continue
        if not lines.is_changed:
            return lines.without_comments()
    raise TooDeep


class _TakenApart(Exception):
    """Lines were joined that the shell does not join, and what follows has to be read again."""


class _Lines:
    """A text in which lines are joined, and which of them are not."""

    def __init__(self, raw: str) -> None:
        self._raw = raw
        self._ends = [found.end() - 2 for found in _CONTINUED.finditer(raw)]
        """Where lines end that may be continued in the next."""
        self._apart: set[int] = set()
        self.join()

    def join(self) -> None:
        """Join the lines, all but those that were taken apart."""
        self._joined = [end for end in self._ends if end not in self._apart]
        self._places = [end - 2 * number for number, end in enumerate(self._joined)]
        starts = [0, *(end + 2 for end in self._joined)]
        pieces = zip(starts, [*self._joined, len(self._raw)], strict=True)
        self.text = "".join(self._raw[start:end] for start, end in pieces)
        self.is_changed = False
        self._comments: list[tuple[int, int]] = []

    def without_comments(self) -> str:
        """The joined text without its comments."""
        pieces, position = list[str](), 0
        for start, end in self._comments:
            pieces.append(self.text[position:start])
            position = max(position, end)
        return "".join((*pieces, self.text[position:]))

    def read_quoted(self, start: int, end: int) -> None:
        """Take apart what was joined in quotes. They end in the same place, so reading may continue."""
        inside = self._joined[bisect_right(self._places, start) : bisect_right(self._places, end)]
        self._apart.update(inside)
        self.is_changed = self.is_changed or bool(inside)

    def comment(self, start: int, end: int) -> None:
        """Note a comment."""
        self._comments.append((start, end))
        self.ends(start, end)

    def ends(self, start: int, end: int) -> None:
        """Take apart the first line that was joined in a text which ends with its line."""
        first = bisect_right(self._places, start)
        if first < len(self._places) and self._places[first] <= end:
            # What was found behind it, for a here-document that begins before it, was not the right place.
            ended = self._joined[first]
            self._apart = {each for each in self._apart if each < ended} | {ended}
            raise _TakenApart

    def here_document(self, start: int, end: re.Pattern[str]) -> None:
        """Take apart what was joined in a quoted here-document, up to its end in the text as it was written."""
        first = bisect_right(self._places, start - 1)
        begin = start + 2 * first
        found = end.search(self._raw, begin)
        limit = found.end() if found else len(self._raw)
        inside = [each for each in self._joined[first:] if each < limit]
        if inside:
            self._apart.update(inside)
            raise _TakenApart


def unescape(text: str) -> str:
    r"""What `$'..'`, `echo -e` and `printf` make of backslashes: `\x72` is `r`."""

    def one(found: re.Match[str]) -> str:
        code = found[1]
        try:
            if code[0] in "xuU" and len(code) > 1:
                return chr(int(code[1:], 16))
            if code[0] in "01234567":
                return chr(int(code, 8) & 0xFF)
        except (ValueError, OverflowError):
            return ""
        return _ESCAPES.get(code, code)

    return _ANSI.sub(one, text)


class _TextWord:
    """The words that one word of the text expands to: none, one, or several."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.text: str | None = None

    def add(self, text: str) -> None:
        self.text = (self.text or "") + text

    def end(self) -> None:
        if self.text is not None:
            self.done.append(self.text)
        self.text = None

    def split(self, value: str) -> None:
        """Add an expansion outside quotes, split at blanks. An empty one adds nothing."""
        if value[:1].isspace():
            self.end()
        for number, piece in enumerate(value.split()):
            if number:
                self.end()
            self.add(piece)
        if value[-1:].isspace():
            self.end()

    def close(self) -> list[str]:
        """The words, with their braces expanded."""
        self.end()
        words = [word for each in self.done for word in _expand_braces(each)]
        return [word.translate(_UNMARKED) for word in words[:_MAX_WORDS]]


def _expand_braces(text: str) -> list[str]:
    if _OPEN not in text:
        return [text]
    pending, done = [text], list[str]()
    while pending and len(done) + len(pending) < _MAX_WORDS:
        piece = pending.pop(0)
        found = _BRACES.search(piece)
        if found is None:
            done.append(piece)
        else:
            before, after = piece[: found.start()], piece[found.end() :]
            pending[:0] = [before + choice + after for choice in found[1].split(_COMMA)]
    return done + pending


class _Reader:
    """A position in a text."""

    def __init__(
        self, text: str, visitor: ShellVisitor, depth: int, lines: _Lines | None = None
    ) -> None:
        self.text = text
        self.visitor = visitor
        self.depth = depth
        self.lines = lines
        """What was joined in the text, while that is found out."""
        self.at = 0
        self.inner: list[list[str]] = []
        """The commands in the substitutions of the command that is being read."""
        self.substitutions = 0
        """How many are open."""
        self.bodies: dict[int, int] = {}
        """Where a line ends that is followed by here-documents, and where these end."""

    # --- lists and pipelines ----------------------------------------------------------------------

    def read_list(self, closer: str, *, is_after_command: bool = False) -> PipelineStage:
        """Read commands up to the end, or to the word or bracket that closes the list."""
        self._go_down()
        whole, start, is_closed = PipelineStage(), self.at, not closer
        if closer == "esac":
            whole.joints.add(";;")
        while self._skip_to_command(whole, is_after_command):
            if self._is_closed_by(closer):
                is_closed = True
                break
            is_after_command = True
            if closer == "esac" and not whole.joints.isdisjoint(_CASE_JOINTS):
                is_after_command = False
                whole.joints -= _CASE_JOINTS
                self._skip_pattern()
            elif self.text[self.at] == ")":  # it closes nothing
                self.at += 1
                self._expect(False)
            else:
                self._read_pipeline(whole)
        self._expect(is_closed)
        whole.text = self.text[start : self.at]
        self.depth -= 1
        return whole

    def _go_down(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooDeep

    def _expect(self, is_there: bool) -> None:
        """Note that bash would not take the text without this."""
        self.visitor.is_broken = self.visitor.is_broken or not is_there

    def _is_closed_by(self, closer: str) -> bool:
        if not closer or not self.text.startswith(closer, self.at):
            return False
        end = self.at + len(closer)
        if closer != ")" and end < len(self.text) and self.text[end] not in " \t\n;&|)<>":
            return False
        self.at = end
        return True

    def _skip_to_command(self, whole: PipelineStage, is_after_command: bool) -> bool:
        """Go past blanks, comments and operators. False at the end of the text."""
        is_needed = False
        while self.at < len(self.text):
            if operator := _OPERATOR.match(self.text, self.at):
                whole.joints.add(operator[0])
                if operator[0] != "\n" and operator[0] not in _CASE_JOINTS:
                    self._expect(is_after_command)
                    is_needed = operator[0] in {"&&", "||"}
                is_after_command = False
                self._pass(operator)
            elif self.text[self.at] in " \t|":
                self._expect(self.text[self.at] != "|")
                self.at += 1
            elif self.text[self.at] == "#":
                self._skip_comment()
            else:
                return True
        self._expect(not is_needed)
        return False

    def _skip_pattern(self) -> None:
        """Go past the patterns of a case statement."""
        self.at += self.text[self.at] == "("
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self._is_at_meta():
                self.at += 1
            self._read_words()
        self.at += 1

    def _pass(self, operator: re.Match[str]) -> None:
        self.at = operator.end()
        if operator[0] == "\n":
            self.at = self.bodies.get(operator.start(), self.at)

    def _skip_comment(self) -> None:
        start, self.at = self.at, self._line_end()
        if self.lines:
            self.lines.comment(start, self.at)

    def _line_end(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def _read_pipeline(self, whole: PipelineStage) -> None:
        start = self.at
        stages: list[PipelineStage] = []
        while True:
            stage = self._read_command()
            self.visitor.stage(stage)
            stages.append(stage)
            whole.add(stage)
            self._skip_blanks()
            if not self.text.startswith("|", self.at) or self.text.startswith("||", self.at):
                break
            whole.joints.add("|")
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self._skip_blanks(newlines=True)
        if len(stages) > 1:
            self.visitor.pipeline(stages, self.text[start : self.at])

    def _skip_blanks(self, *, newlines: bool = False) -> None:
        while self.at < len(self.text):
            if self.text[self.at] in " \t":
                self.at += 1
            elif self.text[self.at] == "#":
                self._skip_comment()
            elif newlines and (operator := _OPERATOR.match(self.text, self.at, self.at + 1)):
                if operator[0] != "\n":
                    return
                self._pass(operator)
            else:
                return

    # --- one member of a pipeline -----------------------------------------------------------------

    def _read_command(self) -> PipelineStage:
        while prefix := _PREFIX.match(self.text, self.at):
            self.at = prefix.end()
            self._skip_blanks(newlines=True)  # with comments
        start = self.at
        keyword = _KEYWORD.match(self.text, start)
        is_other = keyword or _ASSIGNMENT.match(self.text, start)  # `x=()` is a list
        function = None if is_other else _FUNCTION.match(self.text, start)
        if self.text.startswith("(", start) or keyword:
            stage = self._read_group(keyword[0] if keyword else "(")
        elif function:
            self.at = function.end()
            self._skip_blanks(newlines=True)
            if self.text.startswith("()", self.at):
                self.at += 2
                self._skip_blanks(newlines=True)
            stage = self._read_command()
            self.visitor.function(function[1] or function[2], stage)
        else:
            stage = self._read_simple()
        stage.text = self.text[start : self.at]
        return stage

    def _read_group(self, opener: str) -> PipelineStage:
        self.at += len(opener)
        header = self._read_header(opener)
        is_after_names = opener in {"for", "select"}
        stage = self.read_list(_CLOSERS.get(opener, ")"), is_after_command=is_after_names)
        stage.commands += header
        self._skip_blanks()
        while redirect := _REDIRECT.match(self.text, self.at):
            self._read_redirect(redirect, stage)
            self._skip_blanks()
        return stage

    def _read_header(self, opener: str) -> list[list[str]]:
        """What stands between `for` or `case` and the commands. A loop's variable is taken for all values at once."""
        outer, self.inner = self.inner, []
        if opener in {"for", "select"} and (head := _HEAD.match(self.text, self.at)):
            self.at = head.end()
            values = self._read_words() if head[2] else []
            self.visitor.assign(head[1], " ".join(values))
        elif opener == "case":
            self._read_words(stop="in")
        found, self.inner = self.inner, outer
        return found

    def _read_words(self, stop: str = "") -> list[str]:
        words: list[str] = []
        self._skip_blanks()
        while not self._is_at_meta():
            start = self.at
            words += self._read_word()
            if stop and self.text[start : self.at] == stop:
                break
            self._skip_blanks()
        return words

    def _is_at_meta(self) -> bool:
        if self.at >= len(self.text):
            return True
        is_file = self.text.startswith(("<(", ">("), self.at)
        return self.text[self.at] in "\n;&|()<>" and not is_file

    def _read_simple(self) -> PipelineStage:
        start, stage, words = self.at, PipelineStage(), list[str]()
        outer, self.inner = self.inner, []
        is_test = self.text.startswith("[[ ", start)
        while self.at < len(self.text):
            redirect = None if is_test else _REDIRECT.match(self.text, self.at)
            assignment = _ASSIGNMENT.match(self.text, self.at)
            if (
                assignment
                and words
                and (is_test or not self.text.startswith("(", assignment.end()))
            ):
                assignment = None  # only a list is one behind words: `declare x=(a b)`
            if redirect:
                self._read_redirect(redirect, stage)
            elif assignment:
                self.at = assignment.end()
                self.visitor.assign(assignment[1], self._read_value())
            elif not self._is_at_meta():
                began = self.at
                words += self._read_word()
                is_test = is_test and self.text[began : self.at] != "]]"
            elif is_test and self.text[self.at] != "\n":
                self.at += 1
            else:
                break
            self._skip_blanks()
        if self.at == start:  # something that begins no command
            self.at += 1
            self._expect(False)
        self._expect(not _RESERVED.match(self.text, start))
        if words:
            self._note(words)
            stage.commands.append(words)
            self.visitor.command(words, self.text[start : self.at].strip(" \t\n"), self.inner)
        stage.commands += self.inner
        self.inner = outer
        return stage

    def _read_value(self) -> str:
        """What is assigned to a variable: a word, or a list in brackets."""
        if not self.text.startswith("(", self.at):
            return " ".join(self._read_word())
        self.at += 1
        words: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.text[self.at] == "\n":
                self.at += 1
            elif self._is_at_meta():
                self._read_broken_line()
                return " ".join(words)
            words += self._read_words()
        self._expect(self.at < len(self.text))
        self.at += 1
        return " ".join([*words, *self._read_word()])  # `x=(a)b` is one word

    def _read_broken_line(self) -> None:
        """Read the rest of a line on its own: bash drops it, and continues with the next line, as it is written."""
        start, end = self.at, self._line_end()
        self._expect(False)
        if self.lines:
            self.lines.ends(start, end)
        if end < len(self.text):
            rest = _Reader(self.text[start:end], self.visitor, self.depth)
            self.inner += rest.read_list("", is_after_command=True).commands
            self.at = end

    def _read_redirect(self, redirect: re.Match[str], stage: PipelineStage) -> None:
        operator = redirect[1]
        self.at = redirect.end()
        if operator in {"<<", "<<-"}:
            stage.inputs.append(self._read_body("\t*" if operator == "<<-" else ""))
        elif operator == "<<<":
            stage.inputs.append(" ".join(self._read_word()))
        elif operator in {">&", "<&"} and (number := _DUPLICATE.match(self.text, self.at)):
            self.at = number.end()
        else:
            stage.redirects.append((operator, " ".join(self._read_word())))

    def _read_body(self, indent: str) -> str:
        """The here-document that begins after this line. Substitutions in it are commands, unless its end is quoted."""
        start = self.at
        self._read_word()
        written = self.text[start : self.at]  # nothing is expanded in it
        end_mark = _QUOTES.sub("", written)
        is_quoted = written != end_mark
        line_end = self.text.find("\n", self.at)
        if line_end < 0 or not end_mark:
            return ""
        begin = self.bodies.get(line_end, line_end + 1)
        last = r"(?:$\n?|(?=.*\)))" if self.substitutions else r"$\n?"  # `$(cat <<E .. E)`
        end = re.compile(rf"^{indent}{re.escape(end_mark)}{last}", re.MULTILINE)
        if is_quoted and self.lines:
            self.lines.here_document(begin, end)
        found = end.search(self.text, begin)
        body = self.text[begin : found.start() if found else len(self.text)]
        if found:
            self.bodies[line_end] = found.end()
        # Without its end, what follows is read as commands, too: it may be no here-document, but `$((1 << 4))`.
        if not is_quoted:
            inside = _Reader(body, self.visitor, self.depth)
            inside._read_quoted(_TextWord(), closer="")
            self.inner += inside.inner
        return body

    def _note(self, words: list[str]) -> None:
        """Remember what a command sets."""
        if words[0] in _ASSIGNING:
            for word in words[1:]:
                name, equals, value = word.partition("=")
                if equals and name.isidentifier():
                    self.visitor.assign(name, value)
        elif words[:2] == ["set", "--"]:
            joined = " ".join(words[2:])
            self.visitor.assign("@", joined)
            self.visitor.assign("*", joined)
            for number, word in enumerate(words[2:11], start=1):
                self.visitor.assign(str(number), word)

    # --- words ------------------------------------------------------------------------------------

    def _read_word(self) -> list[str]:
        word = _TextWord()
        while not self._is_at_meta() and self.text[self.at] not in " \t":
            self._read_part(word)
        return word.close()

    def _read_part(self, word: _TextWord) -> None:
        text, at = self.text, self.at
        character = text[at]
        if plain := _PLAIN.match(text, at):
            word.add(plain[0])
            self.at = plain.end()
        elif character == "'":
            end = text.find("'", at + 1)
            self._expect(end >= 0)
            end = len(text) if end < 0 else end
            word.add(text[at + 1 : end])
            self.at = end + 1
            if self.lines:
                self.lines.read_quoted(at, end)
        elif character == '"' or text.startswith('$"', at):
            self.at += 1 if character == '"' else 2
            word.add("")
            self._read_quoted(word)
        elif character == "\\":
            word.add(text[at + 1 : at + 2])
            self.at += 2
        elif ansi := _ANSI_TEXT.match(text, at):
            word.add(unescape(ansi[1]))
            self.at = ansi.end()
            self._expect(text[self.at - 1] == "'" and self.at > at + 2)
            if self.lines:
                self.lines.read_quoted(at + 1, self.at - 1)
        elif character in "$`<>":
            word.split(self._expand(word))
        else:
            word.add(_MARKS.get(character, character))
            self.at += 1

    def _read_quoted(self, word: _TextWord, closer: str = '"') -> None:
        """Read a text in double quotes, or a here-document, up to its end."""
        while self.at < len(self.text) and self.text[self.at] != closer:
            if self.text[self.at] == '"':
                self.at += 1
            elif plain := _IN_QUOTES.match(self.text, self.at):
                word.add(plain[0])
                self.at = plain.end()
            elif self.text[self.at] == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                word.add(following if following in '$`"\\' else "\\" + following)
                self.at += 2
            elif self.text.startswith("$@", self.at):  # stays several words, also in quotes
                word.split(self._expand(word))
            else:
                word.add(self._expand(word))
        self._expect(not closer or self.at < len(self.text))
        self.at += 1

    def _expand(self, word: _TextWord) -> str:
        """The value at the position. Empty and before a slash it is marked: `$X/y` is not `/y`."""
        value = self._read_value_of_expansion()
        is_start = not value and not word.text and self.text.startswith(("/", '"/'), self.at)
        return UNKNOWN if is_start else value

    def _read_value_of_expansion(self) -> str:
        text, at = self.text, self.at
        if text.startswith(("$(", "<(", ">("), at):
            self.at += 2
            return self._read_substitution(self)
        if text.startswith("${", at):
            self.at += 2
            return self._read_parameter()
        if ticked := _BACKTICKS.match(text, at):
            self.at = ticked.end()
            self._expect(text[self.at - 1] == "`" and self.at > at + 1)
            inside = plain_text(_TICK_ESCAPES.sub(r"\1", ticked[1]))
            return self._read_substitution(_Reader(inside, self.visitor, self.depth))
        name = _NAME.match(text, at + 1)
        self.at = name.end() if name else at + 1
        return self._value(name[0]) if name else "$"

    def _value(self, name: str) -> str:
        if self.visitor.variables is None:
            return self.visitor.unknown
        default = _KNOWN.get(name, self.visitor.unknown)
        return self.visitor.variables.get(name, default)

    def _read_parameter(self) -> str:
        """`${..}`: a value, or what stands for it."""
        self.at += self.text.startswith("!", self.at)
        name = _NAME.match(self.text, self.at)
        self.at = name.end() if name else self.at
        rest = self._read_braced()
        value = self._value(name[0]) if name else ""
        default = _DEFAULT.match(rest)
        if name and rest == ":0:1":
            return "/" if name[0] in {"PATH", "HOME", "PWD"} else value[:1]
        if default and (value in {"", UNKNOWN} or "+" in default[1]):
            return default[2] if self.visitor.variables is not None else value
        return value

    def _read_braced(self) -> str:
        self._go_down()
        word = _TextWord()
        while self.at < len(self.text) and self.text[self.at] != "}":
            if plain := _IN_BRACES.match(self.text, self.at):
                word.add(plain[0])
                self.at = plain.end()
            elif self.text[self.at] in "\"'$`\\":
                self._read_part(word)
        self._expect(self.at < len(self.text))
        self.at += 1
        self.depth -= 1
        return " ".join([*word.done, word.text or ""])

    def _read_substitution(self, reader: _Reader) -> str:
        """What a substitution prints, as far as that is known."""
        reader.substitutions += 1
        stage = reader.read_list(")" if reader is self else "")
        reader.substitutions -= 1
        self.inner += stage.commands
        if self.visitor.is_unread(stage):
            return UNREAD
        words = stage.commands[0] if len(stage.commands) == 1 else []
        printer = _PRINTER.match(" ".join(words))
        if self.visitor.variables is None or printer is None:
            return self.visitor.unknown
        rest = " ".join(words)[printer.end() :].split(" ")
        return unescape(" ".join(word for word in rest if not _OPTION_OF_PRINTER.fullmatch(word)))
