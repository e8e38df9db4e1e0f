"""Trust: off until somebody says yes, and only for what they saw."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hookline.command_hooks import Handler, HookSource, Level, TrustStore, is_trusted, trust
from hookline.errors import UsageError
from hookline.journal import HookRan
from hookline.testing import call, say


@pytest.fixture
def guarded(stage: Any) -> Any:
    """A project with one hook, which leaves a mark when it runs."""
    stage.script(".claude/hooks/guard.sh", f"#!/bin/sh\ntouch {stage.root}/ran\n")
    hook = {"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh'}
    stage.file(".claude/settings.json", {"hooks": {"PreToolUse": [{"hooks": [hook]}]}})
    return stage


def test_a_repositorys_hooks_do_nothing_before_trust(guarded: Any) -> None:
    """They are held back, and it is said how to switch them on."""
    hooks = guarded.discover(trust=None)
    assert (hooks.handlers, len(hooks.held_back)) == ((), 1)
    assert "hookline trust" in hooks.warnings[-1]
    guarded.run(hooks)
    assert not (guarded.root / "ran").exists()


def test_trusted_hooks_run(guarded: Any) -> None:
    """In the user's own file, which only they can read."""
    trust(guarded.root)
    assert is_trusted(guarded.root)
    path = TrustStore().path
    assert path.is_relative_to(os.environ["XDG_CONFIG_HOME"])
    assert path.stat().st_mode & 0o777 == 0o600
    guarded.run(guarded.discover(trust=None))
    assert (guarded.root / "ran").exists()


@pytest.mark.parametrize("change", ["definition", "script", "another"])
def test_changed_means_asked_again(guarded: Any, change: str) -> None:
    """What the file says, what a script does, and hooks that were not there."""
    trust(guarded.root)
    settings = guarded.root / ".claude/settings.json"
    if change == "script":
        guarded.script(".claude/hooks/guard.sh", "#!/bin/sh\necho other\n")
    elif change == "definition":
        settings.write_text(settings.read_text().replace("PreToolUse", "PostToolUse"))
    else:
        guarded.file(".cursor/hooks.json", {"version": 1, "hooks": {"stop": [{"command": "x"}]}})
    assert not is_trusted(guarded.root)
    hooks = guarded.discover(trust=None)
    assert hooks.handlers == ()
    assert "changed since" in hooks.warnings[-1]


def test_what_is_no_hook_may_change(guarded: Any) -> None:
    """Other settings in the same file are not what is trusted."""
    trust(guarded.root)
    settings = guarded.root / ".claude/settings.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model": "x"}))
    assert is_trusted(guarded.root)


def test_trust_is_for_one_directory(guarded: Any, tmp_path: Path) -> None:
    """A copy elsewhere is another repository."""
    trust(guarded.root)
    copy = tmp_path / "copy"
    os.system(f"cp -r {guarded.root} {copy}")
    assert not is_trusted(copy)


def test_trust_can_be_taken_back(guarded: Any) -> None:
    """And a directory that is not there cannot be trusted."""
    store = TrustStore()
    store.trust(guarded.root)
    assert store.directories() == (str(guarded.root),)
    store.distrust(guarded.root)
    assert not store.is_trusted(guarded.root)
    with pytest.raises(UsageError, match="no directory"):
        store.trust(guarded.root / "gone")


@pytest.mark.parametrize("damage", ["text", "writable", "version"])
def test_a_damaged_store_trusts_nothing(guarded: Any, damage: str) -> None:
    """Nor does one that others can write."""
    store = TrustStore()
    store.trust(guarded.root)
    if damage == "text":
        store.path.write_text("{")
    elif damage == "version":
        store.path.write_text(store.path.read_text().replace('"version": 1', '"version": 9'))
    else:
        store.path.chmod(0o666)
    assert not store.is_trusted(guarded.root)


def test_a_script_that_changes_during_a_run_is_not_run_and_blocks(guarded: Any) -> None:
    """A guard cannot be replaced by one that lets everything through."""
    hooks = guarded.discover()
    guarded.script(".claude/hooks/guard.sh", f"#!/bin/sh\ntouch {guarded.root}/evil\n")
    result = guarded.run(hooks)
    assert "changed since it was trusted" in result.state.messages[2].text
    assert not (guarded.root / "evil").exists()


@pytest.mark.parametrize(
    "point",
    ["execution_start", "before_step", "before_inference", "after_inference", "after_tool_use", "output"],
)  # fmt: skip
def test_a_changed_script_blocks_at_every_point_that_can_be_blocked(stage: Any, point: str) -> None:
    """Also one that fails open."""
    stage.script("guard.sh", "#!/bin/sh\n")
    source = HookSource("hookline", Level.PROJECT)
    hooks = stage.hooks(Handler(source, point, command="./guard.sh", on_failure="open"))
    stage.script("guard.sh", f"#!/bin/sh\ntouch {stage.root}/evil\n")
    records = stage.run(hooks).records
    said = [(each.verdict, each.reason) for each in records if isinstance(each, HookRan)]
    assert said[0][0] == "block"
    assert "changed since it was trusted" in said[0][1]
    assert not (stage.root / "evil").exists()


@pytest.mark.parametrize(
    "path", [".claude/hooks/guard.sh", ".claude/settings.json", "a/../.claude/settings.json"]
)
def test_the_agent_cannot_change_the_hooks_that_watch_it(guarded: Any, path: str) -> None:
    """Neither the file that names them nor their scripts."""
    result = guarded.run(guarded.discover(), call("write", path=path, content="x"), say("done"))
    assert "is used by a hook" in result.state.messages[2].text


@pytest.mark.parametrize("path", [".github/hooks/new.json", ".github/copilot/settings.json"])
def test_the_agent_makes_no_hooks_for_copilot(stage: Any, path: str) -> None:
    """A new one would take the trust from all there are, and with it the guard of the next run."""
    hooks = stage.claude("PreToolUse", "exit 0")
    result = stage.run(hooks, call("write", path=path, content="{}"), say("done"))
    assert "is used by a hook" in result.state.messages[2].text


def test_trust_is_never_a_matter_of_the_repositorys_own_files(guarded: Any) -> None:
    """Whatever it says about trust is not read."""
    settings = guarded.root / ".claude/settings.json"
    settings.write_text(
        json.dumps(json.loads(settings.read_text()) | {"trusted": True, "trust": "all"})
    )
    assert guarded.discover(trust=None).handlers == ()


def test_hooks_of_the_user_need_no_trust(stage: Any) -> None:
    """They wrote them."""
    hook = {"type": "command", "command": "true"}
    stage.file(".claude/settings.json", {"hooks": {"Stop": [{"hooks": [hook]}]}}, home=True)
    assert len(stage.discover(trust=None).handlers) == 1
