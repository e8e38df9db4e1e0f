"""Hooks behind an address: the event is posted, and the answer is read like the output of a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import time
from urllib.parse import urlsplit

from hookline.command_hooks.definition import Handler
from hookline.command_hooks.process import MOST_OUTPUT, Ran

DECIDING = frozenset(
    {"before_tool_use", "permission_request", "prompt_submit", "stop", "subagent_stop", "subagent_start",
     "before_compact"}
)  # fmt: skip
"""Points where the answer may let something happen, or keep it from happening."""
_NO_OBJECT = "the answer is not a JSON object"
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


def problem_with(handler: Handler, point: str) -> str:
    """Why an address cannot be called; empty if it can. Whoever can read along or answer first must not decide."""
    parts = urlsplit(handler.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"'{handler.url}' is not an address that can be called"
    if parts.username or parts.password:
        return "an address must not have a password in it; use a header with a variable"
    if parts.scheme == "https" or point not in DECIDING:
        return ""
    if _is_here(parts.hostname):  # one that a repository names was seen by whoever trusted it
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


async def post(handler: Handler, body: bytes) -> Ran:
    """Post an event. A refusal, a redirect, silence: all are failures, and none decides anything."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Ran] = loop.create_future()

    def work() -> None:
        ran = _post(handler, body)
        with contextlib.suppress(RuntimeError):  # nobody waits for it any more
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(ran))

    threading.Thread(target=work, name="hookline-http-hook", daemon=True).start()
    try:
        async with asyncio.timeout(handler.timeout):
            return await done
    except TimeoutError:
        return Ran(None, problem="timeout", detail=f"{handler.timeout:g} s")


def _post(handler: Handler, body: bytes) -> Ran:
    import http.client  # with all that belongs to it this takes a while to load, and few hooks need it
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
        return Ran(None, problem="timeout", detail=f"{handler.timeout:g} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Ran(
            None, problem="spawn_error", detail=f"'{handler.url}' cannot be reached: {error}"
        )
    finally:
        connection.close()
    seconds = time.monotonic() - started
    text = content[:MOST_OUTPUT].decode(errors="replace")
    if not 200 <= response.status < 300:
        said = f"HTTP status {response.status}"
        moved = ", and is not followed elsewhere" if response.getheader("location") else ""
        return Ran(1, "", said, seconds, detail=f"it answered with {said}{moved}")
    if text.strip() and not text.lstrip().startswith("{"):
        return Ran(1, "", _NO_OBJECT, seconds, detail=_NO_OBJECT)
    return Ran(0, text, "", seconds, is_cut=len(content) > MOST_OUTPUT)


def _filled(value: str, handler: Handler) -> str:
    """A header with the variables that the hook may have; the others are empty."""

    def put(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return os.environ.get(name, "") if name in handler.allowed_env else ""

    return _VARIABLE.sub(put, value).replace("\r", "").replace("\n", "")
