"""A critic: it approves, or sends back with feedback, so often and no more, and never approves by accident."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from driven import WAYS, drive, lives, on_disk

from hookline import AgentBuilder, AgentState, RunStatus, StopReason, replay, tool
from hookline.capabilities import Critique, Draft, SelfCritique, StructuredOutput
from hookline.errors import BuildError, ModelError
from hookline.state import Usage
from hookline.testing import ScriptedDriver, call, say


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


def answering(*turns: Any, critic: Any, **options: Any) -> tuple[Any, ScriptedDriver]:
    """A builder for an agent that makes these turns, with a critic."""
    driver = ScriptedDriver(turns)
    builder = AgentBuilder().with_driver(driver).with_tools(look)
    return builder.with_capability(SelfCritique(critic, **options)), driver


def needs_a_number(draft: Draft) -> Any:
    """Approve of answers with a number in them."""
    return True if any(map(str.isdigit, draft.text)) else "there is no number in it"


@pytest.mark.parametrize("way", WAYS)
async def test_an_answer_is_sent_back_until_it_is_approved(way: str) -> None:
    """The model reads the feedback, answers again, and the run completes with what was approved."""
    builder, driver = answering(call("look"), say("many"), say("5"), critic=needs_a_number)
    result = await drive(builder.build(), way, "How many?")
    assert (result.text, result.status) == ("5", RunStatus.COMPLETED)
    assert driver.requests[2].messages[-1].text == (
        "Your answer was reviewed and is not good enough yet: there is no number in it\n"
        "Revise it, and answer again."
    )
    saved = AgentState.from_json(result.state.to_json())
    assert SelfCritique.verdicts(saved) == (
        Critique(False, "there is no number in it"),
        Critique(True),
    )


@pytest.mark.parametrize("way", WAYS)
async def test_a_critic_that_stays_unhappy_ends_it_honestly(way: str) -> None:
    """After the rounds the run is stopped, not completed, with the last feedback and the last answer."""
    builder, _ = answering(say("a"), say("b"), say("c"), critic=needs_a_number, rounds=2)
    result = await drive(builder.build(), way)
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.NOT_APPROVED)
    assert result.text == "c"
    assert result.state.ending.reason == (
        "the critic did not approve after 2 rounds: there is no number in it"
    )


def test_no_rounds_is_a_gate() -> None:
    """With none, an answer is approved of at once or never."""
    builder, _ = answering(say("a"), critic=lambda draft: False, rounds=0)
    result = builder.build().run_sync("go")
    assert result.stop_reason is StopReason.NOT_APPROVED
    assert "it gave no reason" in result.state.ending.reason


def test_the_critic_sees_the_draft() -> None:
    """What was asked, what was answered, the round, and the state; an async critic may charge the run."""
    seen: list[Any] = []

    async def critic(draft: Draft) -> Critique:
        seen.append((draft.prompt, draft.text, draft.round, len(draft.state.messages)))
        draft.run.charge(Usage(output_tokens=50))
        return Critique(draft.round == 2, "again")

    builder, _ = answering(say("a"), say("b"), critic=critic)
    result = builder.build().run_sync("why?")
    assert seen == [("why?", "a", 1, 2), ("why?", "b", 2, 4)]
    assert result.usage.output_tokens == 100


def judging(*words: Any) -> ScriptedDriver:
    """A model that judges in these words."""
    return ScriptedDriver([say(w, tokens=30) if isinstance(w, str) else w for w in words])


@pytest.mark.parametrize(
    "approving",
    [
        '{"approved": true}',
        'Fine.\n```json\n{"approved": true, "feedback": ""}\n```',
        "APPROVED: well done",
    ],
)
@pytest.mark.parametrize(
    "rejecting", ['{"approved": false, "feedback": "too short"}', "Rejected: too short"]
)
def test_criteria_are_judged_by_a_model(approving: str, rejecting: str) -> None:
    """It is shown criteria, task, conversation and answer; its verdict is read, and its usage charged."""
    critic = judging(rejecting, approving)
    builder, _ = answering(say("a"), say("b"), critic="At least {two} words.", model=critic)
    result = builder.build().run_sync("why?")
    assert (result.status, result.text, result.usage.output_tokens) == (
        RunStatus.COMPLETED,
        "b",
        60,
    )
    assert SelfCritique.verdicts(result.state)[0] == Critique(False, "too short")
    asked = critic.requests[0]
    assert "At least {two} words." in asked.system
    assert "<task>\nwhy?\n</task>" in asked.messages[0].text
    assert "<answer>\na\n</answer>" in asked.messages[0].text


def test_the_agents_own_model_judges_by_default() -> None:
    """Without a model of its own the critic asks the agent's."""
    builder, driver = answering(say("a"), say('{"approved": true}'), critic="Anything goes.")
    assert builder.build().run_sync("go").is_completed
    assert len(driver.requests) == 2


@pytest.mark.parametrize(
    ("critic", "words"),
    [
        (lambda draft: None, "the critic said None, which is not a verdict"),
        (lambda draft: "", "the critic said ''"),
        (lambda draft: 1 / 0, "division by zero"),
        (judging("Hm, well."), "the critic said 'Hm, well.'"),
        (judging(ModelError("gone")), "gone"),
    ],
)
def test_a_critic_that_fails_does_not_approve(critic: Any, words: str) -> None:
    """By default the run is stopped with what went wrong, and the answer is there."""
    options = {"critic": critic}
    if isinstance(critic, ScriptedDriver):
        options = {"critic": "good", "model": critic}
    builder, _ = answering(say("a"), **options)
    result = builder.build().run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.NOT_APPROVED)
    assert result.state.ending.reason.startswith("the critic failed: ")
    assert words in result.state.ending.reason
    assert result.text == "a"


def test_what_a_failure_counts_as_can_be_chosen() -> None:
    """An error for the error policy or, as an option, an approval that says that nobody judged."""
    builder, _ = answering(say("a"), critic=lambda draft: 1 / 0, on_failure="fail")
    failed = builder.build().run_sync("go")
    assert (failed.status, type(failed.error.__cause__)) == (RunStatus.FAILED, ZeroDivisionError)
    builder, _ = answering(say("a"), critic=lambda draft: 1 / 0, on_failure="approve")
    waved = builder.build().run_sync("go")
    assert waved.is_completed
    assert waved.state.metadata["self_critic"]["verdicts"][0]["failure"] == "division by zero"


async def test_a_critic_has_its_time() -> None:
    """One that takes too long has failed; cancelling the run is not a failure of the critic."""

    async def slow(draft: Draft) -> bool:
        await asyncio.Event().wait()
        return True

    builder, _ = answering(say("a"), critic=slow, timeout=0.01)
    assert "longer than 0.01 s" in (await builder.build().run("go")).state.ending.reason
    builder, _ = answering(say("a"), critic=slow)
    agent = builder.build()
    run = asyncio.create_task(agent.run("go", run_id="r"))
    await asyncio.sleep(0.01)
    agent.cancel("r")
    assert (await run).status is RunStatus.CANCELLED


def critics_agent(*turns: Any) -> Any:
    """An agent that judges, with a typed verdict."""
    builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(look)
    return builder.with_capability(StructuredOutput(Critique)).build()


def test_an_agent_may_be_the_critic() -> None:
    """It runs as a child, with tools and a typed verdict of its own, and the run pays for it."""
    inner = critics_agent(
        call("look", tokens=5),
        call("structured_output", approved=False, feedback="look again", tokens=5),
        call("structured_output", approved=True, tokens=5),
    )
    builder, _ = answering(say("a"), say("b"), critic=inner)
    result = builder.build().run_sync("go")
    assert (result.text, result.status, result.usage.output_tokens) == (
        "b",
        RunStatus.COMPLETED,
        15,
    )
    assert SelfCritique.verdicts(result.state)[0].feedback == "look again"
    broken = AgentBuilder().with_driver(ScriptedDriver([ModelError("gone")])).build()
    builder, _ = answering(say("a"), critic=broken)
    assert "was not completed" in builder.build().run_sync("go").state.ending.reason


def test_it_judges_a_structured_output_and_not_the_talk_before() -> None:
    """Where the answer is given by a tool, that is what the critic sees; and the model reads what is wrong."""
    seen: list[str] = []

    def critic(draft: Draft) -> Any:
        seen.append(draft.text)
        return True if '"n":2' in draft.text else "n must be 2"

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    builder, driver = answering(
        say("let me think"), call("structured_output", n=1), call("structured_output", n=2),
        critic=critic,
    )  # fmt: skip
    result = builder.with_capability(StructuredOutput(schema)).build().run_sync("go")
    assert (seen, result.output, result.status) == (
        ['{"n":1}', '{"n":2}'],
        {"n": 2},
        RunStatus.COMPLETED,
    )
    assert "n must be 2" in driver.requests[2].messages[-1].text


def test_a_limit_is_stronger() -> None:
    """A critic cannot keep a run alive beyond its limits, and rounds are counted for each run."""
    builder, _ = answering(*[say("x")] * 9, critic=lambda draft: "no", rounds=9)
    agent = builder.with_limits(steps=2).build()
    first = agent.run_sync("go")
    assert first.stop_reason is StopReason.STEP_LIMIT
    second = agent.run_sync("again", state=first.state)
    assert len(SelfCritique.verdicts(second.state)) == 2


async def test_it_survives_any_death_the_disk_and_replay(tmp_path: Path) -> None:
    """Resumed after any record: the same verdicts and counts, and no critic is asked again for what is on record."""

    def build(journal: Any) -> Any:
        def judge(state: Any) -> Any:
            return say(["no", "Rejected: longer", "APPROVED"][state.step_count], tokens=30)

        turns = [lambda state: [say("a"), say("b")][state.step_count]] * 3
        model = ScriptedDriver([judge] * 3)
        builder, _ = answering(*turns, critic="good", model=model)
        return builder.with_journal(journal).build() if journal is not None else builder.build()

    whole, resumed = await lives(build)
    assert (whole.text, whole.usage.output_tokens) == ("b", 60)
    for result in resumed:
        assert (result.text, result.usage, result.status) == (whole.text, whole.usage, whole.status)
        assert result.state.metadata == whole.state.metadata
    again = await on_disk(build, tmp_path / "j.db")
    assert again.text == "b"
    from driven import Tape

    tape = Tape()
    await build(tape).run("go", run_id="run")
    replayed = await replay(tape, "run", build(None))
    assert replayed.identical, replayed


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SelfCritique(""), "is not a critic"),
        (lambda: SelfCritique(5), "is not a critic"),  # type: ignore[arg-type]
        (lambda: SelfCritique("x", rounds=-1), "rounds=-1"),
        (lambda: SelfCritique("x", timeout=0), "timeout=0"),
        (lambda: SelfCritique("x", on_failure="ignore"), "on_failure='ignore'"),  # type: ignore[arg-type]
        (lambda: SelfCritique(lambda d: True, model="x:y"), "model= is for criteria"),
    ],
)
def test_nonsense_is_refused(make: Any, words: str) -> None:
    """Wrong options are named."""
    with pytest.raises(BuildError, match=words):
        make()


@pytest.mark.parametrize(
    "said",
    [
        "{'approved': False, 'feedback': 'wrong'}",
        '{"approved": "false"}',
        '{"approved": 0}',
        '{"approved": null}',
        '{"Approved": false}',
        '{"approved": false, "feedback": "cut of',
        '{"approved": true} no wait {"approved": false}',
        "{approved: false}",
        "approved: false",
        "Approved = false",
        "Approved: No. The number is wrong.",
        "APPROVED? Not yet.",
        "I think so",
    ],
)
def test_anything_but_a_clear_yes_is_a_no(said: str) -> None:
    """An answer is never approved by accident."""
    critic = SelfCritique("Is it good?", model=ScriptedDriver([say(said)]), rounds=0)
    agent = AgentBuilder().with_driver(ScriptedDriver([say("an answer")]))
    result = agent.with_capability(critic).build().run_sync("go")
    assert result.stop_reason is StopReason.NOT_APPROVED


def test_a_critic_that_blocks_is_left_behind() -> None:
    """The time-out holds for plain functions too."""
    release = threading.Event()

    def slow(_: Draft) -> bool:
        return release.wait(60)

    agent = AgentBuilder().with_driver(ScriptedDriver([say("an answer")]))
    try:
        result = agent.with_capability(SelfCritique(slow, timeout=0.05)).build().run_sync("go")
    finally:
        release.set()
    assert "took longer than 0.05 s" in result.explain()


def test_criteria_that_say_nothing_are_refused() -> None:
    """When the agent is built."""
    with pytest.raises(BuildError, match="is not a critic"):
        SelfCritique("  ")


async def test_a_run_cancelled_while_its_critic_is_between_two_steps_is_cancelled() -> None:
    """The critic's run knows of it before the task does, and that is no failure of the critic."""
    agents: list[Any] = []

    @tool
    async def check() -> str:
        """Check."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        # The call is over in the same turn of the loop in which somebody cancels the run.
        loop.call_soon(done.set_result, None)
        loop.call_soon(agents[0].cancel, "r")
        await done
        return "checked"

    turns = ScriptedDriver([call("check"), say("APPROVED")])
    critic = AgentBuilder().with_driver(turns).with_tools(check).build()
    builder, _ = answering(say("an answer"), critic=critic)
    agents.append(builder.build())
    result = await agents[0].run("go", run_id="r")
    assert result.status is RunStatus.CANCELLED, result.explain()
