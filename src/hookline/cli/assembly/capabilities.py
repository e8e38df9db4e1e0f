"""The capabilities of a configuration, by name, with their options."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hookline.config import Settings
from hookline.errors import BuildError, ConfigError

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
        hasattr(thing, part) for part in ("hooks", "tools", "configure")
    )


def capabilities_of(settings: Settings, folder: Path, skipped: list[str]) -> Iterator[Any]:
    """Each capability that is enabled. One of the defaults that cannot work here is skipped, and told."""
    for name, given in settings.configuration.capabilities.items():
        options = dict(given)
        if options.pop("enabled", True) is False:
            continue
        is_default = settings.where("capabilities", name) == "default" and not options
        try:
            yield _made(name, options, settings, folder)
        except ConfigError:
            raise
        except BuildError as error:
            if not is_default:
                raise ConfigError(
                    f"{settings.where('capabilities', name)}: {error.message}", remedy=error.remedy
                ) from error
            skipped.append(f"without {name}: {error}")


def _made(name: str, options: dict[str, Any], settings: Settings, folder: Path) -> Any:
    from hookline import capabilities

    where = settings.where("capabilities", name)
    known = _known(name)
    if known is None:
        names = sorted(capability_names())
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        raise ConfigError(
            f"{where}: there is no capability '{name}'.",
            remedy=f"Did you mean '{close[0]}'?" if close else f"There are: {', '.join(names)}.",
        )
    kind = getattr(capabilities, known)
    parameters = inspect.signature(kind).parameters
    sources = _sources(name, options, parameters, settings, where)
    _check_options(name, options, parameters, where)
    if "root" in parameters:
        options["root"] = (folder / options.get("root", ".")).resolve()
    _convert(name, options)
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


def _sources(
    name: str, options: dict[str, Any], parameters: Any, settings: Settings, where: str
) -> tuple[Any, ...]:
    """For a capability that is made of files: which."""
    if not any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters.values()):
        return ()
    given = options.pop("sources", ())
    listed = [given] if isinstance(given, str) else list(given)
    if not listed:
        raise ConfigError(
            f"{where}: '{name}' has no sources.",
            remedy=f'Name the directories: [capabilities.{name}] sources = [".hookline/{name}"].',
        )
    return tuple(str(settings.project / Path(each).expanduser()) for each in listed)


def _check_options(name: str, options: dict[str, Any], parameters: Any, where: str) -> None:
    for option in options:
        if option not in parameters:
            close = difflib.get_close_matches(option, list(parameters), n=1, cutoff=0.5)
            raise ConfigError(
                f"{where}: capability '{name}' has no option '{option}'.",
                remedy=f"Did you mean '{close[0]}'?"
                if close
                else f"There are: {', '.join(parameters)}.",
            )


def _convert(name: str, options: dict[str, Any]) -> None:
    """Tables that stand for values."""
    if name == "bash" and isinstance(options.get("policy"), dict):
        from hookline.containment import ShellPolicy

        options["policy"] = ShellPolicy.default().with_rules(**options["policy"])
    if name == "bash" and isinstance(options.get("limits"), dict):
        from hookline.containment import SandboxLimits

        options["limits"] = SandboxLimits(**options["limits"])
