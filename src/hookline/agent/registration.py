"""How hooks are registered: `builder.on_before_tool_use(check)`, `@on.before_tool_use`, `hook(point, check)`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar, Unpack, overload

from hookline.adapters import ContinuationCriteriaAdapter, StateProcessorAdapter
from hookline.errors import BuildError, RegistrationError
from hookline.hooks import (
    Context,
    HookLike,
    HookOptions,
    Next,
    Point,
    Registration,
    name_of,
    register,
)
from hookline.hooks.hook import refuse_unknown
from hookline.lifecycle import (
    AfterStepHookContext,
    AfterToolHookContext,
    CompactHookContext,
    ExecutionHookContext,
    FailureHookContext,
    HookPoint,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    SessionHookContext,
    StepHookContext,
    StopHookContext,
    SubagentHookContext,
    ToolHookContext,
    point_named,
)
from hookline.lifecycle.stack import MARK, registrations_of
from hookline.state import InferenceResponse, ToolResult

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def hook(
    point: str,
    callback: HookLike,
    **options: Unpack[HookOptions],
) -> Registration:
    """A hook at a point, with its options: what capabilities give from `hooks()`."""
    who = f"hook '{options.get('name') or name_of(callback)}'"
    return register(point_named(point, who), callback, options)


class _On:
    """One decorator per hook point, each with the options every hook has. It marks the function and returns it."""

    def __getattr__(self, name: str) -> Callable[..., Callable[[Decorated], Decorated]]:
        if name.startswith("_"):
            raise AttributeError(name)
        point = point_named(name)

        def decorator(bare: Any = None, /, **options: Unpack[HookOptions]) -> Any:
            refuse_unknown(options, f"@on.{name}")

            def mark(function: Decorated) -> Decorated:
                marked = [*getattr(function, MARK, ()), (point, options)]
                setattr(function, MARK, marked)
                return function

            return mark if bare is None else mark(bare)

        return decorator


on = _On()


# --- the methods of a builder -------------------------------------------------------------------------


C = TypeVar("C", bound=Context)
C_contra = TypeVar("C_contra", bound=Context, contravariant=True)
F = TypeVar("F")
R = TypeVar("R")
B = TypeVar("B", bound="HookRegistrar")


class HookObject(Protocol[C_contra]):
    """An object whose `handle(ctx)` is called like a function."""

    def handle(self, ctx: C_contra, /) -> object:
        """Answer."""
        ...


class Middleware(Protocol[C_contra]):
    """An object whose `handle(ctx, next)` wraps the rest of its tier."""

    def handle(self, ctx: C_contra, next: Any, /) -> object:
        """Answer, or hand on: `return await next(ctx)`."""
        ...


class NextFn(Protocol[C_contra]):
    """Middleware as a function `(ctx, next)`. Its second parameter has this name, or `call_next`."""

    def __call__(self, ctx: C_contra, /, next: Any) -> object:
        """Answer, or hand on."""
        ...


class CallNextFn(Protocol[C_contra]):
    """Middleware as a function `(ctx, call_next)`."""

    def __call__(self, ctx: C_contra, /, call_next: Any) -> object:
        """Answer, or hand on."""
        ...


HookFn: TypeAlias = (
    Callable[[C], object] | HookObject[C] | Middleware[C] | NextFn[C] | CallNextFn[C]
)
"""A hook at a point: a function of its context, sync or async, or middleware; or an object with `handle`."""
AroundFn: TypeAlias = Callable[[C, Next[C, R]], Awaitable[R]]
"""A hook around an action: `async (ctx, call_next) -> result`."""


class HookRegistrar(Protocol):
    """A builder, as far as its `on_…` methods know it."""

    def _add(self: B, registration: Registration) -> B:
        """Take a hook that is checked, and give the builder back."""
        ...


class Registrar(Generic[F]):
    """One `on_…` method, before it is one of a builder."""

    __slots__ = ("_point",)

    def __init__(self, point: Point[Any]) -> None:
        self._point = point

    @overload
    def __get__(self, builder: None, owner: type) -> Registrar[F]: ...
    @overload
    def __get__(self, builder: B, owner: type) -> BoundRegistrar[F, B]: ...
    def __get__(self, builder: B | None, owner: type) -> Registrar[F] | BoundRegistrar[F, B]:
        return self if builder is None else BoundRegistrar(self._point, builder)

    @property
    def __signature__(self) -> inspect.Signature:
        """What `help()` and editors show: a descriptor's own signature would say nothing."""
        return inspect.signature(BoundRegistrar.__call__)

    def __call__(self, *_args: object, **_options: object) -> object:
        """Says whose method this is."""
        raise BuildError(
            "this is a method of a builder.",
            remedy="Call it on one: AgentBuilder().on_…(hook).",
        )


class BoundRegistrar(Generic[F, B]):
    """One `on_…` method: registers a hook at its point and returns the builder. All have the same options."""

    __slots__ = ("_builder", "_point")

    def __init__(self, point: Point[Any], builder: B) -> None:
        self._point = point
        self._builder = builder

    @property
    def __signature__(self) -> inspect.Signature:
        """What `help()` and editors show."""
        method = inspect.signature(type(self).__call__)
        return method.replace(parameters=list(method.parameters.values())[1:])

    def __call__(
        self,
        callback: F,
        **options: Unpack[HookOptions],
    ) -> B:
        """Register a hook at this point."""
        return self._builder._add(register(self._point, callback, options))


class HookMethods:
    """The methods of a builder that register hooks: one for each point, and those for any point."""

    __slots__ = ()

    on_session_start = Registrar[HookFn[SessionHookContext]](HookPoint.SESSION_START)
    on_execution_start = Registrar[HookFn[ExecutionHookContext]](HookPoint.EXECUTION_START)
    on_prompt_submit = Registrar[HookFn[PromptHookContext]](HookPoint.PROMPT_SUBMIT)
    around_step = Registrar[AroundFn[StepHookContext, StepHookContext]](HookPoint.AROUND_STEP)
    on_before_step = Registrar[HookFn[StepHookContext]](HookPoint.BEFORE_STEP)
    on_before_inference = Registrar[HookFn[InferenceHookContext]](HookPoint.BEFORE_INFERENCE)
    around_inference = Registrar[AroundFn[InferenceHookContext, InferenceResponse]](
        HookPoint.AROUND_INFERENCE
    )
    on_after_inference = Registrar[HookFn[InferenceHookContext]](HookPoint.AFTER_INFERENCE)
    on_before_tool_use = Registrar[HookFn[ToolHookContext]](HookPoint.BEFORE_TOOL_USE)
    on_permission_request = Registrar[HookFn[ToolHookContext]](HookPoint.PERMISSION_REQUEST)
    around_tool_use = Registrar[AroundFn[ToolHookContext, ToolResult]](HookPoint.AROUND_TOOL_USE)
    on_after_tool_use = Registrar[HookFn[AfterToolHookContext]](HookPoint.AFTER_TOOL_USE)
    on_after_step = Registrar[HookFn[AfterStepHookContext]](HookPoint.AFTER_STEP)
    on_should_continue = Registrar[HookFn[StopHookContext]](HookPoint.SHOULD_CONTINUE)
    on_stop = Registrar[HookFn[StopHookContext]](HookPoint.STOP)
    on_output = Registrar[HookFn[OutputHookContext]](HookPoint.OUTPUT)
    on_execution_end = Registrar[HookFn[ExecutionHookContext]](HookPoint.EXECUTION_END)
    on_error = Registrar[HookFn[FailureHookContext]](HookPoint.ERROR)
    on_agent_failed = Registrar[HookFn[FailureHookContext]](HookPoint.AGENT_FAILED)
    on_subagent_start = Registrar[HookFn[SubagentHookContext]](HookPoint.SUBAGENT_START)
    on_subagent_stop = Registrar[HookFn[SubagentHookContext]](HookPoint.SUBAGENT_STOP)
    on_before_compact = Registrar[HookFn[CompactHookContext]](HookPoint.BEFORE_COMPACT)
    on_session_end = Registrar[HookFn[SessionHookContext]](HookPoint.SESSION_END)

    def _add(self, registration: Registration) -> Self:
        """Take a hook that is checked, and give the builder back."""
        raise NotImplementedError

    @overload
    def add_hook(
        self, point: Point[Any] | str, hook: HookLike, **options: Unpack[HookOptions]
    ) -> Self: ...
    @overload
    def add_hook(
        self, *, event: Point[Any] | str, hook: HookLike, **options: Unpack[HookOptions]
    ) -> Self: ...
    def add_hook(
        self,
        point: Point[Any] | str | None = None,
        hook: HookLike = None,
        *,
        event: Point[Any] | str | None = None,
        **options: Unpack[HookOptions],
    ) -> Self:
        """Register a hook at any point, by the point or by any of its names (`PreToolUse`). `event` is `point`."""
        who = f"hook '{options.get('name') or name_of(hook)}'"
        if point is not None and event is not None:
            raise RegistrationError(f"{who}: point= and event= are the same.", remedy="Give one.")
        return self._add(register(point_named(event or point or "", who), hook, options))

    def with_hook(self, hook: HookLike, **options: Unpack[HookOptions]) -> Self:
        """One hook that says where it runs: decorated, or an object with `points()` or `event()`; an adapter, say."""
        for registration in registrations_of(hook, options):
            self._add(registration)
        return self

    def with_hooks(self, *hooks: HookLike) -> Self:
        """Hooks that say where they run, as for `with_hook`; objects with decorated methods; what `hook(...)` makes."""
        for each in hooks:
            self.with_hook(each)
        return self

    # --- older code, as a hook ----------------------------------------------------------------------

    def add_pre_processor(self, processor: Any, **options: Unpack[HookOptions]) -> Self:
        """A state processor: `process(state)` before each step, `process(state, next)` around it."""
        return self.with_hook(StateProcessorAdapter(processor, "before"), **options)

    def add_processor(self, processor: Any, **options: Unpack[HookOptions]) -> Self:
        """A state processor: `process(state)` after each step, `process(state, next)` around it."""
        return self.with_hook(StateProcessorAdapter(processor, "after"), **options)

    def add_continuation_criteria(self, *criteria: Any, **options: Unpack[HookOptions]) -> Self:
        """Continuation criteria: `evaluate(state)` or `decide(state)`, asked at should_continue."""
        for each in criteria:
            self.with_hook(ContinuationCriteriaAdapter(each), **options)
        return self
