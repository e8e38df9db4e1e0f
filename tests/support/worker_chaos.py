"""Runs of many kinds on workers that are killed, lose their connections, and lose the server itself.

`python worker_chaos.py URL SCHEMA FOLDER` is a worker. What tools and hooks do, and what was committed, is a line in a
file: its process, the time, and what.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from postgres_server import PostgresServer

from hookline import Agent, AgentBuilder, HookOutcome, ToolContext, tool
from hookline.capabilities import Subagent, Subagents
from hookline.errors import HooklineError
from hookline.journal import (
    ChildFinished,
    EffectStarted,
    Questions,
    Record,
    RunFinished,
    RunTakenUp,
    StepFinished,
    post_answer,
    story_of,
)
from hookline.journal.record import hooks_in, start_of
from hookline.journal.session import stream_of
from hookline.journal.writer import RunClaim
from hookline.sessions import Sessions
from hookline.state import Decision, ResultStatus, RunStatus, check_transcript
from hookline.testing import ScriptedDriver, call, calls, say
from hookline.workers import QueueJournal, Worker

WORKERS = 4
DOUBT = "what it did is not known"
IN_STEPS = (
    "before_step", "before_inference", "after_inference", "before_tool_use", "after_tool_use", "after_step",
    "subagent_start", "subagent_stop",
)  # fmt: skip
ONCE = ("prompt_submit", "stop", "output")
ENDS = ("execution_end", "session_end")
STARTS = ("session_start", "execution_start")
DEADLY = (*STARTS, "prompt_submit")
"""Where a worker dies now and then, after the start of an effect: before its run has begun."""
DEATH = 0.05


class Line(NamedTuple):
    """What a process did, and when: the clock is that of the machine, the same in all processes."""

    pid: int
    at: int
    what: str


def note(folder: Path, name: str, what: str) -> None:
    """Add a line to a file. Lines of several processes do not mix."""
    file = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{os.getpid()} {time.monotonic_ns()} {what}\n".encode())
    os.close(file)


def lines(folder: Path, name: str) -> list[Line]:
    """What is in such a file."""
    path = folder / name
    words = [line.split(" ", 2) for line in path.read_text().splitlines()] if path.exists() else []
    return [Line(int(pid), int(at), what) for pid, at, what in words]


# --- agents -------------------------------------------------------------------------------------------


class Model:
    """Answers by how far the conversation is. At the end it says how many calls it was told are in doubt."""

    def __init__(self, *turns: Any) -> None:
        self.turns = turns

    async def infer(self, request: Any, turn: Any) -> Any:
        """The turn for this step. What was said before the prompt belongs to earlier runs of the session."""
        await asyncio.sleep(0.05)
        roles = [each.role for each in request.messages]
        since = request.messages[len(roles) - roles[::-1].index("user") :]
        step = sum(each.role == "assistant" for each in since)
        if step < len(self.turns):
            made = self.turns[step]
        else:
            doubts = sum(DOUBT in each.text for each in since)
            made = say(f"{turn.state.run_id}: {doubts} in doubt")
        return await ScriptedDriver([made]).infer(request, turn)


def make_tools(folder: Path, seconds: float) -> list[Any]:
    """One tool of each effect. Its answer names the call that it belongs to."""

    async def use(name: str, context: ToolContext) -> str:
        note(folder, "effects", f"{name} {context.idempotency_key}")
        await asyncio.sleep(random.uniform(0, 2 * seconds))
        return f"{name} for {context.idempotency_key}"

    @tool
    async def pay(context: ToolContext, n: int) -> str:
        """Pay."""
        return await use("pay", context)

    @tool(alone=True)
    async def order(context: ToolContext, n: int) -> str:
        """Order, while nothing else runs."""
        return await use("order", context)

    @tool(effect="idempotent")
    async def mark(context: ToolContext, n: int) -> str:
        """Mark."""
        return await use("mark", context)

    @tool(effect="pure")
    async def look(context: ToolContext) -> str:
        """Look."""
        return await use("look", context)

    return [pay, order, mark, look]


def where_asked(ctx: Any, point: str) -> str:
    """Where a hook is asked: the point, the run, the step and the call."""
    run_id, step, about = ctx.state.run_id, "", ""
    if point.startswith("subagent_"):
        _, step, about = ctx.child_run_id.removeprefix(run_id).split("/", 2)
    elif point in IN_STEPS:
        step = ctx.step_index
        about = ctx.tool_call.id if "tool_use" in point else ""
    return f"{point} {run_id} {step} {about}"


def hook(folder: Path, point: str) -> Callable[[Any], None]:
    """A hook with a side effect."""

    def noted(ctx: Any) -> None:
        status = ctx.status.value if point == "execution_end" else ""
        note(folder, "hooks", f"{status} {where_asked(ctx, point)}")

    return noted


def careful_hook(folder: Path, point: str) -> Callable[[Any], Awaitable[None]]:
    """A hook with a side effect that must not be repeated."""

    async def noted(ctx: Any) -> None:
        if await ctx.run.start_once(ctx, "note"):
            note(folder, "once", where_asked(ctx, point))
            if point in DEADLY and random.random() < DEATH:
                os.kill(os.getpid(), signal.SIGKILL)

    return noted


def make_agents(folder: Path, seconds: float = 0.2) -> dict[str, Agent]:
    """The agents of all workers."""
    tools = make_tools(folder, seconds)
    several = calls(call("pay", n=1), call("mark", n=2), call("pay", n=3), call("look"))
    spawn = call("spawn_subagent", agent="helper", prompt="pay it")
    turns = {
        "tools": (call("pay", n=1), call("mark", n=2), call("look"), call("pay", n=3)),
        "parallel": (several, several),
        "alone": (calls(*(call("order", n=n) for n in range(3))), call("pay", n=4)),
        "asks": (calls(call("pay", n=1), call("look")), call("pay", n=2)),
        "subagents": (calls(spawn, spawn, call("pay", n=1)), call("mark", n=2)),
        "subagents ask": (calls(spawn, spawn), call("pay", n=1)),
    }
    made = {}
    for name, each in turns.items():
        builder = AgentBuilder().with_id(name).with_driver(Model(*each)).with_tools(*tools)
        for point in (*IN_STEPS, *ONCE, *ENDS):
            builder.add_hook(point, hook(folder, point), name=f"side effect at {point}")
        for point in (*IN_STEPS, *ONCE, *ENDS, *STARTS):
            builder.add_hook(point, careful_hook(folder, point), name=f"once at {point}")
        asks = (lambda ctx: HookOutcome.ask("sure?")) if "ask" in name else (lambda ctx: None)
        builder.on_before_tool_use(asks, matcher="pay", tier="policy", name="policy")
        if "subagents" in name:
            helper = Subagent("helper", "Helps.", model=Model(call("pay", n=4), call("mark", n=5)))
            builder.with_capability(Subagents(helper))
        made[name] = builder.build()
    return made


def digest(record: Record) -> str:
    """What a record says, in short."""
    return hashlib.sha256(msgspec.json.encode(record)).hexdigest()[:16]


def note_commits(folder: Path) -> None:
    """Write down what was committed, as soon as the process knows it."""
    write = RunClaim.write

    def noted(claim: RunClaim, records: Sequence[Record]) -> Future[None]:
        written = write(claim, records)

        def committed(done: Future[None]) -> None:
            if done.exception() is None:
                for record in records:
                    note(folder, "commits", f"{digest(record)} {record.seq} {record.run_id}")

        if records:
            written.add_done_callback(committed)
        return written

    RunClaim.write = noted  # type: ignore[method-assign]


# --- what happens to them -----------------------------------------------------------------------------


class Chaos:
    """Workers, and somebody who ends them and answers the questions of their runs."""

    def __init__(self, server: PostgresServer, journal: QueueJournal, folder: Path) -> None:
        self.server, self.journal, self.folder = server, journal, folder
        self.chance = random.Random(19)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.counts: Counter[str] = Counter()
        self.sessions: dict[str, list[str]] = {}
        """The runs of each, as they were submitted."""
        self.is_over = threading.Event()

    def start(self) -> None:
        """Start a worker."""
        given = [self.server.url(), self.journal.database.schema, str(self.folder)]
        with (self.folder / "errors").open("ab") as errors:
            program = [sys.executable, __file__, *given]
            self.workers.append(subprocess.Popen(program, stderr=errors))

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.is_over.set()

    def submit(self, runs: int) -> None:
        """Queue as many runs of all kinds. Every fifth one belongs to a session, each time of another agent."""
        names = [*make_agents(self.folder)]
        for number in range(runs):
            agent, run_id = names[number % len(names)], f"run-{number}"
            session = f"talk-{number // 5 % max(1, runs // 20)}" if number % 5 == 0 else None
            if session is not None:
                self.sessions.setdefault(session, []).append(run_id)
            self.journal.submit_sync(agent, f"go {run_id}", run_id=run_id, session=session)

    def go(
        self,
        runs: int,
        *,
        between: tuple[float, float],
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Drive them to their ends, break something every so many seconds, and report it."""
        self.submit(runs)
        report(f"{runs} runs are submitted")
        for _ in range(WORKERS):
            self.start()
        people = threading.Thread(target=self.answer_all, daemon=True)
        people.start()
        blow = self.next_blow(between)
        left = runs
        while left:
            self.replace_dead()
            with suppress(HooklineError):  # a connection of ours was cut
                left = runs - self.count_over()
            if time.monotonic() >= blow and left:
                self.strike(left, runs)
                blow = self.next_blow(between)
                report(f"{left} of {runs} runs are left, after {dict(self.counts)}")
            time.sleep(0.1)
        self.is_over.set()
        people.join()

    def replace_dead(self) -> None:
        """Start a worker for each that has killed itself."""
        for each in [each for each in self.workers if each.poll() is not None]:
            self.workers.remove(each)
            self.counts["died"] += 1
            self.start()

    def next_blow(self, between: tuple[float, float]) -> float:
        """When something breaks next."""
        return time.monotonic() + self.chance.uniform(*between)

    def count_over(self) -> int:
        """How many runs are over, without those of subagents."""
        infos = self.journal.runs_sync()
        return sum(info.parent_run_id is None and is_over(info.status) for info in infos)

    def answer_all(self) -> None:
        """Say yes to everything, until all is over. A run that was taken up since is answered again."""
        answered: dict[str, int] = {}
        while not self.is_over.wait(0.1):
            with suppress(HooklineError):
                for info in self.journal.runs_sync(status=RunStatus.PAUSED):
                    if info.parent_run_id is None and answered.get(info.run_id) != info.records:
                        asyncio.run(self.answer(info.run_id))
                        answered[info.run_id] = info.records

    async def answer(self, run_id: str) -> None:
        """Say yes to the questions of a run."""
        for question in (await Questions.read(self.journal, run_id)).open:
            await post_answer(self.journal, run_id, question.id, Decision.allow(), by="ann")

    def strike(self, left: int, runs: int) -> None:
        """Kill a worker and start another one; then cut connections; in the middle, let the server crash."""
        if left < runs / 2 and not self.counts["server"]:
            self.counts["server"] += 1
            self.server.stop(with_signal=signal.SIGQUIT)
            self.server.start()
        elif self.counts["kill"] > 2 * self.counts["cut"] + 1:
            self.counts["cut"] += 1
            self.server.ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'hookline%' AND random() < 0.7"
            )
        else:
            busy = {line.pid for line in lines(self.folder, "effects")}
            alive = [each for each in self.workers if each.poll() is None and each.pid in busy]
            if len(alive) > 1:  # those that have done nothing yet have only just begun
                self.counts["kill"] += 1
                killed = self.chance.choice(alive)
                killed.kill()
                killed.wait()
                self.workers.remove(killed)
                self.start()


def is_over(status: RunStatus) -> bool:
    """Whether a run has ended."""
    return status not in (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED)


# --- what must never be -------------------------------------------------------------------------------


def faults(chaos: Chaos) -> Iterator[str]:
    """What is wrong, when all runs are over."""
    journal, folder = chaos.journal, chaos.folder
    report = journal.check_sync()
    if not report.ok or report.notes:
        yield str(report)
    records = {info.run_id: journal.read_sync(info.run_id) for info in journal.runs_sync()}
    effects = Counter(line.what for line in lines(folder, "effects"))
    for run_id, each in records.items():
        yield from _ends(run_id, each)
        yield from _results(journal, run_id, each, effects)
    for session, members in chaos.sessions.items():
        yield from _turns(journal, session, [records[each] for each in members])
    talks = {stream_of(each): journal.read_sync(stream_of(each)) for each in chaos.sessions}
    yield from _lost(records | talks, lines(folder, "commits"))
    yield from _hooks(records, folder)
    yield from _started_once(records, folder)
    for what, times in effects.items():
        if times > 1 and what.startswith(("pay ", "order ")):
            yield f"'{what}' happened {times} times"


def _ends(run_id: str, records: list[Record]) -> Iterator[str]:
    """Exactly one final result, of the run and of each child."""
    ends = [each for each in records if isinstance(each, RunFinished)]
    final = [each for each in ends if each.status is not RunStatus.PAUSED]
    if [each.status for each in final] != [RunStatus.COMPLETED] or final[-1] is not records[-1]:
        yield f"{run_id} ended as {[(each.status.value, each.reason) for each in final]}"
    children = Counter(each.child_run_id for each in records if isinstance(each, ChildFinished))
    for child, times in children.items():
        if times > 1:
            yield f"child {child} finished {times} times"


def _results(
    journal: QueueJournal, run_id: str, records: list[Record], effects: Counter[str]
) -> Iterator[str]:
    """Every result belongs to its call, says what happened, and the model knows of every doubt."""
    messages = asyncio.run(story_of(records, journal)).state.messages
    check_transcript(messages)
    steps = [each.step for each in records if isinstance(each, StepFinished)]
    first = steps[0].index if steps else 0  # a session counts all its steps
    if [step.index for step in steps] != list(range(first, first + len(steps))):
        yield f"{run_id} has the steps {[step.index for step in steps]}"
    doubts = 0
    for step in steps:
        if [result.call_id for result in step.results] != [each.id for each in step.calls]:
            yield f"{run_id} step {step.index}: the results are not those of its calls"
        for result in step.results:
            key = f"{run_id}/{step.index}/{result.call_id}"
            if result.status is ResultStatus.IN_DOUBT:
                doubts += 1
                if result.name not in ("pay", "order"):
                    yield f"{result.name} {key} is in doubt, and could run again"
            elif not result.is_success:
                yield f"{result.name} {key} is {result.status.value}: {result.text}"
            elif result.name == "spawn_subagent":
                if f"{key.rpartition('/')[0]}" not in result.text:
                    yield f"{key} has the result {result.text!r}"
            elif result.text != f"{result.name} for {key}" or not effects[f"{result.name} {key}"]:
                yield f"{result.name} {key} has the result {result.text!r}"
    final = records[-1]
    if isinstance(final, RunFinished) and final.text != f"{run_id}: {doubts} in doubt":
        yield f"{run_id} has {doubts} calls in doubt, and its model says {final.text!r}"


def _turns(journal: QueueJournal, session: str, runs: list[list[Record]]) -> Iterator[str]:
    """Runs of a session continue each other in order. Each begins where the one before it ended, and sees all of it."""
    ids = [records[0].run_id for records in runs]
    if list(Sessions(journal).get_sync(session).runs) != ids:
        yield f"{session} has the runs {Sessions(journal).get_sync(session).runs}, submitted as {ids}"
    for number, records in enumerate(runs):
        started = start_of(records)
        assert started is not None
        continues = started.continues
        known = None if continues is None else (continues.run_id, continues.records)
        wanted = (ids[number - 1], len(runs[number - 1])) if number else None
        if known != wanted:
            yield f"{ids[number]} continues {known}, and not {wanted}"
        messages = asyncio.run(story_of(records, journal)).state.messages
        said = [each.text for each in messages if each.role == "user"]
        if said != [f"go {each}" for each in ids[: number + 1]]:
            yield f"{ids[number]} has the prompts {said}"


def _lost(records: dict[str, list[Record]], commits: Iterable[Line]) -> Iterator[str]:
    """What a worker was told is committed is there, at its place."""
    known = {run_id: [digest(each) for each in of_run] for run_id, of_run in records.items()}
    for line in commits:
        said, seq, run_id = line.what.split(" ", 2)
        if known.get(run_id, [])[int(seq) : int(seq) + 1] != [said]:
            yield f"record {seq} of {run_id} was committed by {line.pid}, and is not there"


def _hooks(records: dict[str, list[Record]], folder: Path) -> Iterator[str]:
    """A hook whose verdict is committed is not asked again, and none after the end of its run. Only policies are."""
    committed: dict[str, int] = {}
    for line in lines(folder, "commits"):
        _, seq, run_id = line.what.split(" ", 2)
        for record in records.get(run_id, ())[int(seq) : int(seq) + 1]:
            for key in _keys(record):
                committed.setdefault(key, line.at)
    found = 0
    for line in lines(folder, "hooks"):
        status, key = line.what.split(" ", 1)
        run_id = key.split(" ")[1]
        found += key in committed
        if line.at > min(committed.get(key, line.at), committed.get(run_id, line.at)):
            yield f"{key}: asked again by {line.pid}, after its verdict was committed"
        if status not in ("", "completed", "paused"):  # nobody cancels a run, and none fails
            yield f"{key}: {line.pid} asked the hook at the end of a run that is {status}"
    if found < len(committed) / 2:
        yield f"only {found} hooks on record are known"


def _started_once(records: dict[str, list[Record]], folder: Path) -> Iterator[str]:
    """What a hook starts once is never done twice: not even if the process dies before the answer is committed."""
    done = Counter(line.what for line in lines(folder, "once"))
    started = Counter(
        f"{each.point} {run_id} {step} {about}"
        for run_id, of_run in records.items()
        for each in of_run
        if isinstance(each, EffectStarted)
        for step, about in [(each.step, each.call_id) if each.point in IN_STEPS else ("", "")]
    )
    for what, times in (done | started).items():
        if times > 1 or what not in started:
            yield f"{what}: done {done[what]} times, started {started[what]} times"
    if done.total() < 0.9 * started.total():
        yield f"only {done.total()} of {started.total()} effects that were started were done"


def _keys(record: Record) -> Iterator[str]:
    """What a record commits: the end of a run, or hooks."""
    run_id = record.run_id
    if isinstance(record, RunFinished) and record.status is not RunStatus.PAUSED:
        yield run_id
    for each in hooks_in([record]):
        if each.hook.startswith("side effect") and each.point not in ENDS:
            step = each.step if each.point in IN_STEPS else ""
            yield f"{each.point} {run_id} {step} {each.call_id}"


def summary(chaos: Chaos) -> dict[str, int]:
    """Numbers for people."""
    infos = chaos.journal.runs_sync()
    records = [each for info in infos for each in chaos.journal.read_sync(info.run_id)]
    steps = [each.step for each in records if isinstance(each, StepFinished)]
    results = [result for step in steps for result in step.results]
    kinds = {
        "kill": "workers killed",
        "died": "workers died",
        "cut": "connections cut",
        "server": "server crashed",
    }
    return {
        **{name: chaos.counts[kind] for kind, name in kinds.items()},
        "runs": len(infos),
        "records": len(records),
        "in sessions": sum(map(len, chaos.sessions.values())),
        "taken up": sum(isinstance(each, RunTakenUp) for each in records),
        "calls": len(results),
        "in doubt": sum(result.status is ResultStatus.IN_DOUBT for result in results),
    }


if __name__ == "__main__":
    url, schema, place = sys.argv[1:]
    note_commits(Path(place))
    made = make_agents(Path(place))
    Worker(QueueJournal(url, schema=schema), made, concurrency=3, max_attempts=50).run_to_exit()
