"""A run with skills and subagents, resumed wherever its journal may end: it becomes what it would have been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from descent import Descent, results_of
from plain_store import PlainStore

from hookline import AgentBuilder, RunStatus, tool
from hookline.capabilities import Skills, Subagent, Subagents
from hookline.state import check_transcript
from hookline.testing import ScriptedDriver, call, calls, say


def results_by_run(store: PlainStore) -> dict[str, list[tuple[str, str]]]:
    """The tool results of every run in a store."""
    runs = dict.fromkeys(name for name, _ in store.written)
    return {name: results_of(store.records(name)) for name in sorted(runs)}


async def test_a_tree_of_subagents_is_resumed_after_any_record() -> None:
    """Nothing that the top forbids runs, nothing is lost, and all of it is counted once."""
    store = PlainStore()
    await Descent().guarded().with_journal(store).build().run("Clean up.", run_id="r")
    whole = results_by_run(store)
    for end in range(1, len(store.written)):
        cut, descent = store.cut(end), Descent()
        result = await descent.guarded().with_journal(cut).build().resume("r")
        assert (result.status, result.text) == (RunStatus.COMPLETED, "all is clean"), end
        assert results_by_run(cut) == whole, end
        assert "delete notes.txt" not in descent.did, end
        assert (result.state.counters.steps, result.usage.requests) == (14, 14), end
        check_transcript(result.state.messages)


class Steady:
    """A model that answers by how far the conversation is, so that any process can continue with it."""

    def __init__(self, *turns: Any) -> None:
        self.turns = turns

    async def infer(self, request: Any, turn: Any) -> Any:
        """The turn for this step."""
        return await ScriptedDriver([self.turns[turn.state.step_count]]).infer(request, turn)


@tool(effect="idempotent")
def write(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


def reader(skills: Path, store: PlainStore) -> Any:
    """An agent that loads a skill, starts two subagents under it, and unloads it."""
    spawn = call("spawn_subagent", agent="helper", prompt="write it")
    turns = (
        call("load_skill", name="reader"),
        calls(spawn, spawn),
        call("write", path="a"),
        call("load_skill", name="reader", unload=True),
        call("write", path="b"),
        say("done"),
    )
    helper = Subagent("helper", "Helps.", model=Steady(call("write", path="c"), say("tried")))
    made = AgentBuilder().with_driver(Steady(*turns)).with_tools(write).with_journal(store)
    return made.with_capability(Skills(skills)).with_capability(Subagents(helper)).build()


async def test_an_active_skill_holds_after_any_record(tmp_path: Path) -> None:
    """In the run and in its subagents, until it is unloaded."""
    (tmp_path / "reader").mkdir()
    (tmp_path / "reader/SKILL.md").write_text(
        "---\ndescription: d\nallowed-tools: Read, Agent\n---\nRead it."
    )
    store = PlainStore()
    await reader(tmp_path, store).run("go", run_id="r")
    whole = results_by_run(store)
    words = [text for results in whole.values() for name, text in results if name == "write"]
    assert sum("allows only Read, Agent" in text for text in words) == 3
    assert words.count("wrote b") == 1
    for end in range(1, len(store.written)):
        cut = store.cut(end)
        await reader(tmp_path, cut).resume("r")
        assert results_by_run(cut) == whole, end
