"""The shell policy: allow what only looks, deny what must never run, ask about the rest."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hookline.containment.shell.danger import Danger, find_danger
from hookline.containment.shell.prove import Proof
from hookline.containment.shell.reading import read_command
from hookline.containment.shell.rules import ShellRule
from hookline.containment.shell.scan_redirects import writes_a_file
from hookline.containment.shell.standing import program_name
from hookline.containment.shell.verdict import Verdict
from hookline.containment.shell.words import Command, Reading, Word
from hookline.errors import UsageError


class ShellPolicy(msgspec.Struct, frozen=True):
    """Judges commands before they run. A value: adding rules gives another policy.

    Deny goes before ask and ask before allow, whether a rule says so or the policy itself. A rule that allows lifts
    what the policy asks about; what the policy denies it lifts only if it was added with `even_denied=True`.
    """

    allow: tuple[ShellRule, ...] = ()
    ask: tuple[ShellRule, ...] = ()
    deny: tuple[ShellRule, ...] = ()
    allow_denied: tuple[ShellRule, ...] = ()

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
        return ShellPolicy(
            self.allow + allowed,
            self.ask + _parse("ask", ask),
            self.deny + _parse("deny", deny),
            self.allow_denied + (allowed if even_denied else ()),
        )

    def judge(self, command: str, *, cwd: str = "", root: str = "") -> Verdict:
        """Say whether a command may run. Never raises, whatever the text.

        `cwd` is where it would run, if that is not the work directory: `cat config` in `~/.ssh` shows a secret. `root`
        is the work directory itself, if that is not the one of this process. Before git is allowed, the repository
        there is looked at: its configuration may name programs that `git status` starts. So are the files of a project
        that others obey: `.npmrc`, `rust-toolchain.toml`, a compose file.
        """
        if not isinstance(command, str):
            raise UsageError(
                f"a command is a text, not {type(command).__name__}.",
                remedy="For a list of words, judge shlex.join(words).",
            )
        try:
            reading = read_command(command)
            danger = find_danger(command, cwd)
        except UsageError as missing:
            return Verdict("ask", str(missing), _shown(command))
        return (
            self._denied(reading, danger, command)
            or self._asked(reading, danger)
            or self._allowed(reading, Proof.at(cwd, root), command)
        )

    def _denied(self, reading: Reading, danger: Danger, whole: str) -> Verdict | None:
        if found := _matching(self.deny, danger, reading):
            rule, words = found
            return Verdict(
                "deny", f"`{words}` matches the rule '{rule.text}', which denies it.", words
            )
        if danger.problem and not self._lifted(reading):
            shown = _shown(danger.command or whole)
            return Verdict("deny", f"`{shown}` is never run: {_shown(danger.problem)}.", shown)
        return None

    def _lifted(self, reading: Reading) -> bool:
        return reading.static and all(_any(self.allow_denied, one) for one in reading.commands)

    def _asked(self, reading: Reading, danger: Danger) -> Verdict | None:
        if found := _matching(self.ask, danger, reading):
            rule, words = found
            return Verdict("ask", f"`{words}` matches the rule '{rule.text}', which asks.", words)
        if not danger.complete:
            shown = _shown(reading.commands[0].text if reading.commands else "")
            return Verdict("ask", f"`{shown}` holds more than can be looked at.", shown)
        return None

    def _allowed(self, reading: Reading, proof: Proof, whole: str) -> Verdict:
        if not reading.known:
            shown = _shown(reading.commands[0].text)
            return Verdict(
                "ask", f"It cannot be said what `{shown}` runs: {reading.problem}.", shown
            )
        if not reading.commands:
            return _nothing(whole)
        proof.take_up(reading.commands)
        asked = self._objection(reading, proof)
        if not asked and any(command.again for command in reading.commands):
            asked = self._objection(reading, proof.again())
        if asked:
            return asked
        by_rule = any(map(self._by_rule, reading.commands))
        shown = _shown("; ".join(command.text for command in reading.commands))
        why = "a rule allows it, or it only looks" if by_rule else "it only looks"
        return Verdict("allow", f"`{shown}`: {why}.", shown)

    def _objection(self, reading: Reading, proof: Proof) -> Verdict | None:
        for command in reading.commands:
            if self._by_rule(command) and not (_is_relative(command) and _has_moved(proof)):
                proof.follow(command)
            elif problem := proof.objection(command):
                shown = _shown(command.text)
                return Verdict("ask", f"`{shown}` may do more than look: {_shown(problem)}.", shown)
        return None

    def _by_rule(self, command: Command) -> bool:
        """Whether a rule allows a command. A word that is open must not be able to become an option."""
        if not command.words or command.assignments:
            return False
        if any(writes_a_file(one) for one in command.redirects):
            return False
        if any(
            word.hidden or word.start[:1] in {"", "-"} for word in command.words if not word.exact
        ):
            return False
        name, *rest = (word.text for word in command.words)
        if command.argv is None:  # an open word may become what another rule is about
            words = (Word(program_name(name), exact=command.words[0].exact), *command.words[1:])
            if any(rule.may_match(words) for rule in self.ask + self.deny):
                return False
        return any(rule.allows([program_name(name), *rest]) for rule in self.allow)


def _parse(name: str, rules: Iterable[str]) -> tuple[ShellRule, ...]:
    if isinstance(rules, str):
        raise UsageError(
            f"{name}={rules!r} is a text, not a list of rules.", remedy=f"Write {name}=[{rules!r}]."
        )
    return tuple(ShellRule.parse(rule) for rule in rules)


def _nothing(text: str) -> Verdict:
    """A text without a command: a comment does nothing, and where there is not even one, something was forgotten."""
    if not text.strip():
        return Verdict("ask", "There is no command.", "")
    return Verdict("allow", f"`{_shown(text)}`: a comment runs nothing.", _shown(text))


def _is_relative(command: Command) -> bool:
    """Whether a command is a file that is named from where the shell stands: elsewhere it is another file."""
    name = command.words[0].text
    return "/" in name and not name.startswith("/")


def _has_moved(proof: Proof) -> bool:
    """Whether the shell may stand anywhere but in the work directory."""
    return proof.lost or any(where not in {"", "."} for where in proof.wheres)


def _any(rules: tuple[ShellRule, ...], command: Command) -> bool:
    return command.argv is not None and any(rule.allows(command.argv) for rule in rules)


def _matching(
    rules: tuple[ShellRule, ...], danger: Danger, reading: Reading
) -> tuple[ShellRule, str] | None:
    """The first rule that fits any command anywhere in the line, by whatever way it would be run."""
    if not rules:
        return None
    spellings = [one.argv for one in reading.commands if one.argv] + list(danger.commands)
    for argv in spellings:
        for spelling in (argv, (program_name(argv[0]), *argv[1:])):
            for rule in rules:
                if rule.matches(spelling):
                    return rule, _shown(" ".join(spelling))
    return None


def _shown(text: str) -> str:
    """A text short enough for one line."""
    line = " ".join(text.encode(errors="replace").decode().split())
    return line if len(line) <= 200 else f"{line[:197]}..."
