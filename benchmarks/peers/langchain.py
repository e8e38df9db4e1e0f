"""langchain: `create_agent` over a model of its base class, `wrap_tool_call` middleware as the hooks."""

import asyncio
import json
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from script import ARGUMENTS, FINAL, NAP_SECONDS, PROMPT, Run, Script, Workload

USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


class FakeModel(BaseChatModel):
    """Its providers decode the arguments before they build a message, so this one does too."""

    script: Any = None
    tool: str = "echo"

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        raise NotImplementedError("the benchmark runs agents with ainvoke")

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if self.script.pause:
            await asyncio.sleep(0)
        ids = self.script.turn()
        if ids is None:
            message = AIMessage(content=FINAL, usage_metadata=USAGE)
        else:
            calls = [ToolCall(name=self.tool, args=json.loads(ARGUMENTS), id=i) for i in ids]
            message = AIMessage(content="", tool_calls=calls, usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@tool
async def nap(text: str) -> str:
    """Wait, then give the text back."""
    await asyncio.sleep(NAP_SECONDS)
    return text


# There is one shape for both sides: middleware that does nothing before, or nothing after, the rest of the chain.
async def before(request: Any, handler: Any) -> Any:
    return await handler(request)


async def after(request: Any, handler: Any) -> Any:
    return await handler(request)


def build(workload: Workload) -> Run:
    model = FakeModel(tool=workload.tool)
    hooks = [
        wrap_tool_call(name=f"{hook.__name__}_{n}")(hook)  # two middlewares of one name are refused
        for n in range(workload.hooks)
        for hook in (before, after)
    ]
    agent = create_agent(model, tools=[nap if workload.tool == "nap" else echo], middleware=hooks)
    config = {"recursion_limit": 3 * workload.max_steps + 10}

    async def run(script: Script) -> object:
        model.script = script
        return await agent.ainvoke({"messages": [{"role": "user", "content": PROMPT}]}, config)

    return run
