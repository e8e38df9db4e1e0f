"""The definition of a subagent, in code or in a Markdown file: its purpose, its prompt, and what it may do."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from hookline.agent import Agent, Note
from hookline.drivers import Driver
from hookline.errors import BuildError, UsageError
from hookline.flow import RunLimits
from hookline.markdown import Document
from hookline.markdown.document import PageHooks, agent_name, agent_pages, has_commands, names_in
from hookline.permissions import Rule
from hookline.state import EMPTY

ToolLike: TypeAlias = str | Callable[..., Any]
_NAME = re.compile(r"[^\s\x00-\x1f\x7f()](?:[^\x00-\x1f\x7f()]{0,62}[^\s\x00-\x1f\x7f()])?")


class Subagent(msgspec.Struct, frozen=True):
    """An agent that another agent may start. It may do what is written here and nothing else."""

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
    """None, or `inherit`: the model of the agent that starts it."""
    limits: RunLimits | Mapping[str, Any] | Any = None
    """Its own limits. Those of the agent that starts it always apply. A capability that sets limits works too."""
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
            msgspec.structs.force_setattr(self, field, self._as_tuple(field))
        for rule in (*(self.tools or ()), *self.disallowed_tools):
            if isinstance(rule, str):
                self.parse_rule(rule)
        if isinstance(self.limits, Mapping):
            msgspec.structs.force_setattr(self, "limits", self._limits(self.limits))
        elif not (isinstance(self.limits, RunLimits | None) or hasattr(self.limits, "configure")):
            raise self.wrong(
                f"limits={self.limits!r} are not limits.", 'For example: {"steps": 10}.'
            )
        self._check_agent()

    def _check_words(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            where = f"{self.where}: " if self.where else ""
            raise BuildError(
                f"{where}{self.name!r} is not a valid name for a subagent.",
                remedy="Use up to 64 letters, digits and hyphens.",
            )
        if not isinstance(self.description, str) or not self.description.strip():
            raise self.wrong(
                "it has no description, so a model cannot know when to start it.",
                "Say what it is for.",
            )
        if not isinstance(self.prompt, str):
            raise self.wrong(f"its prompt must be text, not {self.prompt!r}.")

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
                f"it is a built agent, so {', '.join(given)} would have no effect.",
                "Give them to its builder.",
            )

    def _as_tuple(self, field: str) -> tuple[Any, ...] | None:
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

    def _limits(self, given: Mapping[str, Any]) -> RunLimits:
        """Limits of which only some are named: the others are those of the agent that starts it."""
        names = RunLimits.__struct_fields__
        for name in given:
            if name not in names:
                raise self.wrong(f"there is no limit '{name}'.", f"Limits: {', '.join(names)}.")
        try:
            return RunLimits(**{**dict.fromkeys(names), **given})
        except BuildError as error:
            raise self.wrong(error.message, error.remedy) from None

    def parse_rule(self, rule: str) -> Rule:
        """A rule of its tools."""
        try:
            return Rule.parse(rule)
        except UsageError as error:
            raise self.wrong(error.message, error.remedy) from None

    def wrong(self, problem: str, remedy: str = "") -> BuildError:
        """The error for a definition that cannot be used."""
        where = f"{self.where}: " if self.where else ""
        return BuildError(f"{where}subagent '{self.name}': {problem}", remedy=remedy)


# --- Markdown files, as published for other agents ---------------------------------------------


_MODES = frozenset(
    ["", "default", "acceptedits", "dontask", "bypasspermissions", "plan", "delegate", "auto"]
)
_HOW = "Begin it with `---`, `name: ...`, `description: ...` and `---`, or move it elsewhere."
_ALL = frozenset(["all", "all tools"])


def read_agents(
    source: str | os.PathLike[str], hooks: Mapping[str, Any], commands: PageHooks | None = None
) -> Iterator[tuple[Subagent | None, list[Note]]]:
    """The subagents of a file or a directory, each with notes; a file that defines none has only notes."""
    for page in agent_pages(source):
        if not page.fields and os.path.isdir(os.path.expanduser(source)):
            yield None, [_no_agent(page)]
            continue
        _refuse_unguarded(page, commands)
        yield _agent(page, hooks)


def _no_agent(page: Document) -> Note:
    """Directories of subagents have other pages in them, too: a guide, a template."""
    return Note(
        f"{page.where}: it has no front matter, so it describes no subagent and is ignored.",
        is_problem=True,
        remedy=_HOW,
    )


def _refuse_unguarded(page: Document, commands: PageHooks | None) -> None:
    """Hooks that are commands are run by others. Without them the subagent would be less guarded than meant."""
    if not has_commands(page.get("hooks")) or (
        commands is not None and commands.has_read(page.where)
    ):
        return
    raise page.field_error(
        "hooks",
        "it has hooks that are commands, and nothing runs them: it would have less protection than intended.",
        "Let CommandHooks run them: commands = CommandHooks.discover(project, agents=[...]), then "
        "Subagents(..., commands=commands), and give the agent both.",
    )


def _agent(page: Document, hooks: Mapping[str, Any]) -> tuple[Subagent, list[Note]]:
    if not page.fields:
        raise page.field_error(
            "name",
            "it has no front matter, so it describes no subagent.",
            _HOW,
        )
    mode = page.text("permissionMode").replace("-", "").lower()
    if mode not in _MODES:
        raise page.field_error(
            "permissionMode", f"there is no mode '{page.text('permissionMode')}'."
        )
    made = Subagent(
        name=agent_name(page),
        description=page.text("description"),
        prompt=page.body,
        tools=_tools(page),
        disallowed_tools=page.names("disallowedTools") or (),
        model=page.text("model") or None,
        limits=_limits(page),
        hooks=_hooks(page, hooks),
        skills=page.names("skills") or (),
        agents=page.names("agents"),
        read_only=mode == "plan",
        may_ask=mode != "dontask",
        where=page.where,
        fields=dict(page.fields),
    )
    return made, list(_notes(page, mode))


def _tools(page: Document) -> tuple[str, ...] | None:
    """The tools it lists. Other agents show the absence of a list as `All tools`, and some files say it so."""
    given = page.get("tools")
    is_all = isinstance(given, str) and given.strip().lower() in _ALL
    return ("*",) if is_all else page.names("tools")


def _limits(page: Document) -> dict[str, Any] | None:
    """`maxTurns` of other agents is a number of steps; `limits` is ours."""
    given = page.get("limits")
    if given is not None and not isinstance(given, Mapping):
        raise page.field_error(
            "limits", "'limits' should name limits.", "Write `limits: {steps: 10}`."
        )
    limits = {
        name: _number(page, name, value)
        for name, value in (given or {}).items()
        if value is not None
    }
    turns = page.count("maxTurns")
    if turns is not None:
        limits["steps"] = min(turns, limits.get("steps", turns))
    return limits or None


def _number(page: Document, name: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise page.field_error("limits", f"limit {name}={value!r} is not a number.") from None
    whole = name in RunLimits.__struct_fields__ and name not in ("seconds", "cost")
    return int(number) if whole and number.is_integer() else number


def _hooks(page: Document, hooks: Mapping[str, Any]) -> tuple[Any, ...]:
    """Hooks by name, out of those that the program has. Those that are commands run elsewhere."""
    given = page.get("hooks")
    if given is None or isinstance(given, Mapping):
        return ()
    missing = [name for name in page.names("hooks") or () if name not in hooks]
    if missing:
        known = ", ".join(hooks) or "none; pass them as Subagents(hooks={name: hook})"
        raise page.field_error("hooks", f"there is no hook '{missing[0]}'.", f"Hooks: {known}.")
    return tuple(hooks[name] for name in page.names("hooks") or ())


def _notes(page: Document, mode: str) -> Iterator[Note]:
    if page.get("mcpServers"):
        yield Note(
            f"{page.location_of('mcpServers')}: its MCP servers are not started.",
            is_problem=True,
            remedy="Give the agent McpServers, and list their tools.",
        )
    if page.get("isolation"):
        yield Note(
            f"{page.location_of('isolation')}: it is not isolated: it works in the agent's directory.",
            is_problem=True,
        )
    if mode in ("acceptedits", "bypasspermissions"):
        yield Note(
            f"{page.location_of('permissionMode')}: '{page.text('permissionMode')}' has no effect: "
            "calls that need approval in the agent need it in its subagents too."
        )
