"""`hookline worker MODULE:AGENTS` and `hookline submit`: runs in a queue, and processes that drive them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hookline.agent import Agent, AgentBuilder, RunResult
from hookline.cli.console import answers_from_flags, show_questions
from hookline.cli.exits import Exit, exit_of
from hookline.cli.inbox import who_answers
from hookline.cli.journal_location import find_in_database, queue_of
from hookline.cli.json_output import print_json
from hookline.cli.options import refuse_settings
from hookline.cli.screen import Screen
from hookline.cli.target import find_target
from hookline.cli.terminal import printable, report
from hookline.errors import BuildError, HooklineError, UsageError
from hookline.journal import Questions, RunQueued

if TYPE_CHECKING:
    from hookline.workers import QueueJournal


def work(arguments: argparse.Namespace) -> int:
    """Drive runs until a signal comes."""
    from hookline.capabilities.run_log import log_as_json, log_as_text
    from hookline.workers import Worker  # the engine takes its time

    agents = _load_agents(arguments.agents)
    if arguments.log == "json":
        log_as_json("dbos")
        agents = {name: _with_log(each) for name, each in agents.items()}
    else:
        log_as_text()
    worker = Worker(
        queue_of(arguments),
        agents,
        queues=tuple(arguments.queue) or ("default",),
        concurrency=arguments.concurrency,
        grace=arguments.grace,
        max_attempts=arguments.max_attempts,
        health=arguments.health,
    )
    worker.run_to_exit()
    return Exit.DONE


def submit(arguments: argparse.Namespace) -> int:
    """Queue a run, and print its id."""
    journal = queue_of(arguments)
    with journal:
        run_id = journal.submit_sync(
            arguments.agent,
            arguments.prompt,
            run_id=arguments.id,
            queue=arguments.queue,
            priority=arguments.priority,
            delay=arguments.delay,
            version=arguments.agent_version,
            session=arguments.session,
        )
        print(run_id)
        why = journal.why_no_worker_sync(
            arguments.agent, queue=arguments.queue, version=arguments.agent_version
        )
    if why:
        report(f"run {run_id} is queued and waits: {why}.")
    return Exit.DONE


def resume_queued(arguments: argparse.Namespace) -> int:
    """Have workers continue a run, wait for them, and show what came of it."""
    refuse_settings(arguments)
    if arguments.accept_loss:
        raise UsageError("--accept-loss is for a journal in a file.")
    journal = queue_of(arguments)
    with journal:
        run_id = find_in_database(journal, arguments.run_id)
        questions = asyncio.run(Questions.read(journal, run_id)).open
        given = (arguments.yes, arguments.no, arguments.reason)
        answers = answers_from_flags(questions, *given) if questions or any(given) else {}
        _warn_if_nobody_drives(journal, run_id, is_answered=bool(answers))
        result = journal.resume_sync(run_id, answers, by=who_answers())
    _show(result, arguments)
    return exit_of(result.status, result.stop_reason)


def _warn_if_nobody_drives(journal: QueueJournal, run_id: str, *, is_answered: bool) -> None:
    """Say why the command may wait for long."""
    from hookline.workers.registry import wanted_version

    records = journal.read_sync(run_id)
    queued = records[0]
    waits = is_answered or not asyncio.run(journal.is_at_rest(run_id, records))
    if isinstance(queued, RunQueued) and waits:
        version = wanted_version(records) or ""
        why = journal.why_no_worker_sync(queued.agent_id, queue=queued.queue, version=version)
        if why:
            report(f"run {run_id} waits: {why}.")


def _show(result: RunResult, arguments: argparse.Namespace) -> None:
    """Print the answer, and what to do next."""
    if arguments.json:
        print_json(result.records[-1])
        return
    screen = Screen(quiet=arguments.quiet)
    screen.finish(result)
    show_questions(screen, result.pending, f"hookline resume {result.run_id} --database URL")
    if not arguments.quiet or not result.is_completed:
        ending = result.state.ending
        why = f": {printable(ending.reason)}" if ending and not result.is_completed else ""
        screen.say(f"hookline: run {result.run_id} is {result.status.value}{why}")


def _load_agents(target: str) -> dict[str, Agent]:
    """The agents that a target names. Whatever is wrong with them, no run was taken."""
    try:
        found = find_target(target)
        if not isinstance(found, Mapping) or not found:
            raise BuildError(
                f"'{target}' is {found!r}, which does not map names to agents.",
                remedy='Write AGENTS = {"name": agent} in the module.',
            )
        return {name: _built(name, each) for name, each in found.items()}
    except BuildError:
        raise
    except HooklineError as error:
        raise BuildError(error.message, remedy=error.remedy) from error


def _with_log(agent: Agent) -> Agent:
    from hookline.capabilities import RunLog

    definition = agent.definition
    return Agent(replace(definition, listeners=(*definition.listeners, RunLog())))


def _built(name: str, thing: object) -> Agent:
    if isinstance(thing, AgentBuilder):
        return thing.build()
    if isinstance(thing, Agent):
        return thing
    raise BuildError(
        f"'{name}' is {thing!r}, which is not an agent.", remedy="Name agents or builders."
    )
