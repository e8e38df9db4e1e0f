"""Rules about tool calls, as people write them: one rule, lists of them, and one to offer to a person who is asked.

In lists, deny goes before ask, and ask before allow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from hookline.containment.shell.command_pattern import CommandPart, CommandPattern
from hookline.errors import UsageError
from hookline.permissions.names import (
    COMMAND_TOOLS,
    FILE_TOOLS,
    closest,
    is_name_like,
    is_name_of,
    is_unknown_tool,
)
from hookline.permissions.paths import FilePathPattern, PathPlace, Root
from hookline.permissions.subject import (
    WHERE,
    Subject,
    SubjectKind,
    has_directory_change,
    has_relative_program,
    subject_of,
    subjects_of,
    texts_of,
    value_of,
)
from hookline.shell_text.runners import can_run_anything, can_verb_run_anything
from hookline.state import ToolCall
from hookline.wildcards import fits_text, glob

_TOOL = re.compile(r"[\w.*?:/@-]+")
_NAMED = re.compile(r"(?P<name>[A-Za-z_][\w.]*)=")
_NEXT = re.compile(r",\s*(?=[A-Za-z_][\w.]*=)")
_EXAMPLES = "Rules look like `bash(git push *)`, `files.write(src/**)` or `mcp__server__*`."
_DOMAIN_PREFIX = "domain:"
_DOMAIN = re.compile(r"(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
_CLEAR = re.compile(r"[!-\[\]-~]+")
"""An address that every program parses in the same way: printable, without a backslash."""
_PLAIN_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
"""A host without escapes: some programs decode `%65vil.com`, others do not."""
_PLACE = "place"
"""The argument that says where a command runs."""
_NETWORK = "network"
"""The argument that gives a command the network."""
_HOST = "host"
_Pattern: TypeAlias = Any
"""One of the patterns: each has `covers(part)` and `touches(part)`."""


class Rule(msgspec.Struct, frozen=True, gc=False):
    """A tool, or a glob over tools, and a pattern for its argument.

    A rule that allows uses `covers`: what certainly matches. One that forbids or asks uses `touches`: what may match.
    """

    tool: str
    argument: str | None = None

    @classmethod
    def parse(cls, text: str) -> Rule:
        """The rule in a text. An error says where the text is not a rule, and why."""
        if not isinstance(text, str):
            raise UsageError(f"{text!r} is not a rule.", remedy=_EXAMPLES)
        text = text.strip()
        found = _TOOL.match(text)
        if found is None:
            raise UsageError(f"the rule '{text}' does not begin with a tool.", remedy=_EXAMPLES)
        rest = text[found.end() :]
        if not rest:
            return cls(found[0])
        argument = _argument(text, rest, found.end())
        rule = cls(found[0], argument)
        _check(rule, text)
        return rule

    def __str__(self) -> str:
        return self.tool if self.argument is None else f"{self.tool}({self.argument})"

    def is_about(self, tool: str) -> bool:
        """Whether the rule is about this tool, with whichever arguments."""
        return is_name_of(self.tool, tool)

    def covers(self, call: ToolCall, root: str | os.PathLike[str] | Root = ".") -> bool:
        """Whether all of this call certainly matches. What is not known is not covered."""
        named = named_arguments(self.argument or "")
        if not self._may_cover(call, named):
            return False
        if self.argument is None:
            return True
        root = as_root(root)
        if named:
            return all(
                self._is_whole_covered(value_of(call, name, root), value) for name, value in named
            )
        return self._is_whole_covered(subject_of(call, root), self.argument)

    def covers_part(self, call: ToolCall, subject: Subject, part: Any) -> bool:
        """Whether one part of a call certainly matches, for example one command of several."""
        pattern = _pattern(subject.kind, self.argument or "*")
        return pattern is not None and self._may_cover(call, []) and bool(pattern.covers(part))

    def _may_cover(self, call: ToolCall, named: list[tuple[str, str]]) -> bool:
        """Whether the rule is about this tool, and about where the call runs."""
        if not is_name_of(self.tool, call.name) or _is_grant_unnamed(call, named):
            return False
        return self.argument in (None, "*") or not _is_elsewhere(call, named)

    def touches(self, call: ToolCall, root: str | os.PathLike[str] | Root = ".") -> bool:
        """Whether this call, or a part of it, may match. What is not known may be anything."""
        if self.argument is None:
            return is_name_of(self.tool, call.name)
        if not is_name_like(self.tool, call.name):
            return False
        root = as_root(root)
        named = named_arguments(self.argument)
        if not named:
            return self._can_match_any(call, subjects_of(call, root), self.argument)
        return all(_can_match_named(call, name, value, root) for name, value in named)

    def _can_match_any(self, call: ToolCall, subjects: list[Subject], argument: str) -> bool:
        if argument.startswith(_DOMAIN_PREFIX) and any(
            each.kind is SubjectKind.ADDRESS for each in subjects
        ):
            subjects = [each for each in subjects if each.kind is SubjectKind.ADDRESS]
        *particular, last = subjects
        if any(_can_match(call, subject, argument) for subject in particular):
            return True
        if particular and last.kind is SubjectKind.TEXT:
            # The call is about something else, and perhaps about its texts too.
            last = Subject(last.kind, last.parts, True)
        return _can_match(call, last, argument)

    def _is_whole_covered(self, subject: Subject | None, argument: str) -> bool:
        if subject is None:
            return False
        pattern = _pattern(subject.kind, argument)
        if pattern is None:
            return False
        if getattr(pattern, "is_anything", False):
            return True
        return subject.is_whole and all(pattern.covers(part) for part in subject.parts)


class DomainPattern:
    """A pattern over hosts. Allowed, `example.com` is that host alone; forbidden, it is all below it too."""

    def __init__(self, text: str) -> None:
        self._domain = text.removeprefix(_DOMAIN_PREFIX).strip().lower()
        if not _DOMAIN.fullmatch(self._domain):
            raise UsageError(
                f"'{self._domain}' is not a domain.",
                remedy="Write 'domain:example.com', or 'domain:*.example.com' for those below it.",
            )
        self._hosts = glob(self._domain)

    def covers(self, address: str) -> bool:
        """Whether the address certainly has such a host."""
        host = _host(address)
        return host is not None and fits_text(self._hosts, host)

    def touches(self, address: str) -> bool:
        """Whether the address may have such a host."""
        host = _host(address)
        base = self._domain.removeprefix("*.")
        return host is None or host == base or host.endswith(f".{base}")


def _host(address: str) -> str | None:
    """The host of a web address; None when programs may read it differently."""
    if not _CLEAR.fullmatch(address):
        return None
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or not _PLAIN_HOST.fullmatch(host):
        return None
    return host.removesuffix(".")


class _Text:
    """A pattern over a text: `*` is any letters."""

    def __init__(self, text: str) -> None:
        self.is_anything = text == "*"
        self._letters = glob(text)

    def covers(self, text: str) -> bool:
        return fits_text(self._letters, text)

    touches = covers


def _is_grant_unnamed(call: ToolCall, named: list[tuple[str, str]]) -> bool:
    """Whether a command is to run on the host, or with the network, and the rule does not name that."""
    names = {name for name, _ in named}
    is_on_host = call.args.get(_PLACE) == _HOST and _PLACE not in names
    has_network = bool(call.args.get(_NETWORK)) and _NETWORK not in names
    return call.name in COMMAND_TOOLS and (is_on_host or has_network)


def _is_elsewhere(call: ToolCall, named: list[tuple[str, str]]) -> bool:
    """Whether a command names a program from where it runs, which is not the top, and the rule does not name where.

    `./run.sh` in a rule is the one at the top.
    """
    where = call.args.get(WHERE)
    # `vendor/..` is no way to say so: behind a link it is another directory. `PurePath` keeps the dots.
    is_at_top = not where or (isinstance(where, str) and PurePath(where) == PurePath())
    is_named = any(name == WHERE for name, _ in named)
    return not (
        (is_at_top or is_named) and not has_directory_change(call)
    ) and has_relative_program(call)


def as_root(root: str | os.PathLike[str] | Root) -> Root:
    """A root for a directory."""
    return root if isinstance(root, Root) else Root(root)


def named_arguments(argument: str) -> list[tuple[str, str]]:
    """The arguments a rule names, `path=src/**, mode=r`, each with its pattern; none if it names none."""
    if not _NAMED.match(argument):
        return []
    parts = (part.partition("=") for part in _NEXT.split(argument))
    return [(name, value) for name, _, value in parts]


def _can_match_named(call: ToolCall, name: str, argument: str, root: Root) -> bool:
    """Whether an argument may match. A missing one may have any default."""
    subject = value_of(call, name, root)
    if subject is None:
        return True
    if subject.kind is not SubjectKind.TEXT:
        return _can_match(call, subject, argument)
    texts = texts_of(call, name)
    pattern = _Text(argument)
    return texts is None or any(pattern.touches(text) for text in (*texts, *subject.parts))


def _can_match(call: ToolCall, subject: Subject, argument: str) -> bool:
    pattern = _pattern(subject.kind, argument)
    if pattern is None:
        return True
    if subject.kind is SubjectKind.PATH and call.name == "search":
        touched = any(pattern.touches(part, is_searched=True) for part in subject.parts)
    else:
        touched = any(pattern.touches(part) for part in (*subject.parts, *subject.also))
    # A command line that was not understood is judged word by word; anything else unknown may match.
    is_judged = subject.is_whole or (subject.kind is SubjectKind.COMMAND and bool(subject.parts))
    return touched or not is_judged


@lru_cache(maxsize=4096)
def _pattern(kind: SubjectKind, argument: str) -> _Pattern | None:
    """The pattern that an argument is for this kind of subject, or None."""
    try:
        return _make(kind, argument)
    except UsageError:
        return None


def _make(kind: SubjectKind, argument: str) -> _Pattern:
    if kind is SubjectKind.COMMAND:
        return CommandPattern(argument)
    if kind is SubjectKind.PATH:
        return FilePathPattern(argument)
    if kind is SubjectKind.ADDRESS and argument.startswith(_DOMAIN_PREFIX):
        return DomainPattern(argument)
    return _Text(argument)


def _argument(text: str, rest: str, place: int) -> str:
    if rest[0] != "(":
        raise UsageError(
            f"the rule '{text}' has {rest[0]!r} at position {place}, where its tool ends.",
            remedy=f"Write the argument in brackets. {_EXAMPLES}",
        )
    if not rest.endswith(")"):
        raise UsageError(
            f"the rule '{text}' has a '(' at position {place} that is never closed.",
            remedy="End the rule with ')'.",
        )
    argument = rest[1:-1].strip()
    if not argument:
        raise UsageError(
            f"the rule '{text}' has nothing between its brackets, at position {place + 1}.",
            remedy=f"Leave the brackets out to mean every call: `{text[:place]}`.",
        )
    return argument


def _check(rule: Rule, text: str) -> None:
    """Check the argument where its kind is known."""
    kinds = []
    if any(is_name_of(rule.tool, name) for name in COMMAND_TOOLS):
        kinds.append(SubjectKind.COMMAND)
    if any(is_name_of(rule.tool, name) for name in FILE_TOOLS):
        kinds.append(SubjectKind.PATH)
    argument = rule.argument or ""
    if argument.startswith(_DOMAIN_PREFIX):
        kinds.append(SubjectKind.ADDRESS)
    for kind in kinds if not named_arguments(argument) else ():
        try:
            _make(kind, argument)
        except UsageError as error:
            raise UsageError(f"the rule '{text}': {error.message}", remedy=error.remedy) from None


# --- lists of rules -----------------------------------------------------------------------------------

RuleLike: TypeAlias = Rule | str


class Ruling(msgspec.Struct, frozen=True, gc=False):
    """What rules say about a call: `deny`, `ask`, `allow`, or None when no rule matches."""

    decision: Literal["deny", "ask", "allow"] | None = None
    rules: tuple[Rule, ...] = ()
    """The rules that decided: all that deny or ask; to allow, one, or one for each command of a command line."""
    reason: str = ""

    @property
    def rule(self) -> Rule | None:
        """The rule that decided, the first of them if there are several."""
        return self.rules[0] if self.rules else None


_UNLISTED = Ruling(reason="no rule is about it")


class Rules:
    """Rules to deny, to ask and to allow. Their order does not matter: deny goes before ask, ask before allow.

    `root` is the directory that paths in rules and in calls are relative to.
    """

    def __init__(
        self,
        allow: Iterable[RuleLike] | RuleLike = (),
        ask: Iterable[RuleLike] | RuleLike = (),
        deny: Iterable[RuleLike] | RuleLike = (),
        *,
        root: str | os.PathLike[str] = ".",
    ) -> None:
        self.allow = _parse_rules(allow)
        self.ask = _parse_rules(ask)
        self.deny = _parse_rules(deny)
        self._root = Root(root)

    @property
    def root(self) -> str:
        """The directory that relative paths begin at."""
        return self._root.path

    def judge(
        self, call: ToolCall, *roots: Root, defaults: Mapping[str, Any] = MappingProxyType({})
    ) -> Ruling:
        """What the rules say about a call, and which of them decided.

        `roots` replace the root of the rules for this call. A rule forbids if it matches with any of them, and allows
        if it matches with the first. `defaults` are what arguments mean that the call leaves out, for rules that
        forbid: without them, such an argument may be anything.
        """
        roots = roots or (self._root,)
        left_out = {name: value for name, value in defaults.items() if call.args.get(name) is None}
        filled = msgspec.structs.replace(call, args={**call.args, **left_out}) if left_out else call
        for decision, rules in (("deny", self.deny), ("ask", self.ask)):
            touching = tuple(
                rule for rule in rules if any(rule.touches(filled, root) for root in roots)
            )
            if touching:
                return _make_ruling(decision, touching)
        allowing = self._find_allowing(call, roots[0])
        return _make_ruling("allow", allowing) if allowing else _UNLISTED

    def with_rules(
        self,
        allow: Iterable[RuleLike] | RuleLike = (),
        ask: Iterable[RuleLike] | RuleLike = (),
        deny: Iterable[RuleLike] | RuleLike = (),
    ) -> Rules:
        """These rules, and more."""
        return Rules(
            (*self.allow, *_parse_rules(allow)),
            (*self.ask, *_parse_rules(ask)),
            (*self.deny, *_parse_rules(deny)),
            root=self.root,
        )

    def _find_allowing(self, call: ToolCall, root: Root) -> tuple[Rule, ...]:
        """The rules that together cover a call: one of them all of it, or one for each part."""
        for rule in self.allow:
            if rule.covers(call, root):
                return (rule,)
        if not self.allow:
            return ()
        subject = subject_of(call, root)
        if not subject.is_whole or len(subject.parts) < 2:
            return ()
        found = [self._find_covering(call, subject, part) for part in subject.parts]
        if None in found:
            return ()
        return tuple(dict.fromkeys(rule for rule in found if rule is not None))

    def strangers(self, tools: Iterable[str], *, alone: bool = False) -> Iterator[tuple[Rule, str]]:
        """The rules that name neither one of these tools nor one of a capability, each with a similar name.

        With `alone`, only these tools count as known.
        """
        names = tuple(tools)
        for rule in dict.fromkeys((*self.deny, *self.ask, *self.allow)):
            if is_unknown_tool(rule.tool, names, alone=alone):
                yield rule, closest(rule.tool, names)

    def _find_covering(self, call: ToolCall, subject: Subject, part: object) -> Rule | None:
        for rule in self.allow:
            is_about_parts = rule.argument is not None and not named_arguments(rule.argument)
            if is_about_parts and rule.covers_part(call, subject, part):
                return rule
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rules):
            return NotImplemented
        mine = (self.allow, self.ask, self.deny, self.root)
        return mine == (other.allow, other.ask, other.deny, other.root)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lists = (("allow", self.allow), ("ask", self.ask), ("deny", self.deny))
        given = (f"{name}={[str(rule) for rule in rules]}" for name, rules in lists if rules)
        return f"Rules({', '.join(given)})"


_SAYS = {
    "deny": ("denies it", "deny it"),
    "ask": ("asks about it", "ask about it"),
    "allow": ("allows it", "allow it"),
}


def _make_ruling(decision: Any, rules: tuple[Rule, ...]) -> Ruling:
    one, several = _SAYS[decision]
    named = " and ".join(f"`{rule}`" for rule in dict.fromkeys(rules))
    is_one = len(set(rules)) == 1
    reason = f"the rule{'' if is_one else 's'} {named} {one if is_one else several}"
    return Ruling(decision=decision, rules=rules, reason=reason)


def _parse_rules(rules: Iterable[RuleLike] | RuleLike) -> tuple[Rule, ...]:
    if isinstance(rules, str | Rule):
        rules = (rules,)
    try:
        given = tuple(rules)
    except TypeError:
        raise UsageError(
            f"{rules!r} is not a list of rules.", remedy="Give rules as text, in a list."
        ) from None
    return tuple(rule if isinstance(rule, Rule) else Rule.parse(rule) for rule in given)


# --- a rule to offer ----------------------------------------------------------------------------------

# fmt: off
_HAVE_VERBS = frozenset({
    "apt", "apt-get", "aws", "brew", "bundle", "cargo", "conda", "dnf", "docker", "dotnet", "gcloud", "gh", "git",
    "go", "helm", "hg", "kubectl", "npm", "pip", "pip3", "pnpm", "podman", "poetry", "rustup", "svn", "systemctl",
    "terraform", "uv", "yarn",
})
"""Programs whose first word says what is done: `git push` and `git log` have little in common."""
# fmt: on
_PLAIN = re.compile(r"[A-Za-z0-9_@%+,./:-]+")
_VERB = re.compile(r"[a-z][a-z0-9-]*")
_HAVE_SCRIPTS = frozenset({"npm", "pnpm", "yarn"})


def suggest_rule(call: ToolCall, root: str | os.PathLike[str] = ".") -> Rule | None:
    """A rule for this call and those like it; None when a yes to this one says too little about the others."""
    place = Root(root)
    subject = subject_of(call, place)
    if subject.kind not in (SubjectKind.COMMAND, SubjectKind.PATH):
        return Rule(call.name)
    if not subject.is_whole or len(subject.parts) != 1:
        return None
    if subject.kind is SubjectKind.COMMAND:
        return _with_network(call, _for_command(call.name, subject.parts[0]))
    return _for_path(call.name, subject.parts[0], place)


def _with_network(call: ToolCall, rule: Rule | None) -> Rule | None:
    """The same rule for calls that ask for the network, if this one does."""
    if rule is None or not call.args.get(_NETWORK):
        return rule
    name = "argv" if call.name == "exec" else "command"
    return Rule(rule.tool, f"{name}={rule.argument}, {_NETWORK}=true")


def _for_command(tool: str, part: CommandPart) -> Rule | None:
    words = list(part.argv or ())
    if not words or not _PLAIN.fullmatch(words[0]):
        return None
    program = words[0].rpartition("/")[2]
    if can_run_anything(program):
        return None
    begins = words[:1]
    if program in _HAVE_VERBS:
        if len(words) < 2 or not _VERB.fullmatch(words[1]):
            return None
        begins = words[:2]
        if program in _HAVE_SCRIPTS and words[1] == "run":
            # `npm run build` says nothing about `npm run deploy`
            if len(words) < 3 or not _PLAIN.fullmatch(words[2]):
                return None
            begins = words[:3]
        elif can_verb_run_anything(program, words[1]):
            return None
    return Rule(tool, f"{' '.join(begins)} *")


def _for_path(tool: str, place: PathPlace, root: Root) -> Rule | None:
    if len(place.ways) != 1:
        return None
    below = root.relative_parts(place.ways[0])
    if not below or not all(_PLAIN.fullmatch(name) for name in below):
        return None
    pattern = f"{'/'.join(below[:-1])}/**" if len(below) > 1 else below[0]
    # Remembered rules are read where the run is: with another root, only the whole path says what is meant.
    here = "" if os.path.abspath(".") == root.path else f"/{root.path}"
    return Rule(tool, f"{here}/{pattern}")
