"""Hooks behind an address."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hookline.command_hooks import Handler, HookSource, Level
from hookline.command_hooks.hook_kinds import can_decide, problem_with
from hookline.hooks import Point
from hookline.journal import HookRan
from hookline.lifecycle import HookPoint


class Server:
    """Gives every request a fixed answer, and keeps the requests."""

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, "", {}
        self.sent: list[tuple[str, dict[str, str], Any]] = []
        self.gate: threading.Event | None = None
        outer = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                outer.sent.append((self.path, dict(self.headers), json.loads(content)))
                if outer.gate is not None:
                    outer.gate.wait(20)
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(outer.body.encode())

            def log_message(self, *args: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        if self.gate is not None:
            self.gate.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on this machine."""
    made = Server()
    yield made
    made.close()


def hook(stage: Any, url: str, **more: Any) -> Any:
    """A hook of the user behind an address, in Claude's settings."""
    entry = {"type": "http", "url": url, **more}
    stage.file(".claude/settings.json", {"hooks": {"PreToolUse": [{"hooks": [entry]}]}}, home=True)
    return stage.discover()


def third(result: Any) -> str:
    """What the model read about its call."""
    return str(result.state.messages[2].text)


DENY = json.dumps(
    {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "by web"}}
)


def test_an_answer_decides(stage: Any, server: Server) -> None:
    """In the same form as that of a program."""
    server.body = DENY
    assert third(stage.run(hook(stage, f"{server.url}/check?x=1"))) == "Blocked: by web"
    path, headers, sent = server.sent[0]
    assert (path, sent["tool_name"], sent["tool_input"]) == (
        "/check?x=1",
        "Bash",
        {"command": "ls"},
    )
    assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, DENY), (404, ""), (302, DENY), (200, "no json"), (204, "")],
)
def test_only_an_object_in_a_good_answer_decides(
    stage: Any, server: Server, status: int, body: str
) -> None:
    """A status cannot block, and a redirect is not followed."""
    server.status, server.body = status, body
    server.headers = {"Location": f"{server.url}/elsewhere"}
    result = stage.run(hook(stage, server.url))
    assert third(result) == "ran ls"
    assert len(server.sent) == 1
    failed = [r for r in result.records if isinstance(r, HookRan) and r.verdict == "failed"]
    assert bool(failed) is (status != 204)


def test_nobody_there_and_nobody_answering(stage: Any, server: Server) -> None:
    """Both are failures that let things through, in Claude's dialect."""
    assert third(stage.run(hook(stage, "http://127.0.0.1:1/x"))) == "ran ls"
    server.gate = threading.Event()
    assert third(stage.run(hook(stage, server.url, timeout=0.3))) == "ran ls"


def test_headers_have_the_variables_that_are_listed(
    stage: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are empty, and nothing can be added to a header."""
    monkeypatch.setenv("GOOD", "yes\r\nX-Evil: 1")
    monkeypatch.setenv("OTHER", "secret")
    headers = {"Authorization": "Bearer $GOOD", "X-Other": "${OTHER}!"}
    stage.run(hook(stage, server.url, headers=headers, allowedEnvVars=["GOOD"]))
    sent = server.sent[0][1]
    assert (sent["Authorization"], sent["X-Other"]) == ("Bearer yesX-Evil: 1", "!")


def test_the_user_may_list_variables_for_all_hooks(
    stage: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a hook lists for itself is no more than that."""
    monkeypatch.setenv("GOOD", "yes")
    monkeypatch.setenv("OTHER", "secret")
    made = {"type": "http", "url": server.url, "headers": {"X-Both": "$GOOD$OTHER"}}
    entry = {**made, "allowedEnvVars": ["GOOD", "OTHER"]}
    content = {"httpHookAllowedEnvVars": ["GOOD"], "hooks": {"Stop": [{"hooks": [entry]}]}}
    stage.file(".claude/settings.json", content, home=True)
    stage.run(stage.discover())
    assert server.sent[0][1]["X-Both"] == "yes"


@pytest.mark.parametrize(
    ("url", "level", "fine"),
    [
        ("https://hooks.example/x", Level.PROJECT, True),
        ("http://hooks.example/x", Level.USER, False),
        ("http://localhost:8080/x", Level.USER, True),
        ("http://localhost:8080/x", Level.PROJECT, True),
        ("http://192.168.1.2/x", Level.PROJECT, False),
        ("http://127.0.0.1.evil.example/", Level.USER, False),
        ("https://user:pw@hooks.example/", Level.USER, False),
        ("file:///etc/passwd", Level.USER, False),
    ],
)
def test_which_addresses_may_decide(url: str, level: Level, fine: bool) -> None:
    """Only connections that nobody on the way can read or answer."""
    handler = Handler(HookSource("claude", level), "PreToolUse", kind="http", url=url)
    assert (problem_with(handler, is_deciding=True) == "") is fine


@pytest.mark.parametrize("body", ["[1]", DENY[:-1], DENY * 2, DENY + " " * (1 << 20)])
def test_an_answer_that_cannot_be_read_blocks(stage: Any, server: Server, body: str) -> None:
    """A list, half an object, two objects, and one that is too long."""
    server.body = body
    assert third(stage.run(hook(stage, server.url))).startswith("Blocked: the hook failed: its out")


@pytest.mark.parametrize("point", [each for each in HookPoint if not each.around])
def test_hooks_decide_where_something_can_be_blocked(point: Point[Any]) -> None:
    """So a new point that can be blocked needs https, and a changed script blocks there. After a step the run ends."""
    handler = Handler(HookSource("hookline", Level.USER), point.value)
    can_end = point == HookPoint.AFTER_STEP
    assert can_decide(handler, point) is (point.blocks is not None or can_end)


@pytest.mark.parametrize(
    ("event", "point"),
    [
        ("SessionStart", HookPoint.EXECUTION_START),
        ("SessionStart", HookPoint.BEFORE_INFERENCE),
        ("PostCompact", HookPoint.BEFORE_INFERENCE),
        ("MessageDisplay", HookPoint.AFTER_INFERENCE),
        ("Notification", HookPoint.PERMISSION_REQUEST),
    ],
)
def test_events_that_block_nothing_decide_nothing(event: str, point: Point[Any]) -> None:
    """Wherever they happen."""
    assert not can_decide(Handler(HookSource("claude", Level.USER), event), point)


def test_an_observer_may_use_plain_http() -> None:
    """Its answer decides nothing."""
    handler = Handler(
        HookSource("claude", Level.USER), "Notification", kind="http", url="http://log.example/"
    )
    assert problem_with(handler, is_deciding=False) == ""


def test_our_own_form_has_addresses_too(stage: Any, server: Server) -> None:
    """And fails closed."""
    server.body = '{"decision": "block", "reason": "no"}'
    assert (
        third(stage.run(stage.hooks({"on": "before_tool_use", "url": server.url}))) == "Blocked: no"
    )
    server.status = 500
    refused = third(stage.run(stage.hooks({"on": "before_tool_use", "url": server.url})))
    assert "not let through: it answered with HTTP status 500" in refused
    assert "exit code" not in refused  # a program has one


def test_only_programs_run_beside_the_agent(stage: Any) -> None:
    """An address that is said to be `async` is waited for, and what it decides counts."""
    entry = {"type": "http", "url": "http://127.0.0.1:9/x", "async": True, "asyncRewake": True}
    stage.file(".claude/settings.json", {"hooks": {"PreToolUse": [{"hooks": [entry]}]}})
    (handler,) = stage.discover().handlers
    assert (handler.is_async, handler.wakes, handler.timeout) == (False, False, 600.0)
