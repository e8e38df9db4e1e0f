"""From a model's name to a driver: `anthropic:NAME`, `script:FILE.json`, or a list of these."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hookline.drivers.base import Driver
from hookline.drivers.fallback import FALLBACK_ON, FallbackDriver
from hookline.drivers.model import ToolCallingDriver, check_options, new_provider
from hookline.drivers.react import ReActDriver
from hookline.drivers.scripted import ScriptedDriver
from hookline.errors import BuildError
from hookline.flow import ErrorClass
from hookline.providers import Feature, split_name
from hookline.providers.request import PORTABLE, portable
from hookline.state import EMPTY

_SCRIPT = "script:"


def driver_for(
    model: str | Driver | Sequence[str | Driver],
    *,
    options: Mapping[str, Any] = EMPTY,
    tool_choice: str = "auto",
    fallback_on: Collection[ErrorClass | str] = FALLBACK_ON,
    settings: Mapping[str, Any] = EMPTY,
) -> Driver:
    """The driver for a model, or for several that are asked in order. `settings` are the provider's."""
    check_options(options)
    if isinstance(model, str):
        return _driver_by_name(model, options, tool_choice, settings)
    if isinstance(model, Driver) and not isinstance(model, type):
        _refuse(model, options, settings)
        return model
    if not isinstance(model, list | tuple):
        raise BuildError(
            f"{model!r} is neither a model's name nor a driver.",
            remedy="Write provider:NAME, or a list of names.",
        )
    if settings:
        raise BuildError(
            f"{', '.join(settings)}: with several models it is not clear whose setting that is.",
            remedy="Put drivers into the list: ToolCallingDriver(NAME, provider=make_provider(...)).",
        )
    _refuse_foreign(model, options)
    drivers = [
        driver_for(
            each, options=EMPTY if isinstance(each, Driver) else options, tool_choice=tool_choice
        )
        for each in model
    ]
    return drivers[0] if len(drivers) == 1 else FallbackDriver(*drivers, on=fallback_on)


def _driver_by_name(
    model: str, options: Mapping[str, Any], tool_choice: str, settings: Mapping[str, Any]
) -> Driver:
    if model.startswith(_SCRIPT):
        _refuse(model, options, settings)
        return ScriptedDriver.from_file(model.removeprefix(_SCRIPT))
    name = split_name(model, also=(_SCRIPT[:-1],))
    provider = new_provider(name.provider, **settings)
    kind = ToolCallingDriver if Feature.TOOLS in provider.features else ReActDriver
    return kind(name.model, provider=provider, options=options, tool_choice=tool_choice)


def _refuse_foreign(models: Sequence[str | Driver], options: Mapping[str, Any]) -> None:
    """An option of one provider is not sent to another: with several it must be said whose it is."""
    providers = {each.partition(":")[0] for each in models if isinstance(each, str)}
    own = options.keys() - portable(options).keys()
    if own and len(providers) > 1:
        raise BuildError(
            f"{', '.join(sorted(own))}: with several providers it is not clear whose option that is.",
            remedy="Put drivers into the list: ToolCallingDriver(NAME, options={...}); "
            f"these options work for all models: {', '.join(PORTABLE)}.",
        )


def _refuse(model: object, options: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """A driver is made already, and a script has nothing to set."""
    for name in (*options, *settings):
        raise BuildError(
            f"{model!r} takes no settings, and '{name}' is one.", remedy="Leave it out."
        )
