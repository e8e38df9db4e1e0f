"""Our tools as the scripts know them: other names, other argument keys, and the way back."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hookline.errors import UsageError
from hookline.state import ToolCall, thaw


class Shown(NamedTuple):
    """A call as a script sees it."""

    name: str
    input: dict[str, Any]
    aliases: tuple[str, ...] = ()
    """Other names of the same tool, that matchers may use."""


class ToolForm(NamedTuple):
    """How one of our tools is called elsewhere."""

    name: str
    keys: Mapping[str, str]
    """Our argument -> theirs."""
    aliases: tuple[str, ...] = ()


_FILE = {"path": "file_path"}
_EDIT = {"path": "file_path", "old": "old_string", "new": "new_string"}

_SEARCH = {
    "include": "glob",
    "ignore_case": "-i",
    "context": "-C",
    "mode": "output_mode",
    "limit": "head_limit",
}

CLAUDE: dict[str, ToolForm] = {
    "bash": ToolForm("Bash", {"background": "run_in_background"}),
    "exec": ToolForm("Bash", {}),
    "bash_poll": ToolForm("BashOutput", {"id": "bash_id"}, ("TaskOutput",)),
    "bash_stop": ToolForm("KillShell", {"id": "shell_id"}, ("KillBash", "TaskStop")),
    "read": ToolForm("Read", _FILE),
    "write": ToolForm("Write", _FILE),
    "edit": ToolForm("Edit", _EDIT),
    "list": ToolForm("LS", {}),
    "glob": ToolForm("Glob", {}),
    "search": ToolForm("Grep", _SEARCH),
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

GEMINI: dict[str, ToolForm] = {
    "bash": ToolForm(
        "run_shell_command", {"background": "is_background", "cwd": "dir_path"}, ("Bash",)
    ),
    "exec": ToolForm("run_shell_command", {"cwd": "dir_path"}),
    "read": ToolForm("read_file", _FILE),
    "write": ToolForm("write_file", _FILE),
    "edit": ToolForm("replace", {**_EDIT, "replace_all": "allow_multiple"}),
    "list": ToolForm("list_directory", {"path": "dir_path"}),
    "glob": ToolForm("glob", {"path": "dir_path"}),
    "search": ToolForm(
        "grep_search", {"path": "dir_path", "include": "include_pattern"}, ("search_file_content",)
    ),
    "todo_write": ToolForm("write_todos", {"items": "todos", "tasks": "todos"}),
    "web_fetch": ToolForm("web_fetch", {}),
    "fetch": ToolForm("web_fetch", {}),
    "web_search": ToolForm("google_web_search", {}),
    "load_skill": ToolForm("activate_skill", {}),
}

CURSOR: dict[str, ToolForm] = {
    "bash": ToolForm("Shell", {"cwd": "working_directory"}),
    "exec": ToolForm("Shell", {"cwd": "working_directory"}),
    "read": ToolForm("Read", _FILE),
    "write": ToolForm("Write", _FILE),
    "edit": ToolForm("Write", _EDIT, ("Edit", "StrReplace")),
    "search": ToolForm("Grep", _SEARCH),
    "glob": ToolForm("Glob", {}),
    "list": ToolForm("LS", {}),
    "spawn_subagent": ToolForm("Task", {"agent": "subagent_type"}),
}

COPILOT: dict[str, ToolForm] = {
    "bash": ToolForm("bash", {}),
    "exec": ToolForm("bash", {}),
    "read": ToolForm("view", {}),
    "write": ToolForm("create", {"content": "file_text"}),
    "edit": ToolForm("edit", {"old": "old_str", "new": "new_str"}),
    "list": ToolForm("view", {}),
    "search": ToolForm("grep", _SEARCH),
    "glob": ToolForm("glob", {}),
    "bash_poll": ToolForm("read_bash", {"id": "shellId"}),
    "bash_stop": ToolForm("stop_bash", {"id": "shellId"}),
    "spawn_subagent": ToolForm("task", {"agent": "agent_type"}),
    "todo_write": ToolForm("update_todo", {"items": "todos", "tasks": "todos"}),
    "load_skill": ToolForm("skill", {"name": "skill"}),
    "web_fetch": ToolForm("web_fetch", {}),
    "fetch": ToolForm("web_fetch", {}),
    "web_search": ToolForm("web_search", {}),
}

_MODES = {"lines": "content", "files": "files_with_matches", "count": "count"}
_SHELLS = ("bash", "exec")
_USUAL: dict[str, dict[str, Any]] = {
    "read": {"offset": 1, "limit": 2000},
    "search": {"path": ".", "context": 0, "limit": 100},
    "glob": {"path": "."},
    "list": {"depth": 1},
}
"""What our tools take where the model says nothing. Scripts are not shown it: to them a limit means care."""


class Bridge:
    """Takes calls over to a dialect's names and keys, and changed input back to ours."""

    def __init__(
        self,
        forms: Mapping[str, ToolForm],
        *,
        milliseconds: bool = False,
        as_written: bool = False,
    ) -> None:
        self._forms = forms
        self._milliseconds = milliseconds
        self._as_written = as_written
        """Paths are shown as the model wrote them: scripts there look for `src/` at their beginning."""

    def show(self, call: ToolCall, cwd: str) -> Shown:
        """A call under the names that the scripts know."""
        form = self._forms.get(call.name)
        args = thaw(call.args)
        if form is None:
            return Shown(call.name, args)
        name, aliases = form.name, form.aliases
        shown: dict[str, Any] = {}
        usual = _USUAL.get(call.name, {})
        for key, value in args.items():
            if key in usual and value == usual[key]:
                continue
            if key == "argv" and call.name == "exec":
                shown["command"] = shlex.join(map(str, value))
            else:
                shown[form.keys.get(key, key)] = self._outward(call.name, key, value, cwd)
        if call.name == "edit" and args.get("edits"):
            shown |= {theirs: _joined(args["edits"], ours) for ours, theirs in _texts(form)}
            shown["edits"] = [_renamed(edit, form.keys) for edit in args["edits"]]
            if name == "Edit":
                name, aliases = "MultiEdit", ("Edit",)
        shown = {key: value for key, value in shown.items() if not _is_left_out(value, key)}
        return Shown(name, shown, aliases)

    @staticmethod
    def path(call: ToolCall, cwd: str) -> str:
        """The file that a call is about, as an absolute path."""
        return _absolute(str(call.args.get("path", "")), cwd)

    def back(self, call: ToolCall, shown: Shown, updated: Mapping[str, Any]) -> ToolCall:
        """The call with what a script made of its input. Keys that we do not rename are taken as they are."""
        form = self._forms.get(call.name)
        if form is None:
            return ToolCall(call.id, call.name, dict(updated))
        ours = {theirs: key for key, theirs in form.keys.items() if key in call.args}
        if call.name == "edit" and call.args.get("edits"):
            updated = _without_joined(updated, shown, form)
        args: dict[str, Any] = {}
        for theirs, value in updated.items():
            key = ours.get(theirs, theirs)
            if value == shown.input.get(theirs, _NOTHING):  # as it was: so it is what we had
                value = thaw(call.args[key]) if key in call.args else value
            else:
                value = self._inward(call.name, key, value, form.keys)
            args[key] = value
        if call.name == "exec":
            args = _with_argv(args, thaw(call.args))
        if "description" in args and "description" not in call.args:
            del args["description"]  # theirs has one, ours has none
        return ToolCall(call.id, call.name, args)

    def _outward(self, tool: str, key: str, value: Any, cwd: str) -> Any:
        if key == "path" and isinstance(value, str):
            return value if self._as_written else _absolute(value, cwd)
        if key == "timeout" and tool in _SHELLS and self._milliseconds and _is_number(value):
            return round(value * 1000)
        if key == "mode" and tool == "search":
            return _MODES.get(value, value)
        return value

    def _inward(self, tool: str, key: str, value: Any, keys: Mapping[str, str]) -> Any:
        if key == "timeout" and tool in _SHELLS and self._milliseconds and _is_number(value):
            return value / 1000
        if key == "mode" and tool == "search":
            return {theirs: ours for ours, theirs in _MODES.items()}.get(value, value)
        if key == "edits" and isinstance(value, list):
            inner = {theirs: ours for ours, theirs in keys.items() if ours in ("old", "new")}
            return [_renamed(edit, inner) if isinstance(edit, dict) else edit for edit in value]
        return value


_NOTHING = object()


def _texts(form: ToolForm) -> list[tuple[str, str]]:
    """What is taken out and what is put in, by our name and by theirs."""
    return [(ours, form.keys.get(ours, ours)) for ours in ("old", "new")]


def _joined(edits: list[Mapping[str, Any]], key: str) -> str:
    """One text of all edits, where guards look that know one edit only: none is hidden from them among several."""
    return "\n".join(str(edit.get(key, "")) for edit in edits)


def _without_joined(updated: Mapping[str, Any], shown: Shown, form: ToolForm) -> dict[str, Any]:
    """The input without the texts that were joined. A changed one cannot be taken apart again."""
    kept = dict(updated)
    for _, theirs in _texts(form):
        if theirs in kept and kept.pop(theirs) != shown.input.get(theirs):
            raise UsageError(
                f"the call has several edits, and '{theirs}' is all of them.",
                remedy="Change `edits` instead.",
            )
    return kept


def _is_left_out(value: Any, key: str) -> bool:
    """Whether an argument says nothing: scripts take a key that is there for one that was given."""
    return (value is None or value is False or value == "") and key not in (
        "content",
        "new_string",
        "old_string",
        "new_str",
        "file_text",
        "replace_all",
        "command",
    )


def _renamed(value: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    return {keys.get(key, key): item for key, item in value.items()}


def _absolute(path: str, cwd: str) -> str:
    return os.path.normpath(Path(cwd) / path) if path else cwd


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_argv(args: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """A command line that a script wrote, for a tool that takes words."""
    command = args.pop("command", None)
    if command is None:
        raise UsageError("the changed input has no command.", remedy="Keep the key `command`.")
    if command == shlex.join(map(str, given["argv"])):
        return {**args, "argv": given["argv"]}
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    # What only a shell can read is given to one, and policies judge it as that.
    plain = bool(words) and shlex.join(words) == command
    return {**args, "argv": words if plain else ["bash", "-c", command]}


def patch_text(call: ToolCall) -> str:
    """A change to a file in the form of Codex's patches, which name it as the model does."""
    path = str(call.args.get("path", ""))
    if call.name == "write":
        body = [f"*** Add File: {path}", *_marked("+", str(call.args.get("content", "")))]
    else:
        edits = call.args.get("edits") or [call.args]
        body = [f"*** Update File: {path}"]
        for edit in edits:
            body += [
                "@@",
                *_marked("-", str(edit.get("old", ""))),
                *_marked("+", str(edit.get("new", ""))),
            ]
    return "\n".join(["*** Begin Patch", *body, "*** End Patch", ""])


def _marked(mark: str, text: str) -> list[str]:
    return [mark + line for line in text.splitlines()]
