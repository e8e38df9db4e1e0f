"""Where commands run, by files, variables and flags: the last word counts, and a stranger's only tightens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.config import Layer, Merged, Settings, keep_stricter, load, read_layer
from hookline.errors import ConfigError

PLACES = ("host", "workspace", "read-only")
SANDBOXES = ("auto", "required")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with nothing in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def said(settings: Settings) -> dict[str, Any]:
    """The options of the shell."""
    return dict(settings.configuration.capabilities["bash"])


def load_with(project: Path, own: str = "", theirs: str = "", **more: str) -> Settings:
    """The settings with these options in the user's file, in the project's, and in the environment."""
    home = project.parent / "home"
    path = home / ".config/hookline/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[capabilities.bash]\n{own}\n")
    (project / "hookline.toml").write_text(f"[capabilities.bash]\n{theirs}\n")
    return load(project, {"HOME": str(home), **more})


@pytest.mark.parametrize(
    ("own", "theirs", "place"),
    [
        ("", 'place = "read-only"', "read-only"),
        ("", 'place = "workspace"', "workspace"),
        ("", 'place = "host"', None),
        ("", 'sandbox = "host"', None),
        ('place = "host"', 'place = "workspace"', "workspace"),
        ('place = "host"', 'place = "read-only"', "read-only"),
        ('sandbox = "host"', 'place = "workspace"', "workspace"),
        ('place = "read-only"', 'place = "workspace"', "read-only"),
        ('place = "read-only"', 'place = "host"', "read-only"),
        ('place = "read-only"', 'sandbox = "host"', "read-only"),
        ('place = "workspace"', 'place = ["host"]', None),
    ],
)
def test_a_project_that_is_not_trusted_only_makes_the_place_stricter(
    project: Path, own: str, theirs: str, place: str | None
) -> None:
    """What would loosen it waits for trust, and is listed."""
    settings = load_with(project, own, theirs)
    expected = place or ("workspace" if "workspace" in own else None)
    assert said(settings).get("place") == expected
    assert bool(settings.held) == (place not in theirs if place else True)


def test_a_project_that_is_not_trusted_only_makes_the_sandbox_stricter(project: Path) -> None:
    """It can require one, and not take the requirement back."""
    assert said(load_with(project, "", 'sandbox = "required"'))["sandbox"] == "required"
    loosened = load_with(project, 'sandbox = "required"', 'sandbox = "auto"')
    assert said(loosened)["sandbox"] == "required"
    assert [held.setting for held in loosened.held] == ["capabilities.bash.sandbox"]


@given(
    st.sampled_from(PLACES),
    st.sampled_from(PLACES),
    st.sampled_from(SANDBOXES),
    st.sampled_from(SANDBOXES),
)
def test_nothing_that_is_kept_is_looser(mine: str, theirs: str, have: str, want: str) -> None:
    """For any two places and any two requirements, what holds in the end is at least as strict as the user's."""
    below = {"capabilities": {"bash": {"place": mine, "sandbox": have}}}
    layer = Layer("theirs", {"capabilities": {"bash": {"place": theirs, "sandbox": want}}})
    kept, held = keep_stricter(layer, below)
    merged = Merged()
    for each in (Layer("mine", below), kept):
        merged.add_layer(each)
    bash = merged.data["capabilities"]["bash"]
    assert PLACES.index(bash["place"]) == max(PLACES.index(mine), PLACES.index(theirs))
    assert SANDBOXES.index(bash["sandbox"]) == max(SANDBOXES.index(have), SANDBOXES.index(want))
    is_held = {path[-1] for path in held}
    assert ("place" in is_held) == (PLACES.index(theirs) < PLACES.index(mine))


def test_the_older_word_means_the_place_in_every_layer(project: Path) -> None:
    """`sandbox = "host"` is `place = "host"`, so another layer can change it; where it was said is known."""
    settings = load_with(project, 'sandbox = "host"')
    assert said(settings) == {"sandbox": "auto", "place": "host"}
    assert settings.where("capabilities", "bash", "place").endswith("config.toml:2")
    over = load_with(project, 'sandbox = "required"', HOOKLINE_SANDBOX="host")
    assert said(over) == {"sandbox": "auto", "place": "host"}
    assert over.where("capabilities", "bash", "place") == "$HOOKLINE_SANDBOX"
    strict = load_with(project, 'sandbox = "host"', HOOKLINE_PLACE="read-only")
    assert said(strict) == {"sandbox": "auto", "place": "read-only"}


def test_an_agent_of_its_own_has_a_place_of_its_own(project: Path) -> None:
    """In its table the words mean the same."""
    home = project.parent / "home"
    path = home / ".config/hookline/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(
        '[capabilities.bash]\nplace = "read-only"\n[agents.a.capabilities.bash]\nsandbox = "host"\n'
    )
    environ = {"HOME": str(home)}
    assert said(load(project, environ)) == {"place": "read-only"}
    assert said(load(project, environ, agent="a")) == {"place": "host", "sandbox": "auto"}
    assert read_layer(path).data["agents"]["a"]["capabilities"]["bash"] == {"sandbox": "host"}


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("HOOKLINE_PLACE", "read-only, workspace, host"),
        ("HOOKLINE_SANDBOX", "required, auto, host"),
    ],
)
@pytest.mark.parametrize("value", ["requierd", "Host", "workspace auto"])
def test_a_wrong_variable_names_the_choices(
    project: Path, name: str, choices: str, value: str
) -> None:
    """Whoever set it relies on it."""
    with pytest.raises(ConfigError) as caught:
        load(project, {"HOME": str(project), name: value})
    assert caught.value.message == f"${name} is {value!r}."
    assert caught.value.remedy == f"Set it to one of: {choices}. Or unset it."
