"""Finding what is denied, wherever in the text it hides.

Every command of the tree is looked at: in substitutions, loops and functions, behind programs that run others, in the
text given to a shell, in what is piped to one. Finding nothing proves nothing: such a command is not allowed for it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from hookline.containment.shell.denylist import (
    DenyFinding,
    Location,
    find_denied,
    is_device,
    is_network,
    is_protected,
)
from hookline.containment.shell.env_files import env_files_in
from hookline.containment.shell.find import roots_of
from hookline.containment.shell.grammar import parse, walk
from hookline.containment.shell.literal import UNREAD, literal, literal_words, unescape
from hookline.containment.shell.places import Places
from hookline.containment.shell.reading import MAX_LENGTH
from hookline.containment.shell.unread import (
    SHELLS,
    code_words,
    is_source,
    name_of,
    reads_code,
    runs_code,
)

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 6
MAX_COMMANDS = 400
MAX_WORK = 60_000
"""How many characters are looked at, those of texts inside texts included."""

RUNNERS = frozenset(
    """
    env nohup setsid nice ionice timeout gtimeout stdbuf time command builtin exec busybox toybox xargs parallel strace
    ltrace watch unshare nsenter systemd-run entr valgrind linux32 linux64 eatmydata tini dumb-init sshpass trap alias
    coproc npx bunx uvx proxychains proxychains4 xvfb-run caffeinate unbuffer hyperfine
    if then else elif do while until ! {
    """.split()
)
"""Programs, and words of the shell, that run what stands among their words."""
RUNNERS_OF_ANY = frozenset(
    "flock chroot taskset chrt setarch perf faketime script screen tmux sg op aws-vault".split()
)
"""Those that have words of their own before it: each word may be where it begins."""
_BEFORE_INNER = frozenset("-exec -execdir -ok -okdir -x -X --exec --exec-batch".split())
_RUN_VERBS = frozenset({"run", "exec", "x", "dlx"})
_FLAGS = frozenset("-- -0 -r -t -x -v --null --no-run-if-empty --forelocation".split())
"""Options of these programs that take no value. Any other may."""
_JOINED = re.compile(r"--[\w-]+=|-\w(?=\w)|\w+=")
_NO_PROGRAM = re.compile(r"[-+]|[0-9.]+[a-z]?$|[A-Za-z_]\w*\+?=|$")
_UNREAD = "it runs what comes from the network or has been decoded"
_BOMB = re.compile(
    r"([\w:.]{1,40})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,200}?\1\s{0,9}\|\s{0,9}\1\s{0,9}&"
)
_ESCAPED_NAME = re.compile(r"((?:^|[\n;&|(){}`])[ \t]{0,20})\\(?=[A-Za-z/])")
"""A backslash before the name of a command: at the beginning of a line, the grammar loses the command."""
_BEFORE_COMMAND = re.compile(
    r"((?:^|[\n;&|({])[ \t]{0,20})(?:(?:time|!|coproc(?:[ \t]{1,20}\w{1,40}(?=[ \t]{1,20}\{))?)[ \t]{1,20})+"
)
"""Words that change nothing about what runs. Behind them the grammar does not see every kind of command."""
_CUTS = (re.compile(r"[;\n|&]"), re.compile(r"[;\n|&()`]"), re.compile(r"&&|\|\||[;\n|&(){}`]"))
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=")
_ASSIGNING = frozenset("export declare typeset local readonly".split())
_COMMANDS = frozenset({"command", "declaration_command", "unset_command"})
_WORDS = frozenset(
    """
    command_name word number string raw_string ansi_c_string translated_string concatenation simple_expansion expansion
    command_substitution process_substitution brace_expression variable_name variable_assignment regex
    """.split()
)
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
_GIT_GLOBALS = frozenset(
    "-C -c --git-dir --work-tree --namespace --exec-path --config-env --attr-source --super-prefix".split()
)


class Danger(msgspec.Struct, frozen=True):
    """What was found: the commands anywhere in the text, and the first that is denied."""

    commands: tuple[tuple[str, ...], ...] = ()
    problem: str = ""
    """Why it is denied."""
    command: str = ""
    """The part of the text that is."""
    removal: str = ""
    """Why it is asked about in a sandbox too."""
    env_files: tuple[str, ...] = ()
    """The environment files that a word names."""
    complete: bool = True
    """Whether all of it was looked at. If not, it must not be allowed."""


def find_danger(text: str, places: Places) -> Danger:
    """Look through every command of a text; if it is too long, of its beginning: it is asked about anyway."""
    search = _Search(Location(places.root, places.wheres[0]))
    problem, command, complete = "", "", True
    try:
        search.script(text[:MAX_LENGTH], depth=0)
    except _Found as found:
        problem, command = found.problem, found.command
    except (_TooMuch, RecursionError):
        complete = False
    commands, files = tuple(search.commands), tuple(search.env_files)
    return Danger(commands, problem, command, search.removal, files, complete)


class _Found(Exception):
    """Something that is denied."""

    def __init__(self, problem: str, command: str) -> None:
        self.problem = problem
        self.command = command


class _TooMuch(Exception):
    """There is more to look at than a verdict may cost."""


class _Search:
    """What is known while a text is searched."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.commands: list[tuple[str, ...]] = []
        self.variables: dict[str, str] = {}
        self.files: set[str] = set()
        """Files that hold what was fetched or decoded."""
        self.removal = ""
        self.env_files: dict[str, None] = {}
        self.seen: set[tuple[str, str]] = set()
        """Words that were looked at for environment files, each with where."""
        self.budget = MAX_WORK

    def script(self, text: str, depth: int) -> None:
        """Search a piece of bash."""
        if depth > MAX_DEPTH:
            raise _Found("it is nested too deeply to be read", text)
        self.spend(len(text) + 100)
        if _BOMB.search(text):
            raise _Found("it multiplies without end", text)
        clean = text.replace("\\\n", "").replace("\r", "\n").replace("\0", "")
        clean = _ESCAPED_NAME.sub(r"\1", _BEFORE_COMMAND.sub(r"\1", clean))
        for reading in dict.fromkeys([clean, clean.replace("((", "( (")]):
            root = parse(reading)
            _Tree(self, reading, depth).search(root)
            if root.has_error:
                self._pieces(reading, depth)

    def spend(self, characters: int) -> None:
        """Count what is looked at."""
        self.budget -= characters
        if self.budget < 0:
            raise _TooMuch

    def _pieces(self, text: str, depth: int) -> None:
        """What the grammar cannot read is looked at piece by piece, as if each were a command."""
        pieces = [piece for cut in _CUTS for piece in cut.split(text)]
        for piece in pieces[:MAX_COMMANDS]:
            if words := literal_words(piece, self.variables):
                self.argv(words, piece, depth)

    def argv(self, argv: list[str], text: str, depth: int) -> None:
        """Search one command, and everything that it would run."""
        if depth > MAX_DEPTH:
            raise _Found("it is nested too deeply to be read", text)
        self.note_env_files(argv)
        for inner in self.spellings(argv):
            if len(self.commands) > MAX_COMMANDS:
                raise _TooMuch
            self.commands.append(tuple(inner))
            if finding := find_denied(inner, self.location):
                self._report(finding, text)
            self._check_unread(inner, text)
            self._note(inner)
            for script in _scripts_in(inner):
                self.script(script, depth + 1)

    def spellings(self, argv: Sequence[str]) -> Iterator[list[str]]:
        """A command, and each that it may run: of a program that runs others, all that its words end with."""
        words = list(argv)
        while words and _ASSIGNED.match(words[0]):
            words = words[1:]
        if not words:
            return
        yield words
        if name_of(words) == "git" and (plain := _plain_git(words)):
            yield plain
        for inner in _inner_commands(words):
            yield inner
            if name_of(inner) == "git" and (plain := _plain_git(inner)):
                yield plain

    def note_env_files(self, words: Sequence[str]) -> None:
        """Remember the environment files that words name."""
        for word in words:
            if (key := (word, self.location.where)) not in self.seen:
                self.seen.add(key)
                self.env_files |= dict.fromkeys(
                    env_files_in(word, self.location.where, self.location.root)
                )

    def _report(self, finding: DenyFinding, text: str) -> None:
        if finding.is_denied:
            raise _Found(finding.reason, text)
        self.removal = self.removal or finding.reason

    def _check_unread(self, argv: Sequence[str], text: str) -> None:
        """Whether a command runs what was fetched or decoded: as its words, or from a file."""
        given = [argv[0], *code_words(argv)]
        if any(UNREAD in word for word in given) or any(map(self.is_file_unread, given)):
            raise _Found(_UNREAD, text)

    def is_file_unread(self, word: str) -> bool:
        return bool(word) and posixpath.normpath(word) in self.files

    def _note(self, argv: list[str]) -> None:
        """Remember what a command leaves behind for the next ones."""
        name, words = name_of(argv), argv[1:]
        names = [word for word in words if word and not word.startswith("-")]
        if is_source(argv):
            for word in names:
                self.files |= {posixpath.normpath(word), posixpath.basename(word.partition("?")[0])}
            self.files -= {"", ".", "-"}
        elif name in {"mv", "cp", "ln", "install"} and any(map(self.is_file_unread, names[:-1])):
            self.files.add(posixpath.normpath(names[-1]))
        elif name in {"cd", "pushd"}:
            target = self.location.path(names[0] if names else "~")
            self.location = Location(self.location.root, target)
        elif name in _ASSIGNING:
            for word in words:
                self.assign(*word.partition("=")[::2])
        elif argv[:2] == ["set", "--"]:
            joined = " ".join(argv[2:])
            numbered = {str(at): word for at, word in enumerate(argv[2:11], start=1)}
            self.variables |= {"@": joined, "*": joined, **numbered}

    def assign(self, name: str, value: str) -> None:
        """Remember what a variable is."""
        if name.isidentifier():
            self.variables[name] = value[:2000]


class _Tree:
    """One tree, and the text it was made from. What the commands of a line have to do with each other is seen here."""

    def __init__(self, search: _Search, source: str, depth: int) -> None:
        self.all = search
        self.source = source
        self.depth = depth
        self.known: dict[tuple[int, int], list[str]] = {}
        """The words of commands, while no variable changes."""

    def search(self, root: Node) -> None:
        for node in walk(root):
            kind = node.type
            if kind == "variable_assignment":
                name, _, value = self.text(node).partition("=")
                name = name.rstrip("+").partition("[")[0]
                self.all.assign(name, literal(value, self.all.variables))
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
                for inner in re.findall(r"`([^`]*)`", self.text(node)):
                    self.all.script(inner, self.depth + 1)

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte]

    def argv(self, node: Node) -> list[str]:
        """The words of a command, as far as they can be guessed."""
        key = (node.start_byte, node.end_byte)
        if not self.all.variables and key in self.known:
            return self.known[key]
        spans: list[tuple[int, int]] = []
        for child in node.children:
            if child.type in _WORDS or (not child.is_named and node.type != "command"):
                start = child.start_byte
                if spans and spans[-1][1] == start:  # the grammar takes `-rf$IFS/` for two words
                    start = spans.pop()[0]
                spans.append((start, child.end_byte))
        texts = (self.source[start:end] for start, end in spans)
        words = [word for text in texts for word in literal_words(text, self.all.variables)]
        self.known[key] = words
        return words

    def argvs(self, node: Node) -> list[list[str]]:
        """Every command at and below a node, and what each may run."""
        self.all.spend(node.end_byte - node.start_byte)
        found: list[list[str]] = []
        for one in walk(node):
            if one.type in _COMMANDS and len(found) < MAX_COMMANDS:
                for argv in self.all.spellings(self.argv(one)):
                    found.append(argv)
                    for script in _scripts_in(argv):
                        pieces = _CUTS[2].split(script[:500])
                        found += filter(
                            None, (literal_words(p, self.all.variables) for p in pieces)
                        )
        return found

    def _command(self, node: Node) -> None:
        for child in node.children:
            if child.type == "variable_assignment":  # it is met before the words that use it
                name, _, value = self.text(child).partition("=")
                self.all.assign(name, literal(value, self.all.variables))
        argv = self.argv(node)
        self.all.argv(argv, self.text(node), self.depth)
        inner = [
            text for one in walk(node) if one.type in _SUBSTITUTIONS for text in self._echoed(one)
        ]
        if inner and any(map(runs_code, self.all.spellings(argv))):
            self.all.script("\n".join(inner), self.depth + 1)
        for child in node.children:
            if child.type == "herestring_redirect":
                given = literal(self.text(child).lstrip("<"), self.all.variables)
                self._piped([given], [argv], self.text(node), is_unread=UNREAD in given)

    def _echoed(self, node: Node) -> list[str]:
        return [text for argv in self.argvs(node) for text in _printed_by(argv)]

    def _pipeline(self, node: Node) -> None:
        is_unread, printed = False, list[str]()
        for child in node.children:
            stage = self.argvs(child) if child.is_named else []
            self._piped(printed, stage, self.text(node), is_unread=is_unread)
            if is_unread:
                stored = (
                    word
                    for argv in stage
                    if name_of(argv) in {"tee", "sponge"}
                    for word in argv[1:]
                )
                self.all.files.update(map(posixpath.normpath, stored))
            is_unread = is_unread or any(
                is_source(argv) or UNREAD in " ".join(argv) for argv in stage
            )
            is_unread = is_unread or any(self.all.is_file_unread(w) for argv in stage for w in argv)
            printed += [text for argv in stage for text in _printed_by(argv)]

    def _piped(
        self, printed: list[str], stage: list[list[str]], text: str, *, is_unread: bool
    ) -> None:
        """What is printed may be run as it is, or become the words of what xargs runs."""
        names = {name_of(argv) for argv in stage}
        is_fed = bool(names & {"xargs", "parallel"})
        runs = any(map(reads_code, stage)) or (is_fed and bool(names & SHELLS))
        if runs and is_unread:
            raise _Found(_UNREAD, text)
        if runs:
            self.all.script("\n".join(printed), self.depth + 1)
        for argv in stage if is_fed else ():
            words = [word for line in printed for word in line.split()]
            if name_of(argv) in {"xargs", "parallel"} and words:
                self.all.argv([*argv, *words[:32]], text, self.depth + 1)

    def _redirected(self, node: Node) -> None:
        """A here-document belongs to whatever is in the same statement, also behind a pipe."""
        argvs = self.argvs(node)
        redirects = [child for child in node.children if child.type == "file_redirect"]
        targets = [self._target(child) for child in redirects]
        if any(map(is_source, argvs)):
            self.all.files.update(posixpath.normpath(target) for target in targets if target)
        text = self.text(node)
        bodies = [self.text(n) for n in walk(node) if n.type == "heredoc_body"]
        inner = [self.text(n) for n in walk(node) if n.type == "process_substitution"]
        is_unread = any(UNREAD in literal(one, self.all.variables) for one in inner)
        reads = [self.text(c).lstrip("0123456789").startswith("<") for c in redirects]
        is_unread = is_unread or any(
            self.all.is_file_unread(target)
            for target, read in zip(targets, reads, strict=True)
            if read
        )
        feeds = any(one.startswith(">(") for one in inner) and any(map(is_source, argvs))
        self._piped(bodies, argvs, text, is_unread=is_unread or feeds)

    def _target(self, node: Node) -> str:
        return literal(self.text(node).lstrip("0123456789").lstrip("&<>| "), self.all.variables)

    def _redirect(self, node: Node) -> None:
        operator = next((child.type for child in node.children if not child.is_named), "")
        target = self._target(node)
        self.all.note_env_files([target])
        if is_network(target):
            raise _Found("it opens a connection through /dev/tcp", self.text(node))
        location = self.all.location
        if (
            operator in _WRITING
            and target
            and (is_protected(target, location) or is_device(target, location))
        ):
            raise _Found(f"it writes to {target}", self.text(node))

    def _function(self, node: Node) -> None:
        first = node.children[0] if node.children[0].is_named else node.children[1]
        name, body = self.text(first), node.children[-1]
        is_called = any(argv[0] == name for argv in self.argvs(body))
        if is_called and any(child.type in {"&", "|", "|&"} for child in walk(body)):
            raise _Found("it multiplies without end", self.text(node))

    def _loop(self, node: Node) -> None:
        """The variable of a loop is taken for all of its values at once."""
        words = [one for one in node.children if one.type in _WORDS]
        values = [
            w for one in words[1:65] for w in literal_words(self.text(one), self.all.variables)
        ]
        if words:
            self.all.assign(self.text(words[0]), " ".join(values))


_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})


def _inner_commands(argv: Sequence[str]) -> Iterator[list[str]]:
    """The commands that a command may run, by the words of its own."""
    name, start = name_of(argv), 1
    if name in {"find", "fd", "fdfind"}:
        for at, word in enumerate(argv):
            if word in _BEFORE_INNER:
                yield from _from_each_word(argv[at:], is_any=False)
        return
    is_any = name in RUNNERS_OF_ANY or name.startswith("ld-linux")
    if name not in RUNNERS and not is_any:
        if argv[1:2] and argv[1] in _RUN_VERBS:  # `npm exec`, `uv run`
            start = 2
        else:
            return
    if name == "command" and argv[1:2] and argv[1] in {"-v", "-V"}:
        return
    yield from _from_each_word(argv[start - 1 :], is_any=is_any)


def _from_each_word(argv: Sequence[str], *, is_any: bool) -> Iterator[list[str]]:
    """What begins with a word that may name a program, and with the next runner in it.

    After an option a word may be its value, so the next may be the program, too. Any other word is the program.
    """
    for at in range(1, min(len(argv), 32)):
        if _NO_PROGRAM.match(argv[at]):
            continue
        inner = list(argv[at:])
        yield inner
        before = argv[at - 1]
        is_value = at > 1 and before.startswith("-") and before not in _FLAGS
        if not (is_any or is_value):
            yield from _inner_commands(inner)
            return


def _scripts_in(argv: Sequence[str]) -> Iterator[str]:
    """The pieces of bash that a command is given as text."""
    name = name_of(argv)
    if name == "eval":
        yield " ".join(argv[1:])
    elif name in SHELLS:
        yield from code_words(argv)
    elif name in RUNNERS or name in RUNNERS_OF_ANY:
        # The text may be joined to an option, or to the name of an alias.
        yield from (_JOINED.sub("", word) for word in argv[1:] if " " in word)


def _printed_by(argv: Sequence[str]) -> list[str]:
    """What a command prints: its words, or all that is in the directories that it lists."""
    name, words = (
        name_of(argv),
        [word for word in argv[1:] if not re.fullmatch(r"-[neE1Ad]+", word)],
    )
    if name == "ls" or (name == "find" and not {"-name", "-iname", "-path", "-regex"} & set(words)):
        roots = roots_of(words)
        return [os.path.join(root, "*") for root in roots or ["."]]
    if name == "printf" and len(words) > 1 and re.fullmatch(r"(?:%[sb]|\\n|\s)+", words[0]):
        words = words[1:]
    text = " ".join(words)
    return list(dict.fromkeys([text, unescape(text)])) if name in {"echo", "printf"} else []


def _plain_git(argv: Sequence[str]) -> list[str]:
    """`git -C dir push` as `git push`, so that rules about `git push` hold."""
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] in _GIT_GLOBALS else 1
    return ["git", *argv[at:]] if 1 < at < len(argv) else []
