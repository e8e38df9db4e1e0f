"""Runs whose process was killed: in a model, a hook, a tool, a child, a question; and how they continue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from case_world import IN_DOUBT, Case, World
from run_cases import NOTHING, YES, asking, helper, parent, payer

from hookline import AgentBuilder, ToolContext, tool
from hookline.definition import Doubt
from hookline.errors import RateLimitError
from hookline.testing import ScriptedDriver, call, calls, say


def dying_hook(world: World, place: str) -> Callable[[Any], Any]:
    """A hook that has nothing to say, and may be where the process dies."""

    async def hook(_: Any) -> None:
        await world.reach(place)

    return hook


def steps(world: World) -> AgentBuilder:
    """Three steps with every kind of tool, and hooks that change the state before the one that dies."""
    turns = (
        calls(call("look"), call("pay", amount=1)),
        calls(call("note", text="a"), call("pay", amount=2)),
        say("Done.", tokens=3),
    )
    builder = world.builder(*turns)
    for point in (
        "prompt_submit", "before_step", "before_inference", "after_inference", "before_tool_use", "after_tool_use",
        "after_step", "should_continue", "stop", "output", "execution_end",
    ):  # fmt: skip
        builder.add_hook(point, counting(point), name=f"count-{point}")
        builder.add_hook(point, dying_hook(world, point), name=f"die-{point}", priority=-1)
    return builder


def counting(point: str) -> Callable[[Any], Any]:
    """A hook that counts how often it was asked. What it counted must not be lost or counted twice."""

    def count(ctx: Any) -> Any:
        return ctx.with_metadata(f"count-{point}", ctx.get(f"count-{point}", 0) + 1)

    return count


def judged(world: World) -> AgentBuilder:
    """A policy judges a call, and the process dies before its intent is on record."""
    return (
        world.builder(calls(call("look"), call("pay", amount=3)), NOTHING)
        .on_before_tool_use(lambda ctx: ctx.with_args(amount=4), matcher="pay", name="changes")
        .on_before_tool_use(dying_hook(world, "policy"), matcher="pay", tier="policy", name="judge")
    )


def beside(world: World) -> AgentBuilder:
    """One of two calls is done when the process dies in the other."""
    return world.builder(calls(call("pay", amount=6), call("wait")), NOTHING)


def first(name: str) -> Callable[[World], AgentBuilder]:
    """One call of one tool."""
    made = {"look": call("look"), "note": call("note", text="n"), "pay": call("pay", amount=7)}

    def build(world: World) -> AgentBuilder:
        return world.builder(made[name], NOTHING)

    return build


def found_out(doubt: Any) -> Any:
    """Somebody who knows that the payment was not made."""
    assert doubt.call.name == "pay"
    return Doubt.NOT_DONE


def known_result(doubt: Any) -> Any:
    """Somebody who knows the result of the payment."""
    return {"paid": doubt.call.args["amount"], "key": doubt.idempotency_key}


def questioned(world: World) -> AgentBuilder:
    """The process dies while the approver thinks."""

    async def approve(question: Any) -> bool:
        await world.reach(f"approver {question.tool_call.name}")
        return True

    return asking(world).with_approver(approve)


def thin_parent(world: World) -> AgentBuilder:
    """An idempotent tool that starts two children."""

    @tool(effect="idempotent")
    async def delegate(context: ToolContext) -> str:
        """Have others do it."""
        texts = []
        for number in (1, 2):
            result = await context.spawn(helper(world).build(), f"task {number}", name="helper")
            texts.append(result.text)
        return " ".join(texts)

    return world.builder(call("delegate"), NOTHING).with_tools(delegate)


def watched_parent(world: World) -> AgentBuilder:
    """A parent that may die when a child begins or is done."""
    return (
        parent(helper, payer)(world)
        .on_subagent_start(dying_hook(world, "child starts"), name="start-watch")
        .on_subagent_stop(dying_hook(world, "child stops"), name="stop-watch")
        .with_approver(lambda _: True)
    )


def retrying(world: World) -> AgentBuilder:
    """The process dies in the second attempt at a model."""

    class Busy:
        model = "busy"
        asked = 0

        async def infer(self, request: Any, turn: Any) -> Any:
            """Busy at first."""
            self.asked += 1
            if self.asked == 1:
                raise RateLimitError("slow down", retry_after=2.0)
            await world.reach("second attempt")
            return await ScriptedDriver([say("At last.")]).infer(request, turn)

    return world.builder().with_driver(Busy())


KILLED = [
    Case("killed-model-1", steps, kill_at=("main model 1",)),
    Case("killed-model-2", steps, kill_at=("main model 2",)),
    Case("killed-model-3", steps, kill_at=("main model 3",)),
    *[
        Case(f"killed-{point.replace('_', '-')}", steps, kill_at=(point,))
        for point in (
            "before_step", "before_inference", "after_inference", "before_tool_use", "after_tool_use", "after_step",
            "should_continue", "stop", "output", "execution_end",
        )
    ],
    Case("killed-before-intent", judged, kill_at=("policy",)),
    Case("killed-pure", first("look"), kill_at=("look",)),
    Case("killed-idempotent", first("note"), kill_at=("note",)),
    Case("killed-once", first("pay"), kill_at=("pay",)),
    Case("killed-once-asked", first("pay"), kill_at=("pay",), later=({"pay": YES},)),
    Case("killed-once-found-out", first("pay"), kill_at=("pay",)),
    Case("killed-once-known", first("pay"), kill_at=("pay",)),
    Case("killed-beside", beside, kill_at=("wait",)),
    Case("killed-question-1", questioned, kill_at=("approver pay",)),
    Case("killed-question-2", questioned, kill_at=("approver note",)),
    Case("killed-child-model", parent(helper), kill_at=("helper model 2",)),
    Case("killed-child-tool", parent(helper), kill_at=("note",)),
    Case("killed-child-starts", watched_parent, kill_at=("child starts",)),
    Case("killed-child-stops", watched_parent, kill_at=("child stops",)),
    Case("killed-second-child", thin_parent, kill_at=("note",)),
    Case("killed-retry", retrying, kill_at=("second attempt",)),
    Case("killed-then-asked", first("pay"), kill_at=("pay", ""), later=({"pay": YES},)),
    Case("killed-twice", steps, kill_at=("main model 2", "main model 3")),
    Case("killed-three-times", steps, kill_at=("before_step", "note", "output")),
]  # fmt: skip
"""Runs that were cut off."""

IN_DOUBT.update(
    {
        "killed-once-asked": "ask",
        "killed-then-asked": "ask",
        "killed-once-found-out": found_out,
        "killed-once-known": known_result,
    }
)
