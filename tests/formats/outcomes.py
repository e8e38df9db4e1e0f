"""The outcome of a recorded run, as plain JSON: written down with the data, and compared by the tests."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import session_cases
from capability_cases import CAPABILITIES, CAPABILITIES_LATER
from case_world import LATER, Case, World
from killed_cases import KILLED
from run_cases import FINISHED, PAUSED

from hookline import AgentState, RunResult, SQLiteJournal, backtest, replay
from hookline.testing import transcript

FINISHED_CASES = {case.name: case for case in (*FINISHED, *CAPABILITIES)}
UNFINISHED_CASES = {case.name: case for case in (*PAUSED, *KILLED, *CAPABILITIES_LATER)}


def plain(value: Any) -> Any:
    """A value as it is after it was JSON."""
    return json.loads(json.dumps(value, default=str))


def result_texts(state: AgentState) -> list[Any]:
    """The conversation."""
    return plain(transcript(state.messages))  # type: ignore[no-any-return]


def result_of(result: RunResult, world: World) -> dict[str, Any]:
    """How a run ended, what was said, and what its tools did."""
    found = {
        "status": result.status.value,
        "stop_reason": None if result.stop_reason is None else result.stop_reason.value,
        "text": result.text,
        "steps": result.state.step_count,
        "tokens": result.usage.total_tokens,
        "requests": result.usage.requests,
        "tool_calls": result.state.counters.tool_calls,
        "metadata": sorted(result.state.metadata),
        "transcript": result_texts(result.state),
        "did": world.did,
    }
    return without_paths(found, world.folder)


def without_paths(value: Any, folder: Path) -> Any:
    """The same, with the folder of this test under one name, and without how long commands took."""
    return json.loads(_TOOK.sub("TIME", json.dumps(value).replace(str(folder), "FOLDER")))


_TOOK = re.compile(r"\d+\.\d\d s\b")


async def resumed(case: Case, world: World, journal: SQLiteJournal) -> dict[str, Any]:
    """The outcome of an unfinished run when it is resumed."""
    return result_of(await case.resume(world, journal), world)


async def replayed(case: Case, world: World, journal: SQLiteJournal) -> dict[str, Any]:
    """What a replay says of a run."""
    agent, children = case.agent(world), case.children(world)
    found = await replay(journal, case.name, agent, children=children)
    return {
        "identical": found.identical,
        "difference": without_paths(str(found.difference or ""), world.folder),
        "is_whole": found.is_whole,
        "unasked": list(found.from_record),
        "unknown": list(found.unknown),
        "missing": list(found.missing),
        "steps": found.result.state.step_count,
        "did": world.did,
    }


async def backtested(case: Case, world: World, journal: SQLiteJournal) -> dict[str, Any]:
    """What a back-test with unchanged hooks says of a run."""
    agent, children = case.agent(world), case.children(world)
    report = await backtest(journal, agent, children=children, runs=[case.name])
    return {
        "exit_code": report.exit_code,
        "changes": without_paths([str(change) for change in report.changes], world.folder),
        "unfollowed": [each.why for each in report.unfollowed],
        "calls": report.calls,
        "unjudged": sorted(
            {f"{each.point}: {name}" for each in report.unjudged for name in each.hooks}
        ),
        "hooks": sorted(f"{each.point}: {each.hook} {each.status}" for each in report.hooks),
        "did": world.did,
    }


def exported(journal: SQLiteJournal) -> str:
    """The whole journal as JSON Lines."""
    file = io.BytesIO()
    journal.export_lines(None, file)
    return file.getvalue().decode()


def listed(journal: SQLiteJournal) -> list[Any]:
    """What the journal says of its runs and sessions, without reading them."""
    infos: Iterable[Any] = (*journal.runs_sync(), *journal.sessions_sync())
    return [msgspec.to_builtins(info) for info in infos]


async def sessions(path: Path, folder: Path) -> dict[str, Any]:
    """What the sessions of a journal look like, and their outcome when they continue."""
    copied = folder / "sessions.db"
    shutil.copy(path, copied)
    world = World(folder, start=LATER)
    async with SQLiteJournal(copied) as journal:
        known = session_cases.sessions_of(journal, world)
        shown = {}
        for info in await known.list():
            session = await known.get(info.id)
            shown[info.id] = {
                "show": str(await session.show()),
                "title": session.title,
                "status": session.status.value,
                "version": session.version,
                "forked_from": session.forked_from,
                "runs": list(session.runs),
                "unfinished": session.unfinished,
                "pending": [each.id for each in session.pending],
                "messages": result_texts(session.state),
                "remembered": sorted(session.state.remembered),
            }
        return {
            "sessions": shown,
            "waiting": result_of(await session_cases.continue_waiting(journal, world), world),
            "cut": result_of(await session_cases.continue_cut(journal, world), world),
            "continued": await session_cases.continue_each(journal, world),
        }
