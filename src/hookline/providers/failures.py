"""What a server complains about, as one of our errors: the same rules for every provider over HTTP.

Servers of many makers speak these protocols, and gateways answer in the middle, so the words of all of them are
recognised everywhere. An exception made here is raised outside the `except` block that saw the client's own: that one
holds the request, and the request holds the key.
"""

from __future__ import annotations

import os
import re
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from itertools import chain
from math import isfinite
from typing import NamedTuple
from urllib.parse import urlsplit

from hookline.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    UnsupportedError,
)
from hookline.secret_tables import REPEATED_KEYS
from hookline.state import Usage

# --- the text of an error ---------------------------------------------------------------------------

_LONGEST = 400
"""How much of a server's words is repeated: enough for a sentence, not for a page of HTML."""
_SHORTEST_SECRET = 6
"""A shorter one may be in any text by chance."""


def clean_text(text: str, secrets: Iterable[str] = ()) -> str:
    """A server's words as they may be repeated: one line, not too long, and without keys."""
    line = " ".join(remove_secrets(text, secrets).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def end_sentence(text: str) -> str:
    """`text` with a full stop, unless it has an end already: a remedy follows it."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def remove_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without these secrets, and without whatever looks like a key."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[key]")
    for pattern, instead in REPEATED_KEYS:
        text = pattern.sub(instead, text)
    return text


def origin(url: str) -> str:
    """`scheme://host:port` of an address: it names the server without a user, a password or a path."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return clean_text(url)
    if not host:
        return clean_text(url)
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{named}" + (f":{port}" if port else "")


# --- an error in an answer --------------------------------------------------------------------------

_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum (prompt|model|input|sequence) length"
    r"|reduce the length|prompt (is )?too long|too many (input )?tokens|tokens_limit|request too large"
    r"|tokens to keep from the initial prompt|`inputs` tokens|token count.* exceeds"
    r"|exceeds the maximum number of tokens|payload size exceeds"
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|insufficient (balance|credit)|credit balance|spend limit"
)
"""Not "billing" alone: advice on higher rate limits mentions it too."""
_FILTERED = re.compile(
    r"content[ _]filter|content_policy|content management policy|flagged|invalid_prompt"
)
_NO_MODEL = re.compile(
    r"model_not_found|invalid_model|not a valid model|no such model|model .{0,80}(not|n't) (found|exist)"
)
_NOT_SUPPORTED = re.compile(
    r"(not|n't) support|unsupported|unknown_parameter|unknown parameter|unrecognized|extra_forbidden"
    r"|extra (inputs|fields)|not permitted|tool choice requires|requires --jinja|not enabled for"
)
_STATUS_OF_KIND = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "unavailable_error": 503,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that an error in the middle of a stream would have had before it."""


class Server(NamedTuple):
    """Who was asked for which model: what an error has to name."""

    provider: str
    url: str
    model: str
    is_home: bool
    """Whether it is the provider's own service, rather than a server that speaks its protocol."""
    key_variable: str
    models_page: str
    """Where the service lists its models."""
    models_path: str
    """Where another server lists its own."""
    address_hint: str
    """What is known of a right base_url: how it ends."""
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Server({self.name})"

    @property
    def name(self) -> str:
        """As an error names it."""
        return self.provider if self.is_home else f"{self.provider} at {origin(self.url)}"


class ErrorReport(NamedTuple):
    """An error as a server reports it."""

    status: int
    message: str
    kind: str = ""
    """What the server calls it."""
    param: str = ""
    """The option it is about."""
    wait: float | None = None
    """How many seconds it asks us to wait."""
    remedy: str = ""
    """What helps against a rate limit, where the server says it."""


def read_report(
    body: object, status: int, headers: Mapping[str, str], secrets: Iterable[str]
) -> ErrorReport:
    """The error in a body: an object with `error`, an object with `message` or `detail`, or plain text."""
    kinds: tuple[str, ...] = ()
    param = ""
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | str):
        body = body["error"]
    if isinstance(body, Mapping):
        kinds = tuple(str(body[name]) for name in ("code", "type") if body.get(name))
        param = str(body.get("param") or "")
        body = body.get("message") or body.get("detail") or body.get("error")
    if status < 300:  # in the middle of a stream
        codes = (int(kind) for kind in kinds if re.fullmatch(r"[45][0-9]{2}", kind))
        named = (_STATUS_OF_KIND[kind] for kind in kinds if kind in _STATUS_OF_KIND)
        status = next(chain(codes, named), 500)
    message = clean_text(str(body or ""), secrets)
    return ErrorReport(status, message, " ".join(kinds), param, retry_after(headers))


def failure(report: ErrorReport, server: Server) -> ModelError:
    """The error for a report, chosen by its status and its words."""
    status, words = report.status, f"{report.kind} {report.message}".lower()
    about = end_sentence(f"{server.name}: {report.message or f'error {status}'}")
    is_too_long = status == 413 or bool(_TOO_LONG.search(words))
    if status == 402 or (status in (400, 429) and _NO_CREDIT.search(words)):
        return AuthenticationError(
            about, remedy="Waiting does not help: add credit to the account, or use another key."
        )
    if status == 429 and not is_too_long:
        remedy = report.remedy or "Ask less often."
        return RateLimitError(about, retry_after=report.wait, remedy=remedy)
    if status == 404 or (status in (401, 403) and _NO_MODEL.search(words)):
        return _no_model(about, server)
    if status in (401, 403):
        where = f"{server.key_variable} (or api_key=)" if server.is_home else "api_key="
        return AuthenticationError(
            about, remedy=f"Check the key in {where}, and what it is allowed to do."
        )
    if status in (408, 504):
        return ModelTimeoutError(about, remedy="Try again, or ask for a shorter answer.")
    # Some servers call it a failure of their own when something is wrong with the request.
    is_about_request = is_too_long or _NOT_SUPPORTED.search(words)
    if status in (502, 503, 529) or (status >= 500 and not is_about_request):
        return OverloadedError(
            about,
            retry_after=report.wait,
            remedy="Try again later. If the error stays, the problem is at the provider.",
        )
    if 300 <= status < 400:
        return ModelError(
            about, remedy="The server redirects to another address: correct base_url."
        )
    if is_too_long:
        return ContextOverflowError(
            about, remedy="Shorten the conversation, or use a model that reads more."
        )
    return _request_failure(about, words, report, server)


def _request_failure(about: str, words: str, report: ErrorReport, server: Server) -> ModelError:
    if _FILTERED.search(words):
        return ContentFilterError(about, remedy="Change what is asked for.")
    if _NO_MODEL.search(words):
        return _no_model(about, server)
    if _NOT_SUPPORTED.search(words):
        what = f"'{report.param}'" if report.param else "it"
        return UnsupportedError(
            about, remedy=f"Leave {what} out of the request, or use another model."
        )
    what = f"'{report.param}' in the" if report.param else "the"
    return ModelError(about, remedy=f"Correct {what} request.")


def _no_model(about: str, server: Server) -> ModelNotFoundError:
    remedy = f"Look up its name at {server.models_page}."
    if not server.is_home:
        url = clean_text(server.url, server.secrets).rstrip("/")
        models = f"curl {url}{server.models_path}"
        remedy = f"List its models with {models} and check base_url{server.address_hint}."
    return ModelNotFoundError(f"there is no model '{server.model}': {about}", remedy=remedy)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How many seconds the server asks us to wait, in whichever form; None when it does not say.

    `headers` are looked up in lower case. A date is compared with the server's clock if the headers have it.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after", "")
    seconds = _number(asked)
    if seconds is not None:
        return seconds
    then = _timestamp(asked)
    if then is None:
        return None
    now = _timestamp(headers.get("date", ""))
    return max(0.0, then - (time.time() if now is None else now))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _timestamp(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


@contextmanager
def add_usage_to_errors(used: Callable[[], Usage | None]) -> Iterator[None]:
    """An error in the block carries what the server had counted by then: a refusal is paid for like an answer.

    So does a cancellation, for the driver that passes it on.
    """
    try:
        yield
    except (ModelError, CancelledError) as error:
        error.usage = used()  # type: ignore[union-attr]
        raise


# --- keys -------------------------------------------------------------------------------------------


def find_key(provider: str, given: str | None, *variables: str) -> str:
    """The key that was given, or else the first in the environment; empty when there is none.

    A key that cannot be sent is refused here: the library that tried would quote it in its complaint.
    """
    found = given
    if found is None:
        found = next((key for name in variables if (key := os.environ.get(name))), "")
    key = found.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise AuthenticationError(
            f"the key for provider '{provider}' contains characters that a key cannot have.",
            remedy=f"Copy it again, into {' or '.join((*variables[:1], 'api_key='))}.",
        )
    return key


def missing_key(provider: str, variable: str) -> AuthenticationError:
    """The error for a provider that has no key; `variable` is where it would have been found."""
    return AuthenticationError(
        f"there is no key for provider '{provider}'.",
        remedy=f"Set {variable} in the environment, or give api_key=.",
    )
