"""Checks files for what the configuration package does not know: points, rules, expressions, capabilities.

Nothing that a file names is imported or run: strangers may have written it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hookline.cli.assembly.capabilities import check_capability
from hookline.config import Layer, Settings, load
from hookline.config.layers import invalid_setting_error
from hookline.config.schema import HookSettings
from hookline.config.validation import InvalidSetting
from hookline.errors import BuildError, ConfigError, UsageError


def load_verified(flags: Layer, *, agent: str = "", bare: bool = False) -> Settings:
    """The settings for an agent in this directory, after a check of every file."""
    settings = load(Path.cwd(), flags=flags, agent=agent, bare=bare)
    verify(settings.layers, settings.project)
    return settings


def verify(layers: tuple[Layer, ...], project: Path) -> None:
    """Raise a ConfigError, with file and line, for the first mistake."""
    for layer in layers:
        _verify_table(layer, layer.data, (), project)
        for name, agent in layer.data.get("agents", {}).items():
            _verify_table(layer, agent, ("agents", name), project)


def _verify_table(
    layer: Layer, data: dict[str, Any], path: tuple[str | int, ...], project: Path
) -> None:
    def locate(*inner: str | int) -> AbstractContextManager[None]:
        return locate_errors(layer.where((*path, *inner)))

    for position, given in enumerate(data.get("hooks", ())):
        with locate("hooks", position):
            where = layer.where((*path, "hooks", position))
            _verify_hook(msgspec.convert(given, HookSettings), where, project)
    for kind in ("allow", "ask", "deny"):
        for position, rule in enumerate(data.get("approvals", {}).get(kind, ())):
            from hookline.permissions import Rule

            with locate("approvals", kind, position):
                Rule.parse(rule)
    for name, options in data.get("capabilities", {}).items():
        try:
            with locate("capabilities", name):
                check_capability(name, options)
        except InvalidSetting as wrong:
            raise invalid_setting_error(wrong, lambda inner: layer.where((*path, *inner))) from None
    if data.get("target") is not None:
        from hookline.cli.target import split_target

        form = "MODULE:NAME, as in myproject.agents:researcher"
        with locate("target"):
            split_target(data["target"], "an agent", form)


@contextmanager
def locate_errors(where: str) -> Iterator[None]:
    """Turn errors into a ConfigError that names file and line."""
    try:
        yield
    except (BuildError, UsageError) as error:
        text = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise ConfigError(text, remedy=error.remedy) from error


def _verify_hook(hook: HookSettings, where: str, project: Path) -> None:
    from hookline.cli.assembly.matchers import match_of, matcher_of
    from hookline.cli.assembly.rules import rule_of
    from hookline.lifecycle import point_named

    if hook.command is not None or hook.url is not None:
        from hookline.cli.assembly.command_hooks import handler_of

        handler_of(hook, where, project)
        return
    point = point_named(hook.on)
    if hook.do is not None:
        rule_of(hook, point, project)
        return
    from hookline.cli.target import split_target

    matcher_of(match_of(hook, point), point, project)
    split_target(hook.run or "", "a hook", 'run = "module:function"')
