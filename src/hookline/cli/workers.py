"""`hookline worker MODULE:AGENTS` and `hookline submit`: runs in a queue, and processes that drive them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from msgspec.structs import replace

from hookline.agent import Agent, AgentBuilder
from hookline.cli.exits import Exit
from hookline.cli.journal_location import queue_of
from hookline.cli.target import find_target
from hookline.errors import BuildError, HooklineError


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
        )
    print(run_id)
    return Exit.DONE


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
