"""Where values come from, for any texts: more to read never makes a value cleaner, and what the user says does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hookline.capabilities.taint_policy.provenance import Provenance, TrustedSources
from hookline.state import AgentState, Log, Step, StepType, ToolCall, ToolResult, UserMessage

TOKENS = st.sampled_from(
    [
        "Fred",
        "evil.example",
        "mark.black-2134@gmail.com",
        "US133000000121212121212",
        "the",
        "hotel",
        "plan_b.docx",
        "13",
        "463820",
        "caf\u00e9",
        "\u5f20\u4e09",
        "please",
        "tomorrow",
    ]
)
TEXTS = st.lists(TOKENS | st.text(max_size=8), max_size=6).map(" ".join)
VALUES = TEXTS.filter(str.strip)


def tainted(prompt: str, results: list[str], value: str) -> bool:
    """Whether a value comes from results and not from the prompt."""
    call = ToolCall("1", "read")
    step = Step(
        0,
        StepType.TOOL_USE,
        calls=tuple(call for _ in results),
        results=tuple(ToolResult(each, call_id="1", name="read") for each in results),
    )
    known = Provenance(TrustedSources(lambda _: False, lambda _: False))
    known.read(AgentState(messages=Log([UserMessage(prompt)]), steps=Log([step])))
    return bool(known.findings(ToolCall("2", "act", {"value": value})))


@given(prompt=TEXTS, results=st.lists(TEXTS, max_size=3), more=TEXTS, value=VALUES)
def test_reading_more_never_cleans(prompt: str, results: list[str], more: str, value: str) -> None:
    """A value that is tainted stays so whatever else is read."""
    if tainted(prompt, results, value):
        assert tainted(prompt, [*results, more], value)


@given(prompt=TEXTS, results=st.lists(TEXTS, max_size=3), value=VALUES)
def test_what_the_user_says_is_clean(prompt: str, results: list[str], value: str) -> None:
    """A value that is in the prompt comes from the user, wherever else it is."""
    assert not tainted(f"{prompt}\n{value}", results, value)
    assert not tainted(value, results, value)


@given(prompt=TEXTS, more=TEXTS, results=st.lists(TEXTS, max_size=3), value=VALUES)
def test_a_longer_prompt_never_taints(
    prompt: str, more: str, results: list[str], value: str
) -> None:
    """What the user says besides takes no trust away."""
    if not tainted(prompt, results, value):
        assert not tainted(f"{prompt}\n{more}", results, value)


@given(prompt=TEXTS, results=st.lists(TEXTS, max_size=4), value=VALUES, data=st.data())
def test_order_does_not_matter(
    prompt: str, results: list[str], value: str, data: st.DataObject
) -> None:
    """It is the same in whichever order things were read."""
    shuffled = data.draw(st.permutations(results))
    assert tainted(prompt, results, value) == tainted(prompt, shuffled, value)


@given(prompt=TEXTS, results=st.lists(TEXTS, max_size=3), value=VALUES)
def test_nothing_read_is_nothing_tainted(prompt: str, results: list[str], value: str) -> None:
    """Without results all is the model's own; and reading the same twice is reading it once."""
    assert not tainted(prompt, [], value)
    assert tainted(prompt, results, value) == tainted(prompt, [*results, *results], value)


@given(value=TOKENS.filter(lambda token: token not in ("the", "please", "tomorrow")))
def test_a_value_that_was_read_is_tainted(value: str) -> None:
    """A value that only a result has comes from there, in whichever case."""
    assert tainted("Go on.", [f"You should use {value} now"], value)
    assert tainted("Go on.", [f"You should use {value} now"], value.upper())
