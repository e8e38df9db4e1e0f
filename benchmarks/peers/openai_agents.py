"""openai-agents: its Model interface; tool guardrails as the hooks, as a run takes only one RunHooks."""

import asyncio
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    Usage,
    function_tool,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from script import ARGUMENTS, FINAL, NAP_SECONDS, PROMPT, Run, Script, Workload


class FakeModel(Model):
    """Answers in the Responses format, as the interface asks."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.script: Any = None

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        if self.script.pause:
            await asyncio.sleep(0)
        ids = self.script.turn()
        output = [final_message()] if ids is None else [self.call(i) for i in ids]
        usage = Usage(requests=1, input_tokens=1, output_tokens=1, total_tokens=2)
        return ModelResponse(output=output, usage=usage, response_id=None)

    def call(self, call_id: str) -> Any:
        return ResponseFunctionToolCall(
            id=call_id, call_id=call_id, type="function_call", name=self.tool, arguments=ARGUMENTS
        )

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("the benchmark does not stream")


def final_message() -> Any:
    text = ResponseOutputText(text=FINAL, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="final", type="message", role="assistant", content=[text], status="completed"
    )


async def echo(text: str) -> str:
    """Give the text back."""
    return text


async def nap(text: str) -> str:
    """Wait, then give the text back."""
    await asyncio.sleep(NAP_SECONDS)
    return text


async def before(data: Any) -> Any:
    return ToolGuardrailFunctionOutput.allow()


async def after(data: Any) -> Any:
    return ToolGuardrailFunctionOutput.allow()


def build_tool(function: Any, hooks: int = 0) -> Any:
    tool = function_tool(function)
    tool.tool_input_guardrails = [ToolInputGuardrail(before)] * hooks
    tool.tool_output_guardrails = [ToolOutputGuardrail(after)] * hooks
    return tool


TOOLS = {"echo": build_tool(echo), "nap": build_tool(nap)}


def build(workload: Workload) -> Run:
    model = FakeModel(workload.tool)
    # Guardrails belong to the tool here, so an agent with hooks needs a tool of its own.
    tool = build_tool(echo, workload.hooks) if workload.hooks else TOOLS[workload.tool]
    agent = Agent(name="agent", model=model, tools=[tool])
    config = RunConfig(tracing_disabled=True)

    async def run(script: Script) -> object:
        model.script = script
        return await Runner.run(agent, PROMPT, max_turns=workload.max_steps + 1, run_config=config)

    return run
