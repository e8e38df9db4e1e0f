from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import AgentBuilder
from hookline.drivers import ScriptedDriver
from hookline.errors import BuildError


def write(path: Path, script: Any) -> Path:
    """A script in a file; text is written as it is."""
    file = path / "script.json"
    file.write_text(script if isinstance(script, str) else json.dumps(script), encoding="utf-8")
    return file


def echo(text: str = "") -> str:
    """Say it again."""
    return text


def test_a_script_is_played_from_a_file(tmp_path: Path) -> None:
    """Calls, several calls, words, words with a call, tokens."""
    file = write(
        tmp_path,
        [
            {"call": "echo", "args": {"text": "a"}},
            {"calls": [{"call": "echo", "args": {"text": "b"}}, {"call": "echo"}], "tokens": 3},
            {"say": "Hm.", "call": "echo"},
            {"say": "Done.", "tokens": 4},
        ],
    )
    agent = AgentBuilder().with_model(f"script:{file}").with_tools(echo).build()
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
        ([{"say": "a"}, "b"], "has something that is not an object in turn 2"),
        ([{"sya": "a"}], "has the unknown key 'sya' in turn 1"),
        ([{}], "neither says nor calls anything in turn 1"),
        ([{"calls": []}], "neither says nor calls anything in turn 1"),
        ([{"say": 5}], "has 'say' in turn 1 that is not text"),
        ([{"say": "a", "tokens": True}], "has 'tokens' in turn 1 that is not a whole number"),
        ([{"say": "a", "tokens": -1}], "has 'tokens' below zero in turn 1"),
        ([{"say": "a", "args": {}}], "has 'args' without a 'call' in turn 1"),
        ([{"call": "a", "calls": []}], "has 'call' and 'calls' in turn 1"),
        ([{"call": 5}], "has 'call' in turn 1 that is not a tool's name"),
        ([{"call": "a", "args": [1]}], "has 'args' in turn 1 that is not an object"),
        ([{"calls": {"call": "a"}}], "has 'calls' in turn 1 that is not a list"),
        ([{"calls": [{"call": "a"}, {"args": {}}]}], "has no 'call' in turn 1, call 2"),
        ([{"calls": [{"call": "a", "say": "b"}]}], "has the unknown key 'say' in turn 1, call 1"),
        ('[{"call": "a", "args": {"x": NaN}}]', "has wrong 'args' in turn 1: an argument is nan"),
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
