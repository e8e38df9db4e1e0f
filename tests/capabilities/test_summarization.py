"""A conversation that outgrows its budget: summarised once, by a model the run pays for, unless a hook forbids it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from driven import WAYS, Tape, drive, lives, on_disk
from hypothesis import given
from hypothesis import strategies as st

from hookline import AgentBuilder, HookOutcome, RunStatus, StopReason, ToolContext, replay, tool
from hookline.capabilities import Summarization, TaskPlanning
from hookline.capabilities.summarization import (
    BY,
    Cut,
    CutLimits,
    Sizes,
    as_message,
    by_characters,
    choose_cut,
    dropped_message,
    is_summary,
    summarize,
)
from hookline.errors import BuildError, ModelError, RateLimitError
from hookline.state import (
    AssistantMessage,
    Attachment,
    InferenceRequest,
    InferenceResponse,
    Reasoning,
    StepType,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    check_transcript,
)
from hookline.testing import FakeClock, ScriptedDriver, call, say


@tool(effect="pure")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: " + "x" * 400


PLACES = "attic barn cellar den eaves foyer garage hall inglenook".split()
SCRIPT = [*(call("look", at=place) for place in PLACES), say("done")]


def by_step(state: Any) -> Any:
    """A model that goes by how far the conversation is, as a real one would."""
    return SCRIPT[state.step_count]


def writing(*words: Any) -> ScriptedDriver:
    """A model that writes these summaries, and then others."""
    made = [say(w, tokens=20) if isinstance(w, str) else w for w in words]
    return ScriptedDriver([*made, *[say("the rest", tokens=20)] * 30])


def looking(
    summariser: Any = None, *, journal: Any = None, **options: Any
) -> tuple[Any, ScriptedDriver]:
    """A builder for an agent that looks around in a house, with a small budget."""
    driver = ScriptedDriver([by_step] * 20)
    builder = AgentBuilder().with_driver(driver).with_tools(look).with_clock(FakeClock())
    builder.with_system_prompt("Look around.")
    options = {"budget": 500, "keep_tokens": 150, "keep_messages": 2, **options}
    builder.with_capability(
        Summarization(model=summariser or writing(*["the attic is empty"] * 3), **options)
    )
    return builder if journal is None else builder.with_journal(journal), driver


def summaries(messages: Any) -> list[str]:
    """The summaries in a conversation."""
    return [m.text for m in messages if getattr(m, "by", "") == "summarization"]


@pytest.mark.parametrize("way", WAYS)
async def test_older_messages_give_way_to_a_summary(way: str) -> None:
    """Requests stay within the budget, with system prompt, first prompt, summary and the latest messages."""
    model = writing(*["the attic is empty"] * 3)
    builder, driver = looking(model)
    result = await drive(builder.build(), way, "What is in the house?")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "done")
    assert result.state.metadata["summaries"]["count"] >= 2
    for request in driver.requests:
        check_transcript(request.messages)
        assert request.system == "Look around."
        assert request.messages[0].text == "What is in the house?"
        assert len(summaries(request.messages)) <= 1
        assert len(str(request)) < 2000
    first = next(r for r in driver.requests if summaries(r.messages))
    assert "the attic is empty" in summaries(first.messages)[0]
    assert "attic: xxx" in model.requests[0].messages[0].text
    assert "the attic is empty" in model.requests[1].messages[0].text
    assert summaries(result.state.messages)


async def test_the_run_pays_and_the_journal_keeps_everything() -> None:
    """The summariser's tokens count; every message that gave way is still in the journal."""
    model = writing()
    builder, _ = looking(model)
    result = await builder.build().run("go")
    assert result.usage.output_tokens == 20 * len(model.requests)
    written = "".join(str(record) for record in result.records if record.type == "step")
    assert all(f"{place}: xxx" in written for place in PLACES)
    limited, _ = looking(writing())
    limited.with_limits(tokens=15)
    assert (await limited.build().run("go")).stop_reason is StopReason.TOKEN_LIMIT


async def test_the_agents_own_model_writes_it_by_default() -> None:
    """Without a model of its own it asks the agent's, without tools."""

    class Own:
        def __init__(self) -> None:
            self.requests: list[Any] = []

        async def infer(self, request: Any, turn: Any) -> InferenceResponse:
            self.requests.append(request)
            if not request.tools:
                return InferenceResponse("shorter")
            return await ScriptedDriver([by_step(turn.state)]).infer(request, turn)

    own = Own()
    builder = AgentBuilder().with_driver(own).with_tools(look)
    builder.with_capability(Summarization(500, keep_tokens=150))
    result = await builder.build().run("go")
    assert result.is_completed
    assert "shorter" in summaries(result.state.messages)[0]


async def test_the_length_is_taken_from_the_models_usage() -> None:
    """Its own count wins over characters, and what came since is added; after a summary it is counted again."""

    class Counting:
        """A model to which everything is many tokens."""

        async def infer(self, request: Any, turn: Any) -> InferenceResponse:
            response = await ScriptedDriver([by_step(turn.state)]).infer(request, turn)
            used = Usage(input_tokens=100 * len(request.messages), output_tokens=10, requests=1)
            return InferenceResponse(response.text, response.calls, used)

    model = writing()
    builder, _ = looking(model, budget=100_000, keep_tokens=150)
    assert summaries((await builder.with_driver(Counting()).build().run("go")).state.messages) == []
    builder, _ = looking(model, budget=700, keep_tokens=150)
    builder.with_limits(tokens=None)
    result = await builder.with_driver(Counting()).build().run("go")
    assert result.is_completed
    assert result.state.metadata["summaries"]["count"] >= 1


async def test_a_model_that_counts_more_than_we_do_is_believed() -> None:
    """Where its tokens are many times ours (another script, say), a shortened request fits by its own count."""
    sizes: list[int] = []

    class Dense:
        """A model for which every character is a token."""

        async def infer(self, request: Any, turn: Any) -> InferenceResponse:
            response = await ScriptedDriver([by_step(turn.state)]).infer(request, turn)
            sizes.append(len(str(request)) + 300)
            used = Usage(input_tokens=sizes[-1], output_tokens=30, requests=1)
            return InferenceResponse(response.text, response.calls, used)

    builder, _ = looking(writing(*["dust"] * 9), budget=2_000, keep_tokens=600)
    builder.with_limits(tokens=None)
    result = await builder.with_driver(Dense()).build().run("go")
    assert result.state.metadata["summaries"]["count"] >= 1
    assert max(sizes) <= 2_000


def test_tokens_can_be_counted_by_a_function() -> None:
    """A tokenizer of one's own decides instead of characters."""
    builder, _ = looking(count_tokens=lambda text: 0)
    assert summaries(builder.build().run_sync("go").state.messages) == []
    builder, _ = looking(count_tokens=lambda text: len(text))
    assert summaries(builder.build().run_sync("go").state.messages)


def test_a_hook_may_forbid_it() -> None:
    """A block at before_compact leaves the conversation as it is, and no summariser is asked."""
    model, seen = writing(), []

    def forbid(ctx: Any) -> HookOutcome:
        seen.append(len(ctx.messages))
        return HookOutcome.block("keep it all")

    builder, driver = looking(model)
    result = builder.on_before_compact(forbid, name="no").build().run_sync("go")
    assert (model.requests, summaries(result.state.messages)) == ([], [])
    assert seen
    assert len(driver.requests[-1].messages) == 1 + 2 * len(PLACES)


async def test_a_policy_of_the_tree_holds_in_child_runs() -> None:
    """What the parent forbids at before_compact is forbidden for a child's summary too."""
    model = writing()
    child = looking(model)[0].build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand on."""
        return (await context.spawn(child, "go")).text

    driver = ScriptedDriver([call("delegate"), say("done")])
    builder = AgentBuilder().with_driver(driver).with_tools(delegate).with_clock(FakeClock())
    builder.on_before_compact(lambda ctx: HookOutcome.block("no"), tier="policy", name="no")
    result = await builder.build().run("go")
    assert (result.steps[0].results[0].text, model.requests) == ("done", [])


def test_a_hook_may_give_other_instructions() -> None:
    """Its text is the instruction for the summariser; its metadata is kept."""
    model = writing()
    builder, _ = looking(model)
    builder.on_before_compact(
        lambda ctx: ctx.with_instructions("Only the attic.").with_metadata("compacted", True),
        name="attic",
    )
    result = builder.build().run_sync("go")
    assert {request.system for request in model.requests} == {"Only the attic."}
    assert result.state.metadata["compacted"] is True


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda ctx: HookOutcome.stop("enough"), "enough"),
        (lambda ctx: ctx.forbid("no summaries here"), "no summaries here"),
    ],
)
def test_a_hook_may_end_the_run(answer: Any, reason: str) -> None:
    """A stop, or a word against continuing, counts as it does anywhere."""
    builder, _ = looking()
    result = builder.on_before_compact(answer, name="end").build().run_sync("go")
    assert (result.status, result.state.ending.reason) == (RunStatus.STOPPED, reason)


def test_a_hook_that_fails_keeps_the_conversation() -> None:
    """before_compact fails closed: nothing is thrown away."""
    model = writing()
    builder, _ = looking(model)
    result = builder.on_before_compact(lambda ctx: 1 / 0, name="broken").build().run_sync("go")
    assert (result.is_completed, model.requests) == (True, [])


def test_a_hook_can_change_the_instructions() -> None:
    """A message that a before_compact hook adds is in the conversation, once."""
    builder, driver = looking()

    def note(ctx: Any) -> Any:
        if ctx.get("noted"):
            return None
        state = ctx.state.with_user_message("remember the key", by="note")
        return ctx.with_state(state.with_metadata("noted", True))

    result = builder.on_before_compact(note, name="note").build().run_sync("go")
    assert result.is_completed
    assert any("remember the key" in str(request) for request in driver.requests)
    check_transcript(result.state.messages)


@pytest.mark.parametrize("failing", [ModelError("gone"), say("")])
def test_without_a_summary_it_continues_unchanged(failing: Any) -> None:
    """By default nothing is lost: the state says what failed, and it is tried again before the next turn."""
    model = ScriptedDriver([failing, failing, *[say("at last")] * 20])
    builder, _ = looking(model)
    result = builder.build().run_sync("go")
    assert result.is_completed
    kept = result.state.metadata["summaries"]
    assert kept["failures"] == 2
    assert "at last" in summaries(result.state.messages)[0]


def test_without_a_summary_the_oldest_may_be_dropped() -> None:
    """With `drop` older messages give way to a note, whole calls at a time."""
    model = ScriptedDriver([ModelError("gone")] * 30)
    builder, driver = looking(model, on_failure="drop")
    result = builder.build().run_sync("go")
    assert result.is_completed
    assert "left out here" in summaries(result.state.messages)[0]
    for request in driver.requests:
        check_transcript(request.messages)
        assert len(str(request)) < 2000


def test_without_a_summary_it_may_fail() -> None:
    """With `fail` the error policy decides about it."""
    builder, _ = looking(ScriptedDriver([ModelError("gone")] * 30), on_failure="fail")
    result = builder.build().run_sync("go")
    assert result.status is RunStatus.FAILED
    assert "gone" in str(result.error)


def test_a_summariser_that_is_busy_is_asked_again() -> None:
    """As the error policy says, before it counts as a failure."""
    model = ScriptedDriver([RateLimitError("slow", retry_after=2), *[say("ok")] * 30])
    builder, _ = looking(model)
    assert "failures" not in builder.build().run_sync("go").state.metadata["summaries"]


async def test_it_survives_any_death_and_is_written_once(tmp_path: Path) -> None:
    """Resumed after any record: the same conversation and counts, and no summary on record is written again."""
    asked: list[ScriptedDriver] = []

    def build(journal: Any) -> Any:
        asked.append(ScriptedDriver([lambda s: say(f"summary at {s.step_count}", tokens=20)] * 20))
        return looking(asked[-1], journal=journal)[0].build()

    whole, resumed = await lives(build)
    written = len(asked[0].requests)
    assert written >= 2
    for result, model in zip(resumed, asked[1:], strict=True):
        assert tuple(result.state.messages) == tuple(whole.state.messages)
        assert (result.usage, result.state.metadata) == (whole.usage, whole.state.metadata)
        kinds = [record.type for record in result.records]
        known = kinds[: kinds.index("taken_up")] if "taken_up" in kinds else kinds
        assert kinds.count("consulted") == written
        assert len(model.requests) == written - known.count("consulted")
    assert asked[-1].requests == []
    again = await on_disk(build, tmp_path / "j.db")
    assert tuple(again.state.messages) == tuple(whole.state.messages)


async def test_a_replay_asks_no_summariser() -> None:
    """The run is driven again with the summaries on record, and is identical."""
    tape = Tape()
    await looking(writing(), journal=tape)[0].build().run("go", run_id="run")
    silent = ScriptedDriver([])
    replayed = await replay(tape, "run", looking(silent)[0].build())
    assert replayed.identical, replayed
    assert silent.requests == []


def test_other_hooks_words_in_the_request_stay() -> None:
    """A list of tasks that another capability shows is there with the summary, and a later run continues from it."""
    driver = ScriptedDriver(
        [call("todo_write", todos=[{"content": "look"}]), *SCRIPT, say("again")]
    )
    builder = AgentBuilder().with_driver(driver).with_tools(look)
    builder.with_capability(TaskPlanning())
    builder.with_capability(Summarization(700, keep_tokens=150, model=writing("empty so far")))
    agent = builder.build()
    first = agent.run_sync("go")
    for request in driver.requests[1:]:
        assert "Your tasks:" in request.messages[-1].text
    assert any(summaries(request.messages) for request in driver.requests)
    second = agent.run_sync("and now?", state=first.state)
    assert second.text == "again"
    shown = driver.requests[-1].messages
    assert {"go", "and now?"} <= {message.text for message in shown}


def test_a_request_that_others_rewrote_is_left_to_them() -> None:
    """What a hook made of the conversation in a request is not undone by a summary."""
    builder, driver = looking()

    def redact(ctx: Any) -> Any:
        last = ctx.request.messages[-1:]
        return ctx.with_request(ctx.request.with_messages(last)) if last[0].role == "user" else None

    builder.on_before_inference(redact, name="redact", priority=1000).build().run_sync("go")
    assert len(driver.requests[0].messages) == 1


def test_a_short_conversation_is_left_alone() -> None:
    """Under the budget nothing happens, and nothing is asked; neither when nothing could give way."""
    model = writing()
    builder, _ = looking(model, budget=100_000)
    result = builder.build().run_sync("go")
    assert (model.requests, result.state.metadata) == ([], {})
    tight, _ = looking(model, budget=1)
    tight.with_driver(ScriptedDriver([say("done")]))
    assert tight.build().run_sync("a long prompt " * 50).steps[0].type is StepType.FINAL_RESPONSE
    assert model.requests == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 0}, "budget=0"),
        ({"keep_tokens": -1}, "keep_tokens=-1"),
        ({"keep_messages": True}, "keep_messages=True"),
        ({"instructions": " "}, "instructions="),
        ({"count_tokens": 4}, "count_tokens=4"),
        ({"on_failure": "ignore"}, "on_failure='ignore'"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], words: str) -> None:
    """Wrong options are named."""
    with pytest.raises(BuildError, match=words):
        Summarization(**options)


# --- which messages give way, for any conversation ----------------------------------------------------


SIZES = Sizes(by_characters)
texts = st.integers(0, 400).map(lambda length: "x" * length)


@st.composite
def units(draw: Any) -> tuple[Any, ...]:
    """Something that may stand alone: a prompt, a note, a summary, an answer, calls with all their results."""
    kind = draw(st.sampled_from(["prompt", "note", "summary", "answer", "calls"]))
    text = draw(texts)
    if kind in ("prompt", "note", "summary"):
        return (UserMessage(text, {"prompt": "", "note": "hook", "summary": BY}[kind]),)
    if kind == "answer":
        return (AssistantMessage(text),)
    ids = [f"c{draw(st.integers(0, 10**9))}-{number}" for number in range(draw(st.integers(1, 3)))]
    calls = tuple(ToolCall(each, "look", {"at": text}) for each in ids)
    results = [ToolMessage(each, "look", draw(texts)) for each in draw(st.permutations(ids))]
    return (AssistantMessage("", calls), *results)


conversations = st.lists(units(), min_size=1, max_size=25).map(
    lambda made: tuple(message for unit in made for message in unit)
)
rooms = st.builds(
    CutLimits,
    budget=st.integers(1, 2000),
    summary=st.integers(32, 200),
    keep=st.integers(0, 1000),
    least=st.integers(0, 10),
)


def last_unit(messages: Any) -> list[Any]:
    """The last message that may stand alone, with what belongs to it."""
    start = max(at for at, message in enumerate(messages) if not isinstance(message, ToolMessage))
    return list(messages[start:])


def prompts(messages: Any) -> list[Any]:
    """What a person said."""
    return [m for m in messages if isinstance(m, UserMessage) and not m.by]


def is_part(some: Any, of: Any) -> bool:
    """Whether these are among those, the very same objects, in the same order."""
    rest = iter(of)
    return all(any(each is other for other in rest) for each in some)


@given(conversations, rooms)
def test_any_conversation_is_cut_whole(messages: Any, limits: CutLimits) -> None:
    """Every message gives way or stays, each once; what stays is in order, and calls have their results."""
    cut = choose_cut(messages, SIZES.message, limits)
    if cut is None:
        return
    kept = (*cut.before, *cut.after)
    check_transcript(cut.join_with(as_message("short", SIZES, limits.summary)))
    check_transcript(cut.middle)
    assert is_part(kept, messages)
    assert is_part(cut.middle, messages)
    assert len(kept) + len(cut.middle) == len(messages)
    assert is_part(last_unit(messages), kept)
    asked = prompts(messages)
    if asked:
        assert is_part([asked[0]], kept)
        assert is_part([asked[-1]], kept)
    assert any(not is_summary(message) for message in cut.middle)


@given(conversations, rooms, st.text(max_size=2000))
def test_it_is_within_the_budget_whenever_that_can_be(
    messages: Any, limits: CutLimits, summary: str
) -> None:
    """If prompts, last unit and summary fit, the whole fits, however long the summariser's text is."""
    cut = choose_cut(messages, SIZES.message, limits)
    if cut is None:
        return
    pinned = {
        id(m): m for m in [*prompts(messages)[:1], *prompts(messages)[-1:], *last_unit(messages)]
    }
    for instead in (
        as_message(summary, SIZES, limits.summary),
        dropped_message(cut.middle, SIZES, limits.summary),
    ):
        if SIZES.messages(pinned.values()) + limits.summary <= limits.budget:
            assert SIZES.messages(cut.join_with(instead)) <= limits.budget


@given(conversations, rooms)
def test_cutting_terminates(messages: Any, limits: CutLimits) -> None:
    """Cut again and again, a conversation gets shorter until there is nothing left to give way."""
    for _ in range(len(messages) + 1):
        cut = choose_cut(messages, SIZES.message, limits)
        if cut is None:
            return
        shorter = cut.join_with(as_message("s", SIZES, limits.summary))
        assert len(shorter) <= len(messages)
        assert not all(is_summary(message) for message in cut.middle)
        messages = shorter
    raise AssertionError("it never ends")


@given(conversations, st.integers(1, 4))
def test_what_is_kept_is_what_was_asked_for(messages: Any, least: int) -> None:
    """With a large enough budget, so many of the latest messages stay, and with `keep` all that fit into it."""
    cut = choose_cut(messages, SIZES.message, CutLimits(10**9, 100, 0, least))
    if cut is not None:
        tail = list(messages[-least:])
        tail = tail[
            next((i for i, m in enumerate(tail) if not isinstance(m, ToolMessage)), len(tail)) :
        ]
        assert is_part(tail, cut.after)
    assert choose_cut(messages, SIZES.message, CutLimits(10**9, 100, 10**9, 0)) is None


def test_sizes_count_everything_a_model_reads() -> None:
    """Calls, thinking, attachments, system prompt and tools have a size; text a fourth of its characters."""
    assert by_characters("12345") == 2
    plain = SIZES.message(AssistantMessage("x" * 40))
    thought = AssistantMessage(
        "x" * 40, (ToolCall("1", "f", {"a": "y" * 40}),), (Reasoning("z" * 40),)
    )
    assert SIZES.message(thought) > plain + 20
    picture = Attachment.from_bytes(b"\x00" * 9_000_000, "image/png")
    letter = Attachment.from_bytes(b"a" * 400, "text/plain")
    assert SIZES.message(UserMessage("", "", (picture,))) < 2_000
    assert 100 <= SIZES.message(UserMessage("", "", (letter,))) < 120
    assert SIZES.count_fixed(InferenceRequest(system="x" * 400)) == 100
    words = Sizes(lambda text: len(text.split()))
    assert words.message(UserMessage("three words here")) == 7


async def test_long_histories_are_summarised_in_pieces() -> None:
    """Each piece fits, is shown with the summary so far, and a single message too long for one is shortened."""
    asked: list[str] = []

    async def ask(request: InferenceRequest) -> str:
        asked.append(request.messages[0].text)
        return f"summary {len(asked)}"

    messages = [UserMessage(f"message {n} " + "x" * 300) for n in range(10)]
    messages.append(UserMessage("start " + "y" * 5000 + " end"))
    assert await summarize(messages, "short", ask, SIZES, piece=300) == f"summary {len(asked)}"
    assert len(asked) > 3
    assert all(f"summary {n}" in text for n, text in enumerate(asked[1:], start=1))
    assert all(by_characters(text) < 400 for text in asked)
    whole = "".join(asked)
    assert all(f"message {n} " in whole for n in range(10))
    assert "start" in asked[-1]
    assert "end" in asked[-1]
    assert "shortened" in asked[-1]


def test_a_cut_is_joined_in_its_order() -> None:
    """What stays stands around what was put in."""
    a, b, s = UserMessage("a"), UserMessage("b"), UserMessage("s", BY)
    assert Cut((a,), (), (b,)).join_with(s) == (a, s, b)
