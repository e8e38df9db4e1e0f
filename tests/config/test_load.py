"""What files may contain, how mistakes are reported, and where commands run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.config import Layer, Settings, load
from hookline.config.layers import MergedLayers, is_of_project, put, read_layer
from hookline.config.untrusted import keep_stricter
from hookline.errors import ConfigError
from hookline.own_directories import home


def user_file(environ: dict[str, str], text: str) -> Path:
    """The user's own configuration."""
    path = Path(environ["HOME"]) / ".config/hookline/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ('modle = "x"', 1, "'modle' is not a setting. Did you mean 'model'?"),
        ('[limits]\nsteps = "a"', 2, "'limits.steps' is 'a': expected a whole number, got text."),
        ("[limits]\nsteps = -1", 2, "'limits.steps' is -1"),
        ("[limits]\n\nstesp = 1", 3, "'limits.stesp' is not a setting. Did you mean 'steps'?"),
        ('[approvals]\nmode = "plna"', 2, "that is not one of its values. Did you mean 'plan'?"),
        ("[mcp.time]\nargs = []", 1, "'mcp.time' has none of command, url."),
        ('[agents.a]\nmodl = "x"', 2, "'agents.a.modl' is not a setting. Did you mean 'model'?"),
        ("hooks = [1]", 1, "'hooks[0]' is 1, and should be a table. Write [[hooks]]."),
        ('[[hooks]]\ndo = "log"', 1, "'hooks[0]' has no 'on'."),
        (
            '[[hooks]]\non = "stop"\ndo = "log"\n[[hooks]]\non = "stop"\n',
            4,
            "'hooks[1]' has none of",
        ),
        ('[[hooks]]\non = "stop"\ndo = "log"\nurl = "x"', 1, "'hooks[0]' has 'url' and 'do'."),
        ('[[hooks]]\non = "stop"\ndo = "block"', 1, "is a rule to block without a reason."),
        ("[limits]\nseconds = inf", 2, "'limits.seconds' is inf. Give a number"),
        ("[limits]\ncost = nan", 2, "'limits.cost' is nan: expected a number"),
        ("[capabilities]\nfiles = true", 2, "'capabilities.files' is true, and should be a table."),
        ('[hooks]\non = "stop"', 1, "'hooks' is one table, and should be a list of them."),
        ('dialects = ["claud"]', 1, "'dialects[0]' is 'claud': that is not one of its values."),
        (
            '[[hooks]]\non = "stop"\ndo = "log"\nmatch = { tol = "x" }',
            4,
            "'hooks[0].match.tol' is not a setting. Did you mean 'tool'?",
        ),
        ('[[hooks]]\non = "stop"\nurl = "x"', 3, "'hooks[0].url' is 'x'. Begin it with http://"),
        ("model = 1", 1, "'model' is 1: expected text or a list, got a whole number."),
    ],
)
def test_a_mistake_is_reported_with_its_line(
    text: str, line: int, problem: str, project: Path, environ: dict[str, str]
) -> None:
    """File, line, the setting, what is wrong, and what was probably meant."""
    path = project / "hookline.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(project, environ)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert problem in str(error.value)


def test_what_is_not_toml(project: Path, environ: dict[str, str]) -> None:
    """A file that cannot be read says so, with its line."""
    (project / "hookline.toml").write_text("model = \n")
    with pytest.raises(ConfigError, match=r"hookline\.toml:1: it is not TOML: .*line 1"):
        load(project, environ)


def test_later_layers_win_and_each_value_knows_its_origin(
    project: Path, environ: dict[str, str]
) -> None:
    """Default, user, the project's files, the environment, flags: in this order."""
    own = user_file(environ, 'model = "user:1"\nsystem_prompt = "mine"\n[limits]\nsteps = 40\n')
    settings = load(project, environ)
    assert settings.configuration.model == "user:1"
    assert settings.where("model") == f"{own}:1"
    assert settings.where("limits", "steps") == f"{own}:4"
    assert settings.where("limits", "tokens") == "default"

    settings = load(project, {**environ, "HOOKLINE_MODEL": "env:1", "HOOKLINE_MAX_STEPS": "7"})
    assert (settings.configuration.model, settings.configuration.limits.steps) == ("env:1", 7)
    assert settings.where("model") == "$HOOKLINE_MODEL"

    flags = Layer("flag", {}, sources={("model",): "--model"})
    put(flags.data, ("model",), "flag:1")
    settings = load(project, {**environ, "HOOKLINE_MODEL": "env:1"}, flags=flags)
    assert settings.configuration.model == "flag:1"
    assert settings.where("model") == "--model"
    assert settings.configuration.system_prompt == "mine"


def test_bare_reads_nothing(project: Path, environ: dict[str, str]) -> None:
    """Neither files nor variables."""
    user_file(environ, 'model = "user:1"')
    (project / "hookline.toml").write_text("this is not TOML")
    settings = load(project, {**environ, "HOOKLINE_MODEL": "env:1"}, bare=True)
    assert settings.configuration.model == "local:"
    assert settings.files == ()


def test_rules_and_hooks_add_up(project: Path, environ: dict[str, str]) -> None:
    """What the user denies stays denied, whatever a project says besides."""
    user_file(
        environ,
        '[approvals]\ndeny = ["read(.env)"]\n[[hooks]]\non = "stop"\ndo = "log"\nreason = "x"\n',
    )
    (project / "hookline.toml").write_text(
        '[approvals]\ndeny = ["bash", "read(.env)"]\n'
        '[[hooks]]\non = "before_tool_use"\ndo = "block"\nreason = "no"\n'
    )
    settings = load(project, environ)
    assert settings.configuration.approvals.deny == ("read(.env)", "bash")
    assert [hook.do for hook in settings.configuration.hooks] == ["log", "block"]
    assert settings.where("hooks", 1).endswith("hookline.toml:3")


def test_an_agents_table_goes_over_the_rest(project: Path, environ: dict[str, str]) -> None:
    """And under the environment; a name that is not there is an error."""
    user_file(
        environ,
        'model = "a:1"\nsystem_prompt = "all"\n[agents.critic]\nmodel = "b:1"\n[agents.critic.limits]\nsteps = 3\n',
    )
    settings = load(project, environ, agent="critic")
    assert (settings.configuration.model, settings.configuration.limits.steps) == ("b:1", 3)
    assert settings.configuration.system_prompt == "all"
    assert settings.where("model").endswith("config.toml:4")
    assert (
        load(project, {**environ, "HOOKLINE_MODEL": "c:1"}, agent="critic").configuration.model
        == "c:1"
    )
    with pytest.raises(ConfigError, match="there is no agent 'critc'"):
        load(project, environ, agent="critc")


def test_a_variable_that_is_no_number(project: Path, environ: dict[str, str]) -> None:
    """It is named."""
    with pytest.raises(ConfigError, match=r"\$HOOKLINE_MAX_STEPS is 'many'"):
        load(project, {**environ, "HOOKLINE_MAX_STEPS": "many"})


def test_the_nearest_project_above_counts(project: Path, environ: dict[str, str]) -> None:
    """Up to the repository's root, and never the home directory or above it."""
    (project / "hookline.toml").write_text("")
    below = project / "a/b"
    below.mkdir(parents=True)
    assert load(below, environ).project == project.resolve()
    (below.parent / ".git").mkdir()
    assert load(below, environ).project == below.parent.resolve()
    assert load(below, {"HOME": str(project)}).project == below.parent.resolve()


def test_pyproject_has_a_table_of_ours(project: Path, environ: dict[str, str]) -> None:
    """Its lines are reported too; without the table the file is somebody else's."""
    path = project / "pyproject.toml"
    path.write_text('[project]\nname = "x"\n')
    assert load(project, environ).files == ()
    path.write_text('[project]\nname = "x"\n[tool.hookline.limits]\nstep = 1\n')
    with pytest.raises(ConfigError, match=r"pyproject\.toml:4: 'limits\.step' is not a setting"):
        load(project, environ)


def test_a_table_for_another_file_is_reported(project: Path, environ: dict[str, str]) -> None:
    """[tool.hookline] is for pyproject.toml."""
    (project / "hookline.toml").write_text('[tool.hookline]\nmodel = "x"\n')
    with pytest.raises(ConfigError, match=r"only for pyproject\.toml"):
        load(project, environ)


def test_a_variable_that_is_no_amount_is_reported(project: Path, environ: dict[str, str]) -> None:
    """Infinity is no limit, and leaving it out says so better."""
    with pytest.raises(ConfigError, match=r"HOOKLINE_TIMEOUT: 'limits\.seconds' is inf"):
        load(project, {**environ, "HOOKLINE_TIMEOUT": "inf"})


def test_nobody_knows_where_home_is(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry: nothing is read there, and nothing is made in a directory named ~."""
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert home({}) == Path(os.devnull)
    assert home({"HOME": "relative"}) == Path(os.devnull)
    (project / "hookline.toml").write_text('[approvals]\ndeny = ["bash"]\n')
    assert load(project, {}).configuration.approvals.deny == ("bash",)


# --- where commands run, by files, variables and flags: the last word counts, and a stranger's only tightens ---


PLACES = ("host", "workspace", "read-only")
SANDBOXES = ("auto", "required")


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


def test_a_requirement_of_a_project_against_your_own_place_is_for_you_to_decide(
    project: Path,
) -> None:
    """The error names both lines and the flags, and each of the flags it names helps."""
    own, theirs = 'place = "host"', 'sandbox = "required"'
    with pytest.raises(ConfigError) as refused:
        load_with(project, own, theirs)
    assert re.search(r"config\.toml:2 says .*hookline\.toml:2 says ", refused.value.message)
    assert "--place workspace or --sandbox auto" in refused.value.remedy
    decided = load_with(project, own, theirs, HOOKLINE_SANDBOX="auto")
    assert said(decided) == {"place": "host", "sandbox": "auto"}
    decided = load_with(project, own, theirs, HOOKLINE_PLACE="workspace")
    assert said(decided) == {"place": "workspace", "sandbox": "required"}


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
    merged = MergedLayers()
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


@pytest.mark.parametrize(
    ("where", "project", "expected"),
    [
        ("/a/project/hookline.toml:3", "/a/project", True),
        ("/a/project-of-mine/config.toml:3", "/a/project", False),
        ("/hookline.toml:1", "/", True),
        ("--place", "/a/project", False),
        ("$HOOKLINE_PLACE", "/", False),
    ],
)
def test_files_of_a_project_are_below_it(where: str, project: str, expected: bool) -> None:
    """A directory beside it whose name begins like its name is another one."""
    assert is_of_project(where, Path(project)) is expected
