"""`hookline mcp-serve module:agent`: an agent as an MCP server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys

from hookline.cli.exits import Exit

DESCRIPTION = (
    "Offer an agent as an MCP server with one tool, `run`. Without --http it uses standard input and output, as "
    "programs expect that start it themselves."
)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    kinds = "an agent, a builder, a function that gives one, or an async context manager"
    add("agent", metavar="MODULE:AGENT", help=kinds)
    http = "listen there instead, for streamable HTTP; port 0 takes a free one"
    add("--http", metavar="HOST:PORT", type=_address, help=http)
    add("--name", help="the name of the server; the agent's id otherwise")
    add("--description", help="what the client's model reads about the agent")
    parser.set_defaults(serves=True)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the input ends, or until interrupted."""
    try:
        return asyncio.run(_serve(arguments))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return Exit.INTERRUPTED


async def _serve(arguments: argparse.Namespace) -> int:
    from hookline.cli.target import opened_agent
    from hookline.errors import HooklineError
    from hookline.mcp import serve_http, serve_stdio

    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(NotImplementedError):  # not on Windows
        # SIGTERM ends runs and closes what the agent has opened.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    says = {"name": arguments.name, "description": arguments.description}
    # The client reads standard output: prints of user code do not belong there.
    with contextlib.redirect_stdout(sys.stderr):
        async with opened_agent(arguments.agent) as agent:
            try:
                if arguments.http is None:
                    await serve_stdio(agent, **says)
                else:
                    await serve_http(agent, *arguments.http, **says, on_listening=_announce)
            except HooklineError as error:  # not wrong use: a port is taken, for example
                print(f"hookline: {error}", file=sys.stderr)
                return Exit.FAILED
    return Exit.DONE


def _announce(url: str) -> None:
    print(f"listening on {url}", file=sys.stderr, flush=True)
    host = url.partition("://")[2].rpartition(":")[0].strip("[]")
    if host not in _LOOPBACK:
        print("whoever reaches this address can use the agent", file=sys.stderr, flush=True)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8000")
    return host.strip("[]"), int(port)
