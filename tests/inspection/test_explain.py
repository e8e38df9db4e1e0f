"""The output of `agent.explain()`, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from hookline import (
    Agent,
    AgentBuilder,
    CallableMatcher,
    ErrorPolicy,
    ToolHookContext,
    ToolNameMatcher,
    hook,
    tool,
)
from hookline.errors import NotJSONError
from hookline.hooks import MetadataMatcher, Registration, ToolArgsMatcher
from hookline.inspection import explain
from hookline.state import PendingApproval
from hookline.testing import ScriptedDriver, call, say


@tool(effect="pure", timeout=10, concurrency=2)
def search(query: str, limit: int = 5) -> str:
    """Search the web.

    The best pages come first.
    """
    return query


@tool(alone=True)
def pay(amount: int, to: str) -> None:
    """Send money."""


def look(ctx: Any) -> None:
    """A hook; its name and options are what matters here."""


async def wrap(ctx: Any, call_next: Any) -> Any:
    """A hook around something."""
    return await call_next(ctx)


def is_admin(ctx: Any) -> bool:
    """Asks the run."""
    return bool(ctx.metadata.get("admin"))


def is_large(ctx: Any) -> bool:
    """Asks the call."""
    return bool(ctx.tool_call.args["amount"] > 1000)


def is_unpaid(ctx: Any) -> bool:
    """Asks the call first, then the run."""
    return isinstance(ctx, ToolHookContext) and is_large(ctx) and is_admin(ctx)


class Rest:
    """Middleware."""

    async def handle(self, ctx: Any, next: Any) -> Any:
        return await next(ctx)


class Audit:
    """A capability."""

    name = "audit"

    def hooks(self) -> Iterable[Registration]:
        return [
            hook("before_tool_use", look, name="ledger", tier="observer", timeout=2.5),
            hook("after_tool_use", look, name="ledger", tier="observer"),
        ]


def shop() -> Agent:
    """An agent with a bit of everything."""
    return (
        AgentBuilder()
        .with_id("shop")
        .with_driver(ScriptedDriver([say("hello")]))
        .with_tools(search, pay)
        .with_limits(tokens=None, tool_calls=40)
        .with_capability(Audit())
        .on_before_tool_use(look, name="amount", matcher="pay", tier="policy")
        .on_before_tool_use(look, name="currency", after="spelling")
        .on_before_tool_use(look, name="spelling", matcher=ToolArgsMatcher({"query": "hookline"}))
        .on_before_tool_use(Rest(), name="trial", matcher=is_admin, shadow=True, on_failure="open")
        .on_before_tool_use(look, name="first", priority=100, matcher=~ToolNameMatcher("search"))
        .around_tool_use(wrap, name="cache", matcher="search")
        .around_tool_use(wrap, name="retry")
        .build()
    )


SHOP = """\
agent shop

  driver        ScriptedDriver
  tools         search  pure        Search the web.
                pay     once        Send money.
  limits        50 steps, 1,800 seconds, 40 tool calls; 8 objections to stopping
  errors        tool, validation: the model reads it; rate limit, timeout, connection, overloaded,
                malformed: tried again, 3 times in a row at most; anything else: the run fails
  approver      none: a run that needs an answer pauses until it gets one
  capabilities  audit

     hook        from     tier         runs           notes
before_step         a block: the step is not made and the run ends stopped
  1  limits      default  hook 1000    always         in child runs too

before_tool_use     a block: the call is not run and the model reads the reason
  1  first       yours    hook 100     ~tool search   highest priority
  2  spelling    yours    hook         args query
  3  currency    yours    hook         always         after 'spelling'
  4  trial       yours    hook         when is_admin  registered after 'currency'; middleware; fails
                                                      open; shadow: not enforced
  5  limits      default  policy 1000  always         policies run after hooks; highest priority
  6  amount      yours    policy       tool pay
  7  ledger      audit    observer     always         observers run last; timeout 2.5 s

around_tool_use     outermost first, around the tool
  1  cache       yours    hook         tool search
  2    retry     yours    hook         always         registered after 'cache'

after_tool_use      a block: the result is withheld and the model reads the reason
  1  ledger      audit    observer     always

should_continue     nothing can be blocked here
  1  tool-calls  default  hook         always

no hooks at  session_start, execution_start, prompt_submit, around_step, before_inference,
             around_inference, after_inference, permission_request, after_step, stop, output,
             execution_end, error, agent_failed, subagent_start, subagent_stop, before_compact,
             session_end
"""

SEARCH = """\
a call to search, by agent shop

  effect     pure: it changes nothing, so it may run again
  runs       at most 2 at once, for 10 s at most
  arguments  they fit: query="hooks", limit=5

      hook      from     tier         for this call                      notes
before_tool_use     a block: the call is not run and the model reads the reason
   -  first     yours    hook 100     no match: ~tool search
   -  spelling  yours    hook         no match: args query
   1  currency  yours    hook         runs
  2?  trial     yours    hook         depends on the run: when is_admin  middleware; fails open;
                                                                         shadow: not enforced
   3  limits    default  policy 1000  runs
   -  amount    yours    policy       no match: tool pay
   4  ledger    audit    observer     runs                               timeout 2.5 s

permission_request  no hooks

around_tool_use     outermost first, around the tool
   1  cache     yours    hook         runs: tool search
   2    retry   yours    hook         runs

after_tool_use      a block: the result is withheld and the model reads the reason
   1  ledger    audit    observer     runs

This is the call as the model makes it. If a hook changes it, later hooks see the changed call.
"""


def explanation(agent: Agent, *call: str, **args: Any) -> str:
    """The output, on one line with single spaces."""
    return " ".join(agent.explain(*call, **args).split())


def lines(agent: Agent, *call: str, **args: Any) -> list[str]:
    """The output, line by line, with single spaces."""
    return [" ".join(line.split()) for line in agent.explain(*call, **args).splitlines()]


def test_the_whole_agent() -> None:
    """Tools, limits and policies first; then each point with its hooks, in the order they run, and why."""
    assert f"{shop().explain()}\n" == SHOP


def test_one_call() -> None:
    """What runs for it, what does not match, and what only a run can say."""
    assert f"{shop().explain('search', query='hooks')}\n" == SEARCH


def test_a_call_without_arguments_leaves_open_what_depends_on_them() -> None:
    """The tool alone says a good deal."""
    text = explanation(shop(), "search")
    assert (
        "arguments none given, so the result is open where it depends on them; it takes query, limit"
        in text
    )
    assert "1? spelling yours hook depends on the arguments: args query" in text
    assert "1 cache yours hook runs: tool search" in text


def test_a_tool_that_needs_no_arguments() -> None:
    """Then none is a fitting number."""

    def now() -> str:
        """The time."""
        return ""

    agent = AgentBuilder().with_tools(now).build(model=None)
    assert "arguments it takes none" in lines(agent, "now")
    assert "before_tool_use no hooks" in lines(agent, "now")


def test_arguments_that_do_not_fit() -> None:
    """The call would not run, and only observers would see it."""
    text = explanation(shop(), "pay", amount="much")
    assert "they do not fit: 'amount': should be a valid integer" in text
    assert "'to': missing" in text
    assert "It would not run, and the model would read why." in text
    assert text.endswith("after_tool_use observers only 1 ledger audit observer runs")
    assert "before_tool_use" not in text


def test_arguments_that_are_no_json() -> None:
    """No model could have given them."""
    with pytest.raises(NotJSONError, match="pay"):
        shop().explain("pay", amount=object())


def test_what_a_tool_declares() -> None:
    """Its effect, and how it runs."""
    text = lines(shop(), "pay", amount=1, to="me")
    assert "effect once: it is not run again unless it is known not to have run" in text
    assert "runs alone, without a timeout" in text
    assert "runs at most 2 at once, for 10 s at most" in lines(shop(), "search")


def test_an_unknown_tool() -> None:
    """It says what was probably meant."""
    assert shop().explain("serch") == (
        "There is no tool 'serch'. Did you mean 'search'?\nThe tools are  search, pay"
    )
    assert (
        AgentBuilder().build(model=None).explain("x")
        == "There is no tool 'x': this agent has none."
    )


@pytest.mark.parametrize(
    ("matcher", "amount", "expected"),
    [
        ("pay", 5, "1 x yours hook runs: tool pay"),
        (is_large, 5000, "1 x yours hook runs: when is_large"),
        (is_large, 5, "- x yours hook no match: when is_large"),
        (is_admin, 5, "1? x yours hook depends on the run: when is_admin"),
        (MetadataMatcher("vip"), 5, "1? x yours hook depends on the run: metadata vip"),
        (is_unpaid, 5, "- x yours hook no match: when is_unpaid"),
        (is_unpaid, 5000, "1? x yours hook depends on the run: when is_unpaid"),
        (
            CallableMatcher(is_admin) & ToolNameMatcher("search"),
            5,
            "- x yours hook no match: (when is_admin & tool search)",
        ),
        (
            CallableMatcher(is_admin) | ToolNameMatcher("pay"),
            5,
            "1 x yours hook runs: (when is_admin | tool pay)",
        ),
        (~CallableMatcher(is_large), 5, "1 x yours hook runs: ~when is_large"),
        (ToolArgsMatcher({"amount": 5}), 5, "1 x yours hook runs: args amount"),
    ],
)
def test_what_a_matcher_says_about_a_call(matcher: Any, amount: int, expected: str) -> None:
    """What it says without a run holds; where it looks at the run, that is said instead."""
    agent = (
        AgentBuilder()
        .with_tools(pay)
        .on_before_tool_use(look, matcher=matcher, name="x")
        .build(model=None)
    )
    assert f" {expected} " in explanation(agent, "pay", amount=amount, to="me")


def test_a_matcher_that_raises_for_a_call() -> None:
    """It would raise in a run, too: this one reads an argument that the tool does not have."""
    agent = (
        AgentBuilder()
        .with_tools(search)
        .on_before_tool_use(look, matcher=is_large)
        .build(model=None)
    )
    text = explanation(agent, "search", query="x")
    assert "1? look yours hook its matcher raises KeyError: when is_large" in text


def test_why_a_hook_stands_where_it_stands() -> None:
    """Names, priority, tier and registration, as far as they decided."""
    agent = (
        AgentBuilder()
        .on_before_step(look, name="elsewhere")
        .on_stop(look, name="a")
        .on_stop(look, name="b")
        .on_stop(look, name="c", priority=5, after="b")
        .on_stop(look, name="d", before="b")
        .on_stop(look, name="e", priority=-1, after="elsewhere")
        .on_stop(look, name="f", tier="policy", scope="self")
        .on_stop(look, name="g", tier="observer", on_failure="closed", scope="tree")
        .build(model=None)
    )
    text = lines(agent)
    start = text.index("stop a block: the run continues, with the reason shown")
    assert text[start + 1 : start + 8] == [
        "1 a yours hook always",
        "2 d yours hook always before 'b'; registered after 'a'",
        "3 b yours hook always",
        "4 c yours hook 5 always after 'b'; highest priority",
        "5 e yours hook -1 always after 'elsewhere' (which is not here)",
        "6 f yours policy always policies run after hooks; not in child runs",
        "7 g yours observer always observers run last; fails closed; in child runs too",
    ]


def test_hooks_for_child_runs_only_are_named() -> None:
    """They are in no plan of the agent itself."""
    agent = AgentBuilder().on_stop(look, name="a", scope="children")
    agent.around_step(lambda ctx, call_next: call_next(ctx), name="wraps")
    text = lines(agent.build(model=None))
    assert "in child runs only a (stop)" in text
    assert "around_step outermost first, around the step" in text
    assert not [each for each in text if each.startswith("1 a ")]


def test_limits_errors_and_approvers_in_words() -> None:
    """Each is one line."""
    bare = AgentBuilder().with_limits(steps=None, tokens=None, seconds=None, objections=0)
    strict = lines(
        bare.with_error_policy(ErrorPolicy.stop_on_any_error())
        .with_approver("deny")
        .build(model=None)
    )
    assert "limits none; 0 objections to stopping" in strict
    assert "errors any error: the run fails" in strict
    assert "approver every question is answered no" in strict
    assert "tools none" in strict
    assert "driver none" in strict

    def ask_ann(approval: PendingApproval) -> bool:
        return False

    policy = ErrorPolicy(actions={}, otherwise=ErrorPolicy.retry_all().otherwise, max_errors=9)
    text = explanation(
        AgentBuilder().with_error_policy(policy).with_approver(ask_ann).build(model=None)
    )
    assert "approver ask_ann" in text
    assert (
        "errors any error: tried again, 3 times in a row at most; more than 9 in a run: the run fails"
        in text
    )


def test_nothing_is_wider_than_a_screen() -> None:
    """Long names and matchers continue below themselves."""
    matcher = (
        CallableMatcher(is_admin) & ToolNameMatcher("a_rather_long_name_*") & ToolNameMatcher("x")
    )
    agent = (
        AgentBuilder()
        .with_tools(search, pay)
        .on_before_tool_use(look, name="a-hook-with-quite-a-long-name-indeed", matcher=matcher)
        .on_before_tool_use(
            look, after="a-hook-with-quite-a-long-name-indeed", timeout=1, shadow=True
        )
        .build(model=None)
    )
    for text in (agent.explain(), agent.explain("search", query="long " * 100)):
        assert max(map(len, text.splitlines())) <= 100
        assert "a-hook-with-quite" in text


# --- what is explained fits the page that it is for -----------------------------------------------


def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


def only_words(_ctx: ToolHookContext) -> None:
    """Ignore it."""


@pytest.mark.parametrize("width", [24, 30, 50, 70, 100, 160])
def test_it_fits_the_width_that_is_given(width: int) -> None:
    """On a narrow page the columns stand below each other, and nothing of them is left out."""
    builder = AgentBuilder().with_tools(shout)
    agent = builder.on_before_tool_use(only_words, matcher="shout", tier="policy").build(model=None)
    for name, args in ((None, {}), ("shout", {"text": "a"}), ("shuot", {})):
        explanation = explain(agent.definition, name, args, width=width)
        assert max(map(len, explanation.splitlines())) <= width
        if name != "shuot":
            assert "only_words" in explanation
            assert "policy" in explanation


# --- what a hook says of itself is shown in the plan, where its name does not say it --------------


class Careful:
    """A hook that has something to say of itself."""

    note = "lets nothing through on Fridays"

    def handle(self, ctx: ToolHookContext) -> None:
        """Let it through."""


@tool
def look_around() -> str:
    """Look around."""
    return "nothing"


def test_a_note_is_shown_for_the_agent_and_for_a_call() -> None:
    """It stands with the other notes; a hook without one, or with something else there, has none."""

    def other(ctx: ToolHookContext) -> None:
        pass

    other.note = 3  # type: ignore[attr-defined]
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([say("done")]))
        .with_tools(look_around)
        .on_before_tool_use(Careful(), name="careful")
        .on_before_tool_use(other)
        .build()
    )
    for text in (agent.explain(), agent.explain("look_around")):
        assert "lets nothing through on Fridays" in " ".join(text.split())
        assert text.count("Fridays") == 1


def test_a_hook_can_ask_which_tool_a_call_would_run() -> None:
    """By the name of the tool. An unknown tool is None, and so is everything outside a run."""
    found: list[object] = []

    def ask(ctx: ToolHookContext) -> None:
        found.extend([ctx.run.tool("look_around"), ctx.run.tool("nothing")])

    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("look_around"), say("done")]))
        .with_tools(look_around)
        .on_before_tool_use(ask)
        .build()
    )
    agent.run_sync("Go.")
    assert found == [look_around, None]
