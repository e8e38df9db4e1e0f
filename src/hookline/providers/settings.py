"""What the providers over HTTP are set to, looked over before anything is asked: wrong settings are told at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from urllib.parse import urlsplit

import httpx2

from hookline.errors import BuildError
from hookline.providers.failures import origin

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


def check_settings(
    provider: str, *, api_key: object, base_url: object, timeout: object, headers: object
) -> None:
    """Refuse settings of the wrong kind. No value is shown that may be a secret."""
    for name, value in (("api_key", api_key), ("base_url", base_url)):
        if value is not None and not isinstance(value, str):
            raise _wrong(provider, name, f"is text, not {type(value).__name__}", f'{name}="..."')
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not (is_number and isfinite(timeout) and timeout > 0):  # type: ignore[arg-type,operator]
        problem = f"is a number of seconds above zero, not {timeout!r}"
        raise _wrong(provider, "timeout", problem, "timeout=60")
    if headers is not None:
        _check_headers(provider, headers)


def check_address(provider: str, url: str) -> None:
    """Refuse a base_url that no request can be sent to, or that has in it what would be written into logs."""
    try:
        httpx2.URL(url)
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx2.InvalidURL):
        is_address = False
    if not is_address:
        raise BuildError(
            f"base_url '{origin(url)}' of provider '{provider}' is not an address.",
            remedy="Write it with its scheme and host, such as http://localhost:8000/v1.",
        )
    if "@" in parts.netloc:
        raise BuildError(
            f"base_url of provider '{provider}' has a user or a password in it, and addresses are logged.",
            remedy='Give them as headers={"Authorization": "Basic ..."}, or as api_key=.',
        )
    if parts.query or parts.fragment:
        raise BuildError(
            f"base_url '{origin(url)}' of provider '{provider}' goes on with a query, which requests would lose.",
            remedy="Leave out what begins with ? or #; a key goes into api_key= or headers=.",
        )


def _check_headers(provider: str, headers: object) -> None:
    example = 'headers={"X-Team": "blue"}'
    if not isinstance(headers, Mapping):
        problem = f"map names to values, not {type(headers).__name__}"
        raise _wrong(provider, "headers", problem, example)
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise _wrong(provider, "headers", f"have no such name: {name!r}", example)
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            problem = f"hold one line of plain ASCII text each, and '{name}' does not"
            raise _wrong(provider, "headers", problem, example)


def _wrong(provider: str, setting: str, problem: str, example: str) -> BuildError:
    return BuildError(f"{setting} of provider '{provider}' {problem}.", remedy=f"Write {example}.")
