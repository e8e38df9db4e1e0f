"""`HookStack`, a set of hooks that is usable alone; and hooks that say themselves where they run."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Self, Unpack

import msgspec

from hookline._sync import run_to_end
from hookline.errors import HookError, RegistrationError, UsageError
from hookline.hooks import (
    Context,
    Entry,
    HookAnswer,
    HookLike,
    HookOptions,
    HookOutcome,
    Kind,
    Plan,
    Point,
    Registration,
    Result,
    name_of,
    register,
    run_hooks,
    sort_hooks,
    unique_names,
)
from hookline.hooks.hook import NO_OPTIONS, read_points, refuse_no_hook
from hookline.hooks.outcome import NoLog
from hookline.hooks.point_type import C
from hookline.hooks.run import run_around
from hookline.lifecycle.points import HookPoint, point_named

_EVERY_POINT = Point("every point", Context, blocks="what the point says")
"""The point of a hook that is asked at every point that a stack is asked about, those of one's own included."""

_log = logging.getLogger("hookline.hooks")


class HookStack:
    """An immutable set of hooks, usable alone: `HookStack().with_hook(hook, "PreToolUse")`.

    It takes points of the lifecycle by any of their names, and points of your own.
    """

    __slots__ = ("_hooks", "_plans")

    def __init__(self, registrations: Iterable[Registration] = ()) -> None:
        self._hooks = tuple(registrations)
        self._plans: dict[str, Plan] = {}

    @property
    def registrations(self) -> tuple[Registration, ...]:
        """Its hooks. One for every point is there once for each point of the lifecycle."""
        return tuple(
            registration
            for each in self._hooks
            for registration in (_at_each(each) if each.point is _EVERY_POINT else (each,))
        )

    def with_hook(
        self,
        hook: HookLike,
        point: Point[Any] | str = _EVERY_POINT,
        **options: Unpack[HookOptions],
    ) -> Self:
        """This stack and one more hook: at this point; or where the hook says itself; or else at every point.

        At every point means: not at those around an action.
        """
        found = read_description(hook, options, (_EVERY_POINT,)) if point is _EVERY_POINT else []
        if not found:
            found = [register(point_named(point), hook, options)]
        return type(self)((*self._hooks, *found))

    def plan(self, point: Point[Any] | str) -> Plan:
        """What runs at a point, in order."""
        plan = self._plans.get(point)
        if plan is None:
            plan = self._plans[point] = self._make_plan(point_named(point))
        return plan

    def _make_plan(self, point: Point[Any]) -> Plan:
        everywhere = point if point.around else _EVERY_POINT
        here = [_at(each, point) for each in self._hooks if each.point in (point, everywhere)]
        known = (registration.name for registration in self._hooks)
        return Plan(point, sort_hooks(unique_names(here), known))

    async def process(self, context: C, terminal: Callable[[C], object] | None = None) -> Result[C]:
        """Ask the hooks at the context's point, and give what they decided.

        `terminal` is what the hooks are about, sync or async: at a point around an action they wrap it, at others it
        is called last, with the context they left, if none of them objects. `result.answer` is what it returned.
        """
        self._check(context, terminal)
        log = _FailureLog()
        plan = self.plan(context.point)
        if terminal is not None and context.point.around:
            done = await run_around(
                plan.hooks, context, _async(terminal), log, None, _substitute_value
            )
            return Result(context, answer=done, failures=tuple(log.failures))
        result = await run_hooks(plan, context, log)
        if terminal is not None and result.kind is Kind.PROCEED:
            done = await _async(terminal)(result.context)
            result = _add_terminal(result, done)
        return (
            msgspec.structs.replace(result, failures=tuple(log.failures))
            if log.failures
            else result
        )

    def process_sync(self, context: C, terminal: Callable[[C], object] | None = None) -> Result[C]:
        """`process` for code that is not async."""
        return run_to_end(lambda: self.process(context, terminal), "stack.process(...)")

    def _check(self, context: Context, terminal: object) -> None:
        if not isinstance(context, Context):
            raise RegistrationError(
                f"{context!r} is not a context.", remedy="Pass one, such as ToolHookContext(...)."
            )
        point = context.point
        if terminal is None and point.around:
            raise UsageError(
                f"the hooks at {point.value} wrap an action, and none was given.",
                remedy="Pass a function of the context: process(context, action).",
            )
        if terminal is not None and not callable(terminal):
            raise UsageError(
                f"{terminal!r} is not an action.", remedy="Pass a function of the context."
            )
        if not _is_context_of(context, point):
            raise UsageError(
                f"the hooks at {point.value} take a {point.context.__name__}, "
                f"not a {type(context).__name__}.",
                remedy=f"Pass {point.context.__name__}(point=..., ...).",
            )


def _is_context_of(context: Context, point: Point[Any]) -> bool:
    """Whether it is the point's context, or the general one with the same fields: a ToolHookContext after a tool."""
    kind = point.context
    return isinstance(context, kind) or (
        issubclass(kind, type(context)) and kind.__struct_fields__ == context.__struct_fields__
    )


def _at(registration: Registration, point: Point[Any]) -> Registration:
    return msgspec.structs.replace(registration, point=point)


def _at_each(registration: Registration) -> Iterable[Registration]:
    return (_at(registration, point) for point in POINTS_TO_ASK)


class _FailureLog(NoLog):
    """Writes every failure of a hook to the program's log, and keeps it for the result."""

    def __init__(self) -> None:
        self.failures: list[HookError] = []

    def report_answer(self, entry: Entry, started: float, answer: HookAnswer[Any]) -> float:
        """Keep a failure."""
        if answer.error is not None:
            self.failures.append(answer.error)
            lines = [str(answer.error), *_where_it_crashed(answer.error)]
            # As text, because what a hook raises may have words that a log file cannot take.
            _log.warning("%s", "\n".join(lines).encode(errors="replace").decode().rstrip())
        return super().report_answer(entry, started, answer)


def _where_it_crashed(failure: HookError) -> list[str]:
    cause = failure.__cause__
    return [] if cause is None else ["".join(traceback.format_exception(cause))]


def _async(terminal: Callable[[C], object]) -> Callable[[C], Any]:
    async def action(ctx: C) -> Any:
        done = terminal(ctx)
        return await done if inspect.isawaitable(done) else done

    return action


def _substitute_value(entry: Entry, given: object, _: object) -> object:
    """What a hook around an action returned instead of the action's own result: any value that is one."""
    if given is None or isinstance(given, HookOutcome):
        raise HookError(
            entry.name,
            entry.point,
            f"it returned {given!r}, which is not a result of the action.",
            remedy="Return what `await call_next(ctx)` gives, or a result of your own.",
        )
    return given


def _add_terminal(result: Result[C], done: object) -> Result[C]:
    """What hooks and the terminal decided. A terminal may answer like a hook, with an outcome."""
    if not isinstance(done, HookOutcome):
        return msgspec.structs.replace(result, answer=done)
    return msgspec.structs.replace(
        result,
        context=result.context if done.context is None else done.context,
        kind=done.kind,
        reason=done.reason,
        decided_by="terminal" if done.kind is not Kind.PROCEED else "",
        stop_reason=done.stop_reason,
    )


# --- hooks that say where they run: decorated, with `points()` or `event()`, or registered already ---


MARK = "__hookline_hooks__"
"""The attribute in which `@on.<point>` notes points and options."""

POINTS_TO_ASK: tuple[Point[Any], ...] = tuple(point for point in HookPoint if not point.around)
"""Where a hook runs that says "all points". Around an action it would have to do the action."""


def registrations_of(thing: Any, options: HookOptions = NO_OPTIONS) -> list[Registration]:
    """The registrations of a hook that says where it runs, or of all such hooks that an object has; refuses others."""
    found = read_description(thing, options)
    if not found:
        raise RegistrationError(
            f"{thing!r} has no hooks.",
            remedy="Decorate it with @on.<point>(...), give it points() or event(), "
            "or use hook(point, function) or builder.on_<point>(function).",
        )
    return found


def read_description(
    thing: Any, options: HookOptions, everywhere: tuple[Point[Any], ...] = POINTS_TO_ASK
) -> list[Registration]:
    """The registrations of a hook that says where it runs; none if it does not say.

    Options that are given here replace those of a decorator. `everywhere` are the points of a hook that names none.
    """
    if isinstance(thing, Registration):
        if options:
            raise RegistrationError(
                f"hook '{thing.name}' at {thing.point.value} is registered with its options already.",
                remedy="Give them to hook(point, function, ...).",
            )
        return [thing]
    who = f"hook '{name_of(thing)}'"
    refuse_no_hook(thing, who)
    found = [register(point, thing, own | options) for point, own in getattr(thing, MARK, ())]
    names = read_points(thing)
    if names is not None:
        points = dict.fromkeys(point_named(name, who) for name in names) or everywhere
        found += [register(point, thing, options) for point in points]
    for name in dir(type(thing)):
        if hasattr(getattr(type(thing), name, None), MARK):
            found += read_description(getattr(thing, name), options)
    return found
