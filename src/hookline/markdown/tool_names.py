"""Tools as they are written in files for other agents: which of ours is meant, and which we have none for."""

from __future__ import annotations

from hookline.permissions import Rule
from hookline.state import ToolCall

_ASIDE = {"bash_poll": "bash", "bash_stop": "bash"}
"""Tools that look after what another has started: whoever may use that may use these."""
_ALSO = {"BashOutput": "bash_poll", "KillBash": "bash_stop", "KillShell": "bash_stop"}
_JUST = {"Read": "read", "Edit": "edit", "MultiEdit": "edit", "Write": "write"}
"""As rules these names are about all ways to read or to change files; in a list of tools each is one tool."""
_ELSEWHERE = frozenset(
    [
        "Agent",
        "AskUserQuestion",
        "Bash",
        "BashOutput",
        "Edit",
        "EnterPlanMode",
        "EnterWorktree",
        "ExitPlanMode",
        "ExitWorktree",
        "Glob",
        "Grep",
        "KillBash",
        "KillShell",
        "LS",
        "LSP",
        "ListMcpResourcesTool",
        "Monitor",
        "MultiEdit",
        "NotebookEdit",
        "NotebookRead",
        "PowerShell",
        "Read",
        "ReadMcpResourceTool",
        "SendMessage",
        "Skill",
        "SlashCommand",
        "Task",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskOutput",
        "TaskStop",
        "TaskUpdate",
        "TodoRead",
        "TodoWrite",
        "ToolSearch",
        "WebFetch",
        "WebSearch",
        "Write",
    ]
)


def means_tool(rule: Rule, tool: str) -> bool:
    """Whether a rule is about a tool, whatever it says about its arguments."""
    if _ALSO.get(rule.tool) == tool:
        return True
    named = Rule(rule.tool)
    return any(named.covers(ToolCall("", name)) for name in (tool, _ASIDE.get(tool)) if name)


def grants_tool(rule: Rule, tool: str) -> bool:
    """Whether a rule in a list of tools gives a tool: the one that is named, and not all that do the like."""
    just = _JUST.get(rule.tool)
    return tool in (just, rule.tool) if just is not None else means_tool(rule, tool)


def is_aside(tool: str) -> bool:
    """Whether a tool only looks after what another has started."""
    return tool in _ASIDE


def is_known_elsewhere(name: str) -> bool:
    """Whether other agents have a tool of that name, so that its absence here is no slip of the pen."""
    return name in _ELSEWHERE or name.startswith("mcp__")
