"""An agent as the settings describe it, open for as long as it is used."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hookline.agent import Agent, AgentBuilder
from hookline.cli.assembly.capabilities import capabilities_of
from hookline.cli.assembly.commands import command_hooks
from hookline.cli.assembly.strangers import warn_of_strangers
from hookline.cli.streams import theirs
from hookline.config import AgentSettings, Settings, data_folder
from hookline.definition import Plans
from hookline.drivers import ScriptedDriver
from hookline.errors import AuthenticationError, BuildError, ConfigError, UsageError
from hookline.flow import ErrorClass, ErrorPolicy
from hookline.journal import JournalStore, Listener

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SCRIPT = "script:"
_OBJECTIONS = 8
"""How often hooks may object to the end of a run, as anywhere."""
_MANY = 10_000
"""How often they may where those of other agents have caps of their own, so many in a row. The rest keep that."""


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """What a command adds to the agent that the settings describe."""

    journal: JournalStore | None = None
    listeners: tuple[Listener, ...] = ()
    capabilities: tuple[Any, ...] = ()
    played: int = 0
    """How many turns of a script were played before the run was cut off, or paused."""
    folder: Path = msgspec.field(default_factory=Path.cwd)
    found: dict[str, Any] = {}
    """Where capabilities are put that a command has to do with later."""
    driver: Any = None
    """A driver in the place of the model, where no model is needed."""
    terminal: Callable[[str], None] | None = None
    """Who sends the terminal what hooks want it to be sent."""
    display: Callable[[str], None] | None = None
    """Who shows what hooks want shown in the place of what the model says, where somebody watches."""
    note: Callable[[str], None] = lambda _: None
    """Whom to tell what is not as one might expect."""
    warn: Callable[[str], None] = lambda text: print(f"hookline: {text}", file=sys.stderr)
    """Whom to tell what must not be missed."""


@contextlib.asynccontextmanager
async def opened(settings: Settings, extras: Extras) -> AsyncIterator[Agent]:
    """The agent: of the configuration, or the user's own when `agent` is `module:agent`."""
    with contextlib.ExitStack() as leaving:
        async with contextlib.AsyncExitStack() as stack:
            with theirs():
                agent = await _opened(settings, extras, stack)
            stack.callback(
                leaving.enter_context, theirs()
            )  # what it opened is closed by its own code
            warn_of_strangers(agent, settings, extras.warn, is_own=bool(settings.target))
            yield agent


async def _opened(settings: Settings, extras: Extras, stack: contextlib.AsyncExitStack) -> Agent:
    target = settings.target
    if target:
        from hookline.cli.target import opened_agent

        _check_target(target, settings)
        agent = await stack.enter_async_context(
            opened_agent(target, lambda builder: _equip(builder, settings, extras))
        )
        return await stack.enter_async_context(_with_extras(agent, extras))
    builder = AgentBuilder()
    _model(builder, settings, extras)
    await _configure(builder, settings, extras, stack)
    return await stack.enter_async_context(builder.build())


def _check_target(target: str, settings: Settings) -> None:
    """A module that a file names, and that is not there, is told with the file."""
    where = settings.where("agent" if settings.configuration.agent == target else "target")
    if where.startswith("--"):
        return
    from hookline.cli.target import find_target

    try:
        find_target(target)
    except UsageError as error:
        raise ConfigError(f"{where}: {error.message}", remedy=error.remedy) from error


# --- the user's own agent -----------------------------------------------------------------------------


def _equip(builder: AgentBuilder | None, settings: Settings, extras: Extras) -> None:
    """Give the user's own builder what the flags say. An agent that is built already takes none of it."""
    said = {
        path: origin
        for path, origin in settings.merged.origins.items()
        if origin.startswith("--") and path[0] not in ("agent", "journal")
    }
    if builder is None:
        for origin in said.values():
            raise UsageError(
                f"the agent is built already, so {origin} cannot change it.",
                remedy="Name its builder, or a function that gives one.",
            )
        return
    _refuse_changes(said)
    paths = {path[0] for path in said}
    if "model" in paths or extras.driver is not None:
        _model(builder, settings, extras)
    if "system_prompt" in paths:
        builder.with_system_prompt(settings.configuration.system_prompt)
    for capability in _named_by_flags(settings, said, extras):
        builder.with_capability(capability)
    for each in extras.capabilities:
        builder.with_capability(each)
    limits = {str(path[1]) for path in said if path[0] == "limits"}
    if limits:
        given = settings.configuration.limits
        builder.with_limits(**{name: getattr(given, name) for name in limits})
    if "approvals" in paths:
        builder.with_capability(_approval(settings, extras))


_HELD = frozenset(
    {"model", "model_options", "system_prompt", "capabilities", "limits", "approvals"}
)
"""What flags can say about a builder of the user's own."""


def _refuse_changes(said: Mapping[tuple[str | int, ...], str]) -> None:
    """A flag that would do nothing is an error: whoever gave it relies on it."""
    for path, origin in said.items():
        takes_out = origin in ("--without", "--place", "--sandbox")
        if path[0] not in _HELD or takes_out:
            raise UsageError(
                f"{origin} cannot change an agent of your own.",
                remedy="Say it in Python, where its capabilities are given.",
            )


def _named_by_flags(
    settings: Settings, said: Mapping[tuple[str | int, ...], str], extras: Extras
) -> list[Any]:
    """The capabilities that --capability adds."""
    names = {str(path[1]) for path, origin in said.items() if path[0] == "capabilities"}
    if not names:
        return []
    chosen = {
        name: options
        for name, options in settings.configuration.capabilities.items()
        if name in names
    }
    configuration = msgspec.structs.replace(settings.configuration, capabilities=chosen)
    limited = msgspec.structs.replace(settings, configuration=configuration)
    return list(capabilities_of(limited, extras.folder, []))


def _with_extras(agent: Agent, extras: Extras) -> Agent:
    """The agent with what the command adds. Hooks are added to one that was built already, too."""
    definition = agent.definition
    late = [
        msgspec.structs.replace(registration, source=each.name)
        for each in extras.capabilities
        if each.name not in definition.capabilities
        for registration in each.hooks()
    ]
    registrations = (*definition.registrations, *late)
    return Agent(
        msgspec.structs.replace(
            definition,
            driver=definition.driver if extras.driver is None else extras.driver,
            registrations=registrations,
            plans=Plans(registrations) if late else definition.plans,
            listeners=(*definition.listeners, *extras.listeners),
            journal=extras.journal if definition.journal is None else definition.journal,
        )
    )


# --- an agent of the configuration ---------------------------------------------------------------------


async def _configure(
    builder: AgentBuilder, settings: Settings, extras: Extras, stack: contextlib.AsyncExitStack
) -> None:
    configuration = settings.configuration
    if settings.agent:
        builder.with_id(settings.agent)
    if configuration.system_prompt:
        builder.with_system_prompt(configuration.system_prompt)
    limits = {
        name: getattr(configuration.limits, name) for name in configuration.limits.__struct_fields__
    }
    builder.with_limits(**limits)
    builder.with_error_policy(_errors(configuration))
    builder.with_approval_expiry(configuration.approvals.expire_after or None)
    skipped: list[str] = []
    commands = command_hooks(settings, extras.folder, extras.warn)
    for capability in capabilities_of(settings, extras.folder, skipped, commands):
        builder.with_capability(capability)
    for told in skipped:
        extras.note(told)
    approval = _approval(settings, extras)
    extras.found["approval"] = approval
    builder.with_capability(approval)
    if configuration.hooks:
        from hookline.cli.assembly.hooks import ConfiguredHooks

        builder.with_capability(ConfiguredHooks(settings, extras.folder))
    if commands is not None:
        commands.runner.terminal, commands.runner.display = extras.terminal, extras.display
        if commands.counts_objections:
            commands.cap_of_others = _OBJECTIONS
            builder.with_limits(objections=_MANY)
        builder.with_capability(commands)
        stack.push_async_callback(commands.aclose)
    servers = await _servers(settings, stack)
    if servers is not None:
        builder.with_capability(servers)
    for each in extras.capabilities:
        builder.with_capability(each)
    for listener in extras.listeners:
        builder.on_event(listener)
    if extras.journal is not None:
        builder.with_journal(extras.journal)


def _model(builder: AgentBuilder, settings: Settings, extras: Extras) -> None:
    configuration = settings.configuration
    if extras.driver is not None:
        builder.with_driver(extras.driver)
        return
    given = configuration.model_settings
    wire = {
        name: getattr(given, name)
        for name in given.__struct_fields__
        if getattr(given, name) is not None
    }
    model = configuration.model or ""
    try:
        if isinstance(model, str) and model.startswith(_SCRIPT):
            driver = ScriptedDriver.from_file(model.removeprefix(_SCRIPT))
            driver.turns = driver.turns[extras.played :]
            builder.with_driver(driver)
            return
        named = model if isinstance(model, str) else list(model)
        builder.with_model(named, options=configuration.model_options, **wire)
    except BuildError as error:
        where = settings.where("model")
        if where == "default":
            raise ConfigError(
                f"no model was named, and the local one is not here: {error.message}",
                remedy=f"{error.remedy} Or name another: hookline run --model anthropic:NAME.".strip(),
            ) from error
        kind = UsageError if where.startswith("--") else ConfigError
        raise kind(f"{where}: {error.message}", remedy=error.remedy) from error
    except AuthenticationError as error:
        raise ConfigError(
            error.message,
            remedy=error.remedy.replace(
                "give api_key=", "set model_settings.api_key in your own file"
            ),
        ) from error


def _errors(configuration: AgentSettings) -> ErrorPolicy:
    given = configuration.errors
    said = {name: getattr(given, name) for name in given.__struct_fields__}
    actions = dict(ErrorPolicy().actions)
    numbers: dict[str, Any] = {}
    for name, value in said.items():
        if value is None:
            continue
        if name in set(ErrorClass):
            actions[ErrorClass(name)] = value
        else:
            numbers[name] = int(value) if name in ("max_retries", "max_errors") else value
    return ErrorPolicy(actions=actions, **numbers)


def _approval(settings: Settings, extras: Extras) -> Any:
    from hookline.capabilities import Approval

    approvals = settings.configuration.approvals
    for kind in ("allow", "ask", "deny"):
        for position, rule in enumerate(getattr(approvals, kind)):
            _check_rule(rule, settings.where("approvals", kind, position))
    return Approval(
        allow=approvals.allow,
        ask=approvals.ask,
        deny=approvals.deny,
        mode=approvals.mode,
        root=extras.folder,
    )


def _check_rule(text: str, where: str) -> None:
    from hookline.permissions import Rule

    try:
        Rule.parse(text)
    except UsageError as error:
        raise ConfigError(f"{where}: {error.message}", remedy=error.remedy) from None


async def _servers(settings: Settings, stack: contextlib.AsyncExitStack) -> Any:
    enabled = {name: each for name, each in settings.configuration.mcp.items() if each.enabled}
    if not enabled:
        return None
    from hookline.mcp import McpServer, McpServers

    made = []
    for name, each in enabled.items():
        where = settings.where("mcp", name)
        common: dict[str, Any] = {
            "name": name,
            "resources": each.resources,
            "prompts": each.prompts,
        }
        for option in ("timeout", "connect_timeout"):
            if getattr(each, option) is not None:
                common[option] = getattr(each, option)
        try:
            if each.url is not None:
                headers = expanded(each.headers, where)
                made.append(McpServer.http(each.url, headers=headers, **common))
            else:
                assert each.command is not None
                cwd = settings.project if each.cwd is None else settings.project / each.cwd
                env = expanded(each.env, where)
                made.append(McpServer.stdio(each.command, each.args, env=env, cwd=cwd, **common))
        except ConfigError:
            raise
        except BuildError as error:
            raise ConfigError(f"{where}: {error.message}", remedy=error.remedy) from error
    pins = data_folder(os.environ) / "pins.json"
    pins.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return await stack.enter_async_context(McpServers(*made, pins=pins))


def expanded(values: Mapping[str, str], where: str) -> dict[str, str]:
    """Values in which `${NAME}` is taken from the environment. A variable that is not there is an error."""

    def variable(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise ConfigError(
                f"{where}: the variable {found[1]} is not set.", remedy=f"export {found[1]}=..."
            )
        return os.environ[found[1]]

    return {name: _VARIABLE.sub(variable, value) for name, value in values.items()}
