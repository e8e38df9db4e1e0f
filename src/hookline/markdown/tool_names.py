"""Names of tools in files for other agents: which of ours is meant, and which we do not have."""

from __future__ import annotations

from hookline.permissions import Rule
from hookline.permissions.names import COMPANIONS
from hookline.state import ToolCall

_ALSO = {"BashOutput": "bash_poll", "KillBash": "bash_stop", "KillShell": "bash_stop"}
_JUST = {"Read": "read", "Edit": "edit", "MultiEdit": "edit", "Write": "write"}
"""In rules these names mean all tools that read or change files; in a list of tools each is one tool."""
# fmt: off
_ELSEWHERE = frozenset({
    "Agent", "AskUserQuestion", "Bash", "BashOutput", "Edit", "EnterPlanMode", "EnterWorktree", "ExitPlanMode",
    "ExitWorktree", "Glob", "Grep", "KillBash", "KillShell", "LS", "LSP", "ListMcpResourcesTool", "Monitor",
    "MultiEdit", "NotebookEdit", "NotebookRead", "PowerShell", "Read", "ReadMcpResourceTool", "SendMessage",
    "Skill", "SlashCommand", "Task", "TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop",
    "TaskUpdate", "TodoRead", "TodoWrite", "ToolSearch", "WebFetch", "WebSearch", "Write",
})
# fmt: on


def means_tool(rule: Rule, tool: str) -> bool:
    """Whether a rule means a tool, with any arguments."""
    if _ALSO.get(rule.tool) == tool:
        return True
    named = Rule(rule.tool)
    return any(named.covers(ToolCall("", name)) for name in (tool, COMPANIONS.get(tool)) if name)


def grants_tool(rule: Rule, tool: str) -> bool:
    """Whether a rule in a list of tools grants a tool: the named one, not all similar ones."""
    just = _JUST.get(rule.tool)
    return tool in (just, rule.tool) if just is not None else means_tool(rule, tool)


def is_known_elsewhere(name: str) -> bool:
    """Whether other agents have a tool with that name: that it is missing here is no typing error."""
    return name in _ELSEWHERE or name.startswith("mcp__")
