"""Wrong use: names and order that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from wrong_use import builder, fine, refused

from hookline import (
    AgentBuilder,
    hook,
)

# --- names and order --------------------------------------------------------------------------------


def test_two_hooks_of_one_name() -> None:
    """At one point a name is given once; at two points it may be given twice."""
    agent = builder().on_before_tool_use(fine, name="check").on_before_tool_use(fine, name="check")
    assert refused(agent.build) == (
        "two hooks at before_tool_use are named 'check'. Give each its own name=."
    )
    builder().on_before_tool_use(fine, name="check").on_after_tool_use(fine, name="check").build()


def test_two_hooks_of_one_name_from_two_capabilities() -> None:
    """Capabilities share the names, too."""

    class Brings:
        def __init__(self, name: str) -> None:
            self.name = name

        def hooks(self) -> Any:
            return [hook("stop", fine, name="check")]

    agent = builder().with_capability(Brings("one")).with_capability(Brings("two"))
    assert "two hooks at stop are named 'check'" in refused(agent.build)


def test_hooks_without_names_never_collide() -> None:
    """The same function twice is two hooks."""
    seen: list[str] = []
    agent = (
        builder().on_stop(lambda ctx: seen.append("one")).on_stop(lambda ctx: seen.append("two"))
    )
    agent.build().run_sync("go")
    assert seen == ["one", "two"]


def test_a_cycle_is_shown_as_a_chain() -> None:
    """Each name in it, in order, and the way out."""
    agent = (
        builder()
        .on_stop(fine, name="a", before="b")
        .on_stop(fine, name="b", before="c")
        .on_stop(fine, name="c", before="a")
    )
    message = refused(agent.build)
    assert "the hooks at stop wait for each other: " in message
    assert any(
        chain in message for chain in ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c")
    )
    assert "Drop one of these before=/after= options." in message


def test_a_name_that_no_hook_has() -> None:
    """With the one that was probably meant."""
    agent = builder().on_stop(fine, name="security").on_stop(fine, name="log", after="securty")
    assert refused(agent.build) == (
        "hook 'log' at stop: after='securty' names no hook. Did you mean 'security'?"
    )


def test_an_order_that_the_tiers_forbid() -> None:
    """A policy cannot run before the hooks whose work it judges."""
    agent = builder().on_before_tool_use(fine, name="rewrite")
    agent.on_before_tool_use(fine, name="judge", tier="policy", before="rewrite")
    message = refused(agent.build)
    assert "hook 'judge' (policy) at before_tool_use cannot run before 'rewrite' (hook)" in message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tier": "polcy"}, "tier='polcy' is not one of hook, policy, observer."),
        ({"scope": "global"}, "scope='global' is not one of self, tree, children."),
        ({"on_failure": "ignore"}, "on_failure='ignore' is not one of closed, open."),
        ({"priority": "high"}, "priority= takes a whole number, not 'high'."),
        ({"timeout": 0}, "timeout= takes seconds above zero, not 0."),
        ({"timeout": "5s"}, "timeout= takes seconds above zero, not '5s'."),
        ({"before": 5}, "before= takes names of hooks, not 5."),
        ({"after": ["a", fine]}, "after= takes names of hooks, not"),
        ({"tier": "observer", "shadow": True}, "an observer decides nothing"),
        ({"tier": "policy", "on_failure": "open"}, "a policy cannot fail open."),
    ],
)
def test_a_wrong_option(options: dict[str, Any], words: str) -> None:
    """Hook, point, the option, what was given and what it takes."""
    message = refused(lambda: AgentBuilder().on_before_tool_use(fine, name="mine", **options))
    assert message.startswith("hook 'mine' at before_tool_use: ")
    assert words in message


@pytest.mark.parametrize("wrong", ["", 5])
def test_an_invalid_name(wrong: Any) -> None:
    """A name is text, and not empty."""
    assert "before_tool_use" in refused(lambda: AgentBuilder().on_before_tool_use(fine, name=wrong))


def test_a_policy_cannot_wrap_an_action() -> None:
    """It judges; what it would do around an action belongs elsewhere."""

    async def around(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    message = refused(lambda: AgentBuilder().around_tool_use(around, tier="policy"))
    assert message.startswith(
        "hook 'around' at around_tool_use: only tier 'hook' can wrap an action."
    )
