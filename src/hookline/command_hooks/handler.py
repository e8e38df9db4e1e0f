"""A hook as a configuration file describes it, what it is sent, and what it answers, whatever the dialect."""

from __future__ import annotations

import contextlib
import enum
import itertools
import json
import os
import re
import uuid
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from hookline.errors import UsageError
from hookline.state import EMPTY, AgentState, UserMessage


class Level(enum.StrEnum):
    """Who wrote a file, the most trusted first."""

    MANAGED = "managed"
    """The administrator of the machine."""
    USER = "user"
    CODE = "code"
    """The program that builds the agent: the hook is in it, or in a file that it names."""
    PLUGIN = "plugin"
    """Installed by the user."""
    PROJECT = "project"
    """Part of the repository."""
    LOCAL = "local"
    """In the repository's directory, but not part of the repository."""

    @property
    def is_repository(self) -> bool:
        """Whether it comes with the directory: its hooks are off until they are trusted."""
        return self in (Level.PROJECT, Level.LOCAL)


class HookSource(msgspec.Struct, frozen=True):
    """The file that names a hook. The dialect is a property of the file, never of the script."""

    dialect: str
    level: Level = Level.CODE
    path: str = ""
    """The file; empty for what is in the program."""
    label: str = ""
    """The file as it is shown: `.claude/settings.json`."""
    root: str = ""
    """The directory of a plugin or an extension."""
    data: str = ""
    """The directory for a plugin's own data."""


class Handler(msgspec.Struct, frozen=True):
    """One hook: its event, its matcher, what it runs, and what its failure means."""

    source: HookSource
    event: str
    """As its dialect calls it."""
    kind: Literal["command", "http", "prompt", "agent", "mcp_tool"] = "command"
    command: str = ""
    argv: tuple[str, ...] | None = None
    """The program and its arguments, instead of a command line for a shell."""
    url: str = ""
    headers: Mapping[str, str] = EMPTY
    allowed_env: tuple[str, ...] = ()
    """The variables that the headers may name."""
    prompt: str = ""
    """The question to a model, if a model answers."""
    model: str = ""
    """The model; empty for the agent's own."""
    continues: bool = False
    """A model's no after a tool goes to the agent, and does not end the run."""
    tool: str = ""
    """The MCP tool that answers, by its name here."""
    input: Mapping[str, Any] = EMPTY
    """The arguments of that tool."""
    matcher: str = ""
    rule: str = ""
    """`if`: a permission rule that a tool call must be about."""
    timeout: float = 600.0
    on_failure: Literal["open", "closed"] = "open"
    on_unreadable: Literal["open", "closed"] = "closed"
    """What an answer that cannot be read means: it blocks in every dialect, unless the user said `open`."""
    is_async: bool = False
    wakes: bool = False
    """A background hook that sends the agent back to work with exit code 2."""
    is_sequential: bool = False
    env: Mapping[str, str] = EMPTY
    cwd: str = ""
    files: tuple[str, ...] = ()
    """Further files and directories of the project that it loads: trust is bound to them, too."""
    shell: str = ""
    label: str = ""
    """A name of its own, where the file gives one."""
    in_argument: bool = False
    """The event is its last argument, and not its input."""
    loop_limit: int | None = None
    """How often it may object to the end of a run; None for the usual cap."""
    agent: str = ""
    """The subagent whose page describes it: it is asked in the runs of that one, and below them, only."""
    skill: str = ""
    """The skill whose page describes it: it is asked once that is loaded."""
    once: bool = False
    """It is not asked again in a session in which it was asked and did not object."""
    known_fields: frozenset[str] = frozenset()
    """Words of the protocol in its scripts, if the dialect has several forms: it is sent the form it knows."""
    pins: Mapping[str, str] | None = None
    """The files and directories that it is bound to, with their hashes. It is not run after a change."""
    definition: Mapping[str, Any] = EMPTY
    """The entry as it is in the file: trust is bound to it."""

    @property
    def runs(self) -> str:
        """The command, address, tool or question, on one line."""
        if self.kind == "http":
            return self.url
        if self.kind == "mcp_tool":
            return self.tool
        if self.kind in ("prompt", "agent"):
            return f"{self.kind}: {' '.join(self.prompt.split())}"
        return " ".join(self.argv) if self.argv is not None else " ".join(self.command.split())

    @property
    def name(self) -> str:
        """The name in the journal: the file, and the command."""
        said = self.label or _shorten(self.runs)
        where = self.source.label or self.source.dialect
        return f"{where}: {said}"

    @property
    def scope(self) -> str:
        """The runs in which it is asked, in words; empty for all."""
        if self.agent:
            return f"in subagent '{self.agent}'"
        return f"once skill '{self.skill}' is loaded" if self.skill else ""

    @property
    def is_apart(self) -> bool:
        """Whether its file is trusted separately: a page, or a plugin in the repository."""
        return bool(self.agent or self.skill or self.source.root)

    @property
    def identity(self) -> tuple[object, ...]:
        """Two hooks with the same identity are the same hook."""
        named = tuple(getattr(self, name) for name in _IDENTITY)
        return (self.source.dialect, repr(self.input), *named)


_IDENTITY = (
    "event", "matcher", "rule", "kind", "command", "argv", "url", "prompt", "model", "tool", "shell", "agent", "skill",
)  # fmt: skip


FailMode: TypeAlias = Literal["open", "closed"]


def with_fail_mode(handler: Handler, mode: FailMode) -> Handler:
    """A hook with what the user says about its failures; an answer that cannot be read is one of them."""
    return msgspec.structs.replace(handler, on_failure=mode, on_unreadable=mode)


class HookPage(msgspec.Struct, frozen=True):
    """The page of a subagent or a skill, with the hooks in its front matter."""

    path: str
    label: str
    level: Level
    handlers: tuple[Handler, ...]
    agent: str = ""
    skill: str = ""

    @property
    def subject(self) -> str:
        """What the page describes, in words."""
        return f"subagent '{self.agent}'" if self.agent else f"skill '{self.skill}'"


Warn: TypeAlias = Callable[[str], None]
"""Called with what is wrong with a file."""


SYSTEM = Path("/etc")
"""The directory of the administrator's files."""


class DroppedHook(str):
    """A warning that a hook which is configured is not in force."""

    __slots__ = ()


class HookSearch(msgspec.Struct, frozen=True):
    """Where hooks are looked for, and where warnings about files go."""

    project: Path
    home: Path
    warn: Warn
    system: Path | None = SYSTEM
    """The directory of the administrator's files; None if they are not read."""
    plugins: Mapping[Path, Level] = MappingProxyType({})
    """Directories of plugins that are named."""
    settings: tuple[Path, ...] = ()
    """Settings files that the user names."""
    pages: tuple[HookPage, ...] = ()

    def places(self, managed: str, user: Path, project: Path) -> list[tuple[Level, Path]]:
        """The usual three places, the most trusted first; each once."""
        found = [] if self.system is None else [(Level.MANAGED, self.system / managed)]
        found.append((Level.USER, user))
        return found if self.project == self.home else [*found, (Level.PROJECT, project)]

    def source(
        self, dialect: str, level: Level, path: Path, *, root: str = "", data: str = ""
    ) -> HookSource:
        """The source that a file is."""
        label = shown_path(path, self.project, self.home)
        return HookSource(dialect, level, str(path), label, root, data)


def _shorten(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 + 3 :]}"


def home_directory() -> Path:
    """The user's home; a path that cannot exist if there is none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull) / "nobody"


def own_directory(home: Path, usual: str, variable: str) -> Path:
    """A user's directory for an agent: in their home, or where a variable of that agent says."""
    said = os.environ.get(variable, "")
    return Path(said).expanduser() if said and home == home_directory() else home / usual


def level_of(
    place: str | os.PathLike[str], project: Path, home: Path, *, otherwise: Level
) -> Level:
    """The level of the files in a place: the repository's if it is in it, by name or by its real path."""
    given = Path(os.path.abspath(Path(place).expanduser()))
    is_inside = given.is_relative_to(project) or given.resolve().is_relative_to(project)
    return Level.PROJECT if is_inside and project != home else otherwise


def shown_path(path: str | os.PathLike[str], project: Path, home: Path) -> str:
    """A path relative to the project or to the home directory, if it is in one."""
    full = Path(path)
    for base, prefix in ((project, ""), (home, "~/")):
        if full.is_relative_to(base):
            return prefix + full.relative_to(base).as_posix()
    return str(full)


# --- what a hook is sent, and what it answers -----------------------------------------------------------

HOOK_AGENT = "hook-agent"
"""The agent that answers for a hook. Hooks that ask a model are not asked about it: that would never end."""
_LABEL = "<hook name="
_CLOSING = re.compile(r"</(?=hook\b)", re.IGNORECASE)
TITLE = "hookline.title"
"""The metadata key of the title that a hook gave the session."""
VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
"""A variable in a text: `$NAME` or `${NAME}`."""
MOST_OUTPUT = 1 << 20
"""Bytes kept of each stream; the rest is read and dropped, so that the program does not wait for us."""
_NAMES_ERROR = re.compile(r"(?:Uncaught )?[\w.]*(?:Error|Exception)\b[^:]*: ")
"""How Python, Node and others begin the line that names the error."""
_NOT_EXECUTABLE = 126
"""The exit code of shells that found a program and could not start it."""

_LONGEST_EXCERPT = 200
_BEGINS_OBJECT = re.compile(r"^[^{\n]*(\{)", re.MULTILINE)
"""The first brace of a line."""
_MOST_OBJECTS = 50
_DECODER = json.JSONDecoder(strict=False)
_BEGINS_LIST = re.compile(r"\[\s*\{")
_DECISION_FIELDS = ("decision", "permissionDecision", "permission", "behavior")
_REASON_FIELDS = (
    "reason", "permissionDecisionReason", "agent_message", "message", "user_message", "stopReason",
)  # fmt: skip
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)
_NAMESPACE = uuid.UUID("8f6d3c1e-2b7a-4f55-9d0e-6c1a5b0e7a42")
AnswerWord: TypeAlias = Literal["", "allow", "ask", "defer", "deny"]
AnswerStatus: TypeAlias = Literal[
    "completed", "blocked", "failed", "timeout", "spawn_error", "unreadable"
]
_ANSWER_WORDS, _ANSWER_STATUSES = get_args(AnswerWord), get_args(AnswerStatus)

UNCHANGED: Any = msgspec.UNSET
"""No replacement; None is one."""


class JsonObject(dict[str, Any]):
    """An object that others wrote: each method gives a field in the type that it should have, or an empty one."""

    def text(self, *keys: str) -> str:
        """The first of some fields that is a text, and not empty."""
        return next((text for key in keys if (text := text_of(self.get(key)))), "")

    def texts(self, *keys: str) -> tuple[str, ...]:
        """The first of some texts, as the only one of a tuple; an empty tuple if it says nothing."""
        said = self.text(*keys)
        return (said,) if said.strip() else ()

    def object(self, key: str) -> JsonObject:
        """A field that should be an object."""
        return object_of(self.get(key))

    def array(self, key: str) -> list[Any]:
        """A field that should be a list."""
        found = self.get(key)
        return found if isinstance(found, list) else []

    def strings(self, key: str) -> dict[str, str]:
        """A field with texts by name."""
        items = self.object(key).items()
        return {name: str(item) for name, item in items if isinstance(item, str | int | float)}

    def wrong_type(self, fields: Mapping[str, tuple[type, ...]]) -> str:
        """The first field that has another type than it should; empty if none has."""
        for name, kinds in fields.items():
            if self.get(name) is not None and not isinstance(self[name], kinds):
                wanted = " or ".join(kind.__name__ for kind in kinds)
                return f"'{name}' is {type(self[name]).__name__}, and should be {wanted}"
        return ""


def text_of(value: object) -> str:
    """A value that should be text; empty if it is not."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> JsonObject:
    """A value that should be an object; an empty one if it is not."""
    return JsonObject(value) if isinstance(value, dict) else JsonObject()


class RunFacts(msgspec.Struct, frozen=True):
    """Where a run happens, and how far it is."""

    project: str
    cwd: str
    session_id: str
    transcript: str = ""
    permission_mode: str = "default"
    model: str = ""
    env_file: str = ""
    child_transcript: str = ""
    objections: int = 0
    """How often hooks have kept the run, or the child in question, from stopping."""
    objections_in_a_row: int = 0
    """How many of these since a tool was last called."""

    @property
    def session_uuid(self) -> str:
        """The session as a UUID. Scripts tell sessions apart by its first letters, which in ours are the time."""
        return as_uuid(self.session_id)


class ProgramResult(msgspec.Struct, frozen=True):
    """How a program ended. `code` is None if it did not end by itself."""

    code: int | None
    stdout: str = ""
    """Its output, in which `Dialect.frame` has found the answer."""
    stderr: str = ""
    problem: Literal["", "timeout", "spawn_error", "unreadable"] = ""
    detail: str = ""
    """More about the problem, or how a request failed, which has no exit code."""
    answer: JsonObject | None = None
    """The JSON object that the output is; None if it is text."""

    @property
    def failure(self) -> str:
        """How it failed: with the line of its output that names the error, or the first."""
        if self.detail:
            return self.detail
        said = self.stderr if self.stderr.strip() else self.stdout
        lines = [line.strip() for line in said.splitlines() if len(line.strip()) > 1]
        line = next(filter(_NAMES_ERROR.match, lines), lines[0] if lines else "")
        reason = f": {line[:300]}" if line else ""
        remedy = "; is it executable? (chmod +x)" if self.code == _NOT_EXECUTABLE else ""
        return f"it ended with exit code {self.code}{reason}{remedy}"


def not_started(why: str) -> ProgramResult:
    """The result of a program that could not be started, or of an address that cannot be reached."""
    return ProgramResult(None, problem="spawn_error", detail=why)


class ProgramAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A hook's answer. What it does depends on the point where the hook was asked."""

    decision: AnswerWord = ""
    reason: str = ""
    updated_input: dict[str, Any] | None = None
    updated_output: Any = UNCHANGED
    contexts: tuple[str, ...] = ()
    """For the model."""
    messages: tuple[str, ...] = ()
    """For the user."""
    stops: bool = False
    stop_reason: str = ""
    env: dict[str, str] | None = None
    prompt: str = ""
    """A first message in place of the user's."""
    title: str = ""
    """A new title of the session."""
    terminal: str = ""
    """A control sequence for the terminal: a title, a notification, the bell."""
    display: str = ""
    """Text to show in place of the model's."""
    clears_context: bool = False
    """The conversation so far is dropped."""
    extra: dict[str, Any] | None = None
    """Fields that only the dialect itself understands."""
    status: AnswerStatus = "completed"
    problem: str = ""
    """What went wrong, if the hook failed."""

    def __post_init__(self) -> None:
        for name, word, known in (
            ("decision", self.decision, _ANSWER_WORDS),
            ("status", self.status, _ANSWER_STATUSES),
        ):
            if word not in known:  # a misspelt denial would let the call pass
                raise UsageError(
                    f"a ProgramAnswer has no {name} {word!r}.",
                    remedy=f"Use one of {', '.join(map(repr, known))}.",
                )

    @property
    def has_failed(self) -> bool:
        """It gave no answer at all."""
        return self.status not in ("completed", "blocked")

    @property
    def is_silent(self) -> bool:
        """Nothing was decided, changed or said."""
        return self == _SILENT


_SILENT = ProgramAnswer()


def failed(problem: str, status: AnswerStatus = "failed") -> ProgramAnswer:
    """The answer of a hook that gave none."""
    return ProgramAnswer(status=status, problem=problem)


def denied(reason: str, **more: Any) -> ProgramAnswer:
    """The answer of a hook that refuses."""
    return ProgramAnswer(decision="deny", reason=reason, status="blocked", **more)


def json_object(text: str) -> JsonObject | None:
    """The JSON object that a text is; None if it is anything else."""
    value = _json_value(text.strip().removeprefix("\ufeff"))
    return JsonObject(value) if isinstance(value, dict) else None


def _json_value(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text, strict=False, object_pairs_hook=_with_each_key_once)
    except (ValueError, RecursionError):
        return None


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # one of two decisions would be lost
        raise ValueError("a key is there twice")
    return found


def is_too_long(text: str) -> bool:
    """Whether a text has more bytes than are kept of an output, so that its end is not known."""
    return len(text) > MOST_OUTPUT // 4 and len(text.encode(errors="replace")) > MOST_OUTPUT


def unreadable(text: str) -> str:
    """Why an output may be a denial that cannot be read; empty for one JSON object, and for text."""
    begun = text.strip().removeprefix("\ufeff")
    if "\0" in text:
        return "its output is not UTF-8; it may be UTF-16"
    if begun.startswith("{") and is_too_long(text):
        return f"its output begins with '{{' and is longer than {MOST_OUTPUT >> 20} MiB"
    if begun.startswith("{") and json_object(begun) is None:
        return f"its output begins with '{{' and is not exactly one JSON object: {_excerpt(begun)}"
    if _BEGINS_LIST.match(begun) or isinstance(_json_value(begun), list):
        return f"its output is a JSON array, not an object: {_excerpt(begun)}"
    return ""


def refusal_in(text: str) -> str:
    """Why a text may be a denial: an object in it refuses, and a shell may have printed the rest. Else empty."""
    if text.lstrip().startswith('"'):  # an object that was encoded twice
        with contextlib.suppress(ValueError, RecursionError):
            text = str(json.loads(text))
    begins = (found.start(1) for found in _BEGINS_OBJECT.finditer(text))
    for place in itertools.islice(begins, _MOST_OBJECTS):
        try:
            found, _ = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            continue
        if is_refusal(JsonObject(found)):
            return f"its output has other text next to the JSON that refuses: {_excerpt(text)}"
    return ""


def _excerpt(text: str) -> str:
    return _shorten(" ".join(text[:_LONGEST_EXCERPT].split()))


def decision_words(found: JsonObject) -> set[str]:
    """The decisions in an answer, in the fields that any of the protocols has for them."""
    specific = found.object("hookSpecificOutput")
    places = (found, specific, specific.object("decision"), found.object("decision"))
    return {each.text(name).lower() for each in places for name in _DECISION_FIELDS} - {""}


def is_refusal(found: JsonObject) -> bool:
    """Whether an answer refuses, or ends the run, in the fields of any protocol."""
    return found.get("continue") is False or bool(decision_words(found) & {"block", "deny"})


def reason_of(found: JsonObject) -> str:
    """The reason in an answer, in the fields of any protocol; empty if there is none."""
    specific = found.object("hookSpecificOutput")
    places = (found, specific, specific.object("decision"))
    return next(filter(None, (each.text(*_REASON_FIELDS) for each in places)), "")


@lru_cache(maxsize=256)
def as_uuid(name: str) -> str:
    """A name as a UUID: always the same, and the name itself if it is one."""
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(name))
    return str(uuid.uuid5(_NAMESPACE, name))


def session_of(state: AgentState) -> str:
    """The session of a run; a run without one is a session of its own."""
    return state.session_id or state.run_id


def json_line(value: Any) -> bytes:
    """Compact JSON on one line. Scripts look for `"role":"assistant"` without a blank."""
    return _COMPACT.encode(value).encode(errors="replace") + b"\n"


def with_label(hook: str, text: str) -> str:
    """A hook's words to the model, under its name. It cannot close its own label."""
    name = hook.replace('"', "'").replace("<", "(").replace(">", ")")
    inside = _CLOSING.sub(r"<\\/", text)
    return f'{_LABEL}"{name}">\n{inside}\n</hook>'


def is_labelled(message: UserMessage) -> bool:
    """Whether a message has the words of a hook."""
    return bool(message.by) and message.text.startswith(_LABEL)
