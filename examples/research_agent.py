"""Research with the tools of an MCP server, on a budget.

Run it with `MODEL=anthropic:NAME python examples/research_agent.py "What is new in Python 3.15?"`. It needs
`hookline[mcp]`, the extra of the model's provider, and the program `uvx`, which fetches the server.
"""

import asyncio
import os
import sys
from urllib.parse import urlsplit

from hookline import AgentBuilder, HookOutcome, RunResult, ToolHookContext
from hookline.capabilities import ToolAllowList
from hookline.mcp import McpServer, McpServers

# Exactly one version: an update of the server is a change of what the agent can do.
FETCH = McpServer.stdio("uvx", ["mcp-server-fetch==2025.4.7"], name="fetch")
HOSTS = {"docs.python.org", "peps.python.org"}


def only_known_hosts(ctx: ToolHookContext) -> HookOutcome | None:
    # A page may tell the model to fetch an address that carries what it knows to somebody else. The whole part
    # between `//` and `/` is compared, so that no user name, port or trick with either gets through.
    address = urlsplit(str(ctx.tool_call.args.get("url", "")))
    if address.scheme == "https" and address.netloc in HOSTS:
        return None
    return HookOutcome.block(f"only https pages of {', '.join(sorted(HOSTS))} are read")


def describe(servers: McpServers) -> AgentBuilder:
    return (
        AgentBuilder()
        .with_system_prompt("Read pages, then answer in a few sentences and name your sources.")
        .with_capability(servers)
        # Fixed before anything was read: a page cannot talk the model into another tool, also not into one that the
        # server offers tomorrow.
        .with_capability(ToolAllowList(["mcp__fetch__fetch"]))
        .on_before_tool_use(only_known_hosts, matcher="mcp__fetch__*", tier="policy")
        # The budget. Whichever is reached first ends the run. It is checked before the next call, not after it.
        .with_limits(steps=20, tokens=200_000, tool_calls=15, seconds=300, cost=0.50)
    )


async def research(question: str, model: str) -> RunResult:
    async with McpServers(FETCH) as servers, describe(servers).with_model(model).build() as agent:
        return await agent.run(question)


if __name__ == "__main__":
    done = asyncio.run(research(sys.argv[1], os.environ["MODEL"]))
    print(done.text)
    # A run that reached a limit is no failure: it says so, and what it has found is in done.state.
    print(done.explain(), done.usage, file=sys.stderr, sep="\n")
