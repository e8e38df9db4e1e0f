from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from hookline.providers.local.weights import DEFAULT, WheelMember


@pytest.fixture(scope="session")
def model(pytestconfig: pytest.Config) -> Path:
    """The default model's file, where somebody has fetched it; what needs it is skipped otherwise."""
    pytest.importorskip("xllamacpp")
    places = [DEFAULT.path]
    if getattr(pytestconfig, "cache", None) is not None:  # pytest can be run without it
        places.append(pytestconfig.cache.mkdir("smollm2") / "smollm2.gguf")
    for place in places:
        if place.is_file():
            with place.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == DEFAULT.source.sha256:
                    return place
    pytest.skip("the model is not here; `hookline model get` fetches it")


@pytest.fixture
def wheel(tmp_path: Path) -> tuple[WheelMember, Path]:
    """A small wheel with something like a model in it, in a folder of its own, and its source."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    content = b"GGUF" + bytes(range(256)) * 1000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("tiny_model/__init__.py", "raise SystemExit('never run')\n")
        file.writestr("tiny_model/tiny.gguf", content)
        about = "tiny_model-1.0.dist-info"
        file.writestr(
            f"{about}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: no-such-thing\n",
        )
        file.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{about}/RECORD", "")
    source = WheelMember(
        package="tiny-model",
        version="1.0",
        wheel=path.name,
        wheel_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        wheel_size=path.stat().st_size,
        member="tiny_model/tiny.gguf",
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
    )
    return source, path


@pytest.fixture
def unconfigured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A world in which neither pip nor uv is configured for anything."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_", "XDG_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(home / "etc"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.chdir(home)
    return monkeypatch
