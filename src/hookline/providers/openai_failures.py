"""What a chat-completions server complains about, as one of our errors. OpenAI's codes first, then others' words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

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
from hookline.providers.failures import origin, retry_after, said, sentence

_NO_CREDIT = re.compile(r"insufficient_quota|insufficient (balance|credit)")
"""Not that billing is spoken of: so does advice on how to be allowed more requests."""
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum (prompt|model|input|sequence) length"
    r"|reduce the length|prompt (is )?too long|too many (input )?tokens|tokens_limit|request too large"
    r"|tokens to keep from the initial prompt|`inputs` tokens"
)
_FILTERED = re.compile(r"content_filter|content_policy|content management policy|flagged")
_NO_MODEL = re.compile(
    r"model_not_found|invalid_model|not a valid model|no such model|model .{0,80}(not|n't) (found|exist)"
)
_NOT_SUPPORTED = re.compile(
    r"(not|n't) support|unsupported|unknown_parameter|unknown parameter|unrecognized|extra_forbidden"
    r"|extra (inputs|fields)|not permitted|tool choice requires|requires --jinja"
)
_OURS = re.compile(f"{_TOO_LONG.pattern}|{_NOT_SUPPORTED.pattern}")
"""What is about the request, also where a server calls it a failure of its own."""

_HASTE = ("rate_limit_exceeded", "rate_limit_error")
"""What a limit on requests or tokens is called, whatever the text goes on to say."""

_STATUS_OF_TYPE = {
    "authentication_error": 401,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 503,
    "unavailable_error": 503,
    "server_error": 500,
    "invalid_request_error": 400,
}
"""The status that an error in the middle of a stream would have had, had it come before the stream."""


class FarEnd(NamedTuple):
    """Whom we asked for what: what an error has to name."""

    url: str
    model: str
    is_openai: bool
    """Whether it is OpenAI's own service, rather than one that speaks its protocol."""
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"FarEnd({self.name})"

    @property
    def name(self) -> str:
        """What to call it."""
        return "OpenAI" if self.is_openai else origin(self.url)


class Complaint(NamedTuple):
    """An error body, in whichever of its shapes it came."""

    message: str
    code: str = ""
    type: str = ""
    param: str = ""

    @property
    def kind(self) -> str:
        """What the server itself calls it: the code, or else the type."""
        return self.code or self.type

    @property
    def words(self) -> str:
        """All that was said, for looking into."""
        return f"{self.code} {self.type} {self.message}".lower()


def read_complaint(body: object, secrets: tuple[str, ...]) -> Complaint:
    """The error in a body: OpenAI's object, an object of another server, its `detail`, or plain text."""
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | str):
        body = body["error"]
    if not isinstance(body, Mapping):
        return Complaint(said(str(body or ""), secrets))
    text = body.get("message") or body.get("detail") or body.get("error") or ""
    fields = (_text(body.get(name)) for name in ("code", "type", "param"))
    return Complaint(said(_text(text), secrets), *fields)


def failure(
    body: object, far_end: FarEnd, status: int | None = None, headers: Mapping[str, str] = {}
) -> ModelError:
    """The error for a complaint; without a status it came in the middle of a stream."""
    complaint = read_complaint(body, far_end.secrets)
    if status is None:
        status = _status(complaint)
    about = sentence(f"{far_end.name} says: {complaint.message or f'error {status}'}")
    if status in (402, 413, 429):
        return _about_limits(about, complaint, status, headers)
    if status in (401, 403, 404):
        return _about_access(about, complaint, status, far_end)
    if status in (408, 504):
        return ModelTimeoutError(about, remedy="Try again, or ask for a shorter answer.")
    if status in (502, 503, 529) or (status >= 500 and not _OURS.search(complaint.words)):
        return OverloadedError(
            about,
            retry_after=retry_after(headers),
            remedy="Try again in a while; if it stays, the fault is on their side.",
        )
    if 300 <= status < 400:
        return ModelError(about, remedy="The address answers with another one: correct base_url.")
    return _about_request(about, complaint, far_end)


def _about_limits(
    about: str, complaint: Complaint, status: int, headers: Mapping[str, str]
) -> ModelError:
    if status == 402 or (complaint.kind not in _HASTE and _NO_CREDIT.search(complaint.words)):
        return AuthenticationError(
            about, remedy="Waiting does not help: add credit to the account, or use another key."
        )
    if status == 413 or _TOO_LONG.search(complaint.words):
        return _overflow(about)
    return RateLimitError(about, retry_after=retry_after(headers), remedy="Ask less often.")


def _about_access(about: str, complaint: Complaint, status: int, far_end: FarEnd) -> ModelError:
    if status == 404 or _NO_MODEL.search(complaint.words):
        return _no_model(about, far_end)
    return AuthenticationError(
        about, remedy="Check the key in OPENAI_API_KEY (or api_key=), and what it is allowed to do."
    )


def _about_request(about: str, complaint: Complaint, far_end: FarEnd) -> ModelError:
    words = complaint.words
    if _TOO_LONG.search(words):
        return _overflow(about)
    if _FILTERED.search(words) or complaint.code == "invalid_prompt":
        return ContentFilterError(about, remedy="Change what is asked for.")
    if _NO_MODEL.search(words):
        return _no_model(about, far_end)
    if _NOT_SUPPORTED.search(words):
        what = f"'{complaint.param}'" if complaint.param else "it"
        return UnsupportedError(
            about, remedy=f"Leave {what} out of the request, or use another model."
        )
    what = f"'{complaint.param}' in the" if complaint.param else "the"
    return ModelError(about, remedy=f"Correct {what} request.")


def _overflow(about: str) -> ContextOverflowError:
    return ContextOverflowError(
        about, remedy="Shorten the conversation, or use a model that reads more."
    )


def _no_model(about: str, far_end: FarEnd) -> ModelNotFoundError:
    if far_end.is_openai:
        remedy = "Check its name on https://platform.openai.com/docs/models."
    else:
        remedy = f"List its models: curl {_models_url(far_end)} (base_url usually ends in /v1)."
    return ModelNotFoundError(f"there is no model '{far_end.model}': {about}", remedy=remedy)


def _models_url(far_end: FarEnd) -> str:
    return f"{said(far_end.url, far_end.secrets).rstrip('/')}/models"


def _status(complaint: Complaint) -> int:
    if re.fullmatch(r"[45][0-9]{2}", complaint.code):
        return int(complaint.code)
    return _STATUS_OF_TYPE.get(complaint.code) or _STATUS_OF_TYPE.get(complaint.type) or 500


def _text(value: Any) -> str:
    return "" if value is None else str(value)
