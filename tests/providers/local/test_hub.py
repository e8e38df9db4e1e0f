"""Files of a hub, downloaded from one on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_hub import COMMIT, CONTENT, FILE, SHA256, Hub, loopback_hub
from terminal import Terminal

from hookline.cli import main
from hookline.errors import BuildError, ModelError, ModelNotFoundError
from hookline.extras import install_command
from hookline.providers.local.hub import HubModel, download, hub_models

pytest.importorskip("huggingface_hub")

NAME = f"hf:acme/tiny-GGUF/{FILE}"
_PROGRAM = "import sys; from hookline.cli import main; sys.exit(main())"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that is configured, a token for it, and an empty cache."""
    with loopback_hub() as made:
        monkeypatch.setenv("HF_ENDPOINT", made.url)
        for name in ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"):
            monkeypatch.setenv(name, "600")  # this machine may be busy
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("HOOKLINE_CACHE_DIR", str(tmp_path / "cache"))
        yield made


def model_get(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`hookline model ARGUMENTS`, in a process of its own: the library reads its variables when it is imported."""
    command = [sys.executable, "-c", _PROGRAM, "model", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def kept(tmp_path: Path) -> list[str]:
    """What is in the folder of the models, without locks."""
    folder = tmp_path / "cache" / "models"
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    return sorted(name for name in names if not name.endswith(".lock"))


def test_a_file_is_downloaded_and_recorded(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the commit and the hash that the hub names; a second time nothing is downloaded."""

    def model(*arguments: str) -> str:
        assert main(["model", *arguments]) == 0
        shown = capsys.readouterr()
        return shown.out + shown.err

    done = model_get("get", NAME)
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert path.read_bytes() == CONTENT
    record = json.loads(path.with_name(f"{path.name}.json").read_text())
    assert record == {
        "repo": "acme/tiny-GGUF",
        "file": FILE,
        "commit": COMMIT,
        "sha256": SHA256,
        "size": len(CONTENT),
        "endpoint": hub.url,
    }
    assert hub.asked.lines == [
        f"HEAD /acme/tiny-GGUF/resolve/main/{FILE}",
        f"GET /acme/tiny-GGUF/resolve/{COMMIT}/{FILE}",
    ]
    assert str(path) in model("get", f"{NAME}@{COMMIT}", "--sha256", SHA256.upper())
    assert hub.storage.lines == ["GET /blob?signature=1"]
    assert f"local:{path}  {NAME}@{COMMIT}, 3 MB" in model("list")
    path.write_bytes(b"GGUF")
    assert "damaged: hf:" in model("list")
    model("get", NAME)
    assert path.read_bytes() == CONTENT
    assert "is not here" in model("remove", "hf:")
    assert "was deleted" in model("remove", NAME)
    assert kept(tmp_path) == []


def test_the_token_goes_to_the_endpoint_only(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to the host with the file, and not from a mirror to a host that the library takes for the hub."""
    assert model_get("get", NAME).returncode == 0
    assert {each[2].get("authorization") for each in hub.asked} == {"Bearer hf_secret"}
    assert all("authorization" not in headers for _, _, headers in hub.storage)
    with loopback_hub() as mirror:
        mirror.mirror_of = hub.url
        # The library takes HF_ENDPOINT, as it was when it was imported, and huggingface.co for the hub.
        program = (
            f"import os; from huggingface_hub.utils import _http; os.environ['HF_ENDPOINT'] = {mirror.url!r}\n"
            f"assert _http._is_same_or_hub_host({mirror.url!r}, {hub.url!r})\n{_PROGRAM}"
        )
        before = len(hub.asked)
        command = [sys.executable, "-c", program, "model", "get", NAME]
        monkeypatch.setenv("HOOKLINE_CACHE_DIR", str(tmp_path / "other"))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert {each[2].get("authorization") for each in mirror.asked} == {"Bearer hf_secret"}
        assert len(hub.asked) > before
        assert all("authorization" not in headers for _, _, headers in hub.asked[before:])


def test_wrong_hashes_keep_nothing(hub: Hub, tmp_path: Path) -> None:
    """A file of the right size with other bytes, one that is no model, and a pin that the hub contradicts."""
    other = CONTENT[:-1] + b"\0"
    hub.content = other
    with pytest.raises(ModelError, match=hashlib.sha256(other).hexdigest()):
        download(NAME)
    assert kept(tmp_path) == []
    asked = len(hub.storage)
    with pytest.raises(ModelError, match="nothing was downloaded"):
        download(NAME, sha256="0" * 64)
    hub.etag = '"0123456789012345678901234567890123456789"'  # of a file that is not in LFS
    with pytest.raises(ModelError, match="names no SHA-256"):
        download(NAME)
    assert len(hub.storage) == asked
    with pytest.raises(ModelError, match="not " + SHA256):
        download(NAME, sha256=SHA256)
    assert kept(tmp_path) == []
    hub.content = b"PK" + CONTENT[2:]
    hub.etag = f'"{hashlib.sha256(hub.content).hexdigest()}"'
    with pytest.raises(ModelError, match="not a GGUF file"):
        download(NAME)
    assert kept(tmp_path) == []
    hub.content, hub.etag = CONTENT, '"0123456789012345678901234567890123456789"'
    assert download(NAME, sha256=SHA256).path.read_bytes() == CONTENT


def test_a_hub_that_sends_more_than_it_names_is_stopped(hub: Hub) -> None:
    """It might never end. One that names no size is not asked for the file."""
    hub.size = "1004"
    with pytest.raises(ModelError, match=r"more than the 1,004 bytes"):
        download(NAME)
    asked, hub.size = len(hub.storage), "0"
    with pytest.raises(ModelError, match="does not say how large it is"):
        download(NAME)
    assert len(hub.storage) == asked


def test_progress_is_reported_and_a_cut_connection_continues(hub: Hub) -> None:
    """In the same download, with what has come already."""
    hub.cut_at = 1 << 21
    seen: list[tuple[int, int]] = []
    model = download(NAME, progress=lambda done, total: seen.append((done, total)))
    assert model.path.read_bytes() == CONTENT
    assert len(seen) >= 3
    assert seen == sorted(seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert {total for _, total in seen} == {len(CONTENT)}
    ranges = [headers.get("range") for _, _, headers in hub.storage]
    assert ranges[0] is None
    assert len(ranges) == 2
    assert ranges[1]
    assert list(hub_models()) == [model]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_was_interrupted_continues(hub: Hub, tmp_path: Path, number: signal.Signals) -> None:
    """Also in another process, after Ctrl-C and after a kill. On a terminal there is a bar."""
    hub.stall_at = 1 << 21
    env = {name: os.environ[name] for name in os.environ if name.startswith(("HF_", "HOOKLINE_"))}
    screen = Terminal("model", "get", NAME, cwd=tmp_path, env=env)
    screen.wait_for(f"of {len(CONTENT) / 1e6:.0f} MB")
    part = tmp_path / "cache" / "models" / f"{Path(FILE).stem}-{SHA256[:12]}.part"
    until = time.monotonic() + 60
    while part.stat().st_size < 1 << 20 and time.monotonic() < until:
        time.sleep(0.01)
    if number is signal.SIGKILL:
        os.kill(screen.pid, number)
        screen.end()
    else:
        assert screen.interrupt() == 130
        assert "the same command continues there" in screen.text
    there = part.stat().st_size
    assert 0 < there < len(CONTENT)
    assert CONTENT.startswith(part.read_bytes())
    hub.stall_at = 0
    done = model_get("get", NAME)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_bytes() == CONTENT
    assert hub.storage[-1][2]["range"] == f"bytes={there}-"
    assert not part.exists()


def test_a_damaged_part_is_not_kept(hub: Hub, tmp_path: Path) -> None:
    """One that is too long starts again; one with other bytes is found by the hash."""
    model = HubModel(
        repo="acme/tiny-GGUF", file=FILE, commit=COMMIT, sha256=SHA256, size=0, endpoint=""
    )
    part = model.path.with_suffix(".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT + b"more")
    assert download(NAME).path.read_bytes() == CONTENT
    model.path.unlink()
    part.write_bytes(b"GGUG")
    with pytest.raises(ModelError, match="it was deleted"):
        download(NAME)
    assert download(NAME).path.read_bytes() == CONTENT


def test_what_the_hub_refuses_is_one_sentence(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do about it, and without the token."""
    problems = [
        ((404, "EntryNotFound"), "no such file"),
        ((404, "RevisionNotFound"), "no such revision"),
        ((401, "RepoNotFound"), "no such repository, or it is private"),
        ((403, "GatedRepo"), "set HF_TOKEN"),
        ((500, ""), "answered 500"),
    ]
    for hub.error, words in problems:
        with pytest.raises(ModelError) as raised:
            download(NAME)
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)
        assert "hf_secret" not in str(raised.value)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(ModelError, match="cannot be reached"):
        download(NAME)


def test_what_names_no_file_is_refused(hub: Hub) -> None:
    """Before anything is asked."""
    names = """
        hf:  hf:acme/tiny.gguf  hf:acme/tiny/model.bin  hf:acme/tiny/../x.gguf  hf:../tiny/x.gguf
        hf:acme/tiny//x.gguf  hf:acme/tiny/x.gguf@  hf:acme/tiny/x.gguf@../main  hf:acme/tiny/\\x.gguf
    """
    for name in (*names.split(), "hf:acme/tiny/x\n.gguf"):
        with pytest.raises(ModelNotFoundError, match="Write hf:OWNER/REPO/FILE"):
            download(name)
    assert hub.asked == []


def test_a_pin_is_a_hash(hub: Hub) -> None:
    """And it is about a file of a hub."""
    with pytest.raises(BuildError, match="64 hexadecimal digits"):
        download(NAME, sha256="abc")
    assert model_get("get", "--sha256", SHA256).returncode == 2


def test_the_library_is_an_extra() -> None:
    """Without it one line says what to install."""
    program = f"import sys; sys.modules['huggingface_hub'] = None; {_PROGRAM}"
    # A name that means nothing is reported first.
    said = {NAME: (install_command("hub"), 6), "hf:nope": ("Write hf:OWNER/REPO/FILE", 1)}
    for name, (remedy, code) in said.items():
        command = [sys.executable, "-c", program, "model", "get", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert remedy in done.stderr
        assert done.returncode == code
        assert len(done.stderr.splitlines()) == 1


def test_an_endpoint_is_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything else is an error that names the variable, and nothing is asked."""
    for given in ("http://[::1", "http://host:port", "ftp://host", "huggingface.co", "https://"):
        monkeypatch.setenv("HF_ENDPOINT", given)
        with pytest.raises(BuildError, match="HF_ENDPOINT"):
            download(NAME)
