"""What a capability may add once it sees the whole agent: tools, and notes."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder, Decision, ToolContext, tool
from hookline.agent import Note
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, say


@tool
def look() -> str:
    """Look."""
    return "seen"


class Census:
    """Counts the tools of the agent it is in."""

    name = "census"

    def __init__(self) -> None:
        self.asked = 0

    def tools_for(self, definition: Any) -> list[Any]:
        self.asked += 1
        names = ", ".join(each.name for each in definition.toolbox)

        def count_tools() -> str:
            """Say which tools there are."""
            return names

        return [count_tools]

    def notes(self, definition: Any) -> list[Note]:
        return [
            Note(f"sees {len(definition.toolbox)} tools\nand says so"),
            Note("it is slow.", is_problem=True, remedy="Be patient."),
        ]


def test_a_tool_may_depend_on_the_rest_of_the_agent() -> None:
    """Also of what was added after the capability; each agent of a builder gets its own."""
    census = Census()
    builder = AgentBuilder().with_capability(census).with_tools(look)
    agent = builder.with_driver(ScriptedDriver([call("count_tools"), say("ok")])).build()
    assert census.asked == 1
    assert agent.run_sync("go").steps[0].results[0].result == "look"
    assert agent.definition.tool_capabilities == {"count_tools": "census"}


def test_the_tools_of_a_capability_are_known_as_such() -> None:
    """The definition says which capability a tool came with; the user's own came with none."""

    class Eyes:
        name = "eyes"

        def tools(self) -> list[Any]:
            return [look]

    def mine() -> str:
        """Mine."""
        return ""

    agent = AgentBuilder().with_capability(Eyes()).with_tools(mine).build(model=None)
    assert agent.definition.tool_capabilities == {"look": "eyes"}


def test_notes_are_lines_of_explain_and_problems_are_findings() -> None:
    """`explain()` shows all of them under the capabilities; `lint()` only what is wrong."""
    agent = AgentBuilder().with_capability(Census()).with_tools(look).build(model=None)
    text = agent.explain()
    assert "census: sees 2 tools" in text
    assert "problem: it is slow." in text
    assert [str(finding) for finding in agent.lint()] == ["census: it is slow. Be patient."]


def test_what_is_no_note_is_refused() -> None:
    """With the name of the capability that gave it."""

    class Wrong:
        name = "wrong"

        def notes(self, definition: Any) -> list[Any]:
            return ["hello"]

        def tools(self) -> list[Any]:
            return []

    with pytest.raises(BuildError, match=r"notes\(\) of capability 'wrong' gave 'hello'"):
        AgentBuilder().with_capability(Wrong()).build(model=None)


def test_a_capability_may_have_nothing_but_late_tools() -> None:
    """`tools_for` alone makes a capability."""

    class Late:
        name = "late"

        def tools_for(self, definition: Any) -> list[Any]:
            return [look]

    assert "look" in AgentBuilder().with_capability(Late()).build(model=None).definition.toolbox


def test_hooks_see_the_runs_above() -> None:
    """`ctx.run.parent` is the parent's run, with its settled `state` and its agent's `system_prompt`."""
    seen: list[Any] = []

    def remember(ctx: Any) -> Any:
        return ctx.with_metadata("mode", "safe") if ctx.run.parent is None else None

    def note(ctx: Any) -> None:
        parent = ctx.run.parent
        if parent is not None:
            seen.append((ctx.run.depth, parent.state.get("mode"), parent.parent))
            seen.append((ctx.run.system_prompt, parent.system_prompt))

    child = AgentBuilder().with_driver(ScriptedDriver([call("look"), say("ok")])).with_tools(look)
    built = child.with_system_prompt("Be brief.").build()

    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return str((await context.spawn(built, "go")).text)

    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("delegate"), say("done")]))
        .with_tools(delegate)
        .on_execution_start(remember)
        .on_before_tool_use(note, scope="tree")
        .build()
    )
    agent.run_sync("go")
    assert seen == [(1, "safe", None), ("Be brief.", "")]


class Approves:
    """A capability that says who answers."""

    def __init__(self, approver: Any) -> None:
        self.approver = approver

    def configure(self, builder: AgentBuilder) -> None:
        builder.with_approver(self.approver)


def says_yes(pending: Any) -> Decision:
    """An approver."""
    return Decision.allow()


def says_no(pending: Any) -> Decision:
    """Another one."""
    return Decision.deny("no")


@pytest.mark.parametrize("own", [says_no, "deny"])
def test_a_capability_cannot_replace_the_approver_of_its_user(own: Any) -> None:
    """Who answers is the user's to say; the builder stays as it was."""
    builder = AgentBuilder().with_approver(own)
    with pytest.raises(
        BuildError, match=r"'Approves' cannot replace the approver.*after the capability"
    ):
        builder.with_capability(Approves(says_yes))
    assert builder.build(model=None).definition.approver == own


def test_a_capability_may_set_an_approver_and_make_it_stricter() -> None:
    """Without an approver, with the same one, and with none wanted; the user's choice wins."""
    for before, given in ((None, says_yes), (says_yes, says_yes), (says_yes, "deny")):
        builder = AgentBuilder() if before is None else AgentBuilder().with_approver(before)
        builder.with_capability(Approves(given))
        assert builder.build(model=None).definition.approver == given
        assert builder.with_approver(says_no).build(model=None).definition.approver is says_no
