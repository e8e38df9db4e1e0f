from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import NotJSONError
from hookline.state import (
    AgentState,
    ErrorInfo,
    FrozenDict,
    ResultStatus,
    ToolCall,
    ToolResult,
    freeze,
    render,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-100, 100) | st.text("abé", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=6,
)
ARGS = st.dictionaries(st.text("abc", min_size=1, max_size=3), JSON, max_size=4)


# --- calls --------------------------------------------------------------------------------------------


@given(ARGS)
def test_arguments_are_read_only_to_any_depth(args: dict[str, Any]) -> None:
    """Whatever a call is made of, its arguments equal it and cannot be changed."""
    made = ToolCall("1", "add", args)
    assert made.args == args
    assert type(made.args) is FrozenDict
    with pytest.raises(TypeError, match="read-only"):
        made.args["x"] = 1
    with pytest.raises(AttributeError):
        made.name = "other"  # type: ignore[misc]


def test_a_changed_call_is_another_call_with_the_same_id() -> None:
    """`with_args` adds to and replaces arguments, and leaves the first call as it is."""
    first = ToolCall("1", "add", {"a": 1, "b": [1]})
    second = first.with_args(b=[2], c=3)
    assert (second.id, second.name) == ("1", "add")
    assert second.args == {"a": 1, "b": [2], "c": 3}
    assert first.args == {"a": 1, "b": [1]}


def test_arguments_that_are_not_json_are_refused_by_name() -> None:
    """The error names the tool."""
    with pytest.raises(NotJSONError, match="an argument of the call to 'add' is of type object"):
        ToolCall("1", "add", {"a": [object()]})


@given(ARGS)
def test_a_fingerprint_is_that_of_tool_and_arguments(args: dict[str, Any]) -> None:
    """Neither the id nor the order of arguments counts; the tool and every value do."""
    one = ToolCall("1", "add", args)
    other = ToolCall("2", "add", dict(reversed(args.items())))
    assert one.fingerprint() == other.fingerprint()
    assert one.fingerprint() != ToolCall("1", "sub", args).fingerprint()
    assert one.fingerprint() != one.with_args(zz=1).fingerprint()
    assert one.with_args(zz=1).fingerprint() != one.with_args(zz="1").fingerprint()


@given(ARGS)
def test_a_call_survives_json(args: dict[str, Any]) -> None:
    """And is frozen again when it is read."""
    made = ToolCall("1", "add", args)
    read = msgspec.json.decode(msgspec.json.encode(made), type=ToolCall)
    assert read == made
    assert type(read.args) is FrozenDict


@given(ARGS)
def test_arguments_as_models_write_them(args: dict[str, Any]) -> None:
    """JSON text, as text or bytes, becomes the arguments."""
    text = msgspec.json.encode(args)
    assert ToolCall.from_json("1", "add", text) == ToolCall("1", "add", args)
    assert ToolCall.from_json("1", "add", text.decode()) == ToolCall("1", "add", args)


@pytest.mark.parametrize("nothing", ["", b""])
def test_no_arguments_at_all_are_no_arguments(nothing: str | bytes) -> None:
    """Some models write nothing for a tool that takes nothing."""
    assert ToolCall.from_json("1", "now", nothing) == ToolCall("1", "now")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1',
        "[1]",
        "null",
        "{'a': 1}",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 99999999999999999999999}',
        '{"a": "\\ud800"}',
        '{"a": 1}{"b": 2}',
        "not json",
        b'{"a": "\xff"}',
        '{"a": "\ud800"}',
        '{"a":' + "[" * 5000 + "]" * 5000 + "}",
        '{"a":' + "[" * 300 + "]" * 300 + "}",
    ],
)
def test_what_is_no_json_object_is_kept_for_the_model_to_see(text: str | bytes) -> None:
    """A model that writes nonsense gets an answer; nothing is raised on the way, and the call can be saved."""
    made = ToolCall.from_json("1", "add", text)
    assert made.args == {}
    shown = text if isinstance(text, str) else text.decode(errors="replace")
    assert made.malformed == shown.encode(errors="replace").decode()
    assert msgspec.json.decode(msgspec.json.encode(made), type=ToolCall) == made


# --- results ------------------------------------------------------------------------------------------


@given(JSON)
def test_a_result_holds_a_frozen_value(value: Any) -> None:
    """The value equals what the tool gave, and survives JSON with it."""
    result = ToolResult(value, name="add", call_id="1")
    assert result.result == value
    assert result.is_success
    assert not result.is_blocked
    assert msgspec.json.decode(msgspec.json.encode(result), type=ToolResult) == result


def test_a_result_that_is_not_json_is_refused_by_name() -> None:
    """The error names the tool, or says that it is a tool result."""
    with pytest.raises(NotJSONError, match="the result of tool 'now' is of type object"):
        ToolResult(object(), name="now")
    with pytest.raises(NotJSONError, match="a tool result is nan"):
        ToolResult(float("nan"))
    with pytest.raises(NotJSONError, match="metadata of a tool result"):
        ToolResult(1, metadata={"x": object()})


@pytest.mark.parametrize("value", ["\ud800", ["half \udfff"], {"\ud800": 1}])
def test_a_result_with_half_a_character_is_refused(value: Any) -> None:
    """File names hold such text; a state that holds it could not be saved."""
    with pytest.raises(NotJSONError, match="not valid Unicode"):
        ToolResult(value, name="ls")


ERROR = ErrorInfo("ValueError", "no such file")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult("plain"), "plain"),
        (ToolResult(None), "null"),
        (ToolResult({"a": [1, "é"]}), '{"a":[1,"é"]}'),
        (ToolResult(True), "true"),
        (ToolResult(None, ERROR, ResultStatus.ERROR), "Error: no such file"),
        (ToolResult(None, ErrorInfo("KeyError", ""), ResultStatus.ERROR), "Error: KeyError"),
        (ToolResult(None, ERROR, ResultStatus.INVALID), "Error: no such file"),
        (ToolResult(status=ResultStatus.BLOCKED, reason="too big"), "Blocked: too big"),
        (ToolResult(status=ResultStatus.DENIED, reason="not today"), "Denied: not today"),
        (ToolResult(status=ResultStatus.WITHHELD, reason="secret"), "Result withheld: secret"),
        (ToolResult(status=ResultStatus.NOT_RUN, reason="stopped"), "Not run: stopped"),
        (ToolResult(status=ResultStatus.CANCELLED, reason="ctrl-c"), "Cancelled: ctrl-c"),
    ],
)
def test_what_the_model_reads(result: ToolResult, text: str) -> None:
    """A value as it is, or what happened instead in words."""
    assert result.text == text


def test_the_text_of_a_result_can_still_be_called() -> None:
    """The call gives the same text, plain, with a warning that names the change."""
    text: Any = ToolResult("é").text
    with pytest.warns(DeprecationWarning, match=r"write result\.text, not result\.text\(\)"):
        called = text()
    assert (called, type(called)) == ("é", str)


def test_the_text_of_a_result_is_text_wherever_it_is_kept() -> None:
    """It compares, hashes, prints and becomes JSON as text; a copy of it, and what state keeps of it, is plain."""
    text = ToolResult("é").text
    assert (text, hash(text), repr(text), json.dumps([text])) == (
        "é",
        hash("é"),
        "'é'",
        json.dumps(["é"]),
    )
    assert {text: 1}["é"] == 1
    kept = [
        pickle.loads(pickle.dumps(text)),
        copy.deepcopy(text),
        ToolResult(text).result,
        ToolResult([text]).result[0],
        ToolResult("x").with_metadata("a", {text: text}).metadata["a"]["é"],
        freeze(ErrorInfo(text, "x"))["type"],
        AgentState().with_user_message(text).messages[0].text,
    ]
    assert [type(each) for each in kept] == [str] * len(kept)


@pytest.mark.parametrize("status", ResultStatus)
def test_only_a_value_is_a_success(status: ResultStatus) -> None:
    """Blocked, denied and withheld are blocks; errors are neither; nothing is both."""
    result = ToolResult(status=status, error=ERROR)
    assert result.is_success is (status is ResultStatus.OK)
    assert result.is_blocked is (status in ("blocked", "denied", "withheld"))


def test_replacing_a_result_by_none_is_not_the_same_as_not_replacing_it() -> None:
    """None is a value like any other, and makes a failed call a success."""
    failed = ToolResult(None, ERROR, ResultStatus.ERROR, "1", "add", duration=2.0)
    replaced = failed.with_result(None)
    assert (replaced.is_success, replaced.error, replaced.result) == (True, None, None)
    assert (replaced.call_id, replaced.duration) == ("1", 2.0)
    assert failed.error is ERROR


def test_metadata_of_a_result_adds_up() -> None:
    """Each `with_metadata` keeps what was there."""
    result = ToolResult("x").with_metadata("a", [1]).with_metadata("b", {"c": 2})
    assert result.metadata == {"a": [1], "b": {"c": 2}}
    with pytest.raises(NotJSONError, match="metadata 'c' of a tool result"):
        result.with_metadata("c", object())


def test_text_is_rendered_as_it_is_and_the_rest_as_json() -> None:
    """Quotes appear only where JSON needs them."""
    assert render('say "hi"') == 'say "hi"'
    assert render(["hi"]) == '["hi"]'


# --- errors -------------------------------------------------------------------------------------------


def test_an_error_keeps_what_an_exception_was() -> None:
    """Type, words and class; the module is named unless it is a builtin."""
    info = ErrorInfo.from_exception(ValueError("bad"), "tool")
    assert info == ErrorInfo("ValueError", "bad", "tool")
    assert ErrorInfo.from_exception(NotJSONError("x")).type == "hookline.errors.NotJSONError"
    assert str(info) == "bad"
    assert str(ErrorInfo.from_exception(KeyError())) == "KeyError"


def test_an_error_survives_json() -> None:
    """What failed is still known after a state was saved and read."""
    result = ToolResult(None, ERROR, ResultStatus.ERROR, "1", "read")
    read = msgspec.json.decode(msgspec.json.encode(result), type=ToolResult)
    assert (read.error, read.status) == (ERROR, ResultStatus.ERROR)
