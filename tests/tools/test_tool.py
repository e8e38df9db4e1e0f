from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from hookline.errors import ToolDefinitionError, UnknownToolError
from hookline.state import FrozenDict
from hookline.tools import AnyTool, Effect, Tool, Toolbox, ToolContext, as_tool, tool

if TYPE_CHECKING:
    from decimal import Decimal


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# --- what a tool is -----------------------------------------------------------------------------


def test_a_tool_is_still_its_function() -> None:
    """Calling it is calling the function; what it is can be read off it."""
    assert add(2, 3) == add(a=2, b=3) == 5
    assert (add.name, add.description, add.effect, add.is_async) == (
        "add",
        "Add two numbers.",
        Effect.ONCE,
        False,
    )
    assert (add.timeout, add.concurrency, add.alone, add.max_chars) == (None, None, False, 30_000)
    assert add.wants_context is False
    assert (add.spec.name, add.spec.description) == (add.name, add.description)
    assert repr(add).startswith("<tool add (once), ")
    assert "test_tool.add (line " in repr(add)


def test_a_tool_cannot_be_changed() -> None:
    """Neither the tool nor the schema it shows."""
    with pytest.raises(AttributeError):
        add.timeout = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="read-only"):
        add.spec.parameters["properties"]["a"]["type"] = "string"


def test_a_tool_is_light() -> None:
    """What it keeps of its own is well under a kilobyte."""
    arguments = add.arguments
    assert sys.getsizeof(add) + sys.getsizeof(arguments) + sys.getsizeof(arguments._template) < 1000


def test_options_are_kept() -> None:
    """Name and description override what the function says of itself."""

    @tool(name="plus", description="Sum.", effect="pure", timeout=5, concurrency=2, max_chars=None)
    def f(a: int) -> int:
        """Ignored."""
        return a

    @tool(effect=Effect.IDEMPOTENT, alone=True)
    def g() -> None:
        """Kept."""

    assert (f.name, f.description, f.effect, f.timeout, f.concurrency) == (
        "plus",
        "Sum.",
        Effect.PURE,
        5,
        2,
    )
    assert f.max_chars is None
    assert (g.name, g.description, g.effect, g.alone) == ("g", "Kept.", Effect.IDEMPOTENT, True)
    assert f(4) == 4
    assert tool(f.function, name="minus").name == "minus"


def test_as_tool_leaves_tools_alone_and_makes_one_of_a_function() -> None:
    """However often it is asked, as long as somebody uses the tool."""

    def f(a: int) -> int:
        return a

    made = as_tool(f)
    assert as_tool(add) is add
    assert as_tool(f) is made
    assert (made.name, made(1)) == ("f", 1)


def test_functions_are_not_kept_alive_by_having_been_tools() -> None:
    """What is remembered of bare functions goes when their tools go."""

    def f(a: int) -> int:
        return a

    gone = weakref.ref(f)
    as_tool(f)
    del f
    gc.collect()
    assert gone() is None


# --- running ------------------------------------------------------------------------------------


async def test_async_functions_run_in_the_loop_without_a_wrapper() -> None:
    """What is awaited is the function's own coroutine."""

    @tool
    async def f(a: int) -> threading.Thread:
        await asyncio.sleep(0)
        return threading.current_thread()

    started = f.invoke({"a": 1})
    assert inspect.iscoroutine(started)
    assert started.cr_code is f.function.__code__
    assert f.is_async
    assert await started is threading.main_thread()


async def test_sync_functions_run_in_a_thread() -> None:
    """The loop is free meanwhile."""

    @tool
    def f(a: int) -> tuple[int, threading.Thread]:
        return a, threading.current_thread()

    value, thread = await f.invoke(f.validate(FrozenDict({"a": 1})).values)
    assert value == 1
    assert thread is not threading.main_thread()


async def test_arguments_may_have_any_name() -> None:
    """Also the names of parameters on the way to the thread."""

    @tool
    def f(function: int, args: int, kwargs: int, values: int, named: int) -> list[int]:
        return [function, args, kwargs, values, named]

    assert await f.invoke({"function": 1, "args": 2, "kwargs": 3, "values": 4, "named": 5}) == [
        1,
        2,
        3,
        4,
        5,
    ]


async def test_errors_reach_the_caller() -> None:
    """As they were raised."""

    @tool
    def f() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await f.invoke({})


async def test_the_context_is_handed_over_by_the_name_that_asked_for_it() -> None:
    """To sync and async functions, wherever the parameter stands."""

    @tool
    def f(here: ToolContext, a: int) -> tuple[ToolContext, int]:
        return here, a

    @tool
    async def g(a: int, *, run: ToolContext | None = None) -> tuple[ToolContext | None, int]:
        return run, a

    it: Any = object()
    assert f.wants_context
    assert await f.invoke({"a": 1}, it) == (it, 1)
    assert await g.invoke({"a": 1}, it) == (it, 1)


async def test_an_async_function_behind_a_sync_decorator_is_awaited() -> None:
    """It looks sync and gives a coroutine, which must not end up as the result."""

    async def inner(a: int) -> int:
        return a

    @functools.wraps(inner)
    def outer(a: int) -> Any:
        return inner(a)

    assert await as_tool(outer).invoke({"a": 3}) == 3


async def test_async_methods_partials_and_objects_are_async() -> None:
    """Whatever stands before the async function."""

    class Visit:
        async def __call__(self, a: int) -> int:
            return a

        async def method(self, a: int) -> int:
            return a

    for thing in (Visit(), Visit().method, functools.partial(Visit().method)):
        made = as_tool(thing)
        assert made.is_async
        assert await made.invoke({"a": 3}) == 3


# --- what cannot be a tool ----------------------------------------------------------------------


class Wrong:
    """Functions that cannot be tools, and why."""

    @staticmethod
    def unannotated(a: int, b) -> None: ...  # type: ignore[no-untyped-def]
    @staticmethod
    def star(*args: int) -> None: ...
    @staticmethod
    def stars(**kwargs: int) -> None: ...
    @staticmethod
    def positional(a: int, /) -> None: ...
    @staticmethod
    def unresolvable(a: int, b: Decimal) -> None: ...
    @staticmethod
    def nonsense(a: int.nothing) -> None: ...  # type: ignore[name-defined]
    @staticmethod
    def generator(a: int) -> Iterator[int]:
        yield a

    @staticmethod
    async def async_generator(a: int) -> AsyncIterator[int]:
        yield a

    @staticmethod
    def twice(a: ToolContext, b: ToolContext) -> None: ...

    def method(self, query: str) -> None: ...


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (Wrong.unannotated, ["unannotated (line", "parameter 'b' has no annotation", "`b: str`"]),
        (Wrong.star, ["star (line", "takes *args", "Name each parameter"]),
        (Wrong.stars, ["stars (line", "takes **kwargs", "Name each parameter"]),
        (Wrong.positional, ["parameter 'a' is positional-only", "Remove the `/`"]),
        (Wrong.unresolvable, ["'Decimal' of parameter 'b'", "TYPE_CHECKING"]),
        (Wrong.nonsense, ["of parameter 'a' cannot be resolved (AttributeError"]),
        (Wrong.generator, ["generator (line", "is a generator", "Return a list"]),
        (Wrong.async_generator, ["is a generator"]),
        (Wrong.twice, ["asks for a ToolContext twice, as a and b"]),
        (Wrong, ["Wrong is a class", "__call__"]),
        (Wrong.method, ["parameter 'self' has no annotation", "bound to an object"]),
        (lambda: None, ["<lambda>", "name="]),
        (min, ["builtins.min has no signature"]),
        ("search", ["'search' (str) cannot be a tool", "@tool(name='search')"]),
        (add, ["'add' is a tool already"]),
    ],
)
def test_what_cannot_be_a_tool_says_why(thing: Any, said: list[str]) -> None:
    """The error names the function, the parameter and the remedy."""
    with pytest.raises(ToolDefinitionError) as caught:
        tool(thing)
    for part in said:
        assert part in str(caught.value)
    assert caught.value.remedy


def test_a_coroutine_is_not_its_function() -> None:
    """Nor is Python left to warn about a coroutine that nobody awaited."""

    async def f() -> None: ...

    with pytest.raises(
        ToolDefinitionError, match=r"f\(...\) was called: a coroutine cannot be a tool"
    ):
        tool(f())  # type: ignore[call-overload]


def test_a_static_method_is_a_function() -> None:
    """Whichever decorator came first."""

    class Box:
        @tool
        @staticmethod
        def put(a: int) -> int:
            """Put."""
            return a

    assert (Box.put.name, Box.put.description, Box.put(1)) == ("put", "Put.", 1)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "é", "a\n", 5])
def test_names_that_models_cannot_call_are_refused(name: Any) -> None:
    """Providers take letters, digits, underscore and hyphen, up to 64."""

    def f() -> None: ...

    with pytest.raises(ToolDefinitionError, match="models cannot call a tool by the name"):
        tool(name=name)(f)
    assert tool(name="x" * 64)(f).name == "x" * 64


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout": -1}, "timeout=-1 is not a number above 0"),
        ({"timeout": 0}, "timeout=0 "),
        ({"timeout": float("inf")}, "timeout=inf "),
        ({"timeout": True}, "timeout=True "),
        ({"timeout": "5"}, "timeout='5' "),
        ({"concurrency": 0}, "concurrency=0 is not a whole number of at least 1"),
        ({"concurrency": True}, "concurrency=True "),
        ({"max_chars": 0}, "max_chars=0 "),
        ({"max_chars": 1.5}, "max_chars=1.5 "),
        (
            {"effect": "twice"},
            "there is no effect 'twice'. Use one of 'pure', 'idempotent', 'once'",
        ),
        ({"effect": None}, "there is no effect None"),
        ({"alone": True, "concurrency": 1}, "alone=True already means one call at a time"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    """The error names the tool, where it was written, the option and the remedy."""

    def f() -> None: ...

    make: Callable[..., Any] = tool
    with pytest.raises(ToolDefinitionError) as caught:
        make(**options)(f)
    assert "tool 'f' (" in str(caught.value)
    assert said in str(caught.value)
    assert caught.value.remedy


def test_tools_are_distinguished_by_identity() -> None:
    """Two tools of one function are two tools, and each can be a key."""
    one, other = tool(add.function), tool(add.function)
    assert one != other
    assert len({one, other}) == 2
    assert isinstance(one, Tool)


def test_a_tool_says_with_which_arguments_it_changes_nothing() -> None:
    """All of them have to be given; one that it does not take is an error where it is made."""

    def send(to: str, dry_run: bool = False) -> str:
        """Send."""
        return f"{to} {dry_run}"

    made = tool(send, pure_with={"dry_run": True})
    assert made.is_pure({"to": "a", "dry_run": True})
    assert not made.is_pure({"to": "a", "dry_run": False})
    assert not made.is_pure({"to": "a"})
    assert not tool(send).is_pure({"to": "a", "dry_run": True})
    assert tool(send, effect="pure").is_pure({})
    with pytest.raises(
        ToolDefinitionError, match=r"pure_with names 'dry', .* There are: to, dry_run"
    ):
        tool(send, pure_with={"dry": True})
    with pytest.raises(ToolDefinitionError, match="defaults names 'dry'"):
        tool(send, defaults={"dry": True})


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return path


def write_file(path: str, text: str) -> None:
    """Write a file."""


def named(name: str) -> AnyTool:
    """A tool of any name."""
    return tool(name=name)(write_file)


def test_a_box_holds_tools_and_bare_functions_in_order() -> None:
    """It is read by name, and shows the models what it holds."""
    box = Toolbox([read_file, write_file])
    assert box.get("read_file") is read_file
    assert box.get("read") is None
    assert [each.name for each in box] == ["read_file", "write_file"]
    assert [spec.description for spec in box.specs] == ["Read a file.", "Write a file."]
    assert (len(box), "read_file" in box, "read" in box) == (2, True, False)
    assert repr(box) == "Toolbox(read_file, write_file)"


def test_more_tools_make_another_box() -> None:
    """The first one stays as it was."""
    empty = Toolbox()
    one = empty.with_tools(read_file)
    assert (len(empty), empty.specs, len(one.with_tools(write_file)), len(one)) == (0, (), 2, 1)


def test_two_tools_of_one_name_are_refused() -> None:
    """Both origins are named; the same tool twice is one tool."""

    @tool(name="read_file")
    def other(url: str) -> None: ...

    with pytest.raises(ToolDefinitionError) as caught:
        Toolbox([read_file, other])
    assert "two tools are called 'read_file': " in str(caught.value)
    assert "test_tool.read_file (line " in str(caught.value)
    assert "<locals>.other (line " in str(caught.value)
    assert len(Toolbox([read_file, read_file])) == 1


def test_what_is_no_tool_is_refused_when_the_box_is_made() -> None:
    """Not when it is called."""
    with pytest.raises(ToolDefinitionError, match=r"5 \(int\) cannot be a tool"):
        Toolbox([5])  # type: ignore[list-item]


def test_an_unknown_name_is_answered_with_the_closest_ones() -> None:
    """And with all of them, when they are few."""
    error = Toolbox([read_file, write_file]).unknown_error("ReadFile")
    assert isinstance(error, UnknownToolError)
    assert str(error) == (
        "there is no tool 'ReadFile'. Did you mean 'read_file' or 'write_file'? Your tools are: read_file, write_file."
    )
    assert "Did you mean" not in str(Toolbox([read_file]).unknown_error("sing"))


def test_many_tools_are_not_listed() -> None:
    """Only what was probably meant."""
    box = Toolbox([named(f"tool_{number}") for number in range(40)])
    text = str(box.unknown_error("tool_399"))
    assert "'tool_39'" in text
    assert "tool_20" not in text


def test_a_box_without_tools_says_so() -> None:
    """There is nothing to be close to."""
    assert (
        str(Toolbox().unknown_error("f"))
        == "there is no tool 'f': you have no tools. Answer without one."
    )
