from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import BuildError
from hookline.mcp import McpServer
from hookline.mcp.server import tool_name, tool_names


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("mcp-server-time", "time"),
        ("/opt/bin/mcp-server-git", "git"),
        ("server-files", "files"),
        ("weather-mcp", "weather"),
        ("weird name!", "weird_name_"),
        ("mcp", "mcp"),
    ],
)
def test_a_server_is_named_after_its_program(program: str, name: str) -> None:
    """Unless it is given a name, and short."""
    assert McpServer.stdio(program).name == name


def test_a_server_is_named_after_its_host() -> None:
    """With letters that can be part of a tool's name."""
    assert McpServer.http("https://mcp.example.com/v1/mcp").name == "example_com"


def test_keys_are_not_shown() -> None:
    """Neither in what a server looks like, nor in text that is about it."""
    local = McpServer.stdio("serve", env={"API_KEY": "sk-123456", "MODE": "on"})
    far = McpServer.http(
        "https://me:passw0rd@example.com/mcp?key=abcdefgh",
        headers={"Authorization": "Bearer sk-654321"},
    )
    assert "sk-123456" not in repr(local)
    assert not any(key in repr(far) for key in ("sk-654321", "passw0rd", "abcdefgh"))
    assert local.hide("sk-123456 is on") == "[hidden] is on"
    said = "Bearer sk-654321, sk-654321, passw0rd, abcdefgh"
    assert far.hide(said) == "[hidden], [hidden], [hidden], [hidden]"


def test_roots_are_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may be started elsewhere, and must know what is meant."""
    monkeypatch.chdir(tmp_path)
    assert McpServer.stdio("x", roots=["data"]).roots == (str(tmp_path / "data"),)


@pytest.mark.parametrize(
    ("describe", "problem", "remedy"),
    [
        (lambda: McpServer.stdio("x", name="a b"), "cannot be called 'a b'", "name='files'"),
        (lambda: McpServer.stdio("x", "-m thing"), "is one text", r"\['-m', 'thing'\]"),
        (lambda: McpServer.stdio("x", roots="/tmp"), "is one text", r"\['/tmp'\]"),
        (lambda: McpServer.stdio("x", timeout=0), "timeout=0 is not", "timeout=None"),
        (lambda: McpServer.stdio("x", connect_timeout=-1), "connect_timeout=-1", "or leave it out"),
        (lambda: McpServer.http("example.com/mcp"), "not the address", "https://example.com/mcp"),
        (lambda: McpServer.http("ws://u:secret@h/x"), r"'ws://h/x' is not", "Give all of it"),
    ],
)
def test_what_cannot_be_a_server_is_refused(describe: Any, problem: str, remedy: str) -> None:
    """When it is described, with what to write instead."""
    with pytest.raises(BuildError, match=problem) as refused:
        describe()
    assert "secret" not in str(refused.value)
    assert re.search(remedy, refused.value.remedy)


def test_a_server_is_identified_by_its_command_or_address() -> None:
    """A command by its words, an address without what may be a key. Hooks use it to know the server of a tool."""
    assert McpServer.stdio("npx", ["-y", "server"], name="a").target.words == (
        "npx",
        "-y",
        "server",
    )
    address = "https://user:word@mcp.example.com/v1?key=1"
    assert McpServer.http(address, name="b").target.words == ("https://mcp.example.com/v1",)


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("echo", "mcp__files__echo"),
        ("get-sum", "mcp__files__get-sum"),
        ("a.b/c", "mcp__files__a_b_c"),
    ],
)
def test_a_tool_is_called_after_its_server(tool: str, name: str) -> None:
    """With the letters that models can write."""
    assert tool_name("files", tool) == name


def test_a_long_name_is_cut_and_stays_distinct() -> None:
    """Two tools that differ only in what is cut off have two names."""
    one, other = (tool_name("files", "x" * 70 + end) for end in "ab")
    assert one != other
    assert len(one) == len(other) == 64


def test_the_tool_that_has_the_name_keeps_it() -> None:
    """Of two whose names are written the same here, the other one is called something else."""
    names = tool_names("s", ["a.b", "a_b"])
    assert names["a_b"] == "mcp__s__a_b"
    assert re.fullmatch(r"mcp__s__a_b_[0-9a-f]{8}", names["a.b"])


@given(st.sets(st.text(max_size=80), max_size=6))
def test_every_tool_has_a_name_of_its_own(tools: set[str]) -> None:
    """Whatever servers call their tools, and in whatever order they list them."""
    names = tool_names("server", sorted(tools))
    assert len(set(names.values())) == len(tools)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names.values())
    assert names == tool_names("server", sorted(tools, reverse=True))
