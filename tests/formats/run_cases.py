"""Runs that ended, in every way in which one can, and runs that wait for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from case_world import TICK, Case, World

from hookline import (
    Agent,
    AgentBuilder,
    Decision,
    ErrorPolicy,
    HookOutcome,
    HookPoint,
    ToolCall,
    ToolContext,
    hook,
    tool,
)
from hookline.capabilities import Hooks
from hookline.errors import AuthenticationError, OverloadedError, RateLimitError
from hookline.flow import ErrorAction, ErrorClass
from hookline.state import (
    Answer,
    Attachment,
    InferenceRequest,
    InferenceResponse,
    Reasoning,
    Usage,
    UserMessage,
)
from hookline.testing import ScriptedDriver, call, calls, say

NOTHING = say("Done.", tokens=3)


def block(reason: str) -> Callable[[Any], HookOutcome]:
    """A hook that blocks whatever it is asked about."""
    return lambda _: HookOutcome.block(reason)


# --- the model and the tools ----------------------------------------------------------------------


def plain(world: World) -> AgentBuilder:
    """Two tools in one step, another step, an answer."""
    turns = (
        calls(call("look", at="window"), call("pay", amount=5), tokens=7),
        call("note", text="paid", tokens=2),
        NOTHING,
    )
    return world.builder(*turns).with_system_prompt("You are careful.")


def spoken(world: World) -> AgentBuilder:
    """A model that thinks, has a price and a cache, and is cut short."""
    made = InferenceResponse(
        "I look first.",
        (ToolCall("c1", "look", {"at": "sky"}),),
        Usage(100, 20, 1, 0.25, 0, 40, 30),
        "thinker-1",
        (Reasoning("It may rain.", "seal", "maker", "thinking", "c1"),),
    )
    short = InferenceResponse(
        "It is", usage=Usage(10, 5, 1, unpriced_requests=1), model="thinker-1", finish="length"
    )
    return world.builder(made, short)


def wrong_calls(world: World) -> AgentBuilder:
    """An unknown tool, arguments that do not fit, arguments that are no JSON, and a tool that fails."""
    malformed = InferenceResponse(
        "", (ToolCall.from_json("c1", "look", '{"at": '), ToolCall("c2", "look", {"at": "me"}))
    )
    wrong = calls(call("nothing"), call("pay", amount="much"), call("fails"))
    return world.builder(wrong, malformed, NOTHING)


def retried(world: World) -> AgentBuilder:
    """A model that is busy twice, and a tool that works at the third attempt."""
    busy = [
        RateLimitError("slow down", retry_after=3.0),
        OverloadedError("full"),
        call("fails", times=2),
    ]
    actions = {
        ErrorClass.TOOL: ErrorAction.RETRY,
        ErrorClass.RATE_LIMIT: ErrorAction.RETRY,
        ErrorClass.OVERLOADED: ErrorAction.RETRY,
    }
    policy = ErrorPolicy(actions=actions, max_retries=3)
    return world.builder(busy, NOTHING).with_error_policy(policy)


def fallback(world: World) -> AgentBuilder:
    """The first model fails, and the second one is asked."""
    first = ScriptedDriver([OverloadedError("full"), OverloadedError("still full")])
    second = ScriptedDriver([call("look", at="spare"), say("From the second.")])
    return world.builder().with_model([first, second])


def failed(world: World) -> AgentBuilder:
    """The model refuses the key in the second step."""
    return (
        world.builder(call("look"), AuthenticationError("wrong key"))
        .on_error(lambda ctx: ctx.with_metadata("error", ctx.error_class), name="error-noted")
        .on_agent_failed(
            lambda ctx: ctx.with_metadata("failed", ctx.error_message), name="failure-noted"
        )
    )


def cancelled(world: World) -> AgentBuilder:
    """A tool cancels its own run."""

    @tool
    async def leave(context: ToolContext) -> str:
        """Cancel."""
        assert world.agent is not None
        world.agent.cancel(context.state.run_id, "enough")
        await asyncio.sleep(5)
        return "never"

    return world.builder(calls(call("leave"), call("look"))).with_tools(leave)


# --- hooks ----------------------------------------------------------------------------------------


def refused_run(world: World) -> AgentBuilder:
    """The run is refused."""
    return world.builder(NOTHING).on_execution_start(block("closed today"), name="closed")


def refused_prompt(world: World) -> AgentBuilder:
    """The prompt is refused."""
    return world.builder(NOTHING).on_prompt_submit(block("not a question"), name="gate")


def refused_step(world: World) -> AgentBuilder:
    """The second step is refused."""

    def once(ctx: Any) -> HookOutcome | None:
        return HookOutcome.block("one step is enough") if ctx.step_index else None

    return world.builder(call("look"), NOTHING).on_before_step(once, name="one-step")


def withheld(world: World) -> AgentBuilder:
    """The answer is withheld."""
    return world.builder(call("look"), say("The secret is 7.")).on_output(
        block("it is a secret"), name="secret-keeper"
    )


def changed_output(world: World) -> AgentBuilder:
    """The answer is changed."""
    return world.builder(say("hello")).on_output(
        lambda ctx: ctx.with_output(ctx.output.upper()), name="shout"
    )


def stopped(world: World) -> AgentBuilder:
    """A hook stops the run at the second call of a step."""
    return world.builder(
        calls(call("look"), call("pay", amount=1), call("note", text="x"))
    ).on_before_tool_use(lambda _: HookOutcome.stop("no payments"), matcher="pay", name="stopper")


def blocked(world: World) -> AgentBuilder:
    """Calls are blocked, answered, changed; results are withheld and changed; a response is discarded and supplied."""

    def supply(ctx: Any) -> Any:
        return (
            ctx.with_response(InferenceResponse("Supplied.")) if ctx.state.step_count == 2 else None
        )

    def discard(ctx: Any) -> Any:
        return HookOutcome.block("say it again") if ctx.state.step_count == 1 else None

    turns = (
        calls(
            call("pay", amount=1), call("look", at="cache"), call("look", at="old"),
            call("note", text="secret"), call("note", text="plain"),
        ),
        say("Discarded."),
        say("Not asked."),
    )  # fmt: skip

    def before_look(ctx: Any) -> Any:
        at = ctx.tool_call.args["at"]
        return ctx.with_result("from the cache") if at == "cache" else ctx.with_args(at="new")

    def after_note(ctx: Any) -> Any:
        text = ctx.tool_call.args["text"]
        return HookOutcome.block("secret") if text == "secret" else ctx.with_result("as if noted")

    return (
        world.builder(*turns)
        .on_before_tool_use(
            block("nothing is paid"), matcher="pay", tier="policy", name="no-paying"
        )
        .on_before_tool_use(before_look, matcher="look", name="cache")
        .on_after_tool_use(after_note, matcher="note", name="note-keeper")
        .on_before_inference(supply, name="supplier")
        .on_after_inference(discard, name="discarder")
        .on_should_continue(
            lambda ctx: ctx.request_continue("Once more.") if ctx.state.step_count == 1 else None,
            name="again",
        )
    )


POINTS = """
    session_start execution_start prompt_submit before_step before_inference after_inference before_tool_use
    permission_request after_tool_use after_step should_continue stop output execution_end error agent_failed
    subagent_start subagent_stop before_compact session_end
""".split()
"""The points of the time when the data was written. A newer point is not in it."""


def every_point(world: World) -> AgentBuilder:
    """A hook at every point that notes where it was, one that has nothing to say, and one that only watches."""
    builder = world.builder(call("delegate"), call("pay", amount=2), NOTHING).with_tools(
        delegate_to(world, helper)
    )
    for name in POINTS:
        point = HookPoint(name)
        builder.add_hook(point, noting(name), name=f"note-{name}")
        builder.add_hook(point, lambda _: None, name=f"quiet-{name}")
        builder.add_hook(point, lambda _: None, tier="observer", name=f"watch-{name}")
        builder.add_hook(point, lambda _: None, tier="policy", name=f"policy-{name}")
    builder.around_tool_use(around, name="around-tool").around_inference(
        around, name="around-model"
    )
    builder.on_before_tool_use(lambda _: HookOutcome.ask("really?"), matcher="pay", name="asker")
    return builder.with_approver(lambda _: True)


async def around(ctx: Any, call_next: Any) -> Any:
    """A hook around an action that leaves it as it is."""
    return await call_next(ctx)


def noting(name: str) -> Callable[[Any], Any]:
    """A hook that changes the state, where it may."""

    def note(ctx: Any) -> Any:
        if name in ("subagent_start", "subagent_stop"):
            return None
        return ctx.with_metadata(f"at {name}", ctx.state.step_count)

    return note


def evaluations(world: World) -> AgentBuilder:
    """All four evaluations, an objection, and a stop hook that gives in."""

    def object_once(ctx: Any) -> Any:
        return (
            None
            if ctx.get("objected")
            else HookOutcome.block("Look again.", ctx.with_metadata("objected", True))
        )

    return (
        world.builder(call("look"), say("Short."), say("Longer."), say("Longest."))
        .on_after_step(lambda ctx: ctx.allow_continue("there is more"), name="more")
        .on_should_continue(lambda ctx: ctx.allow_stop("fine"), name="fine")
        .on_should_continue(
            lambda ctx: ctx.request_continue("Say more.") if ctx.step.text == "Short." else None, name="longer"
        )
        .on_stop(object_once, name="objector")
    )  # fmt: skip


def forbidden(world: World) -> AgentBuilder:
    """A hook forbids another step."""
    return world.builder(call("look"), NOTHING).on_after_step(
        lambda ctx: ctx.forbid("one is enough"), name="forbidder"
    )


def failing_hooks(world: World) -> AgentBuilder:
    """Hooks that fail: open, closed as a block, in shadow, and with a verdict in shadow."""

    def broken(_: Any) -> None:
        raise ValueError("broken hook")

    return (
        world.builder(calls(call("look"), call("pay", amount=3)), NOTHING)
        .on_before_step(broken, on_failure="open", name="broken-open")
        .on_before_tool_use(broken, matcher="pay", name="broken-closed")
        .on_before_tool_use(block("would block"), shadow=True, name="shadow-block")
        .on_after_tool_use(broken, tier="observer", name="broken-observer")
    )


def failed_by_hook(world: World) -> AgentBuilder:
    """A hook that fails closed where that is an error."""

    def broken(_: Any) -> None:
        raise ValueError("broken hook")

    return world.builder(call("look"), NOTHING).on_after_step(broken, name="broken-after-step")


def altered_request(world: World) -> AgentBuilder:
    """A hook adds to the request, another one rewrites the conversation."""

    def add(ctx: Any) -> Any:
        more = (*ctx.request.messages, UserMessage("Be short.", "adder"))
        return ctx.with_request(
            ctx.request.with_messages(more)
            .with_system("Changed.")
            .with_model("other")
            .with_options(temperature=0)
        )

    def rewrite(ctx: Any) -> Any:
        state = ctx.state
        first = state.messages[:1]
        return (
            ctx.with_state(state.with_messages(type(state.messages)(first)))
            if state.step_count == 1
            else None
        )

    return (
        world.builder(call("look"), call("look", at="roof"), NOTHING)
        .on_before_inference(add, name="adder")
        .on_after_step(rewrite, name="rewriter")
    )


def injected(world: World) -> AgentBuilder:
    """A hook speaks to the model while a step waits, and another one changes the prompt."""

    def speak(ctx: Any) -> Any:
        return ctx.with_state(ctx.state.with_user_message("By the way.", by="speaker"))

    return (
        world.builder(call("look"), NOTHING)
        .on_prompt_submit(lambda ctx: ctx.with_prompt(ctx.prompt + " Please."), name="polite")
        .on_before_tool_use(speak, name="speaker")
        .on_session_start(lambda ctx: ctx.with_metadata("source", ctx.source), name="session-noted")
    )


def lifted(world: World) -> AgentBuilder:
    """One capability's `allow` lifts another's `ask`: the record does not say whose each is."""
    asks = Hooks("asks", hook("before_tool_use", lambda _: HookOutcome.ask("sure?"), name="asks"))
    allows = Hooks(
        "allows", hook("before_tool_use", lambda _: HookOutcome.allow("fine"), name="allows")
    )
    return world.builder(call("look"), NOTHING).with_capability(asks).with_capability(allows)


def consulted(world: World) -> AgentBuilder:
    """A hook asks a model twice, and charges for a third."""

    async def second_opinion(ctx: Any) -> Any:
        question = InferenceRequest((UserMessage("Is it safe?"),))
        for _ in range(2):
            await ctx.run.ask_model(question, name="second-opinion", driver=Thinker())
        ctx.run.charge(Usage(output_tokens=4, requests=1))

    return world.builder(call("look"), NOTHING).on_before_tool_use(
        second_opinion, name="second-opinion"
    )


class Thinker:
    """A model that thinks and calls tools when it is asked for an opinion."""

    model = "thinker-2"

    async def infer(self, request: Any, turn: Any) -> InferenceResponse:
        """The opinion."""
        thoughts = (Reasoning("Is it?", "seal", "maker"),)
        wanted = (ToolCall("o1", "look", {"at": "it"}),)
        return InferenceResponse("yes", wanted, Usage(1, 5, 1), "thinker-2", thoughts, "length")


# --- limits ---------------------------------------------------------------------------------------


def limited(**limits: Any) -> Callable[[World], AgentBuilder]:
    """An agent that never ends by itself."""

    def build(world: World) -> AgentBuilder:
        turn = InferenceResponse("", (ToolCall("c", "look"),), Usage(10, 10, 1, 0.5), "priced")
        turns = [
            InferenceResponse("", (ToolCall(f"c{n}", "look"),), turn.usage, turn.model)
            for n in range(9)
        ]
        return world.builder(*turns).with_limits(**limits)

    return build


def objections(world: World) -> AgentBuilder:
    """A stop hook that is never content."""
    return (
        world.builder(*[say("Done.")] * 4)
        .on_stop(block("Try again."), name="never-content")
        .with_limits(objections=2)
    )


# --- approvals ------------------------------------------------------------------------------------


def asking(world: World, *turns: Any) -> AgentBuilder:
    """Two policies ask about payments, and one about notes."""
    given = turns or (calls(call("look"), call("pay", amount=5), call("note", text="n")), NOTHING)
    return (
        world.builder(*given)
        .on_before_tool_use(lambda _: HookOutcome.ask("money moves"), matcher="pay", tier="policy", name="money")
        .on_before_tool_use(lambda _: HookOutcome.ask("it is Friday"), matcher="pay", name="friday")
        .on_before_tool_use(lambda _: HookOutcome.ask("notes stay"), matcher="note", tier="policy", name="notes")
    )  # fmt: skip


def approver(world: World) -> AgentBuilder:
    """An approver that edits, refuses and remembers."""
    turns = (
        calls(call("pay", amount=5), call("note", text="a")),
        calls(call("pay", amount=1), call("pay", amount=5), call("note", text="a"), call("look")),
        NOTHING,
    )

    def answer(question: Any) -> Decision:
        if question.tool_call.name == "note":
            return Decision.deny("not now", remember=True)
        if question.tool_call.args["amount"] == 5:
            return Decision(Answer.EDIT, args={"amount": 1}, remember=True)
        return Decision.allow(remember=True)

    return asking(world, *turns).with_approver(answer)


def permission_hooks(world: World) -> AgentBuilder:
    """Permission hooks answer: an edit, a no, and nothing."""
    return (
        asking(world)
        .on_permission_request(lambda _: Decision.edit(amount=2), matcher="pay", name="editor")
        .on_permission_request(lambda _: Decision.deny("no notes"), matcher="note", name="refuser")
        .on_permission_request(lambda _: None, name="undecided")
    )


def with_rule(world: World) -> AgentBuilder:
    """An answer that holds for a rule, in later steps too."""
    return asking(world, call("note", text="a"), call("note", text="b"), NOTHING)


def eventful(world: World) -> AgentBuilder:
    """A step in which much has happened before it waits: a busy model, thoughts, a wrong call, words of hooks."""
    made = InferenceResponse(
        "I pay.",
        (ToolCall("c1", "nothing"), ToolCall("c2", "pay", {"amount": 5}), ToolCall("c3", "look")),
        Usage(5, 5, 1, 0.5),
        "thinker-1",
        (Reasoning("Shall I?", "seal", "maker"),),
    )

    def speak(ctx: Any) -> Any:
        return ctx.with_state(ctx.state.with_user_message("By the way.", by="speaker"))

    return (
        asking(world, [RateLimitError("slow down", retry_after=1.0), made], NOTHING)
        .on_after_inference(lambda ctx: ctx.allow_continue("there is more"), name="more")
        .on_before_tool_use(speak, matcher="pay", priority=5, name="speaker")
    )


def expiring(world: World) -> AgentBuilder:
    """A question with an end."""
    return asking(world, call("pay", amount=5), NOTHING).with_approval_expiry(3600)


# --- children -------------------------------------------------------------------------------------


def helper(world: World) -> AgentBuilder:
    """A child that looks and notes."""
    return world.builder(
        calls(call("look", at="child"), call("note", text="child")),
        say("Child done.", tokens=2),
        name="helper",
    )


def payer(world: World) -> AgentBuilder:
    """A child that pays, about which a person is asked."""
    return (
        world.builder(call("look", at="inside"), call("pay", amount=9), say("Child paid."), name="payer")
        .on_before_tool_use(lambda _: HookOutcome.ask("a child pays"), matcher="pay", name="child-asks")
    )  # fmt: skip


def breaking(world: World) -> AgentBuilder:
    """A child that fails."""
    return world.builder(AuthenticationError("no key"), name="breaking")


def middle(world: World) -> AgentBuilder:
    """A child with a child that pays."""
    return world.builder(call("delegate"), say("Middle done."), name="middle").with_tools(
        delegate_to(world, payer)
    )


def delegate_to(world: World, *makers: Callable[[World], AgentBuilder]) -> Any:
    """A tool that starts a child of each kind, one after the other."""

    @tool
    async def delegate(context: ToolContext) -> str:
        """Have others do it."""
        texts = []
        for make in makers:
            result = await context.spawn(make(world).build(), "task", name=make.__name__)
            texts.append(f"{make.__name__}: {result.text or result.status.value}")
        return ", ".join(texts)

    return delegate


def parent(*makers: Callable[[World], AgentBuilder]) -> Callable[[World], AgentBuilder]:
    """An agent that delegates in its first step."""

    def build(world: World) -> AgentBuilder:
        turns = (calls(call("delegate"), call("look", at="parent")), NOTHING)
        return world.builder(*turns).with_tools(delegate_to(world, *makers))

    return build


def guarded_parent(world: World) -> AgentBuilder:
    """A parent whose policy holds in its children."""
    return (
        parent(helper)(world)
        .on_before_tool_use(block("no notes"), matcher="note", tier="policy", name="no-notes")
        .on_subagent_start(lambda ctx: ctx.with_prompt(ctx.prompt + " Quickly."), name="hurry")
        .on_subagent_stop(lambda ctx: HookOutcome.proceed(ctx), name="child-seen")
    )


def unsteady(world: World) -> AgentBuilder:
    """A tool that fails, is tried again, and then starts a child that waits."""

    @tool(effect="idempotent")
    async def delegate(context: ToolContext) -> str:
        """Have another one do it, at the second attempt."""
        world.do("delegate")
        if world.did.count("delegate") == 1:
            raise OSError("the line is dead")
        return str((await context.spawn(payer(world).build(), "task", name="payer")).text)

    retry = ErrorPolicy(actions={ErrorClass.TOOL: ErrorAction.RETRY}, max_retries=2)
    return world.builder(call("delegate"), NOTHING).with_tools(delegate).with_error_policy(retry)


def family(*makers: Callable[[World], AgentBuilder]) -> Callable[[World], dict[str, Agent]]:
    """The agents of the children, by name."""
    return lambda world: {make.__name__: make(world).build() for make in makers}


YES, NO = Decision.allow(), Decision.deny("no")
PICTURE = Attachment.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png", name="dot.png")
LINK = Attachment("application/pdf", url="https://example.com/a.pdf")

FINISHED = [
    Case("plain", plain, "Pay the bill.", (PICTURE, LINK)),
    Case("spoken", spoken),
    Case("wrong-calls", wrong_calls),
    Case("retried", retried),
    Case("fallback", fallback),
    Case("failed", failed),
    Case("cancelled", cancelled),
    Case("refused-run", refused_run),
    Case("refused-prompt", refused_prompt),
    Case("refused-step", refused_step),
    Case("withheld", withheld),
    Case("changed-output", changed_output),
    Case("stopped", stopped),
    Case("blocked", blocked),
    Case("every-point", every_point, children=family(helper)),
    Case("evaluations", evaluations),
    Case("forbidden", forbidden),
    Case("failing-hooks", failing_hooks),
    Case("failed-by-hook", failed_by_hook),
    Case("altered-request", altered_request, attachments=(PICTURE,)),
    Case("injected", injected),
    Case("lifted", lifted),
    Case("consulted", consulted),
    Case("step-limit", limited(steps=2)),
    Case("token-limit", limited(tokens=30)),
    Case("time-limit", limited(seconds=TICK * 8)),
    Case("cost-limit", limited(cost=1.0)),
    Case("tool-call-limit", limited(tool_calls=2)),
    Case("objection-limit", objections),
    Case("approver", approver),
    Case("permission-hooks", permission_hooks),
    Case("paused-allowed", asking, answers=({"pay": YES, "note": NO},)),
    Case(
        "paused-twice",
        asking,
        answers=({"pay": Decision.edit(amount=4)}, {"note": Decision.allow(remember=True)}),
    ),
    Case("paused-rule", with_rule, answers=({"note": Decision.allow(rule="note(*)")},)),
    Case("children", parent(helper, breaking), children=family(helper, breaking)),
    Case("guarded-children", guarded_parent, children=family(helper)),
    Case(
        "child-paused",
        parent(helper, payer),
        answers=({"pay": Decision.allow(remember=True)},),
        children=family(helper, payer),
    ),
    Case(
        "grandchild-paused", parent(middle), answers=({"pay": YES},), children=family(middle, payer)
    ),
]
"""Runs that are over."""

PAUSED = [
    Case("waits", asking, later=({"pay": YES, "note": YES},)),
    Case("waits-denied", asking, later=({"pay": NO, "note": YES},)),
    Case("waits-edited", asking, later=({"pay": Decision.edit(amount=1), "note": YES},)),
    Case("waits-half", asking, answers=({"note": YES},), later=({"pay": YES},)),
    Case(
        "waits-half-edited",
        asking,
        answers=({"pay": Decision.edit(amount=2)},),
        later=({"note": YES},),
    ),
    Case("waits-eventful", eventful, later=({"pay": YES},)),
    Case("waits-expired", expiring, later=({"pay": YES},)),
    Case("waits-in-child", parent(helper, payer), later=({"pay": YES},)),
    Case("waits-unsteady", unsteady, later=({"pay": YES},)),
    Case("waits-in-grandchild", parent(middle), later=({"pay": NO},)),
]
"""Runs that wait for a person."""
