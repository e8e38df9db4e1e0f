"""pydantic-ai: its own FunctionModel, hooks registered on a `Hooks` capability."""

import asyncio
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.capabilities import Hooks
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from script import ARGUMENTS, FINAL, NAP_SECONDS, PROMPT, Run, Script, Workload


async def echo(text: str) -> str:
    """Give the text back."""
    return text


async def nap(text: str) -> str:
    """Wait, then give the text back."""
    await asyncio.sleep(NAP_SECONDS)
    return text


TOOLS = {"echo": Tool(echo), "nap": Tool(nap)}


async def before(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
    return args


async def after(ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
    return result


class Model:
    """The function behind a FunctionModel, with the script of the run it answers."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.script: Any = None

    async def answer(self, messages: Any, info: Any) -> ModelResponse:
        if self.script.pause:
            await asyncio.sleep(0)
        ids = self.script.turn()
        parts = [TextPart(FINAL)] if ids is None else [self.call(i) for i in ids]
        return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=1, output_tokens=1))

    def call(self, call_id: str) -> Any:
        return ToolCallPart(self.tool, ARGUMENTS, tool_call_id=call_id)


def build(workload: Workload) -> Run:
    model = Model(workload.tool)
    hooks = Hooks()
    for _ in range(workload.hooks):
        hooks.on.before_tool_execute(before)
        hooks.on.after_tool_execute(after)
    agent = Agent(
        FunctionModel(model.answer),
        tools=[TOOLS[workload.tool]],
        capabilities=[hooks] if workload.hooks else [],
    )
    limits = UsageLimits(request_limit=workload.max_steps + 1)

    async def run(script: Script) -> object:
        model.script = script
        return await agent.run(PROMPT, usage_limits=limits)

    return run
