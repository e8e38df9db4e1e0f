from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from pathlib import Path
from typing import Any, Literal

import pytest
from driven import WAYS, Tape, drive, lives, on_disk
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator
from run_results import result_texts
from typing_extensions import TypedDict

from hookline import (
    AgentBuilder,
    AgentState,
    HookOutcome,
    RunStatus,
    SQLiteJournal,
    StopReason,
    tool,
)
from hookline.capabilities import Draft, SelfCritique, StructuredOutput, TaskPlanning
from hookline.capabilities.structured_output import json_in
from hookline.drivers import ReActDriver, ToolCallingDriver
from hookline.errors import BuildError, UsageError
from hookline.testing import (
    ScriptedDriver,
    ScriptedProvider,
    WireCall,
    WireTurn,
    call,
    calls,
    say,
)


class Weather(BaseModel):
    """The weather of a place."""

    city: str
    degrees: float = Field(description="In Celsius.")

    @field_validator("degrees")
    @classmethod
    def _possible(cls, value: float) -> float:
        if value < -273.15:
            raise ValueError("nothing is that cold")
        return value


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


GOOD = call("structured_output", city="Oslo", degrees=-3)
OSLO = Weather(city="Oslo", degrees=-3.0)


def asking(*turns: Any, output: Any = Weather, **options: Any) -> tuple[Any, ScriptedDriver]:
    """A builder for an agent that makes these turns and must give an output."""
    driver = ScriptedDriver(turns)
    builder = AgentBuilder().with_driver(driver).with_tools(look)
    return builder.with_capability(StructuredOutput(output, **options)), driver


@pytest.mark.parametrize("way", WAYS)
async def test_the_run_ends_with_the_value(way: str) -> None:
    """The output is of the type, the model is not asked again, and the text is its JSON."""
    builder, driver = asking(call("look"), GOOD)
    result = await drive(builder.build(), way)
    assert (result.output, result.status, result.stop_reason) == (
        OSLO,
        RunStatus.COMPLETED,
        StopReason.COMPLETED,
    )
    assert isinstance(result.output, Weather)
    assert (len(driver.requests), result.text) == (2, '{"city":"Oslo","degrees":-3.0}')
    spec = driver.requests[0].tools[-1]
    assert spec.name == "structured_output"
    assert spec.parameters["properties"]["degrees"]["description"] == "In Celsius."


def test_what_does_not_fit_is_sent_back_with_what_is_wrong() -> None:
    """Missing fields, wrong types and failed validators are reported to the model, which may try again."""
    builder, _ = asking(
        call("structured_output", degrees="warm"),
        call("structured_output", city="Oslo", degrees=-300),
        GOOD,
    )
    result = builder.build().run_sync("go")
    first, second, _ = result_texts(result)
    assert "'city': missing" in first
    assert "'degrees': should be a valid number" in first
    assert "'degrees': nothing is that cold (given: -300)" in second
    assert result.output == OSLO


@pytest.mark.parametrize("way", WAYS)
async def test_after_so_many_attempts_it_ends_honestly(way: str) -> None:
    """Calls that do not fit and answers in text count alike; the reason says what was wrong last."""
    builder, driver = asking(
        say("It is cold."), call("structured_output", city="Oslo"), say("Cold!"), attempts=3
    )
    result = await drive(builder.build(), way)
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.OUTPUT_INVALID)
    assert (result.output, len(driver.requests)) == (None, 3)
    assert result.state.ending.reason == "no output after 3 attempts: the model answered in text"
    assert result.state.last_text() == "Cold!"


def test_an_answer_in_text_is_sent_back() -> None:
    """The model reads that it is to call the tool."""
    builder, driver = asking(say("-3 in Oslo"), GOOD)
    result = builder.build().run_sync("go")
    assert result.output == OSLO
    last = driver.requests[1].messages[-1]
    assert (last.role, last.by) == ("user", "structured-output")
    assert last.text.startswith("Give your final answer by calling structured_output")


def test_it_can_be_demanded() -> None:
    """With `force` the request after a text demands the tool."""
    builder, driver = asking(say("-3 in Oslo"), GOOD, force=True)
    assert builder.build().run_sync("go").output == OSLO
    assert [request.tool_choice for request in driver.requests] == ["auto", "structured_output"]


@pytest.mark.parametrize(
    "text",
    [
        '{"city": "Oslo", "degrees": -3}',
        'Here:\n```json\n{"city": "Oslo", "degrees": -3}\n```\nAnything else?',
        'As [1] says, {"note": 1} and then {"city": "Oslo", "degrees": -3}.',
    ],
)
def test_json_in_text_may_be_taken(text: str) -> None:
    """With `parse_text` JSON that fits ends the run, wherever in the answer it stands."""
    builder, driver = asking(say(text), parse_text=True)
    result = builder.build().run_sync("go")
    assert (result.output, result.status, len(driver.requests)) == (OSLO, RunStatus.COMPLETED, 1)


def test_json_in_text_that_does_not_fit_is_reported() -> None:
    """The model reads what is wrong with it."""
    builder, driver = asking(say('{"city": "Oslo"}'), GOOD, parse_text=True)
    assert builder.build().run_sync("go").output == OSLO
    assert (
        driver.requests[1]
        .messages[-1]
        .text.startswith("The JSON in your answer does not fit: 'degrees': missing.")
    )


def test_other_calls_of_the_same_turn_still_run() -> None:
    """The run ends after the step, with the last output that was given."""
    builder, _ = asking(
        calls(GOOD, call("look"), call("structured_output", city="Bergen", degrees=7))
    )
    result = builder.build().run_sync("go")
    assert (result_texts(result)[1], result.output.city) == ("seen", "Bergen")


def test_a_hook_may_block_it() -> None:
    """What a policy blocks is no output, and counts as an attempt."""
    builder, _ = asking(GOOD, GOOD, attempts=2)
    builder.on_before_tool_use(
        lambda ctx: HookOutcome.block("not Oslo"), matcher="structured_output", tier="policy"
    )
    result = builder.build().run_sync("go")
    assert (result.output, result.stop_reason) == (None, StopReason.OUTPUT_INVALID)
    assert "not Oslo" in result.state.ending.reason


def test_a_limit_leaves_no_output() -> None:
    """A run that a guard ended has None, and the guard's reason."""
    builder, _ = asking(call("look"), call("look"))
    result = builder.with_limits(steps=1).build().run_sync("go")
    assert (result.output, result.stop_reason) == (None, StopReason.STEP_LIMIT)


def test_each_run_of_a_conversation_gives_its_own() -> None:
    """What an earlier run gave is not the output of a later one."""
    builder, _ = asking(GOOD, say("the same"), call("structured_output", city="Rome", degrees=20))
    agent = builder.build()
    first = agent.run_sync("Oslo?")
    second = agent.run_sync("Rome?", state=first.state)
    assert (first.output.city, second.output.city) == ("Oslo", "Rome")


def test_open_tasks_can_send_it_back() -> None:
    """After an objection to the end the model must give its output again; text is not enough."""
    builder, driver = asking(
        call("todo_write", todos=[{"content": "check"}]),
        GOOD,
        call("todo_write", todos=[{"content": "check", "status": "completed"}]),
        say("That was it."),
        GOOD,
    )
    result = builder.with_capability(TaskPlanning(insist=1)).build().run_sync("go")
    assert (result.output, result.status) == (OSLO, RunStatus.COMPLETED)
    assert "You are not done" in driver.requests[2].messages[-2].text


async def test_it_survives_any_death_and_the_disk(tmp_path: Path) -> None:
    """Resumed after any record, also after its last, the output is the same value, and the counts are the same."""
    script = [call("look"), say("cold"), call("structured_output", city="Oslo"), GOOD]

    def build(journal: Any) -> Any:
        builder, _ = asking(*[lambda state: script[state.step_count]] * 4)
        return builder.with_journal(journal).build()

    whole, resumed = await lives(build)
    assert whole.output == OSLO
    for result in resumed:
        assert (result.output, result.text) == (whole.output, whole.text)
        assert (result.status, result.stop_reason) == (whole.status, whole.stop_reason)
        assert result.state.metadata == whole.state.metadata
    assert (await on_disk(build, tmp_path / "j.db")).output == OSLO


async def test_a_finished_run_has_its_value_in_another_process(tmp_path: Path) -> None:
    """From the journal, and from a saved state."""
    builder, _ = asking(GOOD)
    with_journal = builder.with_journal(SQLiteJournal(tmp_path / "j.db")).build()
    result = await with_journal.run("go", run_id="r")
    again = await with_journal.resume("r")
    assert (again.output, again.text) == (OSLO, result.text)
    saved = AgentState.from_json(result.state.to_json())
    assert StructuredOutput(Weather).value(saved) == OSLO
    assert StructuredOutput(Weather).value(result) == OSLO
    await with_journal.definition.journal.close()


async def test_a_typed_answer_of_any_output_hook_is_made_again() -> None:
    """A process that dies after the output hooks asks one again that made a value JSON does not lead back to."""

    def build(journal: Any) -> Any:
        builder = AgentBuilder().with_driver(ScriptedDriver([say("x")])).with_journal(journal)
        return builder.on_output(lambda ctx: ctx.with_output(OSLO), name="typed").build()

    tape = Tape()
    await build(tape).run("go", run_id="run")
    at = next(i for i, r in enumerate(tape.written) if r.type == "hook" and r.point == "output")
    assert (await build(Tape(tape.written[: at + 1])).resume("run")).output == OSLO


def test_a_type_that_has_changed_since_says_so() -> None:
    """What was given by another type is not handed out as something it is not."""
    builder, _ = asking(GOOD)
    result = builder.build().run_sync("go")
    with pytest.raises(UsageError, match="does not fit this type any more"):
        StructuredOutput(list[int]).value(result)


@pytest.mark.parametrize("protocol", ["native", "text"])
def test_it_works_with_real_drivers(protocol: str) -> None:
    """With native tool calls and with the text protocol, the model's JSON becomes the value."""
    args = {"city": "Oslo", "degrees": -3}
    if protocol == "native":
        turn = WireTurn("", (WireCall("structured_output", args),))
        driver: Any = ToolCallingDriver("m", provider=ScriptedProvider([turn]))
    else:
        turn = WireTurn(json.dumps({"calls": [{"tool": "structured_output", "args": args}]}))
        driver = ReActDriver("m", provider=ScriptedProvider([turn]))
    builder = AgentBuilder().with_driver(driver).with_capability(StructuredOutput(Weather))
    assert builder.build().run_sync("go").output == OSLO


@pytest.mark.parametrize("attempts", [0, True, "3"])
def test_nonsense_is_refused(attempts: Any) -> None:
    """Attempts are a number."""
    with pytest.raises(BuildError, match="attempts="):
        StructuredOutput(Weather, attempts=attempts)


@pytest.mark.parametrize("first", [GOOD, say('{"city": "Oslo", "degrees": -3}')])
def test_what_a_critic_sends_back_is_not_the_output(first: Any) -> None:
    """The run continues, and ends with what is given afterwards, also where the output is found in text."""
    seen: list[str] = []

    def critic(draft: Draft) -> str | bool:
        seen.append(draft.text)
        return len(seen) > 1 or "that is the wrong city"

    builder = AgentBuilder().with_driver(
        ScriptedDriver(
            [first, say("It is right."), call("structured_output", city="Rome", degrees=20)]
        )
    )
    builder.with_capability(StructuredOutput(Weather, parse_text=True))
    result = builder.with_capability(SelfCritique(critic)).build().run_sync("go")
    assert (result.status, result.output.city) == (RunStatus.COMPLETED, "Rome")
    assert ["Oslo" in seen[0], "Rome" in seen[1], len(seen)] == [True, True, 2]


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Entry(TypedDict):
    """A line of a book."""

    title: str
    on: str


class Kind(enum.Enum):
    """How it is."""

    GOOD = "good"
    BAD = "bad"


class Tree(BaseModel):
    """A tree."""

    name: str
    children: list[Tree] = []


class Event(BaseModel):
    """Something that happens."""

    day: datetime.date
    kind: Kind
    tags: set[str] = set()


def given_by(output: Any, args: dict[str, Any]) -> tuple[Any, str]:
    """The output of a run in which the model calls the tool once, and the result of the call."""
    driver = ScriptedDriver([call("structured_output", **args)])
    capability: Any = StructuredOutput(output, attempts=1)
    result = AgentBuilder().with_driver(driver).with_capability(capability).build().run_sync("go")
    return result.output, result.steps[0].results[0].text


@pytest.mark.parametrize(
    ("output", "args", "value"),
    [
        (Point, {"x": 1}, Point(1, 0)),
        (Entry, {"title": "a", "on": "b"}, {"title": "a", "on": "b"}),
        (
            Tree,
            {"name": "a", "children": [{"name": "b"}]},
            Tree(name="a", children=[Tree(name="b")]),
        ),
        (
            Event,
            {"day": "2026-01-31", "kind": "bad", "tags": ["x", "x"]},
            Event(day=datetime.date(2026, 1, 31), kind=Kind.BAD, tags={"x"}),
        ),
        (list[int], {"output": [1, 2]}, [1, 2]),
        (Literal["yes", "no"], {"output": "yes"}, "yes"),
        (Point | Kind, {"output": "good"}, Kind.GOOD),
        (int, {"output": 5}, 5),
        (dict[str, int], {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        (
            {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            {"n": 3},
            {"n": 3},
        ),
        ({"type": "array", "items": {"type": "string"}}, {"output": ["a"]}, ["a"]),
    ],
)
def test_a_value_of_any_shape(output: Any, args: dict[str, Any], value: Any) -> None:
    """What the model gives as JSON becomes the value; what is no object has one around it."""
    made, _ = given_by(output, args)
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    ("output", "args", "words"),
    [
        (list[int], {"output": [1, "x"]}, "'output[1]': should be a valid integer"),
        (list[int], {"value": [1]}, "it takes one argument, 'output'"),
        (Tree, {"name": "a", "children": [{}]}, "'children[0].name': missing"),
        (Event, {"day": "soon", "kind": "bad"}, "'day': should be a date such as"),
        (Point, {"x": 1, "z": 2, "y": None}, "'y': should be a valid integer"),
        ({"type": "object", "required": ["n"]}, {}, "'n': missing"),
        (
            {"type": "array", "items": {"type": "string"}},
            {"output": [1]},
            "'output': '[0]': 1 is not",
        ),
    ],
)
def test_what_does_not_fit_is_named(output: Any, args: dict[str, Any], words: str) -> None:
    """The place and the problem, in the words the model wrote."""
    made, text = given_by(output, args)
    assert made is None
    assert words in text


@pytest.mark.parametrize("output", [object(), lambda x: x, {"type": 5}, {"$ref": "#/nowhere"}])
def test_what_has_no_schema_is_refused(output: Any) -> None:
    """At once, with what could be given instead."""
    with pytest.raises(BuildError, match="structured output: "):
        StructuredOutput(output)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(JSON, st.text(max_size=30))
def test_json_is_found_in_any_text(value: Any, around: str) -> None:
    """A fenced block is found whatever stands before it, and no text makes looking for it fail."""
    import json

    list(json_in(around))
    text = f"{around.replace('`', '')}\n```json\n{json.dumps(value)}\n```"
    assert value in list(json_in(text))


@pytest.mark.parametrize("nothing", [None, type(None)])
def test_nothing_is_no_shape(nothing: Any) -> None:
    """A model that was forgotten is not one whose only output is null."""
    with pytest.raises(BuildError, match="None is not a type of output"):
        StructuredOutput(nothing)
