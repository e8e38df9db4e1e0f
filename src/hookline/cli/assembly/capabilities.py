"""The capabilities of a configuration, by name, with their options."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import re
import types
import typing
from collections import abc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hookline.cli.assembly.packages import (
    NamedCapability,
    find_packaged,
    packaged_capabilities,
)
from hookline.config import Settings
from hookline.config.layers import invalid_setting_error
from hookline.config.schema import Table
from hookline.config.trust import trust_file
from hookline.config.validation import InvalidSetting, check, suggest
from hookline.errors import BuildError, ConfigError, UsageError

_NOT_BY_NAME = frozenset({"Approval", "Hooks", "Limits", "ErrorHandling", "Cancellation"})
"""Capabilities that other parts of a configuration make: approvals, hooks, limits, errors."""
_LISTS = (
    *(list, tuple, set, frozenset),
    *(getattr(abc, name) for name in ("Sequence", "Collection", "Iterable", "Set")),
)
_NOT_OPTIONS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POLICY = frozenset({"allow", "ask", "deny", "even_denied", "programs"})


def capability_names() -> dict[str, str]:
    """Every capability that a configuration can name, and its class."""
    from hookline import capabilities

    def is_capability(thing: Any) -> bool:
        parts = ("hooks", "tools", "tools_for", "configure")
        return isinstance(thing, type) and any(
            inspect.isfunction(getattr(thing, part, None)) for part in parts
        )

    return {
        re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): name
        for name in capabilities.__all__
        if name not in _NOT_BY_NAME and is_capability(getattr(capabilities, name))
    }


def _class_name(name: str) -> str | None:
    """The name of a capability's class, or None. The usual ones are found without importing any."""
    from hookline import capabilities

    usual = "".join(part.capitalize() for part in name.split("_"))
    is_usual = usual in capabilities.__all__ and usual not in _NOT_BY_NAME
    return usual if is_usual else capability_names().get(name)


def packages_of(settings: Settings) -> dict[str, str]:
    """The capabilities of the configuration that come from packages, each with its package and version."""
    names = [name for name in settings.configuration.capabilities if _class_name(name) is None]
    found = [each for each in map(find_packaged, names) if each is not None]
    return {each.name: each.package for each in found}


def _class_of(name: str, where: str = "") -> Any:
    """The class of a capability. One of a package is imported for that."""
    from hookline import capabilities

    own = _class_name(name)
    packaged = None if own else find_packaged(name)
    return packaged.load(where) if packaged else getattr(capabilities, own or "")


# --- options ------------------------------------------------------------------------------------------


class _Switch(Table, frozen=True, kw_only=True):
    """What every capability has: `enabled`."""

    enabled: bool = True


def _has_sources(factory: Any) -> bool:
    parameters = inspect.signature(factory).parameters.values()
    return any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)


def _table_of(factory: Any) -> type[msgspec.Struct]:
    """The table of a capability in a file, with its options: made from the signature of its class."""
    parameters = inspect.signature(factory).parameters
    option_types = {
        name: _option_type(factory, name)
        for name, each in parameters.items()
        if name != "commands" and each.kind not in _NOT_OPTIONS
    }
    if _has_sources(factory):
        option_types["sources"] = str | list[str]
    fields = [
        (name, each | msgspec.UnsetType, msgspec.UNSET) for name, each in option_types.items()
    ]
    return msgspec.defstruct("Options", fields, bases=(_Switch,), frozen=True, kw_only=True)


def _option_type(factory: Any, option: str) -> Any:
    """The type of an option; `Any` if only the class itself can check it."""

    def carrier() -> None: ...

    is_class = isinstance(factory, type)
    constructor = factory.__init__ if is_class else factory
    carrier.__annotations__ = {"it": getattr(constructor, "__annotations__", {}).get(option, Any)}
    try:
        hint = typing.get_type_hints(carrier, getattr(constructor, "__globals__", {}))["it"]
        msgspec.json.Decoder(_plain_type(hint))
    except (
        NameError,
        TypeError,
    ):  # it is imported for type checkers only, or msgspec cannot check such a union
        return Any
    return _plain_type(hint)


def _plain_type(hint: Any) -> Any:
    """A type as a file can say it: a path is text, an object of ours a table."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal or hint in (str, bool, int, float):
        return hint
    if origin in (typing.Union, types.UnionType):
        plain = dict.fromkeys(_plain_type(each) for each in parts if each is not types.NoneType)
        return Any if Any in plain else functools.reduce(operator.or_, plain)
    if (origin or hint) in (Path, os.PathLike):
        return str
    if (origin or hint) in _LISTS:
        return list
    is_ours = isinstance(hint, type) and hint.__module__.startswith("hookline.")
    return dict if is_ours or (origin or hint) in (dict, abc.Mapping) else Any


def options_schema(factory: Any) -> dict[str, Any]:
    """The JSON schema of a capability's table."""
    table = _table_of(factory)
    schema: dict[str, Any] = msgspec.json.schema(table)["$defs"][table.__name__]
    return {
        "type": "object",
        "description": (inspect.getdoc(factory) or "").partition("\n")[0],
        "properties": schema["properties"],
        "additionalProperties": False,
    }


def check_capability(name: str, options: dict[str, Any]) -> None:
    """Raise a ConfigError for a capability that does not exist, an InvalidSetting for a wrong option.

    Nothing that a file names is imported for that: options for a capability of a package are checked when it is made.
    """
    is_own = _class_name(name) is not None
    if not is_own and find_packaged(name) is None:
        offered = [each.name for each in packaged_capabilities()]
        remedy = suggest(name, sorted([*capability_names(), *offered]))
        raise ConfigError(f"there is no capability '{name}'.", remedy=remedy)
    has_options = is_own and bool(options.keys() - {"enabled"})
    given = options if has_options else {key: options[key] for key in options if key == "enabled"}
    check(given, _table_of(_class_of(name)) if has_options else _Switch, ("capabilities", name))


# --- making them --------------------------------------------------------------------------------------


def make_capabilities(
    settings: Settings, folder: Path, skipped: list[str], commands: Any = None
) -> Iterator[Any]:
    """Make each capability that is enabled. A default one that cannot work here is skipped and reported.

    `commands` runs the hooks that pages of subagents and skills describe.
    """
    for name, given in settings.configuration.capabilities.items():
        options = dict(given)
        if options.pop("enabled", True) is False:
            continue
        where = settings.where("capabilities", name)
        is_default = where == "default" and not options
        try:
            yield _make_capability(name, options, settings, folder, commands)
        except ConfigError:
            raise
        except (BuildError, UsageError) as error:
            if not is_default:
                raise ConfigError(f"{where}: {error.message}", remedy=error.remedy) from error
            skipped.append(f"without {name}: {error}")


def _make_capability(
    name: str, options: dict[str, Any], settings: Settings, folder: Path, commands: Any
) -> Any:
    where = settings.where("capabilities", name)
    factory = _class_of(name, where)
    is_packaged = _class_name(name) is None
    if is_packaged:  # those of our own were checked with their file
        try:
            check(options, _table_of(factory), ("capabilities", name))
        except InvalidSetting as wrong:
            raise invalid_setting_error(wrong, settings.merged.where) from None
    parameters = inspect.signature(factory).parameters
    sources: list[str] = []
    if _has_sources(factory):
        sources = places_of(options.pop("sources", ()), settings.project)
        if not sources:
            raise ConfigError(
                f"{where}: '{name}' has no sources.",
                remedy=f'Name the directories: [capabilities.{name}] sources = [".hookline/{name}"].',
            )
    if "root" in parameters:
        options["root"] = (folder / options.get("root", ".")).resolve()
    if "commands" in parameters and commands is not None:
        options["commands"] = commands
    if name == "bash":
        _convert_tables(options, settings)
    for option, each in parameters.items():
        is_needed = each.default is inspect.Parameter.empty and each.kind not in _NOT_OPTIONS
        if is_needed and option not in options:
            raise ConfigError(
                f"{where}: '{name}' needs the option '{option}'.",
                remedy=f"Add it to the configuration: [capabilities.{name}] {option} = ...",
            )
    try:
        made = factory(*sources, **options)
        return NamedCapability(made, name) if is_packaged else made
    except TypeError as error:
        raise ConfigError(f"{where}: the options of '{name}' do not fit: {error}.") from error


def places_of(sources: Any, project: Path) -> list[str]:
    """The paths that a configuration names as sources, from the project."""
    listed = [sources] if isinstance(sources, str) else list(sources)
    return [str(project / Path(each).expanduser()) for each in listed]


def _convert_tables(options: dict[str, Any], settings: Settings) -> None:
    """Convert the tables `policy` and `limits` of bash."""
    if isinstance(options.get("limits"), dict):
        from hookline.containment import SandboxLimits

        options["limits"] = SandboxLimits(**options["limits"])
    # The policy knows the repositories that the user trusts. Without any, the default one is not loaded.
    given, trusted = options.get("policy", {}), trust_file(os.environ).repositories()
    if not isinstance(given, dict) or not (given or trusted):
        return
    rules, programs = {**given}, given.get("programs", {})
    rules.pop("programs", None)
    odd = next((key for key in given if key not in _POLICY), None)
    try:
        if odd:
            remedy = f"Use {', '.join(sorted(_POLICY))}."
            raise UsageError(f"the policy of bash has no option '{odd}'.", remedy=remedy)
        from hookline.containment import ShellPolicy

        options["policy"] = ShellPolicy(trusted=trusted, programs=programs).with_rules(**rules)
    except UsageError as error:
        key = odd or ("programs" if programs else next(iter(rules)))
        inner = tuple(programs)[:1] if key == "programs" and isinstance(programs, dict) else ()
        where = settings.where("capabilities", "bash", "policy", key, *inner)
        raise ConfigError(f"{where}: {error.message}", remedy=error.remedy) from error
