from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hookline import AgentBuilder, RunStatus, tool
from hookline.drivers import Driver, ToolCallingDriver
from hookline.errors import BuildError, ModelError, UnsupportedError
from hookline.providers import Feature
from hookline.state import (
    AssistantMessage,
    Attachment,
    InferenceRequest,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hookline.testing import ScriptedProvider, WireCall, WireTurn

SPEC = ToolSpec("add", "Add.", {"type": "object", "properties": {}})
PROMPT = (UserMessage("go"),)


def driver(*turns: WireTurn, **options: Any) -> tuple[ToolCallingDriver, ScriptedProvider]:
    """A driver, and the provider it asks."""
    provider = ScriptedProvider(turns, features=options.pop("features", frozenset(Feature)))
    return ToolCallingDriver("m", provider=provider, **options), provider


# --- which model ----------------------------------------------------------------------------------------


async def test_the_provider_is_asked_for_the_model_by_its_bare_name(turn: Any) -> None:
    """The name in front of the colon is ours."""
    for name in ("m", "scripted:m"):
        provider = ScriptedProvider([WireTurn("hi")])
        made = ToolCallingDriver(name, provider=provider)
        response = await made.infer(InferenceRequest(PROMPT), turn)
        assert made.model == response.model == "scripted:m"
        assert provider.requests[0].model == "m"
        assert isinstance(made, Driver)


@pytest.mark.parametrize(
    ("named", "asked"),
    [("other", "other"), ("scripted:other", "other"), ("llama3:8b", "llama3:8b"), ("", "m")],
)
async def test_a_hook_names_another_model_for_one_step(named: str, asked: str) -> None:
    """A colon that belongs to the model's name stays in it."""
    made, provider = driver(WireTurn("hi"), WireTurn("again"))
    agent = (
        AgentBuilder()
        .with_driver(made)
        .on_before_inference(
            lambda ctx: (
                ctx.with_request(ctx.request.with_model(named)) if not ctx.state.steps else None
            )
        )
        .build()
    )
    first = await agent.run("go")
    await agent.run("more", state=first.state)
    assert [request.model for request in provider.requests] == [asked, "m"]


async def test_a_hook_may_name_a_model_of_another_provider(
    turn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That provider is made once, and closed with the driver."""
    made, provider = driver(WireTurn("mine"))
    others: list[ScriptedProvider] = []

    def make(name: str, **settings: Any) -> ScriptedProvider:
        others.append(ScriptedProvider([WireTurn("theirs"), WireTurn("again")], name=name))
        return others[-1]

    monkeypatch.setattr("hookline.drivers.model.make_provider", make)
    request = InferenceRequest(PROMPT)
    theirs = await made.infer(request.with_model("openai:gpt"), turn)
    again = await made.infer(request.with_model("openai:gpt-2"), turn)
    mine = await made.infer(request, turn)
    assert [theirs.text, again.text, mine.text] == ["theirs", "again", "mine"]
    assert [theirs.model, again.model, mine.model] == ["openai:gpt", "openai:gpt-2", "scripted:m"]
    assert len(others) == 1
    await made.aclose()
    assert others[0].is_closed
    assert provider.is_closed


async def test_an_agent_closes_its_driver() -> None:
    """`async with agent` gives back connections and memory."""
    made, provider = driver(WireTurn("hi"))
    async with AgentBuilder().with_driver(made).build() as agent:
        assert (await agent.run("go")).text == "hi"
        assert not provider.is_closed
    assert provider.is_closed


def test_what_is_no_provider_is_refused() -> None:
    """At once, and with what to use instead."""
    for wrong in (object(), ScriptedProvider):
        with pytest.raises(BuildError, match="is not a provider"):
            ToolCallingDriver("m", provider=wrong)  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="the model's name is text"):
        ToolCallingDriver(None)  # type: ignore[arg-type]


# --- what it asks for -----------------------------------------------------------------------------------


async def test_options_go_with_every_request(turn: Any) -> None:
    """A request's own options win."""
    made, provider = driver(
        WireTurn("a"), WireTurn("b"), options={"temperature": 0, "max_tokens": 9}
    )
    await made.infer(InferenceRequest(PROMPT), turn)
    await made.infer(InferenceRequest(PROMPT).with_options(temperature=1), turn)
    assert [request.options for request in provider.requests] == [
        {"temperature": 0, "max_tokens": 9},
        {"temperature": 1, "max_tokens": 9},
    ]


async def test_a_required_tool_is_required_until_a_tool_was_used(turn: Any) -> None:
    """A note from a hook is not a new prompt; a new prompt is."""
    made, provider = driver(*[WireTurn("a")] * 4, tool_choice="required")
    call = (
        *PROMPT,
        AssistantMessage("", (ToolCall("1", "add"),)),
        ToolMessage("1", "add", "5"),
    )
    for messages in (
        PROMPT,
        call,
        (*call, UserMessage("hurry", by="a hook")),
        (*call, UserMessage("and now?")),
    ):
        await made.infer(InferenceRequest(messages, tools=(SPEC,)), turn)
    choices = [request.tool_choice for request in provider.requests]
    assert choices == ["required", "auto", "auto", "required"]


async def test_a_request_has_its_own_tool_choice(turn: Any) -> None:
    """A hook knows better than the driver."""
    made, provider = driver(WireTurn("a"), tool_choice="required")
    request = InferenceRequest(PROMPT, tools=(SPEC,), tool_choice="none")
    await made.infer(request, turn)
    assert provider.requests[0].tool_choice == "none"


@pytest.mark.parametrize("choice", ["sub", "required"])
async def test_a_tool_that_is_not_offered_cannot_be_required(turn: Any, choice: str) -> None:
    """The error says which there are."""
    made, provider = driver(WireTurn("a"))
    tools = (SPEC,) if choice == "sub" else ()
    with pytest.raises(ModelError, match=r"Offered: (add|none)"):
        await made.infer(InferenceRequest(PROMPT, tools=tools, tool_choice=choice), turn)
    assert provider.requests == []


PICTURE = UserMessage("look", "", (Attachment("image/png", "aGk="),))
PAPER = UserMessage("read", "", (Attachment("application/pdf", url="https://example.org/a.pdf"),))


@pytest.mark.parametrize(
    ("feature", "changes"),
    [
        (Feature.TOOLS, {"tools": (SPEC,)}),
        (Feature.TOOL_CHOICE, {"tools": (SPEC,), "tool_choice": "add"}),
        (Feature.STRUCTURED_OUTPUT, {"output_schema": {"type": "object"}}),
        (Feature.IMAGES, {"messages": (PICTURE,)}),
        (Feature.DOCUMENTS, {"messages": (*PROMPT, PAPER)}),
    ],
)
async def test_what_a_provider_does_not_declare_is_refused(
    turn: Any, feature: Feature, changes: dict[str, Any]
) -> None:
    """Before anything is sent, in one line that names feature, provider, model and what to do."""
    made, provider = driver(WireTurn("a"), features=frozenset(Feature) - {feature})
    request = msgspec.structs.replace(InferenceRequest(PROMPT), **changes)
    with pytest.raises(UnsupportedError) as caught:
        await made.infer(request, turn)
    message = str(caught.value)
    for part in (feature.value, "'scripted'", "'m'"):
        assert part in message
    assert caught.value.remedy
    assert "\n" not in message
    assert provider.requests == []


async def test_a_call_that_is_no_json_is_answered_by_the_loop() -> None:
    """The model reads what it wrote, and continues."""

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    made, provider = driver(
        WireTurn(calls=(WireCall("add", raw='{"a": 1,'), WireCall("add", {"a": 1, "b": 2}))),
        WireTurn("3"),
    )
    result = await AgentBuilder().with_driver(made).with_tools(add).build().run("go")
    assert (result.text, result.status) == ("3", RunStatus.COMPLETED)
    assert [each.status.value for each in result.steps[0].results] == ["invalid", "ok"]
    assert "its arguments are not a JSON object" in str(provider.requests[1])
