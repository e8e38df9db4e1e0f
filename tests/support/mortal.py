"""An agent that dies: forked processes drive one run each until they are killed, and others take the run up.

`python mortal.py FOLDER SEED KILLS` kills until every place has been died at often enough, finishes every run, and
prints what it saw as JSON. Forking saves the start of Python, so that hundreds of deaths take seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from hookline import AgentBuilder, HookOutcome, RunStatus, ToolContext, tool
from hookline.journal import SQLiteJournal, StepFinished, fold
from hookline.state import check_transcript
from hookline.testing import ScriptedDriver, call, calls, say

PLACES = ("model", "hook", "tool", "effect", "commit", "approval", "anywhere")
SCRIPT = (
    calls(call("pay", n=1)),
    calls(call("pay", n=2), call("note", n=3), call("look")),
    calls(call("delegate"), call("look")),
    calls(call("ask", n=4), call("note", n=5)),
    say("done"),
)
CHILD = (calls(call("pay", n=6), call("note", n=7)), calls(call("look")), say("child done"))


class Reaper:
    """Kills this process when it reaches a place for the given time."""

    def __init__(self, place: str, number: int) -> None:
        self.place, self.number = place, number
        self.seen: Counter[str] = Counter()

    def at(self, place: str) -> None:
        """This process is at that place now."""
        self.seen[place] += 1
        if place == self.place and self.seen[place] == self.number:
            if place == "commit":  # while it is being written
                threading.Timer(random.random() * 0.0006, die).start()
            else:
                die()


def die() -> None:
    """As suddenly as it gets."""
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal:
    """One life of a run."""

    def __init__(self, folder: Path, run_id: str, reaper: Reaper) -> None:
        self.effects = folder / f"{run_id}.effects"
        self.run_id = run_id
        self.reaper = reaper
        self.journal = SQLiteJournal(folder / "runs.db")

    def agent(self) -> Any:
        """The agent, as each process builds it."""
        inner = self._builder(CHILD).build()

        @tool
        async def delegate(context: ToolContext) -> str:
            """Hand it on."""
            return (await context.spawn(inner, "task")).text

        builder = self._builder(SCRIPT).with_tools(delegate).with_approver(self._approve)
        builder.on_before_tool_use(
            lambda ctx: HookOutcome.ask("sure?"), matcher="ask", name="asker"
        )
        for point in (
            "before_step",
            "after_inference",
            "before_tool_use",
            "after_tool_use",
            "after_step",
        ):
            builder.add_hook(point, self._hook, name=f"mortal-{point}", scope="tree")
        return builder.build()

    def _builder(self, script: tuple[Any, ...]) -> AgentBuilder:
        async def pay(context: ToolContext, n: int) -> str:
            """Pay."""
            return await self._effect("pay", context)

        async def ask(context: ToolContext, n: int) -> str:
            """Do what needs a yes."""
            return await self._effect("ask", context)

        async def note(context: ToolContext, n: int) -> str:
            """Note."""
            return await self._effect("note", context)

        async def look() -> str:
            """Look."""
            return "seen"

        return (
            AgentBuilder()
            .with_driver(Model(script, self.reaper))
            .with_tools(pay, ask, tool(note, effect="idempotent"), tool(look, effect="pure"))
            .with_journal(Watched(self.journal, self.reaper))  # type: ignore[arg-type]
        )

    async def _effect(self, name: str, context: ToolContext) -> str:
        self.reaper.at("tool")
        line = f"{name} {context.idempotency_key}\n".encode()
        handle = os.open(self.effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line)
        os.close(handle)
        self.reaper.at("effect")
        await asyncio.sleep(random.random() * 0.002)
        return f"{name} done"

    def _hook(self, ctx: Any) -> None:
        self.reaper.at("hook")

    async def _approve(self, approval: Any) -> bool:
        self.reaper.at("approval")
        return True

    async def live(self, *, is_new: bool) -> str:
        """Run, or continue, to the end."""
        agent = self.agent()
        if is_new:
            result = await agent.run("go", run_id=self.run_id)
        else:
            result = await agent.resume(self.run_id)
        await self.journal.close()
        return str(result.status.value)


class Model:
    """A model that answers by how far the conversation is."""

    def __init__(self, script: tuple[Any, ...], reaper: Reaper) -> None:
        self.script, self.reaper = script, reaper

    async def infer(self, request: Any, turn: Any) -> Any:
        """The turn for this step."""
        self.reaper.at("model")
        return await ScriptedDriver([self.script[turn.state.step_count]]).infer(request, turn)


class Watched:
    """A journal that calls the reaper when something is written."""

    clock_offset = 0.0

    def __init__(self, journal: SQLiteJournal, reaper: Reaper) -> None:
        self.journal, self.reaper = journal, reaper
        self.open, self.close = journal.open, journal.close
        self.read, self.runs = journal.read, journal.runs
        self.post, self.inbox = journal.post, journal.inbox

    async def claim(self, run_id: str) -> Any:
        """The journal's own claim, watched."""
        return WatchedClaim(await self.journal.claim(run_id), self.reaper)


class WatchedClaim:
    """One run's claim."""

    def __init__(self, claim: Any, reaper: Reaper) -> None:
        self.claim, self.reaper = claim, reaper
        self.run_id, self.give_back = claim.run_id, claim.give_back
        self.steps_before_loss = claim.steps_before_loss

    def write(self, records: Any) -> Any:
        """Written here or by the writer's thread, which may die at it."""
        self.reaper.at("commit")
        return self.claim.write(records)


def fork_a_life(folder: Path, run_id: str, place: str, number: int, *, is_new: bool) -> int:
    """Its exit code: 0 when its run ended, negative when it was killed."""
    with warnings.catch_warnings():  # the child of a process with threads begins anew
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            mortal = Mortal(folder, run_id, Reaper(place, number))
            status = asyncio.run(mortal.live(is_new=is_new))
            os._exit(0 if status == RunStatus.COMPLETED.value else 3)
        except BaseException as error:
            print(f"{run_id}: {error!r}", file=sys.stderr, flush=True)
            os._exit(4)
    if place == "anywhere":
        time.sleep(random.random() * 0.05)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def begun(folder: Path, run_id: str) -> bool:
    """Whether the journal knows the run."""
    journal = SQLiteJournal(folder / "runs.db")
    try:
        return any(info.run_id == run_id for info in journal.runs_sync())
    finally:
        journal.close_sync()


def drive_to_the_end(folder: Path, run_id: str, deaths: Counter[str], wanted: int) -> list[str]:
    """Kill a run up to three times, then let it finish; gives what was wrong."""
    for _ in range(random.randint(1, 3)):
        place = min(PLACES, key=lambda each: (deaths[each] >= wanted, random.random()))
        exit_code = fork_a_life(
            folder, run_id, place, random.randint(1, 6), is_new=not begun(folder, run_id)
        )
        if exit_code == -signal.SIGKILL:
            deaths[place] += 1
        elif exit_code != 0:
            return [f"{run_id}: a life that was not killed ended with {exit_code}"]
    exit_code = fork_a_life(folder, run_id, "nowhere", 0, is_new=not begun(folder, run_id))
    if exit_code != 0:
        return [f"{run_id}: the last life ended with {exit_code}"]
    return list(faults(folder, run_id))


def faults(folder: Path, run_id: str) -> Any:
    """What must never be, found in the journal and in the effects of a finished run."""
    journal = SQLiteJournal(folder / "runs.db")
    records = journal.read_sync(run_id)
    story = fold(records)
    check_transcript(story.state.messages)
    if not story.is_finished or len(story.state.steps) != len(SCRIPT):
        yield f"{run_id}: {len(story.state.steps)} steps, finished: {story.is_finished}"
    if [record.seq for record in records] != list(range(len(records))):
        yield f"{run_id}: records are numbered {[record.seq for record in records]}"
    settled = [record.step.index for record in records if isinstance(record, StepFinished)]
    if settled != sorted(set(settled)):
        yield f"{run_id}: steps settled {settled}"
    yield from _wrong_effects(folder, run_id, journal)
    journal.close_sync()


def _wrong_effects(folder: Path, run_id: str, journal: SQLiteJournal) -> Any:
    path = folder / f"{run_id}.effects"
    done = Counter(path.read_text().split("\n")[:-1] if path.exists() else [])
    for line, times in done.items():
        if times > 1 and not line.startswith("note "):
            yield f"{run_id}: '{line}' happened {times} times"
    for info in journal.runs_sync():
        if not info.run_id.startswith(run_id):
            continue
        for step in fold(journal.read_sync(info.run_id)).state.steps:
            for result in step.results:
                key = f"{result.name} {info.run_id}/{step.index}/{result.call_id}"
                if result.name in ("pay", "ask", "note") and result.is_success and not done[key]:
                    yield f"{run_id}: {key} is said to be done, and is not"


def main() -> None:
    """Kill until every place was died at often enough."""
    folder, seed, wanted = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    random.seed(seed)
    deaths: Counter[str] = Counter()
    wrong: list[str] = []
    number = 0
    while any(deaths[place] < wanted for place in PLACES) and number < 40 * wanted:
        wrong += drive_to_the_end(folder, f"run-{number}", deaths, wanted)
        number += 1
    journal = SQLiteJournal(folder / "runs.db")
    report = journal.check_sync()
    print(json.dumps({"deaths": deaths, "runs": number, "wrong": wrong, "journal": str(report)}))


if __name__ == "__main__":
    main()
