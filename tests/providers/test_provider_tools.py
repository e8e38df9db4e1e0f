"""Tools that the provider runs itself: refused unless the agent allows them, visible to hooks, and recorded."""

from __future__ import annotations

from typing import Any

import pytest
from wires import anthropic, google, openai
from wires.server import Exchange, Server

from hookline import AgentBuilder, HookOutcome, RunStatus
from hookline.agent import RunResult
from hookline.capabilities import Redaction
from hookline.drivers import ToolCallingDriver
from hookline.errors import BuildError, HookError, ProviderToolError
from hookline.journal import MemoryJournal, ResponseReceived, decode, encode
from hookline.lifecycle import InferenceHookContext
from hookline.playback import replay
from hookline.state import AssistantMessage

pytestmark = pytest.mark.usefixtures("no_settings")
WIRES: dict[str, Any] = {"anthropic": anthropic, "google": google, "openai": openai}
EACH = pytest.mark.parametrize("name", WIRES)
HOW = pytest.mark.parametrize("streamed", [False, True], ids=["run", "stream"])
FOUND = "otters-hold-hands"
SAID = "Otters hold hands."

# --- one answer for each provider, in which it has run a tool -----------------------------------------

TOOLS = {"anthropic": "web_search", "google": "code_execution", "openai": "web_search"}
OPTIONS: dict[str, dict[str, Any]] = {
    "anthropic": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "google": {"tools": [{"code_execution": {}}]},
    "openai": {"web_search_options": {}},
}
USE = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": FOUND},
}
HIT = {"type": "web_search_result", "url": "https://a.example", "title": FOUND}
HITS = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [HIT]}
CODE = {"executableCode": {"language": "PYTHON", "code": f"print('{FOUND}')"}}
PRINTED = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": FOUND}}
CITED = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": FOUND}}


def blocks() -> list[dict[str, Any]]:
    """An answer of Anthropic."""
    return [USE, HITS, {"type": "text", "text": SAID}]


async def answer(name: str, exchange: Exchange) -> None:
    """The answer of a provider, whole or as a stream."""
    if name == "google":
        parts = [CODE, PRINTED, {"text": SAID}]
        counts = {"promptTokenCount": 30, "candidatesTokenCount": 3}
        body = google.chunk_body(parts, "STOP", usageMetadata=counts)
        if "streamGenerateContent" in exchange.request.path:
            await exchange.begin(200, google.STREAM)
            await exchange.send(google.event(body), size=0)
            return await exchange.end()
        return await exchange.reply(200, body)
    is_streamed = exchange.request.json().get("stream")
    if name == "anthropic":
        if not is_streamed:
            usage = {"input_tokens": 30, "output_tokens": 3}
            message = {"model": "m", "content": blocks(), "stop_reason": "end_turn", "usage": usage}
            return await exchange.reply(200, message)
        grown = [e for i, block in enumerate(blocks()) for e in anthropic.block_events(i, block)]
        begun = anthropic.start(input_tokens=30, output_tokens=1)
        events = [begun, *grown, *anthropic.ending("end_turn", output_tokens=3)]
        return await anthropic.streaming(*events)(exchange)
    message = {"role": "assistant", "content": SAID, "annotations": [CITED]}
    if not is_streamed:
        choice = {"message": message, "finish_reason": "stop"}
        return await exchange.reply(200, {"model": "m", "choices": [choice]})
    chunks = [openai.chunk(message, "m"), openai.chunk({}, "m", "stop")]
    return await openai.streaming(*chunks)(exchange)


async def asked(
    name: str,
    *allowed: str,
    streamed: bool = False,
    options: dict[str, Any] | None = None,
    builder: AgentBuilder | None = None,
    prompts: int = 1,
) -> tuple[RunResult, Server]:
    """The result of a run whose provider has run a tool, and the far end."""

    async def far_end(exchange: Exchange) -> None:
        await answer(name, exchange)

    async with WIRES[name].talking_to(far_end) as (provider, server):
        driver = ToolCallingDriver("m", provider=provider, options=options or {})
        agent = (builder or AgentBuilder()).with_driver(driver).with_provider_tools(*allowed)
        built = agent.build()
        result: RunResult | None = None
        for _ in range(prompts):
            state = None if result is None else result.state
            if streamed:
                stream = built.stream("Go.", state=state)
                async for _ in stream:
                    pass
                result = stream.result
            else:
                result = await built.run("Go.", state=state)
    assert result is not None
    return result, server


# --- refused unless they are allowed -------------------------------------------------------------------


@EACH
async def test_a_tool_in_the_options_is_refused_before_anything_is_sent(name: str) -> None:
    """The error names the tool and how to allow it."""
    result, server = await asked(name, options=OPTIONS[name])
    assert isinstance(result.error, ProviderToolError)
    assert (result.status, result.error.tool) == (RunStatus.FAILED, TOOLS[name])
    assert f'with_provider_tools("{TOOLS[name]}")' in str(result.error)
    assert server.requests == []


@HOW
@EACH
async def test_an_answer_with_a_tool_that_is_not_allowed_is_an_error(
    name: str, streamed: bool
) -> None:
    """Whoever switched it on: nothing of the answer is in the state or the records, and it is paid for."""
    result, _ = await asked(name, streamed=streamed)
    assert isinstance(result.error, ProviderToolError)
    assert result.error.tool == TOOLS[name]
    kept = result.state.to_json() + "".join(encode(each).decode() for each in result.records)
    assert FOUND not in kept
    assert SAID not in kept
    assert result.usage.input_tokens == (0 if name == "openai" else 30)


@EACH
async def test_a_policy_that_blocks_everything_is_not_passed_by(name: str) -> None:
    """Today's hole: a policy before tools never saw a tool that the provider runs."""
    guarded = AgentBuilder().on_before_tool_use(lambda ctx: HookOutcome.block("no"), tier="policy")
    result, _ = await asked(name, builder=guarded)
    assert isinstance(result.error, ProviderToolError)


@EACH
async def test_another_name_does_not_allow_it(name: str) -> None:
    """Each tool is allowed by itself, and the error shows the names that are, one of which may be misspelt."""
    result, _ = await asked(name, "web_fetch", "web_serch", options=OPTIONS[name])
    assert isinstance(result.error, ProviderToolError)
    assert "(it allows 'web_fetch', 'web_serch')" in str(result.error)


# --- allowed ones are visible and recorded -------------------------------------------------------------


@HOW
@EACH
async def test_an_allowed_tool_is_seen_by_hooks_and_recorded(name: str, streamed: bool) -> None:
    """before_inference sees what is allowed, after_inference what has run, and the journal keeps it."""
    seen: list[Any] = []
    builder = (
        AgentBuilder()
        .on_before_inference(lambda ctx: seen.append(ctx.request.provider_tools))
        .on_after_inference(lambda ctx: seen.append(ctx.response.provider_tool_uses))  # type: ignore[union-attr]
    )
    tool = TOOLS[name]
    result, _ = await asked(name, tool, streamed=streamed, options=OPTIONS[name], builder=builder)
    assert (result.status, result.text) == (RunStatus.COMPLETED, SAID)
    allowed, uses = seen
    assert allowed == (tool,)
    assert {(use.name, use.provider) for use in uses} == {(tool, name)}
    assert FOUND in str([use.data for use in uses])
    (record,) = (each for each in result.records if isinstance(each, ResponseReceived))
    assert record.provider_tool_uses == uses
    assert decode(encode(record)) == record
    message = result.state.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert message.provider_tool_uses == uses


@EACH
async def test_a_hook_after_the_inference_can_withhold_it(name: str) -> None:
    """The tool has run, and a block still keeps all that came of it out of the state."""

    def search(ctx: InferenceHookContext) -> HookOutcome | None:
        assert ctx.response is not None
        return HookOutcome.block("no tools") if ctx.response.provider_tool_uses else None

    builder = AgentBuilder().on_after_inference(search).with_limits(steps=1)
    result, _ = await asked(name, TOOLS[name], builder=builder)
    assert FOUND not in result.state.to_json()
    assert SAID not in result.state.to_json()


@EACH
async def test_a_hook_takes_the_permission_away_and_cannot_give_it(name: str) -> None:
    """Only the builder of the agent allows a tool; a hook before the inference may forbid it for a step."""
    narrow = AgentBuilder().on_before_inference(
        lambda ctx: ctx.with_request(ctx.request.with_provider_tools())
    )
    result, _ = await asked(name, TOOLS[name], builder=narrow)
    assert isinstance(result.error, ProviderToolError)
    widen = AgentBuilder().on_before_inference(
        lambda ctx: ctx.with_request(ctx.request.with_provider_tools(TOOLS[name]))
    )
    result, _ = await asked(name, builder=widen)
    assert isinstance(result.error, HookError)
    assert "with_provider_tools" in str(result.error)


def test_a_capability_cannot_allow_them() -> None:
    """The user of a capability decides."""

    class Search:
        name = "search"

        def configure(self, builder: AgentBuilder) -> None:
            builder.with_provider_tools("web_search")

    with pytest.raises(BuildError, match="cannot allow tools that the provider runs"):
        AgentBuilder().with_capability(Search())


@EACH
async def test_what_a_provider_needs_goes_back_with_the_conversation(name: str) -> None:
    """Calls and results are sent back as they came, where the protocol has a place for them."""
    result, server = await asked(name, TOOLS[name], prompts=2)
    assert result.status is RunStatus.COMPLETED
    body = server.requests[1].json()
    if name == "anthropic":
        assert body["messages"][1]["content"][:2] == [USE, HITS]
    elif name == "google":
        parts = body["contents"][1]["parts"]
        assert [set(part) for part in parts] == [
            {"executableCode"},
            {"codeExecutionResult"},
            {"text"},
        ]
        assert parts[1]["codeExecutionResult"]["output"] == FOUND
    else:
        assert FOUND not in str(body)


@EACH
async def test_replay_and_redaction_hold(name: str) -> None:
    """What the provider found is redacted like anything else, and the run replays."""
    journal = MemoryJournal()

    def made() -> AgentBuilder:
        return AgentBuilder().with_capability(Redaction(values=[FOUND])).with_journal(journal)

    result, _ = await asked(name, TOOLS[name], builder=made())
    assert FOUND not in result.state.to_json()
    run_id = result.run_id
    assert FOUND not in "".join(encode(each).decode() for each in await journal.read(run_id))
    agent = made().with_provider_tools(TOOLS[name]).build(model=None)
    assert "identical" in str(await replay(journal, run_id, agent))


# --- the parts of each protocol -------------------------------------------------------------------------


def used(kind: str, tool_id: str, **fields: Any) -> dict[str, Any]:
    """A block about a tool of the server."""
    return {"type": kind, "id": tool_id, "input": {}, **fields}


@pytest.mark.parametrize(
    ("block", "tool"),
    [
        (used("server_tool_use", "1", name="bash_code_execution"), "code_execution"),
        (used("server_tool_use", "1", name="text_editor_code_execution"), "code_execution"),
        (used("server_tool_use", "1", name="web_fetch"), "web_fetch"),
        (used("mcp_tool_use", "1", name="echo", server_name="far"), "mcp:far"),
        ({"type": "bash_code_execution_tool_result", "tool_use_id": "1"}, "code_execution"),
        ({"type": "web_fetch_tool_result", "tool_use_id": "1"}, "web_fetch"),
        ({"type": "container_upload", "file_id": "f"}, "code_execution"),
        ({"type": "new_tool_result", "tool_use_id": "1"}, "new"),
    ],
)
async def test_blocks_of_anthropic(block: dict[str, Any], tool: str) -> None:
    """One name allows a tool, whatever its calls and results are called, and unknown ones are refused too."""

    async def far_end(exchange: Exchange) -> None:
        content = [block, {"type": "text", "text": SAID}]
        body = {"model": "m", "content": content, "stop_reason": "end_turn", "usage": {}}
        await exchange.reply(200, body)

    async with anthropic.talking_to(far_end) as (provider, _):
        agent = AgentBuilder().with_driver(ToolCallingDriver("m", provider=provider))
        refused = await agent.build().run("Go.")
        assert isinstance(refused.error, ProviderToolError)
        assert refused.error.tool == tool
        assert (await agent.with_provider_tools(tool).build().run("Go.")).text == SAID


@pytest.mark.parametrize(
    ("options", "tool"),
    [
        ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "far"}]}, "mcp:far"),
        ({"mcp_servers": [{"type": "url", "url": "https://x.example", "name": "far"}]}, "mcp:far"),
        (
            {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
            "code_execution",
        ),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, ""),
        ({"tools": [{"name": "add", "input_schema": {"type": "object"}}]}, ""),
    ],
)
async def test_options_of_anthropic(options: dict[str, Any], tool: str) -> None:
    """Tools whose calls come to us need no permission; those that the API runs, or connects to, do."""
    allowed = ("web_search",)
    result, _ = await asked("anthropic", *allowed, options=options)
    if tool:
        assert isinstance(result.error, ProviderToolError)
        assert result.error.tool == tool
    else:
        assert result.text == SAID


def grounded(**fields: Any) -> dict[str, Any]:
    """An answer of Gemini with something beside its parts."""
    body = google.chunk_body([{"text": SAID}], "STOP")
    body["candidates"][0].update(fields)
    return body


WEB = {"webSearchQueries": ["otters"], "groundingChunks": [{"web": {"uri": "https://a.example"}}]}
MAPS = {"groundingChunks": [{"maps": {"uri": "https://maps.example", "title": "Oslo"}}]}
READ = {"urlMetadata": [{"retrievedUrl": "https://a.example"}]}


@pytest.mark.parametrize(
    ("body", "tool"),
    [
        (grounded(groundingMetadata=WEB), "google_search"),
        (grounded(groundingMetadata=MAPS), "google_maps"),
        (grounded(urlContextMetadata=READ), "url_context"),
        (
            google.chunk_body(
                [{"toolCall": {"id": "1", "toolType": "GOOGLE_SEARCH_WEB"}}, {"text": SAID}], "STOP"
            ),
            "google_search",
        ),
        (grounded(groundingMetadata={}), ""),
        (grounded(groundingMetadata={"groundingChunks": []}), ""),
    ],
)
async def test_answers_of_gemini(body: dict[str, Any], tool: str) -> None:
    """A search is known by its metadata; empty metadata says that there was none."""
    async with google.talking_to(google.answering(body, body)) as (provider, _):
        agent = AgentBuilder().with_driver(ToolCallingDriver("m", provider=provider))
        first = await agent.build().run("Go.")
        if not tool:
            assert first.text == SAID
            return
        assert isinstance(first.error, ProviderToolError)
        assert first.error.tool == tool
        allowed = await agent.with_provider_tools(tool).build().run("Go.")
    assert allowed.text == SAID


async def test_a_picture_that_code_has_drawn_is_on_record() -> None:
    """Of its content only the size: it is no part of a message."""
    drawn = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    body = google.chunk_body([CODE, PRINTED, drawn, {"text": SAID}], "STOP")
    async with google.talking_to(google.answering(body)) as (provider, _):
        driver = ToolCallingDriver("m", provider=provider)
        agent = AgentBuilder().with_driver(driver).with_provider_tools("code_execution").build()
        result = await agent.run("Go.")
    message = result.state.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert message.provider_tool_uses[-1].data == {
        "inline_data": {"mime_type": "image/png", "size": 8}
    }


async def test_tools_that_a_gateway_has_run() -> None:
    """Servers that speak OpenAI's protocol say so in a field of their own."""
    ran = {"index": 0, "type": "python", "arguments": "{}", "output": FOUND}
    message = {"role": "assistant", "content": SAID, "executed_tools": [ran]}

    async def far_end(exchange: Exchange) -> None:
        choice = {"message": message, "finish_reason": "stop"}
        await exchange.reply(200, {"model": "m", "choices": [choice]})

    async with openai.talking_to(far_end) as (provider, _):
        agent = AgentBuilder().with_driver(ToolCallingDriver("m", provider=provider))
        refused = await agent.build().run("Go.")
        assert isinstance(refused.error, ProviderToolError)
        assert refused.error.tool == "python"
        allowed = await agent.with_provider_tools("python").build().run("Go.")
    assert allowed.text == SAID


async def test_a_broken_call_beside_a_tool_of_the_server_is_read_by_the_model() -> None:
    """Only blocks about tools of the server are put together at the end: arguments of a call may be no JSON."""
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    broken = {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"a": '},
    }
    opened = {"type": "content_block_start", "index": 2, "content_block": call}
    grown = [e for i, block in enumerate((USE, HITS)) for e in anthropic.block_events(i, block)]
    events = [anthropic.start(), *grown, opened, broken, *anthropic.ending("tool_use")]
    async with anthropic.talking_to(anthropic.streaming(*events)) as (provider, _):
        driver = ToolCallingDriver("m", provider=provider)
        agent = AgentBuilder().with_driver(driver).with_provider_tools("web_search")
        stream = agent.with_limits(steps=1).build().stream("Go.")
        async for _ in stream:
            pass
    assert stream.result.steps[0].calls[0].malformed == '{"a": '
