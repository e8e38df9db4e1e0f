"""One tree of the grammar, looked through for what must never run.

What the pieces of a line have to do with each other is seen here: what is piped into what, what a loop gives to its
variable, what is written to a file that is run later.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Protocol

from hookline.containment.shell.fetched import (
    Fetched,
    feeds_a_shell,
    printed_words,
    runs_its_words,
    runs_text,
)
from hookline.containment.shell.grammar import walk
from hookline.containment.shell.literal import literal, literal_words, unescape
from hookline.containment.shell.paths import is_device, is_network, is_protected
from hookline.containment.shell.sources import is_decoder, is_fetch
from hookline.containment.shell.unwrap import (
    INTERPRETERS,
    inner_argvs,
    name_of,
    reads_code_from_input,
    scripts_in,
)

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_COMMANDS = 400
SEPARATORS = re.compile(r"&&|\|\||[;\n|&(){}`]")
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
UNREAD = "comes from the network or has been decoded"
_ROUNDS = 6
_ECHOES = frozenset({"echo", "printf"})
_PRINTS_NAMES = _ECHOES | {"find", "ls"}
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})


class Found(Exception):
    """Something that must never run."""

    def __init__(self, problem: str, command: str) -> None:
        self.problem = problem
        self.command = command


class Search(Protocol):
    """What is known of the whole text, and how the pieces in it are searched."""

    variables: dict[str, str]
    fetched: Fetched
    functions: dict[str, str]
    scripts: dict[str, str]
    where: str

    def script(self, text: str, depth: int) -> None:
        """Search a piece of bash."""

    def argv(self, argv: list[str], text: str, depth: int) -> None:
        """Search one command."""

    def spend(self, characters: int) -> None:
        """Count what is looked at."""


class Tree:
    """One tree, and the text it was made from."""

    def __init__(self, search: Search, source: str, depth: int) -> None:
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
            elif kind == "for_statement":
                self._loop(node)
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
        pieces = SEPARATORS.split(text[:500])
        return [words for piece in pieces if (words := literal_words(piece, self.all.variables))]

    # --- the parts of a tree ----------------------------------------------------------------------

    def _assignment(self, node: Node) -> None:
        name, operator, value = self.text(node).partition("=")
        if not operator:
            return
        name = name.rstrip("+").partition("[")[0]
        known = literal(value, self.all.variables)[:2000]
        self.all.variables[name] = known
        self.all.fetched.assign(name, self.argvs(node))
        if _RUN_BY_OTHERS.fullmatch(name):
            self.all.script(known, self.depth + 1)

    def _loop(self, node: Node) -> None:
        """A loop is looked at with each of the first values of its variable; then with all of them in one."""
        words = [one for one in node.children if one.type in _WORDS]
        body = node.child_by_field_name("body")
        if not words or body is None:
            return
        name, given = self.text(words[0]), words[1:65]
        known = self.all.variables
        values = [word for one in given for word in literal_words(self.text(one), known)]
        known[name] = " ".join(values)[:2000]
        if len(values) < 2 or not re.search(rf"\$\{{?{re.escape(name)}\b", self.text(body)):
            return
        for value in values[:_ROUNDS]:
            self.all.spend(body.end_byte - body.start_byte)
            self.all.variables = {**known, name: value}
            self.search(body)
        self.all.variables = known

    def _command(self, node: Node) -> None:
        text = self.text(node)
        for child in node.children:
            if child.type == "variable_assignment":
                self._assignment(child)
        argv = self.argv(node)
        self.all.argv(argv, text, self.depth)
        if name_of(argv) == "printf" and "-v" in argv and any(map(is_fetch, self.argvs(node))):
            self.all.fetched.take([argv])
        self._runs_printed(node, argv, text)
        for child in node.children:
            if child.type == "herestring_redirect":
                self._given(node, literal(self.text(child).lstrip("<"), self.all.variables))

    def _runs_printed(self, node: Node, argv: list[str], text: str) -> None:
        """A substitution that fetches or decodes, inside a command that runs what it is given."""
        whole = self._with_inner(argv)
        name = next((self.text(one) for one in node.children if one.type == "command_name"), "")
        runs_named = any(map(runs_text, whole)) and self.all.fetched.is_named_in(text)
        if runs_named or self.all.fetched.is_named_in(name):
            raise Found(f"it runs what {UNREAD}", text)
        substitutions = [
            n for n in walk(node) if n.type in {"command_substitution", "process_substitution"}
        ]
        if not substitutions:
            return
        runs = any(map(runs_its_words, whole))
        is_itself = not argv or name.startswith(("$(", '"$(', "`", '"`'))  # it prints the command
        if not (runs or is_itself):
            return
        for one in substitutions:
            if runs and self.all.fetched.is_named_in(self.text(one)):
                raise Found(f"it runs what {UNREAD}", text)
            for inner in self.argvs(one):
                if is_fetch(inner) or is_decoder(inner):
                    raise Found(f"it runs what {UNREAD}", text)
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
            runs = any(reads_code_from_input(argv) for argv in stage) or feeds_a_shell(stage)
            if runs and unread:
                raise Found(f"it runs what {UNREAD}", text)
            for words in printed[:8]:
                self._printed(words, stage, text, runs=runs)
            if unread:
                self.all.fetched.take(stage)
            unread = unread or any(is_fetch(argv) or is_decoder(argv) for argv in stage)
            unread = unread or self.all.fetched.is_printed_by(stage, self.text(child))
            printed += [printed_words(argv) for argv in stage if name_of(argv) in _PRINTS_NAMES]

    def _printed(self, words: list[str], stage: list[list[str]], text: str, *, runs: bool) -> None:
        """What is printed may be run as it is, or become the words of what xargs runs."""
        while words and re.fullmatch(r"-[neE]+", words[0]):
            words = words[1:]
        if runs:
            self._code(unescape(" ".join(words)), stage)
            self._code(" ".join(words), stage)
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
            self.all.fetched.take(argvs)
        else:
            self._keep_script(node, argvs)
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
                    raise Found(f"it runs what {UNREAD}", self.text(node))
            elif one.type == "file_redirect" and self._reads_fetched(self.text(one)):
                raise Found(f"it runs what {UNREAD}", self.text(node))

    def _reads_fetched(self, redirect: str) -> bool:
        target = literal(redirect[1:].strip(), self.all.variables)
        return redirect.startswith("<") and self.all.fetched.holds(target)

    def _keep_stored(self, node: Node) -> None:
        for child in node.children:
            if child.type == "file_redirect":
                target = literal(self.text(child).lstrip("0123456789&<>| "), self.all.variables)
                self.all.fetched.keep(target)

    def _keep_script(self, node: Node, argvs: list[list[str]]) -> None:
        """`echo .. > file` and `cat > file <<EOF`: what is in the file, if that is run later."""
        texts = [self.text(one) for one in walk(node) if one.type == "heredoc_body"]
        printed = [" ".join(printed_words(argv)) for argv in argvs if name_of(argv) in _ECHOES]
        texts += [*printed, *map(unescape, printed)]
        for child in node.children if texts else ():
            if child.type == "file_redirect":
                target = literal(self.text(child).lstrip("0123456789&<>| "), self.all.variables)
                self.all.scripts[posixpath.normpath(target)] = "\n".join(texts)[:2000]

    def _given(self, node: Node, text: str) -> None:
        argvs = self.argvs(node)
        if any(reads_code_from_input(argv) for argv in argvs):
            if self.all.fetched.is_named_in(self.text(node)):
                raise Found(f"it runs what {UNREAD}", self.text(node))
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
        self.all.functions[name] = self.text(body)[:2000]
        calls = [argv for argv in self.argvs(body) if argv[0] == name]
        parallel = any(child.type in {"&", "|", "|&"} for child in walk(body))
        if calls and parallel:
            raise Found("it multiplies without end", self.text(node))
