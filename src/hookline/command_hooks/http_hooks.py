"""HTTP hooks: the event is posted, and the answer is read like the output of a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import time
from urllib.parse import urlsplit

from hookline.command_hooks.handler import Handler, ProgramResult
from hookline.command_hooks.process import MOST_OUTPUT

_NO_OBJECT = "the answer is not a JSON object"
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


def problem_with(handler: Handler, is_deciding: bool) -> str:
    """Why an address cannot be called; empty if it can. Without encryption others could decide."""
    parts = urlsplit(handler.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"'{handler.url}' is not an address that can be called"
    if parts.username or parts.password:
        return "an address must not have a password in it; use a header with a variable"
    if parts.scheme == "https" or not is_deciding:
        return ""
    if _is_here(parts.hostname):
        return ""
    return f"'{handler.url}' decides something, so it has to be https"


def _is_here(host: str) -> bool:
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def post(handler: Handler, body: bytes, is_deciding: bool) -> ProgramResult:
    """Post an event. Any status but success, a redirect, and silence are failures."""
    problem = problem_with(handler, is_deciding)
    if problem:
        return ProgramResult(None, problem="spawn_error", detail=problem)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ProgramResult] = loop.create_future()

    def work() -> None:
        result = _post(handler, body)
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(result))

    threading.Thread(target=work, name="hookline-http-hook", daemon=True).start()
    return await done


def _post(handler: Handler, body: bytes) -> ProgramResult:
    import http.client  # takes a while to load
    import ssl

    started = time.monotonic()
    parts = urlsplit(handler.url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {name: _filled(value, handler) for name, value in handler.headers.items()}
    headers |= {"Content-Type": "application/json", "User-Agent": "hookline"}
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=handler.timeout, context=ssl.create_default_context()
        )  # fmt: skip
    else:
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=handler.timeout
        )
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        content = response.read(MOST_OUTPUT + 1)
    except TimeoutError:
        return ProgramResult(None, problem="timeout", detail=f"{handler.timeout:g} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return ProgramResult(
            None, problem="spawn_error", detail=f"'{handler.url}' cannot be reached: {error}"
        )
    finally:
        connection.close()
    seconds = time.monotonic() - started
    text = content[:MOST_OUTPUT].decode(errors="replace")
    if not 200 <= response.status < 300:
        said = f"HTTP status {response.status}"
        moved = ", and is not followed elsewhere" if response.getheader("location") else ""
        return ProgramResult(1, "", said, seconds, detail=f"it answered with {said}{moved}")
    if text.strip() and not text.lstrip().startswith("{"):
        return ProgramResult(1, "", _NO_OBJECT, seconds, detail=_NO_OBJECT)
    return ProgramResult(0, text, "", seconds, is_cut=len(content) > MOST_OUTPUT)


def _filled(value: str, handler: Handler) -> str:
    """A header with the variables that the hook may use; others are empty."""

    def put(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return os.environ.get(name, "") if name in handler.allowed_env else ""

    return _VARIABLE.sub(put, value).replace("\r", "").replace("\n", "")
