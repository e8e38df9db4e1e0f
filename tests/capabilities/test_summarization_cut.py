"""Which messages give way: for any conversation, calls keep their results, all is in order, within the budget."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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
from hookline.state import (
    AssistantMessage,
    Attachment,
    InferenceRequest,
    Reasoning,
    ToolCall,
    ToolMessage,
    UserMessage,
    check_transcript,
)

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
    check_transcript(cut.joined(as_message("short", SIZES, limits.summary)))
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
            assert SIZES.messages(cut.joined(instead)) <= limits.budget


@given(conversations, rooms)
def test_cutting_comes_to_an_end(messages: Any, limits: CutLimits) -> None:
    """Cut again and again, a conversation gets shorter until there is nothing left to give way."""
    for _ in range(len(messages) + 1):
        cut = choose_cut(messages, SIZES.message, limits)
        if cut is None:
            return
        shorter = cut.joined(as_message("s", SIZES, limits.summary))
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
    assert SIZES.fixed(InferenceRequest(system="x" * 400)) == 100
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
    assert Cut((a,), (), (b,)).joined(s) == (a, s, b)
