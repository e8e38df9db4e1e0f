from __future__ import annotations

import enum
import json
import types
import typing
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hookline import (
    AgentBuilder,
    Decision,
    HookOutcome,
    RunStatus,
    StopReason,
    ToolContext,
    ToolHookContext,
)
from hookline.errors import RateLimitError, StateVersionError
from hookline.journal import (
    RECORD_VERSION,
    AnyRecord,
    CallAdmitted,
    CallSettled,
    HookRan,
    PromptSubmitted,
    Record,
    RunFinished,
    RunQueued,
    RunReopened,
    RunStarted,
    RunTakenUp,
    SessionCreated,
    StepFinished,
    TextDelta,
    ToolProgress,
    decode,
    encode,
)
from hookline.journal.session import SessionRecord
from hookline.state import Attachment, InferenceRequest, ToolCall, ToolResult, Usage
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

RECORDS: tuple[type[Record], ...] = typing.get_args(AnyRecord)
DELTAS: tuple[type[Record], ...] = (TextDelta, ToolProgress)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(0, 2**40),
    float: st.floats(0, 2**40, allow_nan=False),
    bool: st.booleans(),
    Any: JSON,
    type(None): st.none(),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type: new fields and records are covered without touching this file."""
    if kind in PLAIN:
        return PLAIN[kind]
    if kind is Decision:
        # Its arguments are there exactly when it is an edit.
        return st.sampled_from([Decision.allow("ok", remember=True), Decision.edit(a=[1])])
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(each) for each in inner])
    if origin is tuple:
        return st.lists(values(inner[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=2)
    if issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    hints = typing.get_type_hints(kind)
    fields = {name: values(hints[name]) for name in kind.__struct_fields__}
    if kind is Attachment:  # one that says nothing is refused where it is made
        fields |= {"media_type": st.just("text/plain"), "data": st.just("aGk=")}
    return st.builds(lambda **given: kind(**given), **fields)


def records(kind: type[Record]) -> st.SearchStrategy[Any]:
    """Records of a type, as this version writes them."""
    made = values(kind)
    if kind in (RunStarted, SessionCreated):
        return made.map(lambda record: msgspec.structs.replace(record, version=RECORD_VERSION))
    return made


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_record_survives_json(kind: type[Record]) -> None:
    """Whatever a record holds comes back equal and of the same type, and takes one line."""

    @given(records(kind))
    @settings(max_examples=15)
    def check(record: Record) -> None:
        line = encode(record)
        assert b"\n" not in line
        read = decode(line)
        assert type(read) is kind
        assert read == record
        assert decode(line.decode()) == read

    check()


@pytest.mark.parametrize("kind", [*RECORDS, *DELTAS], ids=lambda kind: kind.__name__)
def test_every_record_says_what_and_where_it_is(kind: type[Record]) -> None:
    """Type, run, number and time are there, in the object and in its JSON."""
    record = kind("run-1", 7, 1.5)
    saved = json.loads(encode(record))
    assert saved["type"] == record.type
    assert (saved["run_id"], saved["seq"], saved["at"]) == ("run-1", 7, 1.5)
    assert (record.run_id, record.seq, record.at) == ("run-1", 7, 1.5)


def test_records_are_distinguished_by_type() -> None:
    """No two kinds of record share a type."""
    kinds = [kind("r", 0, 0.0).type for kind in (*RECORDS, *DELTAS)]
    assert len(set(kinds)) == len(kinds)


def test_records_cannot_be_changed() -> None:
    """The journal only grows."""
    record = PromptSubmitted("r", 0, 0.0, "hi")
    with pytest.raises(AttributeError):
        record.text = "bye"  # type: ignore[misc]


def test_the_last_line_names_everything_a_reader_needs() -> None:
    """Also for a run that completed without saying anything: no field is left out because it is the usual one."""
    saved = json.loads(
        encode(RunFinished("r", 9, 0.0, "", RunStatus.COMPLETED, StopReason.COMPLETED))
    )
    assert saved["type"] == "result"
    assert (saved["text"], saved["status"], saved["stop_reason"]) == ("", "completed", "completed")
    assert {"usage", "steps", "reason", "decided_by", "error", "pending"} <= set(saved)
    used = RunFinished("r", 9, 0.0, "5", usage=Usage(3, 4, 1))
    assert json.loads(encode(used))["usage"] == {
        "input_tokens": 3,
        "output_tokens": 4,
        "requests": 1,
    }


def test_a_journal_of_a_newer_version_is_refused() -> None:
    """At its first record, which carries the version, with what to do."""
    line = encode(RunStarted("r", 0, 0.0, version=RECORD_VERSION + 1))
    with pytest.raises(StateVersionError, match=f"record version {RECORD_VERSION + 1}") as caught:
        decode(line)
    assert "Upgrade hookline" in caught.value.remedy


@pytest.mark.parametrize(
    "line",
    ["", "{", "[]", "null", "{}", '{"type": "dream"}', '{"type": "hook", "seq": 1}', b"\xff",
     "\ud800", '{"type": "hook", "run_id": "r", "seq": "one", "at": 0}', "[" * 5000],
)  # fmt: skip
def test_what_is_no_record_is_refused_as_such(line: str | bytes) -> None:
    """Cut off, unknown, or something else: one error that says so."""
    with pytest.raises(StateVersionError, match="this is not a journal record"):
        decode(line)


@pytest.mark.parametrize("kind", DELTAS, ids=lambda kind: kind.__name__)
def test_deltas_are_no_journal_records(kind: type[Record]) -> None:
    """They can be written for listeners, and a journal has none."""
    with pytest.raises(StateVersionError, match="not a journal record"):
        decode(encode(kind("r", 0, 0.0)))


def test_fields_this_version_does_not_know_are_passed_over() -> None:
    """A record of the same version with something extra is still readable."""
    line = '{"type": "prompt", "run_id": "r", "seq": 0, "at": 0.0, "text": "hi", "mood": "good"}'
    assert decode(line) == PromptSubmitted("r", 0, 0.0, "hi")


def test_half_a_character_where_nobody_may_write_one_does_not_lose_the_record() -> None:
    """It is replaced in a value that refuses it, and the rest of the record is kept."""
    call = msgspec.structs.replace(ToolCall("c", "pay", {"n": 1}))
    msgspec.structs.force_setattr(call, "args", {"n": HALF})
    read = decode(encode(CallAdmitted("r", 3, 0.5, 0, call)))
    assert read == CallAdmitted("r", 3, 0.5, 0, ToolCall("c", "pay", {"n": "?"}))


HALF = "\ud800"
ODD = st.lists(
    st.sampled_from(
        (
            "half",
            "0",
            "1",
            "-",
            "d800",
            "halves",
            '"',
            "\0",
            "é",
            "\ud83d",
            "\ude00",
            "\udce9",
            "😀",
        )
    )
).map("".join)


@given(ODD, ODD)
@example("half0-d800", "half1-d800 \udfff")
def test_half_a_character_is_kept(one: str, two: str) -> None:
    """Alone or beside its other half, also next to text that looks like a mark; and the line is JSON for everybody."""
    for record in (
        HookRan("r", 3, 0.5, "stop", "odd", reason=one, verdict="block"),
        HookRan("r", 3, 0.5, "stop", "odd", changes={one: [two, {two: one}, None, 1.5]}),
        CallSettled("r", 3, 0.5, 0, ToolResult("x", call_id="c", name=two, reason=one)),
    ):
        line = encode(record)
        assert decode(line) == decode(line.decode()) == record
        assert bytes(msgspec.json.decode(line, type=dict[str, msgspec.Raw])["seq"]) == b"3"


def test_defaults_are_left_out_of_the_json() -> None:
    """A journal is long, so its lines are short."""
    assert json.loads(encode(HookRan("r", 0, 0.0, "stop", "odd"))) == {
        "type": "hook",
        "run_id": "r",
        "seq": 0,
        "at": 0.0,
        "point": "stop",
        "hook": "odd",
    }


def test_what_a_record_holds_is_read_back_as_itself() -> None:
    """Steps and results are values again, not bags of JSON."""
    assert type(decode(encode(StepFinished("r", 0, 0.0)))) is StepFinished
    read = decode(encode(CallSettled("r", 0, 0.0)))
    assert isinstance(read, CallSettled)
    assert read.result.is_success


def test_everything_a_run_records_can_be_written_and_read() -> None:
    """Blocks, failures, retries, questions, answers and children included."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        if b == 0:
            raise ValueError("nothing to add")
        return a + b

    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        child = AgentBuilder().with_driver(ScriptedDriver([say("inner")])).build()
        return str((await context.spawn(child, "task")).text)

    def judge(ctx: ToolHookContext) -> Any:
        b = ctx.tool_call.args.get("b")
        if b == 1:
            return HookOutcome.block("one is too few", ctx.with_metadata("blocked", ["one"]))
        if b == 3:
            return HookOutcome.ask("three?")
        return ctx.with_args(b=4) if b == 2 else None

    async def consult(ctx: Any) -> None:
        second = ScriptedDriver([say("go ahead")])
        await ctx.run.ask_model(InferenceRequest(), name="second opinion", driver=second)
        await ctx.run.start_once(ctx, "mail")

    turns = [
        RateLimitError("slow", retry_after=1),
        calls(*(call("add", a=1, b=b) for b in range(5)), call("delegate"), call("nope")),
        say("done"),
        say("really done"),
    ]
    heard: list[Record] = []
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver(turns))
        .with_tools(add, delegate)
        .with_clock(FakeClock())
        .on_execution_start(consult)
        .on_before_tool_use(judge, name="judge")
        .on_before_inference(lambda ctx: ctx.request.with_system("Be kind."), name="kind")
        .on_after_step(lambda ctx: ctx.request_continue("more") if ctx.step_index < 1 else None)
        .on_stop(lambda ctx: HookOutcome.block("not yet") if ctx.state.step_count < 3 else None)
        .on_event(heard.append)
        .build()
    )
    paused = agent.run_sync("go")
    assert paused.status is RunStatus.PAUSED
    agent.resume_sync(paused, {paused.pending[0].id: True})
    journalled = [record for record in heard if not isinstance(record, DELTAS)]
    for record in journalled:
        line = encode(record)
        read = decode(line)
        assert type(read) is type(record)
        assert encode(read) == line
    # A process that died is needed, tests/agent/test_resume.py, and a session: tests/sessions.
    unseen = {RunQueued, RunReopened, RunTakenUp, *typing.get_args(SessionRecord)}
    assert set(RECORDS) - {type(record) for record in journalled} == unseen
