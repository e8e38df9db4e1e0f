"""Back-test: what would other hooks have said to the runs that were recorded?"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_runs import Case, Tape, World, cases, recorded

import hookline
from hookline import (
    AgentBuilder,
    Decision,
    HookOutcome,
    HookStack,
    RunStatus,
    ToolContext,
    hook,
    tool,
)
from hookline.errors import UnknownRunError, UsageError
from hookline.hooks import Registration
from hookline.journal import ApprovalAsked, CallSettled, HookRan, ResponseReceived, hooks_in
from hookline.playback import BacktestReport, backtest, replay
from hookline.state import ResultStatus, Usage, UserMessage
from hookline.testing import ScriptedDriver, call, calls, say


@settings(max_examples=25, deadline=None)
@given(case=cases, children=st.booleans(), asks=st.booleans())
def test_the_same_hooks_would_say_the_same(case: Case, children: bool, asks: bool) -> None:
    """In every run and child, every decision; nothing is used, asked or written. So would no hooks more."""
    if asks:
        case = case._replace(hooks=(*case.hooks, ("before_tool_use", "ask")), approver="nobody")

    async def main() -> None:
        tape, _ = await recorded(case)
        before = {run_id: list(lines) for run_id, lines in tape.lines.items()}
        again = World(case)
        known = {"helper": again.child()} if children else {}
        report = await backtest(tape, again.agent(), children=known)
        assert report.ok, str(report)
        assert (again.used, again.asked, tape.lines) == ([], 0, before)
        added = await backtest(tape, HookStack())
        assert (added.ok, added.decisions) == (True, 0), str(added)

    asyncio.run(main())


def no_look(ctx: Any) -> HookOutcome:
    """The rule that is tried out."""
    return HookOutcome.block("nobody looks")


NOT_JUDGED = (ResultStatus.INVALID, ResultStatus.NOT_RUN)


def judged_and_not_blocked(tape: Tape, name: str) -> set[tuple[str, str]]:
    """The calls of a tool that came before the hooks and that none of these blocked, from the record alone."""
    found = set()
    for run_id in tape.lines:
        records = tape.records(run_id)
        verdicts: dict[str, list[str]] = {}
        for ran in hooks_in(records):
            if ran.point == "before_tool_use":
                verdicts.setdefault(ran.call_id, []).append(ran.verdict)
        for record in records:
            if isinstance(record, CallSettled) and record.result.status not in NOT_JUDGED:
                verdicts.setdefault(record.result.call_id, [])
        for record in records:
            made = record.calls if isinstance(record, ResponseReceived) else ()
            for each in made:
                refused = {"block", "stop", "failed"} & set(verdicts.get(each.id, ("stop",)))
                if each.name == name and not refused:
                    found.add((run_id, each.id))
    return found


@settings(max_examples=25, deadline=None)
@given(case=cases, is_added=st.booleans())
def test_a_new_rule_shows_exactly_the_calls_it_blocks(case: Case, is_added: bool) -> None:
    """Those that no other hook refuses, in the run and in its children, each once."""

    async def main() -> None:
        tape, _ = await recorded(case)
        rule: Any = HookStack().with_hook(no_look, "before_tool_use", matcher="look", tier="policy")
        if not is_added:
            builder = World(case).builder()
            rule = builder.on_before_tool_use(no_look, matcher="look", tier="policy").build()
        report = await backtest(tape, rule)
        assert not report.unfollowed
        found = [(each.run, each.call.id) for each in report.changes if each.call is not None]
        assert len(found) == len(set(found)) == len(report.changes)
        assert set(found) == judged_and_not_blocked(tape, "look")
        assert {(each.new, each.hook, each.why) for each in report.changes} <= {
            ("block", "no_look", "nobody looks")
        }

    asyncio.run(main())


# --- one thing at a time --------------------------------------------------------------------------------


@tool
async def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def no_sudo(ctx: Any) -> HookOutcome | None:
    """The rule of then."""
    is_sudo = ctx.tool_call.args["command"].startswith("sudo")
    return HookOutcome.block("nobody is root") if is_sudo else None


def no_force(ctx: Any) -> HookOutcome | None:
    """The rule of now."""
    is_force = "--force" in ctx.tool_call.args["command"]
    return HookOutcome.block("it rewrites what others have") if is_force else None


def agent(*turns: Any) -> AgentBuilder:
    """The agent of then."""
    made = AgentBuilder().with_id("ops").with_driver(ScriptedDriver(turns)).with_tools(bash)
    return made.on_before_tool_use(no_sudo, name="sudo")


async def week() -> Tape:
    """Two runs, of which one was stopped from something."""
    tape = Tape()
    monday = agent(call("bash", command="git push --force"), say("Pushed."))
    await monday.with_journal(tape).build().run("push", run_id="monday", session="work")
    both = calls(call("bash", command="sudo rm x"), call("bash", command="git push --force origin"))
    await agent(both, say("Done.")).with_journal(tape).build().run("clean", run_id="tuesday")
    return tape


def call_changes(report: BacktestReport) -> list[tuple[Any, ...]]:
    """The changes, as far as they are about calls."""
    return [
        (
            each.run,
            each.step,
            each.call and each.call.args["command"],
            each.old,
            each.new,
            each.hook,
        )
        for each in report.changes
    ]


async def test_a_stack_is_added_to_the_hooks_on_record() -> None:
    """What would my new rule have blocked last week?"""
    stack = HookStack().with_hook(no_force, "before_tool_use", matcher="bash")
    report = await hookline.backtest(await week(), stack)
    assert call_changes(report) == [
        ("tuesday", 0, "git push --force origin", "proceed", "block", "no_force"),
        ("monday", 0, "git push --force", "proceed", "block", "no_force"),
    ]
    assert report.changes[0].why == "it rewrites what others have"
    assert (report.ok, report.exit_code, report.runs, report.calls) == (False, 1, 2, 3)
    assert report.counts == {"proceed -> block": 2}
    assert report.changed_runs == ("tuesday", "monday")
    status = {(each.hook, each.status, each.calls) for each in report.hooks}
    assert status == {("no_force", "added", 2), ("sudo", "kept", 0)}


async def test_an_agent_takes_the_place_of_the_hooks_on_record() -> None:
    """What they said and it does not say is a change too, of the hook that is gone."""
    changed = AgentBuilder().on_before_tool_use(no_force, matcher="bash").build(model=None)
    report = await backtest(await week(), changed)
    assert call_changes(report) == [
        ("tuesday", 0, "sudo rm x", "block", "proceed", "sudo"),
        ("tuesday", 0, "git push --force origin", "proceed", "block", "no_force"),
        ("monday", 0, "git push --force", "proceed", "block", "no_force"),
    ]
    gone, second, _ = report.changes
    assert (gone.old_hook, gone.old_why) == ("sudo", "nobody is root")
    assert gone.why == "no longer says: nobody is root"
    assert (gone.is_first, second.is_first) == (True, False)
    (removed,) = [each for each in report.hooks if each.status == "removed"]
    assert (removed.hook, removed.calls) == ("sudo", 0)
    assert removed.recorded_verdicts == {"proceed": 2, "block": 1}


async def test_every_decision_is_judged_as_it_was() -> None:
    """A run that would have been stopped at its first step is judged to its end all the same."""
    tape = Tape()
    turns = [call("bash", command=f"ls {number}") for number in range(4)]
    await agent(*turns, say("done")).with_journal(tape).build().run("go", run_id="run")
    stack = HookStack().with_hook(
        lambda ctx: HookOutcome.stop("enough"), "before_tool_use", name="x"
    )
    report = await backtest(tape, stack)
    assert [each.step for each in report.changes] == [0, 1, 2, 3]
    assert [each.is_first for each in report.changes] == [True, False, False, False]


@pytest.mark.parametrize(
    ("point", "hook", "old", "new"),
    [
        ("before_tool_use", lambda ctx: HookOutcome.ask("sure?"), "proceed", "ask"),
        ("before_tool_use", lambda ctx: ctx.with_args(command="ls"), "proceed", "change"),
        ("before_tool_use", lambda ctx: ctx.with_result("made up"), "proceed", "change"),
        ("after_tool_use", lambda ctx: HookOutcome.block("secret"), "proceed", "block"),
        ("after_tool_use", lambda ctx: ctx.with_result("***"), "proceed", "change"),
        ("after_inference", lambda ctx: HookOutcome.block("rude"), "proceed", "block"),
        ("before_inference", lambda ctx: 17, "proceed", "failed"),
        (
            "before_inference",
            lambda ctx: ctx.with_request(ctx.request.with_model("big")),
            "proceed",
            "change",
        ),
        (
            "before_inference",
            lambda ctx: ctx.with_state(ctx.state.with_user_message("psst")),
            "proceed",
            "change",
        ),
        ("after_step", lambda ctx: ctx.forbid("enough"), "proceed", "forbid_continuation"),
        ("should_continue", lambda ctx: ctx.forbid("no"), "allow_stop", "forbid_continuation"),
        ("stop", lambda ctx: HookOutcome.block("go on"), "proceed", "block"),
        ("output", lambda ctx: f"{ctx.output}!", "proceed", "change"),
        ("prompt_submit", lambda ctx: HookOutcome.block("no"), "proceed", "block"),
        ("execution_start", lambda ctx: HookOutcome.block("closed"), "proceed", "block"),
    ],
)
async def test_a_change_is_found_at_every_kind_of_point(
    point: str, hook: Any, old: str, new: str
) -> None:
    """Verdicts, changes to what is in flight, words on continuing, and failures."""
    for is_added in (True, False):
        changed: Any = HookStack().with_hook(hook, point, name="new")
        if not is_added:
            changed = agent().add_hook(point, hook, name="new").build()
        report = await backtest(await week(), changed, runs=["monday"])
        last = report.changes[-1]
        assert (last.point, last.old, last.new, last.hook) == (point, old, new, "new")


@pytest.mark.parametrize(
    ("point", "hook"),
    [
        ("before_tool_use", lambda ctx: ctx.with_metadata("seen", True)),
        ("before_tool_use", lambda ctx: None),
        ("before_tool_use", lambda ctx: HookOutcome.allow("fine")),
        ("before_tool_use", lambda ctx: ctx.with_args(**ctx.tool_call.args)),
    ],
)
async def test_what_changes_nothing_is_no_change(point: str, hook: Any) -> None:
    """Metadata is the hooks' own; an allowance where nobody asks lifts nothing."""
    report = await backtest(await week(), HookStack().with_hook(hook, point, name="new"))
    assert [each.new for each in report.changes if each.new != "change"] == []


async def test_hooks_see_the_metadata_that_they_wrote() -> None:
    """A rule that remembers something needs nothing of it on record."""

    def remember(ctx: Any) -> Any:
        return ctx.with_metadata("dirty", True) if "--force" in ctx.execution.result else None

    def refuse(ctx: Any) -> Any:
        return HookOutcome.block("it is dirty") if ctx.get("dirty") else None

    tape = Tape()
    turns = [call("bash", command=text) for text in ("ls", "push --force", "ls", "ls")]
    made = agent(*turns, say("done")).on_before_step(lambda ctx: ctx.with_metadata("then", 1))
    await made.with_journal(tape).build().run("go", run_id="run")
    stack = HookStack().with_hook(remember, "after_tool_use").with_hook(refuse, "before_tool_use")
    seen: list[dict[str, Any]] = []
    stack = stack.with_hook(lambda ctx: seen.append(dict(ctx.metadata)), "stop", name="see")
    changed = (
        agent()
        .on_after_tool_use(remember)
        .on_before_tool_use(refuse)
        .on_stop(lambda ctx: seen.append(dict(ctx.metadata)))
    )
    for hooks in (stack, changed.build()):
        report = await backtest(tape, hooks)
        assert [each.step for each in report.changes] == [2, 3]
    assert seen == [{"then": 1, "dirty": True}, {"dirty": True}]


async def _mark(ctx: Any, call_next: Any) -> Any:
    """A hook around a step that notes that it begins, and that it is made."""
    made = await call_next(ctx.with_metadata("begun", ctx.step_index))
    return made.with_metadata("made", ctx.step_index)


def _read_marks(ctx: Any) -> Any:
    """Refuses one call of two, by what is noted."""
    return HookOutcome.block("not yet") if ctx.get("begun") == ctx.get("made", 0) else None


async def test_hooks_see_the_metadata_that_hooks_around_steps_wrote() -> None:
    """Nobody asks these again, so what they wrote is shown as it is on record."""
    tape = Tape()
    turns = [call("bash", command="ls"), call("bash", command="ls"), say("done")]

    def marked(*turns: Any) -> AgentBuilder:
        return agent(*turns).around_step(_mark).on_before_tool_use(_read_marks)

    result = await marked(*turns).with_journal(tape).build().run("go", run_id="run")
    assert [each.status for step in result.steps for each in step.results] == ["blocked", "ok"]
    report = await backtest(tape, marked().build())
    assert report.ok, str(report)


async def test_who_wrote_metadata_last_is_believed() -> None:
    """A hook under test replaces what a hook around the step wrote, until that one writes again."""
    tape, seen = Tape(), list[int]()

    async def count(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx.with_metadata("count", ctx.step_index))

    turns = [call("bash", command="ls"), call("bash", command="ls"), say("done")]
    await agent(*turns).around_step(count).with_journal(tape).build().run("go", run_id="run")
    stack = HookStack()
    for point in ("before_step", "after_step"):
        stack = stack.with_hook(lambda ctx: seen.append(ctx.get("count")), point, name="see")
    stack = stack.with_hook(lambda ctx: ctx.with_metadata("count", 10), "before_tool_use")
    assert (await backtest(tape, stack)).ok
    assert seen == [0, 10, 1, 10, 2, 2]


async def test_metadata_of_hooks_that_are_not_asked_any_more_is_not_shown() -> None:
    """Nobody would ask for a permission now, so nobody would have noted that it was given."""
    tape, seen = Tape(), list[dict[str, Any]]()
    made = agent(call("bash", command="ls"), say("done"))
    made.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="ask")
    made.on_permission_request(lambda ctx: ctx.with_metadata("asked", True), name="note")
    made.on_permission_request(lambda ctx: Decision.allow(), name="yes")
    await made.with_journal(tape).build().run("go", run_id="run")
    changed = agent().on_stop(lambda ctx: seen.append(dict(ctx.metadata)))
    report = await backtest(tape, changed.build())
    assert [(each.old, each.new) for each in report.changes] == [("ask", "proceed")]
    assert seen == [{}]


async def test_a_question_that_is_no_longer_asked_is_one_change() -> None:
    """What permission hooks would say to it then does not matter."""
    tape = Tape()

    def asking() -> AgentBuilder:
        made = agent(call("bash", command="ls"), say("done"))
        made.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="ask")
        return made.on_permission_request(lambda ctx: Decision.allow(), name="yes")

    await asking().with_journal(tape).build().run("go", run_id="run")
    report = await backtest(tape, agent().build())
    assert [(each.old, each.new, each.hook) for each in report.changes] == [
        ("ask", "proceed", "ask")
    ]
    changed = asking().on_permission_request(lambda ctx: Decision.deny("no"), name="no", priority=1)
    report = await backtest(tape, changed.build())
    assert [(each.old, each.new, each.hook) for each in report.changes] == [("allow", "deny", "no")]


async def test_what_the_journal_does_not_keep_is_not_made_up() -> None:
    """Hooks that would have to be shown it are named, and a hook that withheld it and is gone leaves a question."""
    tape = Tape()

    def hide(ctx: Any) -> HookOutcome:
        return HookOutcome.block("secret")

    def look(ctx: Any) -> None:
        raise AssertionError("there is nothing to look at")

    then = agent(call("bash", command="ls"), say("done")).on_after_tool_use(hide, name="hide")
    await then.with_journal(tape).build().run("go", run_id="run")
    kept = agent().on_after_tool_use(look, name="look").on_after_tool_use(hide, name="hide")
    report = await backtest(tape, kept.build())
    assert report.ok
    (unjudged,) = report.unjudged
    assert (unjudged.run, unjudged.step, unjudged.hooks) == ("run", 0, ("look", "hide"))
    assert "1 time the journal does not have the input of a hook: hide, look" in str(report)
    report = await backtest(tape, agent().on_after_tool_use(look, name="look").build())
    (change,) = report.changes
    assert (change.old, change.new, change.hook) == ("block", "unknown", "hide")
    assert "not there any more" in change.why


async def test_hooks_that_fail_now_are_reported() -> None:
    """Closed they block where that is what a failure means, and it is their word."""
    report = await backtest(
        await week(), HookStack().with_hook(lambda ctx: 1 / 0, "before_tool_use", name="broken")
    )
    assert {(each.new, each.hook) for each in report.changes} == {("block", "broken")}
    assert "ZeroDivisionError" in report.changes[0].why
    (hook,) = [each for each in report.hooks if each.hook == "broken"]
    assert hook.verdicts == {"failed": 2}


async def test_hooks_in_shadow_are_counted_and_change_nothing() -> None:
    """Their verdicts are in the report."""
    stack = HookStack().with_hook(no_force, "before_tool_use", shadow=True)
    report = await backtest(await week(), stack)
    (hook,) = [each for each in report.hooks if each.status == "added"]
    assert (report.ok, hook.shadow, hook.verdicts) == (True, True, {"block": 2})


async def test_each_hook_has_its_cost() -> None:
    """How often it was asked, how long it took, and what it charged the run for; the run is charged nothing."""

    async def critic(ctx: Any) -> None:
        ctx.run.charge(Usage(input_tokens=10, output_tokens=1, requests=1))

    stack = HookStack().with_hook(critic, "before_tool_use").with_hook(no_force, "before_tool_use")
    report = await backtest(await week(), stack)
    cost = {each.hook: each for each in report.hooks}
    assert (cost["critic"].calls, cost["critic"].usage.total_tokens) == (2, 22)
    assert cost["no_force"].usage.total_tokens == 0
    took = cost["critic"].latency
    assert 0 < took.p50 <= took.p95 <= took.max
    assert 0 < took.mean <= took.max


async def test_hooks_around_an_action_and_observers_are_not_asked() -> None:
    """The action is not done, and observers have no verdict."""

    def fail(*_: Any) -> Any:
        raise AssertionError

    changed = agent().around_tool_use(fail, name="around").on_after_tool_use(fail, tier="observer")
    report = await backtest(await week(), changed.build())
    assert (report.ok, report.around) == (True, ("around",))
    assert "not asked, because no action is done: around" in str(report)


async def test_policies_hold_in_the_children_on_record() -> None:
    """A rule is tried out on what subagents did, too; their own hooks stay as they were."""
    tape = Tape()
    turns = [call("bash", command="git push --force"), say("done")]

    def child() -> AgentBuilder:
        made = AgentBuilder().with_id("child").with_driver(ScriptedDriver(turns)).with_tools(bash)
        return made.on_before_step(lambda ctx: ctx.with_metadata("own", 1), name="own")

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return str((await context.spawn(child().build(), "go", name="helper")).text)

    def parent() -> AgentBuilder:
        made = AgentBuilder().with_driver(ScriptedDriver([call("delegate"), say("done")]))
        return made.with_tools(delegate)

    await parent().with_journal(tape).build().run("go", run_id="run")
    policy = parent().on_before_tool_use(no_force, matcher="bash", tier="policy")
    stack = HookStack().with_hook(no_force, "before_tool_use", matcher="bash")
    for hooks in (policy.build(), stack):
        report = await backtest(tape, hooks)
        assert [each.run for each in report.changes] == ["run/0/call_1_1/1"]
        assert (report.runs, report.children) == (1, 1)
        assert {each.status for each in report.hooks if each.hook == "own"} == {"kept"}
    of_child = child().on_before_tool_use(no_force, name="child's").build()
    report = await backtest(tape, parent().build(), children={"helper": of_child})
    assert [each.hook for each in report.changes] == ["child's"]
    report = await backtest(tape.records("run/0/call_1_1/1"), policy.build())
    assert [each.hook for each in report.changes] == ["no_force"]


# --- which runs -----------------------------------------------------------------------------------------


async def test_runs_can_be_chosen() -> None:
    """By id, session, status, age and number; the newest come first."""
    tape, rule = await week(), HookStack().with_hook(no_force, "before_tool_use", matcher="bash")

    async def chosen(**options: Any) -> tuple[str, ...]:
        return (await backtest(tape, rule, **options)).changed_runs

    assert await chosen(runs=["monday"]) == ("monday",)
    assert await chosen(session="work") == ("monday",)
    assert await chosen(status=RunStatus.COMPLETED) == ("tuesday", "monday")
    assert await chosen(status=RunStatus.FAILED) == ()
    assert await chosen(limit=1) == ("tuesday",)
    assert await chosen(since=timedelta(days=7)) == ("tuesday", "monday")
    assert await chosen(since=datetime(2100, 1, 1, tzinfo=UTC)) == ()
    with pytest.raises(UnknownRunError, match="no run 'sunday'"):
        await chosen(runs=["sunday"])
    with pytest.raises(UsageError, match="list of ids"):
        await chosen(runs="monday")
    with pytest.raises(UsageError, match="since='last week' is not a point in time"):
        await chosen(since="last week")
    with pytest.raises(UsageError, match=r"no run has the status 'done'.*completed"):
        await chosen(status="done")
    with pytest.raises(UnknownRunError, match="no run of session 'wrok'"):
        await chosen(session="wrok")
    for limit in (0, -1, True):
        with pytest.raises(UsageError, match="not a number of runs"):
            await chosen(limit=limit)


async def test_records_in_hand_can_be_tested() -> None:
    """One list of them, or a list of lists."""
    tape, rule = await week(), HookStack().with_hook(no_force, "before_tool_use")
    lists = [tape.records("monday"), tape.records("tuesday")]
    for records in (lists, [*lists[0], *lists[1]]):
        report = await backtest(records, rule)
        assert report.changed_runs == ("monday", "tuesday")


async def test_a_run_that_cannot_be_read_or_followed_does_not_end_the_test() -> None:
    """It is named with what is wrong, and the exit code says that not everything was judged."""
    tape, rule = await week(), HookStack().with_hook(no_force, "before_tool_use")
    torn = tape.records("monday")[1:]
    forged = [
        record
        if not isinstance(record, CallSettled)
        else CallSettled(
            record.run_id, record.seq, record.at, record.step, hookline.ToolResult("x")
        )
        for record in tape.records("tuesday")
    ]
    report = await backtest([torn, forged], rule)
    why = {each.run: each.why for each in report.unfollowed}
    assert "does not begin with the start of a run" in why["monday"]
    assert "could not be followed" in why["tuesday"]
    assert (report.ok, report.exit_code) == (False, 2)
    assert "run monday: " in str(report)


async def test_wrong_use_is_refused_with_what_to_do() -> None:
    """Arguments that are neither an agent nor a stack, and invalid children."""
    tape = await week()
    with pytest.raises(UsageError, match=r"takes an agent, or a HookStack.*with_hook"):
        await backtest(tape, no_force)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="children= takes agents by name"):
        await backtest(tape, HookStack(), children={"x": no_force})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="is not a journal"):
        await backtest("journal.db", HookStack())  # type: ignore[arg-type]


async def test_a_call_that_was_running_when_its_process_died_is_judged() -> None:
    """Also where nobody was asked about it then: that it started is on record."""
    tape = Tape()
    then = AgentBuilder().with_driver(
        ScriptedDriver([call("bash", command="git push --force"), say("Pushed.")])
    )
    await then.with_tools(bash).with_journal(tape).build().run("push", run_id="run")
    ends = [tape.cut(at).records("run")[-1].type for at in range(1, len(tape.batches) + 1)]
    died = tape.cut(ends.index("call") + 1)
    report = await backtest(died, HookStack().with_hook(no_force, "before_tool_use"))
    assert (report.calls, report.exit_code) == (1, 1)
    assert call_changes(report)[0][:5] == ("run", 0, "git push --force", "proceed", "block")


# --- whose hook it is ---------------------------------------------------------------------------------


class Voice:
    """A capability whose hooks say these things about every call."""

    def __init__(self, name: str, *says: str) -> None:
        self.name = name
        self._says = says

    def hooks(self) -> list[Registration]:
        def saying(verdict: str) -> Any:
            return lambda _: HookOutcome.ask("sure?") if verdict == "ask" else HookOutcome.allow()

        return [
            hook("before_tool_use", saying(verdict), name=f"{self.name}-{verdict}")
            for verdict in self._says
        ]


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize(
    ("voices", "asked"),
    [
        ((Voice("a", "ask"), Voice("b", "allow")), False),
        ((Voice("a", "ask", "allow"),), True),
        ((Voice("a", "ask", "allow"), Voice("b", "allow")), False),
    ],
    ids=["another lifts", "its own does not", "both"],
)
async def test_an_ask_that_was_lifted_is_lifted_again(
    voices: tuple[Voice, ...], asked: bool, is_old: bool
) -> None:
    """An allow lifts an ask of another capability only. The record says whose hook it was; older ones are guessed."""

    def make() -> AgentBuilder:
        driver = ScriptedDriver([call("look"), say("Done.")])
        builder = AgentBuilder().with_driver(driver).with_tools(look)
        for voice in voices:
            builder.with_capability(voice)
        return builder.with_approver(lambda _: True)

    result = await make().build().run("Go.")
    records = list(result.records)
    assert any(isinstance(each, ApprovalAsked) for each in records) is asked
    if is_old:
        records = [
            msgspec.structs.replace(each, source=None) if isinstance(each, HookRan) else each
            for each in records
        ]
    report = await backtest(records, make().build())
    assert report.ok, str(report)
    replayed = await replay(records, result.run_id, make().build())
    assert replayed.identical, replayed


@tool
async def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize(
    ("limit", "changed"),
    [
        ({"tokens": 30}, []),
        ({"tokens": 15}, ["proceed -> stop by 'limits'", "proceed -> stop by 'limits'"]),
        ({"tokens": 900}, ["stop -> block by 'no_look'"]),
    ],
    ids=["unchanged", "lower", "higher"],
)
async def test_limits_on_calls_are_judged(limit: dict[str, int], changed: list[str]) -> None:
    """A limit that the model's answer used up stops its calls, and so it does in the back-test, before any hook."""

    def make(tokens: int) -> AgentBuilder:
        driver = ScriptedDriver([call("look", tokens=20), call("look", tokens=20), say("Done.")])
        return AgentBuilder().with_driver(driver).with_tools(look).with_limits(tokens=tokens)

    result = await make(30).build().run("Go.")
    assert result.stop_reason == "token_limit"
    builder = make(**limit)
    if limit["tokens"] == 900:
        builder.on_before_tool_use(
            lambda ctx: no_look(ctx) if ctx.state.step_count else None, name="no_look"
        )
    report = await backtest(list(result.records), builder.build())
    assert [f"{each.old} -> {each.new} by '{each.hook}'" for each in report.changes] == changed
    assert report.ok is (not changed)


async def test_what_a_hook_makes_of_a_request_is_compared_by_what_it_says() -> None:
    """A hook that gives the model more messages makes the same request as the one on record."""

    def add(ctx: Any) -> Any:
        more = (*ctx.request.messages, UserMessage("Be short.", "adder"))
        return ctx.with_request(ctx.request.with_messages(more).with_options(temperature=0))

    def make() -> AgentBuilder:
        driver = ScriptedDriver([call("look"), say("Done.")])
        return AgentBuilder().with_driver(driver).with_tools(look).on_before_inference(add)

    result = await make().build().run("Go.")
    report = await backtest(list(result.records), make().build())
    assert report.ok, str(report)
