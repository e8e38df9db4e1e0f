"""`hookline approve RUN ID` and `hookline cancel RUN`: for a run that waits, or that another process drives."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import shlex
import time
from collections.abc import Sequence

from hookline.agent.children import cancel_idle
from hookline.cli.exits import Exit
from hookline.cli.journal_location import open_any_run
from hookline.cli.options import refuse_settings
from hookline.cli.screen import format_call
from hookline.cli.terminal import print_text, printable
from hookline.errors import AccessDeniedError, RunInUseError, UsageError
from hookline.journal import (
    InboxAnswer,
    InboxCancel,
    InboxMessage,
    JournalStore,
    Questions,
    RunQueued,
    SQLiteJournal,
    outermost,
    post_answer,
    post_cancel,
    reopen,
    story_of,
)
from hookline.state import Decision, PendingApproval

_PATIENCE = 3.0
"""Seconds to wait for the process that drives the run. It looks twice a second."""
_PAUSE = 0.05


def approve(arguments: argparse.Namespace) -> int:
    """Answer a question, or list what waits."""
    refuse_settings(arguments)
    if arguments.reason and not arguments.denies:
        raise UsageError(
            "--reason is for a denied call, and nothing is denied.",
            remedy="Say no: --deny.",
        )
    journal, run_id = open_any_run(arguments, posts=True)
    with journal:
        return asyncio.run(_approve(journal, run_id, arguments))


async def _approve(journal: JournalStore, run_id: str, arguments: argparse.Namespace) -> int:
    run_id = await outermost(journal, run_id)
    questions = await Questions.read(journal, run_id)
    if not arguments.question:
        if arguments.denies:
            raise _unclear("which question is denied?", questions.open)
        _list(run_id, questions.open, await journal.inbox(run_id), arguments)
        return Exit.DONE
    question = _find(questions, arguments.question)
    no = Decision.deny(arguments.reason or "a person said no")
    decision = no if arguments.denies else Decision.allow()
    message = await post_answer(journal, run_id, question, decision, by=who_answers(arguments.by))
    if message is None:
        print_text(f"question {question} has this answer already.")
    else:
        print_text(await _outcome(journal, message, arguments))
    return Exit.DONE


def cancel(arguments: argparse.Namespace) -> int:
    """End a run."""
    refuse_settings(arguments)
    journal, run_id = open_any_run(arguments, posts=True)
    with journal:
        return asyncio.run(_cancel(journal, run_id, arguments))


async def _cancel(journal: JournalStore, run_id: str, arguments: argparse.Namespace) -> int:
    message = await post_cancel(
        journal, run_id, by=who_answers(arguments.by), reason=arguments.reason
    )
    run_id, deadline = message.run_id, time.monotonic() + _PATIENCE
    # As the store has it: with the role, and the first one if somebody has cancelled the run before.
    posted = (each for each in await journal.inbox(run_id) if isinstance(each, InboxCancel))
    message = next(posted, message)
    while True:
        story = await story_of(await journal.read(run_id), journal)
        if story.is_over:
            ending = story.state.ending
            assert ending is not None
            print_text(f"run {run_id} is over: {ending.status.value}.")
            return Exit.DONE
        try:
            durable = await reopen(journal, run_id, ())
        except RunInUseError:  # whoever drives it sees the message
            if time.monotonic() > deadline:
                print_text(
                    f"run {run_id} is still running: it ends as soon as its process sees this."
                )
                return Exit.FAILED
            await asyncio.sleep(_PAUSE)
            continue
        try:
            if not (await story_of(durable.records, journal)).is_over:
                await cancel_idle(durable, time.time() + journal.clock_offset, message.words)
                await durable.commit()
        except AccessDeniedError:
            print_text(f"run {run_id} is cancelled by the next worker that looks at it.")
            return Exit.DONE
        finally:
            await durable.close()


def who_answers(given: str = "") -> str:
    """Who answers: what --by says, or the user and the machine."""
    if given.strip():
        return given.strip()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = f"user {os.getuid()}"
    return f"{user}@{os.uname().nodename}"


def _find(questions: Questions, given: str) -> str:
    """The id of a question, by its end or as a whole: of those that wait, else of those that have an answer."""
    for ids in ([each.id for each in questions.open], [*questions.answered]):
        found = [id for id in ids if id == given] or [id for id in ids if id.endswith(f"/{given}")]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"'{given}' may be any of: {', '.join(found)}.",
                remedy="Give a longer part of the id.",
            )
    raise _unclear(f"no question '{given}' waits for an answer.", questions.open)


def _unclear(problem: str, waiting: Sequence[PendingApproval]) -> UsageError:
    ids = ", ".join(each.id for each in waiting)
    return UsageError(problem, remedy=f"Waiting: {ids or 'nothing'}.")


def _list(
    run_id: str,
    waiting: Sequence[PendingApproval],
    inbox: Sequence[InboxMessage],
    arguments: argparse.Namespace,
) -> None:
    posted = {
        (each.question, each.fingerprint): each for each in inbox if isinstance(each, InboxAnswer)
    }
    if not waiting:
        print_text(f"nothing waits for an answer in run {run_id}.")
    for each in waiting:
        asked = f"asked by {printable(', '.join(each.askers))}: {printable(each.reason)}"
        print_text(f"{format_call(each.tool_call)}, {asked}")
        answer = posted.get((each.id, each.fingerprint))
        if answer is not None:  # the run has not taken it yet
            print_text(f"  answered: {answer.decision.answer.value}, by {printable(answer.who)}")
            continue
        command = f"hookline approve {run_id}{_flag(arguments)} {shlex.quote(each.id)}"
        print(f"  yes: {command}")
        print(f"  no:  {command} --deny")


async def _outcome(
    journal: JournalStore, message: InboxAnswer, arguments: argparse.Namespace
) -> str:
    """What became of an answer. Raises UsageError when another one came first."""
    run_id, deadline = message.run_id, time.monotonic() + _PATIENCE
    while True:
        questions = await Questions.read(journal, run_id)
        first = questions.answered.get(message.question)
        if first is not None:
            first.check_same(message.question, message.decision)
            return f"answered: {message.question}: {message.decision.answer.value}"
        records = await journal.read(run_id)
        if isinstance(records[0], RunQueued):
            return f"run {run_id} has the answer now, and a worker continues it."
        if (await story_of(records, journal)).is_finished:
            command = f"hookline resume {run_id}{_flag(arguments)}"
            if not isinstance(journal, SQLiteJournal):
                command = f'agent.resume("{run_id}")'
            return f"run {run_id} waits, and has the answer now. Continue it with: {command}"
        if time.monotonic() > deadline:
            return f"run {run_id} has the answer and uses it when it asks again."
        await asyncio.sleep(_PAUSE)


def _flag(arguments: argparse.Namespace) -> str:
    if arguments.database is not None:
        return " --database URL"  # which may hold a password
    return f" --journal {shlex.quote(arguments.journal)}" if arguments.journal else ""
