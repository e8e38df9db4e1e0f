"""What the messages API complains about, as one of our errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from anthropic import APIStatusError

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
from hookline.providers.failures import retry_after, said

_KINDS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    502: "overloaded_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""What a status means where the body does not say it: proxies answer too, and not in the API's own words."""

_VAGUE = ("invalid_request_error", "api_error")
"""Kinds that the API gives to errors of any status."""

_TOO_LONG = re.compile(r"prompt is too long|exceed context limit|context window", re.I)
_NO_CREDIT = re.compile(r"credit balance|spend limit", re.I)
_FILTERED = re.compile(r"content filter", re.I)
_NOT_SUPPORTED = re.compile(r"not support|unsupported|extra inputs are not permitted", re.I)


class FarEnd(NamedTuple):
    """Whom we asked for what: what an error has to name."""

    model: str
    is_anthropic: bool
    """Whether it is Anthropic's own service, rather than one that speaks its protocol."""
    secrets: tuple[str, ...]


def failure(error: APIStatusError, far_end: FarEnd) -> ModelError:
    """The error for an answer that is an error. One in the middle of a stream has the status 200."""
    status = error.status_code
    kind = _kind(error.type, status)
    words = said(_message(error.body), far_end.secrets)
    about = f"anthropic: {words or f'the far end answered with the status {status}'}"
    about = about if about.endswith((".", "!", "?", "…")) else f"{about}."
    headers = error.response.headers
    if kind in ("overloaded_error", "rate_limit_error"):
        return _about_haste(about, kind, headers)
    if kind in ("authentication_error", "permission_error", "billing_error", "not_found_error"):
        return _about_access(about, kind, far_end)
    if kind == "timeout_error":
        return ModelTimeoutError(about, remedy="Try again, or ask for a shorter answer.")
    if kind == "request_too_large" or _TOO_LONG.search(words):
        return ContextOverflowError(
            about, remedy="Shorten the conversation, have it summarised, or lower max_tokens."
        )
    if 300 <= status < 400:
        return ModelError(about, remedy="The address answers with another one: correct base_url.")
    if kind == "api_error":
        return OverloadedError(
            about,
            retry_after=retry_after(headers),
            remedy="Try again in a while; if it stays, the fault is on their side.",
        )
    return _about_request(about, words)


def _kind(told: object, status: int) -> str:
    if isinstance(told, str) and told and told not in _VAGUE:
        return told
    vague = "api_error" if status >= 500 or told == "api_error" else "invalid_request_error"
    return _KINDS.get(status, vague)


def _message(body: object) -> str:
    """What a body says: the API's own, a proxy's, or plain text."""
    while isinstance(body, Mapping):
        body = body.get("error") or body.get("message") or body.get("detail")
    return body if isinstance(body, str) else ""


def _about_haste(about: str, kind: str, headers: Mapping[str, str]) -> ModelError:
    wait = retry_after(headers)
    if kind == "overloaded_error":
        return OverloadedError(about, retry_after=wait, remedy="Try again in a while.")
    if _NO_CREDIT.search(about):
        return _no_credit(about)
    return RateLimitError(about, retry_after=wait, remedy="Ask less often.")


def _about_access(about: str, kind: str, far_end: FarEnd) -> ModelError:
    if kind == "not_found_error":
        where = (
            "Look it up at https://platform.claude.com/docs/en/about-claude/models."
            if far_end.is_anthropic
            else "Check what the server calls it, and base_url, which ends before /v1."
        )
        return ModelNotFoundError(f"there is no model '{far_end.model}': {about}", remedy=where)
    if kind == "billing_error":
        return _no_credit(about)
    key = "ANTHROPIC_API_KEY" if far_end.is_anthropic else "api_key="
    return AuthenticationError(about, remedy=f"Check {key} and what it is allowed to do.")


def _about_request(about: str, words: str) -> ModelError:
    if _NO_CREDIT.search(words):
        return _no_credit(about)
    if _FILTERED.search(words):
        return ContentFilterError(about, remedy="Change what is asked for.")
    if _NOT_SUPPORTED.search(words):
        return UnsupportedError(about, remedy="Leave that out, or use another model.")
    return ModelError(about, remedy="Correct the request.")


def _no_credit(about: str) -> AuthenticationError:
    return AuthenticationError(
        about, remedy="Waiting does not help: see to the account's billing, or use another key."
    )
