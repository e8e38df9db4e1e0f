"""A conformance suite for providers: does a provider do what drivers rely on, with each driver, run and streamed?

report = await check_provider(MyWire)
assert report.ok, report
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from functools import partial
from typing import Any, TypeAlias

import msgspec

from hookline.agent import AgentBuilder, RunResult
from hookline.errors import MalformedResponseError, ModelNotFoundError, UnsupportedError, UsageError
from hookline.flow import ErrorPolicy
from hookline.hooks import HookOutcome
from hookline.journal import ResponseReceived
from hookline.lifecycle import InferenceHookContext
from hookline.providers import Feature
from hookline.state import (
    AgentState,
    AssistantMessage,
    Attachment,
    Decision,
    Reasoning,
    ResultStatus,
    RunStatus,
    Step,
    StopReason,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hookline.testing.provider_setup import DRIVERS, CaseSetup
from hookline.testing.report import Deviation, Inapplicable, Mismatch, SuiteReport
from hookline.testing.report import run_cases as _run_cases  # a case is what has no underscore
from hookline.testing.secrets import Scrubber
from hookline.testing.wire import ERRORS, Failure, Wire, WireCall

# --- what the cases share -------------------------------------------------------------------------


ANSWER = "Here it is, and this is all there is to it."
CALL = WireCall("look_up", {"key": "otters", "times": 1})
OTHER = WireCall("look_up", {"key": "badgers", "times": 2})
THIRD = WireCall("look_up", {"key": "hedgehogs", "times": 1})
PICTURE = Attachment.from_bytes(b"\x89PNG\r\n\x1a\n-only-a-test-", "image/png", "picture.png")
PAPER = Attachment.from_bytes(b"%PDF-1.4 only a test", "application/pdf", "paper.pdf")
SPEC = ToolSpec("look_up", "Look something up.", {"type": "object", "properties": {}})
SCHEMA = {
    "type": "object",
    "properties": {"zebras": {"type": "integer"}},
    "required": ["zebras"],
    "additionalProperties": False,
}


def asks(**changes: Any) -> Callable[[AgentBuilder], object]:
    """Configures an agent so that its requests ask for something more."""

    def change(ctx: InferenceHookContext) -> InferenceHookContext:
        return ctx.with_request(msgspec.structs.replace(ctx.request, **changes))

    return lambda builder: builder.on_before_inference(change)


def retries(builder: AgentBuilder) -> object:
    """Configures an agent that tries again, as agents do by default."""
    return builder.with_error_policy(ErrorPolicy())


def calls_of(step: Step) -> list[tuple[str, dict[str, Any]]]:
    """What was called in a step."""
    return [(call.name, call.args) for call in step.calls]


def expect_reported(setup: CaseSetup, result: RunResult, status: ResultStatus, why: str) -> None:
    """The first call had this outcome, the model read why, and it answered all the same."""
    came_to = [one.status for one in result.steps[0].results]
    setup.expect("what came of the call", [status], came_to)
    setup.expect_in("the reason in the second request", why, setup.request_text(1))
    setup.expect("the answer", ANSWER, result.text)


# --- what a model says and calls arrives, and so does what it is sent -----------------------------


async def text(setup: CaseSetup) -> None:
    """The model answers, and received what it should. In a stream the answer comes in pieces."""
    seen = await setup.play(setup.turn(ANSWER), prompt="What about the herons?")
    setup.expect("the run's status", RunStatus.COMPLETED, seen.result.status)
    setup.expect("the answer", ANSWER, seen.result.text)
    ends = [one.finish for one in seen.result.records if isinstance(one, ResponseReceived)]
    setup.expect("why the model stopped", [""], ends, "It is empty where the model was done.")
    setup.expect_in("the prompt in the request", "What about the herons?", setup.request_text(0))
    setup.expect_in("the system prompt in the request", "Be of use.", setup.request_text(0))
    if setup.offers_tools:
        for part in ("look_up", "Look something up.", "times"):
            setup.expect_in("the tool in the request", part, setup.request_text(0))
    if setup.streamed:
        setup.expect("the text as it streamed", ANSWER, seen.text)
        setup.expect("whether it came in several pieces", True, seen.text_pieces > 1)


async def letters(setup: CaseSetup) -> None:
    """Letters of every script arrive whole, both ways."""
    words = 'Grüße, 世界 🦦 and "quotes"\nand a \\ and a tab\t.'
    seen = await setup.play(setup.turn(words), prompt=words)
    setup.expect("the answer", words, seen.result.text)
    setup.expect_in("the prompt in the request", "Grüße, 世界 🦦", setup.request_text(0))
    if setup.streamed:
        setup.expect("the text as it streamed", words, seen.text)


async def reasoning(setup: CaseSetup) -> None:
    """What the model thought is kept apart from what it said, and a second turn continues from there."""
    turns = (setup.turn("", CALL, reasoning="Otters, I think."), setup.turn(ANSWER))
    seen = await setup.play(*turns, needs=[Feature.REASONING])
    setup.expect("the answer", ANSWER, seen.result.text)
    kept = [
        part.text
        for message in seen.result.state.messages
        if isinstance(message, AssistantMessage)
        for part in message.reasoning
    ]
    setup.expect_in("the thinking that was kept", "Otters, I think.", " ".join(kept))
    if setup.streamed:
        setup.expect_in("the thinking as it streamed", "Otters, I think.", seen.reasoning)
        setup.expect("the text as it streamed", ANSWER, seen.text)


async def usage(setup: CaseSetup) -> None:
    """Tokens and questions are counted, turn by turn."""
    turns = (
        setup.turn("", CALL, input_tokens=100, output_tokens=20),
        setup.turn(ANSWER, input_tokens=150, output_tokens=7),
    )
    used = (await setup.play(*turns)).result.usage
    setup.expect("input tokens", 250, used.input_tokens)
    setup.expect("output tokens", 27, used.output_tokens)
    setup.expect("model calls", 2, used.requests)
    known = used.cost is not None or used.unpriced_requests
    setup.expect(
        "whether the cost is known, or known to be unknown",
        True,
        bool(known),
        "Set cost=, or unpriced_requests=1 where the price is unknown.",
    )


async def one_call(setup: CaseSetup) -> None:
    """The model calls a tool and reads its result."""
    seen = await setup.play(setup.turn("", CALL), setup.turn(ANSWER))
    step = seen.result.steps[0]
    setup.expect("the calls", [("look_up", CALL.args)], calls_of(step))
    setup.expect("the results", ["found otters"], [one.result for one in step.results])
    setup.expect("the answer", ANSWER, seen.result.text)
    setup.expect_in("the result in the second request", "found otters", setup.request_text(1))
    if setup.streamed:
        arguments = seen.arguments(step.calls[0].id)
        setup.expect("arguments as streamed", CALL.args, msgspec.json.decode(arguments))


async def parallel_calls(setup: CaseSetup) -> None:
    """The model calls several tools in one turn, and reads all results."""
    needs = [Feature.PARALLEL_TOOLS] if setup.is_native else []
    called = (CALL, OTHER, THIRD)
    turns = (setup.turn("", *called), setup.turn(ANSWER))
    seen = await setup.play(*turns, needs=needs)
    step = seen.result.steps[0]
    setup.expect("the calls", [("look_up", one.args) for one in called], calls_of(step))
    setup.expect("distinct ids of the calls", 3, len({one.id for one in step.calls}))
    setup.expect("the answer", ANSWER, seen.result.text)
    sent = setup.request_text(1)
    setup.expect_in("the results in the second request", "found badgersfound", sent)
    found = sorted(("otters", "badgers", "hedgehogs"), key=lambda key: sent.find(f"found {key}"))
    setup.expect("the order of the results", ["otters", "badgers", "hedgehogs"], found)
    counts = {sent.count(f'"{one.id}"') for one in step.calls}
    setup.expect("whether each result has the id of its call", 1, len(counts))


async def failed_call(setup: CaseSetup) -> None:
    """A failed call differs from a result with the same words."""
    if setup.is_native and not setup.wire.marks_failed_calls:
        raise Inapplicable("its protocol has no mark for a call that failed")
    words = ""

    def look_up(key: str, times: int = 1) -> str:
        """Look something up."""
        if not words:
            raise ValueError(f"no {key}, not even {times}")
        return words

    sent = []
    for _ in range(2):
        turns = (setup.turn("", CALL), setup.turn(ANSWER))
        result = (await setup.play(*turns, tools=(look_up,))).result
        setup.expect("the answer", ANSWER, result.text)
        [text] = [one.text for one in result.state.messages if isinstance(one, ToolMessage)]
        words = text
        sent.append(setup.request_text(1))
    setup.expect("whether a failed call looks different", True, sent[0] != sent[1])


async def text_and_call(setup: CaseSetup) -> None:
    """The model says something and calls a tool."""
    seen = await setup.play(setup.turn("Let me see.", CALL), setup.turn(ANSWER))
    step = seen.result.steps[0]
    setup.expect("the calls", [("look_up", CALL.args)], calls_of(step))
    if step.text:  # some models cannot do both at once
        setup.expect("the text of the first step", "Let me see.", step.text)
    setup.expect("the answer", ANSWER, seen.result.text)
    if setup.streamed:
        setup.expect("the text as it streamed", step.text + ANSWER, seen.text)


async def invalid_arguments(setup: CaseSetup) -> None:
    """Arguments that do not fit are for the model to fix."""
    wrong = WireCall("look_up", {"key": "otters", "times": "many"})
    result = (await setup.play(setup.turn("", wrong), setup.turn(ANSWER))).result
    expect_reported(setup, result, ResultStatus.INVALID, "times")


async def broken_arguments(setup: CaseSetup) -> None:
    """Arguments that are no JSON at all do not end a run: the model reads why, or the error has its class."""
    broken = WireCall("look_up", raw='{"key": "ott')
    result = (await setup.play(setup.turn("", broken), setup.turn(ANSWER))).result
    if result.status is RunStatus.FAILED:
        setup.expect("the error", MalformedResponseError, type(result.error))
        return
    setup.expect("the answer", ANSWER, result.text)


async def unknown_tool(setup: CaseSetup) -> None:
    """A tool that does not exist is an error the model reads."""
    turns = (setup.turn("", WireCall("lookup", {"key": "otters"})), setup.turn(ANSWER))
    result = (await setup.play(*turns)).result
    expect_reported(setup, result, ResultStatus.INVALID, "there is no tool")


async def tool_choice(setup: CaseSetup) -> None:
    """A tool can be demanded: of the first turn, and not of the one that answers."""
    needs = [Feature.TOOL_CHOICE] if setup.is_native else []
    sent = {}
    for choice in ("auto", "required", "look_up"):
        turns = (setup.turn("", CALL), setup.turn(ANSWER))
        result = (await setup.play(*turns, needs=needs, tool_choice=choice)).result
        setup.expect(f"the answer with tool_choice={choice!r}", ANSWER, result.text)
        sent[choice] = setup.request_text(0)
    for choice in ("required", "look_up"):
        changed = sent[choice] != sent["auto"]
        setup.expect(f"whether {choice!r} changed the request", True, changed)


async def attachments(setup: CaseSetup) -> None:
    """Images and documents arrive, as far as they are declared."""
    can = {Feature.IMAGES: PICTURE, Feature.DOCUMENTS: PAPER}
    async with setup.agent(setup.turn(ANSWER)) as agent:
        given = [one for feature, one in can.items() if feature in setup.features]
        if not given:
            raise Inapplicable("the provider declares neither images nor documents")
        seen = await setup.drive(agent, "What is this?", given)
        setup.expect("the answer", ANSWER, seen.result.text)
        for one in given:
            setup.expect_in(f"{one.name} in the request", one.data, setup.request_text(0))


async def structured_output(setup: CaseSetup) -> None:
    """A schema for the answer reaches the server."""
    configure, needs = asks(output_schema=SCHEMA), [Feature.STRUCTURED_OUTPUT]
    turn = setup.turn('{"zebras": 3}')
    seen = await setup.play(turn, configure=configure, needs=needs)
    setup.expect("the answer", {"zebras": 3}, msgspec.json.decode(seen.result.text))
    setup.expect_in("the schema in the request", "zebras", setup.request_text(0))


async def others_thoughts(setup: CaseSetup) -> None:
    """What another provider's model thought is not sent to this one."""
    thought = Reasoning(text="private musings", signature="seal-of-another", provider="elsewhere")
    said = AssistantMessage("Hello!", (), (thought,))
    state = AgentState().with_user_message("Hello.")
    state = state.with_messages(state.messages.append(said))
    async with setup.agent(setup.turn(ANSWER)) as agent:
        result = await agent.run("And now?", state=state)
        setup.expect("the answer", ANSWER, result.text)
        setup.expect_in("the earlier answer in the request", "Hello!", setup.request_text(0))
        for secret in (thought.text, thought.signature):
            setup.expect(f"whether {secret!r} was sent", False, secret in setup.request_text(0))


# --- hooks, limits and approvals mean the same over every provider --------------------------------


async def block(setup: CaseSetup) -> None:
    """A blocked call does not run, and the model reads why."""
    configure = _says(HookOutcome.block("otters are asleep"))
    turns = (setup.turn("", CALL), setup.turn(ANSWER))
    result = (await setup.play(*turns, configure=configure)).result
    expect_reported(setup, result, ResultStatus.BLOCKED, "otters are asleep")


async def stop(setup: CaseSetup) -> None:
    """A hook that stops the run stops it, and the model is not asked again."""
    configure = _says(HookOutcome.stop("enough"))
    result = (await setup.play(setup.turn("", CALL), configure=configure)).result
    setup.expect("the run's status", RunStatus.STOPPED, result.status)
    setup.expect("requests", 1, len(setup.requests))


async def ask(setup: CaseSetup) -> None:
    """A call waits for a person, and continues with the answer."""
    configure = _says(HookOutcome.ask("may I?"))
    turns = (setup.turn("", CALL), setup.turn(ANSWER))
    async with setup.agent(*turns, configure=configure) as agent:
        paused = (await setup.drive(agent)).result
        setup.expect("the run's status", RunStatus.PAUSED, paused.status)
        stored = AgentState.from_json(paused.state.to_json())
        answers = {pending.id: Decision.allow() for pending in stored.pending}
        result = await agent.resume(stored, answers)
        setup.expect("the answer after the resume", ANSWER, result.text)
        setup.expect_in("the result in the second request", "found otters", setup.request_text(1))


async def limit(setup: CaseSetup) -> None:
    """A limit ends the run between two turns."""
    turns = (setup.turn("", CALL), setup.turn("", CALL), setup.turn("", CALL))
    result = (await setup.play(*turns, configure=lambda one: one.with_limits(steps=2))).result
    setup.expect("the run's status", RunStatus.STOPPED, result.status)
    setup.expect("why", StopReason.STEP_LIMIT, result.stop_reason)
    setup.expect("requests", 2, len(setup.requests))


async def withheld(setup: CaseSetup) -> None:
    """Of an answer that a hook discards nothing is shown, not even for a moment."""

    def configure(builder: AgentBuilder) -> None:
        def judge(ctx: InferenceHookContext) -> HookOutcome | None:
            secret = ctx.response is not None and "swordfish" in ctx.response.text
            return HookOutcome.block("that is a secret") if secret else None

        builder.on_after_inference(judge)

    turns = (setup.turn("It is swordfish, I believe."), setup.turn(ANSWER))
    seen = await setup.play(*turns, configure=configure)
    setup.expect("the answer", ANSWER, seen.result.text)
    if setup.streamed:
        setup.expect("the text as it streamed", ANSWER, seen.text)


async def other_model(setup: CaseSetup) -> None:
    """A hook names another model for one step."""
    configure = asks(model=f"{setup.wire.model}-b")
    result = (await setup.play(setup.turn(ANSWER), configure=configure)).result
    if result.status is RunStatus.FAILED and isinstance(result.error, ModelNotFoundError):
        return  # a provider that knows its own models may say so before it asks
    setup.expect("the answer", ANSWER, result.text)
    setup.expect_in("the model in the request", f"{setup.wire.model}-b", setup.request_text(0))


async def options(setup: CaseSetup) -> None:
    """An option of the request reaches the server."""
    sent = []
    for given in ({}, {"temperature": 0.5}):
        result = (await setup.play(setup.turn(ANSWER), configure=asks(options=given))).result
        if given and isinstance(result.error, UnsupportedError):
            return  # a provider may have no such option, and say so
        setup.expect("the answer", ANSWER, result.text)
        sent.append(setup.request_text(0))
    setup.expect("whether an option changed the request", True, sent[0] != sent[1])


def _says(outcome: HookOutcome) -> Callable[[AgentBuilder], object]:
    """Configures an agent with a hook that says this of every call."""
    return lambda builder: builder.on_before_tool_use(lambda _: outcome)


# --- the way to a model and back: cancelled, left, failing, tried again ---------------------------


async def cancelled(setup: CaseSetup) -> None:
    """A run that is cancelled while the model is silent ends at once, and hangs up."""
    _require_failure(setup, Failure.SILENCE)
    async with setup.agent(setup.turn(ANSWER, failure=Failure.SILENCE)) as agent:
        run = asyncio.create_task(setup.drive(agent))
        await setup.until(lambda: bool(setup.requests))
        agent.cancel()
        seen = await run
        setup.expect("the run's status", RunStatus.CANCELLED, seen.result.status)
        await setup.until(lambda: setup.wire.hung_up)


async def left(setup: CaseSetup) -> None:
    """A stream that its reader leaves hangs up."""
    if not setup.streamed:
        raise Inapplicable("only a stream can be left")
    _require_failure(setup, Failure.SILENCE)
    async with setup.agent(setup.turn(ANSWER, failure=Failure.SILENCE)) as agent:
        stream = agent.stream("Go.")
        reading = asyncio.create_task(_read(stream))
        await setup.until(lambda: bool(setup.requests))
        reading.cancel()
        await asyncio.wait([reading])
        await setup.until(lambda: setup.wire.hung_up)


async def second_loop(setup: CaseSetup) -> None:
    """An agent that was run in one event loop can be run in another: that is what `run_sync` twice does."""
    if setup.streamed:
        raise Inapplicable("`run_sync` does not stream")
    turns = (setup.turn("one"), setup.turn("two"), setup.turn("three"))
    async with setup.agent(*turns) as agent:
        answers = [(await agent.run("Go.")).text]
        for _ in range(2):
            answers.append((await asyncio.to_thread(agent.run_sync, "Go.")).text)
        setup.expect("the answers", ["one", "two", "three"], answers)


def failing(failure: Failure) -> Callable[[CaseSetup], Awaitable[None]]:
    """The case of one failure of the server."""

    async def case(setup: CaseSetup) -> None:
        _require_failure(setup, failure)
        result = (await setup.play(setup.turn(ANSWER, failure=failure))).result
        error, kind = result.error, ERRORS[failure]
        setup.expect("the run's status", RunStatus.FAILED, result.status)
        if not isinstance(error, kind):
            setup.expect("the error", kind.__name__, f"{type(error).__name__}: {error}")
        remedy = getattr(error, "remedy", "")
        setup.expect("whether the error says what to do", True, bool(remedy))
        words = f"{error} {remedy}"
        setup.expect("the error without secrets", Scrubber().text(words), words)
        setup.expect("lines of the error", 1, len(str(error).splitlines()))
        setup.expect("the text of a failed run", "", result.text)

    return case


async def retried(setup: CaseSetup) -> None:
    """The error policy waits as long as the server asks for, and then the model answers."""
    known = [Failure.RATE_LIMIT, Failure.OVERLOADED]
    failures = [one for one in known if one in setup.wire.failures]
    if not failures:
        raise Inapplicable("its server is never too busy")
    turns = [setup.turn("no", failure=one, retry_after=7.0) for one in failures]
    seen = await setup.play(*turns, setup.turn(ANSWER), configure=retries)
    setup.expect("the answer", ANSWER, seen.result.text)
    setup.expect("how long was waited", [7.0] * len(failures), setup.clock.slept)


async def restarted(setup: CaseSetup) -> None:
    """An answer that broke off is started again, and a reader of the stream can see where."""
    _require_failure(setup, Failure.CUT)
    turns = (setup.turn("This will not be all.", failure=Failure.CUT), setup.turn(ANSWER))
    seen = await setup.play(*turns, configure=retries)
    setup.expect("the answer", ANSWER, seen.result.text)
    if setup.streamed:
        setup.expect("the text after the error", ANSWER, seen.since_error().text)


async def undeclared(setup: CaseSetup) -> None:
    """Asking for what it does not declare is an UnsupportedError that says so, and nothing is sent."""
    asking: dict[Feature, dict[str, Any]] = {
        Feature.STRUCTURED_OUTPUT: {"output_schema": SCHEMA},
        Feature.IMAGES: {"messages": [UserMessage("Look.", "", (PICTURE,))]},
        Feature.DOCUMENTS: {"messages": [UserMessage("Read.", "", (PAPER,))]},
    }
    if setup.is_native:  # the other driver asks for tools in words
        asking[Feature.TOOLS] = {"tools": (SPEC,)}
        asking[Feature.TOOL_CHOICE] = {"tools": (SPEC,), "tool_choice": SPEC.name}
    for feature, changes in asking.items():
        async with setup.agent(configure=asks(**changes), tools=()) as agent:
            if feature in setup.features:
                continue
            error = (await setup.drive(agent)).result.error
            setup.expect(f"the error for {feature.value}", UnsupportedError, type(error))
            setup.expect("requests", 0, len(setup.requests))


async def _read(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass


def _require_failure(setup: CaseSetup, failure: Failure) -> None:
    if failure not in setup.wire.failures:
        raise Inapplicable(f"its server does not fail like this ({failure.value})")


ProviderCheck: TypeAlias = Callable[[CaseSetup], Awaitable[None]]

CASES: dict[str, ProviderCheck] = {
    name.replace("_", " "): each
    for name, each in list(globals().items())
    if inspect.iscoroutinefunction(each) and not name.startswith("_")
} | {f"error: {failure.value.replace('_', ' ')}": failing(failure) for failure in ERRORS}
"""Every case, by name: the public async functions above, and one for each failure of a server."""


# --- the suite ----------------------------------------------------------------------------------


_PATIENCE = 30.0
"""Seconds after which a case is taken to hang. Nothing in the suite waits for a clock."""


class ProviderCase(msgspec.Struct, frozen=True):
    """One case of the suite, for one driver and one way of driving: `await case.check(MyWire())`."""

    name: str
    driver: str
    streamed: bool

    async def check(self, wire: Wire) -> str:
        """Raises an AssertionError that says what is wrong. Gives a reason when the case does not apply."""
        setup = CaseSetup(wire, self.driver, streamed=self.streamed)
        try:
            async with asyncio.timeout(_PATIENCE):
                await CASES[self.name](setup)
        except Inapplicable as reason:
            return str(reason)
        except TimeoutError:
            raise Mismatch(
                Deviation(setup.mode, self.name, "an end", f"none within {_PATIENCE:g} s")
            ) from None
        return ""

    @property
    def meaning(self) -> str:
        """What it is about."""
        return CASES[self.name].__doc__ or f"A failure of the server has its class: {self.name}."

    def __str__(self) -> str:
        return f"{self.name} ({self.driver}, {'stream' if self.streamed else 'run'})"


def provider_cases() -> tuple[ProviderCase, ...]:
    """Every case: for `pytest.mark.parametrize("case", provider_cases(), ids=str)`."""
    return tuple(
        ProviderCase(name, driver, streamed)
        for name in CASES
        for driver in DRIVERS
        for streamed in (False, True)
    )


async def check_provider(
    make_wire: Callable[[], Wire], *, only: Collection[str] = ()
) -> SuiteReport:
    """Put a provider through every case, each with a wire of its own. `only` names the cases to check."""
    for name in only:
        if name not in CASES:
            raise UsageError(
                f"there is no case '{name}'.", remedy=f"There are: {', '.join(CASES)}."
            )
    wanted = [case for case in provider_cases() if not only or case.name in only]

    async def check(case: ProviderCase) -> str:
        return await case.check(make_wire())

    return await _run_cases({str(case): partial(check, case) for case in wanted})
