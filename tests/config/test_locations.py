"""Files and variables that cannot mean anything are reported, and never ignored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from somebody import as_somebody

from hookline.config import load
from hookline.errors import ConfigError


@pytest.mark.parametrize("name", ["hookline.toml", ".hookline/config.toml"])
@pytest.mark.parametrize("what", ["directory", "pipe", "link"])
def test_what_is_no_file_is_reported(
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
    with pytest.raises(
        ConfigError, match=r"cannot be read: it is (a directory|not a file|a broken link)"
    ):
        load(project, environ)
    assert load(project, environ, bare=True).project == project.resolve()


def test_the_users_own_file_too(project: Path, environ: dict[str, str]) -> None:
    """It is read before all others."""
    own = Path(environ["HOME"]) / ".config/hookline/config.toml"
    own.mkdir(parents=True)
    with pytest.raises(ConfigError, match="it is a directory"):
        load(project, environ)


def test_the_null_device_is_no_file(project: Path, environ: dict[str, str]) -> None:
    """It stands in the place of files that are not to be seen; and a pyproject.toml is everybody's."""
    (project / "hookline.toml").symlink_to(os.devnull)
    (project / "pyproject.toml").mkdir()
    assert load(project, environ).files == ()


TOO_DEEP = [
    "a = " + "[" * 100_000,
    "a = " + "{ a = " * 100_000,
    "capabilities.bash." + ".".join("a" * 900) + " = 1",
    "a = [" + "\n[" * 100 + "]" * 101,
]


@pytest.mark.parametrize("text", TOO_DEEP)
def test_what_is_too_deep_is_reported(text: str, project: Path, environ: dict[str, str]) -> None:
    """As any other mistake, with the name of the file."""
    (project / "hookline.toml").write_text(f'model = "local:"\n\n{text}\n')
    with pytest.raises(ConfigError, match=r"hookline\.toml: lists or tables are nested deeper"):
        load(project, environ)


BROKEN = ['x = "never ends', "= 1", "[[[", "a = 1\na = 2", *TOO_DEEP[:2]]
OURS = ["[tool.hookline]\n", '[ "tool" . "hookline" ]\n', 'dependencies = ["hookline>=0.1"]\n']


@pytest.mark.parametrize("broken", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("table", OURS)
def test_a_broken_pyproject_that_mentions_us_is_reported(
    table: str, broken: str, project: Path, environ: dict[str, str]
) -> None:
    """It may forbid something; file and line are named, and --bare does without."""
    (project / "pyproject.toml").write_text(f"{table}{broken}\n")
    with pytest.raises(ConfigError, match=r"pyproject\.toml(:\d+)?: "):
        load(project, environ)
    assert load(project, environ, bare=True).files == ()


@pytest.mark.parametrize("broken", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_pyproject_of_others_is_theirs(
    broken: str, project: Path, environ: dict[str, str]
) -> None:
    """One that does not mention us has no table of ours."""
    (project / "pyproject.toml").write_text(f'[project]\nname = "x"\n{broken}\n')
    assert load(project, environ).files == ()


@pytest.mark.parametrize("text", ['tool = "hookline"\n', "tool = 3\n", '[tool]\nx = "hookline"\n'])
def test_a_pyproject_whose_tool_is_something_else_is_theirs(
    text: str, project: Path, environ: dict[str, str]
) -> None:
    """It is TOML, so it is known to have no table of ours."""
    (project / "pyproject.toml").write_text(text)
    assert load(project, environ).files == ()


def test_what_others_nest_in_a_pyproject_is_theirs(project: Path, environ: dict[str, str]) -> None:
    """Only our table has to be as flat as settings are."""
    deep = f"[tool.other]\na = {'[' * 80}{']' * 80}\n"
    path = project / "pyproject.toml"
    path.write_text(f"{deep}[tool.hookline.limits]\nsteps = 3\n")
    assert load(project, environ).configuration.limits.steps == 3
    path.write_text("[tool]\nhookline = 3\n")
    with pytest.raises(ConfigError, match=r"pyproject\.toml.*table"):
        load(project, environ)


def test_a_pyproject_in_another_encoding_is_reported(
    project: Path, environ: dict[str, str]
) -> None:
    """With the line where it ceases to be UTF-8."""
    path = project / "pyproject.toml"
    path.write_bytes('[tool.hookline]\n\nmodel = "caf\u00e9"\n'.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"pyproject\.toml:3: it is not text in UTF-8"):
        load(project, environ)
    path.write_bytes("[tool.hookline]\n".encode("utf-16"))
    with pytest.raises(ConfigError, match=r"pyproject\.toml:1: it is not text in UTF-8"):
        load(project, environ)


def test_a_pyproject_that_cannot_be_read_is_reported() -> None:
    """It may have a table of ours."""
    with as_somebody() as home:
        path = home / "pyproject.toml"
        path.write_text("[tool.hookline]\n")
        path.chmod(0)
        with pytest.raises(ConfigError, match=r"pyproject\.toml cannot be read"):
            load(home, {"HOME": str(home / "home")})


@pytest.mark.parametrize("value", ["conf", "./conf", "..", "~unknown-user/conf"])
def test_a_relative_directory_of_our_own_is_reported(
    value: str, project: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository could bring the trust file by which it is trusted."""
    monkeypatch.chdir(project)
    (project / "conf").mkdir()
    (project / "conf/config.toml").write_text("[hooks]\n")
    with pytest.raises(ConfigError, match=r"HOOKLINE_CONFIG_DIR=.* is a relative path"):
        load(project, {**environ, "HOOKLINE_CONFIG_DIR": value})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HOOKLINE_MAX_STEP", "HOOKLINE_MAX_STEPS"),
        ("HOOKLINE_MODELL", "HOOKLINE_MODEL"),
        ("HOOKLINE_SANBOX", "HOOKLINE_SANDBOX"),
        ("HOOKLINE_CONFIG_DIRS", "HOOKLINE_CONFIG_DIR"),
    ],
)
def test_a_variable_with_a_slip_in_it_is_reported(
    name: str, meant: str, project: Path, environ: dict[str, str]
) -> None:
    """Whoever set it relies on it. Empty it says nothing, and without variables it is not looked at."""
    with pytest.raises(
        ConfigError, match=rf"the variable {name} has no meaning\. Did you mean {meant}\?"
    ):
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
def test_other_variables_are_ignored(name: str, project: Path, environ: dict[str, str]) -> None:
    """Those that the runtime sets for what it starts, and those of somebody else."""
    assert load(project, {**environ, name: "x"}).configuration.model == "local:"


@pytest.mark.parametrize("name", ["pyproject.toml", "hookline.toml", ".hookline/config.toml"])
def test_a_file_without_an_end_is_reported(
    name: str, project: Path, environ: dict[str, str]
) -> None:
    """A repository cannot have us read forever."""
    path = project / name
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(1 << 36)  # nothing of it is on the disk
    with pytest.raises(ConfigError, match="it is larger than 10 MB"):
        load(project, environ)


@pytest.mark.parametrize("name", ["pyproject.toml", "hookline.toml"])
def test_a_file_may_begin_with_a_byte_order_mark(
    name: str, project: Path, environ: dict[str, str]
) -> None:
    """As some editors write it."""
    table = "tool.hookline.limits" if name == "pyproject.toml" else "limits"
    (project / name).write_bytes(b"\xef\xbb\xbf" + f"[{table}]\r\nsteps = 3\r\n".encode())
    settings = load(project, environ)
    assert settings.configuration.limits.steps == 3
    assert settings.where("limits", "steps").endswith(f"{name}:2")
