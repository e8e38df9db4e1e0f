"""Builds the agents that an agent may start, and the tool that starts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hookline.agent import Agent, AgentBuilder, RunResult
from hookline.capabilities.subagents.grants import (
    TOOL,
    ToolGrant,
    denial_policies,
    grant_policies,
    grant_tools,
)
from hookline.capabilities.subagents.subagent import Subagent
from hookline.definition import Definition
from hookline.drivers import Driver, driver_for
from hookline.errors import BuildError, HooklineError, NotJSONError, ToolError, in_words
from hookline.flow import RunLimits
from hookline.hooks import Registration
from hookline.markdown import SkillLibrary
from hookline.providers.catalogue import full_name
from hookline.state import RunStatus, freeze
from hookline.tools import AnyTool, ToolContext, tool
from hookline.tools.arguments import closest, did_you_mean

ALIASES = frozenset({"sonnet", "opus", "haiku", "fable", "best", "default"})
"""Names for models that mean something where other agents run. Without a mapping the starter's model is used."""
_NO_LIMITS = RunLimits(steps=None, tokens=None, seconds=None)
_ABOUT = """\
Have a subagent do a task on its own, and get its report.

It does not see this conversation: put all it needs to know into the prompt, and say what it should report. Start
several in one step to let them work at the same time.

Subagents:
"""
_LONGEST_QUOTE = 2_000


@dataclass(frozen=True)
class SubagentSettings:
    """What all subagents of a capability share."""

    members: Mapping[str, Subagent]
    models: Mapping[str, Any]
    library: SkillLibrary | None
    max_depth: int
    concurrency: int | None
    drivers: dict[str, Driver] = field(default_factory=dict)
    """The drivers that were made here, by the name of their model."""

    def driver(self, member: Subagent, starter: Definition) -> Driver | None:
        """The driver of a subagent."""
        model: Any = member.model
        if isinstance(model, str):
            model = self.models.get(model, None if model in ALIASES else model)
        if model is None or model == "inherit":
            return starter.driver
        if not isinstance(model, str):
            return _driver(member, model)
        name = full_name(model)
        if name != model:
            return self._driver_of_others(name) or starter.driver
        if model not in self.drivers:
            self.drivers[model] = _driver(member, model)
        return self.drivers[model]

    def is_unmapped(self, member: Subagent) -> bool:
        """Whether its model is unknown here: a name without a mapping, or a provider that is not set up."""
        model = member.model
        if not isinstance(model, str) or model in self.models:
            return False
        name = full_name(model)
        if name != model:
            return self._driver_of_others(name) is None
        return model in ALIASES

    def _driver_of_others(self, name: str) -> Driver | None:
        """The driver of a model that a page names without its provider; None without the package or the key."""
        if name not in self.drivers:
            try:
                self.drivers[name] = driver_for(name)
            except HooklineError:
                return None
        return self.drivers[name]

    def system_prompt(self, member: Subagent) -> str:
        """Its prompt, and the skills it has from the start."""
        if not member.skills:
            return member.prompt
        if self.library is None:
            raise member.wrong(
                f"it has skills ({', '.join(member.skills)}), but their directory is not known.",
                "Pass Subagents(skills='path/of/skills').",
            )
        where = member.where or f"subagent '{member.name}'"
        pages = [skill.page() for skill in self.library.only(member.skills, where)]
        return "\n\n".join([part for part in (member.prompt, *pages) if part])


def _driver(member: Subagent, model: Any) -> Driver:
    try:
        return driver_for(model)
    except HooklineError as error:  # no such provider, a package that is missing, no key
        meaning = f"Or map the name to a model: Subagents(models={{{model!r}: ...}})."
        raise member.wrong(error.message, f"{error.remedy} {meaning}".strip()) from None


class SubagentBuilder:
    """Builds the subagents that one agent may start, each when it is first needed."""

    def __init__(
        self,
        settings: SubagentSettings,
        starter: Definition,
        top: Definition,
        offered: Sequence[str],
        policies: tuple[Registration, ...] = (),
    ) -> None:
        self.settings = settings
        self.starter = starter
        self.top = top
        self.offered = tuple(offered)
        self._policies = policies
        """The policies on the starter's tools. A subagent that gets the tools gets the policies too."""
        self._built: dict[str, Agent] = {}

    def agent(self, name: str) -> Agent:
        """The subagent of that name, built."""
        if name not in self._built:
            self._built[name] = self._build(self.settings.members[name])
        return self._built[name]

    def grant(self, member: Subagent) -> ToolGrant:
        """The tools a subagent gets."""
        known = tuple(self.settings.members)
        return grant_tools(member, self.starter, self.top, known, self.offered)

    def make_nested(
        self, starter: Definition, offered: Sequence[str], policies: Any
    ) -> SubagentBuilder:
        """The builder for the subagents of a subagent."""
        return SubagentBuilder(self.settings, starter, self.top, offered, policies)

    def _build(self, member: Subagent) -> Agent:
        if member.agent is not None:
            return member.agent
        grant, starter = self.grant(member), self.starter
        has_list = member.tools is not None
        source = self.top if has_list else starter
        policies = grant_policies(member, grant) if has_list else self._policies
        builder = (
            AgentBuilder()
            .with_id(member.name)
            .with_system_prompt(self.settings.system_prompt(member))
            .with_error_policy(starter.error_policy)
            .with_clock(starter.clock)
            .with_tools(*(tool for tool in grant.lent if tool.name not in source.tool_capabilities))
            .with_tools(*grant.own)
            .with_hooks(*policies, *denial_policies(member))
        )
        _set_limits(builder, member, starter)
        driver = self.settings.driver(member, starter)
        if driver is not None:
            builder.with_driver(driver)
        if starter.journal is not None:
            builder.with_journal(starter.journal, on_in_doubt=starter.on_in_doubt)
        if not member.may_ask:
            builder.with_approver("deny")
        try:
            for capability in (*_lent_capabilities(grant.lent, source), *member.capabilities):
                builder.with_capability(capability)
            builder.with_hooks(*member.hooks)
            if grant.may_spawn:
                builder.with_capability(_NestedSubagents(self, grant.agents, policies))
            # The agent that starts it may have been built without a model, to be explained.
            return builder.build(model=None) if driver is None else builder.build()
        except BuildError as error:
            raise member.wrong(error.message, error.remedy) from error


def _set_limits(builder: AgentBuilder, member: Subagent, starter: Definition) -> None:
    limits = member.limits if isinstance(member.limits, RunLimits) else _NO_LIMITS
    builder.with_limits(**msgspec.structs.asdict(limits), objections=starter.max_objections)
    if hasattr(member.limits, "configure"):
        builder.with_capability(member.limits)


class _LentCapability:
    """Tools of one of the agent's capabilities, with the hooks without which they would not work.

    Hooks whose scope is the tree reach a child anyway. Hooks of other capabilities are not there to be ordered by.
    """

    def __init__(self, name: str, tools: list[AnyTool], hooks: Sequence[Registration]) -> None:
        self.name = name
        self._tools = tools
        self._hooks = [each for each in hooks if each.source == name and each.scope == "self"]

    def tools(self) -> list[AnyTool]:
        return self._tools

    def hooks(self) -> Iterator[Registration]:
        names = {each.name for each in self._hooks}
        for each in self._hooks:
            yield msgspec.structs.replace(
                each,
                before=tuple(name for name in each.before if name in names),
                after=tuple(name for name in each.after if name in names),
            )


def _lent_capabilities(tools: Sequence[AnyTool], source: Definition) -> Iterator[_LentCapability]:
    """The capabilities that the tools came with, in the order they are installed in the agent."""
    for name in source.capabilities:
        lent = [tool for tool in tools if source.tool_capabilities.get(tool.name) == name]
        if lent:
            yield _LentCapability(name, lent, source.registrations)


class _NestedSubagents:
    """Lets a subagent start subagents itself."""

    name = "subagents"

    def __init__(
        self, above: SubagentBuilder, offered: Sequence[str], policies: tuple[Registration, ...]
    ) -> None:
        self._above = above
        self._offered = offered
        self._policies = policies

    def tools_for(self, definition: Definition) -> list[AnyTool]:
        return [spawn_tool(self._above.make_nested(definition, self._offered, self._policies))]


# --- spawn_subagent ---------------------------------------------------------------------------------


def spawn_tool(builder: SubagentBuilder) -> AnyTool:
    """The tool that starts the subagents of a builder."""
    settings = builder.settings

    async def spawn_subagent(
        agent: str, prompt: str, context: ToolContext, description: str = ""
    ) -> Any:
        """Start a subagent.

        Args:
            agent: Which subagent, by name.
            prompt: The whole task, with everything the subagent needs to know.
            description: The task in a few words, for people who watch.
        """
        name = _find_name(builder.offered, agent)
        if context.depth >= settings.max_depth:
            raise ToolError(
                f"subagent '{name}' was not started: it would have depth {context.depth + 1}, "
                f"and {settings.max_depth} is the maximum.",
                remedy="Do the task yourself.",
            )
        if not prompt.strip():
            raise ToolError("the prompt is empty.", remedy="Say what the subagent should do.")
        if description:
            context.progress(f"{name}: {description}")
        try:
            built = builder.agent(name)
        except BuildError as error:
            raise ToolError(
                f"subagent '{name}' cannot be started: {error.message}", remedy=error.remedy
            ) from error
        return _report(name, await context.spawn(built, prompt, name=name))

    lines = (
        f"- {name}: {' '.join(settings.members[name].description.split())}"
        for name in builder.offered
    )
    return tool(
        spawn_subagent,
        name=TOOL,
        description=_ABOUT + "\n".join(lines),
        # Starting it again continues the same child: a child's run id is made of the call's.
        effect="idempotent",
        concurrency=settings.concurrency,
    )


def _find_name(offered: Sequence[str], agent: str) -> str:
    wanted = agent.strip()
    folded = {name.lower(): name for name in offered}
    if wanted in offered:
        return wanted
    if wanted.lower() in folded:
        return folded[wanted.lower()]
    hint = did_you_mean(closest(wanted, offered)[:2])
    raise ToolError(
        f"there is no subagent '{agent}'.{hint}", remedy=f"Subagents: {', '.join(offered)}."
    )


def _report(name: str, result: RunResult) -> Any:
    """The answer of a subagent. A run without one is an error that says so."""
    if result.status is RunStatus.COMPLETED:
        return _answer(name, result)
    if result.status is RunStatus.FAILED:
        words = in_words(result.error) if result.error is not None else "it is not known why"
        problem = f"subagent '{name}' failed: {words}."
    elif result.status is RunStatus.CANCELLED:
        problem = f"subagent '{name}' was cancelled before it was done."
    else:
        problem = f"subagent '{name}' was stopped before it was done: {_stop_reason(result)}."
    said = (result.text or result.state.last_text()).strip()
    last = f' Its last text, which is not a final answer: "{said[-_LONGEST_QUOTE:]}"' * bool(said)
    raise ToolError(f"{problem.replace('..', '.')}{last}")


def _answer(name: str, result: RunResult) -> Any:
    if isinstance(result.output, str) or result.output is None:
        return result.text or f"(subagent '{name}' finished without an answer)"
    try:
        return freeze(result.output)
    except NotJSONError:
        return result.text


def _stop_reason(result: RunResult) -> str:
    ending = result.state.ending
    if ending is None or not ending.reason:
        return result.stop_reason.value if ending is None else ending.stop_reason.value
    return f"{ending.reason} ({ending.stop_reason.value})"
