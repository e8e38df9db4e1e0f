"""The shell policy: allow what only reads, deny what must never run, ask about the rest."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from hookline.containment.shell.allowlist import Allowlist, program_name
from hookline.containment.shell.command_parts import parts_of, possible_parts
from hookline.containment.shell.command_pattern import CommandPart, CommandPattern
from hookline.containment.shell.command_reader import read_command
from hookline.containment.shell.danger import Danger, find_danger
from hookline.containment.shell.denylist import PRIVILEGE
from hookline.containment.shell.places import Places
from hookline.containment.shell.programs import PROGRAMS, WRAPPERS
from hookline.containment.shell.words import Command, Reading, join_words
from hookline.errors import UsageError
from hookline.shell_text.runners import RUNNERS, RUNNERS_OF_ANY, can_run_code, can_run_others
from hookline.wildcards import MANY, ONE

_OF_TOOL = re.compile(r"(?i:bash|exec)\((.*)\)", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.", re.DOTALL)
_NO_WORD = re.compile(r"[;|&<>\n\r`]|\$\(|^\s*[A-Za-z_]\w*\(")
_PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]*")
_GIT_SETTINGS = frozenset({"-c", "--config-env", "--exec-path"})
_ENTRY = re.compile(r"--?[\w-]+|[\w:.-]+(?: [\w:.-]+)*")


Decision = Literal["allow", "ask", "deny"]


class ShellVerdict(msgspec.Struct, frozen=True, gc=False):
    """A decision, why, and which part of the command it is about."""

    decision: Decision
    reason: str
    """One sentence that names the part it is about."""
    command: str = ""
    """That part."""
    asks_in_sandbox: bool = False
    """Whether a person is asked even where a sandbox contains the command: what it removes cannot be restored."""
    env_files: tuple[str, ...] = ()
    """The environment files (`.env`) that a word of the command names, as whole paths."""
    only_reads: bool = False
    """Whether it is allowed because it only reads: it would be without any rule."""


class ShellPolicy(msgspec.Struct, frozen=True):
    """Judges commands before they run. A value: adding rules gives another policy.

    Deny goes before ask and ask before allow, whether a rule says so or the policy itself. A rule that allows lifts
    what the policy asks about; what the policy denies it lifts only if it was added with `even_denied=True`.
    """

    allow: tuple[CommandPattern, ...] = ()
    ask: tuple[CommandPattern, ...] = ()
    deny: tuple[CommandPattern, ...] = ()
    allow_denied: tuple[CommandPattern, ...] = ()
    trusted: Collection[str | os.PathLike[str]] = ()
    """Directories of repositories in which git may read without asking. In a mapping, each with the hash of its
    configuration: one that has changed is no longer trusted."""
    programs: Mapping[str, Sequence[str]] = {}
    """More programs that are allowed: each with its options, and its sub-commands if it may have only some."""

    def __post_init__(self) -> None:
        if isinstance(self.trusted, str | os.PathLike):
            raise UsageError(
                f"trusted={self.trusted!r} is one directory, not a list of directories.",
                remedy=f"Write trusted=[{self.trusted!r}].",
            )
        if not isinstance(self.programs, Mapping):
            raise UsageError(
                f"programs={self.programs!r} is not a table of programs.",
                remedy="Write programs={'terraform': ['validate']}.",
            )
        for name, entries in self.programs.items():
            _check_program(name, entries)

    @classmethod
    def default(cls) -> ShellPolicy:
        """The policy without rules: plainly read-only commands run, dangerous ones never do, all others ask."""
        return cls()

    def with_rules(
        self,
        *,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        deny: Iterable[str] = (),
        even_denied: bool = False,
    ) -> ShellPolicy:
        """The same policy with more rules. With `even_denied`, what `allow` names runs even if the policy denies it."""
        allowed = _parse("allow", allow)
        return msgspec.structs.replace(
            self,
            allow=self.allow + allowed,
            ask=self.ask + _parse("ask", ask),
            deny=self.deny + _parse("deny", deny),
            allow_denied=self.allow_denied + (allowed if even_denied else ()),
        )

    def judge(self, command: str | Sequence[str], *, cwd: str = "", root: str = "") -> ShellVerdict:
        """Say whether a command may run: a text for bash, or the words of one that runs without a shell.

        `cwd` is where it would run, if that is not the work directory: `cat config` in `~/.ssh` shows a secret. There
        `~` is the home: give a whole path if the program that runs the command does not expand it. `root` is the work
        directory itself, if that is not the one of this process. The policy looks at the disk: where links lead, what
        a pattern finds, and at the configuration of a repository before git is allowed.
        """
        if not isinstance(command, str):
            if not isinstance(command, Sequence) or not all(isinstance(w, str) for w in command):
                raise UsageError(
                    f"a command is a text or a list of words, not {type(command).__name__}.",
                    remedy="Write judge('ls -l') or judge(['ls', '-l']).",
                )
            command = join_words(command)
        try:
            places = Places.at(os.path.expanduser(cwd), root)
            reading = read_command(command)
            danger = find_danger(command, places)
            verdict = self._deny(reading, danger, command) or self._ask(reading, danger, command)
            verdict = verdict or self._allow(reading, danger, places, command)
        except UsageError as missing:
            return ShellVerdict("ask", str(missing), _shorten(command))
        except (OSError, ValueError) as error:  # a path that the system refuses to look at
            why = f"`{_shorten(command)}` cannot be judged: {_shorten(str(error))}."
            return ShellVerdict("ask", why, _shorten(command), asks_in_sandbox=True)
        return msgspec.structs.replace(verdict, env_files=tuple(danger.env_files))

    def _deny(self, reading: Reading, danger: Danger, whole: str) -> ShellVerdict | None:
        if found := _find_rule(self.deny, danger, reading, whole):
            rule, words = found
            return ShellVerdict(
                "deny", f"`{words}` matches the rule '{rule.text}', which denies it.", words
            )
        if danger.problem and not self._is_lifted(reading):
            shown = _shorten(danger.part or whole)
            return ShellVerdict(
                "deny", f"`{shown}` is never run: {_shorten(danger.problem)}.", shown
            )
        return None

    def _is_lifted(self, reading: Reading) -> bool:
        return reading.is_static and all(
            any(rule.covers(CommandPart(one.argv)) for rule in self.allow_denied)
            for one in reading.commands
        )

    def _ask(self, reading: Reading, danger: Danger, whole: str) -> ShellVerdict | None:
        if found := _find_rule(self.ask, danger, reading, whole):
            rule, words = found
            why = f"`{words}` matches the rule '{rule.text}', which asks."
            return ShellVerdict("ask", why, words, asks_in_sandbox=True)
        if not danger.complete:
            shown = _shorten(reading.commands[0].text if reading.commands else "")
            why = f"`{shown}` is too large to be judged."
            # What was not looked at may be what a rule forbids, or asks about.
            is_doubtful = bool(danger.removal or self.deny or self.ask)
            return ShellVerdict("ask", why, shown, asks_in_sandbox=is_doubtful)
        return None

    def _allow(self, reading: Reading, danger: Danger, places: Places, whole: str) -> ShellVerdict:
        if not reading.commands:
            return _empty_verdict(whole)
        by_rule = [reading.is_known and self._is_by_rule(one) for one in reading.commands]
        start = Places(places.root, list(places.wheres), places.homes)
        asked = self._objection(reading, danger, places, by_rule)
        if asked and danger.removal:
            shown = _shorten(whole)
            return ShellVerdict("ask", f"`{shown}`: {danger.removal}.", shown, asks_in_sandbox=True)
        if asked:
            return asked
        shown = _shorten("; ".join(command.text for command in reading.commands))
        why = "a rule allows it, or it only reads" if any(by_rule) else "it only reads"
        no_rule = [False] * len(by_rule)
        only_reads = not any(by_rule) or not self._objection(reading, danger, start, no_rule)
        return ShellVerdict("allow", f"`{shown}`: {why}.", shown, only_reads=only_reads)

    def _objection(
        self, reading: Reading, danger: Danger, places: Places, by_rule: Sequence[bool]
    ) -> ShellVerdict | None:
        if not reading.is_known:
            shown = _shorten(reading.commands[0].text)
            why = f"It cannot be said what `{shown}` runs: {reading.problem}."
            return ShellVerdict("ask", why, shown)
        start = list(places.wheres)
        listed = Allowlist(places, self.trusted, self.programs, is_changed=any(by_rule))
        for command, is_by_rule in zip(reading.commands, by_rule, strict=True):
            if is_by_rule and not (_is_relative(command) and places.wheres != [places.root]):
                continue
            if problem := listed.objection(command):
                shown = _shorten(command.text)
                return ShellVerdict(
                    "ask", f"`{shown}` may do more than read: {_shorten(problem)}.", shown
                )
        if danger.env_files and not all(by_rule):
            shown = _shorten(reading.commands[0].text)
            named = os.path.relpath(next(iter(danger.env_files)), start[0])
            return ShellVerdict("ask", f"`{shown}` names {named}, which may hold secrets.", shown)
        return None

    def _is_by_rule(self, command: Command) -> bool:
        """Whether a rule allows a command. A word that is open must not be able to become an option."""
        if not self.allow or command.assignments or any(r.can_write for r in command.redirects):
            return False
        if any(word.start[:1] in {"", "-"} for word in command.words if not word.exact):
            return False
        name, *rest = (word.text for word in command.words)
        program = program_name(name)
        if command.argv is None:  # an open word may become what another rule is about
            first = program if command.words[0].exact else MANY
            opened = (first, *(w.text if w.exact else ONE for w in command.words[1:]))
            if any(rule.touches(CommandPart(None, opened)) for rule in self.ask + self.deny):
                return False
        # `git -c alias.x=push x` is another command than it seems.
        odd = _GIT_SETTINGS & set(rest) if program == "git" else set[str]()
        written = CommandPart((program, *rest))
        return any(rule.covers(written) and all(map(rule.has_word, odd)) for rule in self.allow)


def _check_program(name: str, entries: object) -> None:
    """Refuse a program that the table of the user cannot describe."""
    if not isinstance(name, str) or not _PROGRAM.fullmatch(name):
        raise UsageError(
            f"programs: {name!r} is not the name of a program.",
            remedy="Write the bare name, such as 'terraform'; for a file in the project, write a rule.",
        )
    if name in PROGRAMS or name in WRAPPERS or name in PRIVILEGE or name in {"git", "cd"}:
        raise UsageError(
            f"programs: {name!r} cannot be added: the policy judges it itself.",
            remedy=f"Write a rule: with_rules(allow=['{name} ..']).",
        )
    if name in RUNNERS | RUNNERS_OF_ANY or can_run_code([name]):
        raise UsageError(
            f"programs: {name!r} cannot be added: it runs other programs, or code that it is given.",
            remedy=f"Write a rule for the whole command: with_rules(allow=['{name} ..']).",
        )
    if isinstance(entries, str) or not isinstance(entries, Iterable):
        raise UsageError(
            f"programs: {name!r} needs a list of options and sub-commands.",
            remedy=f"Write, for example: {name} = ['list', '--json'].",
        )
    odd = next((e for e in entries if not isinstance(e, str) or not _ENTRY.fullmatch(e)), None)
    if odd is not None:
        raise UsageError(
            f"programs: {odd!r} is neither an option nor a sub-command of {name!r}.",
            remedy="Write options as '--json' or '-q', without a value, and sub-commands as 'state list'.",
        )


def _parse(name: str, rules: Iterable[str]) -> tuple[CommandPattern, ...]:
    if isinstance(rules, str):
        raise UsageError(
            f"{name}={rules!r} is a text, not a list of rules.", remedy=f"Write {name}=[{rules!r}]."
        )
    return tuple(map(_parse_rule, rules))


def _parse_rule(text: str) -> CommandPattern:
    """A pattern, also in the form `bash(git push *)`. One that no command can match is refused."""
    found = _OF_TOOL.fullmatch(text.strip()) if isinstance(text, str) else None
    pattern = found[1] if found else text
    if not isinstance(pattern, str) or not pattern.strip():
        raise UsageError(
            f"the shell rule {text!r} has no words.",
            remedy="Write a command, such as 'git status' or 'git push *'.",
        )
    if odd := _NO_WORD.search(_QUOTED.sub("", pattern)):
        raise UsageError(
            f"the shell rule {text!r} contains {odd[0]!r}, which cannot be part of a word in a command.",
            remedy="Write one rule for each command, without redirects; quote it if it is meant literally.",
        )
    try:
        return CommandPattern(pattern.strip())
    except UsageError as error:
        raise UsageError(f"the shell rule {text!r}: {error.message}", remedy=error.remedy) from None


def _empty_verdict(text: str) -> ShellVerdict:
    """A text without a command: a comment does nothing, and where there is not even one, something was forgotten."""
    if not text.strip():
        return ShellVerdict("ask", "There is no command.", "")
    why = f"`{_shorten(text)}`: a comment runs nothing."
    return ShellVerdict("allow", why, _shorten(text), only_reads=True)


def _is_relative(command: Command) -> bool:
    """Whether a command is a file that is named from where the shell stands: elsewhere it is another file."""
    name = command.words[0].text
    return "/" in name and not name.startswith("/")


def _find_rule(
    rules: tuple[CommandPattern, ...], danger: Danger, reading: Reading, whole: str
) -> tuple[CommandPattern, str] | None:
    """The first rule that fits any command anywhere in the line, by whatever way it would be run.

    A word that is not known may be any: `$x` as the program may be what a rule forbids.
    """
    if not rules:
        return None
    spellings = [one.argv for one in reading.commands if one.argv] + danger.commands
    for argv in spellings:
        for spelling in (argv, (program_name(argv[0]), *argv[1:])):
            for rule in rules:
                if rule.touches(CommandPart(spelling)):
                    return rule, _shorten(" ".join(spelling))
    possible = possible_parts(whole)
    opened = [part for part in possible if part.words and not isinstance(part.words[0], str)]
    parts = parts_of(whole, reading.commands)[0] if reading.is_known else possible
    for part in (*opened, *parts):
        # What these run is among the others. That each of their words may be a program would deny `find -name '*.py'`.
        if can_run_others(part.words):
            continue
        if found := next((each for each in rules if each.touches(part)), None):
            return found, _shorten(whole)
    return None


def _shorten(text: str) -> str:
    """A text short enough for one line."""
    line = " ".join(text.encode(errors="replace").decode().split())
    return line if len(line) <= 200 else f"{line[:197]}..."
