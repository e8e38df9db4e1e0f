"""Kills a process at every record and at every commit of runs of many kinds, and lets another one continue.

`python kill_everywhere.py FOLDER [EVERY] [SCENARIO ...]` prints as JSON, for each scenario, how many processes were
killed and what was wrong afterwards. `EVERY` is the distance between two kills: 1, the default, kills everywhere.
Forking saves the start of Python.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hookline import AgentBuilder, ErrorPolicy, HookOutcome, ToolContext, replay, tool
from hookline.capabilities import Subagent, Subagents
from hookline.errors import (
    RateLimitError,
    RunInUseError,
    SessionConflictError,
    SessionError,
)
from hookline.flow import ErrorAction, ErrorClass
from hookline.journal import JournalStore, PostgresJournal, SQLiteJournal, StepFinished, story_of
from hookline.sessions import Sessions
from hookline.state import ResultStatus, RunStatus, check_transcript
from hookline.testing import ScriptedDriver, call, calls, say

RUN = "run"


def make_journal(folder: Path) -> None:
    """A file there, or a schema of its own in the database that HOOKLINE_DATABASE_URL names."""
    if os.environ.get("HOOKLINE_DATABASE_URL"):
        schema = f"kill_{uuid.uuid4().hex}"
        PostgresJournal(schema=schema).migrate_sync()
        (folder / "schema").write_text(schema)


def open_journal(folder: Path) -> JournalStore:
    """The journal of a folder."""
    note = folder / "schema"
    if note.exists():
        return PostgresJournal(schema=note.read_text())
    return SQLiteJournal(folder / "runs.db")


class Life:
    """One process. It dies when it has appended, or committed, so many records or batches."""

    def __init__(self, folder: Path, kind: str, number: int) -> None:
        self.folder, self.kind, self.number = folder, kind, number
        self.seen: Counter[str] = Counter()
        self.journal = open_journal(folder)

    def at(self, kind: str) -> None:
        """Another record was appended, or another batch was committed."""
        self.seen[kind] += 1
        if kind == self.kind and self.seen[kind] == self.number:
            os.kill(os.getpid(), signal.SIGKILL)

    def did(self, what: str) -> bool:
        """A tool does something. Whether it is the first time."""
        path = self.folder / "effects"
        is_first = not path.exists() or what not in path.read_text().splitlines()
        with path.open("a") as file:
            file.write(f"{what}\n")
        return is_first

    def builder(self, *turns: Any, name: str = "main") -> AgentBuilder:
        """An agent with one tool of each effect, whose model makes these turns."""

        @tool
        async def pay(context: ToolContext, n: int) -> str:
            """Pay."""
            self.did(f"pay {context.idempotency_key}")
            await asyncio.sleep(0)
            return f"paid {n}"

        @tool(alone=True)
        async def order(context: ToolContext, n: int) -> str:
            """Order, while nothing else runs."""
            self.did(f"order {context.idempotency_key}")
            await asyncio.sleep(0)
            return f"ordered {n}"

        @tool(effect="idempotent")
        async def note(context: ToolContext, n: int) -> str:
            """Note."""
            self.did(f"note {context.idempotency_key}")
            return f"noted {n}"

        @tool(effect="idempotent")
        async def stumble(context: ToolContext, n: int) -> str:
            """Fail the first time."""
            if self.did(f"stumble {context.idempotency_key}"):
                raise RateLimitError("not now")
            return f"done {n}"

        @tool(effect="pure")
        async def look() -> str:
            """Look."""
            return "seen"

        builder = AgentBuilder().with_id(name).with_driver(Model(turns))
        return builder.with_tools(pay, order, note, stumble, look).with_limits(steps=30)


class Model:
    """Answers by how far the conversation is, so that any process can continue with it."""

    def __init__(self, turns: tuple[Any, ...]) -> None:
        self.turns = turns

    async def infer(self, request: Any, turn: Any) -> Any:
        """The turn for this step."""
        await asyncio.sleep(0)  # so that records are committed meanwhile
        return await ScriptedDriver([self.turns[turn.state.step_count]]).infer(request, turn)


# --- scenarios ----------------------------------------------------------------------------------------


class Scenario(NamedTuple):
    """An agent, and how its run is driven to its end by whoever finds it."""

    build: Callable[[Life], AgentBuilder]
    drive: Callable[[Life, Any], Awaitable[None]]
    in_doubt: int = 1
    """How many calls one death can leave in doubt."""
    replays: bool = True


def tools(life: Life) -> AgentBuilder:
    """One call after the other."""
    turns = (call("pay", n=1), call("note", n=2), call("look"), call("pay", n=3), say("done"))
    return life.builder(*turns)


def parallel(life: Life) -> AgentBuilder:
    """Calls that start together."""
    several = calls(call("pay", n=1), call("note", n=2), call("pay", n=3), call("look"))
    return life.builder(several, several, say("done"))


def alone(life: Life) -> AgentBuilder:
    """Calls of which each waits for the one before it."""
    several = calls(*(call("order", n=n) for n in range(4)))
    return life.builder(several, calls(call("order", n=5), call("pay", n=6)), say("done"))


def approvals(life: Life) -> AgentBuilder:
    """A policy asks, and a person answers at once."""
    return waiting(life).with_approver(lambda approval: True)


def waiting(life: Life) -> AgentBuilder:
    """A policy asks, and the run pauses."""
    turns = (calls(call("pay", n=1), call("look")), call("pay", n=2), say("done"))
    return life.builder(*turns).on_before_tool_use(
        lambda ctx: HookOutcome.ask("sure?"), matcher="pay", tier="policy", name="asker"
    )


def children(life: Life) -> AgentBuilder:
    """A tool that starts a child, which pays."""
    child = life.builder(call("pay", n=7), call("note", n=8), say("child done"), name="child")
    inner = child.build()

    @tool(effect="idempotent")
    async def delegate(context: ToolContext) -> str:
        """Hand it on."""
        return (await context.spawn(inner, "task")).text

    turns = (calls(call("delegate"), call("pay", n=1)), call("delegate"), say("done"))
    return life.builder(*turns).with_tools(delegate)


def subagents(life: Life) -> AgentBuilder:
    """Two subagents at once, each of which asks and pays, twice."""
    turns = (call("pay", n=4), call("pay", n=5), say("helped"))
    helper = Subagent("helper", "Helps.", model=Model(turns))
    spawn = call("spawn_subagent", agent="helper", prompt="pay it")
    builder = life.builder(calls(spawn, spawn), call("note", n=1), say("done"))
    builder.on_before_tool_use(
        lambda ctx: HookOutcome.ask("sure?"), matcher="pay", tier="policy", name="asker"
    )
    return builder.with_capability(Subagents(helper))


def around(life: Life) -> AgentBuilder:
    """A hook around each step writes before and after it, and makes the last one again."""

    async def twice(ctx: Any, call_next: Any) -> Any:
        made = await call_next(ctx.with_metadata(f"before-{ctx.step_index}", True))
        if made.step is not None and not made.step.calls and made.state.step_count < 4:
            made = await call_next(made)
        return made.with_metadata("after", made.state.step_count)

    return life.builder(
        call("pay", n=1), call("note", n=2), say("almost"), say("done")
    ).around_step(twice)


def retries(life: Life) -> AgentBuilder:
    """Calls that fail the first time and are tried again, beside one that must not be."""
    actions = dict.fromkeys(ErrorClass, ErrorAction.RETRY)
    turns = (calls(call("stumble", n=1), call("pay", n=2)), call("stumble", n=3), say("done"))
    return life.builder(*turns).with_error_policy(ErrorPolicy(actions=actions, max_retries=3))


def hooks(life: Life) -> AgentBuilder:
    """Hooks everywhere that count how often they were asked."""
    builder = life.builder(
        calls(call("pay", n=1), call("note", n=2)), call("pay", n=3), say("done")
    )
    for point in (
        "prompt_submit", "before_step", "before_inference", "after_inference", "before_tool_use",
        "after_tool_use", "after_step", "should_continue", "stop", "output",
    ):  # fmt: skip
        builder.add_hook(point, counting(point), name=f"count-{point}")
    return builder


def counting(point: str) -> Callable[[Any], Any]:
    """A hook that counts."""
    return lambda ctx: ctx.with_metadata(f"count-{point}", ctx.get(f"count-{point}", 0) + 1)


async def drive_run(life: Life, agent: Any) -> None:
    """Begin the run or continue it, and say yes to what it asks."""
    if any(info.run_id == RUN for info in await life.journal.runs()):
        result = await agent.resume(RUN)
    else:
        result = await agent.run("go", run_id=RUN)
    while result.status is RunStatus.PAUSED:
        result = await agent.resume(RUN, {each.id: True for each in result.pending})


PROMPTS = ("one", "two", "three")


class ByPrompt:
    """A model that pays for every prompt."""

    async def infer(self, request: Any, turn: Any) -> Any:
        """The turn for this step of this prompt."""
        await asyncio.sleep(0)
        number = len([each for each in request.messages if each.text in PROMPTS])
        turns = [calls(call("pay", n=number), call("look")), say(f"answer {number}")]
        return await ScriptedDriver([turns[turn.state.step_count]]).infer(request, turn)


def in_session(life: Life) -> AgentBuilder:
    """Three prompts of one session."""
    return life.builder().with_driver(ByPrompt())


async def drive_session(life: Life, agent: Any) -> None:
    """Do what is left to do."""
    sessions = Sessions(life.journal)
    known = [info for info in await life.journal.sessions() if info.id == RUN]
    session = await sessions.get(RUN) if known else await sessions.create(id=RUN)
    if session.unfinished:
        try:
            await session.resume_run(agent)
        except SessionError:
            session = await sessions.get(RUN)
            if session.unfinished:
                raise
            # The server has committed what the dead process had sent last, and its run is over.
    for prompt in PROMPTS:
        if prompt not in [message.text for message in session.state.messages]:
            await session.run(agent, prompt)


SCENARIOS = {
    "tools": Scenario(tools, drive_run),
    "parallel": Scenario(parallel, drive_run, in_doubt=2),
    "alone": Scenario(alone, drive_run),
    "approvals": Scenario(approvals, drive_run),
    "waiting": Scenario(waiting, drive_run),
    "children": Scenario(children, drive_run, in_doubt=2),
    "subagents": Scenario(subagents, drive_run, in_doubt=2),
    "around": Scenario(around, drive_run),
    "retries": Scenario(retries, drive_run),
    "hooks": Scenario(hooks, drive_run),
    "session": Scenario(in_session, drive_session),
}


# --- lives and deaths ---------------------------------------------------------------------------------


class Watched:
    """A claim that is counted."""

    def __init__(self, claim: Any, life: Life) -> None:
        self._claim, self._life = claim, life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claim, name)

    def write(self, records: Any) -> Any:
        """A batch counts when its commit is known: in a file at once, in a database when the loop has its answer."""
        written = self._claim.write(records)
        written.add_done_callback(lambda done: done.exception() or self._life.at("commit"))
        return written


def watch(life: Life) -> None:
    """Count the commits of a journal."""
    claim = life.journal.claim

    async def watched(run_id: str) -> Any:
        return Watched(await claim(run_id), life)

    life.journal.claim = watched  # type: ignore[method-assign]


async def live(life: Life, scenario: Scenario) -> None:
    """Drive the run to its end."""
    watch(life)
    builder = scenario.build(life).with_journal(life.journal)
    builder.on_event(lambda record: life.at("record"))
    agent = builder.build()
    while True:
        try:
            await scenario.drive(life, agent)
            break
        except (RunInUseError, SessionConflictError):
            # A server may need a moment to see that the one before is dead.
            await asyncio.sleep(0.01)
    await life.journal.close()


def fork(folder: Path, name: str, kind: str, number: int) -> int:
    """The exit code of a life: 0 when the run ended, negative when it was killed."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(live(Life(folder, kind, number), SCENARIOS[name]))
            os._exit(0)
        except BaseException as error:
            print(f"{name}, {kind} {number}: {error!r}", file=sys.stderr, flush=True)
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def faults(folder: Path, name: str, deaths: int) -> Iterator[str]:
    """What must never be, in the journal and in the effects of a run that has ended."""
    scenario = SCENARIOS[name]
    effects = Counter((folder / "effects").read_text().splitlines())
    for line, times in effects.items():
        if times > 1 and line.startswith(("pay ", "order ")):
            yield f"'{line}' happened {times} times"
    doubts = 0
    with open_journal(folder) as journal:
        if not (report := journal.check_sync()).ok or report.notes:
            yield str(report)
        for info in journal.runs_sync():
            records = journal.read_sync(info.run_id)
            check_transcript(asyncio.run(story_of(records, journal)).state.messages)
            steps = [each.step for each in records if isinstance(each, StepFinished)]
            if [step.index for step in steps] != list(range(len(steps))):
                yield f"steps of {info.run_id} are settled as {[step.index for step in steps]}"
            if info.status is not RunStatus.COMPLETED:
                yield f"run {info.run_id} is {info.status.value}"
            for step in steps:
                for result in step.results:
                    key = f"{result.name} {info.run_id}/{step.index}/{result.call_id}"
                    doubts += result.status is ResultStatus.IN_DOUBT
                    has_effect = result.name in ("pay", "order", "note", "stumble")
                    if has_effect and result.is_success and not effects[key]:
                        yield f"{key} is said to be done, and is not"
                    if not (result.is_success or result.status is ResultStatus.IN_DOUBT):
                        yield f"{key} is {result.status.value}: {result.text}"
        if doubts > deaths * scenario.in_doubt:
            yield f"{doubts} calls are in doubt"
        if name == "hooks" and not doubts:
            yield from _miscounted(journal)
    yield from asyncio.run(_replayed(folder, name))


def _miscounted(journal: JournalStore) -> Iterator[str]:
    counts = asyncio.run(story_of(journal.read_sync(RUN), journal)).state.metadata
    expected = dict.fromkeys(("before_tool_use", "after_tool_use"), 3)
    expected |= dict.fromkeys(("prompt_submit", "stop", "output"), 1)
    for point in (
        "before_step",
        "before_inference",
        "after_inference",
        "after_step",
        "should_continue",
    ):
        expected[point] = 3
    for point, count in expected.items():
        if counts.get(f"count-{point}") != count:
            yield f"{point} was counted {counts.get(f'count-{point}')} times"


async def _replayed(folder: Path, name: str) -> list[str]:
    """Replay every run that has no parent: the record of all its lives is one story."""
    scratch = folder / "scratch"
    scratch.mkdir()
    life = Life(scratch, "", 0)
    agent = SCENARIOS[name].build(life).build()
    wrong = []
    async with open_journal(folder) as journal:
        for info in await journal.runs():
            if info.parent_run_id is None:
                replayed = await replay(journal, info.run_id, agent)
                if not replayed.identical:
                    wrong.append(f"the replay of {info.run_id} differs: {replayed}")
    await life.journal.close()
    return wrong


def kill(folder: Path, name: str, places: list[tuple[str, int]]) -> tuple[int, list[str]]:
    """Kill at each place, one life after the other, then let the last one finish: deaths, and what is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_journal(folder)
    deaths = 0
    for kind, number in places:
        code = fork(folder, name, kind, number)
        deaths += code == -signal.SIGKILL
        if code not in (0, -signal.SIGKILL):
            return deaths, [f"at {places}: ended with {code}"]
    if fork(folder, name, "", 0) != 0:
        return deaths, [f"at {places}: the last one failed"]
    return deaths, [f"at {places}: {words}" for words in faults(folder, name, deaths)]


def kill_everywhere(folder: Path, name: str, every: int) -> tuple[int, list[str]]:
    """Once at each record, once at each commit, and a second time somewhere after each of these."""
    total, wrong = 0, list[str]()
    chance = random.Random(name)
    for kind in ("record", "commit"):
        number = 1
        while True:
            deaths, found = kill(folder, name, [(kind, number)])
            wrong += found
            total += deaths
            if not deaths:
                break
            again = (chance.choice(["record", "commit"]), chance.randint(1, 12))
            deaths, found = kill(folder, name, [(kind, number), again])
            wrong += found
            total += deaths
            number += every
    return total, wrong


def main() -> None:
    """Print what happened."""
    folder, *rest = sys.argv[1:]
    every = int(rest.pop(0)) if rest and rest[0].isdigit() else 1
    report = {}
    for name in rest or SCENARIOS:
        deaths, wrong = kill_everywhere(Path(folder) / name, name, every)
        report[name] = {"deaths": deaths, "wrong": wrong}
        print(f"{name}: {deaths} kills, {len(wrong)} wrong", file=sys.stderr, flush=True)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
