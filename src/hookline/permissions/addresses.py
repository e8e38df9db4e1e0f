"""Patterns over the hosts of web addresses: `domain:example.com`."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from hookline.errors import UsageError
from hookline.permissions.wildcard import fits_text, glob

PREFIX = "domain:"
_DOMAIN = re.compile(r"(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
_CLEAR = re.compile(r"[!-\[\]-~]+")
"""An address that every program takes apart in the same way: printable, without a backslash."""

_PLAIN_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
"""A host that is written as it is: `%65vil.com` is another one for programs that decode it."""


class DomainPattern:
    """A pattern over hosts. To allow, `example.com` is that host alone; to forbid, it is all below it as well."""

    def __init__(self, text: str) -> None:
        self._domain = text.removeprefix(PREFIX).strip().lower()
        if not _DOMAIN.fullmatch(self._domain):
            raise UsageError(
                f"'{self._domain}' is not a domain.",
                remedy="Write 'domain:example.com', or 'domain:*.example.com' for those below it.",
            )
        self._hosts = glob(self._domain)

    def covers(self, address: str) -> bool:
        """Whether the address certainly leads there."""
        host = _host(address)
        return host is not None and fits_text(self._hosts, host)

    def touches(self, address: str) -> bool:
        """Whether the address may lead there."""
        host = _host(address)
        base = self._domain.removeprefix("*.")
        return host is None or host == base or host.endswith(f".{base}")


def _host(address: str) -> str | None:
    """The host of a web address; None where programs may not agree on what it is."""
    if not _CLEAR.fullmatch(address):
        return None
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or not _PLAIN_HOST.fullmatch(host):
        return None
    return host.removesuffix(".")
