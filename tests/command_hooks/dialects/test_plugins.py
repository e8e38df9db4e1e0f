"""Plugins for Claude Code and for Codex: where they are found, who trusts them, and the input of their hooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hookline.command_hooks import Level, TrustStore
from hookline.testing import call, say

SAYING = 'echo "$PLUGIN_ROOT $PLUGIN_DATA $CLAUDE_PLUGIN_ROOT" >&2; exit 2'


def hooks(command: str = SAYING) -> dict[str, Any]:
    """One hook before commands."""
    entry = {"type": "command", "command": command}
    return {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [entry]}]}}


def plugin(root: Path, manifest: Any, files: dict[str, Any], kind: str = "codex") -> Path:
    """A plugin directory."""
    for name, content in {f".{kind}-plugin/plugin.json": manifest, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return root


@pytest.mark.parametrize(
    ("manifest", "files", "label"),
    [
        ({"name": "p"}, {"hooks/hooks.json": hooks()}, "p/hooks.json"),
        ({"name": "p", "hooks": "./extra/h.json"}, {"extra/h.json": hooks()}, "p/h.json"),
        ({"name": "p", "hooks": hooks()}, {}, "p/plugin.json"),
        ({"name": "p", "hooks": hooks()["hooks"]}, {}, "p/plugin.json"),
        ({"name": "p", "hooks": ["./h.json"]}, {"h.json": hooks()}, "p/h.json"),
    ],
)
def test_a_plugin_of_codex_that_is_named(stage: Any, manifest: Any, files: Any, label: str) -> None:
    """In its usual file, where its manifest says, or in the manifest; in Codex's dialect, with its own variables."""
    root = plugin(stage.home / "p", manifest, files)
    found = stage.discover(plugins=[root], trust=False)
    (handler,) = found.handlers
    source = handler.source
    assert (source.dialect, source.level, source.label) == ("codex", Level.PLUGIN, label)
    result = stage.run(found, call("bash", command="ls"), say("done"))
    data = stage.home / ".codex/plugins/data/p"
    assert result.state.messages[2].text == f"Blocked: {root} {data} {root}"
    assert data.is_dir()


def test_plugins_that_are_installed_and_switched_on(stage: Any) -> None:
    """The newest version of each; a disabled one is ignored, and a missing one is reported."""
    cache = stage.home / ".codex/plugins/cache/market"
    for name, version in (("on", "1.9.0"), ("on", "1.10.0"), ("off", "1.0.0")):
        plugin(cache / name / version, {}, {"hooks/hooks.json": hooks()})
    lines = (
        '[plugins."on@market"]\n[plugins."off@market"]\nenabled = false\n[plugins."gone@market"]\n'
    )
    stage.file(".codex/config.toml", lines, home=True)
    found = stage.discover()
    assert [each.source.root for each in found.handlers] == [str(cache / "on" / "1.10.0")]
    assert "'gone@market' is switched on, and not installed" in found.warnings[0]
    assert not stage.discover(dialects=["claude"]).handlers


@pytest.mark.parametrize("feature", ["hooks", "plugin_hooks"])
def test_a_feature_that_is_off_switches_them_off(stage: Any, feature: str) -> None:
    """As it does in Codex."""
    root = stage.home / ".codex/plugins/cache/market/on/1"
    plugin(root, {}, {"hooks/hooks.json": hooks()})
    lines = f'[features]\n{feature} = false\n[plugins."on@market"]\n'
    stage.file(".codex/config.toml", lines, home=True)
    assert not [each for each in stage.discover().handlers if each.source.root]


def test_a_manifest_cannot_name_files_outside_of_the_plugin(stage: Any) -> None:
    """They are somebody else's."""
    stage.file("h.json", hooks(), home=True)
    root = plugin(stage.home / "p", {"hooks": "../h.json"}, {})
    found = stage.discover(plugins=[root])
    assert not found.handlers
    assert "outside of it" in found.warnings[0]


def test_one_that_is_for_both_is_taken_for_claudes(stage: Any) -> None:
    """Its hooks run once."""
    root = plugin(stage.home / "p", {"name": "p"}, {"hooks/hooks.json": hooks()})
    plugin(root, {"name": "p"}, {}, kind="claude")
    (handler,) = stage.discover(plugins=[root]).handlers
    assert handler.source.dialect == "claude"


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_plugins_of_a_repository_need_trust(stage: Any, kind: str) -> None:
    """With the scripts that they name; a changed one is off again."""
    root = stage.root / "p"
    guard = stage.script("p/guard.sh", "#!/bin/sh\necho no >&2; exit 2\n")
    variable = "CLAUDE_PLUGIN_ROOT" if kind == "claude" else "PLUGIN_ROOT"
    command = f'"${{{variable}}}"/guard.sh'
    plugin(root, {"name": "p"}, {"hooks/hooks.json": hooks(command)}, kind=kind)
    store = TrustStore(stage.root.parent / "trust.json")
    assert not stage.discover(project_plugins=[root], trust=store).handlers
    store.trust(stage.root, plugins=[root])
    trusted = stage.discover(project_plugins=[root], trust=store)
    assert [each.source.level for each in trusted.handlers] == [Level.PROJECT]
    result = stage.run(trusted, call("bash", command="ls"), say("done"))
    assert result.state.messages[2].text == "Blocked: no"
    guard.write_text("#!/bin/sh\nexit 0\n")
    assert not stage.discover(project_plugins=[root], trust=store).handlers


def test_plugins_are_read_whatever_the_dialects(stage: Any) -> None:
    """Whoever names one wants it; the files of its agent are left out all the same."""
    stage.file(".claude/settings.json", hooks(), home=True)
    one = plugin(stage.home / "one", {}, {"hooks/hooks.json": hooks("exit 1")}, kind="claude")
    two = plugin(stage.home / "two", {}, {"hooks/hooks.json": hooks("exit 1")})
    found = stage.discover(dialects=[], plugins=[one, two])
    assert sorted(each.source.dialect for each in found.handlers) == ["claude", "codex"]


def test_what_the_user_has_chosen_for_a_plugin(stage: Any) -> None:
    """In variables, and in the words of a program; what the user did not choose is what the plugin says itself."""
    declared = {
        "level": {"type": "string", "default": "low"},
        "port": {"type": "number", "default": 1},
    }
    argv = {"type": "command", "command": "printf", "args": ["%s", "${user_config.level}"]}
    handler = {
        "type": "command",
        "command": 'echo "$CLAUDE_PLUGIN_OPTION_LEVEL $CLAUDE_PLUGIN_OPTION_PORT"',
    }
    bad = {"type": "command", "command": "echo ${user_config.level}"}
    files = {"hooks/hooks.json": {"hooks": {"UserPromptSubmit": [{"hooks": [argv, handler, bad]}]}}}
    root = plugin(stage.home / "p", {"name": "p", "userConfig": declared}, files, kind="claude")
    settings = {"pluginConfigs": {"p@market": {"options": {"level": "high; rm x"}}}}
    stage.file(".claude/settings.json", settings, home=True)
    found = stage.discover(plugins=[root])
    assert "in a line for a shell" in found.warnings[0]
    result = stage.run(found, say("done"))
    texts = "\n".join(message.text for message in result.state.messages)
    assert ">\nhigh; rm x\n<" in texts
    assert ">\nhigh; rm x 1\n<" in texts


def test_what_the_user_has_chosen_is_not_for_a_repositorys_plugin(stage: Any) -> None:
    """It may be a key."""
    files = {"hooks/hooks.json": hooks()}
    root = plugin(stage.root / "p", {"name": "p"}, files, kind="claude")
    settings = {"pluginConfigs": {"p@market": {"options": {"key": "secret"}}}}
    stage.file(".claude/settings.json", settings, home=True)
    (handler,) = stage.discover(project_plugins=[root]).handlers
    assert "secret" not in str(handler.env)


# --- marketplaces of Claude Code ------------------------------------------------------------------------

MARKET = ".claude/plugins/marketplaces/tools"
HOOKS = {
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/x"}]}]}
}


def market(stage: Any, source: str, enabled: bool = True, **more: Any) -> Any:
    """A marketplace with one plugin, and the hooks that are found."""
    listed = {"name": "tools", "plugins": [{"name": "bell", "source": source}], **more}
    stage.file(f"{MARKET}/.claude-plugin/marketplace.json", listed, home=True)
    stage.file(f"{MARKET}/plugins/bell/hooks/hooks.json", HOOKS, home=True)
    stage.file(".claude/settings.json", {"enabledPlugins": {"bell@tools": enabled}}, home=True)
    return stage.discover().handlers


def test_one_that_is_switched_on_is_found(stage: Any) -> None:
    """Without a list of what is installed, which only Claude Code writes."""
    (found,) = market(stage, "./plugins/bell")
    assert found.source.root == str(stage.home / MARKET / "plugins/bell")


def test_its_place_may_be_given_from_a_common_one(stage: Any) -> None:
    """As marketplaces of many plugins do it."""
    assert len(market(stage, "bell", metadata={"pluginRoot": "./plugins"})) == 1


def test_one_that_is_off_is_not(stage: Any) -> None:
    """An installed plugin is not an enabled one."""
    assert not market(stage, "./plugins/bell", enabled=False)


@pytest.mark.parametrize("source", ["../../..", "/etc", "./missing", ""])
def test_a_plugin_is_inside_of_its_marketplace(stage: Any, source: str) -> None:
    """Otherwise it is no plugin."""
    assert not market(stage, source)
