"""`hookline resume RUN`: continue a run that waits for an answer, or whose process died."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import msgspec

from hookline.cli.assembly.agent import open_agent
from hookline.cli.console import Console, answers_from_flags
from hookline.cli.guards import Guards, require_guards
from hookline.cli.journal_location import is_in_database, journal_at, new_run_id, open_run
from hookline.cli.recorded_runs import (
    Invocation,
    InvocationRecorder,
    conversation_of,
    count_turns,
    is_interrupted,
    limit_reached,
    wider_place,
)
from hookline.cli.workers import resume_queued
from hookline.config import Layer
from hookline.errors import UnknownSessionError, UsageError
from hookline.journal import Record, RunFinished, SQLiteJournal, Story, story_of
from hookline.sessions import Session, Sessions


def run(arguments: argparse.Namespace) -> int:
    """Continue the run."""
    if arguments.reason and not arguments.no:
        raise UsageError(
            "--reason is for a denied call, and nothing is denied.",
            remedy="Say no to a question: --deny ID, or --deny all.",
        )
    if is_in_database(arguments):
        return resume_queued(arguments)
    journal, run_id, flags = open_run(arguments)
    if arguments.accept_loss:
        journal.close_sync()
        journal = journal_at(Path(journal.given), accept_loss=True)
    with journal:
        records = journal.read_sync(run_id)
        story = asyncio.run(story_of(records, journal))
        invocation = Invocation.of(story.state)
        settings = invocation.return_there(flags, bare=arguments.bare)
        ended = _why_it_ended(story, records[-1], flags)
        guards = Guards(settings, None)
        if ended or not story.is_over:  # else its answer is only shown
            given = invocation.flags_with(flags)
            guards = require_guards(arguments, settings, given)
        invocation = msgspec.structs.replace(invocation, without=guards.missing)
        return asyncio.run(_resume(arguments, guards, journal, run_id, invocation, ended))


async def _resume(
    arguments: argparse.Namespace,
    guards: Guards,
    journal: SQLiteJournal,
    run_id: str,
    invocation: Invocation,
    ended: str,
) -> int:
    records, settings = await journal.read(run_id), guards.settings
    story = await story_of(records, journal)
    console = Console(arguments, guards, repeat=arguments.settings)
    if wider := "" if settings.target else wider_place(story.state, settings):
        console.screen.note(wider)
    answers = answers_from_flags(story.state.pending, arguments.yes, arguments.no, arguments.reason)
    played = invocation.played + await count_turns(journal, run_id)
    recorders = [InvocationRecorder(invocation)] if guards.missing else []
    additions = console.additions(journal, *recorders, played=played)
    async with open_agent(settings, additions) as agent:
        if ended:
            # The record of the old run stays. Another run continues from its end, without a new prompt.
            noted = msgspec.structs.replace(invocation, played=played)
            state, another = noted.add_to(await conversation_of(journal, run_id)), new_run_id()
            if not arguments.quiet:
                console.screen.note(f"run {run_id} {ended}: it continues as run {another}.")
            result = await console.drive(
                agent, lambda: agent.run(state=state, run_id=another), agent.resume
            )
            return console.finish(result)
        if story.is_over:
            return console.show_finished(await agent.resume(run_id))
        session = await _session_of(journal, story)
        console.screen.recall(records)
        if session is None:
            result = await console.drive(agent, lambda: agent.resume(run_id, answers), agent.resume)
        else:
            result = await console.drive(
                agent,
                lambda: session.resume_run(agent, answers),
                lambda _result, more: session.resume_run(agent, more),
            )
        return console.finish(result)


async def _session_of(journal: SQLiteJournal, story: Story) -> Session | None:
    """The session of `hookline chat` that the run belongs to. It continues there, and keeps others out meanwhile."""
    try:
        session_id = story.state.session_id
        return await Sessions(journal).get(session_id) if session_id else None
    except UnknownSessionError:
        return None


def _why_it_ended(story: Story, last: Record, flags: Layer) -> str:
    """Why a run ended before its answer, if it can continue: interrupted, or by a limit that is now set anew."""
    if not (story.is_over and isinstance(last, RunFinished)):
        return ""
    if is_interrupted(last.stop_reason, story.state):
        return "was interrupted"
    limit = limit_reached(last.stop_reason, story.state)
    return f"was ended by limits.{limit}" if limit in flags.data.get("limits", {}) else ""
