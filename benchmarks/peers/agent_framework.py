"""Microsoft agent-framework: a chat client of all its layers, function middleware as the hooks."""

import asyncio
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    function_middleware,
    tool,
)
from agent_framework.observability import ChatTelemetryLayer

from script import ARGUMENTS, FINAL, NAP_SECONDS, PROMPT, Run, Script, Workload

USAGE = {"input_token_count": 1, "output_token_count": 1, "total_token_count": 2}


class Client(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):
    """The layers in the order in which the vendors' clients stack them."""

    script: Any = None
    tool: str = "echo"

    async def _inner_get_response(
        self, *, messages: Any, stream: Any, options: Any, **kwargs: Any
    ) -> ChatResponse:
        script = self.script
        if script.pause:
            await asyncio.sleep(0)
        ids = script.turn()
        if ids is None:
            contents = [Content.from_text(FINAL)]
        else:
            contents = [
                Content.from_function_call(call_id=i, name=self.tool, arguments=ARGUMENTS)
                for i in ids
            ]
        return ChatResponse(
            messages=[Message(role="assistant", contents=contents)], usage_details=USAGE
        )


@tool(approval_mode="never_require")
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@tool(approval_mode="never_require")
async def nap(text: str) -> str:
    """Wait, then give the text back."""
    await asyncio.sleep(NAP_SECONDS)
    return text


# There is one shape for both sides: middleware that does nothing before, or nothing after, the rest of the chain.
@function_middleware
async def before(context: Any, call_next: Any) -> Any:
    await call_next()


@function_middleware
async def after(context: Any, call_next: Any) -> Any:
    await call_next()


def build(workload: Workload) -> Run:
    client = Client(function_invocation_configuration={"max_iterations": workload.max_steps + 1})
    client.tool = workload.tool
    hooks = [before, after] * workload.hooks
    agent = Agent(client=client, tools=[nap if workload.tool == "nap" else echo], middleware=hooks)

    async def run(script: Script) -> object:
        client.script = script
        return await agent.run(PROMPT)

    return run
