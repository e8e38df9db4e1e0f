"""Builds the agents that an agent may start, and the tool that starts them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from hookline.agent import Agent, AgentBuilder, RunResult
from hookline.blueprint import Definition
from hookline.capabilities.subagents.grants import TOOL, ToolGrant, denial, grant_tools, narrowing
from hookline.capabilities.subagents.subagent import Subagent
from hookline.drivers import Driver, driver_for
from hookline.errors import BuildError, HooklineError, NotJSONError, ToolError, in_words
from hookline.flow import Limits
from hookline.hooks import Registration
from hookline.markdown import SkillLibrary
from hookline.state import RunStatus, freeze
from hookline.tools import AnyTool, ToolContext, tool

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


class SubagentBuilder:
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

    def choice(self, member: Subagent) -> ToolGrant:
        """What a subagent gets."""
        return grant_tools(member, self.starter, self.top, tuple(self.members), self.offered)

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
        self, above: SubagentBuilder, offered: Sequence[str], narrowed: tuple[Registration, ...]
    ) -> None:
        self._above = above
        self._offered = offered
        self._narrowed = narrowed

    def tools_for(self, definition: Definition) -> list[AnyTool]:
        """`spawn_subagent`, for this subagent."""
        above = self._above
        builder = SubagentBuilder(
            above.common, definition, above.top, self._offered, self._narrowed
        )
        return [spawn_tool(builder)]


# --- spawn_subagent ----------------------------------------------------------------------------


_ABOUT = """\
Have a subagent do a task on its own, and get its report.

It does not see this conversation: put all it needs to know into the prompt, and say what it should report. Start
several in one step to let them work at the same time.

Subagents:
"""
_MOST_SAID = 2_000


class Offer(Protocol):
    """What can be started."""

    @property
    def offered(self) -> Sequence[str]:
        """The names of the subagents."""

    @property
    def members(self) -> Mapping[str, Subagent]:
        """Their definitions, and those of others, by name."""

    @property
    def max_depth(self) -> int:
        """How many runs may be above the deepest subagent."""

    @property
    def concurrency(self) -> int | None:
        """How many may work at the same time."""

    def agent(self, name: str) -> Agent:
        """One of them, built."""


def spawn_tool(offer: Offer) -> AnyTool:
    """The tool that starts what is on offer."""

    async def spawn_subagent(
        agent: str, prompt: str, context: ToolContext, description: str = ""
    ) -> Any:
        """Start a subagent.

        Args:
            agent: Which subagent, by name.
            prompt: The whole task, with everything the subagent needs to know.
            description: The task in a few words, for whoever watches.
        """
        name = _known(offer, agent)
        if context.depth >= offer.max_depth:
            raise ToolError(
                f"subagent '{name}' was not started: {context.depth} runs are above it already, "
                f"and {offer.max_depth} is the most there may be.",
                remedy="Do the task yourself.",
            )
        if not prompt.strip():
            raise ToolError("the prompt is empty.", remedy="Say what the subagent should do.")
        if description:
            context.progress(f"{name}: {description}")
        result = await context.spawn(_built(offer, name), prompt, name=name)
        return report(name, result)

    lines = (f"- {name}: {_one_line(offer.members[name].description)}" for name in offer.offered)
    return tool(
        spawn_subagent,
        name=TOOL,
        description=_ABOUT + "\n".join(lines),
        # Starting it again goes on with the same child: a child's run id is made of the call's.
        effect="idempotent",
        concurrency=offer.concurrency,
    )


def report(name: str, result: RunResult) -> Any:
    """What a subagent's starter gets: its answer. What is none is an error, in honest words."""
    if result.status is RunStatus.COMPLETED:
        return _answer(name, result)
    if result.status is RunStatus.FAILED:
        words = in_words(result.error) if result.error is not None else "it is not known why"
        problem = f"subagent '{name}' failed: {words}."
    elif result.status is RunStatus.CANCELLED:
        problem = f"subagent '{name}' was cancelled before it was done."
    else:
        problem = f"subagent '{name}' was stopped before it was done: {_why(result)}."
    said = (result.text or result.state.last_text()).strip()
    last = f' The last it said, which is no final answer: "{said[-_MOST_SAID:]}"' if said else ""
    raise ToolError(f"{problem.replace('..', '.')}{last}")


def _answer(name: str, result: RunResult) -> Any:
    if isinstance(result.output, str) or result.output is None:
        return result.text or f"(subagent '{name}' finished without a word)"
    try:
        return freeze(result.output)
    except NotJSONError:
        return result.text


def _why(result: RunResult) -> str:
    ending = result.state.ending
    if ending is None:
        return result.stop_reason.value
    return (
        f"{ending.reason} ({ending.stop_reason.value})"
        if ending.reason
        else ending.stop_reason.value
    )


def _known(offer: Offer, agent: str) -> str:
    folded = {name.lower(): name for name in offer.offered}
    wanted = agent.strip()
    if wanted in offer.offered:
        return wanted
    if wanted.lower() in folded:
        return folded[wanted.lower()]
    close = difflib.get_close_matches(wanted.lower(), folded, n=2, cutoff=0.6)
    hint = f" Did you mean {' or '.join(repr(folded[each]) for each in close)}?" if close else ""
    raise ToolError(
        f"there is no subagent '{agent}'.{hint}", remedy=f"Subagents: {', '.join(offer.offered)}."
    )


def _built(offer: Offer, name: str) -> Agent:
    try:
        return offer.agent(name)
    except BuildError as error:
        raise ToolError(
            f"subagent '{name}' cannot be started: {error.message}", remedy=error.remedy
        ) from error


def _one_line(text: str) -> str:
    return " ".join(text.split())
