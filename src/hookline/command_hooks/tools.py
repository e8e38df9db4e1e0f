"""Our tools under the names and keys of another agent, changed arguments under ours again, results, and matchers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from hookline.errors import UsageError
from hookline.state import ResultStatus, ToolCall, ToolResult, thaw

NameTest: TypeAlias = Callable[[Sequence[str]], bool]
"""Whether a hook is for what has these names: a tool has one, and others that mean the same."""
_MCP = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)")


class ShownCall(NamedTuple):
    """A call as a hook sees it."""

    name: str
    input: dict[str, Any]
    aliases: tuple[str, ...] = ()
    """Other names of the same tool, for matchers."""

    @property
    def names(self) -> tuple[str, ...]:
        """All of its names."""
        return (self.name, *self.aliases)


class ToolForm(NamedTuple):
    """One of our tools in another agent."""

    name: str
    keys: Mapping[str, str | tuple[str, ...]]
    """Our argument -> theirs. Of several keys all are shown, and a change under any of them counts."""
    aliases: tuple[str, ...] = ()
    as_written: tuple[str, ...] = ()
    """Their keys for paths as the model wrote them. Under other keys paths are made absolute."""
    made: Callable[[ToolCall, Mapping[str, Any]], dict[str, Any]] | None = None
    """Makes more keys, of the call and its input. Their changes cannot be taken back."""
    several: str = ""
    """Its name for a call that makes several edits, if that is another."""

    def names(self, key: str) -> tuple[str, ...]:
        """Their keys for one of our arguments."""
        found = self.keys.get(key, key)
        return (found,) if isinstance(found, str) else found

    def rename(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments under their keys."""
        return {theirs: value for key, value in args.items() for theirs in self.names(key)}


_MODES = {"lines": "content", "files": "files_with_matches", "count": "count"}
_USUAL: dict[str, dict[str, Any]] = {
    "read": {"offset": 1, "limit": 2000},
    "search": {"path": ".", "context": 0, "limit": 100},
    "glob": {"path": "."},
    "list": {"depth": 1},
}
"""Arguments that say nothing: scripts would take a limit for one that the model chose."""


def file_path(path: object, cwd: str) -> str:
    """A path of a call, made absolute; the directory itself where there is none."""
    return os.path.normpath(os.path.join(cwd, str(path))) if path else cwd


def command_of(call: ToolCall) -> str:
    """The command line of a call; of a tool that takes words, these on one line."""
    words = call.args.get("argv") if call.name == "exec" else None
    return str(call.args.get("command", "")) if words is None else shlex.join(map(str, words))


def mcp_names(tool: str) -> tuple[str, str] | None:
    """The server and the name of an MCP tool; None for any other."""
    found = _MCP.fullmatch(tool)
    return None if found is None else (found["server"], found["tool"])


class ToolNames:
    """The names and keys of one agent for our tools."""

    def __init__(
        self,
        forms: Mapping[str, ToolForm],
        *,
        milliseconds: bool = False,
        mcp: str = "",
    ) -> None:
        self._forms = forms
        self._milliseconds = milliseconds
        self._mcp = mcp
        """The name of an MCP tool, with `{server}` and `{tool}`; empty for ours."""

    def name(self, tool: str) -> str:
        """Its name for one of our tools."""
        form, names = self._forms.get(tool), mcp_names(tool)
        if form is not None:
            return form.name
        if names is None or not self._mcp:
            return tool
        return self._mcp.format(server=names[0], tool=names[1])

    def names(self, tool: str) -> tuple[str, ...]:
        """All its names for one of our tools, whatever the call."""
        form = self._forms.get(tool)
        if form is None:
            return (self.name(tool), tool)
        return (form.name, *form.aliases, *((form.several,) if form.several else ()))

    @property
    def all_names(self) -> frozenset[str]:
        """All its names for tools that we have, too."""
        return frozenset(name for tool in self._forms for name in self.names(tool))

    def show(self, call: ToolCall, cwd: str) -> ShownCall:
        """A call under its names."""
        form = self._forms.get(call.name)
        args = thaw(call.args)
        if form is None:
            name = self.name(call.name)
            return ShownCall(name, args, () if name == call.name else (call.name,))
        name, aliases = form.name, form.aliases
        shown: dict[str, Any] = {}
        usual = _USUAL.get(call.name, {})
        for key, value in args.items():
            if (key in usual and value == usual[key]) or _is_left_out(value, key):
                continue
            if key == "argv" and call.name == "exec":
                shown |= form.rename({"command": command_of(call)})
                continue
            for theirs in form.names(key):
                is_raw = key == "path" and theirs in form.as_written
                shown[theirs] = value if is_raw else self._outward(call.name, key, value, cwd)
        if call.name == "edit" and args.get("edits"):
            shown |= form.rename({key: _join_edits(args["edits"], key) for key in _TEXTS})
            shown["edits"] = [form.rename(edit) for edit in args["edits"]]
            if form.several:
                name, aliases = form.several, (form.name, *form.aliases)
        if form.made is not None:
            shown = {**form.made(call, shown), **shown}
        return ShownCall(name, shown, aliases)

    def take_back(self, call: ToolCall, shown: ShownCall, updated: Mapping[str, Any]) -> ToolCall:
        """The call with a hook's changes. Keys that have no other name here are taken as they are."""
        form = self._forms.get(call.name)
        if form is None:
            return ToolCall(call.id, call.name, dict(updated))
        updated = _without_made(call, shown, form, updated)
        known = (*call.args, *_TEXTS, "command")
        ours = {theirs: key for key in known for theirs in form.names(key)}
        args: dict[str, Any] = {}
        for theirs, value in updated.items():
            key = ours.get(theirs, theirs)
            if value != shown.input.get(theirs, _NOTHING):
                args[key] = self._inward(call.name, key, value, form)
            elif key not in args:  # unchanged: take what we had
                args[key] = thaw(call.args[key]) if key in call.args else value
        if call.name == "exec":
            args = _with_argv(args, thaw(call.args))
        if "description" in args and "description" not in call.args:
            del args["description"]  # our tool has none
        return ToolCall(call.id, call.name, args)

    def _outward(self, tool: str, key: str, value: Any, cwd: str) -> Any:
        if key == "path" and isinstance(value, str):
            return file_path(value, cwd)
        if key == "timeout" and tool in SHELL_TOOLS and self._milliseconds and _is_number(value):
            return round(value * 1000)
        if key == "mode" and tool == "search":
            return _MODES.get(value, value)
        return value

    def _inward(self, tool: str, key: str, value: Any, form: ToolForm) -> Any:
        if key == "timeout" and tool in SHELL_TOOLS and self._milliseconds and _is_number(value):
            return value / 1000
        if key == "mode" and tool == "search":
            return {theirs: ours for ours, theirs in _MODES.items()}.get(value, value)
        if key == "edits" and isinstance(value, list):
            inner = {theirs: ours for ours in _TEXTS for theirs in form.names(ours)}
            return [
                {inner.get(name, name): item for name, item in edit.items()}
                if isinstance(edit, dict)
                else edit
                for edit in value
            ]
        return value


_NOTHING = object()
_TEXTS = ("old", "new")
_KEPT = ("content", *_TEXTS, "replace_all", "command")


def _join_edits(edits: list[Mapping[str, Any]], key: str) -> str:
    """The text of all edits. Guards that know one edit only look there, so that none is hidden from them."""
    return "\n".join(str(edit.get(key, "")) for edit in edits)


def _without_made(
    call: ToolCall, shown: ShownCall, form: ToolForm, updated: Mapping[str, Any]
) -> dict[str, Any]:
    """The input without what was made of several arguments. A changed one cannot be split again."""
    made: dict[str, str] = {}
    if form.made is not None:
        made |= dict.fromkeys(form.made(call, shown.input), "Change the other arguments.")
    if call.name == "edit" and call.args.get("edits"):
        made |= {theirs: "Change `edits` instead." for key in _TEXTS for theirs in form.names(key)}
    for theirs, remedy in made.items():
        if theirs in updated and updated[theirs] != shown.input.get(theirs):
            raise UsageError(
                f"'{theirs}' of a call of '{call.name}' is made of several arguments or several edits, so a change "
                "of it cannot be applied to the call.",
                remedy=remedy,
            )
    return {theirs: value for theirs, value in updated.items() if theirs not in made}


def _is_left_out(value: Any, key: str) -> bool:
    """Whether an argument says nothing: scripts would take a key that is there for one that was given."""
    return (value is None or value is False or value == "") and key not in _KEPT


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_argv(args: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """A changed command line, for a tool that takes words."""
    command = args.pop("command", None)
    if command is None:
        raise UsageError("the changed input has no command.", remedy="Keep the key `command`.")
    if command == shlex.join(map(str, given["argv"])):
        return {**args, "argv": given["argv"]}
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    # A line that only a shell can read goes to one, and policies judge it as that.
    plain = bool(words) and shlex.join(words) == command
    return {**args, "argv": words if plain else ["bash", "-c", command]}


# --- results ---------------------------------------------------------------------------------------------

_HOW_IT_ENDED = re.compile(
    r"^\[(?:exit code -?\d|stopped after |timed out after |ended because ).*\]$", re.M
)
"""The note under the output of a command; the sandbox may have added others below it."""
_NUMBERED = re.compile(r" *(?P<number>\d+)\t(?P<line>.*)", re.DOTALL)
_ENDINGS = {
    "timeout": "The command took too long and was ended",
    "output": "The command printed too much and was ended",
    "processes": "The command started too many processes and was ended",
    "memory": "The command used too much memory and was ended",
    "disk": "The command wrote too much to the disk and was ended",
    "stopped": "The command was stopped",
}
SHELL_TOOLS = ("bash", "exec")


def has_failed(execution: ToolResult) -> bool:
    """Whether a tool failed or was interrupted; a command fails with any exit code but 0."""
    is_error = execution.status is ResultStatus.ERROR or is_interrupted(execution)
    return is_error or execution.metadata.get("exit_code") not in (0, None)


def is_interrupted(execution: ToolResult) -> bool:
    """Whether a tool was ended with its run."""
    return execution.status in (ResultStatus.CANCELLED, ResultStatus.IN_DOUBT)


def output_text(execution: ToolResult) -> str:
    """A result as text: the output of a command without our notes, the lines of a file without numbers."""
    text = execution.text
    if "exit_code" in execution.metadata:
        notes = list(_HOW_IT_ENDED.finditer(text))
        return text[: notes[-1].start()].removesuffix("\n") if notes else text
    if execution.name == "read" and execution.is_success:
        return plain_lines(text)
    return text


def plain_lines(text: str) -> str:
    """Lines without the numbers that a model is shown; a text that is not numbered throughout is unchanged."""
    lines = text.split("\n")
    if len(lines) > 1 and lines[-1].startswith("[") and lines[-1].endswith("]"):
        lines.pop()  # our note
    found = [_NUMBERED.fullmatch(line) for line in lines]
    numbers = [int(each["number"]) for each in found if each is not None]
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(lines))):
        return text
    return "\n".join(each["line"] for each in found if each is not None)


def failure_text(execution: ToolResult) -> str:
    """Why a tool failed; for a command how it ended, and its output."""
    said, code = output_text(execution), execution.metadata.get("exit_code")
    if code in (0, None):
        return said
    how = was_ended(execution) or "The command failed"
    return "\n".join(filter(None, (f"{how} (exit code {code}).", said)))


def was_ended(execution: ToolResult) -> str:
    """How a command was ended by others; empty if it ended by itself."""
    return _ENDINGS.get(str(execution.metadata.get("ended", "")), "")


def server_result(execution: ToolResult) -> dict[str, Any]:
    """The result of an MCP tool, in the form of the protocol."""
    content = [{"type": "text", "text": execution.text}]
    return {"content": content, "isError": not execution.is_success}


def result_of(call: ToolCall, value: Any) -> Any:
    """A changed response in the form of the tool: the text of a command or of a file, out of Claude's form of it.

    Hooks of other dialects that are for Claude, too, use that.
    """
    if isinstance(value, list) and value and all(map(_is_text_block, value)):
        return "\n".join(each["text"] for each in value)
    if not isinstance(value, dict):
        return value
    if call.name in SHELL_TOOLS and isinstance(value.get("stdout"), str):
        return "\n".join(filter(None, (value["stdout"], str(value.get("stderr") or ""))))
    file = value.get("file")
    if call.name == "read" and isinstance(file, dict) and isinstance(file.get("content"), str):
        return file["content"]
    if call.name == "spawn_subagent" and isinstance(value.get("content"), list):
        return result_of(call, value["content"])
    return value


def _is_text_block(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") == "text"
        and isinstance(value.get("text"), str)
    )


# --- matchers: each dialect composes its own of these ---------------------------------------------------

_LONGEST = 2000
_ALL = ("", "*", "**")
NAMES = re.compile(r"[A-Za-z0-9_\- ,|]+")
_NARROW = re.compile(r"[A-Za-z0-9_|]+")
_JS_NAMED = re.compile(r"\(\?<(?![=!])")
_NESTED = re.compile(r"\([^()]*[+*][^()]*\)\s*[+*{]")


def everything(_names: Sequence[str]) -> bool:
    """Matches everything."""
    return True


def one_of(names: Iterable[str]) -> NameTest:
    """Matches exact names."""
    wanted = frozenset(name.strip() for name in names)
    return lambda given: any(name in wanted for name in given)


@lru_cache(maxsize=4096)
def expression(text: str, *, shown: str | None = None) -> NameTest:
    """Matches what a regular expression finds, anywhere; empty or `*`, everything. A wrong one is a UsageError."""
    if text in _ALL:
        return everything
    compiled = _compile(text, text if shown is None else shown)
    # Names are short, but the text of a command may be long: only its beginning is searched.
    return lambda given: any(compiled.search(name[:_LONGEST]) for name in given)


def whole_expression(text: str) -> NameTest:
    """Matches what a regular expression finds, if it is the whole name; as above."""
    return everything if text in _ALL else expression(f"^(?:{text})$", shown=text)


@lru_cache(maxsize=4096)
def names_or_expression(text: str, *, narrow: bool = False) -> NameTest:
    """Exact names between `|` or `,`, if there is nothing else in the text; else an expression, found anywhere.

    `narrow` allows fewer characters in names.
    """
    if (_NARROW if narrow else NAMES).fullmatch(text):
        return one_of(re.split(r"[|,]", text))
    return expression(text)


def _compile(text: str, shown: str) -> re.Pattern[str]:
    if len(text) > _LONGEST:
        raise UsageError(
            f"the matcher '{shown[:60]}...' is longer than {_LONGEST} characters.",
            remedy="Write a shorter one, or several hooks.",
        )
    if _NESTED.search(text):
        raise UsageError(
            f"the matcher {shown!r} repeats a repetition, which can take forever.",
            remedy="Write it with one repetition: `(a+)+` is `a+`.",
        )
    try:
        return re.compile(_JS_NAMED.sub("(?P<", text).replace("[^]", r"[\s\S]"))
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"the matcher {shown!r} is not a regular expression: {error}.",
            remedy="Correct it; names alone are written `Edit|Write`.",
        ) from None
