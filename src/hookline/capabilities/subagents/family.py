"""Building the agents that an agent may start, out of their definitions and of what it has itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hookline.agent import Agent, AgentBuilder
from hookline.capabilities.subagents.choice import Choice, choose, denial, narrowing
from hookline.capabilities.subagents.spawning import spawn_tool
from hookline.capabilities.subagents.subagent import Subagent
from hookline.definition import Definition
from hookline.drivers import Driver, driver_for
from hookline.errors import BuildError, HooklineError
from hookline.flow import Limits
from hookline.hooks import Registration
from hookline.markdown import SkillLibrary
from hookline.tools import AnyTool

ALIASES = frozenset({"sonnet", "opus", "haiku", "fable", "best", "default"})
"""Names for models that mean something where other agents run. Without a mapping the starter's model is used."""
_NO_LIMITS = Limits(steps=None, tokens=None, seconds=None)


class Common:
    """What all subagents of a capability have in common."""

    def __init__(
        self,
        members: Mapping[str, Subagent],
        models: Mapping[str, Any],
        library: SkillLibrary | None,
        max_depth: int,
        concurrency: int | None,
    ) -> None:
        self.members = members
        self.models = models
        self.library = library
        self.max_depth = max_depth
        self.concurrency = concurrency
        self.drivers: dict[str, Driver] = {}
        """Those that were made here, by the name of their model."""

    def driver(self, member: Subagent, starter: Definition) -> Driver | None:
        """The driver of a subagent."""
        model: Any = member.model
        if isinstance(model, str):
            model = self.models.get(model, None if model in ALIASES else model)
        if model is None or model == "inherit":
            return starter.driver
        if not isinstance(model, str):
            return _driver(member, model)
        if model.startswith("claude-"):
            return self._claude(model) or starter.driver
        if model not in self.drivers:
            self.drivers[model] = _driver(member, model)
        return self.drivers[model]

    def is_unmapped(self, member: Subagent) -> bool:
        """Whether its model is a name that nobody has said the meaning of, or one of a provider that is not set up."""
        model = member.model
        if not isinstance(model, str) or model in self.models:
            return False
        if model.startswith("claude-"):
            return self._claude(model) is None
        return model in ALIASES

    def _claude(self, model: str) -> Driver | None:
        """The driver of a model that is named as other agents name it; None without its provider's package or key."""
        name = f"anthropic:{model}"
        if name not in self.drivers:
            try:
                self.drivers[name] = driver_for(name)
            except HooklineError:
                return None
        return self.drivers[name]

    def system_prompt(self, member: Subagent) -> str:
        """What it is told: its prompt, and the skills it has from the start."""
        if not member.skills:
            return member.prompt
        if self.library is None:
            raise member.wrong(
                f"it has skills ({', '.join(member.skills)}), and nobody said where they are.",
                "Pass Subagents(skills='path/of/skills').",
            )
        where = member.where or f"subagent '{member.name}'"
        pages = [skill.page() for skill in self.library.only(member.skills, where)]
        return "\n\n".join([part for part in (member.prompt, *pages) if part])


def _driver(member: Subagent, model: Any) -> Driver:
    try:
        return driver_for(model)
    except HooklineError as error:  # no such provider, a package that is missing, no key
        meaning = f"Or say what the name means: Subagents(models={{{model!r}: ...}})."
        raise member.wrong(error.message, f"{error.remedy} {meaning}".strip()) from None


class Family:
    """The subagents that one agent may start. Each is built when it is first needed."""

    def __init__(
        self,
        common: Common,
        starter: Definition,
        top: Definition,
        offered: Sequence[str],
        narrowed: tuple[Registration, ...] = (),
    ) -> None:
        self.common = common
        self.starter = starter
        self.top = top
        self.offered = tuple(offered)
        self.narrowed = narrowed
        """What the starter's tools may be used for: it goes with them to whoever has them from it."""
        self.members = common.members
        self.max_depth = common.max_depth
        self.concurrency = common.concurrency
        self._built: dict[str, Agent] = {}

    def agent(self, name: str) -> Agent:
        """The subagent of that name, built."""
        if name not in self._built:
            self._built[name] = self._build(self.members[name])
        return self._built[name]

    def choice(self, member: Subagent) -> Choice:
        """What a subagent gets."""
        return choose(member, self.starter, self.top, tuple(self.members), self.offered)

    def _build(self, member: Subagent) -> Agent:
        if member.agent is not None:
            return member.agent
        choice, starter = self.choice(member), self.starter
        has_list = member.tools is not None
        source = self.top if has_list else starter
        narrowed = narrowing(member, choice) if has_list else self.narrowed
        builder = (
            AgentBuilder()
            .with_id(member.name)
            .with_system_prompt(self.common.system_prompt(member))
            .with_error_policy(starter.error_policy)
            .with_clock(starter.clock)
            .with_tools(*(tool for tool in choice.lent if tool.name not in source.brought))
            .with_tools(*choice.own)
            .with_hooks(*narrowed, *denial(member))
        )
        _set_limits(builder, member, starter)
        driver = self.common.driver(member, starter)
        if driver is not None:
            builder.with_driver(driver)
        if starter.journal is not None:
            builder.with_journal(starter.journal, on_in_doubt=starter.on_in_doubt)
        if not member.may_ask:
            builder.with_approver("deny")
        try:
            for lent in _lent(choice.lent, source):
                builder.with_capability(lent)
            for capability in member.capabilities:
                builder.with_capability(capability)
            builder.with_hooks(*member.hooks)
            if choice.may_spawn:
                builder.with_capability(_Nested(self, choice.agents, narrowed))
            return builder.build()
        except BuildError as error:
            raise member.wrong(error.message, error.remedy) from error


def _set_limits(builder: AgentBuilder, member: Subagent, starter: Definition) -> None:
    limits = member.limits if isinstance(member.limits, Limits) else _NO_LIMITS
    builder.with_limits(
        steps=limits.steps,
        tokens=limits.tokens,
        seconds=limits.seconds,
        cost=limits.cost,
        tool_calls=limits.tool_calls,
        objections=starter.max_objections,
    )
    if hasattr(member.limits, "configure"):
        builder.with_capability(member.limits)


class _Lent:
    """Tools of one of the agent's capabilities, with the hooks without which they would not work.

    Hooks whose scope is the tree reach a child by themselves.
    """

    def __init__(
        self, name: str, tools: list[AnyTool], registrations: Sequence[Registration]
    ) -> None:
        self.name = name
        self._tools = tools
        self._hooks = [
            each for each in registrations if each.source == name and each.scope == "self"
        ]

    def tools(self) -> list[AnyTool]:
        """Those that the subagent may use."""
        return self._tools

    def hooks(self) -> Iterator[Registration]:
        """In the order they have among themselves; those of others are not there to be before or after."""
        names = {each.name for each in self._hooks}
        for each in self._hooks:
            yield msgspec.structs.replace(
                each,
                before=tuple(name for name in each.before if name in names),
                after=tuple(name for name in each.after if name in names),
            )


def _lent(tools: Sequence[AnyTool], source: Definition) -> Iterator[_Lent]:
    """The capabilities that the tools came with, in the order they are installed in the agent."""
    for name in source.capabilities:
        brought = [tool for tool in tools if source.brought.get(tool.name) == name]
        if brought:
            yield _Lent(name, brought, source.registrations)


class _Nested:
    """Lets a subagent start subagents itself."""

    name = "subagents"

    def __init__(
        self, above: Family, offered: Sequence[str], narrowed: tuple[Registration, ...]
    ) -> None:
        self._above = above
        self._offered = offered
        self._narrowed = narrowed

    def tools_for(self, definition: Definition) -> list[AnyTool]:
        """`spawn_subagent`, for this subagent."""
        above = self._above
        family = Family(above.common, definition, above.top, self._offered, self._narrowed)
        return [spawn_tool(family)]
