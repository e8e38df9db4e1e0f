"""Matchers: which contexts a hook runs for."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import HookPoint, PromptHookContext, ToolCall, ToolHookContext
from hookline.errors import RegistrationError, UsageError
from hookline.hooks import (
    BaseMatcher,
    CallableMatcher,
    CompositeMatcher,
    Context,
    EventTypeMatcher,
    Matcher,
    MetadataMatcher,
    NotMatcher,
    Plan,
    Point,
    StepTypeMatcher,
    ToolArgsMatcher,
    ToolNameMatcher,
    as_matcher,
    describe,
    register,
)
from hookline.hooks.hook import HookOptions
from hookline.lifecycle import HookStack


class Parcel(Context, frozen=True, kw_only=True):
    tool_call: Any = None
    step: Any = None
    metadata: Mapping[str, Any] = MappingProxyType({})


class Bare(Context, frozen=True, kw_only=True):
    """A context of a world without tools, steps and metadata."""


GATE = Point("before_gate", Parcel, aliases=("pre_gate",))
EXIT = Point("exit", Parcel)
BARE = Bare(point=Point("bare", Bare))
TOOLS = ["bash", "read_file", "read_url", "write_file", "READ_FILE", "b.sh", "a\nb", ""]


def using(name: str, **args: Any) -> Parcel:
    """A parcel with a tool call."""
    return Parcel(point=GATE, tool_call=ToolCall("1", name, args))


def plan_matches(matcher: Matcher, ctx: Context) -> bool:
    """The same question to the matcher that a plan compiled."""
    (entry,) = Plan(GATE, [register(GATE, lambda ctx: None, HookOptions(matcher=matcher))]).entries
    assert entry.matches is not None
    return bool(entry.matches(ctx))


# --- tool names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("bash", {"bash"}),
        ("read_*", {"read_file", "read_url"}),
        ("*_file", {"read_file", "write_file"}),
        ("*", set(TOOLS)),
        ("?ash", {"bash"}),
        ("b.sh", {"b.sh"}),
        ("b.s*", {"b.sh"}),
        ("/^(read|write)_.+$/", {"read_file", "read_url", "write_file"}),
        ("/file/", {"read_file", "write_file"}),
        ("/^read_file$/i", {"read_file", "READ_FILE"}),
        ("/", set()),
        ("BASH", set()),
        ("ash", set()),
    ],
)
def test_a_tool_name_is_matched_exactly_by_glob_or_by_expression(
    pattern: str, matched: set[str]
) -> None:
    """Exact names and globs cover the whole name, an expression searches it, and case counts."""
    matcher = ToolNameMatcher(pattern)
    assert {name for name in TOOLS if matcher.matches(using(name))} == matched
    assert {name for name in TOOLS if plan_matches(matcher, using(name))} == matched


@given(
    st.text(alphabet="ab._[](*?\n", min_size=1, max_size=8),
    st.text(alphabet="ab._[](\n", max_size=8),
)
def test_a_glob_knows_two_wildcards_and_takes_the_rest_literally(pattern: str, name: str) -> None:
    """`*` is any text, `?` any one character; brackets and dots are themselves."""

    def fits(pattern: str, name: str) -> bool:
        if not pattern:
            return not name
        if pattern[0] == "*":
            return fits(pattern[1:], name) or (bool(name) and fits(pattern, name[1:]))
        return bool(name) and pattern[0] in ("?", name[0]) and fits(pattern[1:], name[1:])

    assert ToolNameMatcher(pattern).matches(using(name)) is fits(pattern, name)


@pytest.mark.parametrize("pattern", ["bash", "*", "/.*/", "/^$/"])
@pytest.mark.parametrize(
    "ctx",
    [Parcel(point=GATE), BARE, PromptHookContext(point=HookPoint.PROMPT_SUBMIT, prompt="bash")],
)
def test_a_tool_name_never_matches_a_point_without_a_tool(pattern: str, ctx: Context) -> None:
    """Not even a pattern for everything: there is no name to look at."""
    assert not ToolNameMatcher(pattern).matches(ctx)
    assert not plan_matches(ToolNameMatcher(pattern), ctx)


@pytest.mark.parametrize("pattern", ["", None, 7, b"bash"])
def test_a_tool_name_is_text(pattern: Any) -> None:
    """Anything else is refused with examples of what is meant."""
    with pytest.raises(RegistrationError, match=r"takes a pattern as text.*'read_\*'"):
        ToolNameMatcher(pattern)


@pytest.mark.parametrize("pattern", ["/(/", "/[/i", "/usr/bin", "/a/x", "/read"])
def test_a_broken_expression_is_refused_when_it_is_written(pattern: str) -> None:
    """A syntax error, and letters after the last slash that mean nothing, are no surprise at run time."""
    with pytest.raises(RegistrationError, match=re.escape(repr(pattern))):
        ToolNameMatcher(pattern)


# --- the other kinds ------------------------------------------------------------------------------


def test_arguments_match_when_each_is_there_and_fits() -> None:
    """A value is compared, a function is asked; an argument that is missing does not match."""
    call = using("bash", command="rm -rf /", timeout=5)
    assert ToolArgsMatcher({"timeout": 5}).matches(call)
    assert ToolArgsMatcher({"timeout": 5, "command": lambda text: "rm" in text}).matches(call)
    assert not ToolArgsMatcher({"timeout": 6}).matches(call)
    assert not ToolArgsMatcher({"timeout": 5, "path": None}).matches(call)
    assert not ToolArgsMatcher({"timeout": 5}).matches(BARE)
    assert ToolArgsMatcher({}).matches(call)


@pytest.mark.parametrize("spelling", [GATE, "before_gate", "BeforeGate", "pre_gate", "PreGate"])
def test_a_point_matches_by_itself_and_by_any_spelling(spelling: str) -> None:
    """Names written as text mean the same as the point."""
    matcher = EventTypeMatcher(spelling)
    assert matcher.matches(Parcel(point=GATE))
    assert not matcher.matches(Parcel(point=EXIT))


def test_an_event_matcher_takes_several_points_and_at_least_one() -> None:
    """One of them is enough; none at all, or something else, is refused."""
    matcher = EventTypeMatcher(EXIT, "pre_gate")
    assert matcher.matches(Parcel(point=GATE))
    assert matcher.matches(Parcel(point=EXIT))
    assert not matcher.matches(BARE)
    for nothing in ((), (5,)):
        with pytest.raises(RegistrationError, match="takes hook points"):
            EventTypeMatcher(*nothing)  # type: ignore[arg-type]


def test_a_step_matches_by_its_type() -> None:
    """A context without a step does not match any type."""
    matcher = StepTypeMatcher("tool_use")
    assert matcher.matches(Parcel(point=GATE, step=SimpleNamespace(type="tool_use")))
    assert not matcher.matches(Parcel(point=GATE, step=SimpleNamespace(type="final_response")))
    assert not matcher.matches(Parcel(point=GATE))
    assert not matcher.matches(BARE)


def test_metadata_matches_by_key_and_if_given_by_value() -> None:
    """None is a value like any other, and a function is asked."""
    ctx = Parcel(point=GATE, metadata={"level": 3, "none": None})
    assert MetadataMatcher("level").matches(ctx)
    assert MetadataMatcher("level", 3).matches(ctx)
    assert MetadataMatcher("level", lambda level: level > 2).matches(ctx)
    assert MetadataMatcher("none", None).matches(ctx)
    assert not MetadataMatcher("level", None).matches(ctx)
    assert not MetadataMatcher("other").matches(ctx)
    assert not MetadataMatcher("level").matches(BARE)


def test_a_function_of_the_context_is_a_matcher() -> None:
    """Its answer counts by truth."""
    assert CallableMatcher(lambda ctx: ctx.tool_call.args).matches(using("bash", command="ls"))
    assert not CallableMatcher(lambda ctx: ctx.tool_call.args).matches(using("bash"))
    with pytest.raises(RegistrationError, match="takes a function of the context"):
        CallableMatcher("bash")  # type: ignore[arg-type]


def test_an_async_function_is_no_matcher() -> None:
    """A coroutine is always true, so it would match everything."""

    async def later(ctx: Context) -> bool:
        return False

    for make in (CallableMatcher, as_matcher):
        with pytest.raises(RegistrationError, match=r"later.*async"):
            make(later)


# --- what people write ----------------------------------------------------------------------------


def test_text_a_point_and_a_function_become_matchers() -> None:
    """Text is a tool name; a matcher stays what it is."""

    def heavy(ctx: Context) -> bool:
        return True

    matcher = ToolNameMatcher("bash")
    assert as_matcher(matcher) is matcher
    assert as_matcher("read_*") == ToolNameMatcher("read_*")
    assert as_matcher(GATE) == EventTypeMatcher(GATE)
    assert as_matcher(heavy) == CallableMatcher(heavy)


@pytest.mark.parametrize(
    "given", [5, None, ["bash"], {"tool": "bash"}, ToolNameMatcher, re.compile("a")]
)
def test_anything_else_is_no_matcher(given: Any) -> None:
    """The error shows what was given and what could be."""
    with pytest.raises(RegistrationError, match=r"is not a matcher\. Use a tool name"):
        as_matcher(given)


def test_matchers_are_values() -> None:
    """Two that say the same are equal, and none can be changed."""
    assert ToolNameMatcher("a") | ToolNameMatcher("b") == CompositeMatcher.any_of("a", "b")
    assert EventTypeMatcher("gate") != EventTypeMatcher("exit")
    assert ~ToolNameMatcher("a") == NotMatcher(ToolNameMatcher("a"))
    with pytest.raises(AttributeError):
        ToolNameMatcher("a").pattern = "b"  # type: ignore[misc]


def test_operators_take_what_people_write_on_their_right() -> None:
    """And refuse what is no matcher, in words."""
    either = ToolNameMatcher("bash") | "read_*"  # type: ignore[operator]
    assert either.matches(using("read_url"))
    guarded = ToolNameMatcher("bash") & (lambda ctx: "rm" in ctx.tool_call.args["command"])  # type: ignore[operator]
    assert guarded.matches(using("bash", command="rm x"))
    assert not guarded.matches(using("bash", command="ls"))
    with pytest.raises(RegistrationError, match="5 is not a matcher"):
        ToolNameMatcher("bash") & 5  # type: ignore[operator]


def test_a_matcher_of_ones_own_composes_with_the_rest() -> None:
    """Anything that derives from BaseMatcher has the operators."""

    class Heavy(BaseMatcher):
        def matches(self, ctx: Context) -> bool:
            return len(getattr(ctx, "metadata", {})) > 1

    heavy = Parcel(point=GATE, metadata={"a": 1, "b": 2}, tool_call=ToolCall("1", "bash"))
    assert (Heavy() & ToolNameMatcher("bash")).matches(heavy)
    assert not (~Heavy()).matches(heavy)
    assert (Heavy() | EventTypeMatcher(EXIT)).matches(heavy)


def test_nested_composites_read_like_the_sentence_they_are() -> None:
    """(a read or a write) before it happens, and not of the temporary folder."""
    matcher = CompositeMatcher.all_of(
        CompositeMatcher.any_of("read_*", ToolNameMatcher("/^write_/")),
        EventTypeMatcher(HookPoint.BEFORE_TOOL_USE),
        ~ToolArgsMatcher({"path": lambda path: path.startswith("/tmp/")}),
    )

    def asked(point: Point[Any], tool: str, path: str) -> bool:
        return matcher.matches(
            ToolHookContext(point=point, tool_call=ToolCall("1", tool, {"path": path}))
        )

    assert asked(HookPoint.BEFORE_TOOL_USE, "read_file", "/etc/passwd")
    assert asked(HookPoint.BEFORE_TOOL_USE, "write_file", "/etc/passwd")
    assert not asked(HookPoint.AFTER_TOOL_USE, "read_file", "/etc/passwd")
    assert not asked(HookPoint.BEFORE_TOOL_USE, "bash", "/etc/passwd")
    assert not asked(HookPoint.BEFORE_TOOL_USE, "read_file", "/tmp/x")


def test_a_matcher_says_in_words_what_it_matches() -> None:
    """This is what `explain()` prints."""

    def heavy(ctx: Context) -> bool:
        return True

    matcher = (ToolNameMatcher("read_*") & EventTypeMatcher(GATE)) | ~CallableMatcher(heavy)
    assert describe(matcher).startswith("((tool read_* & point before_gate) | ~when ")
    assert describe(matcher).endswith("heavy)")
    assert describe(ToolArgsMatcher({"b": 1, "a": 2})) == "args a, b"
    assert describe(MetadataMatcher("level")) == "metadata level"
    assert describe(StepTypeMatcher("tool_use")) == "step tool_use"


# --- the algebra ----------------------------------------------------------------------------------

leaves = st.one_of(
    st.sampled_from(
        ["bash", "read_*", "*", "/file$/", "/^READ/i", "none"],
    ).map(ToolNameMatcher),
    st.sampled_from([GATE, EXIT]).map(EventTypeMatcher),
    st.sampled_from([{"path": "/tmp"}, {"path": str.isalpha}, {}]).map(ToolArgsMatcher),
    st.sampled_from(["level", "other"]).map(MetadataMatcher),
    st.sampled_from(["tool_use", "final_response"]).map(StepTypeMatcher),
    st.booleans().map(lambda answer: CallableMatcher(lambda ctx: answer)),
)
matchers = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(lambda one: ~one),
        st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: CompositeMatcher.all_of(*parts)),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: CompositeMatcher.any_of(*parts)),
    ),
    max_leaves=8,
)
calls = st.builds(
    ToolCall,
    st.just("1"),
    st.sampled_from(["bash", "read_file", "READ_url"]),
    st.sampled_from([{}, {"path": "/tmp"}, {"path": "abc"}]),
)
contexts = st.one_of(
    st.just(BARE),
    st.builds(
        Parcel,
        point=st.sampled_from([GATE, EXIT]),
        tool_call=st.none() | calls,
        step=st.sampled_from([None, SimpleNamespace(type="tool_use")]),
        metadata=st.sampled_from([{}, {"level": 1}]),
    ),
)


@given(matchers, matchers, matchers, contexts)
def test_the_operators_are_boolean_algebra(
    a: Matcher, b: Matcher, c: Matcher, ctx: Context
) -> None:
    """`&`, `|` and `~` mean and, or and not: De Morgan, distribution, double negation, whatever is composed."""

    def same(left: Matcher, right: Matcher) -> bool:
        return left.matches(ctx) is right.matches(ctx)

    assert (a & b).matches(ctx) is (a.matches(ctx) and b.matches(ctx))
    assert (a | b).matches(ctx) is (a.matches(ctx) or b.matches(ctx))
    assert (~a).matches(ctx) is not a.matches(ctx)
    assert same(~(a & b), ~a | ~b)
    assert same(~(a | b), ~a & ~b)
    assert same(~~a, a)
    assert same(a & (b | c), (a & b) | (a & c))
    assert same(a | (b & c), (a | b) & (a | c))
    assert same(a & b, b & a)
    assert same(a | (a & b), a)


@given(st.lists(matchers, min_size=1, max_size=4), contexts)
def test_all_of_and_any_of_are_all_and_any(parts: list[Matcher], ctx: Context) -> None:
    """Flat or nested."""
    answers = [part.matches(ctx) for part in parts]
    everything, anything = CompositeMatcher.all_of(*parts), CompositeMatcher.any_of(*parts)
    assert everything.matches(ctx) is all(answers)
    assert anything.matches(ctx) is any(answers)
    assert CompositeMatcher.all_of(everything).matches(ctx) is all(answers)
    assert CompositeMatcher.any_of(everything, anything).matches(ctx) is (
        all(answers) or any(answers)
    )


@given(matchers, contexts)
def test_a_plan_asks_the_same_question_faster(matcher: Matcher, ctx: Context) -> None:
    """What a plan makes of a matcher answers like the matcher, for any context."""
    assert plan_matches(matcher, ctx) is matcher.matches(ctx)


@given(matchers)
def test_every_matcher_can_be_described(matcher: Matcher) -> None:
    """In one line that is not empty."""
    assert describe(matcher)
    assert "\n" not in describe(matcher)


# --- matchers that would match everything, or nothing, whatever they were meant to say are refused ---


DOOR = Point("before_gate", Context)
HERE = Context(point=DOOR)


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


class Own(BaseMatcher):
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
        HookStack().with_hook(lambda ctx: None, DOOR, matcher=matcher, name="picky")


@pytest.mark.parametrize("test", GENERATORS[:2], ids=["sync", "async"])
def test_a_generator_is_no_answer(test: Any) -> None:
    """Where it could not be seen at registration the matcher fails, and its hook with it."""
    matcher = CallableMatcher(lambda ctx: test(ctx))
    for each in (matcher, ~matcher, matcher & matcher):
        with pytest.raises(
            UsageError, match="generator, which is always true, because nobody runs it"
        ):
            each.matches(HERE)


@pytest.mark.parametrize("make", [CompositeMatcher.all_of, CompositeMatcher.any_of])
def test_a_composite_matcher_has_parts(make: Any) -> None:
    """All of nothing would match everything and any of nothing never: a list that came out empty is a mistake."""
    with pytest.raises(RegistrationError, match="a composite matcher without parts"):
        make()
    with pytest.raises(RegistrationError, match=r"Leave matcher= out"):
        CompositeMatcher((), True)


# --- matchers of one's own ----------------------------------------------------------------------------


class Duck:
    """Has `matches`, and derives from nothing."""

    def matches(self, ctx: Any) -> bool:
        return getattr(ctx, "tool_call", None) is not None


def test_any_object_with_matches_is_a_matcher() -> None:
    """As an option, as a part of others, and for the protocol."""
    duck = Duck()
    assert as_matcher(duck) is duck
    assert isinstance(duck, Matcher)
    for matcher in (
        duck,
        ToolNameMatcher("bash") & duck,
        duck & ToolNameMatcher("bash"),
        duck | ToolNameMatcher("bash"),
        CompositeMatcher.all_of(duck, "bash"),
        CompositeMatcher((duck,), True),
        ~NotMatcher(duck),
    ):
        assert plan_matches(matcher, using("bash"))
        assert not plan_matches(matcher, HERE)
    assert describe(duck) == "when Duck"
    assert CompositeMatcher.all_of(duck, "bash") == CompositeMatcher.all_of(duck, "bash")


def test_and_or_are_all_of_and_any_of() -> None:
    """The names that the older design has for them."""
    read, write = ToolNameMatcher("read_*"), ToolNameMatcher("write_*")
    assert CompositeMatcher.and_(read, "x") == CompositeMatcher.all_of(read, "x")
    assert CompositeMatcher.or_(read, write) == CompositeMatcher.any_of(read, write)


class OfCallAndState:
    """How a matcher was written in the older design."""

    def matches(self, call: Any, state: Any) -> bool:
        return True


class Later:
    """Nobody would await it."""

    async def matches(self, ctx: Any) -> bool:
        return False


class NotAMethod:
    """A pattern is no matcher."""

    matches = "read_*"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (OfCallAndState(), "cannot be called with one argument, the context"),
        (Later(), "is async"),
        (NotAMethod(), "is not a matcher"),
        (Duck, "is not a matcher"),
    ],
)
def test_an_object_that_cannot_match_is_refused(given: Any, words: str) -> None:
    """At registration, wherever it is given, and with the remedy."""
    for make in (
        as_matcher,
        NotMatcher,
        lambda given: CompositeMatcher((given,), True),
        lambda given: register(GATE, lambda ctx: None, HookOptions(matcher=given)),
    ):
        with pytest.raises(RegistrationError, match=words) as caught:
            make(given)
        assert caught.value.remedy
