"""The agent that the settings describe, open for as long as it is used."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from hookline.agent import Agent, AgentBuilder
from hookline.cli.assembly.capabilities import make_capabilities
from hookline.cli.assembly.command_hooks import VARIABLE, command_hooks
from hookline.cli.assembly.verification import locate_errors
from hookline.cli.standard_streams import user_code
from hookline.cli.terminal import report
from hookline.command_hooks import CommandHooks, Level
from hookline.config import Settings
from hookline.config.layers import is_of_project, setting_error
from hookline.config.schema import AgentSettings
from hookline.definition.definition import Plans
from hookline.drivers import ScriptedDriver
from hookline.errors import AuthenticationError, BuildError, ConfigError, UsageError
from hookline.flow import ErrorClass, ErrorPolicy
from hookline.journal import JournalStore, Listener
from hookline.own_directories import data_directory

if TYPE_CHECKING:
    from hookline.mcp import McpServer
    from hookline.mcp.server import ServerCommand

_SCRIPT = "script:"
_OBJECTIONS = 8
"""How often hooks may object to the end of a run: the default everywhere."""
_MANY = 10_000
"""The same, if hooks of other agents have caps of their own. Other hooks keep the default."""
_CHANGEABLE = ("model", "model_options", "system_prompt", "capabilities", "limits", "approvals")
"""What flags can change in a builder of the user."""


class AgentAdditions(msgspec.Struct, frozen=True, kw_only=True):
    """What a command adds to the agent that the settings describe."""

    journal: JournalStore | None = None
    listeners: tuple[Listener, ...] = ()
    capabilities: tuple[Any, ...] = ()
    played: int = 0
    """How many turns of a script were used before the run was interrupted or paused."""
    folder: Path = msgspec.field(default_factory=Path.cwd)
    commands: CommandHooks | None = None
    """The hooks that are programs, if the command has found them already, and has reported what is not trusted."""
    is_lenient: bool = False
    """Wrong names of tools, and hooks that are off, are not reported: the command lists them itself."""
    found: dict[str, Any] = {}
    """Receives capabilities that the command needs later."""
    driver: Any = None
    """A driver instead of the model, if no model is needed."""
    terminal: Callable[[str], None] | None = None
    """Sends control sequences of hooks to the terminal."""
    display: Callable[[str], None] | None = None
    """Shows text of hooks instead of the model's, if somebody watches."""
    note: Callable[[str], None] = lambda _: None
    """Reports what may be unexpected."""
    warn: Callable[[str], None] = report
    """Reports what must not be missed."""
    while_opening: Callable[[], contextlib.AbstractContextManager[Any]] = user_code
    """Entered while the agent is made and its servers are connected: user code runs, and it may take long."""


def without_model(*capabilities: Any, **more: Any) -> AgentAdditions:
    """The additions of a command that asks no model."""
    return AgentAdditions(driver=ScriptedDriver([]), capabilities=capabilities, **more)


@contextlib.asynccontextmanager
async def open_agent(settings: Settings, additions: AgentAdditions) -> AsyncIterator[Agent]:
    """The agent of the configuration, or the user's own if `agent` is `module:agent`."""
    with contextlib.ExitStack() as leaving:
        async with contextlib.AsyncExitStack() as stack:
            with additions.while_opening():
                agent = await _open(settings, additions, stack)
            stack.callback(leaving.enter_context, user_code())  # closing runs user code, too
            _check_tool_names(agent, settings, additions)
            yield agent


def _check_tool_names(agent: Agent, settings: Settings, additions: AgentAdditions) -> None:
    """Refuse or report rules and hooks that are about no tool of the agent."""
    if additions.is_lenient:
        return
    configuration = settings.configuration
    approvals = configuration.approvals
    has_match = any(hook.match is not None for hook in configuration.hooks)
    if approvals.deny or approvals.ask or approvals.allow or has_match or settings.target:
        from hookline.cli.assembly.tool_names import check_tool_names

        check_tool_names(agent.definition, settings, additions.warn)
    commands: CommandHooks | None = additions.found.get("commands")
    for note in commands.never_asked(agent.definition) if commands is not None else ():
        additions.warn(f"{note.text} {note.remedy}")


async def _open(
    settings: Settings, additions: AgentAdditions, stack: contextlib.AsyncExitStack
) -> Agent:
    target = settings.target
    if target:
        from hookline.cli.target import find_target, open_target

        where = settings.where("agent" if settings.configuration.agent == target else "target")
        if not where.startswith("--"):  # a mistake in a file is reported with the file
            with locate_errors(where):
                find_target(target)
        own = open_target(target, lambda builder: _equip(builder, settings, additions))
        agent = await stack.enter_async_context(own)
    else:
        builder = AgentBuilder()
        _add_model(builder, settings, additions)
        await _configure(builder, settings, additions, stack)
        agent = builder.build()
    return await stack.enter_async_context(_with_additions(agent, additions))


def _with_additions(agent: Agent, additions: AgentAdditions) -> Agent:
    """The agent with what the command adds: hooks, listeners, the journal. The agent may be the user's own."""
    definition = agent.definition
    registrations = (
        *definition.registrations,
        *(
            msgspec.structs.replace(registration, source=each.name)
            for each in additions.capabilities
            for registration in each.hooks()
        ),
    )
    definition = msgspec.structs.replace(
        definition,
        driver=definition.driver if additions.driver is None else additions.driver,
        registrations=registrations,
        plans=Plans(registrations),
        listeners=(*definition.listeners, *additions.listeners),
        journal=additions.journal if definition.journal is None else definition.journal,
    )
    for protect in definition.protectors:  # they have not seen the journal yet
        protect(definition)
    return Agent(definition)


# --- the user's own agent -----------------------------------------------------------------------------


def _equip(builder: AgentBuilder | None, settings: Settings, additions: AgentAdditions) -> None:
    """Apply the flags to the user's builder. An agent that is built already cannot be changed."""
    flags = {
        path: origin
        for path, origin in settings.merged.origins.items()
        if origin.startswith("--") and path[0] not in ("agent", "journal")
    }
    for path, origin in flags.items():
        if builder is None:
            raise UsageError(
                f"the agent is built already, so {origin} cannot change it.",
                remedy="Name its builder, or a function that returns one.",
            )
        if path[0] not in _CHANGEABLE or origin in ("--without", "--place", "--sandbox"):
            raise UsageError(
                f"{origin} cannot change an agent of your own.",
                remedy="Set it in Python, where its capabilities are given.",
            )
    if builder is None:
        return
    configuration = settings.configuration
    names = {path[0] for path in flags}
    if "model" in names or additions.driver is not None:
        _add_model(builder, settings, additions)
    if "system_prompt" in names:
        builder.with_system_prompt(configuration.system_prompt)
    if "capabilities" in names:
        added = {str(path[1]) for path in flags if path[0] == "capabilities"}
        tables = {name: each for name, each in configuration.capabilities.items() if name in added}
        limited = msgspec.structs.replace(
            settings, configuration=msgspec.structs.replace(configuration, capabilities=tables)
        )
        for capability in make_capabilities(limited, additions.folder, []):
            builder.with_capability(capability)
    limits = {str(path[1]) for path in flags if path[0] == "limits"}
    if limits:
        builder.with_limits(**{name: getattr(configuration.limits, name) for name in limits})
    if "approvals" in names:
        builder.with_capability(_approval(settings, additions))


# --- an agent of the configuration --------------------------------------------------------------------


async def _configure(
    builder: AgentBuilder,
    settings: Settings,
    additions: AgentAdditions,
    stack: contextlib.AsyncExitStack,
) -> None:
    configuration = settings.configuration
    if settings.agent:
        builder.with_id(settings.agent)
    if configuration.provider_tools:
        builder.with_provider_tools(*configuration.provider_tools)
    if configuration.system_prompt:
        builder.with_system_prompt(configuration.system_prompt)
    if configuration.version:
        builder.with_version(configuration.version)
    builder.with_limits(**msgspec.structs.asdict(configuration.limits))
    builder.with_error_policy(_error_policy(configuration))
    builder.with_approval_expiry(configuration.approvals.expire_after or None)
    skipped: list[str] = []
    commands = additions.commands or command_hooks(settings, additions.folder)
    if commands is not None and not additions.is_lenient:
        reported = additions.commands.untrusted.warnings if additions.commands else ()
        for warning in commands.warnings:
            if warning not in reported:
                additions.warn(warning)
    for capability in make_capabilities(settings, additions.folder, skipped, commands):
        builder.with_capability(capability)
    for text in skipped:
        additions.note(text)
    approval = _approval(settings, additions)
    additions.found["approval"] = approval
    builder.with_capability(approval)
    if configuration.hooks:
        from hookline.cli.assembly.hooks import ConfiguredHooks

        builder.with_capability(ConfiguredHooks(settings, additions.folder))
    if commands is not None:
        additions.found["commands"] = commands
        commands.runner.terminal, commands.runner.display = additions.terminal, additions.display
        if commands.has_own_caps:
            commands.cap_of_others = _OBJECTIONS
            builder.with_limits(objections=_MANY)
        builder.with_capability(commands)
        stack.push_async_callback(commands.aclose)
    if any(each.enabled for each in configuration.mcp.values()):
        builder.with_capability(await _open_servers(settings, stack))


def _add_model(builder: AgentBuilder, settings: Settings, additions: AgentAdditions) -> None:
    configuration = settings.configuration
    if additions.driver is not None:
        builder.with_driver(additions.driver)
        return
    wire = msgspec.structs.asdict(configuration.model_settings)
    given = {name: value for name, value in wire.items() if value is not None}
    model = configuration.model or ""
    try:
        if isinstance(model, str) and model.startswith(_SCRIPT):
            driver = ScriptedDriver.from_file(model.removeprefix(_SCRIPT))
            driver.turns = driver.turns[additions.played :]
            builder.with_driver(driver)
            return
        named = model if isinstance(model, str) else list(model)
        builder.with_model(named, options=configuration.model_options, **given)
    except BuildError as error:
        where = settings.where("model")
        if where == "default":
            raise ConfigError(
                f"no model was named, and the local one is not here: {error.message}",
                remedy=f"{error.remedy} Or name another: hookline run --model anthropic:NAME.".strip(),
            ) from error
        raise setting_error(where, error.message, error.remedy) from error
    except AuthenticationError as error:
        in_file = "set model_settings.api_key in your own file"
        remedy = error.remedy.replace("give api_key=", in_file)
        raise ConfigError(error.message, remedy=remedy) from error


def _error_policy(configuration: AgentSettings) -> ErrorPolicy:
    actions = dict(ErrorPolicy().actions)
    numbers: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(configuration.errors).items():
        if value is None:
            continue
        if name in set(ErrorClass):
            actions[ErrorClass(name)] = value
        else:
            numbers[name] = int(value) if name in ("max_retries", "max_errors") else value
    return ErrorPolicy(actions=actions, **numbers)


def _approval(settings: Settings, additions: AgentAdditions) -> Any:
    from hookline.capabilities import Approval

    approvals = settings.configuration.approvals
    return Approval(
        allow=approvals.allow,
        ask=approvals.ask,
        deny=approvals.deny,
        mode=approvals.mode,
        root=additions.folder,
    )


async def _open_servers(settings: Settings, stack: contextlib.AsyncExitStack) -> Any:
    from hookline.mcp import McpServer, McpServers

    servers = []
    for name, each in settings.configuration.mcp.items():
        if not each.enabled:
            continue
        common: dict[str, Any] = {
            "name": name,
            "resources": each.resources,
            "prompts": each.prompts,
        }
        for option in ("timeout", "connect_timeout"):
            if getattr(each, option) is not None:
                common[option] = getattr(each, option)
        where = settings.where("mcp", name)
        with locate_errors(where):
            if each.url is not None:
                headers = _expand(each.headers, where)
                servers.append(McpServer.http(each.url, headers=headers, **common))
            else:
                cwd = settings.project if each.cwd is None else settings.project / each.cwd
                env, program = _expand(each.env, where), each.command or ""
                files = [settings.project / name for name in each.files]
                made = McpServer.stdio(program, each.args, env=env, cwd=cwd, files=files, **common)
                servers.append(_with_trusted_files(made, settings))
    pins = data_directory(os.environ) / "pins.json"
    pins.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return await stack.enter_async_context(McpServers(*servers, pins=pins))


def _with_trusted_files(server: McpServer, settings: Settings) -> McpServer:
    """A server that finds programs and modules as hooks do, and starts only while its files are what they are now."""
    command, name, project = cast("ServerCommand", server.target), server.name, settings.project
    origins = (settings.where("mcp", name, key) for key in ("command", "args"))
    level = Level.PROJECT if any(is_of_project(each, project) for each in origins) else Level.USER
    command = command.with_search(level, project).pin_files(level, project)
    return msgspec.structs.replace(server, target=command)


def _expand(values: Mapping[str, str], where: str) -> dict[str, str]:
    """Replace `${NAME}` by the variable of the environment. A missing variable is an error."""

    def variable(found: Any) -> str:
        if found[1] not in os.environ:
            raise ConfigError(
                f"{where}: the variable {found[1]} is not set.", remedy=f"export {found[1]}=..."
            )
        return os.environ[found[1]]

    return {name: VARIABLE.sub(variable, value) for name, value in values.items()}
