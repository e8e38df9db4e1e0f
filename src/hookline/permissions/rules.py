"""Lists of rules: deny goes before ask, ask before allow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from hookline.errors import UsageError
from hookline.permissions.names import closest, is_stranger
from hookline.permissions.paths import Root
from hookline.permissions.rule import Rule, named_arguments
from hookline.permissions.subject import Subject, subject_of
from hookline.state import ToolCall

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
        self.allow = _parsed(allow)
        self.ask = _parsed(ask)
        self.deny = _parsed(deny)
        self._root = Root(root)

    @property
    def root(self) -> str:
        """The directory that relative paths begin at."""
        return self._root.path

    def judge(self, call: ToolCall, *roots: Root) -> Ruling:
        """What the rules say about a call, and which of them decided.

        `roots` replace the root of the rules for this call. A rule forbids if it matches with any of them, and allows
        if it matches with the first.
        """
        roots = roots or (self._root,)
        for decision, rules in (("deny", self.deny), ("ask", self.ask)):
            touching = tuple(
                rule for rule in rules if any(rule.touches(call, root) for root in roots)
            )
            if touching:
                return _ruling(decision, touching)
        allowing = self._allowing(call, roots[0])
        return _ruling("allow", allowing) if allowing else _UNLISTED

    def with_rules(
        self,
        allow: Iterable[RuleLike] | RuleLike = (),
        ask: Iterable[RuleLike] | RuleLike = (),
        deny: Iterable[RuleLike] | RuleLike = (),
    ) -> Rules:
        """These rules, and more."""
        return Rules(
            (*self.allow, *_parsed(allow)),
            (*self.ask, *_parsed(ask)),
            (*self.deny, *_parsed(deny)),
            root=self.root,
        )

    def _allowing(self, call: ToolCall, root: Root) -> tuple[Rule, ...]:
        """The rules that together cover a call: one of them all of it, or one for each part."""
        for rule in self.allow:
            if rule.covers(call, root):
                return (rule,)
        if not self.allow:
            return ()
        subject = subject_of(call, root)
        if not subject.is_whole or len(subject.parts) < 2:
            return ()
        found = [self._covering(call, subject, part) for part in subject.parts]
        if None in found:
            return ()
        return tuple(dict.fromkeys(rule for rule in found if rule is not None))

    def strangers(self, tools: Iterable[str], *, alone: bool = False) -> Iterator[tuple[Rule, str]]:
        """The rules that name neither one of these tools nor one of a capability, each with a similar name.

        With `alone`, only these tools count as known.
        """
        names = tuple(tools)
        for rule in dict.fromkeys((*self.deny, *self.ask, *self.allow)):
            if is_stranger(rule.tool, names, alone=alone):
                yield rule, closest(rule.tool, names)

    def _covering(self, call: ToolCall, subject: Subject, part: object) -> Rule | None:
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


def _ruling(decision: Any, rules: tuple[Rule, ...]) -> Ruling:
    one, several = _SAYS[decision]
    named = " and ".join(f"`{rule}`" for rule in dict.fromkeys(rules))
    is_one = len(set(rules)) == 1
    reason = f"the rule{'' if is_one else 's'} {named} {one if is_one else several}"
    return Ruling(decision=decision, rules=rules, reason=reason)


def _parsed(rules: Iterable[RuleLike] | RuleLike) -> tuple[Rule, ...]:
    if isinstance(rules, str | Rule):
        rules = (rules,)
    try:
        given = tuple(rules)
    except TypeError:
        raise UsageError(
            f"{rules!r} is not a list of rules.", remedy="Give rules as text, in a list."
        ) from None
    return tuple(rule if isinstance(rule, Rule) else Rule.parse(rule) for rule in given)
