"""What a subagent gets: never more than its definition, nor than the agent has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend import bash, read, write

from hookline import AgentBuilder, HookOutcome, hook, tool
from hookline.capabilities import Metadata, Subagent, Subagents
from hookline.capabilities.subagents.grants import grant_tools
from hookline.definition import Definition
from hookline.errors import BuildError
from hookline.flow import RunLimits
from hookline.testing import ScriptedDriver, call, calls, say


@tool(effect="pure")
def structured_output(answer: str) -> str:
    """Give the answer."""
    return answer


def builder(*turns: Any, subagents: Subagents) -> AgentBuilder:
    """An agent with tools of several kinds."""
    made = AgentBuilder().with_driver(ScriptedDriver([*turns, say("done")])).with_limits(steps=99)
    return made.with_tools(read, write, bash, structured_output).with_capability(subagents)


async def tools_of(member: Subagent, *others: Subagent) -> list[str]:
    """The tools that a subagent is offered."""
    made = builder(
        call("spawn_subagent", agent=member.name, prompt="x"), subagents=Subagents(member, *others)
    )
    await made.build().run("go")
    model: Any = member.model
    return [spec.name for spec in model.requests[0].tools]


def member(**options: Any) -> Subagent:
    """A subagent that says one word."""
    return Subagent("m", "A member.", model=ScriptedDriver([say("x")] * 9), **options)


# --- tools ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "tools"),
    [
        ({}, ["read", "write", "bash", "spawn_subagent"]),
        ({"tools": []}, []),
        ({"tools": ["read"]}, ["read"]),
        ({"tools": "Read, Bash"}, ["read", "bash"]),
        ({"tools": ["*"]}, ["read", "write", "bash", "spawn_subagent"]),
        ({"tools": ["structured_output"]}, ["structured_output"]),
        ({"tools": ["Bash(git:*)"]}, ["bash"]),
        ({"tools": ["Task"]}, ["spawn_subagent"]),
        ({"disallowed_tools": ["bash", "Task"]}, ["read", "write"]),
        ({"tools": ["read", "bash"], "disallowed_tools": "Bash"}, ["read"]),
        ({"disallowed_tools": ["bash(rm *)"]}, ["read", "write", "bash", "spawn_subagent"]),
        ({"read_only": True}, ["read"]),
        ({"agents": []}, ["read", "write", "bash"]),
    ],
)
async def test_which_tools_it_has(options: dict[str, Any], tools: list[str]) -> None:
    """A list is what it may have; without one it has what its starter has, but for what belongs to one run."""
    assert await tools_of(member(**options)) == tools


async def test_tools_of_its_own() -> None:
    """Which the agent has not."""

    def special() -> str:
        """Do something special."""
        return "special"

    assert await tools_of(member(tools=["read", special])) == ["read", "special"]


@pytest.mark.parametrize("field", ["tools", "disallowed_tools"])
def test_a_tool_that_nobody_has_is_an_error_when_the_agent_is_built(field: str) -> None:
    """With the closest; a slip in what is forbidden would forbid nothing."""
    words = r"subagent 'm': there is no tool 'raed' for it\. Did you mean 'read'\? The agent has: read, wr"
    with pytest.raises(BuildError, match=words):
        builder(subagents=Subagents(member(**{field: ["raed"]}))).build()


def test_a_subagent_that_nobody_knows_is_an_error_too() -> None:
    """Wherever it is named."""
    for options in ({"agents": ["n"]}, {"tools": ["Agent(n)"]}, {"disallowed_tools": ["Task(n)"]}):
        with pytest.raises(BuildError, match="there is no subagent 'n' for it"):
            builder(subagents=Subagents(member(**options))).build()


async def test_rules_narrow_what_a_tool_may_be_used_for() -> None:
    """All of a command must be meant; a tool that is also listed without a rule is not narrowed."""
    script = [
        calls(
            call("bash", command="git status"),
            call("bash", command="git status && rm x"),
            call("read", path="docs/a"),
            call("read", path="b"),
            call("write", path="docs/c"),
        ),
        say("x"),
    ]
    heard: list[Any] = []
    narrow = Subagent(
        "m",
        "M.",
        model=ScriptedDriver(script),
        tools=["Bash(git:*)", "read(docs/**)", "write", "write(docs/**)"],
    )
    made = builder(call("spawn_subagent", agent="m", prompt="x"), subagents=Subagents(narrow))
    await made.on_event(heard.append).build().run("go", run_id="r")
    results = [each.result.text for each in heard if each.type == "tool_result"][:5]
    assert results == [
        "ran git status",
        "Blocked: subagent 'm' may only use Bash(git:*)",
        "text of docs/a",
        "Blocked: subagent 'm' may only use read(docs/**)",
        "wrote docs/c",
    ]


async def test_what_is_forbidden_is_forbidden_below_it_too() -> None:
    """Starting another does not get around it; what is only not listed is for the other's own list to say."""
    outer = Subagent(
        "outer",
        "O.",
        model=ScriptedDriver([call("spawn_subagent", agent="inner", prompt="x"), say("x")]),
        disallowed_tools=["bash(rm *)", "write"],
    )
    script = [
        calls(call("bash", command="rm x"), call("bash", command="ls"), call("write", path="a"))
    ]
    inner = Subagent("inner", "I.", model=ScriptedDriver([*script, say("x")]), tools="bash, write")
    heard: list[Any] = []
    made = builder(
        call("spawn_subagent", agent="outer", prompt="x"), subagents=Subagents(outer, inner)
    )
    await made.on_event(heard.append).build().run("go", run_id="r")
    results = [each.result.text for each in heard if each.type == "tool_result"][:3]
    assert results == [
        "Blocked: subagent 'outer' may not use bash(rm *)",
        "ran ls",
        "Blocked: subagent 'outer' may not use write",
    ]


async def test_without_a_list_it_has_what_its_starter_has() -> None:
    """Not what the agent at the top has: a reader does not start a writer."""
    inner = Subagent("inner", "I.", model=ScriptedDriver([say("x")]))
    outer = Subagent(
        "outer",
        "O.",
        model=ScriptedDriver([call("spawn_subagent", agent="inner", prompt="x"), say("x")]),
        tools=["read", "spawn_subagent"],
    )
    await tools_of(outer, inner)
    model: Any = inner.model
    assert [spec.name for spec in model.requests[0].tools] == ["read", "spawn_subagent"]


async def test_what_its_starter_may_only_use_so_it_may_only_use_so_too() -> None:
    """At any depth: a rule goes with the tool."""
    start = [call("spawn_subagent", agent=name, prompt="x") for name in ("middle", "inner")]
    script = calls(call("bash", command="git status"), call("bash", command="rm x"))
    members = [
        Subagent(
            "outer", "O.", model=ScriptedDriver([start[0], say("x")]), tools="Bash(git:*), Task"
        ),
        Subagent("middle", "M.", model=ScriptedDriver([start[1], say("x")])),
        Subagent("inner", "I.", model=ScriptedDriver([script, say("x")])),
    ]
    heard: list[Any] = []
    made = builder(call("spawn_subagent", agent="outer", prompt="x"), subagents=Subagents(*members))
    await made.on_event(heard.append).build().run("go")
    results = [each.result.text for each in heard if each.type == "tool_result"][:2]
    assert results == ["ran git status", "Blocked: subagent 'outer' may only use Bash(git:*)"]


async def test_which_subagents_it_may_start() -> None:
    """Those it names, and none else."""
    a = member(tools=["Agent(b)"])
    b, c = Subagent("b", "The b."), Subagent("c", "The c.")
    await tools_of(a, b, c)
    model: Any = a.model
    (spec,) = model.requests[0].tools
    assert "- b: The b." in spec.description
    assert "The c." not in spec.description


# --- the rest of a definition -----------------------------------------------------------------------


async def test_hooks_and_capabilities_of_its_own() -> None:
    """They hold for it, and not for its starter."""

    class Eyes:
        name = "eyes"

        def tools(self) -> list[Any]:
            return [special]

    def special() -> str:
        """See something special."""
        return "special"

    no = hook("before_tool_use", lambda ctx: HookOutcome.block("not you"), matcher="read")
    model = ScriptedDriver([calls(call("read", path="a"), call("special")), say("x")])
    owned = Subagent("m", "M.", model=model, hooks=[no], capabilities=[Eyes()])
    heard: list[Any] = []
    made = builder(
        call("spawn_subagent", agent="m", prompt="x"),
        call("read", path="a"),
        subagents=Subagents(owned),
    )
    await made.on_event(heard.append).build().run("go")
    results = [each.result.text for each in heard if each.type == "tool_result"]
    assert results == ["Blocked: not you", "special", "x", "text of a"]


class AsCapability:
    """Limits that are a capability."""

    name = "limits"

    def configure(self, builder: AgentBuilder) -> None:
        """Set them."""
        builder.with_limits(tool_calls=1)


@pytest.mark.parametrize("limits", [{"tool_calls": 1}, RunLimits(tool_calls=1), AsCapability()])
async def test_limits_of_its_own(limits: Any) -> None:
    """Besides those of the agent."""
    model = ScriptedDriver([call("read", path="a"), call("read", path="b"), say("x")])
    made = builder(
        call("spawn_subagent", agent="m", prompt="x"),
        subagents=Subagents(Subagent("m", "M.", model=model, limits=limits)),
    )
    result = await made.build().run("go")
    assert "tool calls: 1 of 1 used" in result.steps[0].results[0].text


async def test_models_by_name() -> None:
    """A name that is mapped, the starter's own, and one that means nothing here."""
    haiku = ScriptedDriver([say("haiku")])
    names = ("haiku", "inherit", "opus", None)
    members = [Subagent(f"m{n}", "M.", model=name) for n, name in enumerate(names)]
    turns = [call("spawn_subagent", agent=f"m{n}", prompt="x") for n in range(4)]
    driver = ScriptedDriver(
        [turns[0], turns[1], say("mine"), turns[2], say("mine"), turns[3], say("mine"), say("done")]
    )
    made = AgentBuilder().with_driver(driver)
    made.with_capability(Subagents(*members, models={"haiku": haiku}))
    agent = made.build()
    result = await agent.run("go")
    assert [step.results[0].result for step in result.steps[:4]] == [
        "haiku",
        "mine",
        "mine",
        "mine",
    ]
    assert "'opus' cannot be used as a model here" in agent.explain().replace("\n" + " " * 16, " ")


def test_a_model_that_cannot_be_is_an_error_with_its_subagent() -> None:
    """When the agent is built."""
    with pytest.raises(BuildError, match=r"subagent 'm': .*nonsense"):
        AgentBuilder().with_capability(Subagents(Subagent("m", "M.", model="nonsense"))).build(
            model=None
        )


async def test_an_agent_that_is_built_already() -> None:
    """With all that is its own."""
    inner = AgentBuilder().with_driver(ScriptedDriver([call("read", path="a"), say("mine")]))
    made = builder(
        call("spawn_subagent", agent="m", prompt="x"),
        subagents=Subagents(Subagent("m", "M.", agent=inner.with_tools(read).build())),
    )
    assert (await made.build().run("go")).steps[0].results[0].result == "mine"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Subagent("", "x"), "'' is not a valid name for a subagent"),
        (lambda: Subagent("a\nb", "x"), "is not a valid name"),
        (lambda: Subagent("m", " "), "subagent 'm': it has no description"),
        (lambda: Subagent("m", "x", tools=7), "tools=7 is not a list"),  # type: ignore[arg-type]
        (lambda: Subagent("m", "x", tools=[7]), "tools: 7 is not a name"),  # type: ignore[list-item]
        (lambda: Subagent("m", "x", tools=["bash("]), "subagent 'm': .*never closed"),
        (lambda: Subagent("m", "x", limits={"stps": 1}), "there is no limit 'stps'"),
        (lambda: Subagent("m", "x", limits={"steps": -1}), "limit steps=-1"),
        (lambda: Subagent("m", "x", limits=7), "limits=7 are not limits"),  # type: ignore[arg-type]
        (lambda: Subagent("m", "x", agent="a"), "agent= takes an Agent"),  # type: ignore[arg-type]
        (
            lambda: Subagent("m", "x", tools="read", agent=AgentBuilder().build(model=None)),
            "it is a built agent, so tools would have no effect",
        ),
        (lambda: Subagents(), "there are no subagents to start"),
        (lambda: Subagents(member(), member()), "two subagents are called 'm'"),
        (lambda: Subagents(member(), max_depth=0), "max_depth=0 is not a whole number"),
        (lambda: Subagents(7), "7 is not a subagent"),  # type: ignore[arg-type]
        (lambda: Subagents("nowhere"), "there is no file or directory 'nowhere'"),
    ],
)
def test_wrong_definitions_are_errors(make: Any, words: str) -> None:
    """That name what is wrong."""
    with pytest.raises(BuildError, match=words):
        make()


def test_explain_lists_the_subagents_and_their_tools() -> None:
    """One line each."""
    agents = Subagents(member(tools=["read", "Agent(n)"]), Subagent("n", "N.", tools=[]))
    text = builder(subagents=agents).build().explain()
    assert "subagents: m: read; starts n; scripted" in text
    assert "subagents: n: no tools" in text


def test_a_read_only_subagent_changes_nothing_with_any_tool() -> None:
    """Its own tools, and those of its capabilities, are no exception."""
    deleted: list[str] = []

    @tool
    def delete(path: str) -> str:
        """Delete."""
        deleted.append(path)
        return "deleted"

    turns = [call("delete", path="a"), call("write_metadata", key="k", value=1), say("done")]
    reader = Subagent(
        "reader",
        "reads",
        "You read.",
        read_only=True,
        tools=[delete],
        capabilities=[Metadata()],
        model=ScriptedDriver(turns),
    )
    driver = ScriptedDriver([call("spawn_subagent", agent="reader", prompt="go"), say("end")])
    agent = AgentBuilder().with_driver(driver).with_capability(Subagents(reader)).build()
    assert agent.run_sync("go").is_completed
    assert deleted == []


# --- for any definition: a subset of what there is, less what is forbidden, at any depth --------------


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

    return AgentBuilder().with_tools(*map(made, names)).build(model=None).definition


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
