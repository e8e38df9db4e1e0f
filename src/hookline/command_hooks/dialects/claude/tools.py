"""Claude Code's names for our tools and their arguments. Several dialects share the names of arguments."""

from __future__ import annotations

from hookline.command_hooks.tools import ToolForm

FILE_KEYS = {"path": "file_path"}
EDIT_KEYS = {"path": "file_path", "old": "old_string", "new": "new_string"}

SEARCH_KEYS = {
    "include": "glob",
    "ignore_case": "-i",
    "context": "-C",
    "mode": "output_mode",
    "limit": "head_limit",
}

TOOLS: dict[str, ToolForm] = {
    "bash": ToolForm("Bash", {"background": "run_in_background"}),
    "exec": ToolForm("Bash", {}),
    "bash_poll": ToolForm("BashOutput", {"id": "bash_id"}, ("TaskOutput",)),
    "bash_stop": ToolForm("KillShell", {"id": "shell_id"}, ("KillBash", "TaskStop")),
    "read": ToolForm("Read", FILE_KEYS),
    "write": ToolForm("Write", FILE_KEYS),
    "edit": ToolForm("Edit", EDIT_KEYS),
    "list": ToolForm("LS", {}),
    "glob": ToolForm("Glob", {}),
    "search": ToolForm("Grep", SEARCH_KEYS),
    "todo_write": ToolForm("TodoWrite", {"items": "todos", "tasks": "todos"}),
    "spawn_subagent": ToolForm(
        "Agent",
        {"agent": "subagent_type"},
        ("Task",),
    ),
    "load_skill": ToolForm("Skill", {"name": "skill"}),
    "web_fetch": ToolForm("WebFetch", {}),
    "fetch": ToolForm("WebFetch", {}),
    "web_search": ToolForm("WebSearch", {}),
}
