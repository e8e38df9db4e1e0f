"""google-adk: an LlmAgent in an in-memory runner, tool callbacks as the hooks."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai import types

from script import ARGUMENTS, FINAL, NAP_SECONDS, PROMPT, Run, Script, Workload

USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=1)


class FakeModel(BaseLlm):
    """Its providers hand the arguments over decoded, so this one decodes them too."""

    script: Any = None
    tool: str = "echo"

    async def generate_content_async(
        self, llm_request: Any, stream: Any = False
    ) -> AsyncIterator[LlmResponse]:
        if self.script.pause:
            await asyncio.sleep(0)
        ids = self.script.turn()
        parts = [types.Part(text=FINAL)] if ids is None else [self.call(i) for i in ids]
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=USAGE)

    def call(self, call_id: str) -> Any:
        call = types.FunctionCall(id=call_id, name=self.tool, args=json.loads(ARGUMENTS))
        return types.Part(function_call=call)


async def echo(text: str) -> str:
    """Give the text back."""
    return text


async def nap(text: str) -> str:
    """Wait, then give the text back."""
    await asyncio.sleep(NAP_SECONDS)
    return text


TOOLS = {"echo": FunctionTool(echo), "nap": FunctionTool(nap)}


async def before(tool: Any, args: Any, tool_context: Any) -> None:
    pass


async def after(tool: Any, args: Any, tool_context: Any, tool_response: Any) -> None:
    pass


def build(workload: Workload) -> Run:
    model = FakeModel(model="fake", tool=workload.tool)
    agent = LlmAgent(
        name="agent",
        model=model,
        tools=[TOOLS[workload.tool]],
        before_tool_callback=[before] * workload.hooks,
        after_tool_callback=[after] * workload.hooks,
    )
    runner = InMemoryRunner(agent, app_name="benchmark")
    message = types.Content(role="user", parts=[types.Part(text=PROMPT)])
    config = RunConfig(max_llm_calls=workload.max_steps + 1)

    async def run(script: Script) -> object:
        model.script = script
        sessions = runner.session_service
        session = await sessions.create_session(app_name="benchmark", user_id="user")
        events = runner.run_async(
            user_id="user", session_id=session.id, new_message=message, run_config=config
        )
        result = [event async for event in events]
        # The service keeps every session it made; a run here is a conversation of its own.
        await sessions.delete_session(app_name="benchmark", user_id="user", session_id=session.id)
        return result

    return run
