"""What went wrong at Gemini, in the words of its API, as one of our errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.genai.errors import APIError

from hookline.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    MalformedResponseError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    UnsupportedError,
)
from hookline.providers.failures import retry_after, said

_TOO_LONG = re.compile(
    r"token count.* exceeds|exceeds the maximum number of tokens|payload size exceeds", re.I | re.S
)
_UNSUPPORTED = re.compile(r"not supported|unsupported|not enabled for|does not support", re.I)
_FINE = {"FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "CONTINUATION"}
_FILTERED = {
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
}
_MALFORMED = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"}


def block_failure(reason: str) -> ModelError:
    """The error for a prompt that the filter kept from the model."""
    return ContentFilterError(
        f"google: the filter kept the prompt from the model ({reason}).",
        remedy="Change what the conversation says, or set safety_settings in the options.",
    )


def finish_failure(reason: str) -> ModelError | None:
    """The error for an answer that ended; None when it was done, or as long as it may be."""
    if reason in _FINE:
        return None
    if reason in _FILTERED:
        return ContentFilterError(
            f"google: the filter kept the answer back ({reason}).",
            remedy="Change what the conversation says, or set safety_settings in the options.",
        )
    if reason in _MALFORMED:
        return MalformedResponseError(
            f"google: the model wrote something that cannot be read ({reason}).",
            remedy="Try again, or give the tools simpler parameters.",
        )
    return ModelError(
        f"google: the model stopped before it was done ({reason}).",
        remedy="Try again, or ask in another way.",
    )


def failure_of(error: APIError, *, model: str, secrets: Iterable[str]) -> ModelError:
    """The error for an answer that is an error. A stream may end with one, too."""
    what = said(str(error.message or error.status or ""), secrets) or "no reason was given"
    told = f"google: {what}" if what.endswith((".", "!", "?", "…")) else f"google: {what}."
    code, status = error.code, str(error.status or "")
    details = tuple(_details(error.details))
    if code in (401, 403) or any(each.get("reason") == "API_KEY_INVALID" for each in details):
        return AuthenticationError(
            told, remedy="Check the key in GEMINI_API_KEY, and that it may use this API."
        )
    if code == 404:
        return ModelNotFoundError(
            f"google: there is no model '{said(model, secrets)}' ({what.rstrip('.')}).",
            remedy="Look up its name at https://ai.google.dev/gemini-api/docs/models.",
        )
    if code == 429:
        wait = _delay(error, details)
        return RateLimitError(told, retry_after=wait, remedy=_quota_remedy(details))
    if code in (408, 504):
        return ModelTimeoutError(told, remedy="Try again, or give the provider a longer timeout.")
    if code == 413 or _TOO_LONG.search(what):
        return ContextOverflowError(
            told, remedy="Shorten the conversation, or take a model with more context."
        )
    if status == "FAILED_PRECONDITION":
        return ModelError(told, remedy="Check the account's billing, and where it may be used.")
    if code == 400 and _UNSUPPORTED.search(what):
        return UnsupportedError(told, remedy="Take another model, or leave that out.")
    if 300 <= code < 400:
        return ModelError(told, remedy="The address answers with another one: correct base_url.")
    if code < 500:
        return ModelError(told, remedy="Correct the request.")
    return OverloadedError(
        told, retry_after=_delay(error, details), remedy="Try again later, or with another model."
    )


def _quota_remedy(details: Iterable[Mapping[str, Any]]) -> str:
    """A quota per day does not come back in seconds, whatever the server says about retrying."""
    quotas = [
        str(violation.get("quotaId", ""))
        for each in details
        for violation in each.get("violations") or ()
        if isinstance(violation, dict)
    ]
    if any("PerDay" in quota for quota in quotas):
        return "The quota of the day is used up: wait for tomorrow, or ask for a larger one."
    return "Wait before the next request, or ask for a larger quota."


def _delay(error: APIError, details: Iterable[Mapping[str, Any]]) -> float | None:
    """How long to wait: RetryInfo says so in the body, as `34.5s`, and a proxy perhaps in a header."""
    for each in details:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(each.get("retryDelay", "")), re.ASCII)
        if match:
            return float(match[1])
    headers = getattr(error.response, "headers", None)
    return retry_after(headers) if headers is not None else None


def _details(body: Any) -> Iterator[Mapping[str, Any]]:
    inner = body.get("error", body) if isinstance(body, dict) else None
    details = inner.get("details") if isinstance(inner, dict) else None
    yield from (each for each in details or () if isinstance(each, dict))
