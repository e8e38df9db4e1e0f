"""Whether files mean what can be: points, rules, expressions and capabilities by name, in force or not.

Nothing of what a file names is imported or run for that: it may be a stranger's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hookline.cli.assembly.capabilities import check_names
from hookline.config import HookSettings, Layer, Settings
from hookline.config import load as read_all
from hookline.errors import BuildError, ConfigError, UsageError

Way = tuple[str | int, ...]


def load(
    flags: Layer, *, agent: str = "", bare: bool = False, folder: Path | None = None
) -> Settings:
    """The settings for an agent in this directory, with every file looked through."""
    here = folder or Path.cwd()
    settings = read_all(here, flags=flags, agent=agent, bare=bare)
    verify(settings.layers, settings.project)
    return settings


def verify(layers: tuple[Layer, ...], project: Path) -> None:
    """Raise a ConfigError, with file and line, for the first thing that cannot be."""
    for layer in layers:
        _table(layer, layer.data, (), project)
        for name, agent in layer.data.get("agents", {}).items():
            _table(layer, agent, ("agents", name), project)


def _table(layer: Layer, data: dict[str, Any], way: Way, project: Path) -> None:
    for position, given in enumerate(data.get("hooks", ())):
        with _told(layer, (*way, "hooks", position)):
            _hook(
                msgspec.convert(given, HookSettings),
                layer.where((*way, "hooks", position)),
                project,
            )
    for kind in ("allow", "ask", "deny"):
        for position, rule in enumerate(data.get("approvals", {}).get(kind, ())):
            with _told(layer, (*way, "approvals", kind, position)):
                _rule(rule)
    for name, options in data.get("capabilities", {}).items():
        for option, problem in check_names(name, options):
            at = (*way, "capabilities", name, *([option] if option else []))
            with _told(layer, at):
                raise problem
    _target(layer, data, way)


@contextmanager
def _told(layer: Layer, way: Way) -> Iterator[None]:
    try:
        yield
    except (BuildError, UsageError) as error:
        where = layer.where(way)
        told = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise ConfigError(told, remedy=error.remedy) from error


def _hook(hook: HookSettings, where: str, project: Path) -> None:
    from hookline.cli.assembly.hooks import matched, named_parts
    from hookline.cli.assembly.rules import rule_of
    from hookline.lifecycle import point_named

    if hook.command is not None or hook.url is not None:
        from hookline.cli.assembly.commands import handler_of

        handler_of(hook, where, project)
        return
    point = point_named(hook.on)
    if hook.do is not None:
        rule_of(hook, point, project)
        return
    matched(hook, point, project)
    named_parts(hook.run or "")


def _rule(text: str) -> None:
    from hookline.permissions import Rule

    Rule.parse(text)


def _target(layer: Layer, data: dict[str, Any], way: Way) -> None:
    target = data.get("target")
    if target is not None and not (target.partition(":")[0] and target.partition(":")[2]):
        raise ConfigError(
            f"{layer.where((*way, 'target'))}: '{target}' does not name an agent.",
            remedy="Write MODULE:NAME, as in myproject.agents:researcher.",
        )
