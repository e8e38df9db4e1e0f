"""Plugins that were cloned to where Claude Code keeps marketplaces, and switched on in the settings."""

from __future__ import annotations

from typing import Any

import pytest

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
    """Being there is not being wanted."""
    assert not market(stage, "./plugins/bell", enabled=False)


@pytest.mark.parametrize("source", ["../../..", "/etc", "./missing", ""])
def test_a_plugin_is_inside_of_its_marketplace(stage: Any, source: str) -> None:
    """Or it is none."""
    assert not market(stage, source)
