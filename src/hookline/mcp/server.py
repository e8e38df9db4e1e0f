"""The description of an MCP server: how to reach it, how to treat it, and what its tools are called here."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

import msgspec

from hookline.command_hooks.handler import Handler, HookSource, Level
from hookline.errors import BuildError
from hookline.option_checks import check_positive

DEFAULT_TIMEOUT = 60.0
DEFAULT_CONNECT_TIMEOUT = 30.0

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,32}")
_HIDDEN = "[hidden]"
_SHORTEST_SECRET = 6
"""Shorter values are not hidden: words would become unreadable."""


class ServerCommand(msgspec.Struct, frozen=True):
    """A program that is started, and spoken to over its standard input and output."""

    program: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    files: tuple[str, ...] = ()
    """Files and directories that it loads besides its script: they must not change during a run."""
    search: Mapping[str, str] = {}
    """Variables by which it finds programs and modules. They are no secrets, and `env` counts before them."""
    pinned: tuple[Handler, Path] | None = None
    """A hook with the same command and the hashes of what it is bound to, and the project that these are of."""

    def as_hook(self, level: Level = Level.CODE) -> Handler:
        """A hook with the same command: it is in the same danger, so the same rules say what it loads."""
        source, cwd = HookSource("hookline", level), self.directory if self.cwd else ""
        return Handler(source, "", argv=self.words, env=self.env, cwd=cwd)

    def with_search(self, level: Level = Level.CODE, project: Path | None = None) -> ServerCommand:
        """The command with the variables by which it finds programs and modules: those of hooks.

        They are made once: a server may be started again after a command has changed what would be found.
        """
        from hookline.command_hooks.trusted_files import search_variables  # takes a while to load

        path = {"PATH": os.environ["PATH"]} if "PATH" in os.environ else {}
        search = search_variables(self.as_hook(level), path, project or Path.cwd())
        return msgspec.structs.replace(self, search=search)

    def pin_files(self, level: Level, project: Path) -> ServerCommand:
        """The command that does not start if what it is bound to has changed since now."""
        from hookline.command_hooks.trusted_files import pin_files  # takes a while to load

        pinned = pin_files(self.as_hook(level), project, self.files)
        return msgspec.structs.replace(self, pinned=(pinned, project))

    def find_change(self) -> str:
        """What it is bound to and has changed since it was pinned, in words; empty if nothing has."""
        if self.pinned is None:
            return ""
        from hookline.command_hooks.trusted_files import describe_change  # takes a while to load

        return describe_change(*self.pinned)

    @property
    def directory(self) -> str:
        """The directory that it starts in."""
        return os.path.realpath(self.cwd or os.curdir)

    def __repr__(self) -> str:
        return f"ServerCommand({self.program!r}, {list(self.args)!r}, env={list(self.env)})"

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command."""
        return (self.program, *self.args)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be repeated in errors and logs."""
        return tuple(self.env.values())


class Endpoint(msgspec.Struct, frozen=True):
    """An address that speaks streamable HTTP."""

    url: str
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Endpoint({self.shown_address!r}, headers={list(self.headers)})"

    @property
    def words(self) -> tuple[str, ...]:
        """The address, without keys."""
        return (self.shown_address,)

    @property
    def shown_address(self) -> str:
        """The address without user, password and query, which may be keys."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be repeated in errors and logs."""
        parts = urlsplit(self.url)
        values = [value.rpartition("=")[2] for value in parts.query.split("&")]
        # "Bearer KEY" is hidden as a whole and as the key alone.
        words = [word for value in self.headers.values() for word in (value, *value.split())]
        return (*words, *values, parts.password or "")


class ServerOptions(TypedDict, total=False):
    """The options that all kinds of servers take: the fields of `McpServer`."""

    name: str | None
    """By default after the program or the host: `mcp-server-time` is `time`."""
    timeout: float | None
    connect_timeout: float
    roots: Iterable[str | os.PathLike[str]]
    resources: bool
    prompts: bool


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """The description of an MCP server. Made by `McpServer.stdio(...)` or `McpServer.http(...)`, for `McpServers`."""

    name: str
    """Its tools are called `mcp__NAME__tool`."""
    target: ServerCommand | Endpoint
    timeout: float | None = DEFAULT_TIMEOUT
    """Seconds one call may take; None is no limit."""
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
    """Seconds it may take to start and to greet us, and again to list its tools."""
    roots: tuple[str, ...] = ()
    """Directories that the server is given to work in."""
    resources: bool = False
    """Whether its resources can be listed and read, as tools."""
    prompts: bool = False
    """Whether its prompts can be listed and read, as tools."""

    @staticmethod
    def stdio(
        command: str | os.PathLike[str],
        args: Iterable[str | os.PathLike[str]] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        files: Iterable[str | os.PathLike[str]] = (),
        **options: Unpack[ServerOptions],
    ) -> McpServer:
        """A server that is a program of this machine.

        It gets `env` and the few variables every program needs (PATH, HOME), not the whole environment. `files` are
        files and directories that it loads besides its script; agents with this server cannot change them.
        """
        program = os.fspath(command)
        if isinstance(args, str):
            raise BuildError(
                f"args={args!r} is one text.",
                remedy=f"Give the arguments as a list: {args.split()!r}.",
            )
        target = ServerCommand(
            program=program,
            args=tuple(os.fspath(arg) for arg in args),
            env=dict(env or {}),
            cwd=None if cwd is None else os.fspath(cwd),
            files=tuple(os.path.abspath(each) for each in files),
        )
        return _server(target.with_search(), Path(program).stem, options)

    @staticmethod
    def http(
        url: str, *, headers: Mapping[str, str] | None = None, **options: Unpack[ServerOptions]
    ) -> McpServer:
        """A server at an address, which speaks streamable HTTP. Keys go into `headers`."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BuildError(
                f"{Endpoint(url).shown_address!r} is not the address of an MCP server.",
                remedy="Give all of it, as in McpServer.http('https://example.com/mcp').",
            )
        return _server(Endpoint(url, dict(headers or {})), parts.hostname, options)

    @property
    def who(self) -> str:
        """What messages call it."""
        return f"MCP server '{self.name}'"

    def hide(self, text: str) -> str:
        """A text from the server, or about it, without the keys that it was given."""
        for secret in sorted(self.target.secrets, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, _HIDDEN)
        return text


def _server(target: ServerCommand | Endpoint, thing: str, options: ServerOptions) -> McpServer:
    """The server, checked; without a name it is called after a program or a host."""
    name = options.pop("name", None)
    roots = options.pop("roots", ())
    if isinstance(roots, str):
        raise BuildError(
            f"roots={roots!r} is one text.", remedy=f"Give the directories as a list: [{roots!r}]."
        )
    if name is None:
        short = re.sub(r"^(mcp[-_.]?)?(server[-_.])?|[-_.]?(mcp|server)$", "", thing) or thing
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", short)[:32]
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise BuildError(
            f"an MCP server cannot be called {name!r}: its name becomes part of the names of its tools.",
            remedy="Give it one of up to 32 letters, digits, '_' or '-', as in name='files'.",
        )
    absolute = tuple(str(Path(root).absolute()) for root in roots)
    rest: Any = options  # an unknown option is a TypeError here
    server = McpServer(name=name, target=target, roots=absolute, **rest)
    if server.timeout is not None:
        for_ever = "Use timeout=None for calls that may take for ever."
        check_positive(server.who, "timeout", server.timeout, remedy=for_ever)
    check_positive(server.who, "connect_timeout", server.connect_timeout)
    return server


# --- names of tools ----------------------------------------------------------------------------


_LONGEST_TOOL_NAME = 64
_DIGEST = 8


def tool_name(server: str, tool: str) -> str:
    """`mcp__server__tool`, in letters every model can write; one that is too long is cut, and ends with a digest."""
    name = f"mcp__{server}__{re.sub(r'[^a-zA-Z0-9_-]', '_', tool)}"
    return name if len(name) <= _LONGEST_TOOL_NAME else distinct_name(server, tool)


def distinct_name(server: str, tool: str) -> str:
    """A name no other tool has: for one whose letters are those of another's name once they are written here."""
    name = f"mcp__{server}__{re.sub(r'[^a-zA-Z0-9_-]', '_', tool)}"
    digest = hashlib.sha256(f"{server}/{tool}".encode()).hexdigest()[:_DIGEST]
    return f"{name[: _LONGEST_TOOL_NAME - _DIGEST - 1]}_{digest}"


def tool_names(server: str, tools: Collection[str]) -> dict[str, str]:
    """The names of all tools of a server, by its own; the same in whatever order it lists them."""
    names = {tool: tool_name(server, tool) for tool in tools}
    uses = Counter(names.values())
    return {
        tool: name
        if uses[name] == 1 or name == f"mcp__{server}__{tool}"
        else distinct_name(server, tool)
        for tool, name in names.items()
    }
