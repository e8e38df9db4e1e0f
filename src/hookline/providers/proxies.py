"""What the environment puts on the way to a provider: a proxy, and certificates to trust."""

from __future__ import annotations

import os
import ssl
from importlib.util import find_spec
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from hookline.errors import ModelError

_SCHEMES = ("http", "https", "all")
_CERTIFICATES = "SSL_CERT_FILE"


def proxy_for(url: str) -> str:
    """The proxy on the way to this address; empty when there is none."""
    parts = urlsplit(url)
    proxies = _proxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    return "" if not proxy or proxy_bypass(parts.hostname or "") else proxy


def check_way(provider: str) -> None:
    """Refuse what the HTTP client would fail over before it has a connection, in words that name no setting."""
    for scheme, proxy in _proxies().items():
        if problem := _problem(proxy):
            raise ModelError(
                f"{provider}: the proxy in the environment variable {scheme.upper()}_PROXY {problem}.",
                remedy="Correct the variable, or take it out of the environment.",
            )
    file = os.environ.get(_CERTIFICATES)
    if not file:
        return
    try:
        ssl.create_default_context(cafile=file)
    except OSError:
        is_readable = False
    else:
        is_readable = True
    if not is_readable:
        raise ModelError(
            f"{provider}: {_CERTIFICATES} is '{file}', and there are no certificates to be read.",
            remedy="Correct the variable, or take it out of the environment.",
        )


def _proxies() -> dict[str, str]:
    found = getproxies()
    named = {scheme: found[scheme] for scheme in _SCHEMES if found.get(scheme)}
    return {name: url if "://" in url else f"http://{url}" for name, url in named.items()}


def _problem(proxy: str) -> str:
    """What is wrong with a proxy. Its address is not shown: there may be a password in it."""
    try:
        scheme = httpx2.Proxy(proxy).url.scheme
    except (ValueError, httpx2.InvalidURL):
        return "is not the address of one: http://, https:// or socks5://, a host and a port"
    if scheme.startswith("socks") and find_spec("socksio") is None:
        return "speaks SOCKS, and the package 'socksio' for that is not installed"
    return ""
