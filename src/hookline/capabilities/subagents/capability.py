"""Subagents as a capability: where definitions come from, and the tool that starts them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from hookline.agent import Agent, Note
from hookline.capabilities.subagents.builder import SubagentBuilder, SubagentSettings, spawn_tool
from hookline.capabilities.subagents.grants import ToolGrant
from hookline.capabilities.subagents.subagent import Subagent, read_agents
from hookline.definition import Definition
from hookline.drivers.base import close_driver
from hookline.errors import BuildError
from hookline.markdown import SkillLibrary
from hookline.markdown.document import PageHooks, has_commands
from hookline.markdown.tool_names import is_known_elsewhere
from hookline.option_checks import check_count
from hookline.state import EMPTY
from hookline.tools import AnyTool

Source: TypeAlias = Subagent | str | os.PathLike[str]


class Subagents:
    """Lets an agent start others: `Subagent(...)` values, Markdown files, or directories of these.

    When two have the same name, what is named earlier counts. `models` says what names of models mean (`{"haiku":
    "anthropic:NAME"}`), `skills` where the skills are that definitions name, `hooks` which hooks definitions in
    files may name, and `commands` is the `CommandHooks` that runs those that files describe as commands; the agent has
    to have it too. The agent is at depth zero, and no subagent is deeper than `max_depth`. `concurrency` is how many
    may work at the same time in one step.
    """

    name = "subagents"

    def __init__(
        self,
        *sources: Source | Iterable[Source],
        models: Mapping[str, Any] = EMPTY,
        skills: SkillLibrary | str | os.PathLike[str] | None = None,
        hooks: Mapping[str, Any] = EMPTY,
        commands: PageHooks | None = None,
        max_depth: int = 3,
        concurrency: int | None = None,
    ) -> None:
        check_count(self.name, "max_depth", max_depth)
        self._said: list[Note] = []
        self._noted: dict[str, list[Note]] = {}
        self._commands = commands
        members = self._members(sources, hooks)
        if not members:
            said = "".join(f" {note.text}" for note in self._said)
            raise BuildError(
                f"there are no subagents to start.{said}",
                remedy="Give Subagent(name, description, prompt), or a directory of Markdown files.",
            )
        if skills is not None and not isinstance(skills, SkillLibrary):
            skills = SkillLibrary(skills)
        self._settings = SubagentSettings(members, models, skills, max_depth, concurrency)

    @property
    def agents(self) -> Mapping[str, Subagent]:
        """The definitions, by name."""
        return self._settings.members

    def _members(self, sources: tuple[Any, ...], hooks: Mapping[str, Any]) -> dict[str, Subagent]:
        members: dict[str, Subagent] = {}
        each = [
            one
            for source in sources
            for one in (source if isinstance(source, list | tuple) else [source])
        ]
        for source in each:
            found = (
                [(source, [])]
                if isinstance(source, Subagent)
                else read_agents(source, hooks, self._commands)
            )
            for member, notes in found:
                if member is None:
                    self._said.extend(notes)
                    continue
                other = members.setdefault(member.name, member)
                if other is member:
                    self._noted[member.name] = notes
                elif not member.where and not other.where:
                    raise BuildError(
                        f"two subagents are called '{member.name}'.",
                        remedy="Give one of them another name.",
                    )
                else:
                    self._said.append(_left_out_note(member, other))
        return members

    # --- a capability -------------------------------------------------------------------------------

    def tools_for(self, definition: Definition) -> list[AnyTool]:
        """`spawn_subagent`. All subagents that the agent itself can start are built, so that mistakes show now."""
        self._check_commands(definition)
        builder = self._builder(definition)
        for name in builder.offered:
            builder.agent(name)
        return [spawn_tool(builder)] if builder.offered else []

    def _check_commands(self, definition: Definition) -> None:
        """Hooks that files describe as commands hold only if the agent has the capability that runs them."""
        commands = self._commands
        if commands is None or commands.name in definition.capabilities:
            return
        for member in self.agents.values():
            if has_commands(member.fields.get("hooks")):
                raise member.wrong(
                    f"its hooks are run by '{commands.name}', which the agent does not have.",
                    "Give the builder the same CommandHooks: with_capability(commands).",
                )

    def notes(self, definition: Definition) -> Iterator[Note]:
        """The subagents with their tools, and what in a file could not be used."""
        builder = self._builder(definition)
        for name in builder.offered:
            yield Note(f"{name}: {self._describe_member(self.agents[name], builder)}")
        yield from self._said
        for name, member in self.agents.items():
            yield from self._noted[name]
            yield from self._problems(member, builder.grant(member))

    def _builder(self, definition: Definition) -> SubagentBuilder:
        """The subagents that an agent can start: not those of whose tools it has none."""
        everybody = SubagentBuilder(self._settings, definition, definition, tuple(self.agents))
        of_use = [
            name
            for name, member in self.agents.items()
            if not (member.where and everybody.grant(member).is_useless)
        ]
        return SubagentBuilder(self._settings, definition, definition, of_use)

    def _describe_member(self, member: Subagent, builder: SubagentBuilder) -> str:
        if member.agent is not None:
            return "an agent of its own"
        grant = builder.grant(member)
        tools = ", ".join(tool.name for tool in (*grant.lent, *grant.own)) or "no tools"
        starts = f"; starts {', '.join(grant.agents)}" if grant.may_spawn else ""
        driver = self._settings.driver(member, builder.starter)
        of_its_own = driver is not builder.starter.driver
        model = f"; {getattr(driver, 'model', '') or type(driver).__name__}" * of_its_own
        return f"{tools}{starts}{model}"

    def _problems(self, member: Subagent, grant: ToolGrant) -> Iterator[Note]:
        where = member.where or f"subagent '{member.name}'"
        names = ", ".join(grant.missing)
        strangers = ", ".join(name for name in grant.missing if not is_known_elsewhere(name))
        if grant.is_useless:
            yield Note(f"{where}: it is ignored: the agent has none of {names}.", is_problem=True)
        elif names:
            yield Note(f"{where}: it does not get {names}: the agent has no such tool.")
        if strangers and not grant.is_useless:
            yield Note(
                f"{where}: no known agent has a tool {strangers}.",
                is_problem=True,
                remedy="Correct its name, or leave it out.",
            )
        if self._settings.is_unmapped(member):
            yield Note(
                f"{where}: '{member.model}' cannot be used as a model here, so it uses its parent's model. "
                f"Subagents(models={{'{member.model}': ...}}) says which model to use."
            )

    def built_for(self, agent: Agent) -> dict[str, Agent]:
        """The subagents that an agent can start, built, by name: `replay(..., children=subagents.built_for(agent))`."""
        builder = self._builder(agent.definition)
        return {name: builder.agent(name) for name in builder.offered}

    async def aclose(self) -> None:
        """Close the models that were opened for subagents."""
        for driver in self._settings.drivers.values():
            await close_driver(driver)

    def __repr__(self) -> str:
        return f"<Subagents {', '.join(self.agents)}>"


def _left_out_note(member: Subagent, other: Subagent) -> Note:
    where = member.where or "in code"
    first = other.where or "in code"
    return Note(
        f"{where}: it is ignored, because '{member.name}' ({first}) has the same name and comes first.",
        is_problem=True,
        remedy="Give one of them another name.",
    )
