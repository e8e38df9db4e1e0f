"""The environment of hooks, and the variables that they set."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hookline import HookPoint
from hookline.capabilities import Bash
from hookline.command_hooks import RunFacts
from hookline.command_hooks.script import may_be_set, variables_in
from hookline.state import AgentState, Decision, ToolCall
from hookline.testing import call, say

DUMP = "env -0 | tr '\\0' '\\n' > {0}"


def seen(stage: Any, hooks_of: Any, monkeypatch: pytest.MonkeyPatch, **ours: str) -> dict[str, str]:
    """The environment that a hook sees."""
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    log = stage.root / "env"
    stage.run(hooks_of(DUMP.format(log)), say("hi"))
    return dict(line.split("=", 1) for line in log.read_text().splitlines() if "=" in line)


def users(stage: Any) -> Any:
    """A hook of the user."""

    def make(command: str) -> Any:
        hook = {"type": "command", "command": command}
        stage.file(
            ".claude/settings.json", {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}, home=True
        )
        return stage.discover()

    return make


def test_what_scripts_look_for_is_there(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what would have them speak another dialect is not."""
    strange = {
        "CURSOR_PLUGIN_ROOT": "/x",
        "COPILOT_CLI": "1",
        "OTEL_EXPORTER": "y",
        "MY_TOKEN": "mine",
    }
    env = seen(stage, users(stage), monkeypatch, **strange)
    assert env["CLAUDE_PROJECT_DIR"] == str(stage.root)
    assert env["CLAUDECODE"] == "1"
    assert env["MY_TOKEN"] == "mine"
    assert not env.keys() & {
        "CURSOR_PLUGIN_ROOT",
        "COPILOT_CLI",
        "OTEL_EXPORTER",
        "CLAUDE_PLUGIN_ROOT",
    }
    assert env["PWD"] == str(stage.root)


def test_a_repositorys_hooks_see_no_secrets(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor anything else that is not known to be harmless."""
    make = lambda command: stage.claude("UserPromptSubmit", command)  # noqa: E731 - as above, of the project
    given = {"MY_TOKEN": "mine", "AWS_SECRET_ACCESS_KEY": "k", "SOMETHING": "s", "EDITOR": "vi"}
    env = seen(stage, make, monkeypatch, **given)
    assert not env.keys() & {"MY_TOKEN", "AWS_SECRET_ACCESS_KEY", "SOMETHING"}
    assert env["EDITOR"] == "vi"
    assert env["CLAUDE_PROJECT_DIR"] == str(stage.root)


def test_users_may_keep_their_keys_from_their_own_hooks(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the variable that says so; the rest is there."""
    entry = lambda command: {"hooks": [{"type": "command", "command": command}]}  # noqa: E731 - as above

    def make(command: str) -> Any:
        settings = {"hooks": {"UserPromptSubmit": [entry(command)]}}
        stage.file(".claude/settings.json", settings, home=True)
        return stage.discover()

    given = {"ANTHROPIC_API_KEY": "k", "AWS_PROFILE": "p", "MY_TOKEN": "t", "SOMETHING": "s"}
    assert given.items() <= seen(stage, make, monkeypatch, **given).items()
    scrubbed = seen(stage, make, monkeypatch, **given, CLAUDE_CODE_SUBPROCESS_ENV_SCRUB="1")
    assert scrubbed.keys() & given.keys() == {"SOMETHING"}


def test_a_plugin_knows_where_it_is(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its environment, and in its command."""
    root = stage.home / "plug"

    def make(command: str) -> Any:
        hook = {"type": "command", "command": command + " # ${CLAUDE_PLUGIN_ROOT}"}
        stage.file(
            "plug/hooks/hooks.json", {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}, home=True
        )
        return stage.discover(plugins=[root])

    env = seen(stage, make, monkeypatch)
    assert env["CLAUDE_PLUGIN_ROOT"] == str(root)
    assert env["CLAUDE_PLUGIN_DATA"].endswith("/data/plug")


HOOK = {"type": "command", "command": "CMD"}
NESTED = [{"hooks": [HOOK]}]


@pytest.mark.parametrize(
    ("file", "hooks", "name"),
    [
        (".gemini/settings.json", {"BeforeAgent": NESTED}, "GEMINI_PROJECT_DIR"),
        (".cursor/hooks.json", {"beforeSubmitPrompt": [HOOK]}, "CURSOR_PROJECT_DIR"),
        (".github/hooks/h.json", {"userPromptSubmitted": [HOOK]}, "COPILOT_CLI"),
        (".codex/hooks.json", {"UserPromptSubmit": NESTED}, "CODEX_SESSION_ID"),
    ],
)
def test_each_dialect_has_its_own_variables(
    stage: Any, monkeypatch: pytest.MonkeyPatch, file: str, hooks: Any, name: str
) -> None:
    """And the one of Claude's that most scripts know."""

    def make(command: str) -> Any:
        stage.file(file, json.dumps({"hooks": hooks}).replace("CMD", json.dumps(command)[1:-1]))
        return stage.discover()

    env = seen(stage, make, monkeypatch)
    assert name in env
    assert env["CLAUDE_PROJECT_DIR"] == str(stage.root)


@pytest.mark.parametrize(
    "name", ["PATH", "LD_LIBRARY_PATH", "DYLD_X", "NODE_OPTIONS", "BASH_ENV", "GIT_SSH", "a b", ""]
)
def test_names_that_cannot_be_set(name: str) -> None:
    """They decide which programs run."""
    assert not may_be_set(name)


def test_where_the_project_was_deleted_a_hook_still_runs_somewhere(stage: Any) -> None:
    """Its own directory may be gone."""
    hooks = stage.hooks({"on": "prompt_submit", "command": "true", "cwd": "gone"})
    assert stage.run(hooks, say("hi")).text == "hi"


def test_a_plugin_finds_its_own_directory_made(stage: Any) -> None:
    """It may write there at once."""
    plugin = stage.root.parent / "plugin"
    (plugin / "hooks").mkdir(parents=True)
    hook = {"type": "command", "command": 'echo here > "$CLAUDE_PLUGIN_DATA/note"'}
    content = {"hooks": {"Stop": [{"hooks": [hook]}]}}
    (plugin / "hooks/hooks.json").write_text(json.dumps(content))
    stage.run(stage.discover(plugins=[plugin]), say("hi"))
    assert (stage.home / ".claude/plugins/data/plugin/note").read_text() == "here\n"


def test_a_repositorys_hooks_find_the_way_out_and_no_password_on_it(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripts that fetch what they need have to get through a proxy."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("http_proxy", "http://me:pw@proxy.example:3128")
    log = stage.root / "log"
    stage.run(stage.claude("Stop", f'echo "$HTTPS_PROXY|$http_proxy" > {log}'), say("hi"))
    assert log.read_text() == "http://proxy.example:3128|\n"


def test_copilots_own_variables_may_name_others(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that the hook may see; and each hook may have a directory of its own below the hooks."""
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.setenv("EDITOR", "vi")
    log = stage.root / "log"
    hook = {
        "type": "command",
        "bash": f'echo "$A|$B" > {log}',
        "env": {"A": "x-${EDITOR}", "B": "$MY_TOKEN"},
    }
    stage.file(
        ".github/hooks/logger/hooks.json", {"version": 1, "hooks": {"userPromptSubmitted": [hook]}}
    )
    stage.run(stage.discover(), say("hi"))
    assert log.read_text() == "x-vi|\n"


def test_geminis_extensions_find_their_files(stage: Any) -> None:
    """By two placeholders of their own."""
    stage.file(".gemini/extensions/one/say.sh", 'echo \'{"systemMessage": "here"}\'', home=True)
    hook = {"type": "command", "command": "sh ${extensionPath}${/}say.sh"}
    content = {"hooks": {"BeforeAgent": [{"hooks": [hook]}]}}
    stage.file(".gemini/extensions/one/hooks/hooks.json", content, home=True)
    result = stage.run(stage.discover(), say("hi"))
    assert "here" in [getattr(record, "reason", "") for record in result.records]


@pytest.mark.parametrize(("is_replay", "said"), [(True, "1"), (False, "")])
async def test_a_command_sees_that_it_is_asked_in_a_replay(
    stage: Any, is_replay: bool, said: str
) -> None:
    """So that it does nothing twice."""
    hooks = stage.hooks({"on": "before_tool_use", "command": 'echo "<$HOOKLINE_REPLAY>"; exit 2'})
    ctx: Any = SimpleNamespace(
        point=HookPoint.BEFORE_TOOL_USE,
        state=AgentState(run_id="r"),
        tool_call=ToolCall("1", "bash", {"command": "ls"}),
        has_run=True,
        run=SimpleNamespace(is_replay=is_replay),
    )
    reply = await hooks.runner.ask(hooks.handlers[0], ctx, RunFacts(str(stage.root), "/", "s"))
    assert reply.answer.reason == f"<{said}>"


# --- variables that hooks set ---------------------------------------------------------------------------

SETS = 'echo \'export GREETING="hello you"\' >> "$CLAUDE_ENV_FILE"'


def entry(command: str) -> list[dict[str, Any]]:
    """One hook of an event."""
    return [{"hooks": [{"type": "command", "command": command}]}]


def printed(stage: Any, hooks: Any, command: str) -> str:
    """What a command of the agent prints, in a real shell."""
    stage.tools = ()
    bash = Bash(stage.root, sandbox="host")
    result = stage.run(
        hooks,
        call("bash", command=command),
        say("done"),
        with_capability=bash,
        with_approver=lambda _pending: Decision.allow(),
    )
    return str(result.state.messages[-2].text)


@pytest.mark.parametrize("home", [True, False])
def test_they_reach_the_commands_of_the_agent(stage: Any, home: bool) -> None:
    """From the user's own hooks, and from those of a repository that is trusted."""
    stage.file(".claude/settings.json", {"hooks": {"SessionStart": entry(SETS)}}, home=home)
    said = printed(stage, stage.discover(), 'echo "[$GREETING]"')
    assert said.startswith("[hello you]")


def test_they_are_not_in_the_state(stage: Any) -> None:
    """They may be secrets."""
    stage.script("start.sh", SETS + "\n")
    stage.file(".claude/settings.json", {"hooks": {"SessionStart": entry("sh start.sh")}})
    result = stage.run(stage.discover(), say("hi"))
    assert "hello you" not in str(result.state) + str(result.records)


def test_they_are_there_for_later_hooks(stage: Any) -> None:
    """Of the same people: a repository cannot switch off the user's guards by a variable."""
    log = stage.root / "log"
    stage.file(
        ".claude/settings.json",
        {"hooks": {"SessionStart": entry(SETS), "Stop": entry(f"echo repo $GREETING >> {log}")}},
    )
    mine = {"hooks": {"Stop": entry(f"echo mine $GREETING >> {log}")}}
    stage.file(".claude/settings.json", mine, home=True)
    stage.run(stage.discover(), say("hi"))
    assert sorted(log.read_text().splitlines()) == ["mine", "repo hello you"]


def test_what_decides_which_programs_run_is_left_out_and_said(stage: Any) -> None:
    """The path above all: the user gets a message, and the command keeps its path."""
    lines = "export PATH=/evil:$PATH\\nexport LD_PRELOAD=/x.so\\nexport FINE=1\\n"
    stage.file(
        ".claude/settings.json",
        {"hooks": {"SessionStart": entry(f'printf "{lines}" >> "$CLAUDE_ENV_FILE"')}},
    )
    hooks = stage.discover()
    result = stage.run(hooks, say("hi"))
    reasons = [getattr(record, "reason", "") for record in result.records]
    assert "not set for others: PATH, LD_PRELOAD" in reasons
    assert printed(stage, hooks, 'echo "$FINE$LD_PRELOAD $PATH"').startswith("1 ")


def test_cursors_variables_reach_commands_too(stage: Any) -> None:
    """Its hooks answer with them."""
    stage.script(".cursor/start.sh", 'echo \'{"env": {"COLOUR": "green", "PATH": "/evil"}}\'\n')
    hook = {"command": "sh .cursor/start.sh"}
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": {"sessionStart": [hook]}})
    assert printed(stage, stage.discover(), "echo $COLOUR").startswith("green")


def test_settings_have_variables_for_their_own_hooks(stage: Any) -> None:
    """Those of a repository for its hooks, the user's for theirs: they may be secrets."""
    log = stage.root / "log"
    say_it = entry(f'echo "$1$MODE|$SECRET_WORD" >> {log}')
    stage.file(".claude/settings.json", {"env": {"MODE": "strict"}, "hooks": {"Stop": say_it}})
    stage.file(
        ".claude/settings.json",
        {
            "env": {"SECRET_WORD": "abc"},
            "hooks": {"UserPromptSubmit": say_it},
        },
        home=True,
    )
    stage.run(stage.discover(), say("hi"))
    assert log.read_text().splitlines() == ["|abc", "strict|"]


def test_changed_variables_of_a_repository_are_asked_about_again(stage: Any) -> None:
    """They decide what a hook does."""
    from hookline.command_hooks import is_trusted, trust

    content = {"env": {"MODE": "strict"}, "hooks": {"Stop": entry("true")}}
    stage.file(".claude/settings.json", content)
    trust(stage.root)
    assert is_trusted(stage.root)
    stage.file(".claude/settings.json", {**content, "env": {"MODE": "off"}})
    assert not is_trusted(stage.root)


def test_what_is_read_from_a_file_of_variables(tmp_path: Path) -> None:
    """Plain assignments, as scripts and shells write them, over several lines too; none that would load programs."""
    path = tmp_path / "env.sh"
    path.write_text(
        "export A=1 B='two words'\nC=3;\n# no\nexport PATH=/evil\nLD_PRELOAD=x\nexport PYTHONPATH=y\n"
        "D=$(touch /tmp/x)\nE=`id`\nrm -rf /\nexport 1BAD=2\n"
        'declare -x G="from a shell"\nexport H="one\ntwo"\nF=\'unclosed\n'
    )
    found, left_out = variables_in(path)
    assert found == {
        "A": "1",
        "B": "two words",
        "C": "3",
        "G": "from a shell",
        "H": "one\ntwo",
    }
    assert left_out == ["PATH", "LD_PRELOAD", "PYTHONPATH", "D", "E", "1BAD"]
    assert variables_in(tmp_path / "gone") == ({}, [])
