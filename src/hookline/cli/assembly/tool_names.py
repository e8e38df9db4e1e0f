"""The names of tools in rules and in `match`: a wrong one guards nothing.

A name that no capability, no configured MCP server and no supported agent has is an error. A name that is known, and
of which this agent has no tool, is reported. Names are checked when the agent is open: its servers are connected then.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from hookline.cli.assembly.matchers import has_tool, is_expression, match_of, names_in, ours_of
from hookline.config import Settings
from hookline.config.schema import HookSettings
from hookline.definition import Definition
from hookline.errors import ConfigError, UsageError
from hookline.inspection.lint import lint_matchers
from hookline.inspection.predictions import may_have_children
from hookline.lifecycle import point_named
from hookline.own_directories import configuration_directory
from hookline.permissions import Rule
from hookline.permissions.names import KNOWN_TOOLS, closest, is_known_tool, is_name_of
from hookline.state import ToolCall
from hookline.tools import Toolbox

_MCP = "mcp__"
_GLOB = {*"*?["}


class WrongName(NamedTuple):
    """A name of a tool that this agent does not have."""

    where: str
    text: str
    """The rule or the match, as it is written."""
    name: str
    meant: str = ""
    """The tool that was probably meant."""
    is_unknown: bool = False
    """Nobody has such a tool: most likely the name is misspelled."""

    def __str__(self) -> str:
        about = "" if self.text == self.name else f" for '{self.text}'"
        if self.is_unknown:
            return f"{self.where}: there is no tool '{self.name}'{about}."
        return f"{self.where}: the agent has no tool '{self.name}'{about}, so this rule or hook protects nothing."

    @property
    def remedy(self) -> str:
        """What to do."""
        if self.meant:
            return f"Did you mean '{self.meant}'?"
        return "Correct the name, or leave it out." if self.is_unknown else ""

    def error(self) -> UsageError | ConfigError:
        """The error for a flag (wrong use) or a file (wrong configuration)."""
        kind = UsageError if self.where.startswith("--") else ConfigError
        return kind(str(self), remedy=self.remedy)


def check_tool_names(
    definition: Definition, settings: Settings, warn: Callable[[str], None]
) -> None:
    """Raise the error for the first unknown name, and report guards that are about no tool of the agent."""
    found = list(wrong_names(settings, definition.toolbox))
    for each in found:
        if each.is_unknown:
            raise each.error()
    for each in found:
        warn(f"{each} {each.remedy}".rstrip())
    for finding in lint_matchers(definition):
        if not any(each.name in finding.message for each in found):
            warn(f"{finding.message} {finding.remedy}")


def wrong_names(settings: Settings, toolbox: Toolbox) -> Iterator[WrongName]:
    """All wrong names in rules and hooks. For an agent of your own only rules of flags count."""
    approvals, is_own = settings.configuration.approvals, bool(settings.target)
    for kind in ("deny", "ask", "allow"):
        for position, text in enumerate(getattr(approvals, kind)):
            where = settings.where("approvals", kind, position)
            if is_own and not where.startswith("--"):
                continue
            wrong = _judge(Rule.parse(text).tool, where, text, settings, toolbox)
            # What an agent lacks need not be allowed. Tools of an agent of your own may be those of its children.
            if wrong and is_own and may_have_children(toolbox):
                yield wrong._replace(is_unknown=False)
            elif wrong and (wrong.is_unknown or kind != "allow"):
                yield wrong
    for position, hook in enumerate(() if is_own else settings.configuration.hooks):
        yield from wrong_names_in_hook(hook, settings.where("hooks", position), settings, toolbox)


def wrong_names_in_hook(
    hook: HookSettings, where: str, settings: Settings, toolbox: Toolbox
) -> Iterator[WrongName]:
    """The wrong names in the match of a hook."""
    point = point_named(hook.on)
    if hook.match is None or not has_tool(point):
        return
    match = match_of(hook, point)
    if match.rule:
        wrong = _judge(Rule.parse(match.rule).tool, where, match.rule, settings, toolbox)
        if wrong:
            yield wrong
    if not match.tool or is_expression(match.tool):
        return  # `hooks lint` knows whether an expression can match
    tools = [tool.name for tool in toolbox]
    for name in names_in(match.tool):
        if set(tools) & {name, *ours_of(name)}:
            continue
        # A rule knows more names for a tool than a match does.
        meant = [tool for tool in tools if Rule(name).touches(ToolCall("", tool))]
        if meant and not set(name) & _GLOB:
            yield WrongName(where, match.tool, name, meant[0])
            continue
        wrong = _judge(name, where, match.tool, settings, toolbox)
        if wrong:
            yield wrong


def _judge(
    name: str, where: str, text: str, settings: Settings, toolbox: Toolbox
) -> WrongName | None:
    """What is wrong with a name; None if nothing is."""
    tools = tuple(tool.name for tool in toolbox)
    if any(is_name_of(name, tool) for tool in tools):
        return None
    if name.startswith(_MCP):
        return _judge_server(name, where, text, settings, tools)
    if is_known_tool(name) or any(is_name_of(name, tool) for tool in _names_of_agents()):
        is_for_child = may_have_children(toolbox)
        return None if is_for_child else WrongName(where, text, name)
    return WrongName(where, text, name, closest(name, tools), is_unknown=True)


def _judge_server(
    name: str, where: str, text: str, settings: Settings, tools: tuple[str, ...]
) -> WrongName | None:
    """What is wrong with a name or a glob over tools of MCP servers, none of which it means."""
    server = name.removeprefix(_MCP).partition("__")[0]
    if set(server) & _GLOB:
        return None  # for servers that may come
    known = _servers(settings)
    if any(tool.startswith(f"{_MCP}{server}__") for tool in tools):
        found = difflib.get_close_matches(name, tools, 1)
        return WrongName(where, text, name, found[0] if found else "", is_unknown=True)
    if server in known:  # of another agent, switched off, or not trusted
        return WrongName(where, text, name)
    found = difflib.get_close_matches(server, known, 1)
    meant = name.replace(server, found[0], 1) if found else ""
    # Your own file is for all projects, and may name servers that this one does not have.
    is_of_user = where.startswith(str(configuration_directory(os.environ)))
    return WrongName(where, text, name, meant, is_unknown=not is_of_user)


def _servers(settings: Settings) -> set[str]:
    """The servers that any file, agent or flag configures."""
    tables = [settings.merged.data, *(layer.data for layer in settings.layers)]
    tables += [agent for table in tables for agent in table.get("agents", {}).values()]
    return {name for table in tables for name in table.get("mcp", {})}


@cache
def _names_of_agents() -> frozenset[str]:
    """The names that the supported agents have for tools."""
    from hookline.command_hooks.dialect import all_dialects

    dialects = all_dialects().values()
    return frozenset(name for each in dialects for name in each.tools.all_names) | KNOWN_TOOLS
