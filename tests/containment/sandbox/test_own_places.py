"""What Hookline keeps of its own: commands change neither it nor what leads there, wherever variables put it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hookline.containment import Sandbox, SandboxPaths
from hookline.errors import SandboxError

from .conftest import Place, needs_bubblewrap

pytestmark = needs_bubblewrap

_PLANT = "(mv {0} old; mkdir -p {0}; echo x > {0}/planted) 2>/dev/null; ls -d {0} old 2>/dev/null"
"""To move it copies it, which is no harm: what has the name stays."""


def planted(place: Place) -> list[Path]:
    """What a command left behind."""
    return [*place.base.rglob("planted")]


@pytest.mark.parametrize(
    ("variable", "value", "own"),
    [
        ("HOOKLINE_DATA_DIR", "{work}/a/data", "a/data"),
        ("HOOKLINE_CONFIG_DIR", "{work}/a/settings", "a/settings"),
        ("HOOKLINE_DATA_DIR", "{outside}/link", "data"),
        ("HOOKLINE_CONFIG_DIR", "{outside}/link", "data"),
        ("XDG_DATA_HOME", "{outside}/up", "hookline"),
        ("XDG_STATE_HOME", "{outside}/up", "hookline"),
        ("XDG_STATE_HOME", "{work}//.", "hookline"),
        ("XDG_CONFIG_HOME", "xdg", "xdg/git"),
        ("GIT_CONFIG_GLOBAL", "global", "global"),
    ],
)
def test_what_lies_in_the_work_directory_is_read_only(
    place: Place, variable: str, value: str, own: str
) -> None:
    """By a link elsewhere, a relative path of git's, or a spelling of its own; also while it is missing."""
    (place.outside / "link").symlink_to(place.work / "data")
    (place.outside / "up").symlink_to("../work")
    place.own()
    named = value.format(outside=place.outside, work=place.work)
    place.run(_PLANT.format(own), env={variable: named}, cwd=str(place.work))
    assert planted(place) == []


@pytest.mark.parametrize("variable", ["HOOKLINE_DATA_DIR", "XDG_STATE_HOME", "HOOKLINE_CONFIG_DIR"])
@pytest.mark.parametrize(
    "value",
    [
        "{work}/link",
        "{work}/link/sub",
        "{work}/out",
        "{outside}/in/link",
        "{outside}/../work/out",
        "{work}/sub/../data",
        "{work}/missing/../data",
        "{outside}/in/sub/../../outside/data",
    ],
)
def test_what_leads_there_through_the_work_directory_is_refused(
    place: Place, variable: str, value: str
) -> None:
    """A command could put another link, or a link in the place of a directory before `..`."""
    (place.work / "sub").mkdir()
    (place.work / "real").mkdir()
    (place.work / "link").symlink_to("real")
    (place.work / "out").symlink_to("../outside")
    (place.outside / "in").symlink_to(place.work)
    place.own()
    named = value.format(outside=place.outside, work=place.work)
    with pytest.raises(AssertionError, match="which commands could replace"):
        place.run("true", env={variable: named})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HOOKLINE_DATA_DIR", "{work}"),
        ("HOOKLINE_DATA_DIR", "{work}/.."),
        ("XDG_DATA_HOME", "{outside}/x"),
        ("HOOKLINE_CONFIG_DIR", "{work}/."),
    ],
)
def test_no_command_works_in_what_is_our_own(place: Place, variable: str, value: str) -> None:
    """All of it is read as journals, trust or records, whatever a command writes."""
    (place.outside / "x").mkdir()
    (place.outside / "x/hookline").symlink_to(place.work)
    place.own()
    named = value.format(outside=place.outside, work=place.work)
    with pytest.raises(AssertionError, match="holds settings, trust or records"):
        place.run("true", env={variable: named}, cwd=str(place.work))


@pytest.mark.parametrize("value", ["{work}/../data", "{outside}/data", "", "/dev/null/x"])
def test_what_lies_elsewhere_is_no_matter(place: Place, value: str) -> None:
    """Beside the work directory, or nowhere."""
    env = {"HOOKLINE_DATA_DIR": value.format(outside=place.outside, work=place.work)}
    assert place.run("echo x", env=env, cwd=str(place.work)).text == "x\n"


def test_a_relative_path_of_the_xdg_variables_means_nothing(place: Place) -> None:
    """As their specification says, so that all parts of Hookline use the same directory."""
    names = ("XDG_DATA_HOME", "XDG_STATE_HOME")
    ran = place.run(
        "mkdir -p x/hookline && echo made", env=dict.fromkeys(names, "x"), cwd=str(place.work)
    )
    assert ran.text == "made\n"
    assert (place.home / ".local/state/hookline").is_dir()


def test_a_link_that_is_changed_between_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it leads then counts."""
    work, link = tmp_path / "work", tmp_path / "link"
    work.mkdir()
    link.symlink_to("work/one")
    monkeypatch.setenv("HOOKLINE_DATA_DIR", str(link))
    sandbox = Sandbox(work, "required")
    assert sandbox.run_sync("touch one/x").exit_code != 0
    link.unlink()
    link.symlink_to("work/two")
    assert sandbox.run_sync("touch one/x && ! touch two/x").exit_code == 0
    link.unlink()
    link.symlink_to("work")
    with pytest.raises(SandboxError, match="holds settings"):
        sandbox.run_sync("true")
    assert sandbox.run_sync("echo x", place="read-only").text == "x\n"


def test_a_directory_for_tmp_and_a_further_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can be written like the work directory."""
    for name in ("work", "tmp", "more"):
        (tmp_path / name).mkdir()
    (tmp_path / "tmp/link").symlink_to("../outside")
    monkeypatch.setenv("HOOKLINE_DATA_DIR", str(tmp_path / "tmp/link"))
    with pytest.raises(SandboxError, match="which commands could replace"):
        Sandbox(tmp_path / "work", paths=SandboxPaths(tmp=tmp_path / "tmp")).run_sync("true")
    monkeypatch.setenv("HOOKLINE_DATA_DIR", str(tmp_path / "tmp/data"))
    with pytest.raises(SandboxError, match="'data' holds settings"):
        Sandbox(tmp_path / "work", paths=SandboxPaths(tmp=tmp_path / "tmp")).run_sync("true")
    monkeypatch.setenv("HOOKLINE_DATA_DIR", str(tmp_path / "more/data"))
    sandbox = Sandbox(tmp_path / "work", paths=SandboxPaths(write=(tmp_path / "more",)))
    assert sandbox.run_sync(f"touch {tmp_path}/more/data/x").exit_code != 0
    assert sandbox.run_sync(f"touch {tmp_path}/more/x").exit_code == 0


def test_a_home_in_the_work_directory(place: Place) -> None:
    """What begins with a dot is not seen there, so nothing has to be held."""
    home = place.work / "home"
    (home / ".config/hookline").mkdir(parents=True)
    place.own()
    env = {"HOME": str(home), "XDG_STATE_HOME": ""}
    place.run("; ".join(_PLANT.format(f"home/{each}/hookline") for each in
                        (".config", ".local/share", ".local/state")), env=env)  # fmt: skip
    assert planted(place) == []
    assert os.listdir(home / ".config/hookline") == []


@pytest.mark.parametrize("value", [".settings", ".settings/x"])
def test_a_missing_entry_of_a_home_that_is_the_work_directory(place: Place, value: str) -> None:
    """It is made before, because only what is there is hidden: who looks meanwhile finds nothing in it."""
    env = {"HOME": str(place.work), "HOOKLINE_CONFIG_DIR": str(place.work / value)}
    look = f"mkdir -p {value}; echo x > {value}/planted; echo made; sleep 0.2"
    assert list(place.run(look, env=env).set_aside) == []
    assert not list((place.work / value).iterdir())
    assert planted(place) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_what_is_mounted_a_second_time(place: Place) -> None:
    """A directory of the work directory that the user sees elsewhere, too."""
    data = place.work / "data"
    data.mkdir()
    place.own()
    mount = ["mount", "--bind", str(data), str(place.outside)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        place.run(_PLANT.format("data"), env={"HOOKLINE_DATA_DIR": str(place.outside)})
    finally:
        subprocess.run(["umount", str(place.outside)], check=True)
    assert planted(place) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("way", ["a file in it", "a file of it", "git's file"])
def test_what_is_mounted_in_part(place: Place, way: str) -> None:
    """A container may have one file of the project as the user's settings, or the other way round."""
    settings = place.home / ".config" / "hookline"
    settings.mkdir(parents=True)
    inside, own = place.work / "file", settings / "config.toml"
    own = place.home / ".gitconfig" if way == "git's file" else own
    inside.write_text("inside")
    own.write_text("inside")
    place.own()
    ends = (own, inside) if way == "a file of it" else (inside, own)
    mount = ["mount", "--bind", *map(str, ends)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        place.run("echo planted > file; rm -f file; true")
        assert own.read_text() == "inside"
    finally:
        subprocess.run(["umount", mount[-1]], check=True)


@pytest.mark.parametrize(
    "link", [".config/nvim", ".bashrc.d", ".config/hookline/hooks", "own/hooks"]
)
def test_a_link_of_the_user_to_the_work_directory_is_refused(place: Place, link: str) -> None:
    """Whatever is written at the top of the directory would be obeyed."""
    (place.home / link).parent.mkdir(parents=True, exist_ok=True)
    (place.home / link).symlink_to(place.work)
    place.own()
    with pytest.raises(AssertionError, match="where commands can write"):
        place.run("true", env={"HOOKLINE_CONFIG_DIR": str(place.home / "own")})


def test_a_whole_path_that_enters_and_leaves_a_directory(place: Place) -> None:
    """A command could put a link in the place of the directory that git's settings only pass."""
    (place.work / "a").mkdir()
    hooks = f"{place.work}/a/../../outside/hooks"
    (place.home / ".gitconfig").write_text(f"[core]\n\thooksPath = {hooks}\n")
    subprocess.run(["git", "init", "-q", str(place.work)], check=True)
    place.own()
    place.run("mkdir -p z/q/w z/outside/hooks; mv a a2 && ln -s z/q/w a; true")
    assert not (place.work / "a").is_symlink()


def test_a_whole_path_that_only_passes_the_work_directory(place: Place) -> None:
    """Nobody can put a link in its place: commands run."""
    settings = f"[core]\n\thooksPath = {place.work}/../outside/hooks\n"
    (place.home / ".gitconfig").write_text(settings)
    subprocess.run(["git", "init", "-q", str(place.work)], check=True)
    place.own()
    assert place.run("echo fine").text == "fine\n"
