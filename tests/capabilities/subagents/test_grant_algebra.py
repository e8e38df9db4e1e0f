"""What a subagent gets, for any definition: a subset of what there is, less what is forbidden, at any depth."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hookline import AgentBuilder, tool
from hookline.capabilities import Subagent
from hookline.capabilities.subagents.grants import grant_tools
from hookline.definition import Definition

NAMES = ("read", "write", "edit", "search", "bash", "send", "look")
PURE = ("read", "search", "look")
AGENTS = ("a", "b", "c")
WRITTEN = st.sampled_from(
    [*NAMES, "Read", "Write", "Edit", "Grep", "Bash", "bash(git *)", "s*", "*", "Task", "Agent(b)"]
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "tools": st.lists(WRITTEN, max_size=4),
        "disallowed_tools": st.lists(WRITTEN, max_size=3),
        "agents": st.lists(st.sampled_from(AGENTS), max_size=3),
        "read_only": st.booleans(),
    },
)


def definition(names: tuple[str, ...]) -> Definition:
    """An agent with tools of these names."""

    def made(name: str) -> Any:
        def function(text: str) -> str:
            """Do something."""
            return text

        return tool(function, name=name, effect="pure" if name in PURE else "once")

    return AgentBuilder().with_tools(*map(made, names)).build().definition


TOP = definition(NAMES)


def named(choice: Any) -> set[str]:
    """The tools that were chosen."""
    return {each.name for each in choice.lent}


@given(OPTIONS)
def test_it_is_never_more_than_there_is_or_than_is_allowed(options: dict[str, Any]) -> None:
    """Whatever is written."""
    choice = grant_tools(Subagent("m", "M.", **options), TOP, TOP, AGENTS, AGENTS)
    assert named(choice) <= set(NAMES)
    assert set(choice.agents) <= set(AGENTS)
    if "agents" in options:
        assert set(choice.agents) <= set(options["agents"])
    denied = set(options.get("disallowed_tools", ()))
    assert not named(choice) & denied
    if "*" in denied:
        assert not named(choice)
        assert not choice.may_spawn
    if denied & {"Task", "s*"}:
        assert not choice.may_spawn
    if options.get("read_only"):
        assert named(choice) <= set(PURE)
        assert not choice.may_spawn
    assert choice.narrowed <= named(choice)


@given(OPTIONS, st.sets(st.sampled_from(NAMES)))
def test_without_a_list_nothing_comes_back_that_a_starter_has_not(
    inner: dict[str, Any], some: set[str]
) -> None:
    """A subagent of a subagent has what that has, or what its own list says, and nothing else."""
    starter = definition(tuple(sorted(some)))
    choice = grant_tools(Subagent("m", "M.", **inner), starter, TOP, AGENTS, ("b",))
    if "tools" not in inner:
        assert named(choice) <= some
        assert set(choice.agents) <= {"b"}
    else:
        again = grant_tools(Subagent("m", "M.", **inner), TOP, TOP, AGENTS, AGENTS)
        assert named(choice) == named(again)  # a list is what it is, whoever starts it


@given(OPTIONS, WRITTEN)
def test_forbidding_more_gives_no_more(options: dict[str, Any], rule: str) -> None:
    """And listing more takes nothing away."""
    before = grant_tools(Subagent("m", "M.", **options), TOP, TOP, AGENTS, AGENTS)
    denied = [*options.get("disallowed_tools", ()), rule]
    less = grant_tools(
        Subagent("m", "M.", **{**options, "disallowed_tools": denied}), TOP, TOP, AGENTS, AGENTS
    )
    assert named(less) <= named(before)
    assert set(less.agents) <= set(before.agents)
    if "tools" in options:
        listed = [*options["tools"], rule]
        more = grant_tools(
            Subagent("m", "M.", **{**options, "tools": listed}), TOP, TOP, AGENTS, AGENTS
        )
        assert named(more) >= named(before)
