"""What static reading finds in a hook's code, shown by whether `agent.lint()` reports two writers of one field."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from hookline import AgentBuilder, HookOutcome


def in_home(ctx: Any) -> Any:
    """Always rewrites the path."""
    return ctx.with_args(path="/home/" + ctx.tool_call.args["path"])


class Home:
    """A hook with state of its own."""

    def __call__(self, ctx: Any) -> Any:
        return ctx.with_args(path="/home")


class Around:
    """Middleware."""

    async def handle(self, ctx: Any, next: Any) -> Any:
        return await next(ctx.with_args(path="/tmp"))


def rooted(root: str, ctx: Any) -> Any:
    """To be given a root."""
    return ctx.with_args(path=root)


def found(point: str, first: Any, second: Any) -> list[str]:
    """The codes of what is found about two hooks at a point."""
    agent = AgentBuilder().add_hook(point, first).add_hook(point, second).build(model=None)
    return [finding.code for finding in agent.lint()]


@pytest.mark.parametrize(
    ("point", "first", "second"),
    [
        ("prompt_submit", lambda c: c.with_prompt("a"), lambda c: c.with_prompt("b")),
        ("before_tool_use", lambda c: c.with_result(1), lambda c: c.with_result(2)),
        ("after_inference", lambda c: c.with_response("a"), lambda c: c.with_response(f"b{c}")),
        ("before_step", lambda c: c.with_metadata("k", 1), lambda c: c.with_metadata("k", 2)),
        (
            "before_inference",
            lambda c: c.with_request(c.request.with_options(temperature=0)),
            lambda c: c.with_request(c.request.with_options(temperature=1)),
        ),
        (
            "after_tool_use",
            lambda c: HookOutcome.proceed(c.with_execution(c.execution.with_metadata("k", 1))),
            lambda c: HookOutcome.proceed(c.with_execution(c.execution.with_metadata("k", 2))),
        ),
    ],
)
def test_what_counts_as_one_field(point: str, first: Any, second: Any) -> None:
    """Every field a context can be given, and single entries where it has entries."""
    assert found(point, first, second) == ["unordered-writers"]


@pytest.mark.parametrize(
    ("point", "first", "second"),
    [
        ("before_tool_use", lambda c: c.with_args(path="a"), lambda c: c.with_args(text="b")),
        ("before_step", lambda c: c.with_metadata("a", 1), lambda c: c.with_metadata("b", 1)),
        (
            "before_step",
            lambda c: c.with_metadata("n", c.get("n", 0) + 1),
            lambda c: c.with_metadata("n", c.get("n", 0) + 2),
        ),
        (
            "before_inference",
            lambda c: c.with_request(c.request.with_system("a")),
            lambda c: c.with_request(c.request.with_options(temperature=1)),
        ),
        (
            "after_tool_use",
            lambda c: c.with_metadata("k", 1),
            lambda c: c.with_execution(c.execution.with_metadata("k", 1)),
        ),
    ],
)
def test_what_does_not_count_as_one_field(point: str, first: Any, second: Any) -> None:
    """Other arguments, other keys, other parts; and counting up is not overwriting."""
    assert found(point, first, second) == []


@pytest.mark.parametrize(
    "writer", [Home(), Around(), Home().__call__, functools.partial(rooted, "/")]
)
def test_hooks_of_every_shape_are_read(writer: Any) -> None:
    """Objects, middleware, methods and partial functions."""
    assert found("before_tool_use", in_home, writer) == ["unordered-writers"]


def test_a_hook_without_source_is_given_the_benefit_of_the_doubt() -> None:
    """Code that cannot be read says nothing."""
    unreadable = eval("lambda ctx: ctx.with_args(path='x')")
    assert found("before_tool_use", in_home, unreadable) == []
