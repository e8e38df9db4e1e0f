"""smolagents: a ToolCallingAgent without console output; step callbacks are the only hooks it has."""

import time
from typing import Any, ClassVar

from smolagents import ActionStep, LogLevel, Model, Tool, ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)
from smolagents.monitoring import TokenUsage

from script import ARGUMENTS, FINAL, NAP_SECONDS, PROMPT, Run, Script, Workload


class FakeModel(Model):
    """Answers at once; the run ends with its own final_answer tool, as a ToolCallingAgent's does."""

    script: Any = None
    tool: str = "echo"

    def generate(self, messages: Any, **kwargs: Any) -> ChatMessage:
        ids = self.script.turn()
        if ids is None:
            calls = [tool_call("final", "final_answer", f'{{"answer": "{FINAL}"}}')]
        else:
            calls = [tool_call(i, self.tool, ARGUMENTS) for i in ids]
        return ChatMessage(
            role=MessageRole.ASSISTANT, content=None, tool_calls=calls, token_usage=TokenUsage(1, 1)
        )


def tool_call(call_id: str, name: str, arguments: str) -> Any:
    function = ChatMessageToolCallFunction(name=name, arguments=arguments)
    return ChatMessageToolCall(id=call_id, type="function", function=function)


def echo(text: str) -> str:
    return text


def nap(text: str) -> str:
    time.sleep(NAP_SECONDS)
    return text


class EchoTool(Tool):
    name = "echo"
    description = "Give the text back."
    inputs: ClassVar[Any] = {"text": {"type": "string", "description": "The text."}}
    output_type = "string"

    def forward(self, text: str) -> str:
        return echo(text)


class NapTool(EchoTool):
    name = "nap"
    description = "Wait, then give the text back."

    def forward(self, text: str) -> str:
        return nap(text)


def after(step: Any, agent: Any) -> None:
    pass


def build(workload: Workload) -> Run:
    model = FakeModel()
    model.tool = workload.tool
    agent = ToolCallingAgent(
        tools=[NapTool() if workload.tool == "nap" else EchoTool()],
        model=model,
        max_steps=workload.max_steps + 1,
        step_callbacks={ActionStep: [after] * (2 * workload.hooks)},
        verbosity_level=LogLevel.OFF,
    )

    def run(script: Script) -> object:
        model.script = script
        return agent.run(PROMPT)

    return run
