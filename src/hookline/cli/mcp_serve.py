"""`hookline mcp-serve module:agent`: an agent as an MCP server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from typing import Any

_INTERRUPTED = 130
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "mcp-serve",
        help="offer an agent as an MCP server",
        description="Offer an agent as an MCP server with one tool, `run`. Without --http it speaks over standard "
        "input and output, as programs expect that start it themselves.",
    )
    parser.add_argument(
        "agent",
        metavar="MODULE:AGENT",
        help="an agent, a builder, a function that gives one, or an async context manager",
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        type=_address,
        help="listen there instead, for streamable HTTP; port 0 takes a free one",
    )
    parser.add_argument("--name", help="what the server calls itself; the agent's id otherwise")
    parser.add_argument("--description", help="what the client's model is told the agent is for")
    parser.set_defaults(run=run, serves=True)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the input ends, or until interrupted."""
    from hookline.cli.exits import exit_for
    from hookline.errors import HooklineError

    try:
        return asyncio.run(_serve(arguments))
    except HooklineError as error:
        print(f"hookline: {error}", file=sys.stderr)
        return exit_for(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _INTERRUPTED


async def _serve(arguments: argparse.Namespace) -> int:
    from hookline.cli.exits import Exit
    from hookline.cli.target import opened_agent
    from hookline.errors import HooklineError
    from hookline.mcp import serve_http, serve_stdio

    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(NotImplementedError):  # not on Windows
        # Being told to end is a reason to take leave: of runs, and of what the agent has opened.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    says = {"name": arguments.name, "description": arguments.description}
    # What is printed while an agent is made is not for the client, who reads standard output.
    with contextlib.redirect_stdout(sys.stderr):
        async with opened_agent(arguments.agent) as agent:
            try:
                if arguments.http is None:
                    await serve_stdio(agent, **says)
                else:
                    await serve_http(agent, *arguments.http, **says, on_listening=_announce)
            except HooklineError as error:  # the command was used well: a port is taken, say
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
