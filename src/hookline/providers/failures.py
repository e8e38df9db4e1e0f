"""What the providers over HTTP share when something fails: how long to wait, what may be repeated, who was lost.

An exception made here is raised outside the `except` block that saw the client's own: that one holds the
request, and the request holds the key.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from math import isfinite
from urllib.parse import urlsplit

import httpx2

from hookline.errors import (
    AuthenticationError,
    ConnectionLostError,
    ModelError,
    ModelTimeoutError,
)
from hookline.providers.proxies import proxy_for
from hookline.secret_tables import REPEATED_KEYS
from hookline.state import Usage

_LONGEST = 400
"""How much of a far end's words is repeated: enough for a sentence, not for a page of HTML."""

_SHORTEST_SECRET = 6
"""What is shorter may stand in any text by chance."""

_BEFORE_THE_HOST = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)
"""What fails on the way to a host; where there is a proxy, it is the proxy that was not reached."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How many seconds the far end asks us to wait, in whichever form it says so; None when it does not say.

    `headers` are looked up in lower case. A date is held against the far end's own clock where it tells it.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after", "")
    seconds = _number(asked)
    if seconds is not None:
        return seconds
    then = _moment(asked)
    if then is None:
        return None
    now = _moment(headers.get("date", ""))
    return max(0.0, then - (time.time() if now is None else now))


def said(text: str, secrets: Iterable[str] = ()) -> str:
    """What the far end said, fit to be repeated: one line, not too long, and without keys."""
    line = " ".join(without_secrets(text, secrets).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def sentence(text: str) -> str:
    """`text` with a full stop, unless it has an end already: a remedy follows it."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without these secrets, and without whatever looks like a key."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[key]")
    for pattern, instead in REPEATED_KEYS:
        text = pattern.sub(instead, text)
    return text


@contextmanager
def paying(spent: Callable[[], Usage | None]) -> Iterator[None]:
    """What fails within it carries what the far end had counted by then: a refusal is paid for like an answer."""
    try:
        yield
    except ModelError as error:
        error.usage = spent()
        raise


def origin(url: str) -> str:
    """`scheme://host:port` of an address: what names the far end, without a user, a password or a path."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return said(url)
    if not host:
        return said(url)
    where = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{where}" + (f":{port}" if port else "")


def find_key(provider: str, given: str | None, *variables: str) -> str:
    """The key that was given, or else the one in the environment; empty when there is none.

    A key that cannot be sent is refused here: the library that tried would quote it in its complaint.
    """
    found = given
    for variable in variables:
        if found is None:
            found = os.environ.get(variable)
    key = (found or "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise AuthenticationError(
            f"the key for provider '{provider}' has characters in it that no key has.",
            remedy=f"Copy it again, into {variables[0]} or api_key=.",
        )
    return key


def missing_key(provider: str, variable: str) -> AuthenticationError:
    """The error for a provider that has no key; `variable` is where it would have been found."""
    return AuthenticationError(
        f"there is no key for provider '{provider}'.",
        remedy=f"Set {variable} in the environment, or give api_key=.",
    )


def transport_failure(
    error: BaseException, *, provider: str, url: str, timeout: float
) -> ModelError:
    """The error for a request that got no answer, or only a part of one, told by what lies beneath `error`."""
    causes = tuple(_causes(error))

    for cause in causes:
        if isinstance(cause, ModelError):  # whoever carried the request knows better than we do
            return cause

    def is_due_to(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    where = origin(url)
    correct = "or correct base_url."
    proxy = proxy_for(url)
    if proxy and is_due_to(*_BEFORE_THE_HOST) and not is_due_to(ssl.SSLError):
        return ConnectionLostError(
            f"{provider}: the proxy {origin(proxy)}, on the way to {where}, does not let us through.",
            remedy="Check it, or take it out of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY).",
        )
    if is_due_to(socket.gaierror):
        problem, remedy = (
            "has no network address",
            f"Check the host's name and the network, {correct}",
        )
    elif is_due_to(ConnectionRefusedError):
        problem, remedy = "takes no connections", f"Start the server there, {correct}"
    elif is_due_to(ssl.SSLCertVerificationError):
        problem, remedy = "has no certificate that is trusted here", f"Check it, {correct}"
    elif is_due_to(ssl.SSLError):
        problem, remedy = "does not speak TLS as we do", "Write http:// in base_url if it has none."
    elif is_due_to(httpx2.ConnectTimeout, httpx2.ConnectError):
        problem, remedy = "cannot be reached", f"Check the network and any proxy, {correct}"
    elif is_due_to(httpx2.TimeoutException, TimeoutError):
        return ModelTimeoutError(
            f"{provider}: nothing came from {where} for {timeout:g} seconds.",
            remedy="Try again, or give the provider a longer timeout.",
        )
    else:
        return ConnectionLostError(
            f"{provider}: {where} closed the connection before its answer was over.",
            remedy="Try again.",
        )
    return ConnectionLostError(f"{provider}: {where} {problem}.", remedy=remedy)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what is beneath it: raised from, or wrapped into it.

    What was merely being handled at the time (`__context__`) may belong to another attempt.
    """
    while error is not None:
        yield error
        wrapped = error.exceptions if isinstance(error, BaseExceptionGroup) else error.args
        for member in wrapped:
            if isinstance(member, BaseException):
                yield from _causes(member)
        error = error.__cause__


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _moment(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
