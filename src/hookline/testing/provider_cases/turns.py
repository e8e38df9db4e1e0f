"""What a model says and calls must arrive, and so must what it is told."""

from __future__ import annotations

import msgspec

from hookline.errors import MalformedResponseError
from hookline.journal import ResponseReceived
from hookline.providers import Feature
from hookline.state import (
    AgentState,
    AssistantMessage,
    Reasoning,
    ResultStatus,
    RunStatus,
    ToolMessage,
)
from hookline.testing.provider_cases.samples import (
    ANSWER,
    CALL,
    OTHER,
    PAPER,
    PICTURE,
    SCHEMA,
    THIRD,
    asks,
    calls_of,
    expect_told,
)
from hookline.testing.provider_stage import Inapplicable, Stage
from hookline.testing.wire import WireCall


async def text(stage: Stage) -> None:
    """The model answers, and was told what it should be told. In a stream the answer comes in pieces."""
    async with stage.agent(stage.turn(ANSWER)) as agent:
        seen = await stage.drive(agent, "What about the herons?")
        stage.expect("the run's status", RunStatus.COMPLETED, seen.result.status)
        stage.expect("the answer", ANSWER, seen.result.text)
        ends = [one.finish for one in seen.result.records if isinstance(one, ResponseReceived)]
        stage.expect("why the model stopped", [""], ends, "It is empty where the model was done.")
        stage.expect_in("the prompt in the request", "What about the herons?", stage.sent(0))
        stage.expect_in("the system prompt in the request", "Be of use.", stage.sent(0))
        if stage.offers_tools:
            for part in ("look_up", "Look something up.", "times"):
                stage.expect_in("the tool in the request", part, stage.sent(0))
        if stage.streamed:
            stage.expect("the text as it streamed", ANSWER, seen.text)
            stage.expect("whether it came in several pieces", True, seen.text_pieces > 1)


async def letters(stage: Stage) -> None:
    """Letters of every script arrive whole, both ways."""
    words = 'Grüße, 世界 🦦 and "quotes"\nand a \\ and a tab\t.'
    async with stage.agent(stage.turn(words)) as agent:
        seen = await stage.drive(agent, words)
        stage.expect("the answer", words, seen.result.text)
        stage.expect_in("the prompt in the request", "Grüße, 世界 🦦", stage.sent(0))
        if stage.streamed:
            stage.expect("the text as it streamed", words, seen.text)


async def reasoning(stage: Stage) -> None:
    """What the model thought is kept apart from what it said, and a second turn goes on from there."""
    turns = (stage.turn("", CALL, reasoning="Otters, I think."), stage.turn(ANSWER))
    async with stage.agent(*turns, needs=[Feature.REASONING]) as agent:
        seen = await stage.drive(agent)
        stage.expect("the answer", ANSWER, seen.result.text)
        kept = [
            part.text
            for message in seen.result.state.messages
            if isinstance(message, AssistantMessage)
            for part in message.reasoning
        ]
        stage.expect_in("the thinking that was kept", "Otters, I think.", " ".join(kept))
        if stage.streamed:
            stage.expect_in("the thinking as it streamed", "Otters, I think.", seen.reasoning)
            stage.expect("the text as it streamed", ANSWER, seen.text)


async def usage(stage: Stage) -> None:
    """Tokens and questions are counted, turn by turn."""
    turns = (
        stage.turn("", CALL, input_tokens=100, output_tokens=20),
        stage.turn(ANSWER, input_tokens=150, output_tokens=7),
    )
    async with stage.agent(*turns) as agent:
        used = (await stage.drive(agent)).result.usage
        stage.expect("input tokens", 250, used.input_tokens)
        stage.expect("output tokens", 27, used.output_tokens)
        stage.expect("model calls", 2, used.requests)
        known = used.cost is not None or used.unpriced_requests
        stage.expect(
            "whether the cost is known, or known to be unknown",
            True,
            bool(known),
            "Set cost=, or unpriced_requests=1 where the price is unknown.",
        )


async def one_call(stage: Stage) -> None:
    """The model calls a tool and reads its result."""
    async with stage.agent(stage.turn("", CALL), stage.turn(ANSWER)) as agent:
        seen = await stage.drive(agent)
        step = seen.result.steps[0]
        stage.expect("the calls", [("look_up", CALL.args)], calls_of(step))
        stage.expect("the results", ["found otters"], [one.result for one in step.results])
        stage.expect("the answer", ANSWER, seen.result.text)
        stage.expect_in("the result in the second request", "found otters", stage.sent(1))
        if stage.streamed:
            arguments = seen.arguments(step.calls[0].id)
            stage.expect("arguments as streamed", CALL.args, msgspec.json.decode(arguments))


async def parallel_calls(stage: Stage) -> None:
    """The model calls several tools in one turn, and reads all results."""
    needs = [Feature.PARALLEL_TOOLS] if stage.is_native else []
    called = (CALL, OTHER, THIRD)
    turns = (stage.turn("", *called), stage.turn(ANSWER))
    async with stage.agent(*turns, needs=needs) as agent:
        seen = await stage.drive(agent)
        step = seen.result.steps[0]
        stage.expect("the calls", [("look_up", one.args) for one in called], calls_of(step))
        stage.expect("distinct ids of the calls", 3, len({one.id for one in step.calls}))
        stage.expect("the answer", ANSWER, seen.result.text)
        sent = stage.sent(1)
        stage.expect_in("the results in the second request", "found badgersfound", sent)
        found = sorted(
            ("otters", "badgers", "hedgehogs"), key=lambda key: sent.find(f"found {key}")
        )
        stage.expect("the order of the results", ["otters", "badgers", "hedgehogs"], found)
        told = {sent.count(f'"{one.id}"') for one in step.calls}
        stage.expect("whether each result has the id of its call", 1, len(told))


async def failed_call(stage: Stage) -> None:
    """That a call failed is told apart from a result with the same words."""
    if stage.is_native and not stage.wire.marks_failed_calls:
        raise Inapplicable("its protocol has no mark for a call that failed")
    words = ""

    def look_up(key: str, times: int = 1) -> str:
        """Look something up."""
        if not words:
            raise ValueError(f"no {key}, not even {times}")
        return words

    sent = []
    for _ in range(2):
        turns = (stage.turn("", CALL), stage.turn(ANSWER))
        async with stage.agent(*turns, tools=(look_up,)) as agent:
            result = (await stage.drive(agent)).result
            stage.expect("the answer", ANSWER, result.text)
            [told] = [one.text for one in result.state.messages if isinstance(one, ToolMessage)]
            words = told
            sent.append(stage.sent(1))
    stage.expect("whether a failed call looks different", True, sent[0] != sent[1])


async def text_and_call(stage: Stage) -> None:
    """The model says something and calls a tool."""
    async with stage.agent(stage.turn("Let me see.", CALL), stage.turn(ANSWER)) as agent:
        seen = await stage.drive(agent)
        step = seen.result.steps[0]
        stage.expect("the calls", [("look_up", CALL.args)], calls_of(step))
        if step.text:  # some models cannot do both at once
            stage.expect("the text of the first step", "Let me see.", step.text)
        stage.expect("the answer", ANSWER, seen.result.text)
        if stage.streamed:
            stage.expect("the text as it streamed", step.text + ANSWER, seen.text)


async def invalid_arguments(stage: Stage) -> None:
    """Arguments that do not fit are the model's to mend."""
    wrong = WireCall("look_up", {"key": "otters", "times": "many"})
    async with stage.agent(stage.turn("", wrong), stage.turn(ANSWER)) as agent:
        result = (await stage.drive(agent)).result
        expect_told(stage, result, ResultStatus.INVALID, "times")


async def broken_arguments(stage: Stage) -> None:
    """Arguments that are no JSON at all do not end a run: the model is told, or the error has its class."""
    broken = WireCall("look_up", raw='{"key": "ott')
    async with stage.agent(stage.turn("", broken), stage.turn(ANSWER)) as agent:
        result = (await stage.drive(agent)).result
        if result.status is RunStatus.FAILED:
            stage.expect("the error", MalformedResponseError, type(result.error))
            return
        stage.expect("the answer", ANSWER, result.text)


async def unknown_tool(stage: Stage) -> None:
    """A tool that does not exist is an error the model reads."""
    turns = (stage.turn("", WireCall("lookup", {"key": "otters"})), stage.turn(ANSWER))
    async with stage.agent(*turns) as agent:
        result = (await stage.drive(agent)).result
        expect_told(stage, result, ResultStatus.INVALID, "there is no tool")


async def tool_choice(stage: Stage) -> None:
    """A tool can be demanded: of the first turn, and not of the one that answers."""
    needs = [Feature.TOOL_CHOICE] if stage.is_native else []
    sent = {}
    for choice in ("auto", "required", "look_up"):
        turns = (stage.turn("", CALL), stage.turn(ANSWER))
        async with stage.agent(*turns, needs=needs, tool_choice=choice) as agent:
            result = (await stage.drive(agent)).result
            stage.expect(f"the answer with tool_choice={choice!r}", ANSWER, result.text)
            sent[choice] = stage.sent(0)
    for choice in ("required", "look_up"):
        changed = sent[choice] != sent["auto"]
        stage.expect(f"whether {choice!r} changed the request", True, changed)


async def attachments(stage: Stage) -> None:
    """Images and documents arrive, as far as they are declared."""
    can = {Feature.IMAGES: PICTURE, Feature.DOCUMENTS: PAPER}
    async with stage.agent(stage.turn(ANSWER)) as agent:
        given = [one for feature, one in can.items() if feature in stage.features]
        if not given:
            raise Inapplicable("the provider declares neither images nor documents")
        seen = await stage.drive(agent, "What is this?", given)
        stage.expect("the answer", ANSWER, seen.result.text)
        for one in given:
            stage.expect_in(f"{one.name} in the request", one.data, stage.sent(0))


async def structured_output(stage: Stage) -> None:
    """A schema for the answer reaches the far end."""
    configure, needs = asks(output_schema=SCHEMA), [Feature.STRUCTURED_OUTPUT]
    turn = stage.turn('{"zebras": 3}')
    async with stage.agent(turn, configure=configure, needs=needs) as agent:
        seen = await stage.drive(agent)
        stage.expect("the answer", {"zebras": 3}, msgspec.json.decode(seen.result.text))
        stage.expect_in("the schema in the request", "zebras", stage.sent(0))


async def others_thoughts(stage: Stage) -> None:
    """What another provider's model thought is not sent to this one."""
    thought = Reasoning("private musings", "seal-of-another", "elsewhere")
    said = AssistantMessage("Hello!", (), (thought,))
    state = AgentState().with_user_message("Hello.")
    state = state.with_messages(state.messages.append(said))
    async with stage.agent(stage.turn(ANSWER)) as agent:
        result = await agent.run("And now?", state=state)
        stage.expect("the answer", ANSWER, result.text)
        stage.expect_in("the earlier answer in the request", "Hello!", stage.sent(0))
        for secret in (thought.text, thought.signature):
            stage.expect(f"whether {secret!r} was sent", False, secret in stage.sent(0))
