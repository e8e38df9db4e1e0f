"""The tools of an agent, by name."""

from __future__ import annotations

import pytest

from hookline.errors import ToolDefinitionError, UnknownToolError
from hookline.tools import AnyTool, Toolbox, tool


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return path


def write_file(path: str, text: str) -> None:
    """Write a file."""


def named(name: str) -> AnyTool:
    """A tool of any name."""
    return tool(name=name)(write_file)


def test_a_box_holds_tools_and_bare_functions_in_order() -> None:
    """It is read by name, and shows the models what it holds."""
    box = Toolbox([read_file, write_file])
    assert box.get("read_file") is read_file
    assert box.get("read") is None
    assert [each.name for each in box] == ["read_file", "write_file"]
    assert [spec.description for spec in box.specs] == ["Read a file.", "Write a file."]
    assert (len(box), "read_file" in box, "read" in box) == (2, True, False)
    assert repr(box) == "Toolbox(read_file, write_file)"


def test_more_tools_make_another_box() -> None:
    """The first one stays as it was."""
    empty = Toolbox()
    one = empty.with_tools(read_file)
    assert (len(empty), empty.specs, len(one.with_tools(write_file)), len(one)) == (0, (), 2, 1)


def test_two_tools_of_one_name_are_refused() -> None:
    """Both origins are named; the same tool twice is one tool."""

    @tool(name="read_file")
    def other(url: str) -> None: ...

    with pytest.raises(ToolDefinitionError) as caught:
        Toolbox([read_file, other])
    assert "two tools are called 'read_file': " in str(caught.value)
    assert "test_toolbox.read_file (line " in str(caught.value)
    assert "<locals>.other (line " in str(caught.value)
    assert len(Toolbox([read_file, read_file])) == 1


def test_what_is_no_tool_is_refused_when_the_box_is_made() -> None:
    """Not when it is called."""
    with pytest.raises(ToolDefinitionError, match=r"5 \(int\) cannot be a tool"):
        Toolbox([5])  # type: ignore[list-item]


def test_an_unknown_name_is_answered_with_the_closest_ones() -> None:
    """And with all of them, when they are few."""
    error = Toolbox([read_file, write_file]).unknown("ReadFile")
    assert isinstance(error, UnknownToolError)
    assert str(error) == (
        "there is no tool 'ReadFile'. Did you mean 'read_file' or 'write_file'? Your tools are: read_file, write_file."
    )
    assert "Did you mean" not in str(Toolbox([read_file]).unknown("sing"))


def test_many_tools_are_not_listed() -> None:
    """Only what was probably meant."""
    box = Toolbox([named(f"tool_{number}") for number in range(40)])
    text = str(box.unknown("tool_399"))
    assert "'tool_39'" in text
    assert "tool_20" not in text


def test_a_box_without_tools_says_so() -> None:
    """There is nothing to be close to."""
    assert (
        str(Toolbox().unknown("f"))
        == "there is no tool 'f': you have no tools. Answer without one."
    )
