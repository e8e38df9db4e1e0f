"""Several models in order: when one fails, the next is asked in its place."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from hookline.drivers.base import Driver, Turn, awaitable, close_driver
from hookline.errors import BuildError
from hookline.flow import ErrorClass, classify
from hookline.flow.error_policy import retry_delay
from hookline.providers.request import portable
from hookline.state import InferenceRequest, InferenceResponse

FALLBACK_ON = frozenset(
    {
        ErrorClass.RATE_LIMIT,
        ErrorClass.OVERLOADED,
        ErrorClass.TIMEOUT,
        ErrorClass.CONNECTION,
        ErrorClass.MALFORMED,
    }
)
"""What is temporary, and may not concern another model. A wrong key or name is not hidden behind another model."""


class FallbackDriver:
    """Asks the first driver; when that fails with one of the classes `on`, the next, at once.

    Every turn begins with the first again, or, when a hook names a model of one of the providers, with the driver
    that is configured for it. When all have failed, the last failure is the turn's, with the longest wait that any
    of them asked for, and the error policy decides whether there is another turn. A failed model is on record as an
    error with the action `fallback`: a reader of the stream drops what the step has shown before such a
    record.
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
        drivers = self._in_order(request.model)
        *firsts, last = drivers
        failures: list[Exception] = []
        for position, driver in enumerate(firsts, start=1):
            try:
                return await awaitable(driver, driver.infer(request, turn))
            except Exception as error:
                if classify(error) not in self._on:
                    raise
                asked, then = request.model or _name(driver), _name(drivers[position])
                turn.record_fallback(error, f"{asked} failed; asking {then}")
                request = _for_another(request, driver, drivers[position])
                failures.append(error)
        try:
            return await awaitable(last, last.infer(request, turn))
        except Exception as error:
            _wait_for_all(error, failures)
            raise

    def _in_order(self, named: str) -> tuple[Driver, ...]:
        """The drivers as they are asked: the one whose provider has the model a hook named, then the others."""
        best = max(self._drivers, key=lambda driver: _fits(driver, named))
        if not _fits(best, named):
            return self._drivers
        return (best, *(driver for driver in self._drivers if driver is not best))

    async def aclose(self) -> None:
        """Close those drivers that can be closed."""
        for driver in self._drivers:
            await close_driver(driver)

    def __repr__(self) -> str:
        return f"FallbackDriver({', '.join(map(repr, self._drivers))})"


def _name(driver: Driver) -> str:
    return getattr(driver, "model", "") or type(driver).__name__


def _for_another(request: InferenceRequest, failed: Driver, then: Driver) -> InferenceRequest:
    """The request for the next in line: without the model a hook named, and with the options that driver may know."""
    options = request.options
    if _provider(failed) != _provider(then):
        options = portable(options)
    return msgspec.structs.replace(request, model="", options=options)


def _wait_for_all(last: Exception, failures: list[Exception]) -> None:
    """Let the last failure ask for the longest wait of all: a retry begins with the first model again."""
    asked = [wait for error in (*failures, last) if (wait := retry_delay(error)) is not None]
    if asked:
        last.retry_after = max(asked)  # type: ignore[attr-defined]


def _provider(driver: Driver) -> str:
    return _name(driver).partition(":")[0]


def _fits(driver: Driver, named: str) -> int:
    """How well a driver serves a model: 2 when it is its own, 1 when it is its provider's, 0 when it is neither."""
    if isinstance(driver, FallbackDriver):
        return max(_fits(each, named) for each in driver._drivers)
    provider, colon, _ = named.partition(":")
    if not colon:
        return 0
    return 2 if _name(driver) == named else int(_provider(driver) == provider)


def _classes(given: Collection[ErrorClass | str]) -> frozenset[ErrorClass]:
    try:
        return frozenset(
            ErrorClass(each) for each in ([given] if isinstance(given, str) else given)
        )
    except ValueError as error:
        raise BuildError(
            f"fallback: {error}.", remedy=f"Classes: {', '.join(ErrorClass)}."
        ) from None
