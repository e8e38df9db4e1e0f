"""Several models in order: when one fails, the next is asked in its place."""

from __future__ import annotations

from collections.abc import Collection

from hookline.drivers.base import Driver, Turn
from hookline.errors import BuildError
from hookline.flow import ErrorClass, classify
from hookline.state import InferenceRequest, InferenceResponse

FALLBACK_ON = frozenset(
    {ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED, ErrorClass.TIMEOUT, ErrorClass.CONNECTION}
)
"""What passes, and what another model may well be spared. A wrong key or name is not hidden behind another model."""


class FallbackDriver:
    """Asks the first driver; when that fails with one of the classes `on`, the next, at once.

    Every turn begins with the first again. When all have failed, the last failure is the turn's, and the error
    policy decides whether there is another. A failed model is on record as an error with the action `fallback`:
    whoever shows text as it streams drops what the step has shown before such a record.
    """

    def __init__(self, *drivers: Driver, on: Collection[ErrorClass | str] = FALLBACK_ON) -> None:
        if not drivers:
            raise BuildError("there is no model to ask.", remedy="Name at least one.")
        self._drivers = drivers
        self._on = _classes(on)

    @property
    def model(self) -> str:
        """The models it asks, in order."""
        return ", then ".join(map(_name, self._drivers))

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """Ask one model after the other until one answers."""
        *firsts, last = self._drivers
        for position, driver in enumerate(firsts, start=1):
            try:
                return await driver.infer(request, turn)
            except Exception as error:
                if classify(error) not in self._on:
                    raise
                asked, then = request.model or _name(driver), _name(self._drivers[position])
                turn.record_fallback(error, f"{asked} failed; asking {then}")
                request = request.with_model("")  # a model a hook named takes the first one's place
        return await last.infer(request, turn)

    async def aclose(self) -> None:
        """Close those drivers that can be closed."""
        for driver in self._drivers:
            close = getattr(driver, "aclose", None)
            if close is not None:
                await close()

    def __repr__(self) -> str:
        return f"FallbackDriver({', '.join(map(repr, self._drivers))})"


def _name(driver: Driver) -> str:
    return getattr(driver, "model", "") or type(driver).__name__


def _classes(given: Collection[ErrorClass | str]) -> frozenset[ErrorClass]:
    try:
        return frozenset(
            ErrorClass(each) for each in ([given] if isinstance(given, str) else given)
        )
    except ValueError as error:
        raise BuildError(
            f"fallback: {error}.", remedy=f"Classes: {', '.join(ErrorClass)}."
        ) from None
