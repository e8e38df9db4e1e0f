"""The capabilities of a configuration, by name, with their options."""

from __future__ import annotations

import inspect
import os
import re
import types
import typing
from collections import abc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hookline.cli.assembly.packages import (
    NamedCapability,
    find_packaged,
    packaged_capabilities,
)
from hookline.config import Settings
from hookline.config.trust import trust_file
from hookline.config.validation import suggest
from hookline.errors import BuildError, ConfigError, UsageError

_NOT_BY_NAME = frozenset({"Approval", "Hooks", "Limits", "ErrorHandling", "Cancellation"})
"""Capabilities that other parts of a configuration make: approvals, hooks, limits, errors."""
_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number"}
_LISTS = (
    *(list, tuple, set, frozenset),
    *(getattr(abc, name) for name in ("Sequence", "Collection", "Iterable", "Set")),
)
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "text"),
    "boolean": ((bool,), "true or false"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "array": ((list,), "a list"),
    "object": ((dict,), "a table"),
}
"""The types of a JSON schema: in Python, and in words."""
_TEXT = {"type": "string"}
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


def options_of(kind: Any) -> list[str]:
    """The options of a capability."""
    own = [each for each in inspect.signature(kind).parameters if each != "commands"]
    return ["enabled", *(["sources"] if _has_sources(kind) else ()), *own]


def _has_sources(kind: Any) -> bool:
    parameters = inspect.signature(kind).parameters.values()
    return any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)


def schema_of(kind: Any, option: str) -> dict[str, Any]:
    """The JSON schema of an option; empty if only the class itself can check it."""
    if option == "enabled":
        return {"type": "boolean", "default": True}
    if option == "sources" and _has_sources(kind):
        return {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}

    def carrier() -> None: ...

    is_class = isinstance(kind, type)
    constructor = kind.__init__ if is_class else kind
    carrier.__annotations__ = {"it": getattr(constructor, "__annotations__", {}).get(option, Any)}
    try:
        hint = typing.get_type_hints(carrier, getattr(constructor, "__globals__", {}))["it"]
    except NameError:  # a type that is imported for type checkers only
        return {}
    return _schema_of_type(hint)


def _schema_of_type(hint: Any) -> dict[str, Any]:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(parts)}
    if origin in (typing.Union, types.UnionType):
        found: list[dict[str, Any]] = []
        for each in (_schema_of_type(part) for part in parts if part is not type(None)):
            found += [] if each in found else [each]
        return found[0] if len(found) == 1 else {} if {} in found else {"anyOf": found}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if (origin or hint) in (Path, os.PathLike):
        return _TEXT
    if (origin or hint) in _LISTS:
        return {"type": "array"}
    is_ours = isinstance(hint, type) and hint.__module__.startswith("hookline.")
    is_table = is_ours or (origin or hint) in (dict, abc.Mapping)
    return {"type": "object"} if is_table else {}


def _explain_mismatch(value: Any, schema: dict[str, Any]) -> str:
    """What the schema expects instead of a value; empty if the value fits."""
    if "enum" in schema:
        return "" if value in schema["enum"] else f"one of {', '.join(map(repr, schema['enum']))}"
    if "anyOf" in schema:
        words = [_explain_mismatch(value, each) for each in schema["anyOf"]]
        return " or ".join(words) if all(words) else ""
    if "type" not in schema:
        return ""
    kinds, words_of_type = _TYPES[schema["type"]]
    return "" if type(value) in kinds else words_of_type


def check_capability(name: str, options: dict[str, Any]) -> Iterator[tuple[str, ConfigError]]:
    """The mistakes in a capability's table: its name, an option, or a value. Each with the option it is about.

    Nothing that a file names is imported for that: options for a capability of a package are checked when it is made.
    """
    is_own = _class_name(name) is not None
    if not is_own and find_packaged(name) is None:
        offered = [each.name for each in packaged_capabilities()]
        remedy = suggest(name, sorted([*capability_names(), *offered]))
        yield "", ConfigError(f"there is no capability '{name}'.", remedy=remedy)
        return
    if not isinstance(options.get("enabled", True), bool):
        value = options["enabled"]
        yield "enabled", ConfigError(f"'{name}.enabled' is {value!r}: expected true or false.")
    if is_own and options.keys() - {"enabled"}:
        yield from _check_options(name, _class_of(name), options)


def _check_options(
    name: str, kind: Any, options: dict[str, Any]
) -> Iterator[tuple[str, ConfigError]]:
    known = options_of(kind)
    for option in [each for each in options if each != "enabled"]:
        if option not in known:
            problem = f"'{name}' has no option '{option}'."
            yield option, ConfigError(problem, remedy=suggest(option, known))
        elif expected := _explain_mismatch(options[option], schema_of(kind, option)):
            problem = f"'{name}.{option}' is {options[option]!r}: expected {expected}."
            yield option, ConfigError(problem)


# --- making them --------------------------------------------------------------------------------------


def capabilities_of(
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
            yield _make(name, options, settings, folder, commands)
        except ConfigError:
            raise
        except (BuildError, UsageError) as error:
            if not is_default:
                raise ConfigError(f"{where}: {error.message}", remedy=error.remedy) from error
            skipped.append(f"without {name}: {error}")


def _make(
    name: str, options: dict[str, Any], settings: Settings, folder: Path, commands: Any
) -> Any:
    where = settings.where("capabilities", name)
    kind = _class_of(name, where)
    is_packaged = _class_name(name) is None
    if is_packaged:  # those of our own were checked with their file
        for option, problem in _check_options(name, kind, options):
            place = settings.where("capabilities", name, option)
            raise ConfigError(f"{place}: {problem.message}", remedy=problem.remedy)
    parameters = inspect.signature(kind).parameters
    sources: list[str] = []
    if _has_sources(kind):
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
        several = each.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if each.default is inspect.Parameter.empty and not several and option not in options:
            raise ConfigError(
                f"{where}: '{name}' needs the option '{option}'.",
                remedy=f"Add it to the configuration: [capabilities.{name}] {option} = ...",
            )
    try:
        made = kind(*sources, **options)
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
