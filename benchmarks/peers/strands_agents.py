"""strands-agents: a streaming model as its providers are written, typed hook callbacks."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, tool
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.models import Model
from strands.telemetry.metrics import EventLoopMetrics

from script import ARGUMENTS, FINAL, NAP_SECONDS, PROMPT, Run, Script, Workload

USAGE = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}


class FakeModel(Model):
    """Streams each answer as the events a provider would send."""

    script: Any = None
    tool: str = "echo"

    def update_config(self, **config: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {"model_id": "fake"}

    def structured_output(
        self, output_model: Any, prompt: Any, system_prompt: Any = None, **kwargs: Any
    ) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **kwargs: Any
    ) -> AsyncIterator[dict[str, Any]]:
        if self.script.pause:
            await asyncio.sleep(0)
        ids = self.script.turn()
        yield {"messageStart": {"role": "assistant"}}
        if ids is None:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": FINAL}}}
            yield {"contentBlockStop": {}}
        for call_id in ids or ():
            yield {
                "contentBlockStart": {
                    "start": {"toolUse": {"toolUseId": call_id, "name": self.tool}}
                }
            }
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": ARGUMENTS}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if ids is None else "tool_use"}}
        yield {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 0}}}


@tool
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@tool
async def nap(text: str) -> str:
    """Wait, then give the text back."""
    await asyncio.sleep(NAP_SECONDS)
    return text


async def before(event: BeforeToolCallEvent) -> None:
    pass


async def after(event: AfterToolCallEvent) -> None:
    pass


def build(workload: Workload) -> Run:
    model = FakeModel()
    model.tool = workload.tool
    agent = Agent(
        model=model,
        tools=[nap if workload.tool == "nap" else echo],
        hooks=[before, after] * workload.hooks,
        callback_handler=None,
    )

    async def run(script: Script) -> object:
        # An agent is one conversation and keeps its metrics for good: each run starts where a new agent would.
        model.script, agent.messages, agent.event_loop_metrics = script, [], EventLoopMetrics()
        return await agent.invoke_async(PROMPT)

    return run
