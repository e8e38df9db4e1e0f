from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import mcp_types as types
import msgspec
import pytest

from hookline.command_hooks.handler import Level
from hookline.errors import ToolSourceError
from hookline.mcp import McpServer, McpServers
from hookline.mcp.process import ServerProcess, read_message
from hookline.mcp.server import ServerCommand
from hookline.testing import call

Plain = Callable[..., McpServer]
STRAY = pytest.param(
    "--stray",
    marks=pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
)
PROGRAM = """
import asyncio, os, sys
from hookline.mcp import McpServer, McpServers

async def main():
    async with McpServers(McpServer.stdio(sys.executable, sys.argv[1:], name="plain")) as mcp:
        print("connected", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_server_that_exits_by_itself_is_forgotten(
    plain: Plain, notes: Path, is_running: Callable[[int], bool]
) -> None:
    """When the block ends its input ends, and so does the server."""
    async with McpServers(plain()):
        pid = int((notes / "started").read_text())
        assert is_running(pid)
    assert not is_running(pid)


@pytest.mark.parametrize("option", ["--stay", "--child", STRAY])
async def test_nothing_is_left_behind(
    plain: Plain,
    notes: Path,
    is_running: Callable[[int], bool],
    option: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither a server that does not leave, nor what a server started and left behind."""
    monkeypatch.setattr("hookline.mcp.process._GRACE", 0.3)
    async with McpServers(plain(option)):
        pids = _numbers(notes)
    assert pids
    assert [pid for pid in pids if is_running(pid)] == []


def _numbers(notes: Path) -> list[int]:
    """The processes that the server has written down: its own, and its child's."""
    started = [note for note in (notes / "started", notes / "child") if note.exists()]
    return [int(line) for note in started for line in note.read_text().split()]


async def test_nothing_is_left_behind_when_the_block_is_cancelled(
    plain: Plain, notes: Path, is_running: Callable[[int], bool]
) -> None:
    """A task that is cancelled in the middle takes its servers with it."""
    connected = asyncio.Event()

    async def work() -> None:
        async with McpServers(plain("--child")):
            connected.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await connected.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert [pid for pid in _numbers(notes) if is_running(pid)] == []


async def test_nothing_is_left_behind_when_connecting_is_cancelled(
    plain: Plain, notes: Path, is_running: Callable[[int], bool]
) -> None:
    """Also a server that had not answered yet is ended."""
    task = asyncio.create_task(McpServers(plain("--mute")).__aenter__())
    while not (notes / "started").exists():  # noqa: ASYNC110 - the server writes a file
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    assert not is_running(int((notes / "started").read_text()))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
async def test_a_start_that_is_cancelled_ends_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At whichever turn of the event loop, also if the server has started something by then."""
    monkeypatch.setattr("hookline.mcp.process._GRACE", 0.3)
    seconds = f"57{os.getpid():07}"
    shell = ServerCommand("sh", ("-c", f"sleep {seconds} & sleep {seconds}"))
    for turns in range(6):
        process = ServerProcess(shell, print)
        entering = asyncio.create_task(process.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        entering.cancel()
        done, _ = await asyncio.wait([entering], timeout=20)
        assert done, f"after {turns} turns it is still waited for"
        if not entering.cancelled():  # it was started before
            await process.__aexit__()
    assert not _runs(f"sleep {seconds}")


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")
async def test_a_daemon_of_a_server_ends_with_it() -> None:
    """Also one that has no parent, no session and no environment of the server any more."""
    seconds = f"58{os.getpid():07}"
    daemon = f"(env -i setsid sh -c 'exec sleep {seconds} >&- 2>&-' &); cat"
    async with ServerProcess(ServerCommand("sh", ("-c", daemon)), print):
        while not _runs(f"sleep {seconds}"):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
    assert not _runs(f"sleep {seconds}")


def _runs(words: str) -> bool:
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if words.encode() in line.read_bytes().replace(b"\0", b" "):
                return True
    return False


def test_a_server_notices_when_we_are_killed(
    plain: Plain, notes: Path, is_running: Callable[[int], bool]
) -> None:
    """Its input ends with us, however we end."""
    args = [str(arg) for arg in plain().target.args]  # type: ignore[union-attr]
    command = [sys.executable, "-c", PROGRAM, *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"connected\n"
        pid = int((notes / "started").read_text())
        assert is_running(pid)
        process.kill()
    # The test's own time limit ends this, should it be wrong.
    while is_running(pid):
        time.sleep(0.01)


async def test_what_is_no_message_does_no_harm(plain: Plain, use: Any) -> None:
    """A server that greets people on its output is understood all the same."""
    async with McpServers(plain("--noise")) as mcp:
        used = await use(mcp, call("mcp__plain__echo", text="hi"))
    assert used.results[0].text == "hi"


async def test_what_a_server_says_goes_to_the_log(
    plain: Plain, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not to the terminal, and without the keys it was given."""
    caplog.set_level(logging.INFO, "hookline.mcp")
    async with McpServers(plain("--words", env={"KEY": "sk-123456"})):
        pass
    assert "plain: my key is [hidden]" in caplog.messages
    assert capfd.readouterr() == ("", "")


async def test_a_server_gets_its_own_variables_and_few_of_ours(
    plain: Plain, use: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not get keys from our environment."""
    monkeypatch.setenv("OUR_KEY", "secret")
    async with McpServers(plain(env={"ITS_KEY": "given"})) as mcp:
        used = await use(
            mcp, *[call("mcp__plain__env", text=name) for name in ("OUR_KEY", "ITS_KEY")]
        )
    assert [result.text for result in used.results] == ["not there", "given"]


async def test_a_message_may_be_long(plain: Plain, use: Any) -> None:
    """Longer than any buffer on the way."""
    async with McpServers(plain()) as mcp:
        used = await use(mcp, call("mcp__plain__echo", text="x" * 2_000_000))
    assert used.results[0].result == "x" * 2_000_000


async def test_an_answer_that_cannot_be_read_is_an_error_at_once(plain: Plain, use: Any) -> None:
    """And one that can be fixed is no error."""
    async with McpServers(plain(timeout=30)) as mcp:
        used = await use(mcp, call("mcp__plain__deep"), call("mcp__plain__half"))
    deep, half = used.results
    assert "MCP server 'plain': its answer cannot be read (Invalid JSON: recursion" in deep.text
    assert deep.duration < 10
    assert half.result == "half \ufffd"


@pytest.mark.parametrize(
    ("server", "problem", "remedy"),
    [
        (
            McpServer.stdio("no-such-program", name="a"),
            "no program 'no-such-program'",
            "Install it",
        ),
        (
            McpServer.stdio(sys.executable, cwd="/no/such", name="a"),
            "no directory '/no/such'",
            "cwd=",
        ),
        (McpServer.stdio("/", name="a"), "'/' cannot be started", "from a terminal"),
        (McpServer.stdio("a\0b", name="a"), "cannot be started", "from a terminal"),
    ],
)
async def test_what_cannot_be_started_is_reported(
    server: McpServer, problem: str, remedy: str
) -> None:
    """With the server's name, the reason and what to do."""
    with pytest.raises(ToolSourceError, match=problem) as refused:
        await McpServers(server).__aenter__()
    assert str(refused.value).startswith("MCP server 'a': ")
    assert remedy in refused.value.remedy


async def test_a_server_that_fails_to_start_is_quoted(plain: Plain) -> None:
    """Its exit code and its last words are in the error; its keys are not."""
    with pytest.raises(ToolSourceError, match="it exited with code 3") as refused:
        await McpServers(plain("--crash", env={"KEY": "sk-123456"})).__aenter__()
    assert "It said last: no database at [hidden]" in str(refused.value)


async def test_a_server_that_does_not_answer_is_given_up(
    plain: Plain,
    notes: Path,
    is_running: Callable[[int], bool],
    skip_time: Callable[[float, Callable[[], bool]], asyncio.Task[None]],
) -> None:
    """After its time, and it is not left running."""
    started = notes / "started"
    skipped = skip_time(60, lambda: started.exists() and started.read_text().endswith("\n"))
    with pytest.raises(ToolSourceError, match=r"did not answer within 60 s") as refused:
        await McpServers(plain("--mute", connect_timeout=60)).__aenter__()
    await skipped
    assert "connect_timeout=" in refused.value.remedy
    assert not is_running(int(started.read_text()))


async def test_a_server_that_does_not_want_us_is_quoted(plain: Plain) -> None:
    """An error in answer to the greeting is reported as one."""
    with pytest.raises(
        ToolSourceError, match=r"answered the first message with an error \(what is initialize"
    ):
        await McpServers(plain("--unwilling")).__aenter__()


async def test_an_invalid_list_is_reported(plain: Plain) -> None:
    """What is not in the protocol is not passed on."""
    with pytest.raises(
        ToolSourceError, match="answered the list of its tools with something that is not"
    ):
        await McpServers(plain("--nonsense")).__aenter__()


async def test_one_server_that_fails_ends_the_others(
    plain: Plain, notes: Path, is_running: Callable[[int], bool]
) -> None:
    """A block that cannot begin leaves nothing behind."""
    with pytest.raises(ToolSourceError, match="no-such-program"):
        await McpServers(plain("--mute"), McpServer.stdio("no-such-program")).__aenter__()
    started = notes / "started"
    assert not (started.exists() and is_running(int(started.read_text())))


def line(**message: Any) -> bytes:
    """A message as servers write it."""
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("a\x00b\ud83d", "a\x00b\ufffd"),
        ("\ude00\ud83d!", "\ufffd\ufffd!"),
        ("\U0001f600", "\U0001f600"),
        ("\\ud83d \ud83d", "\\ud83d \ufffd"),
    ],
)
def test_half_a_letter_is_replaced(said: str, read: str) -> None:
    """What is a whole letter, or only looks like half of one, stays as it is."""
    message = read_message(line(id=3, result={"text": said}))
    assert message == types.JSONRPCResponse(jsonrpc="2.0", id=3, result={"text": read})


def test_bytes_that_are_no_text_are_replaced() -> None:
    """A server that writes in another encoding is read as far as it can be."""
    message = read_message(line(id=3, result={"text": "TEXT"}).replace(b"TEXT", b"caf\xe9"))
    assert isinstance(message, types.JSONRPCResponse)
    assert message.result == {"text": "caf\ufffd"}


@pytest.mark.parametrize("depth", [900, 100_000])
@pytest.mark.parametrize("request_id", [3, "q"])
def test_an_answer_that_is_too_deep_is_an_error_of_its_request(
    depth: int, request_id: int | str
) -> None:
    """Wherever the id is, and whatever else is called so in the answer."""
    deep = '{"id":7,"a":' * depth + "1" + "}" * depth
    shown = json.dumps(request_id)
    for text in (f'"id":{shown},"result":{deep}', f'"result":{deep},"id":{shown}'):
        message = read_message(f'{{"jsonrpc":"2.0",{text}}}'.encode())
        assert isinstance(message, types.JSONRPCError)
        assert message.id == request_id
        assert message.error.message.startswith("its answer cannot be read (")


@pytest.mark.parametrize("text", [b'{"jsonrpc":"2.0","id":3,"result":{"a":', b'{"id":3,"error":5}'])
def test_an_answer_that_is_broken_is_an_error_of_its_request(text: bytes) -> None:
    """Nobody waits for what will not come."""
    message = read_message(text)
    assert isinstance(message, types.JSONRPCError)
    assert message.id == 3


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"Hello!",
        b"[]",
        b"}}",
        b'{"jsonrpc":"2.0"}',
        b'{"id":3,"method":1}',
        b'{"id":{},"error":',
        b"\x00\xff",
    ],
)
def test_an_invalid_message_is_ignored(text: bytes) -> None:
    """Servers print all kinds of things."""
    assert read_message(text) is None


async def test_a_server_imports_nothing_from_the_directory_it_starts_in(
    tmp_path: Path, plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a clone that nobody trusts. A script has the modules beside itself, and `env` counts."""
    canary = tmp_path / "CANARY"
    (tmp_path / "json.py").write_text(f"open({str(canary)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    module = McpServer.stdio(sys.executable, ["-m", "json.tool", "/dev/null"], name="tool")
    with pytest.raises(ToolSourceError):
        await McpServers(module).__aenter__()
    async with McpServers(plain()):
        pass
    assert not canary.exists()
    (tmp_path / "own.py").write_text("import sys\nsys.exit('found')\n")
    for env, words in (({}, "No module named own"), ({"PYTHONSAFEPATH": ""}, "found")):
        own = McpServer.stdio(sys.executable, ["-m", "own"], env=env, name="own")
        (tmp_path / "json.py").unlink(missing_ok=True)
        with pytest.raises(ToolSourceError, match=words):
            await McpServers(own).__aenter__()


@pytest.mark.parametrize("name", ["tools/server.py", "tools/helper.py"])
async def test_a_server_is_not_started_from_files_that_have_changed(
    tmp_path: Path, name: str
) -> None:
    """Whoever changed them: a command on the host, another tool, the server itself."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/server.py").write_text("raise SystemExit('as it was')")
    server = McpServer.stdio(sys.executable, ["tools/server.py"], cwd=tmp_path)
    command = cast(ServerCommand, server.target).pin_files(Level.PROJECT, tmp_path)
    pinned = msgspec.structs.replace(server, target=command)
    with pytest.raises(ToolSourceError, match="as it was"):
        await McpServers(pinned).__aenter__()
    (tmp_path / name).write_text("raise SystemExit('changed')")
    with pytest.raises(ToolSourceError, match=r"not started: .* has changed since it was trusted"):
        await McpServers(pinned).__aenter__()


def test_the_directory_of_a_servers_script_is_held(tmp_path: Path) -> None:
    """A server that is started again must be the same: neither commands nor tools write there."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/server.py").write_text("")
    server = McpServer.stdio("python3", ["tools/server.py", "src"], cwd=tmp_path)
    held = McpServers(server, McpServer.http("https://b.example/mcp", name="far")).protected_files()
    assert held == {str(tmp_path / "tools"), str(tmp_path / "tools/server.py")}
    (tmp_path / "lib").mkdir()
    more = McpServer.stdio("python3", ["x.py"], cwd=tmp_path, files=[tmp_path / "lib"])
    missing = str(tmp_path / "x.py")  # nobody may make it
    assert McpServers(more).protected_files() == {str(tmp_path / "lib"), missing}


def test_the_directory_of_a_servers_script_is_held_wherever_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a directory of its own, or elsewhere. From the top directory of a project it imports nothing."""
    for name in ("srv/server.py", "server.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("import json\n")
    (tmp_path / "other").mkdir()
    script, srv = str(tmp_path / "srv/server.py"), str(tmp_path / "srv")
    monkeypatch.chdir(tmp_path)
    inner = McpServer.stdio("python3", ["server.py"], cwd="srv")
    elsewhere = McpServer.stdio("python3", [script], cwd=tmp_path / "other", name="b")
    assert all(srv in McpServers(each).protected_files() for each in (inner, elsewhere))
    top = McpServer.stdio("python3", ["server.py"], name="c").target
    assert isinstance(top, ServerCommand)
    assert isinstance(inner.target, ServerCommand)
    assert str(tmp_path) not in top.search["PYTHONPATH"].split(":")
    assert srv in inner.target.search["PYTHONPATH"].split(":")
    monkeypatch.chdir(tmp_path / "other")
    assert srv in McpServers(McpServer.stdio("python3", [script])).protected_files()
