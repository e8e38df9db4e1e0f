"""Servers that other people wrote, from PyPI and npm, as they are installed by `scripts/mcp_servers.py`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

from hookline import AgentBuilder, Decision, RunStatus
from hookline.mcp import McpServer, McpServers
from hookline.state import ResultStatus
from hookline.testing import ScriptedDriver, call, calls
from hookline.tools import Effect

Public = Callable[..., McpServer]


def servers(name: str) -> set[int]:
    """The servers of this name that this process has started, by its supervisor, and that are still there."""
    below_us = {pid for leader in below(os.getpid()) for pid in below(leader)}
    return {pid for pid in below_us if name in read(Path(f"/proc/{pid}/cmdline"))}


def below(pid: int) -> set[int]:
    """The children of a process."""
    lists = [read(task) for task in Path(f"/proc/{pid}/task").glob("*/children")]
    return {int(number) for text in lists for number in text.split()}


def read(path: Path) -> str:
    """What the system says about a process; nothing about one that is gone."""
    try:
        return path.read_text()
    except OSError:
        return ""


async def test_the_time_server_returns_the_time(public: Public, use: Any) -> None:
    """Lists, answers with text and structure, and makes errors that a model can read."""
    async with McpServers(public("mcp-server-time")) as mcp:
        effects = {tool.name: tool.effect for tool in mcp.tools()}
        used = await use(
            mcp,
            call(
                "mcp__time__convert_time",
                source_timezone="Asia/Tokyo",
                time="12:00",
                target_timezone="UTC",
            ),
            call("mcp__time__get_current_time", timezone="Mars/Olympus"),
            call("mcp__time__get_current_time"),
        )
    assert effects["mcp__time__convert_time"] is Effect.PURE
    noon, mars, nothing = used.results
    assert noon.metadata["structured"]["target"]["datetime"].endswith("T03:00:00+00:00")
    assert "T03:00:00+00:00" in noon.text
    assert mars.status is ResultStatus.ERROR
    assert "Mars/Olympus" in mars.text
    assert nothing.status is ResultStatus.INVALID


def make_repository(place: Path) -> None:
    """A repository with one file that is not in it yet."""
    settings = (("init", "-q"), ("config", "user.name", "A"), ("config", "user.email", "a@b.c"))
    for arguments in settings:
        subprocess.run(["git", "-C", place, *arguments], check=True)
    (place / "a.txt").write_text("hello\n")


async def test_git_works_in_a_repository(public: Public, use: Any, tmp_path: Path) -> None:
    """Reading is pure, committing is not, and both happen."""
    make_repository(tmp_path)
    where = {"repo_path": str(tmp_path)}
    async with McpServers(public("mcp-server-git")) as mcp:
        effects = {tool.name: tool.effect for tool in mcp.tools()}
        used = await use(
            mcp,
            call("mcp__git__git_add", **where, files=["a.txt"]),
            call("mcp__git__git_commit", **where, message="Say hello"),
            call("mcp__git__git_log", **where),
            call("mcp__git__git_status", repo_path=str(tmp_path / "nowhere")),
        )
    added, committed, log, nowhere = used.results
    assert [result.status for result in (added, committed, log)] == [ResultStatus.OK] * 3
    assert "Say hello" in log.text
    assert nowhere.status is ResultStatus.ERROR
    assert effects["mcp__git__git_log"] is Effect.PURE
    assert effects["mcp__git__git_add"] is Effect.IDEMPOTENT
    assert effects["mcp__git__git_commit"] is Effect.ONCE


async def test_everything_shows_what_there_is(public: Public, use: Any, tmp_path: Path) -> None:
    """Structure, pictures, progress, roots, resources and prompts of the reference server."""
    server = public(
        "mcp-server-everything", "stdio", roots=[tmp_path], resources=True, prompts=True
    )
    async with McpServers(server) as mcp:
        far = "mcp__everything__"
        used = await use(
            mcp,
            call(f"{far}echo", message="hi"),
            call(f"{far}get-sum", a=2, b="three"),
            call(f"{far}get-tiny-image"),
            call(f"{far}get-structured-content", location="Chicago"),
            call(f"{far}trigger-long-running-operation", duration=0.2, steps=2),
            call(f"{far}get-roots-list"),
            call(f"{far}list_resources"),
            call(f"{far}read_resource", uri="demo://resource/dynamic/text/1"),
            call(f"{far}read_resource", uri="demo://nowhere"),
            call(f"{far}list_prompts"),
            call(f"{far}get_prompt", name="args-prompt", arguments={"city": "Oslo"}),
        )
    echo, wrong, image, structure, slow, roots, resources, one, nowhere, prompts, oslo = (
        used.results
    )
    assert echo.result == "Echo: hi"
    assert "'b': 'three' is not of type 'number'" in wrong.text
    assert image.attachments[0].media_type == "image/png"
    assert set(structure.metadata["structured"]) == {"temperature", "conditions", "humidity"}
    assert slow.is_success
    assert [(each["progress"], each["total"]) for each in used.progress] == [(1, 2), (2, 2)]
    assert tmp_path.as_uri() in roots.text
    assert {"uri_template"} <= {key for each in resources.result for key in each}
    assert "Resource 1" in one.text
    assert nowhere.status is ResultStatus.ERROR
    assert {"name": "city", "description": "Name of the city"} in [
        argument for prompt in prompts.result for argument in prompt["arguments"]
    ]
    assert oslo.text == "user: What's weather in Oslo?"


async def test_everything_asks_the_person(public: Public, use: Any) -> None:
    """Its form is filled in by the approver; with none it is declined."""
    ask = call("mcp__everything__trigger-elicitation-request")
    async with McpServers(public("mcp-server-everything", "stdio")) as mcp:
        filled = await use(mcp, ask, approver=lambda _: Decision.edit(name="Ada Lovelace"))
        declined = await use(mcp, ask)
    assert '"action": "accept"' in filled.results[0].text
    assert "Name: Ada Lovelace" in filled.results[0].text
    assert '"action": "decline"' in declined.results[0].text


async def test_everything_can_be_cancelled_and_timed(public: Public, use: Any) -> None:
    """A call that takes a minute is left when its time is over, and when its run is cancelled."""
    slow = call("mcp__everything__trigger-long-running-operation", duration=60, steps=600)
    async with McpServers(public("mcp-server-everything", "stdio", timeout=3)) as mcp:
        late = await use(mcp, slow)
        after = await use(mcp, call("mcp__everything__echo", message="there"))
    assert "did not finish within 3 s" in late.results[0].text
    assert after.results[0].result == "Echo: there"

    begun = asyncio.Event()

    def hear(record: Any) -> None:
        if record.type == "progress":
            begun.set()

    async with McpServers(public("mcp-server-everything", "stdio")) as mcp:
        builder = AgentBuilder().with_driver(ScriptedDriver([slow])).with_capability(mcp)
        agent = builder.on_event(hear).build()
        running = asyncio.create_task(agent.run("go"))
        await begun.wait()
        agent.cancel()
        assert (await running).status is RunStatus.CANCELLED
        again = await use(mcp, call("mcp__everything__echo", message="there"))
    assert again.results[0].result == "Echo: there"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
async def test_everything_is_killed_in_the_middle_and_started_again(
    public: Public, use: Any
) -> None:
    """The call in progress says so, the next one works, and nothing is left behind."""
    begun = asyncio.Event()

    async def kill() -> None:
        await begun.wait()
        [pid] = servers("server-everything")
        os.kill(pid, signal.SIGKILL)

    def hear(record: Any) -> None:
        if record.type == "progress":
            begun.set()

    async with McpServers(public("mcp-server-everything", "stdio")) as mcp:
        slow = call("mcp__everything__trigger-long-running-operation", duration=60, steps=600)
        driver = ScriptedDriver([slow, call("mcp__everything__echo", message="back")])
        killing = asyncio.create_task(kill())
        agent = AgentBuilder().with_driver(driver).with_capability(mcp).on_event(hear)
        run = await agent.with_limits(steps=2).build().run("go")
        await killing
    killed, back = (result for step in run.steps for result in step.results)
    assert "was lost" in killed.text
    assert "killed by signal SIGKILL" in killed.text
    assert back.result == "Echo: back"
    assert servers("server-everything") == set()


async def test_everything_over_http(public: Public, use: Any) -> None:
    """The older protocol over streamable HTTP: sessions, questions, and a server that was started again."""
    described = public("mcp-server-everything", "streamableHttp")
    command = [described.target.program, *described.target.args]  # type: ignore[union-attr]
    port = free_port()
    env = {**os.environ, "PORT": str(port)}
    url = f"http://127.0.0.1:{port}/mcp"

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        while "listening on port" not in process.stderr.readline():
            assert process.poll() is None
        return process

    process = start()
    try:
        server = McpServer.http(url, name="far")
        async with McpServers(server) as mcp:
            turn = calls(
                call("mcp__far__echo", message="hi"),
                call("mcp__far__trigger-elicitation-request"),
            )
            used = await use(mcp, turn, approver=lambda _: Decision.edit(name="Ada"))
            assert used.results[0].result == "Echo: hi"
            assert "Name: Ada" in used.results[1].text
            process.kill()
            process.communicate()
            process = start()
            again = await use(mcp, call("mcp__far__echo", message="again"))
            assert again.results[0].result == "Echo: again"
    finally:
        process.kill()
        process.communicate()


async def test_a_changed_description_asks(public: Public, use: Any) -> None:
    """A pin that is not that of the tool as it is stands for a tool that was another when it was trusted."""
    pins: dict[str, str] = {}
    async with McpServers(public("mcp-server-time"), pins=pins) as mcp:
        now = call("mcp__time__get_current_time", timezone="UTC")
        assert (await use(mcp, now)).run.status is RunStatus.COMPLETED
    pins["time/get_current_time"] = "0" * 64
    async with McpServers(public("mcp-server-time"), pins=pins) as mcp:
        used = await use(mcp, now)
        assert used.run.status is RunStatus.PAUSED
        assert "is described differently" in used.run.pending[0].reason
        mcp.accept("mcp__time__get_current_time")
        assert (await use(mcp, now)).run.status is RunStatus.COMPLETED


async def test_files_stay_in_their_directories(public: Public, use: Any, tmp_path: Path) -> None:
    """The server works in its directories and refuses what is outside; roots say which they are."""
    inside, outside = tmp_path / "inside", tmp_path / "outside.txt"
    inside.mkdir()
    outside.write_text("secret")
    server = public("mcp-server-filesystem", roots=[inside], name="files")
    async with McpServers(server) as mcp:
        for _ in range(200):  # the server asks for the roots in its own time after it has started
            shown = await use(mcp, call("mcp__files__list_allowed_directories"))
            if str(inside) in shown.results[0].text:
                break
            await asyncio.sleep(0.05)
        used = await use(
            mcp,
            call("mcp__files__list_allowed_directories"),
            call("mcp__files__write_file", path=str(inside / "a.txt"), content="hello"),
            call("mcp__files__read_text_file", path=str(inside / "a.txt")),
            call("mcp__files__read_text_file", path=str(outside)),
            call("mcp__files__list_directory", path=str(inside)),
        )
    allowed, written, read, refused, listed = used.results
    assert str(inside) in allowed.text
    assert written.is_success
    assert (inside / "a.txt").read_text() == "hello"
    assert read.result == "hello"
    assert refused.status is ResultStatus.ERROR
    assert "secret" not in json.dumps(refused.text)
    assert "a.txt" in listed.text
