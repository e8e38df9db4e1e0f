"""Hooks in the front matter of subagents and skills, and those of plugins, from the configuration to the run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookline.cli.exits import Exit

PAGE = """---
name: careful
description: Is careful.
tools: Bash
hooks:
  PreToolUse:
    - matcher: Bash
      hooks:
        - type: command
          command: ./guard.sh
---
Be careful.
"""


def prepared(place: Any) -> str:
    """A project with a guarded subagent that its user has asked for, and a model that starts it."""
    place.write(".claude/agents/careful.md", PAGE)
    place.write("guard.sh", "#!/bin/sh\necho 'only looking' >&2\nexit 2\n").chmod(0o755)
    own = place.home / ".config/hookline/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[capabilities.subagents]\nsources = [".claude/agents"]\n')
    spawn = {"call": "spawn_subagent", "args": {"agent": "careful", "prompt": "go"}}
    ls = {"call": "bash", "args": {"command": "ls"}}
    return place.script(spawn, ls, {"say": "so"}, {"say": "done"})  # type: ignore[no-any-return]


def test_a_guarded_subagent_waits_for_trust_and_is_guarded_then(place: Any) -> None:
    """Before it is not started, after that its hook holds, and when its script changes it waits again."""
    model = prepared(place)
    assert place.run("run", "x", "--model", model).returncode == Exit.CONFIG
    before = place.run("run", "x", "--model", model, "--without-untrusted")
    assert ".claude/agents/careful.md: PreToolUse: ./guard.sh" in before.stderr
    assert "without them it is not started" in before.stderr
    assert place.run("trust", "--show").returncode == Exit.CONFIG
    trusted = place.run("trust")
    assert "(.claude/agents/careful.md): ./guard.sh in subagent 'careful'" in trusted.stdout
    assert place.run("trust", "--show").returncode == 0
    after = place.run("run", "x", "--model", model)
    assert "| " in after.stderr
    assert "Blocked: only looking" in after.stderr
    place.write("guard.sh", "#!/bin/sh\nexit 0\n")
    again = place.run("run", "x", "--model", model)
    assert "is not as you trusted it" in again.stderr
    assert place.run("trust", "--show").returncode == Exit.CONFIG


def test_hooks_of_pages_are_listed_explained_and_tested(place: Any) -> None:
    """With where they hold."""
    prepared(place)
    place.run("trust")
    listed = place.run("hooks", "list").stdout
    assert "PreToolUse Bash in subagent 'careful'" in listed
    assert "careful.md" in place.run("hooks", "explain", "bash", "ls").stdout
    tested = place.run("hooks", "test", "bash", "ls")
    assert tested.returncode == Exit.BLOCKED
    words = "block      .claude/agents/careful.md: ./guard.sh (command-hooks, hook) (in subagent 'careful')"
    assert f"{words}: only looking" in tested.stdout


def test_commands_is_no_option_of_a_file(place: Any) -> None:
    """`commands` is put together, and is no option of a file."""
    place.write("hookline.toml", '[capabilities.skills]\nsources = ["s"]\ncommands = true\n')
    done = place.run("config", "show")
    assert done.returncode == Exit.CONFIG
    assert "'capabilities.skills.commands' is not a setting" in done.stderr


def a_plugin(place: Any, name: str = "guard") -> None:
    """A plugin in the project, with one hook."""
    entry = {"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/no.sh"}
    hooks = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [entry]}]}}
    place.write(f"{name}/hooks/hooks.json", json.dumps(hooks))
    place.write(f"{name}/no.sh", "#!/bin/sh\necho 'says the plugin' >&2\nexit 2\n").chmod(0o755)


def test_a_plugin_that_is_named_on_the_command_line_is_wanted(place: Any) -> None:
    """Whoever types it trusts it; one that is not there would guard nothing, and is an error."""
    a_plugin(place)
    tested = place.run("hooks", "test", "bash", "ls", "--plugin-dir", "guard")
    assert tested.returncode == Exit.BLOCKED
    assert "says the plugin" in tested.stdout
    missing = place.run("hooks", "list", "--plugin-dir", "gard")
    assert missing.returncode == Exit.USAGE
    assert "--plugin-dir: there is no plugin directory" in missing.stderr
    place.write("empty/readme.md", "")
    empty = place.run("hooks", "list", "--plugin-dir", "empty")
    assert "is not a plugin with hooks. It has none of hooks/hooks.json" in empty.stderr
    place.write("broken/hooks/hooks.json", "{")
    broken = place.run("hooks", "list", "--plugin-dir", "broken")
    assert broken.returncode == Exit.USAGE
    assert "hooks.json' cannot be used: it is not valid JSON" in broken.stderr


def test_a_plugin_of_the_projects_configuration_waits_for_trust(place: Any) -> None:
    """It is shown with where it is said, trusted with its scripts, and off again when one of them changes."""
    a_plugin(place)
    place.write("hookline.toml", 'plugins = ["guard"]\n')
    assert place.run("hooks", "test", "bash", "ls").returncode == 0
    assert "guard/no.sh" in place.run("trust").stdout
    assert place.run("hooks", "test", "bash", "ls").returncode == Exit.BLOCKED
    shown = place.run("config", "show").stdout
    assert "plugins" in shown
    assert "hookline.toml:1" in shown
    place.write("guard/no.sh", "#!/bin/sh\nexit 0\n")
    changed = place.run("hooks", "test", "bash", "ls")
    assert changed.returncode == 0
    assert "changed since it was trusted: plugins not in force" in changed.stderr


def test_a_settings_file_that_is_named_on_the_command_line_is_the_users(place: Any) -> None:
    """Its hooks are in force at once, also where no other is read; one that is not there is an error."""
    said = {"type": "command", "command": "echo not today >&2; exit 2"}
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [said]}]}
    place.write("mine.json", json.dumps({"hooks": hooks}))
    assert place.run("hooks", "test", "bash", "ls").returncode == 0
    for more in ((), ("--bare",), ("--set", "dialects=[]")):
        tested = place.run("hooks", "test", "bash", "ls", "--settings", "mine.json", *more)
        assert tested.returncode == Exit.BLOCKED, tested.stderr
        assert "not today" in tested.stdout
    missing = place.run("hooks", "list", "--settings", "mien.json")
    assert missing.returncode == Exit.USAGE
    assert "--settings: there is no file" in missing.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "it is not valid JSON"),
        ("[]", "it is not a JSON object"),
        ("\xff", "invalid start byte"),
    ],
)
def test_a_settings_file_that_is_named_is_never_passed_over(
    text: str, expected: str, place: Any
) -> None:
    """Whoever names it wants its hooks, by a flag or in their own file; comments may be in it."""
    path = place.write("mine.json", "")
    path.write_bytes(text.encode("latin-1"))
    done = place.run("hooks", "list", "--settings", "mine.json")
    assert done.returncode == Exit.USAGE, done.stderr
    assert expected in done.stderr
    own = place.home / ".config/hookline/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f"claude_settings = ['{path}']\n")
    assert place.run("hooks", "list").returncode == Exit.CONFIG
    path.write_text('{"hooks": {}} // nothing yet')
    assert place.run("hooks", "list").returncode == Exit.DONE


def test_a_project_names_no_settings_files(place: Any) -> None:
    """It has one of its own; not trusted, what it says is not in force."""
    place.write("mine.json", '{"disableAllHooks": true}')
    place.write("hookline.toml", 'claude_settings = ["mine.json"]\n')
    assert "not in force" in place.run("hooks", "list").stderr
    place.run("trust")
    done = place.run("hooks", "list")
    assert done.returncode == Exit.CONFIG
    assert (
        "a project cannot name settings files. Put its hooks into .claude/settings.json"
        in done.stderr
    )


def test_plugins_are_named_by_a_list_of_directories(place: Any) -> None:
    """Anything else is an error with its line."""
    place.write("hookline.toml", 'plugins = "guard"\n')
    done = place.run("config", "show")
    assert done.returncode == Exit.CONFIG
    assert "hookline.toml:1: 'plugins'" in done.stderr
