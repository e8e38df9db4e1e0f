"""An MCP server of the older protocol over pipes, written without the SDK: it starts at once, and it can misbehave.

    python plain_mcp_server.py NOTES [--option ...]

NOTES is a directory. The server writes what happens to it into files there, and reads from `description` there what
its tool `echo` is said to do. The options are ways to misbehave.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NOTES = Path(sys.argv[1])
OPTIONS = set(sys.argv[2:])

NO_ARGUMENTS = {"type": "object"}
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Your name"},
        "size": {"type": "string", "enum": ["s", "m"], "default": "m"},
    },
    "required": ["name"],
}


def tools() -> list[dict[str, Any]]:
    """What is offered now."""
    described = NOTES / "description"
    echo = described.read_text() if described.exists() else "Say it again."
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    offered = [
        {"name": "echo", "description": echo, "inputSchema": text, "annotations": READ_ONLY},
        {"name": "pid", "description": "Who is it?", "inputSchema": NO_ARGUMENTS},
        {"name": "hang", "description": "Never answer.", "inputSchema": NO_ARGUMENTS},
        {"name": "freeze", "description": "Answer nothing more.", "inputSchema": NO_ARGUMENTS},
        {"name": "deep", "description": "Answer too deeply.", "inputSchema": NO_ARGUMENTS},
        {"name": "half", "description": "Answer half a letter.", "inputSchema": NO_ARGUMENTS},
        {"name": "die", "description": "Exit in the middle.", "inputSchema": NO_ARGUMENTS},
        {"name": "ask", "description": "Ask the person.", "inputSchema": NO_ARGUMENTS},
        {"name": "visit", "description": "Send the person away.", "inputSchema": NO_ARGUMENTS},
        {"name": "sample", "description": "Ask the model.", "inputSchema": NO_ARGUMENTS},
        {"name": "refuse", "description": "Answer with an error.", "inputSchema": NO_ARGUMENTS},
        {"name": "changes", "description": "Say that tools changed.", "inputSchema": NO_ARGUMENTS},
        {"name": "env", "description": "Show a variable.", "inputSchema": text},
        {"name": "broken", "description": "A wrong schema.", "inputSchema": WRONG},
    ]
    return offered + ([{**offered[1], "name": "late"}] if (NOTES / "more").exists() else [])


READ_ONLY = {"readOnlyHint": True}
WRONG = {"type": "object", "properties": {"a": {"type": "objekt"}}}


def main() -> None:
    """Answer until the input ends."""
    note("started", os.getpid())
    misbehave()
    for line in sys.stdin:
        handle(json.loads(line))
    if "--stay" in OPTIONS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)


def misbehave() -> None:
    """Do what the options say happens first."""
    if OPTIONS & {"--child", "--stray"}:  # it ignores what everybody else takes as a sign to leave
        program = (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program], start_new_session="--stray" in OPTIONS
        )
        note("child", child.pid)
    if "--noise" in OPTIONS:
        print("Hello! I am a server.", flush=True)
    if "--words" in OPTIONS:
        print(f"my key is {os.environ.get('KEY')}", file=sys.stderr, flush=True)
    if "--crash" in OPTIONS:
        print(f"no database at {os.environ.get('KEY')}", file=sys.stderr, flush=True)
        raise SystemExit(3)
    if "--mute" in OPTIONS:
        time.sleep(60)


def handle(message: dict[str, Any]) -> None:
    """Deal with one message."""
    method, params = message.get("method"), message.get("params") or {}
    if method == "initialize" and "--unwilling" not in OPTIONS:
        info = {"name": "plain", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        version = params["protocolVersion"]
        reply(message, protocolVersion=version, capabilities=capabilities, serverInfo=info)
    elif method == "tools/list" and (NOTES / "listless").exists():
        note("unlisted", os.getpid())
    elif method == "tools/list":
        reply(message, tools="none" if "--nonsense" in OPTIONS else tools())
    elif method == "tools/call":
        note("called", params["name"])
        call(message, params["name"], params.get("arguments") or {})
    elif method == "notifications/cancelled":
        note("cancelled", params["requestId"])
    elif "id" in message and method is not None:
        send(id=message["id"], error={"code": -32601, "message": f"what is {method}?"})


def call(message: dict[str, Any], tool: str, arguments: dict[str, Any]) -> None:
    """Run a tool."""
    if tool == "echo":
        say(message, arguments["text"])
    elif tool in ("pid", "late"):
        say(message, str(os.getpid()))
    elif tool == "env":
        say(message, os.environ.get(arguments["text"], "not there"))
    elif tool == "freeze":
        time.sleep(60)
    elif tool == "half":
        say(message, "half \ud83d")
    elif tool == "deep":
        deep: dict[str, Any] = {}
        for _ in range(900):
            deep = {"a": deep}
        reply(message, content=[], structuredContent=deep)
    elif tool == "die":
        os._exit(7)
    elif tool == "refuse":
        send(
            id=message["id"],
            error={"code": -32000, "message": f"not today{os.environ.get('KEY', '')}"},
        )
    elif tool == "changes":
        send(method="notifications/tools/list_changed")
        say(message, "they changed")
    elif tool == "ask":
        say(message, ask("elicitation/create", message="Who are you?", requestedSchema=FORM))
    elif tool == "visit":
        url = {"mode": "url", "url": "https://example.com/in", "elicitationId": "1"}
        say(message, ask("elicitation/create", message="Log in.", **url))
    elif tool == "sample":
        asked = {"role": "user", "content": {"type": "text", "text": "Hello?"}}
        say(message, ask("sampling/createMessage", messages=[asked], maxTokens=5))


def ask(method: str, **params: Any) -> str:
    """Ask the client something, and give its answer as it came."""
    send(id="question", method=method, params=params)
    while True:
        answer = json.loads(sys.stdin.readline())
        if answer.get("id") == "question":
            return json.dumps(answer.get("result") or answer.get("error"))
        handle(answer)


def say(message: dict[str, Any], text: str) -> None:
    """Answer a call with text."""
    reply(message, content=[{"type": "text", "text": text}])


def reply(message: dict[str, Any], **result: Any) -> None:
    """Answer a request."""
    send(id=message["id"], result=result)


def send(**message: Any) -> None:
    """Write one message."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def note(what: str, value: object) -> None:
    """Write down what happened."""
    with (NOTES / what).open("a") as file:
        print(value, file=file)


if __name__ == "__main__":
    main()
