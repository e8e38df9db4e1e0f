from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline import AgentBuilder, AgentState, RunResult, RunStatus
from hookline.drivers import Driver, ScriptedCall, ScriptedTurn
from hookline.errors import BuildError, ModelError, NotJSONError, ScriptExhaustedError, UsageError
from hookline.state import AssistantMessage, InferenceRequest
from hookline.testing import ScriptedDriver, call, calls, say


def echo(text: str = "") -> str:
    """Say it again."""
    return text


def run(driver: ScriptedDriver, prompt: str = "go", **more: Any) -> RunResult:
    """One run with a tool that repeats."""
    builder = AgentBuilder().with_driver(driver).with_tools(echo).with_limits(steps=None)
    return builder.build().run_sync(prompt, **more)


def ids(state: AgentState) -> list[str]:
    """The ids of all calls of a conversation."""
    return [
        each.id
        for message in state.messages
        if isinstance(message, AssistantMessage)
        for each in message.calls
    ]


# --- turns --------------------------------------------------------------------------------------------


def test_turns_are_played_one_per_inference() -> None:
    """Text ends a run, a call makes a step, several calls make one step."""
    turns = [
        call("echo", text="a"),
        calls(call("echo", text="b"), call("echo", text="c")),
        say("d"),
    ]
    result = run(ScriptedDriver(turns))
    assert (result.text, result.status) == ("d", RunStatus.COMPLETED)
    assert [[each.result for each in step.results] for step in result.steps] == [
        ["a"],
        ["b", "c"],
        [],
    ]


def test_a_turn_can_hold_text_and_calls() -> None:
    """As models do when they think aloud."""
    turn = ScriptedTurn("let me see", (call("echo", text="a"),))
    result = run(ScriptedDriver([turn, say("done")]))
    assert result.steps[0].text == "let me see"
    assert result.steps[0].calls[0].name == "echo"


def test_a_tool_may_have_arguments_of_any_name() -> None:
    """The tool itself is positional, so that `tool=` is an argument like any other."""
    assert call("use", tool="hammer").args == {"tool": "hammer"}
    assert call("use", name="x", args=1).args == {"name": "x", "args": 1}


def test_arguments_must_be_json() -> None:
    """As a model's would be."""
    with pytest.raises(NotJSONError, match="an argument of the scripted call to 'echo'"):
        call("echo", text=object())


def test_an_exception_is_raised_by_the_inference() -> None:
    """The very one, so that error hooks can be tested."""
    error = ModelError("the model is gone")
    result = run(ScriptedDriver([error]))
    assert result.status is RunStatus.FAILED
    assert result.error is error


def test_a_function_of_the_state_makes_a_turn() -> None:
    """It is called with the state at that moment; a function may give another function."""
    seen: list[int] = []

    def by_state(state: AgentState) -> ScriptedTurn:
        seen.append(len(state.messages))
        return say(f"after {state.step_count} steps")

    result = run(ScriptedDriver([call("echo"), lambda state: by_state]))
    assert result.text == "after 1 steps"
    assert seen == [3]


def test_a_function_may_give_a_call_or_an_exception() -> None:
    """Whatever a turn can be."""
    turns = [
        lambda state: call("echo", text="a"),
        lambda state: ModelError("gone"),
    ]
    result = run(ScriptedDriver(turns))
    assert result.status is RunStatus.FAILED
    assert result.steps[0].results[0].result == "a"


@pytest.mark.parametrize("wrong", ["hello", None, 7, ("echo", {}), ModelError, ScriptedTurn])
def test_what_is_no_turn_is_refused_with_its_position(wrong: Any) -> None:
    """When the driver is made; a class is not an instance."""
    with pytest.raises(UsageError, match=r"turn 2 of the script is") as caught:
        ScriptedDriver([say("hi"), wrong])
    assert "say(...), call(...), calls(...)" in caught.value.remedy


@pytest.mark.parametrize("wrong", [say("hi"), [call("echo")], "echo"])
def test_calls_are_made_of_calls(wrong: Any) -> None:
    """Neither text nor a list of calls is a call."""
    with pytest.raises(UsageError, match=r"calls\(...\) takes calls"):
        calls(call("echo"), wrong)


def test_a_function_that_gives_no_turn_fails_the_inference() -> None:
    """With the same words, as it can only be seen when it is played."""
    result = run(ScriptedDriver([lambda state: "hello"]))
    assert result.status is RunStatus.FAILED
    assert "turn 1 of the script is 'hello'" in str(result.error)


# --- ids ----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), max_size=8))
@settings(max_examples=25)
def test_ids_are_unique_and_the_same_every_time(sizes: list[int]) -> None:
    """Even when one turn object is repeated: the same script gives the same ids, and no id twice."""
    again = call("echo", text="again")
    turns = [calls(*[again] * size) if size else again for size in sizes]
    first, second = (run(ScriptedDriver([*turns, say("done")])) for _ in range(2))
    assert len(ids(first.state)) == sum(max(size, 1) for size in sizes)
    assert len(set(ids(first.state))) == len(ids(first.state))
    assert ids(first.state) == ids(second.state)


def test_ids_stay_unique_when_a_conversation_continues() -> None:
    """A second run over the same state, with the same or another driver, does not repeat them."""
    first = run(ScriptedDriver([call("echo"), say("a")]))
    second = run(ScriptedDriver([call("echo"), say("b")]), state=first.state)
    third = run(ScriptedDriver([call("echo"), say("c")]), state=second.state)
    assert len(set(ids(third.state))) == 3


# --- requests -----------------------------------------------------------------------------------------


def test_what_it_was_sent_is_kept() -> None:
    """Every request, in order; its text shows the conversation at that moment."""
    driver = ScriptedDriver([call("echo", text="pear"), say("done")])
    run(driver, "what fruit?")
    assert all(isinstance(request, InferenceRequest) for request in driver.requests)
    first, second = map(str, driver.requests)
    assert "what fruit?" in first
    assert "pear" not in first
    assert 'echo({"text":"pear"})' in second
    assert "tool echo: pear" in second
    assert [spec.name for spec in driver.requests[0].tools] == ["echo"]


def test_the_request_of_a_failed_inference_is_kept_too() -> None:
    """It was sent."""
    driver = ScriptedDriver([ModelError("gone")])
    run(driver)
    assert len(driver.requests) == 1


# --- the end of the script ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ([], "the script has 0 turns, and the agent asked for turn 1."),
        ([call("echo")], "the script has 1 turn, and the agent asked for turn 2."),
        ([call("echo")] * 3, "the script has 3 turns, and the agent asked for turn 4."),
    ],
)
def test_running_past_the_script_is_an_error_that_says_so(turns: list[Any], words: str) -> None:
    """The run fails with the number of turns and what to do."""
    result = run(ScriptedDriver(turns))
    assert result.status is RunStatus.FAILED
    assert isinstance(result.error, ScriptExhaustedError)
    assert isinstance(result.error, ModelError)
    assert words in str(result.error)
    assert "Add a turn" in str(result.error)


# --- usage and text -----------------------------------------------------------------------------------


def test_tokens_are_what_the_turns_say() -> None:
    """Of a text, of a call, and of calls made together, which add up."""
    turns = [
        call("echo", tokens=1),
        calls(call("echo", tokens=2), call("echo", tokens=3), tokens=10),
        say("done", tokens=20),
    ]
    result = run(ScriptedDriver(turns))
    assert [step.usage.total_tokens for step in result.steps] == [1, 15, 20]
    assert result.usage.total_tokens == 36
    assert result.usage.requests == 3


def test_the_script_is_not_changed_by_playing_it() -> None:
    """Turns are values; a list that is changed later is not the script."""
    turns: list[Any] = [say("a")]
    driver = ScriptedDriver(turns)
    turns.append(say("b"))
    assert len(driver.turns) == 1
    assert call("echo", text="a") == ScriptedCall("echo", {"text": "a"})


async def test_text_is_streamed() -> None:
    """What is said comes as a delta before the response does."""
    agent = AgentBuilder().with_driver(ScriptedDriver([say("hello")])).build()
    events = [event async for event in agent.stream("hi")]
    kinds = [event.type for event in events]
    assert kinds.index("text_delta") < kinds.index("response")
    assert [event.text for event in events if event.type == "text_delta"] == ["hello"]  # type: ignore[attr-defined]


def test_it_is_a_driver() -> None:
    """By the protocol, so that it stands wherever a driver can."""
    assert isinstance(ScriptedDriver([]), Driver)


def test_it_has_a_name_before_it_answers() -> None:
    """Hooks at the very beginning get it."""
    names: list[str] = []
    builder = AgentBuilder().with_driver(ScriptedDriver([say("hi")]))
    agent = builder.on_session_start(lambda ctx: names.append(ctx.run.model)).build()
    assert agent.run_sync("go").records[-1] is not None
    assert names == ["scripted"]


# --- files -------------------------------------------------------------------------------------


def write(path: Path, script: Any) -> Path:
    """A script in a file; text is written as it is."""
    file = path / "script.json"
    file.write_text(script if isinstance(script, str) else json.dumps(script), encoding="utf-8")
    return file


def echo_files(text: str = "") -> str:
    """Say it again."""
    return text


def test_a_script_is_played_from_a_file(tmp_path: Path) -> None:
    """Calls, several calls, words, words with a call, tokens."""
    file = write(
        tmp_path,
        [
            {"call": "echo_files", "args": {"text": "a"}},
            {
                "calls": [{"call": "echo_files", "args": {"text": "b"}}, {"call": "echo_files"}],
                "tokens": 3,
            },
            {"say": "Hm.", "call": "echo_files"},
            {"say": "Done.", "tokens": 4},
        ],
    )
    agent = AgentBuilder().with_model(f"script:{file}").with_tools(echo_files).build()
    result = agent.run_sync("go")
    assert result.text == "Done."
    assert [[each.result for each in step.results] for step in result.steps] == [
        ["a"],
        ["b", ""],
        [""],
        [],
    ]
    assert result.steps[2].text == "Hm."
    assert result.usage.output_tokens == 7


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ('[{"say": "a"},\n {"say": }]', "line 2, column 10: Expecting value"),
        ("", "line 1, column 1: Expecting value"),
        ({"say": "a"}, "is not a list of turns"),
        ([{"say": "a"}, "b"], "turn 2: Expected `object`, got `str`"),
        ([{"sya": "a"}], "turn 1: Object contains unknown field `sya`"),
        ([{}], "turn 1: it neither says nor calls anything"),
        ([{"calls": []}], "turn 1: it neither says nor calls anything"),
        ([{"say": 5}], "turn 1: Expected `str | null`, got `int` - at `$.say`"),
        ([{"say": "a", "tokens": True}], "turn 1: Expected `int`, got `bool` - at `$.tokens`"),
        ([{"say": "a", "tokens": -1}], "turn 1: Expected `int` >= 0 - at `$.tokens`"),
        ([{"say": "a", "args": {}}], "turn 1: it has 'args' without a 'call'"),
        ([{"call": "a", "calls": []}], "turn 1: it has 'call' and 'calls'"),
        ([{"call": 5}], "turn 1: Expected `str | null`, got `int` - at `$.call`"),
        (
            [{"call": "a", "args": [1]}],
            "turn 1: Expected `object | null`, got `array` - at `$.args`",
        ),
        (
            [{"calls": {"call": "a"}}],
            "turn 1: Expected `array | null`, got `object` - at `$.calls`",
        ),
        (
            [{"calls": [{"call": "a"}, {"args": {}}]}],
            "turn 1: Object missing required field `call` - at `$.calls[1]`",
        ),
        (
            [{"calls": [{"call": "a", "say": "b"}]}],
            "turn 1: Object contains unknown field `say` - at `$.calls[0]`",
        ),
        ('[{"call": "a", "args": {"x": NaN}}]', "turn 1: an argument is nan"),
    ],
)
def test_a_wrong_script_says_where(tmp_path: Path, script: Any, problem: str) -> None:
    """In one line, with the file, the place in it and the forms there are."""
    file = write(tmp_path, script)
    with pytest.raises(BuildError) as caught:
        ScriptedDriver.from_file(file)
    message = str(caught.value)
    assert f"the script '{file}'" in message
    assert problem in message
    assert '{"say": "..."}' in caught.value.remedy
    assert "\n" not in message


def test_a_script_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    """Not there, a folder, not text."""
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    for name, problem in (
        ("none.json", "No such file"),
        (".", "Is a directory"),
        ("bytes.json", "is not JSON"),
    ):
        with pytest.raises(BuildError, match=problem):
            AgentBuilder().with_model(f"script:{tmp_path / name}")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["say", "call", "calls", "args", "tokens"]), inner)
        ),
        max_leaves=12,
    )
)
def test_any_file_is_a_script_or_a_clear_error(tmp_path_factory: Any, script: Any) -> None:
    """Whatever JSON is in it."""
    file = write(tmp_path_factory.mktemp("script"), json.dumps(script))
    with contextlib.suppress(BuildError):
        assert len(ScriptedDriver.from_file(file).turns) == len(script)
