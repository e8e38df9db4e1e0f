"""Models of a Hugging Face hub: `huggingface_hub` downloads a GGUF file, and the hash is checked here.

`hf_hub_download` is not used. It checks only the size, and keeps nothing of a download that was interrupted.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hookline.errors import BuildError, ModelError, ModelNotFoundError
from hookline.extras import install_command
from hookline.providers.local.weights import (
    FetchState,
    Progress,
    digest_of,
    has_digest,
    hold_place,
    is_gguf,
    models_folder,
    require_space,
)

PREFIX = "hf:"
_HOME = "https://huggingface.co"
_NAME = re.compile(
    r"hf:(?P<repo>[\w.-]+/[\w.-]+)/(?P<file>[\w.+/-]+\.gguf)(?:@(?P<revision>[\w./-]+))?", re.ASCII
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CHUNK = 1 << 20
"""Bytes that are kept together, and after which the progress is shown. The library takes ten times as many."""


class HubModel(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a hub, as it was downloaded. It is kept next to the file, as JSON."""

    repo: str
    file: str
    commit: str
    sha256: str
    size: int
    endpoint: str

    @property
    def name(self) -> str:
        """As `model get` takes it, with the commit."""
        return f"{PREFIX}{self.repo}/{self.file}@{self.commit}"

    @property
    def path(self) -> Path:
        """Where it is."""
        stem = self.file.rpartition("/")[2].removesuffix(".gguf")
        return models_folder() / f"{stem}-{self.sha256[:12]}.gguf"

    @property
    def is_intact(self) -> bool:
        """Whether the file that is here is the one that was downloaded."""
        return has_digest(self.path, self.sha256)

    def remove(self) -> None:
        """Delete the file and its record."""
        self.path.unlink(missing_ok=True)
        _record_of(self.path).unlink(missing_ok=True)


def hub_models() -> Iterator[HubModel]:
    """The models that were downloaded. What is no record of one is ignored."""
    for path in sorted(models_folder().glob("*.gguf.json")):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=HubModel)
        except (OSError, msgspec.MsgspecError):
            continue


def _record_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


# --- the download -----------------------------------------------------------------------------------


def download(
    name: str,
    *,
    sha256: str = "",
    progress: Progress = lambda *_: None,
) -> HubModel:
    """Download `hf:OWNER/REPO/FILE[@REVISION]`, or what is missing of it. A wrong file is deleted.

    `sha256` is the hash that the file must have; otherwise it is the one that the hub names.
    """
    wanted, endpoint = _parse(name), _endpoint()
    repo, file = wanted["repo"], wanted["file"]
    hub = _Hub()
    with _explain_errors(name, endpoint, hub):
        hub.keep_token_at(endpoint)
        url = hub.library.hf_hub_url(
            repo, file, revision=wanted["revision"] or "main", endpoint=endpoint
        )
        found = hub.library.get_hf_file_metadata(url, headers=hub.headers, token=False)
    model = HubModel(
        repo=repo,
        file=file,
        commit=found.commit_hash or "",
        sha256=_expected_hash(name, found.etag or "", sha256),
        size=found.size or 0,
        endpoint=endpoint,
    )
    if not _COMMIT.fullmatch(model.commit):
        raise _unusable(name, f"{endpoint} does not name the commit of the file")
    if not model.size:
        raise _unusable(name, f"{endpoint} does not say how large it is")
    _fetch(hub, model, progress)
    return model


def _parse(name: str) -> dict[str, str]:
    found = _NAME.fullmatch(name)
    parts = (name.removeprefix(PREFIX).replace("@", "/")).split("/")
    if found is None or not set(parts).isdisjoint(("", ".", "..")):
        raise ModelNotFoundError(
            f"'{name}' does not name a GGUF file of a hub.",
            remedy="Write hf:OWNER/REPO/FILE.gguf, and add @REVISION for a branch, a tag or a commit.",
        )
    return found.groupdict(default="")


def _endpoint() -> str:
    endpoint = (os.environ.get("HF_ENDPOINT") or _HOME).rstrip("/")
    try:
        scheme, host, _ = _origin(endpoint)
    except ValueError:  # a bracket without its other half, a port that is none
        scheme, host = "", None
    if scheme not in ("http", "https") or not host:
        raise BuildError(
            f"HF_ENDPOINT is {endpoint!r}, which is no address.",
            remedy=f"Write it like {_HOME}, or unset it.",
        )
    return endpoint


def _expected_hash(name: str, named: str, pinned: str) -> str:
    """The hash that the file must have: the pinned one, which the hub must not contradict, or the hub's."""
    pinned, named = pinned.lower(), named.lower()
    if pinned and not _SHA256.fullmatch(pinned):
        raise BuildError(f"'{pinned}' is not a SHA-256.", remedy="It has 64 hexadecimal digits.")
    if not _SHA256.fullmatch(named):
        if not pinned:
            raise _unusable(name, "the hub names no SHA-256 for it", "Give it with --sha256.")
        return pinned
    if pinned and pinned != named:
        raise _unusable(
            name, f"the hub names the SHA-256 {named}, not {pinned}; nothing was downloaded"
        )
    return named


def _fetch(hub: _Hub, model: HubModel, progress: Progress) -> None:
    """Put the file at its place. What there is of an earlier download is continued."""
    state, part = FetchState(progress, threading.Event()), model.path.with_suffix(".part")
    with hold_place(model.path, model.size, state):
        if not model.is_intact:
            _download_part(hub, model, part, state)
            _check(model, part)
            os.replace(part, model.path)
        _record_of(model.path).write_bytes(msgspec.json.encode(model))


def _download_part(hub: _Hub, model: HubModel, part: Path, state: FetchState) -> None:
    with part.open("ab") as file:
        if model.size and file.tell() > model.size:
            file.truncate(0)
        file.seek(0, os.SEEK_END)
        done = file.tell()
        require_space(model.size - done, part.parent)
        # The exact commit, from the endpoint: where it redirects to may expire before a later attempt.
        url = hub.library.hf_hub_url(
            model.repo, model.file, revision=model.commit, endpoint=model.endpoint
        )
        with _explain_errors(model.name, model.endpoint, hub, part):
            hub.http_get(
                url,
                file,
                resume_size=done,
                headers=hub.headers,
                expected_size=model.size or None,
                tqdm_class=lambda **given: _Bar(model, state.progress, **given),
            )
        file.flush()
        os.fsync(file.fileno())


def _check(model: HubModel, part: Path) -> None:
    found, is_model = digest_of(part), is_gguf(part)
    if found == model.sha256 and is_model:
        return
    part.unlink()
    problem = f"its SHA-256 is {found}, not {model.sha256}" if is_model else "it is not a GGUF file"
    raise _unusable(model.name, f"{problem}; it was deleted")


class _Bar:
    """What the library takes for a progress bar."""

    def __init__(
        self, model: HubModel, progress: Progress, *, total: int | None, initial: int, **_: Any
    ) -> None:
        self._model, self._progress = model, progress
        self._total, self._done = total or 0, initial

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: int) -> None:
        """Count so many bytes more."""
        self._done += count
        if self._done > self._model.size:  # it might never end
            size = self._model.size
            raise _unusable(
                self._model.name, f"the hub sends more than the {size:,} bytes it named"
            )
        self._progress(self._done, max(self._total, self._done))


# --- huggingface_hub --------------------------------------------------------------------------------


class _Hub:
    """What we use of the library. It sends nothing but the requests for the file."""

    def __init__(self) -> None:
        # Read when the library is imported. Otherwise it reports which agent runs it, and asks for a list of agents.
        os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
        try:
            import httpx2
            import huggingface_hub
            from huggingface_hub import constants, file_download
        except ModuleNotFoundError:
            raise BuildError(
                "a model of a hub needs the package 'huggingface_hub', which is not installed.",
                remedy=f"Run: {install_command('hub')}",
            ) from None
        constants.DOWNLOAD_CHUNK_SIZE = _CHUNK
        logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # errors are ours to report
        self.library: Any = huggingface_hub
        self.http_get: Callable[..., None] = file_download.http_get
        self.http_error: type[Exception] = httpx2.HTTPError
        token = os.environ.get("HF_TOKEN", "").strip()
        self.headers = {"user-agent": "hookline"}
        if token:
            self.headers["authorization"] = f"Bearer {token}"

    def keep_token_at(self, endpoint: str) -> None:
        """Take the token out of every request to another host. The library follows a mirror to hosts that it knows."""

        def strip(request: Any) -> None:
            if _origin(str(request.url)) != _origin(endpoint):
                request.headers.pop("authorization", None)

        self.library.close_session()  # without the rule of an earlier download
        session = self.library.get_session()
        hooks = session.event_hooks
        session.event_hooks = {**hooks, "request": [*hooks.get("request", ()), strip]}


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    standard = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or standard


@contextmanager
def _explain_errors(
    name: str, endpoint: str, hub: _Hub, part: Path | None = None
) -> Iterator[None]:
    """Turn what the library raises into one sentence. An error of the disk passes."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and not isinstance(error, hub.library.errors.HfHubHTTPError):
            raise
        problem, remedy = _http_problem(error, endpoint, hub.library.errors)
    except hub.http_error as error:
        problem = f"{endpoint} cannot be reached ({type(error).__name__})"
        remedy = "Check the network, the proxy, and HF_ENDPOINT."
    else:
        return
    if part is not None and (done := part.stat().st_size):
        remedy = f"{remedy} Run it again: {done / 1e6:.0f} MB are kept, and it continues there."
    raise _unusable(name, problem, remedy)


def _http_problem(error: OSError, endpoint: str, kinds: Any) -> tuple[str, str]:
    if isinstance(error, kinds.GatedRepoError):
        remedy = "Accept its terms on its page, and set HF_TOKEN."
        return "access to it must be requested from its owner", remedy
    if isinstance(error, kinds.RepositoryNotFoundError):
        remedy = "Check the name; a private one needs HF_TOKEN."
        return f"{endpoint} has no such repository, or it is private", remedy
    if isinstance(error, kinds.RevisionNotFoundError):
        return "there is no such revision", "Name a branch, a tag or a commit after the @."
    if isinstance(error, kinds.EntryNotFoundError):
        return "there is no such file in the repository", "Look up its name on the hub."
    if isinstance(error, kinds.HfHubHTTPError):
        return f"{endpoint} answered {error.response.status_code}", "Try again later."
    return str(error).partition("\n")[0].rstrip("."), "Try again."


def _unusable(name: str, problem: str, remedy: str = "") -> ModelError:
    return ModelError(f"{name}: {problem}.", remedy=remedy)
