"""The schema of configuration files. Every key has a type here; an unknown key is an error."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

KeyPath = tuple[str | int, ...]
"""The keys that lead to a value: `("hooks", 0, "on")`."""
Name = Annotated[str, Meta(min_length=1)]
Whole = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class LimitSettings(Table, frozen=True, kw_only=True):
    """What a run, with its children, may spend."""

    steps: Whole | None = None
    tokens: Whole | None = None
    seconds: Amount | None = None
    cost: Amount | None = None
    tool_calls: Whole | None = None


ErrorDoing = Literal["stop", "retry", "ignore"]


class ErrorSettings(Table, frozen=True, kw_only=True):
    """What happens when something fails, by class of error."""

    tool: ErrorDoing | None = None
    validation: ErrorDoing | None = None
    blocked: ErrorDoing | None = None
    """For calls that a hook blocked or a person denied. If it is not set, these are no errors."""
    model: ErrorDoing | None = None
    rate_limit: ErrorDoing | None = None
    timeout: ErrorDoing | None = None
    connection: ErrorDoing | None = None
    overloaded: ErrorDoing | None = None
    malformed: ErrorDoing | None = None
    refusal: ErrorDoing | None = None
    content_filter: ErrorDoing | None = None
    context_overflow: ErrorDoing | None = None
    authentication: ErrorDoing | None = None
    unsupported: ErrorDoing | None = None
    hook: ErrorDoing | None = None
    unknown: ErrorDoing | None = None
    otherwise: ErrorDoing | None = None
    """For the classes that are not named."""
    max_retries: Whole | None = None
    max_errors: Whole | None = None
    first_delay: Amount | None = None
    factor: Amount | None = None
    max_delay: Amount | None = None


ApprovalModeName = Literal["default", "accept_edits", "ask_unlisted", "deny_unlisted", "plan"]


PlaceName = Literal["read-only", "workspace", "host"]
"""Where commands run, the strictest first."""
SandboxName = Literal["required", "auto", "host"]
"""What happens where there is no sandbox, the strictest first. `host` is an older word for that place."""


class ApprovalSettings(Table, frozen=True, kw_only=True):
    """Which calls pass, which a person is asked about, and which never run."""

    mode: ApprovalModeName = "default"
    allow: tuple[Name, ...] = ()
    ask: tuple[Name, ...] = ()
    deny: tuple[Name, ...] = ()
    expire_after: Amount | None = None
    """Seconds a question can be answered; after that it is a no."""


class McpSettings(Table, frozen=True, kw_only=True):
    """An MCP server: a program that is started (`command`), or an address (`url`)."""

    command: Name | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """`${NAME}` stands for a variable of your environment."""
    cwd: str | None = None
    files: tuple[Name, ...] = ()
    """Files and directories of the project that it loads besides its script: trusted with it, and read-only."""
    url: Name | None = None
    headers: dict[str, str] = {}
    """`${NAME}` stands for a variable of your environment."""
    timeout: Amount | None = None
    connect_timeout: Amount | None = None
    resources: bool = False
    prompts: bool = False
    enabled: bool = True


class MatchSettings(Table, frozen=True, kw_only=True):
    """What a hook is for. Every part must match."""

    tool: Name | None = None
    """A tool's name, a glob, or a regular expression between slashes."""
    rule: Name | None = None
    """A rule about a call: `bash(git push *)`."""
    args: dict[str, str | int | float | bool] = {}
    """Arguments by name: a value, or a regular expression between slashes."""
    text: Name | None = None
    """Words in the prompt, the result or the answer, or a regular expression between slashes."""


Doing = Literal["block", "ask", "stop", "log", "redact"]


class HookSettings(Table, frozen=True, kw_only=True):
    """A hook: a Python function (`run`), a command, an address (`url`), or a rule (`do`). Exactly one of these."""

    on: Name
    """The point, in any of its spellings: `before_tool_use`, `PreToolUse`."""
    run: Name | None = None
    """`module:function`."""
    command: Name | tuple[Name, ...] | None = None
    """A command for the shell, or a program and its arguments: JSON on its input, the exit code is the answer."""
    url: Name | None = None
    """An address that is posted the same JSON."""
    do: Doing | None = None
    match: Name | MatchSettings | None = None
    """For calls of a tool: its name, a glob, `/regex/` or a rule such as `bash(git push *)`; elsewhere, words."""
    reason: str = ""
    name: Name | None = None
    tier: Literal["hook", "policy", "observer"] | None = None
    priority: int = 0
    before: Name | tuple[Name, ...] = ()
    after: Name | tuple[Name, ...] = ()
    scope: Literal["self", "tree"] | None = None
    timeout: Annotated[float, Meta(gt=0)] | None = None
    on_failure: Literal["closed", "open"] | None = None
    shadow: bool = False
    env: dict[str, str] = {}
    """More variables for a command."""
    files: tuple[Name, ...] = ()
    """Files and directories of the project that a command loads besides its script: they are trusted with it, and
    read-only."""
    headers: dict[str, str] = {}
    """Headers for an address. `${NAME}` stands for a variable of your environment."""


class ModelSettings(Table, frozen=True, kw_only=True):
    """Where the provider is, and how long to wait for it. Never taken from a repository."""

    base_url: Name | None = None
    api_key: Name | None = None
    timeout: Amount | None = None
    headers: dict[str, str] | None = None
    context: Whole | None = None
    threads: Whole | None = None


class AgentSettings(Table, frozen=True, kw_only=True):
    """The parts of an agent. A named agent inherits what it does not set from the rest of the configuration."""

    description: str = ""
    target: Name | None = None
    """`module:agent`: an agent of your own, which is used as it is."""
    model: Name | tuple[Name, ...] | None = None
    model_options: dict[str, Any] = {}
    provider_tools: tuple[Name, ...] = ()
    """Tools that the provider may run itself, by name: `web_search`. `model_options` switches them on."""
    """What goes with every request: temperature, max_tokens, ..."""
    model_settings: ModelSettings = ModelSettings()
    system_prompt: str = ""
    version: str = ""
    """The version of the agent, as you count it. It is on record with each run."""
    capabilities: dict[str, dict[str, Any]] = {}
    """What the agent can do, each with its options: `[capabilities.files]`. `enabled = false` leaves one out."""
    limits: LimitSettings = LimitSettings()
    errors: ErrorSettings = ErrorSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    mcp: dict[str, McpSettings] = {}
    hooks: tuple[HookSettings, ...] = ()


class Configuration(AgentSettings, frozen=True, kw_only=True):
    """A whole configuration file."""

    agents: dict[str, AgentSettings] = {}
    """Agents by name, for `hookline run --agent NAME`."""
    agent: Name | None = None
    """The agent of `hookline run` when none is named: one of `agents`, or `module:agent`."""
    dialects: tuple[Literal["claude", "gemini", "codex", "cursor", "copilot"], ...] | None = None
    """Other agents whose hook files are read; all of them by default."""
    plugins: tuple[Name, ...] = ()
    """Directories of plugins, for Claude Code or for Codex, whose hooks are run."""
    claude_settings: tuple[Name, ...] = ()
    """More settings files of Claude Code whose hooks are run. A project cannot set this: it has its own such file."""
    hook_failures: dict[Name, Literal["open", "closed"]] = {}
    """Whether hooks of other agents' files block when they fail, by file, as `hookline hooks list` shows it. `*` stands
    for anything. A project can open only the hooks of its own files."""
    hook_files: tuple[Name, ...] = ()
    """The same for all hooks of the project, also in other agents' files: what they load besides their scripts."""
    journal: Name | None = None
    """The file of the journal."""


# --- the JSON schema, for editors: docs/hookline.schema.json -------------------------------------------


def json_schema(
    points: Mapping[str, Any] = MappingProxyType({}),
    capabilities: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The JSON schema of configuration files, made from the types above. `validation` checks more than they say.

    This package does not know the hook points and the capabilities. `points` is the schema of a point's name,
    `capabilities` the schema of each capability's options. Without them any name is valid.
    """
    schema = msgspec.json.schema(Configuration)
    tables = schema["$defs"]
    tables["HookSettings"]["properties"]["on"].update(points)
    if capabilities:
        known = {"properties": dict(capabilities), "additionalProperties": False}
        for name in ("AgentSettings", "Configuration"):
            tables[name]["properties"]["capabilities"].update(known)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hookline configuration",
        "description": "hookline.toml, .hookline/config.toml and [tool.hookline] in pyproject.toml",
        **schema,
    }
