from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline import (
    AgentState,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    Decision,
    RunStatus,
    StopReason,
    ToolCall,
    ToolResult,
)
from hookline.errors import NotJSONError, StateVersionError
from hookline.state import (
    STATE_VERSION,
    AssistantMessage,
    CallStage,
    Counters,
    Ending,
    ErrorInfo,
    FrozenDict,
    Log,
    Message,
    PendingApproval,
    PendingCall,
    PendingStep,
    ResultStatus,
    Step,
    StepType,
    ToolMessage,
    Usage,
    UserMessage,
)

# --- any state ----------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.floats(0, 1e9, allow_nan=False) | st.integers(0, 2**53).map(float)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)
CALLS = st.builds(ToolCall, TEXT, TEXT, OBJECTS, TEXT)
ERRORS = st.builds(ErrorInfo, TEXT, TEXT, TEXT)
RESULTS = st.builds(
    ToolResult,
    JSON,
    st.none() | ERRORS,
    st.sampled_from(ResultStatus),
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    NUMBERS,
    OBJECTS,
)
MESSAGES = (
    st.builds(UserMessage, TEXT, TEXT)
    | st.builds(AssistantMessage, TEXT, st.lists(CALLS, max_size=2).map(tuple))
    | st.builds(ToolMessage, TEXT, TEXT, TEXT, st.booleans())
)
COUNTS = st.integers(0, 2**40)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, st.none() | NUMBERS, COUNTS)
STOP_REASONS = st.sampled_from(StopReason)
EVALUATIONS = st.builds(
    ContinuationEvaluation,
    TEXT,
    st.sampled_from(ContinuationDecision),
    TEXT,
    st.none() | STOP_REASONS,
)
OUTCOMES = st.lists(EVALUATIONS, max_size=2).map(ContinuationOutcome.from_evaluations)
STEPS = st.builds(
    Step,
    COUNTS,
    st.sampled_from(StepType),
    TEXT,
    st.lists(CALLS, max_size=2).map(tuple),
    st.lists(RESULTS, max_size=2).map(tuple),
    USAGES,
    NUMBERS,
    NUMBERS,
    st.lists(ERRORS, max_size=1).map(tuple),
    st.none() | OUTCOMES,
)
DECISIONS = (
    st.builds(Decision.allow, TEXT, remember=st.booleans())
    | st.builds(Decision.deny, TEXT)
    | OBJECTS.map(lambda args: Decision.edit(**args))
)
APPROVALS = st.builds(PendingApproval, TEXT, CALLS, TEXT, TEXT, TEXT, TEXT)
PENDING_CALLS = st.builds(
    PendingCall,
    CALLS,
    st.sampled_from(CallStage),
    st.none() | RESULTS,
    st.none() | APPROVALS,
    st.none() | DECISIONS,
    st.none() | OBJECTS,
    st.lists(APPROVALS, max_size=1).map(tuple),
)
PENDING_STEPS = st.builds(
    PendingStep,
    COUNTS,
    TEXT,
    st.lists(CALLS, max_size=1).map(tuple),
    st.lists(PENDING_CALLS, max_size=2).map(tuple),
    st.lists(EVALUATIONS, max_size=1).map(tuple),
    USAGES,
    NUMBERS,
    NUMBERS,
)
COUNTERS = st.builds(
    Counters,
    COUNTS,
    COUNTS,
    USAGES,
    NUMBERS,
    COUNTS,
    st.dictionaries(TEXT, COUNTS, max_size=2).map(FrozenDict),
    COUNTS,
)
STATES = st.builds(
    AgentState,
    messages=st.lists(MESSAGES, max_size=5).map(Log),
    metadata=OBJECTS.map(lambda entries: AgentState(metadata=entries).freeze().metadata),
    steps=st.lists(STEPS, max_size=2).map(Log),
    usage=USAGES,
    counters=COUNTERS,
    agent_id=TEXT,
    run_id=TEXT,
    session_id=TEXT,
    parent_agent_id=st.none() | TEXT,
    parent_run_id=st.none() | TEXT,
    ending=st.none() | st.builds(Ending, st.sampled_from(RunStatus), STOP_REASONS, TEXT, TEXT),
    pending_step=st.none() | PENDING_STEPS,
    remembered=st.dictionaries(TEXT, DECISIONS, max_size=2).map(FrozenDict),
    first_step=COUNTS,
)


@given(STATES)
@settings(max_examples=60)
def test_any_state_survives_json(state: AgentState) -> None:
    """Whatever a state holds comes back equal, and writes the same JSON again."""
    text = state.to_json()
    read = AgentState.from_json(text)
    assert read == state
    assert read.to_json() == text
    assert AgentState.from_json(text.encode()) == state


@given(STATES)
@settings(max_examples=25)
def test_a_state_that_was_read_is_as_immutable_as_one_that_was_made(state: AgentState) -> None:
    """Every dict in it refuses to change: a remembered answer cannot be slipped in."""
    read = AgentState.from_json(state.to_json())
    for part in (read.metadata, read.remembered, read.counters.consecutive_errors):
        with pytest.raises(TypeError, match="read-only"):
            part["forged"] = Decision.allow()
    assert type(read.messages) is type(read.steps) is Log


def test_the_json_is_an_envelope_that_says_what_it_is() -> None:
    """Format and version are outside the state, where any version can read them."""
    saved = json.loads(AgentState().to_json())
    assert (saved["format"], saved["version"]) == ("hookline.state", STATE_VERSION)
    assert set(saved) == {"format", "version", "state"}


# --- JSON that is not a state -------------------------------------------------------------------------


def envelope(state: str = "{}", *, version: object = STATE_VERSION) -> str:
    """A saved state as JSON text."""
    return f'{{"format": "hookline.state", "version": {json.dumps(version)}, "state": {state}}}'


def test_a_newer_version_is_refused_and_named() -> None:
    """Even when the state in it makes no sense to this version."""
    with pytest.raises(StateVersionError, match=f"version {STATE_VERSION + 1}") as caught:
        AgentState.from_json(envelope('{"messages": 7}', version=STATE_VERSION + 1))
    assert f"reads up to version {STATE_VERSION}" in str(caught.value)
    assert "Upgrade hookline" in caught.value.remedy


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"text"', "{}", '{"format": "hookline.state"}', b"\xff\xfe", "\ud800",
     envelope(version="1"), envelope()[:-1], envelope() + "x", '{"type": "prompt", "run_id": "r"}'],
)  # fmt: skip
def test_what_is_not_a_saved_state_is_refused_as_such(text: str | bytes) -> None:
    """Empty, cut off, something else: the error says that it is no saved state."""
    with pytest.raises(StateVersionError, match="not a saved agent state"):
        AgentState.from_json(text)


def test_something_else_that_was_saved_is_named() -> None:
    """An envelope of another format says which."""
    with pytest.raises(StateVersionError, match=r"this is a saved 'hookline\.session', not"):
        AgentState.from_json('{"format": "hookline.session", "version": 1, "state": {}}')


@pytest.mark.parametrize(
    "state",
    [
        '{"messages": [{"role": "alien"}]}',
        '{"messages": "hello"}',
        '{"messages": [{"role": "user"}]}',
        '{"steps": [{}]}',
        '{"metadata": [1]}',
        '{"metadata": {"n": 1e999}}',
        '{"metadata": {"n": 99999999999999999999999}}',
        '{"usage": {"input_tokens": "many"}}',
        '{"ending": {"status": "asleep", "stop_reason": "completed"}}',
        '{"metadata": {"deep": ' + "[" * 3000 + "]" * 3000 + "}}",
        "7",
    ],
)
def test_a_damaged_state_is_refused_as_damaged(state: str) -> None:
    """Whatever is wrong inside, it is one error that says so."""
    with pytest.raises(StateVersionError, match=r"damaged|not a saved agent state"):
        AgentState.from_json(envelope(state))


def test_fields_this_version_does_not_know_are_passed_over() -> None:
    """A state of the same version with something extra is still readable."""
    assert AgentState.from_json(envelope('{"later_addition": 1}')) == AgentState()


# --- deriving -----------------------------------------------------------------------------------------


@given(OBJECTS)
def test_metadata_is_set_one_entry_at_a_time(entries: dict[str, Any]) -> None:
    """What is set is there, in any order, and the state it was derived from is as it was."""
    first = state = AgentState()
    for key, value in entries.items():
        state = state.with_metadata(key, value)
        assert state.get(key) == value
    assert state.metadata == entries
    assert first.metadata == {}
    for key in entries:
        state = state.without_metadata(key)
    assert state.metadata == {}


def test_metadata_that_is_not_json_is_refused_by_its_key() -> None:
    """The error names the entry."""
    with pytest.raises(NotJSONError, match="metadata 'socket' is of type object"):
        AgentState().with_metadata("socket", object())
    with pytest.raises(NotJSONError, match="a metadata key"):
        AgentState().with_metadata(7, "x")  # type: ignore[arg-type]
    with pytest.raises(NotJSONError, match="not valid Unicode"):
        AgentState().with_metadata("\ud800", "x")


def test_missing_metadata_has_a_default() -> None:
    """As a dict has it."""
    assert AgentState().get("nothing") is None
    assert AgentState().get("nothing", 7) == 7
    assert AgentState().with_metadata("none", None).get("none", 7) is None


def test_what_is_handed_in_plain_is_checked_before_it_is_used() -> None:
    """A state made by hand of dicts and lists becomes immutable, or is refused."""
    made = AgentState(metadata={"a": [1]}, messages=[UserMessage("hi")]).freeze()  # type: ignore[arg-type]
    assert type(made.metadata["a"]).__name__ == "FrozenList"
    assert type(made.messages) is Log
    with pytest.raises(NotJSONError, match="metadata is of type object"):
        AgentState(metadata={"a": object()}).freeze()


def test_a_state_cannot_be_changed() -> None:
    """No field of it can be set."""
    state = AgentState()
    for name in state.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(state, name, None)


def test_a_user_message_is_appended() -> None:
    """Text that could not be saved is refused."""
    state = AgentState().with_user_message("hi").with_user_message("again", by="hook")
    assert tuple(state.messages) == (UserMessage("hi"), UserMessage("again", "hook"))
    with pytest.raises(NotJSONError, match="a user message"):
        state.with_user_message("\udc00")


def test_a_conversation_is_replaced_by_any_messages() -> None:
    """A list, a slice of the old messages or a log: the state has a log of them."""
    state = AgentState().with_user_message("hi").with_user_message("again")
    shorter = state.with_messages(state.messages[-1:])
    assert shorter == AgentState().with_user_message("again")
    assert state.with_messages([*state.messages]) == state
    assert state.with_messages(state.messages).messages is state.messages


def test_steps_of_earlier_runs_are_kept_and_not_counted() -> None:
    """A state that is run again counts its steps from where the latest run begins."""
    steps = Log([Step(0, text="old"), Step(1, text="old"), Step(0, text="new")])
    state = AgentState(steps=steps, first_step=2)
    assert state.step_count == 1
    assert state.last_step == Step(0, text="new")


def test_the_outcome_of_a_state_is_that_of_its_last_step() -> None:
    """None before there is one."""
    assert AgentState().continuation is None
    assert AgentState().last_step is None
    outcome = ContinuationOutcome.from_evaluations([])
    assert AgentState(steps=Log([Step(0, outcome=outcome)])).continuation == outcome


def test_what_the_model_said_last_is_found_behind_everything_else() -> None:
    """Results and later messages do not hide it."""
    call = ToolCall("1", "add")
    messages: list[Message] = [
        UserMessage("2+3?"),
        AssistantMessage("adding", (call,)),
        ToolMessage("1", "add", "5"),
        UserMessage("hurry"),
    ]
    assert AgentState(messages=Log(messages)).last_text() == "adding"
    assert AgentState().last_text() == ""


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (None, "It has not stopped: no run over this state has ended yet."),
        (Ending(RunStatus.COMPLETED, StopReason.COMPLETED), "completed after 1 step: completed"),
        (
            Ending(RunStatus.STOPPED, StopReason.STEP_LIMIT, "steps: 1 of 1 used", "limits"),
            "stopped after 1 step: step_limit (steps: 1 of 1 used), decided by 'limits'",
        ),
    ],
)
def test_why_did_it_stop_is_answered_in_one_line(ending: Ending | None, words: str) -> None:
    """Status, steps, reason and who decided."""
    state = AgentState(steps=Log([Step(0)]), ending=ending)
    assert state.explain_stop() == words


# --- structure is shared ------------------------------------------------------------------------------


def test_appending_to_a_long_conversation_copies_nothing_of_it() -> None:
    """The past of a derived state is the same objects: blocks of messages and of steps, and the metadata."""
    state = AgentState(
        messages=Log(UserMessage(str(n)) for n in range(10_000)),
        steps=Log(Step(n) for n in range(10_000)),
        metadata=FrozenDict({"big": FrozenDict({str(n): n for n in range(1000)})}),
    )
    longer = state.with_user_message("one more")
    assert longer.messages._blocks is state.messages._blocks
    assert longer.steps is state.steps
    assert longer.metadata is state.metadata
    noted = state.with_metadata("seen", True)
    assert noted.messages is state.messages
    assert noted.metadata["big"] is state.metadata["big"]


def test_branches_of_a_state_do_not_disturb_each_other() -> None:
    """Two states derived from one are both whole, and so is the one they come from."""
    trunk = AgentState()
    for n in range(100):
        trunk = trunk.with_user_message(str(n))
    left, right = trunk.with_user_message("left"), trunk.with_user_message("right")
    assert (left.messages[-1], right.messages[-1]) == (UserMessage("left"), UserMessage("right"))
    assert len(trunk.messages) == 100
    assert left.messages[:100] == right.messages[:100] == tuple(trunk.messages)


# --- text that cannot be written ----------------------------------------------------------------------


def test_half_a_character_in_someones_words_does_not_keep_a_state_from_being_saved() -> None:
    """Reasons and errors come from anywhere; what cannot be written of them is replaced, and the rest is kept."""
    ending = Ending(RunStatus.FAILED, StopReason.ERROR, "cannot open 'caf\udce9'")
    state = msgspec.structs.replace(AgentState().with_user_message("hé"), ending=ending)
    read = AgentState.from_json(state.to_json())
    assert read.ending is not None
    assert read.ending.reason == "cannot open 'caf?'"
    assert read.messages == state.messages
