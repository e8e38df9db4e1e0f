"""The environment of hooks, and the variables that they set."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from hookline import HookPoint
from hookline.command_hooks import RunFacts
from hookline.command_hooks.environment import may_be_set
from hookline.state import AgentState, ToolCall
from hookline.testing import say

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
        run=SimpleNamespace(is_replay=is_replay),
    )
    reply = await hooks.runner.ask(hooks.handlers[0], ctx, RunFacts(str(stage.root), "/", "s"))
    assert reply.answer.reason == f"<{said}>"
