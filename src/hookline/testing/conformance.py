"""A conformance suite for hooks: does a hook behave the same, whichever way an agent is driven?

report = await check_hook("before_tool_use", no_deletes, matcher="bash", tier="policy",
                          script=[call("bash", command="ls"), say("done")], tools=[bash])
assert report.ok, report
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack

from hookline.agent import AgentBuilder
from hookline.errors import UsageError
from hookline.hooks import HookLike, Options
from hookline.lifecycle import point_named
from hookline.testing.compare import differences, faults
from hookline.testing.modes import MODES, in_parallel, inapplicable
from hookline.testing.report import Report
from hookline.testing.trial import Case, Trial

P = ParamSpec("P")
R = TypeVar("R")


class HookOptions(TypedDict, total=False):
    """The options a hook is registered with, as `AgentBuilder.add_hook` takes them."""

    priority: int
    matcher: Any
    name: str | None
    before: str | Iterable[str]
    after: str | Iterable[str]
    tier: str
    scope: str | None
    timeout: float | None
    on_failure: str | None
    shadow: bool


async def check_hook(
    point: str,
    hook: HookLike = None,
    *,
    script: Sequence[Any],
    tools: Sequence[Any] = (),
    factory: Callable[[], HookLike] | None = None,
    prompt: str = "Go.",
    configure: Callable[[AgentBuilder], object] | None = None,
    skip: Collection[str] = (),
    ignore: Collection[str] = (),
    quick: float = 0.05,
    **options: Unpack[HookOptions],
) -> Report:
    """Drive one scripted conversation in every way there is, and compare what the hook does.

    `script` and `tools` are what a ScriptedDriver and an agent take; the tools should give the same results
    each time, in any order. The same hook is used throughout, so that what it keeps between runs shows; one
    that is meant to keep something is made anew for each run by `factory`. `configure` adds to the agent
    whatever else the conversation needs. `skip` names ways not to compare, `ignore` keys of metadata (a time,
    say) whose values may differ. A hook that has nothing to say should say so within `quick` seconds.
    """
    _check_arguments(hook, factory, skip)
    case = Case(
        point=point_named(point),
        make=factory if factory is not None else lambda: hook,
        options=Options(**options),
        script=tuple(script),
        tools=tuple(tools),
        prompt=prompt,
        configure=configure,
        ignore=frozenset(ignore),
    )
    trials: dict[str, Trial] = {}
    skipped = dict.fromkeys(skip, "as you asked")
    for mode, drive in MODES.items():
        reference = trials["run"].seen() if trials else None
        why = skipped.get(mode) or inapplicable(case, mode, reference)
        if why:
            skipped[mode] = why
            continue
        trials[mode] = Trial(case, in_parallel(case.script) if mode == "parallel" else None)
        await drive(trials[mode])
    return _report(trials, skipped, quick)


def _in_sync(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return asyncio.run(function(*args, **kwargs))

    run.__doc__ = f"`{function.__name__}` for code that is not async."
    run.__name__ = run.__qualname__ = f"{function.__name__}_sync"
    return run


check_hook_sync = _in_sync(check_hook)


def _check_arguments(hook: HookLike, factory: object, skip: Collection[str]) -> None:
    if (hook is None) == (factory is None):
        raise UsageError(
            "check_hook takes a hook, or a factory= that makes one: exactly one of the two."
        )
    can_skip = [mode for mode in MODES if mode != "run"]  # the others are compared with it
    for mode in skip:
        if mode not in can_skip:
            raise UsageError(
                f"skip={mode!r} is not something that can be skipped.",
                remedy=f"There is: {', '.join(can_skip)}.",
            )


def _report(trials: dict[str, Trial], skipped: dict[str, str], quick: float) -> Report:
    reference = trials["run"]
    seen = {mode: trial.seen() for mode, trial in trials.items()}
    found = list(faults(trials, quick))
    for mode in list(trials)[1:]:
        found += differences(mode, seen["run"], seen[mode])
    return Report(
        reference.registration.name,
        reference.case.point.value,
        tuple(trials),
        skipped,
        tuple(found),
        tuple(said.verdict for said in seen["run"].verdicts),
        seen["run"].ending,
    )
