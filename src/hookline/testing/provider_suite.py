"""A conformance suite for providers: does a provider do what drivers rely on, with each driver, run and streamed?

report = await check_provider(MyWire)
assert report.ok, report
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import msgspec

from hookline.errors import UsageError
from hookline.testing.provider_cases import CASES
from hookline.testing.provider_setup import DRIVERS, CaseSetup, Inapplicable, Mismatch
from hookline.testing.report import Deviation
from hookline.testing.wire import Wire

_PATIENCE = 30.0
"""Seconds after which a case is taken to hang. Nothing in the suite waits for a clock."""


class ProviderCase(msgspec.Struct, frozen=True):
    """One case of the suite, for one driver and one way of driving: `await case.check(MyWire())`."""

    name: str
    driver: str
    streamed: bool

    async def check(self, wire: Wire) -> str:
        """Raises an AssertionError that says what is wrong. Gives a reason when the case does not apply."""
        setup = CaseSetup(wire, self.driver, streamed=self.streamed)
        try:
            async with asyncio.timeout(_PATIENCE):
                await CASES[self.name](setup)
        except Inapplicable as reason:
            return str(reason)
        except TimeoutError:
            raise Mismatch(
                Deviation(setup.mode, self.name, "an end", f"none within {_PATIENCE:g} s")
            ) from None
        return ""

    @property
    def meaning(self) -> str:
        """What it is about."""
        return CASES[self.name].__doc__ or f"A failure of the server has its class: {self.name}."

    def __str__(self) -> str:
        return f"{self.name} ({self.driver}, {'stream' if self.streamed else 'run'})"


class ProviderReport(msgspec.Struct, frozen=True):
    """The result of a conformance check: `assert report.ok, report`."""

    passed: tuple[str, ...]
    skipped: dict[str, str]
    """The cases that do not apply to this provider, and why."""
    failed: dict[str, str]
    """The cases it does not pass, and what was wrong."""

    @property
    def ok(self) -> bool:
        """Every case that applies was passed."""
        return bool(self.passed) and not self.failed

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [
            f"{'conforms' if self.ok else 'does not conform'}: {len(self.passed)} passed, "
            f"{len(self.failed)} failed, {len(self.skipped)} do not apply"
        ]
        for case, problem in self.failed.items():
            lines += [f"  failed   {case}", *(f"    {line}" for line in problem.splitlines())]
        for why in dict.fromkeys(self.skipped.values()):
            cases = [case for case, reason in self.skipped.items() if reason == why]
            lines += [f"  {why}:", *(f"    {case}" for case in cases)]
        return "\n".join(lines)


def provider_cases() -> tuple[ProviderCase, ...]:
    """Every case: for `pytest.mark.parametrize("case", provider_cases(), ids=str)`."""
    return tuple(
        ProviderCase(name, driver, streamed)
        for name in CASES
        for driver in DRIVERS
        for streamed in (False, True)
    )


async def check_provider(
    make_wire: Callable[[], Wire], *, only: Collection[str] = ()
) -> ProviderReport:
    """Put a provider through every case, each with a wire of its own. `only` names the cases to check."""
    for name in only:
        if name not in CASES:
            raise UsageError(
                f"there is no case '{name}'.", remedy=f"There are: {', '.join(CASES)}."
            )
    passed: list[str] = []
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    for case in provider_cases():
        if only and case.name not in only:
            continue
        try:
            reason = await case.check(make_wire())
        except Exception as error:
            failed[str(case)] = str(error) or type(error).__name__
        else:
            if reason:
                skipped[str(case)] = reason
            else:
                passed.append(str(case))
    return ProviderReport(tuple(passed), skipped, failed)
