"""Registrations: everything that can be seen to be wrong is refused when a hook is added."""

from __future__ import annotations

import asyncio
import functools
import queue
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from hookline.errors import BuildError, RegistrationError
from hookline.hooks import (
    Context,
    HookOptions,
    Point,
    Registration,
    Shape,
    Tier,
    ToolNameMatcher,
    name_of,
    register,
)

GATE = Point("gate", Context, blocks="it stays", verdicts=frozenset({"block", "stop", "ask"}))
AROUND = Point("around_gate", Context, around=True)


def plain(ctx: Context) -> None:
    """The simplest hook."""


def refused(hook: Any, point: Point[Any] = GATE, **options: Any) -> RegistrationError:
    """The error a registration gives."""
    with pytest.raises(RegistrationError) as caught:
        register(point, hook, HookOptions(**options))
    assert isinstance(caught.value, BuildError)
    return caught.value


# --- what can be a hook ---------------------------------------------------------------------------


class Handler:
    def handle(self, ctx: Context) -> None:
        """Like a function."""


class Middleware:
    def handle(self, ctx: Context, next: Any) -> Any:
        return next(ctx)


class AsyncMiddleware:
    async def handle(self, ctx: Context, next: Any, extra: int = 0) -> Any:
        return await next(ctx)


class Callable_:
    def __call__(self, ctx: Context) -> None:
        """Called like a function."""


class Methods:
    def method(self, ctx: Context) -> None: ...

    def with_default(self, ctx: Context, block: bool = True) -> None: ...

    @classmethod
    def of_class(cls, ctx: Context) -> None: ...

    @staticmethod
    def static(ctx: Context) -> None: ...


async def later(ctx: Context) -> None:
    """Async."""


def with_default(ctx: Context, limit: int = 3) -> None:
    """Takes more than it needs."""


def with_keyword(ctx: Context, *, limit: int = 3) -> None:
    """Takes a keyword it does not need."""


def with_anything(*args: Any, **kwargs: Any) -> None:
    """Takes whatever comes."""


def two(first: Any, second: Any) -> None:
    """Takes two arguments."""


@functools.wraps(plain)
def wrapped(*args: Any, **kwargs: Any) -> None:
    """Has the signature of what it wraps."""


def test_an_unknown_option_is_refused_by_name() -> None:
    """A misspelled option is an error that lists the options."""
    error = refused(plain, priorty=3)
    assert "there is no option 'priorty'" in str(error)
    assert "priority" in error.remedy


@pytest.mark.parametrize(
    "hook",
    [
        plain,
        later,
        lambda ctx: None,
        with_keyword,
        with_anything,
        wrapped,
        Handler(),
        Callable_(),
        Methods().method,
        Methods().with_default,
        queue.SimpleQueue().put,
        functools.partial(with_default, limit=2),
        Methods.of_class,
        Methods.static,
        functools.partial(two, 1),
        functools.partial(later),
        print,
        [].append,
    ],
)
def test_whatever_takes_a_context_is_a_plain_hook(hook: Any) -> None:
    """Functions, methods, partials, callable objects and builtins, sync or async."""
    assert register(GATE, hook).shape is Shape.PLAIN


@pytest.mark.parametrize("hook", [Middleware(), AsyncMiddleware()])
def test_an_object_with_handle_of_context_and_next_is_middleware(hook: Any) -> None:
    """Two required arguments distinguish it from a plain one."""
    assert register(GATE, hook).shape is Shape.MIDDLEWARE


@pytest.mark.parametrize(
    "hook", [lambda ctx, call_next: None, Middleware(), AsyncMiddleware(), with_anything]
)
def test_around_an_action_a_hook_takes_the_context_and_call_next(hook: Any) -> None:
    """In either spelling: a function, or an object with handle."""
    assert register(AROUND, hook).shape is Shape.AROUND


@pytest.mark.parametrize("hook", [plain, Handler(), lambda: None, lambda a, next, b: None])
def test_around_an_action_anything_else_is_refused(hook: Any) -> None:
    """With the signature it should have."""
    error = refused(hook, AROUND, name="timer")
    assert "hook 'timer' at around_gate: it must take (ctx, call_next)." in str(error)
    assert "async def around(ctx, call_next)" in error.remedy


def generator(ctx: Context) -> Iterator[None]:
    """Runs nothing when it is called."""
    yield


async def async_generator(ctx: Context) -> AsyncIterator[None]:
    """Neither does this one."""
    yield


class GeneratorHandler:
    def handle(self, ctx: Context) -> Iterator[None]:
        yield


class AsyncGeneratorMiddleware:
    async def handle(self, ctx: Context, next: Any) -> AsyncIterator[None]:
        yield


class AsyncGeneratorCall:
    async def __call__(self, ctx: Context) -> AsyncIterator[None]:
        yield


@pytest.mark.parametrize(
    "hook",
    [
        generator,
        async_generator,
        GeneratorHandler(),
        AsyncGeneratorMiddleware(),
        AsyncGeneratorCall(),
        functools.partial(async_generator),
    ],
)
def test_a_generator_is_no_hook_in_any_disguise(hook: Any) -> None:
    """Calling it would run nothing, so it would silently let everything pass."""
    error = refused(hook, name="guard")
    assert "hook 'guard' at gate: it is a generator function" in str(error)
    assert "instead of yielding" in error.remedy


def test_a_coroutine_is_no_hook() -> None:
    """It is a call already made; refusing it leaves no warning about a coroutine never awaited."""
    error = refused(later(Context(point=GATE)))
    assert "hook 'later' at gate: you passed a coroutine" in str(error)
    assert "without calling it" in error.remedy


@pytest.mark.parametrize("hook", [Middleware, Handler, dict, ValueError, asyncio.Lock])
def test_a_class_is_no_hook(hook: type) -> None:
    """Calling it would make an object and decide nothing; the remedy says how to make the instance."""
    error = refused(hook)
    assert f"hook '{hook.__name__}' at gate: you passed the class {hook.__name__}." in str(error)
    assert error.remedy == f"Pass an instance: {hook.__name__}(...)."


@pytest.mark.parametrize("hook", [None, 5, "before", {}, object(), generator(None), [plain]])  # type: ignore[arg-type]
def test_what_cannot_be_called_is_no_hook(hook: Any) -> None:
    """The error says what a hook is."""
    error = refused(hook, name="it")
    assert "hook 'it' at gate" in str(error)
    assert "is not a hook." in str(error)
    assert "handle(ctx, next)" in error.remedy


def no_arguments() -> None:
    """Takes nothing."""


def three(a: Any, b: Any, c: Any) -> None:
    """Takes three arguments."""


def keyword_needed(ctx: Context, *, limit: int) -> None:
    """Needs what nobody gives."""


@pytest.mark.parametrize(
    ("hook", "takes"),
    [
        (two, "takes 2"),
        (lambda call, state: None, "takes 2"),
        (three, "takes 3"),
        (no_arguments, "takes 0"),
        (isinstance, "takes 2"),
        (functools.partial(two, 1, 2), "takes 0"),
        (keyword_needed, "needs keywords"),
    ],
)
def test_a_hook_of_another_arity_is_refused_with_the_remedy(
    hook: Callable[..., Any], takes: str
) -> None:
    """`(call, state)` is how hooks were written where returning nothing blocked: here that would let through."""
    error = refused(hook, name="size")
    assert "hook 'size' at gate: a hook takes one argument, the context, and this one" in str(error)
    assert takes in str(error)
    assert "ctx.tool_call and ctx.state" in error.remedy
    assert "HookOutcome.block(reason)" in error.remedy


def test_an_object_whose_handle_takes_too_much_is_refused() -> None:
    """Neither like a function nor middleware."""

    class Seed:
        def process(self, call: Any, state: Any, next: Any) -> None: ...

        handle = process

    assert "takes 3" in str(refused(Seed()))


# --- names ----------------------------------------------------------------------------------------


def test_a_hook_is_called_what_it_is_called() -> None:
    """By the name given, else by a `name` of its own, else by its function or class."""

    class Named:
        name = "guard"

        def handle(self, ctx: Context) -> None: ...

    assert name_of(plain) == "plain"
    assert name_of(Middleware()) == "Middleware"
    assert name_of(Named()) == "guard"
    assert name_of(lambda ctx: None) == "<lambda>"
    assert name_of(functools.partial(two, 1)) == "partial"
    assert register(GATE, Named()).name == "guard"
    assert register(GATE, Named(), HookOptions(name="other")).name == "other"


def test_a_registration_knows_whether_its_name_was_given() -> None:
    """Given names must be unique; others are numbered."""
    assert not register(GATE, plain).named
    assert register(GATE, plain, HookOptions(name="plain")).named


@pytest.mark.parametrize("name", ["", 5, ["a"]])
def test_a_name_is_text(name: Any) -> None:
    """A hook that nobody can name cannot be ordered, explained or found in a record."""
    assert "name= takes a name" in str(refused(plain, name=name))


@pytest.mark.parametrize("option", ["before", "after"])
def test_other_hooks_are_named_as_one_name_or_several(option: str) -> None:
    """Text, a list, a tuple, any iterable of names."""
    for given, expected in [
        ("log", ("log",)),
        (["log", "audit"], ("log", "audit")),
        (("log",), ("log",)),
        ((name for name in ("log", "audit")), ("log", "audit")),
        ((), ()),
    ]:
        assert getattr(register(GATE, plain, HookOptions(**{option: given})), option) == expected


@pytest.mark.parametrize("option", ["before", "after"])
@pytest.mark.parametrize("given", [[5], [""], "", [None], [plain], plain, 5])
def test_what_is_no_name_is_refused(option: str, given: Any) -> None:
    """A function instead of its name, say."""
    error = refused(plain, **{option: given})
    assert f"hook 'plain' at gate: {option}= takes names of hooks, not " in str(error)


# --- options --------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_design() -> None:
    """Tier hook, its own scope, closed, enforced, no limit, for everything."""
    registration = register(GATE, plain)
    assert isinstance(registration, Registration)
    assert registration.hook is plain
    assert (registration.tier, registration.scope) == (Tier.HOOK, "self")
    assert (registration.priority, registration.on_failure) == (0, "closed")
    assert (registration.matcher, registration.timeout, registration.shadow) == (None, None, False)
    assert (registration.before, registration.after, registration.source) == ((), (), "")


def test_a_policy_holds_for_the_tree_and_an_observer_fails_open() -> None:
    """By default."""
    assert register(GATE, plain, HookOptions(tier="policy")).scope == "tree"
    assert register(GATE, plain, HookOptions(tier="policy", scope="self")).scope == "self"
    assert register(GATE, plain, HookOptions(tier="policy")).on_failure == "closed"
    assert register(GATE, plain, HookOptions(tier="observer")).on_failure == "open"
    assert register(GATE, plain, HookOptions(tier="observer")).scope == "self"


def test_a_tier_can_be_given_as_text_or_as_itself() -> None:
    """Both are the same value."""
    assert register(GATE, plain, HookOptions(tier=Tier.POLICY)).tier is Tier.POLICY
    assert register(GATE, plain, HookOptions(tier="policy")).tier is Tier.POLICY


@pytest.mark.parametrize(
    ("option", "given", "words"),
    [
        ("tier", "guard", "tier='guard' is not one of hook, policy, observer."),
        ("tier", None, "tier=None is not one of"),
        ("scope", "all", "scope='all' is not one of self, tree, children."),
        ("on_failure", "ignore", "on_failure='ignore' is not one of closed, open."),
        ("priority", "high", "priority= takes a whole number, not 'high'."),
        ("priority", 1.5, "priority= takes a whole number, not 1.5."),
        ("priority", True, "priority= takes a whole number, not True."),
        ("timeout", 0, "timeout= takes seconds above zero, not 0."),
        ("timeout", -1, "timeout= takes seconds above zero, not -1."),
        ("timeout", float("nan"), "timeout= takes seconds above zero, not nan."),
        ("timeout", "5s", "timeout= takes seconds above zero, not '5s'."),
        ("timeout", True, "timeout= takes seconds above zero, not True."),
        ("matcher", 5, "5 is not a matcher."),
        ("matcher", ToolNameMatcher, "is not a matcher."),
        ("matcher", "/(/", "is not a regular expression"),
    ],
)
def test_an_option_that_means_nothing_is_refused(option: str, given: Any, words: str) -> None:
    """Naming hook, point, option and what it takes."""
    error = refused(plain, **{option: given})
    assert str(error).startswith("hook 'plain' at gate: ")
    assert words in str(error)


def test_a_matcher_is_taken_as_people_write_it() -> None:
    """Text is a tool name."""
    assert register(GATE, plain, HookOptions(matcher="read_*")).matcher == ToolNameMatcher("read_*")


def test_a_policy_cannot_fail_open() -> None:
    """Except in shadow, where it decides nothing yet."""
    error = refused(plain, tier="policy", on_failure="open")
    assert "a policy cannot fail open" in str(error)
    assert "shadow=True" in error.remedy
    assert register(GATE, plain, HookOptions(tier="policy", on_failure="open", shadow=True)).shadow


def test_an_observer_cannot_run_in_shadow() -> None:
    """It decides nothing anyway."""
    assert "an observer decides nothing" in str(refused(plain, tier="observer", shadow=True))


@pytest.mark.parametrize("hook", [Middleware(), AsyncMiddleware()])
def test_an_observer_cannot_be_middleware(hook: Any) -> None:
    """It has no chain to wrap: as an observer it would crash each time, and nobody would notice."""
    error = refused(hook, tier="observer", name="watch")
    assert "hook 'watch' at gate: an observer" in str(error)
    assert "handle(ctx)" in error.remedy


@pytest.mark.parametrize("tier", ["policy", "observer"])
def test_only_tier_hook_wraps_an_action(tier: str) -> None:
    """A policy judges before, an observer observes after."""
    error = refused(with_next, AROUND, tier=tier)
    assert "only tier 'hook' can wrap an action" in str(error)
    assert "before_tool_use" in error.remedy


# --- functions as middleware ------------------------------------------------------------------------


async def with_next(ctx: Context, next: Any) -> Any:
    """Middleware, by the name of its second parameter."""
    return await next(ctx)


def with_call_next(ctx: Context, call_next: Any) -> Any:
    """The same, with the other name."""
    return call_next(ctx)


class CallsNext:
    def __call__(self, ctx: Context, next: Any) -> Any:
        return next(ctx)

    def method(self, ctx: Context, call_next: Any) -> Any:
        return call_next(ctx)


@pytest.mark.parametrize(
    "hook",
    [
        with_next,
        with_call_next,
        lambda ctx, next: next(ctx),
        CallsNext(),
        CallsNext().method,
        functools.partial(with_next),
    ],
)
def test_a_function_of_context_and_next_is_middleware(hook: Any) -> None:
    """The name of the second parameter is what tells it from `(call, state)`."""
    assert register(GATE, hook).shape is Shape.MIDDLEWARE
    assert register(AROUND, hook).shape is Shape.AROUND


@pytest.mark.parametrize(
    "hook",
    [
        lambda ctx, state: None,
        lambda ctx, _next: None,
        lambda next, ctx: None,
        lambda ctx, next, state: None,
        functools.partial(lambda next, ctx, state: None, None),
        lambda call, state=None: None,
        with_default,
        functools.partial(with_default),
    ],
)
def test_every_other_function_of_two_is_refused(hook: Any) -> None:
    """With the remedy for hooks of the older design, at every point."""
    assert "ctx.tool_call and ctx.state" in refused(hook).remedy
    assert "async def around(ctx, call_next)" in refused(hook, AROUND).remedy


class KeepsState:
    def handle(self, ctx: Context, state: Any = None) -> None: ...


@pytest.mark.parametrize("hook", [lambda call, state=None: None, KeepsState()])
def test_a_second_parameter_with_a_default_is_refused(hook: Any) -> None:
    """It would be called with the context alone, where (call, state) is meant. The remedy has both ways out."""
    error = refused(hook)
    assert "this one takes another, 'state'" in str(error)
    assert error.remedy.endswith("after a star: (ctx, *, state=...).")


class Continues:
    def handle(self, ctx: Context, inner: Any) -> Any:
        return inner(ctx)


@pytest.mark.parametrize("hook", [Continues(), Continues().handle])
def test_the_name_counts_for_methods_too(hook: Any) -> None:
    """A method `handle(ctx, inner)` is refused like a function."""
    assert "takes 2" in str(refused(hook))
    assert "its second parameter is named 'inner'" in str(refused(hook, AROUND))


def test_around_an_action_a_function_of_any_number_is_a_hook() -> None:
    """A decorator that wraps a hook without keeping its signature still gives one."""
    assert register(AROUND, lambda *args: args[1](args[0])).shape is Shape.AROUND


def test_next_with_a_default_is_not_middleware() -> None:
    """It can be called with the context alone, so it is."""
    assert register(GATE, lambda ctx, next=None: None).shape is Shape.PLAIN
