"""The capabilities of a configuration, by name, with their options."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import types
import typing
from collections import abc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hookline.config import Settings, trust_file
from hookline.errors import BuildError, ConfigError, UsageError

_NOT_BY_NAME = frozenset({"Approval", "Hooks", "Limits", "ErrorHandling", "Cancellation"})
"""What other parts of a configuration say: approvals, hooks, limits, errors."""


def capability_names() -> dict[str, str]:
    """Every capability that can be named, and its class."""
    from hookline import capabilities

    return {
        _snake(name): name
        for name in capabilities.__all__
        if name not in _NOT_BY_NAME and _is_capability(getattr(capabilities, name))
    }


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _is_capability(thing: Any) -> bool:
    return isinstance(thing, type) and any(
        inspect.isfunction(getattr(thing, part, None))
        for part in ("hooks", "tools", "tools_for", "configure")
    )


def check_names(name: str, options: dict[str, Any]) -> Iterator[tuple[str, ConfigError]]:
    """What is wrong with what is said about a capability: its name, an option, or the value of one."""
    known = _known(name)
    if known is None:
        names = sorted(capability_names())
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        remedy = f"Did you mean '{close[0]}'?" if close else f"There are: {', '.join(names)}."
        yield "", ConfigError(f"there is no capability '{name}'.", remedy=remedy)
    elif not isinstance(options.get("enabled", True), bool):
        said = options["enabled"]
        yield "enabled", ConfigError(f"'{name}.enabled' is {said!r}: expected true or false.")
    elif options.keys() - {"enabled"}:
        yield from _check_options(name, known, options)


def _check_options(
    name: str, known: str, options: dict[str, Any]
) -> Iterator[tuple[str, ConfigError]]:
    from hookline import capabilities

    kind = getattr(capabilities, known)
    takes = options_of(inspect.signature(kind).parameters)
    for option, value in options.items():
        if option not in takes:
            close = difflib.get_close_matches(option, takes, n=1, cutoff=0.5)
            remedy = f"Did you mean '{close[0]}'?" if close else f"There are: {', '.join(takes)}."
            yield option, ConfigError(f"'{name}' has no option '{option}'.", remedy=remedy)
        elif (wanted := misfit(value, hint_of(kind, option))) is not None:
            yield option, ConfigError(f"'{name}.{option}' is {value!r}: expected {wanted}.")


def options_of(parameters: Any) -> list[str]:
    """What can be said about a capability whose class takes these parameters."""
    own = [each for each in parameters if each != "commands"]  # it is put together here
    return ["enabled", *(SOURCES if _is_made_of_files(parameters) else ()), *own]


def hint_of(kind: Any, option: str) -> Any:
    """The type of an option of a class, as far as it can be known."""

    def carrier() -> None: ...

    made = kind.__init__
    carrier.__annotations__ = {"it": made.__annotations__.get(option, Any)}
    try:
        return typing.get_type_hints(carrier, made.__globals__)["it"]
    except NameError:  # a type that only a checker sees
        return Any


_PLAIN = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
LISTS = (
    list,
    tuple,
    set,
    frozenset,
    *(getattr(abc, name) for name in ("Sequence", "Collection", "Iterable", "Set")),
)


def misfit(value: Any, hint: Any) -> str | None:
    """What was expected instead of a value; None where it fits, or where that is for the class itself to say."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return None if value in parts else f"one of {', '.join(map(repr, parts))}"
    if origin in (typing.Union, types.UnionType):
        told = [misfit(value, part) for part in parts if part is not type(None)]
        words = [said for said in told if said]
        return " or ".join(words) if len(words) == len(told) else None
    if hint in _PLAIN:
        fits = type(value) is hint or (hint is float and type(value) is int)
        return None if fits else _PLAIN[hint]
    if hint is Path:
        return None if isinstance(value, str) else "a path"
    if (origin or hint) in LISTS:
        return None if isinstance(value, list) else "a list"
    if (origin or hint) in (dict, abc.Mapping):
        return None if isinstance(value, dict) else "a table"
    is_ours = isinstance(hint, type) and hint.__module__.startswith("hookline.")
    return "a table" if is_ours and not isinstance(value, dict) else None


def capabilities_of(
    settings: Settings, folder: Path, skipped: list[str], commands: Any = None
) -> Iterator[Any]:
    """Each capability that is enabled. One of the defaults that cannot work here is skipped, and told.

    `commands` runs the hooks that pages of subagents and skills describe.
    """
    for name, given in settings.configuration.capabilities.items():
        options = dict(given)
        if options.pop("enabled", True) is False:
            continue
        is_default = settings.where("capabilities", name) == "default" and not options
        try:
            yield _made(name, options, settings, folder, commands)
        except ConfigError:
            raise
        except (BuildError, UsageError) as error:
            if not is_default:
                raise ConfigError(
                    f"{settings.where('capabilities', name)}: {error.message}", remedy=error.remedy
                ) from error
            skipped.append(f"without {name}: {error}")


def _made(
    name: str, options: dict[str, Any], settings: Settings, folder: Path, commands: Any
) -> Any:
    from hookline import capabilities

    where = settings.where("capabilities", name)
    for option, problem in check_names(name, options):
        at = settings.where("capabilities", name, option) if option else where
        raise ConfigError(f"{at}: {problem.message}", remedy=problem.remedy)
    kind = getattr(capabilities, _known(name) or "")
    parameters = inspect.signature(kind).parameters
    sources = _sources(name, options, parameters, settings, where)
    if "root" in parameters:
        options["root"] = (folder / options.get("root", ".")).resolve()
    if "commands" in parameters and commands is not None:
        options["commands"] = commands
    _convert(name, options, settings)
    needed = [option for option in _needed(parameters) if option not in options]
    if needed:
        raise ConfigError(
            f"{where}: '{name}' needs the option '{needed[0]}'.",
            remedy=f"Say it in the configuration: [capabilities.{name}] {needed[0]} = ...",
        )
    try:
        return kind(*sources, **options)
    except TypeError as error:
        raise ConfigError(f"{where}: the options of '{name}' do not fit: {error}.") from error


def _known(name: str) -> str | None:
    """The class of a capability. The usual ones are found without loading all of them."""
    usual = "".join(part.capitalize() for part in name.split("_"))
    from hookline import capabilities

    if usual in capabilities.__all__ and usual not in _NOT_BY_NAME:
        return usual
    return capability_names().get(name)


def _needed(parameters: Any) -> Iterator[str]:
    """The options without which a capability cannot be made."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for name, each in parameters.items():
        if each.default is inspect.Parameter.empty and each.kind not in several:
            yield name


SOURCES = ("sources",)


def _is_made_of_files(parameters: Any) -> bool:
    return any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters.values())


def _sources(
    name: str, options: dict[str, Any], parameters: Any, settings: Settings, where: str
) -> tuple[Any, ...]:
    """For a capability that is made of files: which."""
    if not _is_made_of_files(parameters):
        return ()
    listed = places_of(options.pop("sources", ()), settings.project)
    if not listed:
        raise ConfigError(
            f"{where}: '{name}' has no sources.",
            remedy=f'Name the directories: [capabilities.{name}] sources = [".hookline/{name}"].',
        )
    return tuple(listed)


def places_of(sources: Any, project: Path) -> list[str]:
    """The paths that a configuration names as sources, from the project."""
    listed = [sources] if isinstance(sources, str) else list(sources)
    return [str(project / Path(each).expanduser()) for each in listed]


_OF_POLICY = frozenset({"allow", "ask", "deny", "even_denied", "programs"})


def _convert_policy(options: dict[str, Any], settings: Settings) -> None:
    """The table `policy`, with the repositories that the user trusts. Without any, the default need not be loaded."""
    given, trusted = options.get("policy", {}), trust_file(os.environ).repositories()
    if not isinstance(given, dict) or not (given or trusted):
        return
    rules, programs = {**given}, given.get("programs", {})
    rules.pop("programs", None)
    odd = next((key for key in given if key not in _OF_POLICY), None)
    try:
        if odd:
            listed = ", ".join(sorted(_OF_POLICY))
            raise UsageError(f"the policy of bash has no option '{odd}'.", remedy=f"Use {listed}.")
        from hookline.containment import ShellPolicy

        options["policy"] = ShellPolicy(trusted=trusted, programs=programs).with_rules(**rules)
    except UsageError as error:
        key = odd or ("programs" if programs else next(iter(rules)))
        inner = tuple(programs)[:1] if key == "programs" and isinstance(programs, dict) else ()
        where = settings.where("capabilities", "bash", "policy", key, *inner)
        raise ConfigError(f"{where}: {error.message}", remedy=error.remedy) from error


def _convert(name: str, options: dict[str, Any], settings: Settings) -> None:
    """Tables that stand for values."""
    if name == "bash":
        _convert_policy(options, settings)
    if name == "bash" and isinstance(options.get("limits"), dict):
        from hookline.containment import SandboxLimits

        options["limits"] = SandboxLimits(**options["limits"])
