"""Answers that are handed to `resume`, and edits that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from plain_store import PlainStore

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    RunStatus,
    ToolContext,
    ToolResult,
    tool,
)
from hookline.errors import TranscriptError, UsageError
from hookline.journal import MemoryJournal, PromptSubmitted, fold
from hookline.state import (
    AssistantMessage,
    Attachment,
    ContinuationDecision,
    ContinuationEvaluation,
    ErrorInfo,
    InferenceResponse,
    Log,
    PendingApproval,
    Reasoning,
    ResultStatus,
    ToolCall,
    Usage,
    UserMessage,
)
from hookline.testing import ScriptedDriver, call, calls, say


class Desk:
    """Payments that a policy asks about, over all processes."""

    def __init__(self) -> None:
        self.journal = PlainStore()
        self.paid: list[int] = []

    def builder(self, *turns: Any) -> AgentBuilder:
        """An agent as a new process builds it."""

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        return (
            AgentBuilder()
            .with_driver(ScriptedDriver(turns or [say("done")]))
            .with_tools(pay)
            .with_journal(self.journal)
            .on_before_tool_use(lambda ctx: HookOutcome.ask("money"), name="cashier", tier="policy")
        )

    def agent(self, *turns: Any) -> Agent:
        return self.builder(*turns).build()


@pytest.fixture
def desk() -> Desk:
    """Nothing is paid yet."""
    return Desk()


PAY = call("pay", amount=5)


@pytest.mark.parametrize("way", ["resume", "approver", "permission hook"])
def test_a_no_in_plain_words_is_a_no(desk: Desk, way: str) -> None:
    """As a web page sends it: `Decision(**json)`."""
    no = Decision(answer="deny", reason="not today")  # type: ignore[arg-type]
    if way == "approver":
        result = desk.builder(PAY, say("done")).with_approver(lambda _: no).build().run_sync("go")
    elif way == "permission hook":
        builder = desk.builder(PAY, say("done")).on_permission_request(lambda _: no)
        result = builder.build().run_sync("go")
    else:
        paused = desk.agent(PAY).run_sync("go", run_id="r")
        result = desk.agent().resume_sync("r", {paused.pending[0].id: no})
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [])
    assert result.steps[0].results[0].text == "Denied: not today"


# --- a question for each call that is shown -----------------------------------------------------------


def rounded(ctx: Any) -> Any:
    """Nobody pays just below fifty."""
    return ctx.with_args(amount=40) if ctx.tool_call.args["amount"] == 50 else None


def test_an_answer_to_what_a_call_was_is_refused(desk: Desk) -> None:
    """Two people see a payment of 5; one edits it, a hook changes the edit, and the other says yes to 5."""

    def agent() -> Agent:
        return desk.builder(PAY).on_before_tool_use(rounded, name="rounded").build()

    (shown,) = agent().run_sync("go", run_id="r").pending
    (asked,) = agent().resume_sync("r", {shown.id: Decision.edit(amount=50)}).pending
    assert (dict(asked.tool_call.args), asked.id) == ({"amount": 40}, f"{shown.id}/question-2")
    with pytest.raises(UsageError, match=rf"question '{shown.id}' was answered already \(edit\)"):
        agent().resume_sync("r", {shown.id: True})
    assert desk.paid == []
    assert desk.agent().resume_sync("r", {asked.id: True}).status is RunStatus.COMPLETED
    assert desk.paid == [40]


@pytest.mark.parametrize("rounds", [1, 2])
def test_no_two_questions_about_a_call_have_one_id(desk: Desk, rounds: int) -> None:
    """Not even when a call becomes again what it was before, over pauses."""

    def agent() -> Agent:
        asking = desk.builder(PAY).on_before_tool_use(
            lambda ctx: ctx.with_args(amount=ctx.tool_call.args["amount"] - 1), name="minus-one"
        )
        return asking.build()

    (first,) = agent().run_sync("go", run_id="r").pending
    seen = [first]
    for _ in range(rounds):
        for amount in (8, 5):
            edit = {seen[-1].id: Decision.edit(amount=amount)}
            seen += agent().resume_sync("r", edit).pending
    assert [question.tool_call.args["amount"] for question in seen] == [4, *[7, 4] * rounds]
    assert len({question.id for question in seen}) == len(seen)


def test_a_call_that_was_edited_and_approved_is_resumed_as_it_was_approved(desk: Desk) -> None:
    """After every record: whatever a process dies of, nobody is asked twice and nothing else is paid."""
    asked: list[int] = []

    def approve(question: PendingApproval) -> Decision:
        asked.append(question.tool_call.args["amount"])
        return Decision.edit(amount=50) if asked[-1] == 5 else Decision.allow()

    def agent(*turns: Any) -> Agent:
        builder = desk.builder(*turns).on_before_tool_use(rounded, name="rounded")
        return builder.with_approver(approve).build()

    agent(PAY, say("done")).run_sync("go", run_id="r")
    assert (asked, desk.paid) == ([5, 40], [40])
    written = desk.journal.written
    kinds = [line.split(b'"type":"')[1].split(b'"')[0] for _, line in written]
    answered = [at for at, kind in enumerate(kinds) if kind == b"approval_answered"]
    for at in range(answered[0] + 1, kinds.index(b"step") + 1):
        desk.journal = PlainStore(written[:at])
        desk.paid.clear()
        asked.clear()
        result = agent(say("done")).resume_sync("r")
        assert asked == ([40] if at <= answered[1] else []), at
        has_started = b"call" in kinds[:at]
        assert desk.paid == ([] if has_started else [40]), at
        assert [dict(each.args) for each in result.steps[0].calls] == [{"amount": 40}]


# --- an answer for each that asks ---------------------------------------------------------------------


def sanctions(ctx: Any) -> Any:
    """A policy that is added while a run waits."""
    return HookOutcome.ask("look at the passport")


@pytest.mark.parametrize("answered", ["now", "before"])
def test_a_hook_that_asks_later_has_a_question_of_its_own(desk: Desk, answered: str) -> None:
    """Whether the yes to the others comes with the resume, or came before, with the answer to another call missing."""

    def stricter() -> Agent:
        return desk.builder().on_before_tool_use(sanctions, name="new", tier="policy").build()

    both = calls(PAY, call("pay", amount=6))
    one, two = desk.agent(both).run_sync("go", run_id="r").pending
    if answered == "before":
        desk.agent().resume_sync("r", {one.id: True})
        again = stricter().resume_sync("r", {two.id: True})
    else:
        again = stricter().resume_sync("r", {one.id: True, two.id: True})
    assert (again.status, desk.paid) == (RunStatus.PAUSED, [])
    assert [question.reason for question in again.pending] == ["money; look at the passport"] * 2
    assert [question.askers for question in again.pending] == [("cashier", "new")] * 2
    assert {one.id, two.id}.isdisjoint(question.id for question in again.pending)
    yes = {question.id: True for question in again.pending}
    assert stricter().resume_sync("r", yes).status is RunStatus.COMPLETED
    assert desk.paid == [5, 6]


def test_a_question_shows_what_everybody_asks(desk: Desk) -> None:
    """A person says yes to all of it, and a resume by the same agent needs no other."""

    def agent(*turns: Any) -> Agent:
        builder = desk.builder(*turns).on_before_tool_use(sanctions, name="new", tier="policy")
        return builder.build()

    (question,) = agent(PAY).run_sync("go", run_id="r").pending
    assert (question.reason, question.askers) == (
        "money; look at the passport",
        ("cashier", "new"),
    )
    assert agent().resume_sync("r", {question.id: True}).status is RunStatus.COMPLETED
    assert desk.paid == [5]


def test_an_edit_does_not_answer_a_hook_that_asks_about_the_edited_call(desk: Desk) -> None:
    """Only the hooks that asked about the original call are answered."""

    def agent() -> Agent:
        builder = desk.builder(PAY).on_before_tool_use(
            lambda ctx: sanctions(ctx) if ctx.tool_call.args["amount"] > 5 else None,
            name="new",
            tier="policy",
        )
        return builder.build()

    (small,) = agent().run_sync("go", run_id="r").pending
    again = agent().resume_sync("r", {small.id: Decision.edit(amount=6)})
    assert (again.status, desk.paid) == (RunStatus.PAUSED, [])
    assert [question.reason for question in again.pending] == ["money; look at the passport"]


def test_a_remembered_yes_is_for_the_hooks_that_had_asked(desk: Desk) -> None:
    """It does not answer a hook that asks later; a no is valid for every hook."""
    yes = desk.builder(PAY, say("done")).with_approver(lambda _: Decision.allow(remember=True))
    first = yes.build().run_sync("go").state
    assert desk.agent(PAY, say("done")).run_sync("go", state=first).status is RunStatus.COMPLETED
    stricter = desk.builder(PAY, say("done")).on_before_tool_use(
        sanctions, name="new", tier="policy"
    )
    paused = stricter.build().run_sync("go", state=first)
    assert (paused.status, desk.paid) == (RunStatus.PAUSED, [5, 5])
    no = desk.builder(PAY, say("done")).with_approver(lambda _: Decision.deny(remember=True))
    denied = no.build().run_sync("go", state=AgentState(messages=first.messages)).state
    stricter = desk.builder(PAY, say("done")).on_before_tool_use(
        sanctions, name="new", tier="policy"
    )
    result = stricter.build().run_sync("go", state=denied)
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [5, 5])


def test_permission_hooks_are_not_asked_about_what_was_answered_before_the_pause(
    desk: Desk,
) -> None:
    """Only about what still waits: they may have an opinion by now."""
    asked: list[int] = []

    def small(ctx: Any) -> Decision | None:
        asked.append(ctx.tool_call.args["amount"])
        return Decision.allow() if asked[-1] == 5 else None

    def agent(*turns: Any) -> Agent:
        return desk.builder(*turns).on_permission_request(small, name="small").build()

    (question,) = agent(calls(PAY, call("pay", amount=6))).run_sync("go", run_id="r").pending
    assert asked == [5, 6]
    result = agent().resume_sync("r", {question.id: True})
    assert (result.status, asked, desk.paid) == (RunStatus.COMPLETED, [5, 6, 6], [5, 6])


# --- an answer for each session, and for the whole tree of runs ---------------------------------------


def test_what_is_answered_for_a_session_holds_in_no_other(desk: Desk) -> None:
    """A state that is run in another session leaves it behind; without one it stays in its own."""
    yes = desk.builder(PAY, say("done")).with_approver(lambda _: Decision.allow(remember=True))
    state = yes.build().run_sync("go", session="A").state
    for session, status in (("B", RunStatus.PAUSED), ("A", RunStatus.COMPLETED)):
        agent = AgentBuilder().with_hooks(*desk.agent().definition.registrations)
        agent.with_driver(ScriptedDriver([PAY, say("done")]))
        agent.with_tools(*yes.build().definition.toolbox)
        result = agent.build().run_sync("go", state=state, session=session)
        assert result.status is status, session
        assert bool(result.state.remembered) is (session == "A")


def test_a_child_that_waits_is_resumed_with_the_run_it_is_a_part_of(desk: Desk) -> None:
    """Alone it would continue without the policies above it."""

    def child(*turns: Any) -> Agent:
        toolbox = desk.agent().definition.toolbox
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(*toolbox)
        return builder.with_journal(desk.journal).build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return str((await context.spawn(child(*script), "pay")).text)

    def agent(*turns: Any) -> Agent:
        return desk.builder(*turns).with_tools(delegate).build()

    script = [PAY]
    outer = agent(call("delegate"), say("done")).run_sync("go", run_id="r")
    (question,) = agent().resume_sync("r", {outer.pending[0].id: True}).pending
    assert question.run_id != "r"
    with pytest.raises(UsageError, match=r"is a part of run 'r'.* agent.resume\('r'"):
        child(say("paid")).resume_sync(question.run_id, {question.id: True})
    assert desk.paid == []
    script = [say("paid")]
    assert agent(say("done")).resume_sync("r", {question.id: True}).status is RunStatus.COMPLETED
    assert desk.paid == [5]
    assert child().resume_sync(question.run_id).text == "paid"


# --- edits that cannot be taken -----------------------------------------------------------------------


def test_an_edit_that_does_not_fit_the_tool_is_reported(desk: Desk) -> None:
    """And the question keeps waiting: nothing is used up."""
    (question,) = desk.agent(PAY).run_sync("go", run_id="r").pending
    for edit in (Decision.edit(amount="lots"), Decision.edit(tip=1)):
        with pytest.raises(UsageError, match=r"r/0/call_1_1' cannot be edited like that.*waits"):
            desk.agent().resume_sync("r", {question.id: edit})
    result = desk.agent().resume_sync("r", {question.id: Decision.edit(amount=6)})
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [6])


def test_a_question_of_a_child_keeps_waiting_after_an_edit_that_does_not_fit(desk: Desk) -> None:
    """What its tools take is known only inside: the question says what was wrong when it is shown again."""
    script = [PAY]

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return str((await context.spawn(desk.agent(*script), "pay")).text)

    def agent(*turns: Any) -> Agent:
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(delegate)
        return builder.with_journal(desk.journal).build()

    (question,) = agent(call("delegate")).run_sync("go", run_id="r").pending
    (again,) = agent().resume_sync("r", {question.id: Decision.edit(amount="lots")}).pending
    assert (again.id, desk.paid) == (question.id, [])
    assert "it cannot be edited as it was: the call to 'pay'" in again.reason
    script = [say("paid")]
    result = agent(say("done")).resume_sync("r", {again.id: Decision.edit(amount=6)})
    assert (result.status, desk.paid) == (RunStatus.COMPLETED, [6])


# --- what tools, hooks and models hand in is looked at where it enters, so that what is on record can be read back


class Says:
    """A model that gives just this."""

    def __init__(self, response: Any) -> None:
        self.response = response

    async def infer(self, request: Any, turn: Any) -> Any:
        return self.response


def gives(value: Any) -> Any:
    """A tool that gives this."""

    @tool(name="use")
    async def use() -> object:
        """Use."""
        return value

    return use


def asked() -> AgentBuilder:
    """An agent that uses its tool once."""
    return AgentBuilder().with_driver(ScriptedDriver([call("use"), say("done")]))


def recorded(builder: AgentBuilder) -> Any:
    """The run's result; its journal and its saved state can be read, and contain the same."""
    journal = MemoryJournal()
    result = builder.with_journal(journal).build().run_sync("go", run_id="r")
    assert fold(journal.read_sync("r")).state.messages == result.state.messages
    assert AgentState.from_json(result.state.to_json()).steps == result.state.steps
    return result


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (ToolResult("x", None, "weird"), "Invalid enum value 'weird' - at `result.status`"),  # type: ignore[arg-type]
        (
            ToolResult("x", reason=9),
            "tool 'use' gave a wrong result: Expected `str`, got `int` - at `result.reason`",
        ),  # type: ignore[arg-type]
        (ToolResult("x", decided_by=None), "got `null` - at `result.decided_by`"),  # type: ignore[arg-type]
        (ToolResult(None, "no", ResultStatus.ERROR), "got `str` - at `result.error`"),  # type: ignore[arg-type]
        (ToolResult(None, ErrorInfo(5, "x")), "got `int` - at `result.error.type`"),  # type: ignore[arg-type]
    ],
)
def test_a_result_that_cannot_be_kept_is_the_tools_failure(value: Any, problem: str) -> None:
    """The model reads what was wrong with it."""
    made = recorded(asked().with_tools(gives(value))).steps[0].results[0]
    assert made.status is ResultStatus.ERROR
    assert problem in made.text


def test_the_status_of_a_result_may_be_given_by_its_name() -> None:
    """It has that status from then on, in every comparison."""
    value = ToolResult(None, None, "denied", reason="never")  # type: ignore[arg-type]
    result = recorded(asked().with_tools(gives(value)))
    assert result.steps[0].results[0].status is ResultStatus.DENIED
    assert result.state.messages[2].text == "Denied: never"


def changed(**fields: Any) -> Callable[[Any], Any]:
    """A hook that changes the result of a tool."""
    return lambda ctx: replace(ctx, execution=replace(ctx.execution or ToolResult("x"), **fields))


@pytest.mark.parametrize("point", ["before_tool_use", "after_tool_use"])
@pytest.mark.parametrize("fields", [{"status": "fine"}, {"reason": 9}, {"duration": float("nan")}])
def test_a_result_that_cannot_be_kept_is_the_hooks_failure(
    point: str, fields: dict[str, Any]
) -> None:
    """It fails closed, and says which hook gave what."""
    builder = asked().with_tools(gives("x"))
    getattr(builder, f"on_{point}")(changed(**fields), name="odd")
    made = recorded(builder).steps[0].results[0]
    assert made.is_blocked
    assert "hook 'odd' gave " in made.text
    assert f"result.{next(iter(fields))}" in made.text


def test_a_result_made_around_a_tool_is_looked_at_too() -> None:
    """What comes from inside is not: that was."""

    async def odd(ctx: Any, call_next: Any) -> Any:
        return replace(await call_next(ctx), status="fine")

    made = recorded(asked().with_tools(gives("x")).around_tool_use(odd, name="odd"))
    assert (
        "hook 'odd' gave a wrong result: Invalid enum value 'fine'" in made.steps[0].results[0].text
    )


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (InferenceResponse("x", reasoning=("hm",)), "got `str` - at `response.reasoning[0]`"),  # type: ignore[arg-type]
        (
            InferenceResponse("x", reasoning=(Reasoning(5),)),
            "got `int` - at `response.reasoning[0].text`",
        ),  # type: ignore[arg-type]
        (InferenceResponse("x", finish=5), "got `int` - at `response.finish`"),  # type: ignore[arg-type]
        (
            InferenceResponse("x", usage=Usage(cache_read_tokens="many")),  # type: ignore[arg-type]
            "got `str` - at `response.usage.cache_read_tokens`",
        ),
        (
            InferenceResponse("x", (ToolCall("1", "use", {}, 5),)),
            "got `int` - at `response.calls[0].malformed`",
        ),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_cannot_be_kept_is_the_drivers_failure(response: Any, problem: str) -> None:
    """Whatever part of it is wrong."""
    result = recorded(AgentBuilder().with_driver(Says(response)))
    assert result.status is RunStatus.FAILED
    assert problem in str(result.error)


MISFITS = [
    UserMessage(5),  # type: ignore[arg-type]
    UserMessage("x", 5),  # type: ignore[arg-type]
    UserMessage("x", "", ("picture",)),  # type: ignore[arg-type]
    "just text",
    AssistantMessage("x", []),  # type: ignore[arg-type]
    AssistantMessage("x", (), (Reasoning(5),)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("message", MISFITS)
def test_a_message_that_cannot_be_kept_is_the_hooks_failure(message: Any) -> None:
    """In the conversation, and in a request."""

    def add(ctx: Any) -> Any:
        return ctx.with_state(ctx.state.with_messages(ctx.state.messages.append(message)))

    def show(ctx: Any) -> Any:
        return ctx.with_request(ctx.request.with_messages((*ctx.request.messages, message)))

    for hook in (add, show):
        builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
        result = recorded(builder.on_before_inference(hook, name="odd"))
        assert "hook 'odd' at before_inference" in str(result.error)


@pytest.mark.parametrize("message", MISFITS)
def test_a_run_does_not_begin_with_messages_that_cannot_be_kept(message: Any) -> None:
    """The error is raised where the state is passed in."""
    agent = AgentBuilder().with_driver(ScriptedDriver([say("done")])).build()
    with pytest.raises(TranscriptError, match="message"):
        agent.run_sync("go", state=AgentState(messages=Log([message])))


@pytest.mark.parametrize(
    "fields", [{"system": 5}, {"model": None}, {"tool_choice": 1}, {"tools": ("use",)}]
)
def test_a_request_that_cannot_be_made_again_is_the_hooks_failure(fields: dict[str, Any]) -> None:
    """A run that is resumed does again what its hooks did."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")])).with_tools(gives("x"))
    odd = builder.on_before_inference(
        lambda ctx: ctx.with_request(replace(ctx.request, **fields)), name="odd"
    )
    assert "hook 'odd' at before_inference: it made a request" in str(recorded(odd).error)


def test_a_stop_reason_is_text() -> None:
    """A hook that gives another has failed."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
    builder.on_before_step(lambda ctx: HookOutcome.stop("no", stop_reason=5), name="odd")  # type: ignore[arg-type]
    assert "its stop reason is 5" in str(recorded(builder).error)


@pytest.mark.parametrize("usage", [Usage("many"), Usage(1.5), Usage(cost=float("nan"))])  # type: ignore[arg-type]
def test_a_usage_that_cannot_be_counted_is_refused(usage: Usage) -> None:
    """Of a tool, sync or async, and of a hook."""

    @tool
    def use(context: ToolContext) -> str:
        """Use."""
        context.charge(usage)
        return "used"

    made = recorded(asked().with_tools(use)).steps[0].results[0]
    assert "a usage to be charged has" in made.text
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
    hook = builder.on_before_step(lambda ctx: ctx.run.charge(usage), name="odd")
    assert "cannot be charged" in str(recorded(hook).error)


def test_an_attachment_is_made_of_text() -> None:
    """It is on record with its prompt."""
    with pytest.raises(UsageError, match="has a name that is not text"):
        Attachment("image/png", "AAAA", "", 5)  # type: ignore[arg-type]


def test_a_journal_refuses_what_it_could_not_read() -> None:
    """Whatever was overlooked until then: what is written before stays readable, and nothing is written after."""
    journal = MemoryJournal()
    claim = journal.claim_sync("r")
    claim.write([PromptSubmitted("r", 0, 0.0, "fine")]).result()
    odd = PromptSubmitted("r", 1, 0.0, 5)  # type: ignore[arg-type]
    error = claim.write([odd]).exception()
    assert "a 'prompt' record would not be readable" in str(error)
    assert claim.write([PromptSubmitted("r", 1, 0.0, "too late")]).exception() is not None
    claim.give_back().result()
    assert [record.seq for record in journal.read_sync("r")] == [0]


@pytest.mark.parametrize(
    "said",
    [
        ContinuationEvaluation("x", "allow_stop"),  # type: ignore[arg-type]
        ContinuationEvaluation("x", ContinuationDecision.ALLOW_STOP, 5),  # type: ignore[arg-type]
        ContinuationEvaluation(5, ContinuationDecision.ALLOW_STOP),  # type: ignore[arg-type]
        ContinuationEvaluation("x", ContinuationDecision.ALLOW_STOP, "", 5),  # type: ignore[arg-type]
    ],
)
def test_a_word_on_continuing_that_says_nothing_is_the_hooks_failure(said: Any) -> None:
    """Whether the hook returns it or leaves it in its context."""
    for hook in (
        lambda ctx: said,
        lambda ctx: replace(ctx, evaluations=(*ctx.evaluations, said)),
    ):
        builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
        result = recorded(builder.on_should_continue(hook, name="odd"))
        assert "hook 'odd' at should_continue: something is wrong with its evaluation" in str(
            result.error
        )


def test_a_prompt_that_is_no_text_is_the_hooks_failure() -> None:
    """It fails closed, and the model is not asked."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("done")]))
    result = recorded(builder.on_prompt_submit(lambda ctx: replace(ctx, prompt=5), name="odd"))
    assert result.status is RunStatus.STOPPED
    assert "hook 'odd' failed" in result.explain()


@pytest.mark.parametrize("name", ["", 5])
def test_what_a_hook_makes_of_a_childs_result_is_looked_at(name: Any) -> None:
    """And so is the name of a child."""

    @tool
    async def use(context: ToolContext) -> str:
        """Use."""
        child = AgentBuilder().with_driver(ScriptedDriver([say("done")])).build()
        return str((await context.spawn(child, "go", name=name)).text)

    odd = asked().with_tools(use)
    odd.on_subagent_stop(lambda ctx: ctx.with_result(replace(ctx.result, status="odd")), name="odd")
    result = recorded(odd)
    problem = "status is 'odd', which is not a RunStatus" if not name else "the child's name is 5"
    assert problem in result.state.messages[2].text
