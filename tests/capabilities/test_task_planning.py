"""A list of tasks: written as a whole, shown before every turn, kept in the state, and insisted on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from driven import WAYS, drive, lives, on_disk
from run_results import result_texts

from hookline import AgentBuilder, AgentState, HookOutcome, RunStatus, StopReason, tool
from hookline.capabilities import Task, TaskPlanning, TaskStatus
from hookline.errors import BuildError
from hookline.testing import ScriptedDriver, call, say


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


def todo(**statuses: str) -> Any:
    """A call that writes tasks by content and status."""
    return call(
        "todo_write",
        todos=[{"content": content, "status": status} for content, status in statuses.items()],
    )


def planning(*turns: Any, **options: Any) -> Any:
    """A builder for an agent that makes these turns."""
    driver = ScriptedDriver(turns)
    builder = AgentBuilder().with_driver(driver).with_tools(look)
    return builder.with_capability(TaskPlanning(**options)), driver


@pytest.mark.parametrize("way", WAYS)
async def test_the_list_is_kept_and_shown_and_not_in_the_conversation(way: str) -> None:
    """The next request ends with the list; the transcript has it only where the model wrote it."""
    builder, driver = planning(
        todo(dig="completed", plant="in_progress"), call("look"), say("done")
    )
    result = await drive(builder.build(), way)
    assert result_texts(result)[0] == "1 of 2 done.\n[x] 1: dig\n[>] 2: plant"
    for request in driver.requests[1:]:
        last = request.messages[-1]
        assert (last.text, last.by) == ("Your tasks:\n[x] 1: dig\n[>] 2: plant", "task-planning")
    assert len(driver.requests[0].messages) == 1
    assert [message.role for message in result.state.messages] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip
    saved = AgentState.from_json(result.state.to_json())
    assert TaskPlanning.tasks(saved) == (
        Task("dig", TaskStatus.COMPLETED, "1"),
        Task("plant", TaskStatus.IN_PROGRESS, "2"),
    )


def test_a_finished_list_is_not_shown() -> None:
    """Once nothing is open, the request is as it would be without a list."""
    builder, driver = planning(todo(a="completed", b="cancelled"), say("done"))
    builder.build().run_sync("go")
    assert driver.requests[1].messages[-1].role == "tool"


def test_a_list_that_is_not_touched_is_brought_to_mind() -> None:
    """After so many steps without a change the model gets a reminder; writing the list resets the count."""
    looks = [call("look") for _ in range(3)]
    builder, driver = planning(
        todo(a="pending"), *looks, todo(a="in_progress"), call("look"), say("done"),
        render=False, remind_after=2,
    )  # fmt: skip
    builder.build().run_sync("go")
    reminded = ["has not changed" in str(request.messages[-1]) for request in driver.requests]
    assert reminded == [False, False, False, True, True, False, False]
    assert "for 2 steps, and 1 task is open" in driver.requests[3].messages[-1].text
    assert driver.requests[2].messages[-1].role == "tool"


@pytest.mark.parametrize(
    ("todos", "words"),
    [
        ([{"content": "a"}, {"content": "A "}], "tasks 1 and 2 have the same content: 'a'"),
        ([{"content": "a", "id": "x"}, {"content": "b", "id": "x"}], "the same id: 'x'"),
        ([{"content": "  "}], "task 1 has no content"),
        ([{"content": "x" * 501}], "501 characters"),
        ([{"content": str(n)} for n in range(4)], "4 tasks are too many; 3 are the most"),
        (
            [{"content": c, "status": "in_progress"} for c in "ab"],
            "2 tasks are in_progress: 1, 2. Work on one at a time",
        ),
        ([{"content": "a", "status": "doing"}], "'todos[0].status': should be 'pending'"),
        ([{"text": "a"}], "'todos[0].content': missing"),
    ],
)
def test_a_wrong_list_is_refused_and_the_old_one_stays(todos: Any, words: str) -> None:
    """Each mistake is named so that the model can fix it."""
    builder, _ = planning(
        todo(first="pending"), call("todo_write", todos=todos), say("done"), max_tasks=3
    )
    result = builder.build().run_sync("go")
    assert words in result_texts(result)[1]
    assert [task.content for task in TaskPlanning.tasks(result.state)] == ["first"]


def test_several_in_progress_may_be_allowed() -> None:
    """One at a time is an option."""
    builder, _ = planning(todo(a="in_progress", b="in_progress"), say("done"), one_at_a_time=False)
    assert result_texts(builder.build().run_sync("go")) == ["0 of 2 done.\n[>] 1: a\n[>] 2: b"]


def test_a_list_that_is_withheld_is_not_kept() -> None:
    """What a hook withholds does not enter the state by the back door."""
    builder, _ = planning(todo(a="pending"), say("done"))
    builder.on_after_tool_use(lambda ctx: HookOutcome.block("no"), name="no")
    assert TaskPlanning.tasks(builder.build().run_sync("go").state) == ()


async def test_an_end_with_open_tasks_is_objected_to() -> None:
    """The model is sent back with what is open, and may end when nothing is."""
    builder, driver = planning(
        todo(a="pending", b="pending"), say("done?"), todo(a="completed", b="cancelled"), say("done"),
        insist=2,
    )  # fmt: skip
    result = await builder.build().run("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "done")
    said = [m for m in driver.requests[2].messages if "You are not done" in m.text]
    assert len(said) == 1
    assert "2 tasks are open (a; b)" in said[0].text


@pytest.mark.parametrize("way", WAYS)
async def test_insisting_ends_with_an_honest_reason(way: str) -> None:
    """A model that will not do its tasks is stopped, with what is open; its words are still there."""
    builder, _ = planning(todo(a="pending"), say("1"), say("2"), say("3"), insist=2)
    result = await drive(builder.build(), way)
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.TASKS_OPEN)
    assert result.text == "3"
    assert result.state.ending.reason == "1 task is still open after 2 objections: a"
    assert result.state.ending.decided_by == "task-planning-insist"


def test_a_limit_is_not_objected_to() -> None:
    """When a guard ends the run, its reason stands."""
    builder, _ = planning(todo(a="pending"), call("look"), call("look"), insist=3)
    result = builder.with_limits(steps=2).build().run_sync("go")
    assert result.stop_reason is StopReason.STEP_LIMIT


def test_objections_are_counted_for_each_run() -> None:
    """A later run of the same conversation has its objections to itself."""
    builder, _ = planning(
        todo(a="pending"), say("1"), say("2"), say("3"), todo(a="completed"), say("4"), insist=1
    )
    agent = builder.build()
    first = agent.run_sync("go")
    assert first.stop_reason is StopReason.TASKS_OPEN
    second = agent.run_sync("again", state=first.state)
    assert (second.status, second.text) == (RunStatus.COMPLETED, "4")


async def test_it_survives_any_death_and_the_disk(tmp_path: Path) -> None:
    """Resumed after any record: the same list, the same transcript, the same number of objections."""
    script = [todo(a="pending"), call("look"), say("done?"), todo(a="completed"), say("done")]

    def build(journal: Any) -> Any:
        builder, _ = planning(
            *[lambda state: script[state.step_count]] * 5, insist=1, remind_after=1
        )
        return builder.with_journal(journal).build()

    whole, resumed = await lives(build)
    for result in resumed:
        assert tuple(result.state.messages) == tuple(whole.state.messages)
        assert (result.state.metadata, result.text) == (whole.state.metadata, whole.text)
    again = await on_disk(build, tmp_path / "j.db")
    assert TaskPlanning.tasks(again.state) == (Task("a", TaskStatus.COMPLETED, "1"),)


@pytest.mark.parametrize(
    "options", [{"remind_after": 0}, {"insist": -1}, {"insist": None}, {"max_tasks": True}]
)
def test_nonsense_is_refused(options: dict[str, Any]) -> None:
    """Wrong options are named."""
    with pytest.raises(BuildError, match=f"{next(iter(options))}="):
        TaskPlanning(**options)
