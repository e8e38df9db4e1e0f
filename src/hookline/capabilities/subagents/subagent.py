"""A subagent as it is defined: what it is for, what it is told, and what it may do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from hookline.agent import Agent
from hookline.drivers import Driver
from hookline.errors import BuildError, UsageError
from hookline.flow import Limits
from hookline.markdown import names_in
from hookline.permissions import Rule
from hookline.state import EMPTY

ToolLike: TypeAlias = str | Callable[..., Any]
_NAME = re.compile(r"[^\s\x00-\x1f\x7f()](?:[^\x00-\x1f\x7f()]{0,62}[^\s\x00-\x1f\x7f()])?")


class Subagent(msgspec.Struct, frozen=True):
    """An agent that another may start. Everything it may do is what is written here, and never more."""

    name: str
    description: str
    """When to use it: what the model that starts it reads."""
    prompt: str = ""
    """Its system prompt."""
    tools: Sequence[ToolLike] | str | None = None
    """Names or rules (`bash(git diff *)`) of tools the agent has, or tools of its own. None: those of its starter."""
    disallowed_tools: Sequence[str] | str = ()
    """What neither it nor its own subagents may call."""
    model: str | Driver | Sequence[str | Driver] | None = None
    """None, or `inherit`: the model of whoever starts it."""
    limits: Limits | Mapping[str, Any] | Any = None
    """Besides those of whoever starts it, which hold for it in any case. A capability that sets limits will do too."""
    hooks: Sequence[Any] = ()
    skills: Sequence[str] | str = ()
    """Skills whose text it has from the start."""
    capabilities: Sequence[Any] = ()
    agents: Sequence[str] | str | None = None
    """Which subagents it may start itself; None is all of them, if it may start any."""
    agent: Agent | None = None
    """An agent that is built already, instead of everything after the description."""
    read_only: bool = False
    """Give it only tools that change nothing."""
    may_ask: bool = True
    """Whether a person is asked when a hook wants that; otherwise the answer is no."""
    where: str = ""
    """The file it was read from."""
    fields: dict[str, Any] = EMPTY
    """All of that file's front matter."""

    def __post_init__(self) -> None:
        self._check_words()
        for field in ("tools", "disallowed_tools", "skills", "agents"):
            msgspec.structs.force_setattr(self, field, self._listed(field))
        for rule in (*(self.tools or ()), *self.disallowed_tools):
            if isinstance(rule, str):
                self.parsed(rule)
        if isinstance(self.limits, Mapping):
            msgspec.structs.force_setattr(self, "limits", self._limits(self.limits))
        elif not (isinstance(self.limits, Limits | None) or hasattr(self.limits, "configure")):
            raise self.wrong(f"limits={self.limits!r} are no limits.", 'Write {"steps": 10}, say.')
        self._check_agent()

    def _check_words(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            where = f"{self.where}: " if self.where else ""
            raise BuildError(
                f"{where}a subagent cannot be called {self.name!r}.",
                remedy="Use up to 64 letters, digits and hyphens.",
            )
        if not isinstance(self.description, str) or not self.description.strip():
            raise self.wrong(
                "it has no description, so a model cannot know when to start it.",
                "Say what it is for.",
            )
        if not isinstance(self.prompt, str):
            raise self.wrong(f"its prompt is text, not {self.prompt!r}.")

    def _check_agent(self) -> None:
        if self.agent is None:
            return
        if not isinstance(self.agent, Agent):
            raise self.wrong(f"agent= takes an Agent, not {self.agent!r}.", "Build it first.")
        given = [
            name
            for name, default in zip(
                self.__struct_fields__[2:], self.__struct_defaults__, strict=True
            )
            if name not in ("agent", "where", "fields") and getattr(self, name) != default
        ]
        if given:
            raise self.wrong(
                f"it is an agent that is built already, so {', '.join(given)} would not count.",
                "Give them to its builder.",
            )

    def _listed(self, field: str) -> tuple[Any, ...] | None:
        given: Any = getattr(self, field)
        if given is None:
            return None
        if isinstance(given, str):
            return tuple(names_in(given))
        if not isinstance(given, Iterable):
            raise self.wrong(f"{field}={given!r} is not a list.")
        listed = tuple(given)
        for each in listed:
            if not isinstance(each, str) and not (field == "tools" and callable(each)):
                raise self.wrong(f"{field}: {each!r} is not a name.")
        return listed

    def _limits(self, given: Mapping[str, Any]) -> Limits:
        """Limits of which only some are named: the others are those of whoever starts it."""
        names = Limits.__struct_fields__
        for name in given:
            if name not in names:
                raise self.wrong(f"there is no limit '{name}'.", f"Limits: {', '.join(names)}.")
        try:
            return Limits(**{**dict.fromkeys(names), **given})
        except BuildError as error:
            raise self.wrong(error.message, error.remedy) from None

    def parsed(self, rule: str) -> Rule:
        """A rule of its tools."""
        try:
            return Rule.parse(rule)
        except UsageError as error:
            raise self.wrong(error.message, error.remedy) from None

    def wrong(self, problem: str, remedy: str = "") -> BuildError:
        """The error for a definition that cannot be used."""
        where = f"{self.where}: " if self.where else ""
        return BuildError(f"{where}subagent '{self.name}': {problem}", remedy=remedy)
