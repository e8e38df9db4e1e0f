"""Files and variables that are there, and cannot mean anything: told, and never passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hookline.config import load
from hookline.errors import ConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user with a home of their own."""
    return {"HOME": str(tmp_path / "home")}


@pytest.mark.parametrize("name", ["hookline.toml", ".hookline/config.toml"])
@pytest.mark.parametrize("what", ["directory", "pipe", "link"])
def test_what_is_no_file_is_told(
    name: str, what: str, project: Path, environ: dict[str, str]
) -> None:
    """It may be meant to forbid something. Without files it is not looked at."""
    path = project / name
    path.parent.mkdir(exist_ok=True)
    if what == "directory":
        path.mkdir()
    elif what == "link":
        path.symlink_to("nowhere")
    elif hasattr(os, "mkfifo"):
        os.mkfifo(path)
    else:
        pytest.skip("there are no named pipes here")
    with pytest.raises(ConfigError, match=r"cannot be read: it is (a directory|no file|a link)"):
        load(project, environ)
    assert load(project, environ, bare=True).project == project.resolve()


def test_the_users_own_file_too(project: Path, environ: dict[str, str]) -> None:
    """It is read before all others."""
    own = Path(environ["HOME"]) / ".config/hookline/config.toml"
    own.mkdir(parents=True)
    with pytest.raises(ConfigError, match="it is a directory"):
        load(project, environ)


@pytest.mark.skipif(os.name != "posix", reason="there is no null device to link to")
def test_the_null_device_is_no_file(project: Path, environ: dict[str, str]) -> None:
    """It stands in the place of files that are not to be seen; and a pyproject.toml is everybody's."""
    (project / "hookline.toml").symlink_to(os.devnull)
    (project / "pyproject.toml").mkdir()
    assert load(project, environ).files == ()


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{ a = " * 100_000,
        "capabilities.bash." + ".".join("a" * 900) + " = 1",
    ],
)
def test_what_is_too_deep_is_told(text: str, project: Path, environ: dict[str, str]) -> None:
    """As any other mistake in a file, with its name."""
    (project / "hookline.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"hookline\.toml has lists or tables in each other"):
        load(project, environ)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HOOKLINE_MAX_STEP", "HOOKLINE_MAX_STEPS"),
        ("HOOKLINE_MODELL", "HOOKLINE_MODEL"),
        ("HOOKLINE_SANBOX", "HOOKLINE_SANDBOX"),
        ("HOOKLINE_CONFIG_DIRS", "HOOKLINE_CONFIG_DIR"),
    ],
)
def test_a_variable_with_a_slip_in_it_is_told(
    name: str, meant: str, project: Path, environ: dict[str, str]
) -> None:
    """Whoever set it relies on it. Empty it says nothing, and without variables it is not looked at."""
    with pytest.raises(ConfigError, match=rf"{name} means nothing\. Did you mean {meant}\?"):
        load(project, {**environ, name: "5"})
    assert load(project, {**environ, name: ""}).files == ()
    assert load(project, {**environ, name: "5"}, bare=True).files == ()


@pytest.mark.parametrize(
    "name",
    [
        "HOOKLINE_PROJECT_DIR",
        "HOOKLINE_POINT",
        "HOOKLINE_SESSION_ID",
        "HOOKLINE_HOOK_RUN",
        "HOOKLINE_COMMAND",
        "HOOKLINE_DEBUG",
        "HOOKLINE_DEPLOY_KEY",
    ],
)
def test_other_variables_are_let_be(name: str, project: Path, environ: dict[str, str]) -> None:
    """Those that the runtime sets for what it starts, and those of somebody else."""
    assert load(project, {**environ, name: "x"}).configuration.model == "local:"
