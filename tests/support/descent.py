"""An agent over two branches of subagents, three deep, at whose end something forbidden is tried.

`python descent.py FOLDER PLACES` kills a forked process at each of the first so many places a run comes to, takes the
run up in another, and prints as JSON what came of every run.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hookline import AgentBuilder, HookOutcome, SQLiteJournal, tool
from hookline.capabilities import Subagent, Subagents
from hookline.journal import fold
from hookline.testing import ScriptedDriver, call, calls, say

SCRIPTS: dict[str, tuple[Any, ...]] = {
    "top": (
        calls(
            call("spawn_subagent", agent="left", prompt="clean the left side"),
            call("spawn_subagent", agent="right", prompt="clean the right side"),
            call("look", at="top"),
        ),
        say("all is clean"),
    ),
    "left": (call("spawn_subagent", agent="middle", prompt="the left"), say("left done")),
    "right": (call("spawn_subagent", agent="middle", prompt="the right"), say("right done")),
    "middle": (call("spawn_subagent", agent="deep", prompt="delete it"), say("middle done")),
    "deep": (
        calls(call("delete", path="notes.txt"), call("look", at="deep"), call("send", to="anna")),
        say("deep done"),
    ),
}


class Model:
    """Answers by how far the conversation is, so that any process can continue with it."""

    def __init__(self, name: str) -> None:
        self.script = SCRIPTS[name]

    async def infer(self, request: Any, turn: Any) -> Any:
        """The turn for this step."""
        return await ScriptedDriver([self.script[turn.state.step_count]]).infer(request, turn)


class Descent:
    """The agent, and what its tools did."""

    def __init__(self, at: Callable[[str], object] = lambda place: None) -> None:
        self.did: list[str] = []
        self.at = at

    def builder(self) -> AgentBuilder:
        """The agent without the policies that the top may have."""

        @tool
        async def delete(path: str) -> str:
            """Delete a file."""
            self.at("tool")
            self.did.append(f"delete {path}")
            return f"deleted {path}"

        @tool(effect="idempotent")
        async def send(to: str) -> str:
            """Send a message."""
            self.at("tool")
            self.did.append(f"send {to}")
            return f"sent to {to}"

        @tool(effect="pure")
        async def look(at: str) -> str:
            """Look around."""
            self.at("tool")
            await asyncio.sleep(0)
            return f"seen {at}"

        return (
            AgentBuilder()
            .with_id("top")
            .with_driver(Model("top"))
            .with_tools(delete, send, look)
            .with_limits(steps=100)
            .with_capability(
                Subagents(
                    *(
                        Subagent(name, f"The {name} one.", model=Model(name))
                        for name in ("left", "right", "middle", "deep")
                    )
                )
            )
        )

    def guarded(self) -> AgentBuilder:
        """The agent whose top forbids deleting."""

        def keep(ctx: Any) -> HookOutcome:
            self.at("policy")
            return HookOutcome.block("nothing is deleted")

        return self.builder().on_before_tool_use(keep, matcher="delete", tier="policy", name="keep")


def results_of(records: Any) -> list[tuple[str, str]]:
    """The tool results in a journal, by tool and text."""
    steps = fold(records).state.steps
    return [(each.name, each.text) for step in steps for each in step.results]


def _fork(folder: Path, run_id: str, number: int, *, is_new: bool) -> int:
    """One process of a run: it dies at the given place, or ends with the run."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    places = 0

    def at(_place: str) -> None:
        nonlocal places
        places += 1
        if places == number:
            os.kill(os.getpid(), signal.SIGKILL)

    async def live() -> None:
        journal = SQLiteJournal(folder / "runs.db")
        descent = Descent(at)
        builder = descent.guarded().with_journal(journal)
        builder.add_hook("before_step", lambda ctx: at("step"), name="steps", scope="tree")
        agent = builder.build()
        await (agent.run("Clean up.", run_id=run_id) if is_new else agent.resume(run_id))
        await journal.close()
        with (folder / "did").open("a") as file:
            file.writelines(f"{each}\n" for each in descent.did)

    try:
        asyncio.run(live())
    except BaseException as error:
        print(f"{run_id}: {error!r}", file=sys.stderr, flush=True)
        os._exit(4)
    os._exit(0)


def main() -> None:
    """Die at each place once, and continue."""
    folder, places = Path(sys.argv[1]), int(sys.argv[2])
    exits = []
    for number in range(1, places + 1):
        run_id = f"run-{number}"
        exits.append(_fork(folder, run_id, number, is_new=True))
        if exits[-1] < 0:
            exits.append(_fork(folder, run_id, 0, is_new=False))
    journal = SQLiteJournal(folder / "runs.db")
    results = {
        info.run_id: results_of(journal.read_sync(info.run_id)) for info in journal.runs_sync()
    }
    ends = {info.run_id: info.status.value for info in journal.runs_sync()}
    journal.close_sync()
    did = (folder / "did").read_text().splitlines()
    print(json.dumps({"exits": exits, "results": results, "ends": ends, "did": did}))


if __name__ == "__main__":
    main()
