"""The models that hooks name: by a meaning that was given for the name, or by their provider."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hookline.command_hooks.definition import Handler
from hookline.errors import HooklineError
from hookline.state import EMPTY

_OWN = "inherit"
_CLAUDES = "claude-"
"""How other agents name the models of a provider that we name first."""


class Models:
    """The drivers of models that hooks name, each made once."""

    def __init__(self, meanings: Mapping[str, Any] = EMPTY) -> None:
        self._meanings = meanings
        self._drivers: dict[str, Any] = {}
        self._problems: dict[str, str] = {}

    def driver(self, name: str) -> Any:
        """The driver of a model; None for the agent's own, which answers where the name means nothing here."""
        if name in ("", _OWN) or name in self._problems:
            return None
        if name not in self._drivers:
            try:
                self._drivers[name] = self._made(name)
            except HooklineError as error:
                self._problems[name] = error.message
                return None
        return self._drivers[name]

    def _made(self, name: str) -> Any:
        from hookline.drivers import driver_for  # only where one is named: it takes a while

        meant = self._meanings.get(name, name)
        is_short = isinstance(meant, str) and meant.startswith(_CLAUDES)
        return driver_for(f"anthropic:{meant}" if is_short else meant)

    def complaints(self, handlers: Iterable[Handler]) -> Iterator[str]:
        """What is wrong with the models that hooks name."""
        for handler in handlers:
            if self.driver(handler.model) is None and handler.model in self._problems:
                yield (
                    f"{handler.source.label}: {handler.event}: the model '{handler.model}' of a hook cannot be used "
                    f"here ({self._problems[handler.model].rstrip('.')}), so the agent's own answers"
                )

    async def aclose(self) -> None:
        """Close the models that were opened."""
        for driver in self._drivers.values():
            close = getattr(driver, "aclose", None)
            if close is not None:
                await close()
