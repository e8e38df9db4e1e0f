"""`hookline mcp-serve` as a process, used through our own client and through the SDK's."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from hookline import AgentBuilder, Decision
from hookline.cli import main
from hookline.mcp import McpServer, McpServers
from hookline.testing import ScriptedDriver, call, say

MODULE = '''
import asyncio
import contextlib
import sys
from pathlib import Path

from hookline import AgentBuilder, HookOutcome, ToolContext, tool
from hookline.testing import ScriptedDriver, call, say

print("a module that prints while it is imported")


@tool
async def work(seconds: float, context: ToolContext) -> str:
    """Work for so long."""
    print("a tool that prints")
    context.progress("half done")
    Path("working").write_text("yes")
    await asyncio.sleep(seconds)
    return "worked"


def describe(seconds: float = 0.0) -> AgentBuilder:
    turns = [call("work", seconds=seconds), say("All done.")]
    return AgentBuilder().with_id("worker").with_driver(ScriptedDriver(turns)).with_tools(work)


agent = describe().build()
builder = describe()


def slow() -> AgentBuilder:
    return describe(60).on_execution_end(lambda ctx: Path("ended").write_text(ctx.status))


def careful() -> AgentBuilder:
    return describe().on_before_tool_use(lambda _: HookOutcome.ask("sure?"), name="care")


async def later():
    return describe()


@contextlib.asynccontextmanager
async def opened():
    try:
        yield describe().build()
    finally:
        Path("closed").touch()


wrong = 5
'''

COMMAND = ["-c", "import sys; from hookline.cli import main; sys.exit(main())", "mcp-serve"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a module of agents in it."""
    (tmp_path / "agents.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def over_http(project: Path) -> Iterator[Callable[[str], str]]:
    """Serve an agent over HTTP; gives its address."""
    started: list[subprocess.Popen[str]] = []

    def start(target: str) -> str:
        command = [sys.executable, *COMMAND, target, "--http", "127.0.0.1:0"]
        process = subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("listening on "):
                return line.removeprefix("listening on ").strip()
        raise AssertionError("it never listened")

    yield start
    for process in started:
        process.terminate()
        process.communicate()
        assert process.returncode != 0


def ours(project: Path, target: str) -> McpServer:
    """The agent's server, for our own client."""
    return McpServer.stdio(sys.executable, [*COMMAND, target], cwd=project, name="far")


async def run_far(server: McpServer, approver: Any = None) -> tuple[Any, list[Any]]:
    """Let an agent of ours call the far agent; gives the result of the call and what it reported."""
    messages: list[Any] = []

    def hear(record: Any) -> None:
        if record.type == "progress":
            messages.append(record.message["message"])

    driver = ScriptedDriver([call("mcp__far__run", prompt="go"), say("done")])
    async with McpServers(server) as mcp:
        builder = AgentBuilder().with_driver(driver).with_capability(mcp).on_event(hear)
        if approver is not None:
            builder.with_approver(approver)
        result = await builder.build().run("go")
    return result.steps[0].results[0], messages


@pytest.mark.parametrize("target", ["agents:agent", "agents:opened"])
async def test_an_agent_uses_an_agent(project: Path, target: str) -> None:
    """Over pipes, whatever the far one prints; it reports progress."""
    result, messages = await run_far(ours(project, target))
    assert result.result == "All done."
    assert messages == ["step 1", "calls work", "work: half done", "step 2"]
    assert (project / "closed").exists() == (target == "agents:opened")


async def test_an_agent_uses_an_agent_over_http(over_http: Callable[[str], str]) -> None:
    """The same over streamable HTTP."""
    result, messages = await run_far(McpServer.http(over_http("agents:builder"), name="far"))
    assert result.result == "All done."
    assert messages == ["step 1", "calls work", "work: half done", "step 2"]


async def test_what_the_far_agent_asks_our_approver_answers(project: Path) -> None:
    """A question goes all the way to the person, and the answer all the way back."""
    answer = Decision.edit(answer="allow")
    result, _ = await run_far(ours(project, "agents:careful"), lambda _: answer)
    assert result.result == "All done."
    nobody, _ = await run_far(ours(project, "agents:careful"))
    assert nobody.result == "All done.", "a no is an answer as well"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdk_uses_an_agent(project: Path, mode: str) -> None:
    """With the client of the SDK, in the older protocol and in the newer one."""
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": "allow"})

    server = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, "agents:careful"], cwd=project
    )
    async with Client(server, mode=mode, elicitation_callback=answer) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert result.structured_content["status"] == "completed"
    assert len(asked) == 1


async def test_the_sdk_uses_an_agent_over_http(over_http: Callable[[str], str]) -> None:
    """The older protocol over HTTP has sessions, and asks over the stream of the call."""

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"answer": "allow"})

    url = over_http("agents:careful")
    async with Client(url, mode="legacy", elicitation_callback=answer) as client:
        result = await client.call_tool("run", {"prompt": "go"})
    assert result.structured_content["status"] == "completed"


@pytest.mark.parametrize("way", ["pipes", "http"])
async def test_a_client_that_leaves_cancels_the_run(
    project: Path, way: str, over_http: Callable[[str], str]
) -> None:
    """The remote run ends, too."""
    http = way == "http"
    server = (
        McpServer.http(over_http("agents:slow"), name="far")
        if http
        else ours(project, "agents:slow")
    )
    async with McpServers(server) as mcp:
        [run] = mcp.tools()
        calling = asyncio.create_task(run(arguments={"prompt": "go"}))  # type: ignore[arg-type]
        await until(project / "working")
        calling.cancel()
        await until(project / "ended")
    assert (project / "ended").read_text() == "cancelled"


async def until(path: Path) -> None:
    """Wait for a file with a text."""
    while not (path.exists() and path.read_text()):  # noqa: ASYNC110, ASYNC240 - another process does
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_closes_the_agent_when_it_is_terminated(project: Path, number: int) -> None:
    """What the agent has open is closed, and the exit code says that it was interrupted."""
    command = [sys.executable, *COMMAND, "agents:opened"]
    pipe = subprocess.PIPE

    def listen() -> None:
        signal.signal(number, signal.SIG_DFL)  # whoever runs the tests in the background ignores it

    with subprocess.Popen(
        command, cwd=project, stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=listen
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        greeting = {"protocolVersion": "2025-11-25", "capabilities": {}}
        info = '"clientInfo":{"name":"t","version":"1"}'
        text = f'{{"protocolVersion":"{greeting["protocolVersion"]}","capabilities":{{}},{info}}}'
        line = f'{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{text}}}\n'
        process.stdin.write(line.encode())
        process.stdin.flush()
        assert b'"serverInfo"' in process.stdout.readline()
        process.send_signal(number)
        assert process.wait() == 130
    assert (project / "closed").exists()


@pytest.mark.parametrize(
    ("target", "problem", "remedy"),
    [
        ("agents", "does not name an agent", "MODULE:NAME"),
        ("nowhere:agent", "there is no module 'nowhere'", "in its directory"),
        ("agents:nobody", "module 'agents' has no 'nobody'", "the name of the agent"),
        ("agents:wrong", "which is not an agent", "a builder"),
    ],
)
def test_what_is_no_agent_is_reported(
    project: Path,
    target: str,
    problem: str,
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In one line, with what to do, and nothing on standard output."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "agents", raising=False)
    assert main(["mcp-serve", target]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    [line] = [each for each in shown.err.splitlines() if each.startswith("hookline: ")]
    assert problem in line
    assert remedy in line


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid", "192.0.2.1", "a..b"])
def test_where_nobody_can_listen_is_reported(
    project: Path, host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A port in use, a host that is unknown, an address of another machine: in one line, with what to do."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "agents", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        assert main(["mcp-serve", "agents:agent", "--http", f"{host}:{port}"]) == 1
    shown = capsys.readouterr().err
    assert f"hookline: it is not possible to listen at host '{host}', port {port} (" in shown
    assert "Give an address of this machine" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("address", ["8000", "host:port", "host:70000", ":80"])
def test_an_invalid_address_is_wrong_use(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With an example of one."""
    with pytest.raises(SystemExit) as exit:
        main(["mcp-serve", "agents:agent", "--http", address])
    assert exit.value.code == 2
    assert "127.0.0.1:8000" in capsys.readouterr().err
