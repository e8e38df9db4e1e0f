"""What `agent.lint()` finds, and what it leaves alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    CallableMatcher,
    EventTypeMatcher,
    HookOutcome,
    ToolContext,
    ToolNameMatcher,
    hook,
    tool,
)
from hookline.agent import Finding
from hookline.capabilities import Bash, Files, Subagent, Subagents
from hookline.hooks import MetadataMatcher, Registration, StepTypeMatcher, ToolArgsMatcher


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return path


@tool
def write_file(path: str, text: str) -> None:
    """Write a file."""


@tool
async def delegate(task: str, context: ToolContext) -> str:
    """Let a child run do it."""
    return task


def do_nothing(ctx: Any) -> None:
    """A hook whose code says nothing."""


def in_home(ctx: Any) -> Any:
    """Always rewrites the path."""
    return ctx.with_args(path="/home/" + ctx.tool_call.args["path"])


def without_dots(ctx: Any) -> Any:
    """Always rewrites the path as well."""
    call = ctx.tool_call
    return ctx.with_tool_call(call.with_args(path=call.args["path"].replace("..", "")))


def shortened(ctx: Any) -> Any:
    """Rewrites the text, under a condition."""
    if len(ctx.tool_call.args["text"]) > 100:
        return ctx.with_args(text=ctx.tool_call.args["text"][:100])
    return None


def no_secrets(ctx: Any) -> Any:
    """Judges the path."""
    args = ctx.tool_call.args
    return HookOutcome.block("secret") if "secret" in args["path"] else None


def only_when_written(ctx: Any) -> Any:
    """Judges the path, for some tools only."""
    if ctx.tool_call.name == "write_file" and ctx.tool_call.args["path"] == "/":
        return HookOutcome.ask("really?")
    return None


def builder() -> AgentBuilder:
    """An agent with two tools."""
    return AgentBuilder().with_tools(read_file, write_file)


def codes(built: AgentBuilder) -> list[str]:
    """The codes of what is found."""
    return [finding.code for finding in built.build(model=None).lint()]


def only(built: AgentBuilder) -> Finding:
    """The one thing that is found."""
    (finding,) = built.build(model=None).lint()
    return finding


# --- what is sensible is left alone -------------------------------------------------------------


def test_an_agent_without_hooks_of_its_own_is_clean() -> None:
    """The default guards find favour."""
    assert codes(AgentBuilder().with_limits(cost=1, tool_calls=5)) == []


def test_a_sensible_set_is_clean() -> None:
    """Rewriters in order, gates as policies, observers, wrappers and matchers that match."""

    class Rules:
        name = "rules"

        def hooks(self) -> Iterable[Registration]:
            return [
                hook(
                    "before_inference", lambda ctx: ctx.with_request(ctx.request.with_system("x"))
                ),
                hook("before_inference", lambda ctx: ctx.with_request(ctx.request.with_model("y"))),
                hook("before_tool_use", no_secrets, tier="policy", matcher="/_file$/"),
            ]

    async def timed(ctx: Any, call_next: Callable[[Any], Any]) -> Any:
        return await call_next(ctx)

    sensible = (
        builder()
        .with_capability(Rules())
        .on_before_tool_use(in_home, matcher="*_file", priority=10, name="home")
        .on_before_tool_use(without_dots, matcher="read_file", after="home")
        .on_before_tool_use(shortened, matcher=ToolArgsMatcher({"text": str.isprintable}))
        .on_before_tool_use(only_when_written, tier="policy")
        .around_tool_use(timed)
        .on_after_tool_use(lambda ctx: ctx.with_metadata("last", ctx.tool_call.name))
        .on_after_tool_use(do_nothing, tier="observer", matcher="no_such_tool")
        .on_error(do_nothing, matcher="write_file")
        .on_after_step(do_nothing, matcher=StepTypeMatcher("tool_use"))
        .on_execution_end(do_nothing, matcher=MetadataMatcher("last"))
        .on_output(lambda ctx: HookOutcome.block("empty") if not ctx.output else None)
    )
    assert sensible.build(model=None).lint() == []


# --- matchers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matcher",
    [
        "read",
        "bash_*",
        "/^rm$/",
        ToolNameMatcher("read_file") & ToolNameMatcher("write_file"),
        ToolNameMatcher("rm") & CallableMatcher(bool),
        CallableMatcher(bool) & ToolNameMatcher("*") & ~CallableMatcher(bool),
        ~ToolNameMatcher("*"),
        ToolArgsMatcher({"command": "ls"}),
        ToolNameMatcher("read_file") & ToolArgsMatcher({"text": "x"}),
        StepTypeMatcher("tool_use"),
        EventTypeMatcher("after_tool_use"),
    ],
)
def test_a_matcher_that_can_never_match(matcher: Any) -> None:
    """Certainly dead, whatever a run brings."""
    finding = only(builder().on_before_tool_use(do_nothing, matcher=matcher, name="x"))
    assert (finding.code, finding.hook, finding.point) == ("dead-matcher", "x", "before_tool_use")


@pytest.mark.parametrize(
    "matcher",
    [
        "read_file",
        "*",
        ToolNameMatcher("rm") | ToolNameMatcher("read_file"),
        ToolNameMatcher("rm") | CallableMatcher(bool),
        ~ToolNameMatcher("rm"),
        ~(ToolNameMatcher("read_file") & CallableMatcher(bool)),
        ToolArgsMatcher({"text": "x"}),
        MetadataMatcher("user"),
        EventTypeMatcher("PreToolUse", "PostToolUse"),
    ],
)
def test_a_matcher_that_may_match(matcher: Any) -> None:
    """Doubt is in its favour."""
    assert codes(builder().on_before_tool_use(do_nothing, matcher=matcher)) == []


def test_a_matcher_that_matches_no_tool_says_what_was_probably_meant() -> None:
    """The message names hook, point, matcher and tools."""
    finding = only(builder().on_before_tool_use(do_nothing, matcher="reed_file", name="x"))
    assert str(finding) == (
        "dead-matcher: hook 'x' at before_tool_use never runs: its matcher (tool reed_file) matches "
        "none of the agent's tools (read_file, write_file). Did you mean 'read_file'?"
    )


def test_a_tool_matcher_where_there_is_no_tool() -> None:
    """A step is no tool call."""
    finding = only(builder().on_before_step(do_nothing, matcher="read_file"))
    assert finding.code == "dead-matcher"
    assert "is about a tool call, and this point has none" in finding.message


def test_a_step_matcher_where_there_is_no_step_yet() -> None:
    """Before a step its type is not known."""
    built = builder().on_before_step(do_nothing, matcher=StepTypeMatcher("tool_use"))
    assert codes(built) == ["dead-matcher"]


def test_a_matcher_for_another_point() -> None:
    """It would have to be registered there."""
    finding = only(builder().on_before_step(do_nothing, matcher=EventTypeMatcher("AfterStep")))
    assert "its matcher is for point AfterStep" in finding.message


def test_a_policy_for_the_tools_of_children_is_no_mistake() -> None:
    """A hook whose scope is the tree may be about tools that only children have."""
    for tier, expected in (("policy", []), ("hook", ["dead-matcher"])):
        built = AgentBuilder().with_tools(delegate)
        assert codes(built.on_before_tool_use(do_nothing, matcher="bash", tier=tier)) == expected
    # Without a tool that can start children there are none.
    built = builder().on_before_tool_use(do_nothing, matcher="bash", tier="policy")
    assert codes(built) == ["dead-matcher"]


def test_an_agent_without_tools() -> None:
    """What is meant for any tool is fine there; what is meant for one is not."""
    assert codes(AgentBuilder().on_before_tool_use(do_nothing, matcher="*")) == []
    assert codes(AgentBuilder().on_before_tool_use(do_nothing, matcher="bash")) == ["dead-matcher"]


# --- order --------------------------------------------------------------------------------------


def test_a_name_that_is_only_at_another_point() -> None:
    """It orders nothing here."""
    built = builder().on_before_step(do_nothing, name="first")
    finding = only(built.on_after_step(do_nothing, name="second", after="first"))
    assert (finding.code, finding.hook) == ("idle-order", "second")
    assert "after='first', which has no effect: that hook is only at before_step" in str(finding)


def test_a_name_in_another_tier() -> None:
    """Tiers are in order already."""
    built = builder().on_before_tool_use(do_nothing, name="rule", tier="policy")
    finding = only(built.on_before_tool_use(do_nothing, name="x", before="rule"))
    assert finding.code == "idle-order"
    assert "'x' is a hook and 'rule' a policy" in finding.message


def two_writers(**options: Any) -> AgentBuilder:
    """Two hooks that write the path."""
    built = builder().on_before_tool_use(in_home, name="home", matcher="read_file")
    return built.on_before_tool_use(without_dots, name="dots", **options)


def test_two_writers_of_one_field() -> None:
    """Only registration says whose value stays."""
    finding = only(two_writers())
    assert (finding.code, finding.hook) == ("unordered-writers", "dots")
    assert "writes call.args.path, as 'home' does" in finding.message
    assert "after='home'" in finding.remedy


@pytest.mark.parametrize(
    "options",
    [
        {"after": "home"},
        {"before": "home"},
        {"priority": 1},
        {"matcher": "write_file"},
        {"matcher": MetadataMatcher("user")},
        {"shadow": True},
    ],
)
def test_writers_that_are_ordered_or_need_not_meet(options: dict[str, Any]) -> None:
    """A name or a priority settles it; so do matchers, and doubt about them."""
    assert "unordered-writers" not in codes(two_writers(**options))


def test_writers_ordered_through_a_third() -> None:
    """`home`, then `middle`, then `dots`."""
    built = two_writers(after="middle")
    assert codes(built.on_before_tool_use(do_nothing, name="middle", after="home")) == []


def test_a_writer_under_conditions_meets_one_that_always_writes() -> None:
    """Two writers under conditions may never write in the same run."""

    def sometimes(ctx: Any) -> Any:
        if ctx.metadata.get("strict"):
            return ctx.with_output("")
        return None

    def early(ctx: Any) -> Any:
        if not ctx.output:
            return None
        return ctx.with_output(ctx.output.strip())

    always = builder().on_output(lambda ctx: ctx.with_output(ctx.output + "."), name="dot")
    assert codes(always.on_output(sometimes)) == ["unordered-writers"]
    assert codes(builder().on_output(early).on_output(sometimes)) == []


def test_hooks_of_one_capability_are_in_the_order_it_gave_them() -> None:
    """Its author chose that order, and its user could not change it."""

    class Paths:
        name = "paths"

        def hooks(self) -> Iterable[Registration]:
            return [hook("before_tool_use", in_home), hook("before_tool_use", without_dots)]

    assert codes(builder().with_capability(Paths())) == []
    clash = builder().with_capability(Paths()).on_before_tool_use(in_home, name="mine")
    assert codes(clash) == ["unordered-writers", "unordered-writers"]


# --- gates --------------------------------------------------------------------------------------


def test_a_gate_before_a_rewriter() -> None:
    """What runs is not what it judged."""
    built = builder().on_before_tool_use(no_secrets, name="gate", priority=100)
    finding = only(built.on_before_tool_use(in_home, name="home"))
    assert (finding.code, finding.hook) == ("gate-before-rewriter", "gate")
    assert "judges call.args.path before 'home' rewrites it" in finding.message
    assert "tier='policy'" in finding.remedy


@pytest.mark.parametrize(
    ("gate", "options"),
    [
        (no_secrets, {"tier": "policy"}),
        (no_secrets, {"after": "home"}),
        (no_secrets, {"before": "home"}),
        (no_secrets, {"matcher": "write_file"}),
        (no_secrets, {"shadow": True}),
        (only_when_written, {}),
        (lambda ctx: HookOutcome.block("closed") if ctx.get("closed") else None, {}),
        (lambda ctx: HookOutcome.ask("?") if ctx.tool_call.args.get("text") else None, {}),
        (lambda ctx: print(ctx.tool_call.args["path"]), {}),
    ],
)
def test_gates_that_are_no_trouble(gate: Any, options: dict[str, Any]) -> None:
    """Placed on purpose, about other tools or arguments, or not about the call at all."""
    built = builder().on_before_tool_use(gate, **{"name": "gate", "priority": 1, **options})
    built.on_before_tool_use(in_home, name="home", matcher="read_file")
    assert "gate-before-rewriter" not in codes(built)


# --- answers, tiers and tools -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "answer", "tier"),
    [
        ("after_step", lambda ctx: HookOutcome.block("no"), "hook"),
        ("after_tool_use", lambda ctx: HookOutcome.allow(), "hook"),
        ("before_tool_use", lambda ctx: HookOutcome.block("no"), "observer"),
        ("before_tool_use", lambda ctx: HookOutcome.allow(), "policy"),
        ("around_tool_use", lambda ctx, call_next: HookOutcome.block("no"), "hook"),
    ],
)
def test_an_answer_that_means_nothing_there(point: str, answer: Any, tier: str) -> None:
    """It would be an error in a run, or be ignored."""
    assert codes(builder().add_hook(point, answer, tier=tier)) == ["lost-verdict"]


def test_a_hook_at_several_points_may_answer_for_one_of_them() -> None:
    """Which, is not said; a hook that looks where it is knows."""

    def both(ctx: Any) -> Any:
        return HookOutcome.block("no") if ctx.state.step_count > 3 else None

    def knows(ctx: Any) -> Any:
        return HookOutcome.block("no") if ctx.point == "before_step" else None

    assert codes(builder().on_before_step(both).on_after_step(both)) == []
    assert codes(builder().on_after_step(knows)) == []


def test_an_observer_that_fails_closed() -> None:
    """It cannot."""
    built = builder().on_before_step(do_nothing, tier="observer", on_failure="closed")
    assert codes(built) == ["closed-observer"]


def test_a_hook_in_shadow_is_not_forgotten() -> None:
    """It is listed until it is enforced."""
    finding = only(builder().on_before_step(do_nothing, shadow=True, name="trial"))
    assert (finding.code, finding.hook, finding.point) == ("shadow", "trial", "before_step")


def test_a_tool_without_a_description() -> None:
    """A model must guess what it does."""

    def mystery(a: int) -> int:
        return a

    finding = only(AgentBuilder().with_tools(mystery))
    assert finding.code == "undescribed-tool"
    assert "tool 'mystery'" in finding.message


# --- lint and the tools of child runs, of which an agent knows nothing ----------------------------


def delete(path: str) -> str:
    """Delete a file."""
    return path


def block(ctx: object) -> HookOutcome:
    """Let nothing be deleted."""
    return HookOutcome.block("no")


def guarded(scope: str) -> AgentBuilder:
    """An agent whose hook is about a tool that it has not itself."""
    return AgentBuilder().on_before_tool_use(block, matcher="delete", scope=scope)


def test_a_hook_for_the_tree_may_be_about_a_tool_of_a_child() -> None:
    """So it is not said that it never runs; of a hook that holds here only, it is."""
    members = Subagents(Subagent("cleaner", "Cleans.", tools=[delete]))
    assert guarded("tree").with_capability(members).build(model=None).lint() == []
    (finding,) = guarded("self").with_capability(members).build(model=None).lint()
    assert finding.code == "dead-matcher"


def test_any_tool_may_start_a_child_that_could() -> None:
    """An async one that takes the context; without one it is certain that nobody has the tool."""

    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return ""

    assert guarded("tree").with_tools(delegate).build(model=None).lint() == []
    assert [each.code for each in guarded("tree").build(model=None).lint()] == ["dead-matcher"]


@pytest.mark.parametrize("matcher", ["Bash", "bsh"])
@pytest.mark.parametrize("scope", ["self", "tree"])
def test_tools_of_capabilities_start_no_children(tmp_path: Path, matcher: str, scope: Any) -> None:
    """They take the context for other things: beside them a slip in a name is seen, and so is another case."""
    builder = AgentBuilder().on_before_tool_use(block, matcher=matcher, scope=scope)
    builder.with_capability(Files(tmp_path)).with_capability(Bash(tmp_path, sandbox="host"))
    (finding,) = builder.build(model=None).lint()
    assert finding.code == "dead-matcher"
    assert "Did you mean 'bash'?" in finding.remedy


def test_an_unknown_tool_is_reported_next_to_files(tmp_path: Path) -> None:
    """For the tree too; those of servers may come later."""
    for matcher, codes in (("bash", ["dead-matcher"]), ("mcp__git__*", [])):
        builder = AgentBuilder().on_before_tool_use(block, matcher=matcher, tier="policy")
        found = builder.with_capability(Files(tmp_path)).build(model=None).lint()
        assert [each.code for each in found] == codes


# --- values that mean nothing -----------------------------------------------------------------------------


def test_a_hook_that_returns_a_plain_value_is_found() -> None:
    """A lambda whose comparison was meant for somebody else, and a function that returns a constant."""

    def forgotten(ctx: Any) -> Any:
        if ctx.step_index > 3:
            return False
        return None

    agent = builder()
    agent.on_after_step(lambda ctx: ctx.step_number > 3, name="compares")  # type: ignore[arg-type,return-value]
    agent.on_before_step(forgotten, name="forgets")
    agent.on_output(lambda ctx: f"{ctx.output}!", name="fine")
    agent.on_after_step(lambda ctx: None, name="silent")
    found = [each for each in agent.build(model=None).lint() if each.code == "meaningless-return"]
    assert [each.hook for each in found] == ["forgets", "compares"]
    assert "ctx.step_number > 3 (bool)" in found[1].message


def test_a_finding_about_a_lambda_says_where_it_is() -> None:
    """By file and line: two lambdas have the same name."""
    agent = builder().on_after_step(lambda ctx: 42)  # type: ignore[arg-type,return-value]
    line = sys._getframe().f_lineno - 1
    agent.on_after_step(lambda ctx: 43)  # type: ignore[arg-type,return-value]
    found = [each for each in agent.build(model=None).lint() if each.code == "meaningless-return"]
    places = [f"test_lint.py:{each}) at after_step returns" for each in (line, line + 2)]
    assert [words in each.message for words, each in zip(places, found, strict=True)] == [True] * 2
