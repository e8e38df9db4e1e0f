"""A run that waited, and is resumed by another process: its hooks learn that the session continues."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from plain_store import PlainStore

from hookline import AgentBuilder, HookOutcome, RunStatus
from hookline.capabilities import Bash
from hookline.journal import HookRan, RunTakenUp, StatusChanged, StepFinished, fold
from hookline.playback import backtest, replay
from hookline.testing import ScriptedDriver, call, say

START = "cat >> starts; echo 'export GREETING=hello' >> \"$CLAUDE_ENV_FILE\"; echo 'be kind'"


def hooked(stage: Any, matcher: str = "") -> Any:
    """Hooks as another process reads them."""
    entry = {"matcher": matcher, "hooks": [{"type": "command", "command": START}]}
    stage.file(".claude/settings.json", {"hooks": {"SessionStart": [entry]}})
    return stage.discover()


def agent(stage: Any, hooks: Any, journal: Any, *turns: Any) -> Any:
    """An agent that asks before it runs a command."""
    builder = AgentBuilder().with_driver(ScriptedDriver(list(turns)))
    builder = builder if journal is None else builder.with_journal(journal)
    builder.with_capability(Bash(stage.root, sandbox="host")).with_capability(hooks)
    return builder.on_before_tool_use(lambda ctx: HookOutcome.ask("sure?"), name="mine").build()


def sources(stage: Any) -> list[str]:
    """How the session began, in each call of the hooks."""
    lines = (stage.root / "starts").read_text().splitlines()
    return [json.loads(line)["source"] for line in lines]


def test_they_are_called_and_what_they_set_is_there_again(stage: Any) -> None:
    """A new process knows nothing of the first one."""
    journal = PlainStore()
    turns = (call("bash", command='echo "[$GREETING]"'), say("done"))
    paused = agent(stage, hooked(stage), journal, *turns).run_sync("go", run_id="r")
    assert sources(stage) == ["startup"]
    other = agent(stage, hooked(stage), journal, *turns[1:])
    result = other.resume_sync("r", {paused.pending[0].id: True})
    assert result.status is RunStatus.COMPLETED
    assert sources(stage) == ["startup", "resume"]
    texts = [message.text for message in result.state.messages]
    assert any(text.startswith("[hello]") for text in texts)
    assert sum("be kind" in text for text in texts) == 2
    replayed = asyncio.run(replay(journal, "r", agent(stage, hooked(stage), None)))
    assert replayed.identical, replayed
    assert [message.text for message in replayed.result.state.messages] == texts


def test_the_same_process_has_not_begun_again(stage: Any) -> None:
    """It still knows everything."""
    turns = (call("bash", command="ls"), say("done"))
    made = agent(stage, hooked(stage), PlainStore(), *turns)
    paused = made.run_sync("go", run_id="r")
    made.resume_sync("r", {paused.pending[0].id: True})
    assert sources(stage) == ["startup"]


@pytest.mark.parametrize(("matcher", "times"), [("startup", 1), ("resume|startup", 2)])
def test_matchers_distinguish_the_two(stage: Any, matcher: str, times: int) -> None:
    """As where a conversation is continued."""
    journal = PlainStore()
    turns = (call("bash", command="ls"), say("done"))
    paused = agent(stage, hooked(stage, matcher), journal, *turns).run_sync("go", run_id="r")
    other = agent(stage, hooked(stage, matcher), journal, *turns[1:])
    other.resume_sync("r", {paused.pending[0].id: True})
    assert len(sources(stage)) == times


@pytest.mark.parametrize("is_same", [True, False])
def test_what_a_person_has_answered_no_hook_is_asked_about(stage: Any, is_same: bool) -> None:
    """They were called before the person was asked, and notified of the question, in this process or another."""
    no = {"behavior": "deny", "message": "no"}
    said = json.dumps(
        {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": no}}
    )
    entries = {
        "PermissionRequest": f"[ -e asked ] && echo '{said}'; echo x >> asked",
        "Notification": "echo x >> notified",
    }
    hooks = {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in entries.items()
    }
    stage.file(".claude/settings.json", {"hooks": hooks})
    journal, turns = PlainStore(), (call("bash", command="echo ran"), say("done"))
    first = agent(stage, stage.discover(), journal, *turns)
    paused = first.run_sync("go", run_id="r")
    other = first if is_same else agent(stage, stage.discover(), journal, *turns[1:])
    result = other.resume_sync("r", {paused.pending[0].id: True})
    assert any(message.text.startswith("ran") for message in result.state.messages)
    assert (stage.root / "asked").read_text() == (stage.root / "notified").read_text() == "x\n"


# --- a run whose process died ---------------------------------------------------------------------------

START_UP = "cat >> starts; echo 'export GREETING=hello' >> \"$CLAUDE_ENV_FILE\"; echo 'be kind'"
TURNS = (call("bash", command='echo "[$GREETING]"'), call("bash", command="pwd"), say("done"))


class ByStep:
    """A model that answers by how far the conversation is."""

    async def infer(self, request: Any, turn: Any) -> Any:
        """The turn of this step."""
        return await ScriptedDriver([TURNS[turn.state.step_count]]).infer(request, turn)


def agent_up(stage: Any, journal: Any, command: str = START_UP, matcher: str = "") -> Any:
    """The agent_up as another process builds it."""
    hooks = stage.claude("SessionStart", command, matcher=matcher)
    builder = AgentBuilder().with_driver(ByStep()).with_approver(lambda _: True)
    builder.with_capability(hooks).with_capability(Bash(stage.root, sandbox="host"))
    return (builder if journal is None else builder.with_journal(journal)).build()


def sources_up(stage: Any) -> list[str]:
    """How the session began, in each call of the hooks."""
    lines = (stage.root / "starts").read_text().splitlines()
    return [json.loads(line)["source"] for line in lines]


def deaths(journal: PlainStore) -> list[PlainStore]:
    """The journals that processes would have left which died after a record, before the run had its end."""
    return [each for each in _cuts(journal) if not _is_on_its_way_out(each)]


def _cuts(journal: PlainStore) -> list[PlainStore]:
    return [journal.cut(at) for at in range(journal.ends[0], len(journal.written))]


def _is_on_its_way_out(journal: PlainStore, since: int = 0) -> bool:
    records = journal.records("r")[since:]
    steps = [record.step for record in records if isinstance(record, StepFinished)]
    outcome = steps[-1].outcome if steps else None
    is_done = outcome is not None and not outcome.should_continue
    return is_done or any(isinstance(record, StatusChanged) for record in records)


def texts(messages: Any) -> list[str]:
    """What was said."""
    return [message.text for message in messages]


@pytest.mark.timeout(300)
async def test_wherever_it_died_they_are_called_and_replay_is_identical(stage: Any) -> None:
    """The source is `resume`, what they set and say is there again, and replay and journal agree."""
    first = PlainStore()
    await agent_up(stage, first).run("go", run_id="r")
    found = deaths(first)
    assert len(found) > 3
    for journal in found:
        (stage.root / "starts").unlink(missing_ok=True)
        result = await agent_up(stage, journal).resume("r")
        assert (result.status, sources_up(stage)) == (RunStatus.COMPLETED, ["resume"])
        said = texts(result.state.messages)
        assert sum("be kind" in each for each in said) == 2
        assert any(each.startswith("[hello]") for each in said) or "not known" in " ".join(said)
        assert texts(fold(await journal.read("r")).state.messages) == said
        replayed = await replay(journal, "r", agent_up(stage, None))
        assert replayed.identical, replayed
        assert replayed.is_whole
        assert texts(replayed.result.state.messages) == said
        report = await backtest(journal, agent_up(stage, None), runs=["r"])
        assert report.ok, report


async def test_it_dies_twice(stage: Any) -> None:
    """Each process is another, also in the same step."""
    first = PlainStore()
    await agent_up(stage, first).run("go", run_id="r")
    journal = deaths(first)[1]
    count = len(journal.written)
    await agent_up(stage, journal).resume("r")
    places = [
        at
        for at, record in enumerate(await journal.read("r"))
        if at >= count and isinstance(record, HookRan)
    ]
    again = journal.cut(places[0] + 1)
    result = await agent_up(stage, again).resume("r")
    assert sources_up(stage) == ["startup", "resume", "resume"]
    said = texts(result.state.messages)
    assert sum("be kind" in each for each in said) == 3
    replayed = await replay(again, "r", agent_up(stage, None))
    assert replayed.identical, replayed
    assert texts(replayed.result.state.messages) == said


async def test_one_that_wants_no_more_of_it_ends_the_run(stage: Any) -> None:
    """As where a session begins, and so it does when it is played."""
    first = PlainStore()
    await agent_up(stage, first).run("go", run_id="r")
    stops = """grep -q resume && echo '{"continue": false, "stopReason": "not today"}'"""
    for journal in deaths(first):
        result = await agent_up(stage, journal, stops).resume("r")
        assert (result.status, result.state.ending.reason) == (RunStatus.STOPPED, "not today")
        replayed = await replay(journal, "r", agent_up(stage, None, stops))
        assert replayed.identical, replayed


async def test_matchers_distinguish_a_new_process_from_the_first(stage: Any) -> None:
    """Hooks for new sessions only are not called."""
    first = PlainStore()
    await agent_up(stage, first, matcher="startup").run("go", run_id="r")
    await agent_up(stage, deaths(first)[1], matcher="startup").resume("r")
    assert sources_up(stage) == ["startup"]


async def test_what_has_its_end_does_not_continue(stage: Any) -> None:
    """Of such a run only the way out is left."""
    first = PlainStore()
    await agent_up(stage, first).run("go", run_id="r")
    ended = next(filter(_is_on_its_way_out, _cuts(first)))
    await agent_up(stage, ended).resume("r")
    assert any(isinstance(record, RunTakenUp) for record in ended.records("r"))
    assert sources_up(stage) == ["startup"]


async def test_it_had_waited_and_died_after_that(stage: Any) -> None:
    """The first process was left at a question, the second died with the answer, and the third continues."""
    first = PlainStore()
    hooks = stage.claude("SessionStart", START_UP)
    asking = AgentBuilder().with_driver(ByStep()).with_capability(hooks).with_journal(first)
    asking.with_capability(Bash(stage.root, sandbox="host"))
    paused = await asking.build().run("go", run_id="r")
    assert paused.status is RunStatus.PAUSED
    count = len(first.written)
    await agent_up(stage, first).resume("r", {paused.pending[0].id: True})
    for at in range(count + 1, len(first.written)):
        journal = first.cut(at)
        if _is_on_its_way_out(journal, count):
            break
        (stage.root / "starts").unlink(missing_ok=True)
        waits = {each.id: True for each in fold(await journal.read("r")).state.pending}
        result = await agent_up(stage, journal).resume("r", waits)
        assert result.status is RunStatus.COMPLETED
        assert sources_up(stage) == ["resume"]
        replayed = await replay(journal, "r", agent_up(stage, None))
        assert replayed.identical, replayed
        assert texts(replayed.result.state.messages) == texts(result.state.messages)
        assert texts(fold(await journal.read("r")).state.messages) == texts(result.state.messages)
