"""Hookline as a candidate: a driver that answers at once, in-memory journal and default guards on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hookline import AgentBuilder, ToolCall, ToolHookContext, tool
from hookline.capabilities import OpenTelemetry
from hookline.drivers import InferenceRequest, InferenceResponse, Turn
from hookline.state import Usage
from script import ARGUMENTS, FINAL, NAP_SECONDS, PROMPT, Run, Script, Workload

# Beyond what any run here needs: the guards are asked each step, and let it go on.
PLENTY = 10**9
USAGE = Usage(input_tokens=1, output_tokens=1, requests=1)


class FakeDriver:
    """The model's side, from the script of the run it answers."""

    def __init__(self, tool_name: str) -> None:
        self.tool_name = tool_name
        self.script = Script(0, 0)

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """Answer at once, with arguments that are still JSON text."""
        script = self.script
        if script.pause:
            await asyncio.sleep(0)
        # Script.turn by hand, as in the bare loop: what the model's side takes is not what is measured.
        count = script.turns
        script.turns = count + 1
        if count == script.first or count == script.last:
            script.stamp()
            if count == script.last:
                return InferenceResponse(FINAL, (), USAGE)
        calls: tuple[ToolCall, ...]
        if script.calls == 1:
            calls = (ToolCall.from_json(f"call_{count}", self.tool_name, ARGUMENTS),)
        else:
            ids = [f"call_{count}_{n}" for n in range(script.calls)]
            calls = tuple([ToolCall.from_json(id, self.tool_name, ARGUMENTS) for id in ids])
        return InferenceResponse("", calls, USAGE)


@tool
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@tool
async def nap(text: str) -> str:
    """Wait, then give the text back."""
    await asyncio.sleep(NAP_SECONDS)
    return text


async def before(ctx: ToolHookContext) -> None:
    """Do nothing."""


async def after(ctx: ToolHookContext) -> None:
    """Do nothing."""


def before_sync(ctx: ToolHookContext) -> None:
    """Do nothing."""


def after_sync(ctx: ToolHookContext) -> None:
    """Do nothing."""


def drop_metadata(ctx: ToolHookContext) -> None:
    """Derive a state and forget it, as a hook that looks ahead does."""
    ctx.state.with_metadata("k", 1)


def drop_message(ctx: ToolHookContext) -> None:
    """Derive a longer conversation and forget it."""
    ctx.state.with_user_message("x")


def open_telemetry(is_sending: bool) -> OpenTelemetry:
    """Tracing, with an exporter that forgets what it gets, in its own thread, or with none."""
    if not is_sending:
        return OpenTelemetry()
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Forgetful(SpanExporter):
        """Nobody."""

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            """Forget them."""
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Forgetful()))
    return OpenTelemetry(tracer_provider=provider)


def build(workload: Workload) -> Run:
    """An agent with its hooks, its tool and raised limits."""
    driver = FakeDriver(workload.tool)
    builder = (
        AgentBuilder()
        .with_driver(driver)
        .with_tools(nap if workload.tool == "nap" else echo)
        .with_limits(steps=workload.max_steps, tokens=PLENTY, seconds=PLENTY)
    )
    pair = (before, after) if workload.kind == "async" else (before_sync, after_sync)
    for n in range(workload.hooks):
        builder.on_before_tool_use(pair[0], name=f"before-{n}")
        builder.on_after_tool_use(pair[1], name=f"after-{n}")
    if workload.derive:
        builder.on_before_tool_use(drop_metadata if workload.derive == "metadata" else drop_message)
    if workload.tracing:
        builder.with_capability(open_telemetry(is_sending=workload.tracing == "sending"))
    agent = builder.build()

    async def run(script: Script) -> object:
        driver.script = script
        return await agent.run(PROMPT)

    return run
