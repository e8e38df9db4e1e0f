"""The second pass: finding what must never run, wherever in the text it hides.

Every command of the tree is looked at: in substitutions, in loops and functions, behind wrappers, in the text given
to another shell, in what is piped to one. A finding denies. Finding nothing proves nothing: that is what the first
pass is for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from hookline.containment.shell.deadly import deadly
from hookline.containment.shell.fetched import Fetched, printed_words, runs_text
from hookline.containment.shell.grammar import parse, walk
from hookline.containment.shell.literal import literal, literal_words, unescape
from hookline.containment.shell.paths import is_device, is_network, is_protected
from hookline.containment.shell.reading import MAX_LENGTH
from hookline.containment.shell.sources import is_decoder, is_fetch, runs_unread
from hookline.containment.shell.unwrap import (
    INTERPRETERS,
    SHELLS,
    inner_argvs,
    name_of,
    reads_code_from_input,
    scripts_in,
)

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 6
MAX_COMMANDS = 400
MAX_WORK = 60_000
"""How many characters are looked at, those of texts inside texts included."""

_SEPARATORS = re.compile(r"&&|\|\||[;\n|&(){}`]")
_BOMB = re.compile(
    r"([\w:.]{1,40})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,200}?\1\s{0,9}\|\s{0,9}\1\s{0,9}&"
)
_PERL_BOMB = re.compile(
    r"fork\s{1,9}while\s{1,9}(?:fork|1)|while\s{0,9}\(?\s{0,9}(1|True|true)\s{0,9}\)?\s{0,9}:?\s{0,9}(os\.)?fork"
    r"|loop\s{0,9}(?:\{|do)\s{0,9}fork|os\.fork\(\) for |\$0\"?\s{0,9}&\s{0,9}(?:done|\$0)"
)
_WORDS = frozenset(
    """
    command_name word number string raw_string ansi_c_string translated_string concatenation simple_expansion expansion
    command_substitution process_substitution brace_expression variable_name variable_assignment regex
    """.split()
)
_COMMANDS = frozenset({"command", "declaration_command", "unset_command"})
_TIMES = re.compile(r"^(?:\S+\s+){5}", re.MULTILINE)
_BACKTICKS = re.compile(r"`([^`]*)`")
_RUN_BY_OTHERS = re.compile(
    r".*(COMMAND|PAGER|EDITOR|VISUAL|SHELL|BROWSER|_CMD|ASKPASS|_SSH|OPEN|EXTERNAL_DIFF|PS[0-4])"
)
"""Variables whose values other programs run."""
_UNREAD = "comes from the network or has been decoded"
_ECHOES = frozenset({"echo", "printf"})
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})


class Danger(msgspec.Struct, frozen=True):
    """What was found: the commands anywhere in the text, and the first that must never run."""

    commands: tuple[tuple[str, ...], ...] = ()
    problem: str = ""
    command: str = ""
    complete: bool = True
    """Whether all of it was looked at. If not, it must not be allowed."""


class TooMuch(Exception):
    """There is more to look at than a verdict may cost."""


class Found(Exception):
    """Something that must never run."""

    def __init__(self, problem: str, command: str) -> None:
        self.problem = problem
        self.command = command


def find_danger(text: str, where: str = "") -> Danger:
    """Look through every command of a text that is run in a directory; if it is too long, of its beginning: it is
    asked about anyway."""
    search = _Search(where)
    try:
        search.script(text[:MAX_LENGTH], depth=0)
    except Found as found:
        return Danger(tuple(search.commands), found.problem, found.command)
    except (TooMuch, RecursionError):
        return Danger(tuple(search.commands), complete=False)
    return Danger(tuple(search.commands))


class _Search:
    """What is known while a text is searched."""

    def __init__(self, where: str) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.variables: dict[str, str] = {}
        self.fetched = Fetched()
        self.where = where
        self.budget = MAX_WORK

    def script(self, text: str, depth: int) -> None:
        """Search a piece of bash."""
        if depth > MAX_DEPTH:
            raise Found("it is nested too deeply to be read", text)
        self.spend(len(text) + 100)
        if _BOMB.search(text) or _PERL_BOMB.search(text):
            raise Found("it multiplies without end", text)
        clean = text.replace("\\\n", "").replace("\r", "\n").replace("\0", "")
        root = parse(clean)
        _Tree(self, clean, depth).search(root)
        if root.has_error:
            self._pieces(clean, depth)

    def spend(self, characters: int) -> None:
        """Count what is looked at."""
        self.budget -= characters
        if self.budget < 0:
            raise TooMuch

    def _pieces(self, text: str, depth: int) -> None:
        """What the grammar cannot read is looked at piece by piece, as if each were a command."""
        pieces = [*re.split(r"[;\n|&]", text), *_SEPARATORS.split(text)]
        for piece in pieces[:MAX_COMMANDS]:
            if words := literal_words(piece, self.variables):
                self.argv(words, piece, depth)

    def argv(self, argv: list[str], text: str, depth: int) -> None:
        """Search one command, and everything that it would run."""
        while argv and re.match(r"[A-Za-z_]\w*\+?=", argv[0]):
            argv = argv[1:]
        if not argv:
            return
        if len(self.commands) > MAX_COMMANDS:
            raise TooMuch
        if depth > MAX_DEPTH:
            raise Found("it is nested too deeply to be read", text)
        self.commands.append(tuple(argv))
        if problem := deadly(argv, self.where):
            raise Found(problem, text)
        if path := self.fetched.is_run_by(argv):
            raise Found(f"it runs {path}, which {_UNREAD}", text)
        self.fetched.note(argv)
        if name_of(argv) in {"cd", "pushd"}:
            self._move(argv[1:])
        if argv[:2] == ["set", "--"]:
            self._set_positions(argv[2:])
        if INTERPRETERS.fullmatch(name_of(argv)) and any(runs_unread(w) for w in argv[1:]):
            raise Found(f"it runs what {_UNREAD}", text)
        for inner in inner_argvs(argv):
            self.argv(inner, text, depth + 1)
        for script in scripts_in(argv):
            self.script(script, depth + 1)

    def _move(self, words: list[str]) -> None:
        target = next((word for word in words if not word.startswith("-")), "~")
        absolute = target.startswith(("/", "~")) or not self.where
        self.where = target if absolute else f"{self.where}/{target}"

    def _set_positions(self, words: list[str]) -> None:
        joined = " ".join(words)
        numbered = {str(number): word for number, word in enumerate(words[:9], start=1)}
        self.variables |= {"@": joined, "*": joined, **numbered}


class _Tree:
    """One tree, and the text it was made from."""

    def __init__(self, search: _Search, source: str, depth: int) -> None:
        self.all = search
        self.source = source
        self.depth = depth

    def search(self, root: Node) -> None:
        for node in walk(root):
            kind = node.type
            if kind == "variable_assignment":
                self._assignment(node)
            elif kind in _COMMANDS:
                self._command(node)
            elif kind == "pipeline":
                self._pipeline(node)
            elif kind == "redirected_statement":
                self._redirected(node)
            elif kind == "file_redirect":
                self._redirect(node)
            elif kind == "function_definition":
                self._function(node)
            elif kind == "expansion":
                for inner in _BACKTICKS.findall(self.text(node)):
                    self.all.script(inner, self.depth + 1)

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte]

    def argv(self, node: Node) -> list[str]:
        """The words of a command, as far as they can be guessed."""
        words: list[str] = []
        for child in node.children:
            if child.type in _WORDS or (not child.is_named and node.type != "command"):
                words += literal_words(self.text(child), self.all.variables)
        return words

    def argvs(self, node: Node) -> list[list[str]]:
        """Every command at and below a node, and what each would run."""
        self.all.spend(node.end_byte - node.start_byte)
        found: list[list[str]] = []
        pending = [self.argv(one) for one in walk(node) if one.type in _COMMANDS]
        while pending and len(found) < MAX_COMMANDS:
            argv = pending.pop()
            while argv and re.match(r"[A-Za-z_]\w*=", argv[0]):
                argv = argv[1:]
            if argv:
                found.append(argv)
                pending.extend(inner_argvs(argv))
                pending.extend(words for text in scripts_in(argv) for words in self._loosely(text))
        return found

    def _loosely(self, text: str) -> list[list[str]]:
        pieces = _SEPARATORS.split(text[:500])
        return [words for piece in pieces if (words := literal_words(piece, self.all.variables))]

    # --- the parts of a tree ----------------------------------------------------------------------

    def _assignment(self, node: Node) -> None:
        name, operator, value = self.text(node).partition("=")
        if not operator:
            return
        known = literal(value, self.all.variables)[:2000]
        self.all.variables[name.rstrip("+")] = known
        self.all.fetched.assign(name.rstrip("+"), self.argvs(node))
        if _RUN_BY_OTHERS.fullmatch(name):
            self.all.script(known, self.depth + 1)

    def _command(self, node: Node) -> None:
        text = self.text(node)
        for child in node.children:
            if child.type == "variable_assignment":
                self._assignment(child)
        argv = self.argv(node)
        self.all.argv(argv, text, self.depth)
        self._runs_printed(node, argv, text)
        for child in node.children:
            if child.type == "herestring_redirect":
                self._given(node, literal(self.text(child).lstrip("<"), self.all.variables))

    def _runs_printed(self, node: Node, argv: list[str], text: str) -> None:
        """A substitution that fetches or decodes, inside a command that runs what it is given."""
        whole = self._with_inner(argv)
        if any(map(runs_text, whole)) and self.all.fetched.is_named_in(text):
            raise Found(f"it runs what {_UNREAD}", text)
        substitutions = [
            n for n in walk(node) if n.type in {"command_substitution", "process_substitution"}
        ]
        if not substitutions:
            return
        runs = any(map(_runs_its_words, whole))
        is_itself = not argv  # nothing but the substitution: what it prints is the command
        if not (runs or is_itself):
            return
        for one in substitutions:
            for inner in self.argvs(one):
                if is_fetch(inner) or is_decoder(inner):
                    raise Found(f"it runs what {_UNREAD}", text)
                if name_of(inner) in {"echo", "printf"} and runs:
                    self._printed(inner[1:], [argv], text, runs=True)

    def _with_inner(self, argv: list[str]) -> list[list[str]]:
        found: list[list[str]] = []
        pending = [argv] if argv else []
        while pending and len(found) < MAX_COMMANDS:
            one = pending.pop()
            found.append(one)
            pending.extend(inner for inner in inner_argvs(one) if inner)
        return found

    def _pipeline(self, node: Node) -> None:
        text = self.text(node)
        unread, printed = False, list[list[str]]()
        for child in node.children:
            stage = self.argvs(child) if child.is_named else []
            runs = any(reads_code_from_input(argv) for argv in stage) or _feeds_a_shell(stage)
            if runs and unread:
                raise Found(f"it runs what {_UNREAD}", text)
            for words in printed[:8]:
                self._printed(words, stage, text, runs=runs)
            unread = unread or any(is_fetch(argv) or is_decoder(argv) for argv in stage)
            unread = unread or self.all.fetched.is_printed_by(stage, self.text(child))
            printed += [printed_words(argv) for argv in stage if name_of(argv) in _ECHOES]

    def _printed(self, words: list[str], stage: list[list[str]], text: str, *, runs: bool) -> None:
        """What is printed may be run as it is, or become the words of what xargs runs."""
        while words and re.fullmatch(r"-[neE]+", words[0]):
            words = words[1:]
        if runs:
            self._code(unescape(" ".join(words)), stage)
        for argv in stage:
            if name_of(argv) == "xargs":
                given = unescape(" ".join(words)).split()
                for inner in inner_argvs(argv):
                    self.all.argv([*inner, *given], text, self.depth + 1)

    def _code(self, text: str, stage: list[list[str]]) -> None:
        """Search what is given to a command as its program."""
        names = {name_of(argv) for argv in stage}
        if any(INTERPRETERS.fullmatch(name) for name in names):
            for script in scripts_in(["python", text]):
                self.all.script(script, self.depth + 1)
        else:
            lines = _TIMES.sub("", text) if "crontab" in names else text
            self.all.script(lines, self.depth + 1)

    def _redirected(self, node: Node) -> None:
        """A heredoc belongs to whatever is in the same statement, also behind a pipe."""
        argvs = self.argvs(node)
        if any(is_fetch(argv) or is_decoder(argv) for argv in argvs):
            self._keep_stored(node)
        bodies = [self.text(n) for n in walk(node) if n.type == "heredoc_body"]
        if any(reads_code_from_input(argv) for argv in argvs):
            for body in bodies:
                self._code(body, argvs)
            self._input_from(node)

    def _input_from(self, node: Node) -> None:
        """`sh < <(curl ..)`, `curl .. > >(sh)`, and `sh < file` of what was fetched."""
        for one in walk(node):
            if one.type == "process_substitution":
                inner = self.argvs(one)
                fetches = any(is_fetch(argv) or is_decoder(argv) for argv in inner)
                given = self.text(one).startswith(">(") and any(map(reads_code_from_input, inner))
                outer = given and any(is_fetch(argv) for argv in self.argvs(node))
                if fetches or outer:
                    raise Found(f"it runs what {_UNREAD}", self.text(node))
            elif one.type == "file_redirect" and self._reads_fetched(self.text(one)):
                raise Found(f"it runs what {_UNREAD}", self.text(node))

    def _reads_fetched(self, redirect: str) -> bool:
        target = literal(redirect[1:].strip(), self.all.variables)
        return redirect.startswith("<") and self.all.fetched.holds(target)

    def _keep_stored(self, node: Node) -> None:
        for child in node.children:
            if child.type == "file_redirect":
                target = literal(self.text(child).lstrip("0123456789&<>| "), self.all.variables)
                self.all.fetched.keep(target)

    def _given(self, node: Node, text: str) -> None:
        argvs = self.argvs(node)
        if any(reads_code_from_input(argv) for argv in argvs):
            self._code(text, argvs)

    def _redirect(self, node: Node) -> None:
        operator = next((child.type for child in node.children if not child.is_named), "")
        raw = self.text(node).lstrip("0123456789")
        target = literal(raw.lstrip("&<>| "), self.all.variables)
        if is_network(target):
            raise Found("it opens a connection through /dev/tcp", self.text(node))
        writes = operator in _WRITING
        if writes and (is_protected(target, self.all.where) or is_device(target)):
            raise Found(f"it writes to {target}", self.text(node))

    def _function(self, node: Node) -> None:
        name = (
            self.text(node.children[0])
            if node.children[0].is_named
            else self.text(node.children[1])
        )
        body = node.children[-1]
        calls = [argv for argv in self.argvs(body) if argv[0] == name]
        parallel = any(child.type in {"&", "|", "|&"} for child in walk(body))
        if calls and parallel:
            raise Found("it multiplies without end", self.text(node))


def _runs_its_words(argv: list[str]) -> bool:
    """Whether a command runs what its words say, or the file that the first of them names."""
    name = name_of(argv)
    if name in SHELLS or name in {"eval", "source", ".", "crontab"}:
        return True
    if name in {"make", "awk", "gawk", "gdb"}:
        return "-f" in argv or "-x" in argv
    operands = [word for word in argv[1:] if not word.startswith("-")]
    given = any(re.fullmatch(r"-[A-Za-z]*[ceEr]|--eval", word) for word in argv[1:])
    code = given or not operands or not operands[0] or operands[0].startswith("<(")
    return code and INTERPRETERS.fullmatch(name) is not None


def _feeds_a_shell(stage: list[list[str]]) -> bool:
    """`xargs sh -c`: what is piped becomes code."""
    names = {name_of(argv) for argv in stage}
    return bool(names & {"xargs", "parallel"}) and bool(names & SHELLS or "eval" in names)
