"""Matchers that would match everything, or nothing, whatever they were meant to say are refused."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from hookline.errors import RegistrationError, UsageError
from hookline.hooks import (
    CallableMatcher,
    CompositeMatcher,
    Context,
    HookStack,
    Matcher,
    MetadataMatcher,
    Point,
    ToolArgsMatcher,
)
from hookline.hooks.match import as_matcher

GATE = Point("before_gate", Context)
HERE = Context(point=GATE)


def by_yielding(ctx: Context) -> Any:
    """A matcher as somebody wrote it who meant to return."""
    yield False


async def by_yielding_later(ctx: Context) -> Any:
    """The same, async."""
    yield False


class Yields:
    """An object that is called as a matcher."""

    def __call__(self, ctx: Context) -> Any:
        yield False


class Own(Matcher):
    """Somebody's own matcher."""

    def matches(self, ctx: Context) -> Any:
        yield False


GENERATORS = [by_yielding, by_yielding_later, Yields(), functools.partial(by_yielding)]


@pytest.mark.parametrize("test", GENERATORS, ids=["sync", "async", "object", "partial"])
def test_a_generator_function_is_no_matcher(test: Any) -> None:
    """A generator is always true: negated, the matcher would switch a policy off and nobody would know."""
    for make in (
        CallableMatcher,
        as_matcher,
        lambda test: ToolArgsMatcher({"path": test}),
        lambda test: MetadataMatcher("key", test),
    ):
        with pytest.raises(RegistrationError, match=r"is a generator function.*returns its answer"):
            make(test)


@pytest.mark.parametrize("matcher", [*GENERATORS, Own()])
def test_the_error_names_hook_and_point_and_remedy(matcher: Any) -> None:
    """As for async functions."""
    problem = (
        r"hook 'picky' at before_gate: matcher .* is a generator function.* Use a plain function"
    )
    with pytest.raises(RegistrationError, match=problem):
        HookStack().with_hook(lambda ctx: None, GATE, matcher=matcher, name="picky")


@pytest.mark.parametrize("test", GENERATORS[:2], ids=["sync", "async"])
def test_a_generator_is_no_answer(test: Any) -> None:
    """Where it could not be seen at registration the matcher fails, and its hook with it."""
    matcher = CallableMatcher(lambda ctx: test(ctx))
    for each in (matcher, ~matcher, matcher & matcher):
        with pytest.raises(
            UsageError, match="generator, which nobody runs and which is always true"
        ):
            each.matches(HERE)


@pytest.mark.parametrize("make", [CompositeMatcher.all_of, CompositeMatcher.any_of])
def test_a_composite_matcher_has_parts(make: Any) -> None:
    """All of nothing would match everything and any of nothing never: a list that came out empty is a mistake."""
    with pytest.raises(RegistrationError, match="a composite matcher without parts"):
        make()
    with pytest.raises(RegistrationError, match=r"Leave matcher= out"):
        CompositeMatcher((), True)
