"""`hookline mcp-serve module:agent`: an agent as an MCP server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys

from hookline.cli.exits import Exit
from hookline.cli.target import open_target
from hookline.cli.terminal import print_note, report
from hookline.errors import HooklineError
from hookline.mcp import serve_http, serve_stdio

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the input ends, or until interrupted."""
    try:
        return asyncio.run(_serve(arguments))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return Exit.INTERRUPTED


async def _serve(arguments: argparse.Namespace) -> int:
    task = asyncio.current_task()
    assert task is not None
    # SIGTERM ends runs and closes what the agent has opened.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    says = {"name": arguments.name, "description": arguments.description}
    # The client reads standard output: prints of user code do not belong there.
    with contextlib.redirect_stdout(sys.stderr):
        async with open_target(arguments.agent) as agent:
            try:
                if arguments.http is None:
                    await serve_stdio(agent, **says)
                else:
                    await serve_http(agent, *arguments.http, **says, on_listening=_announce)
            except HooklineError as error:  # not wrong use: a port is taken, for example
                report(str(error))
                return Exit.FAILED
    return Exit.DONE


def _announce(url: str) -> None:
    print_note(f"listening on {url}")
    host = url.partition("://")[2].rpartition(":")[0].strip("[]")
    if host not in _LOOPBACK:
        print_note("everyone who reaches this address can use the agent")
