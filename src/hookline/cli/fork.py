"""`hookline fork RUN --at STEP "prompt"`: continue from a step of a run in another way."""

from __future__ import annotations

import argparse

from hookline.cli.options import add_task_flags, flags_of, take_target, whole_number

DESCRIPTION = (
    "A new run that begins with the conversation of another as it was after a step. Effects of tools stay; "
    "approvals that were given for the other run are not valid here."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("run_id", metavar="RUN", help="an id, the beginning of one, or `last`")
    add("task", nargs="*", help="what to do from there; may begin with module:agent")
    step = "after which step, counted from one; the last otherwise"
    add("--at", type=whole_number, metavar="STEP", help=step)
    add_task_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the fork."""
    from hookline.cli.assembly.verify import load
    from hookline.cli.journal_location import find_run
    from hookline.cli.recorded_runs import conversation_of, count_steps
    from hookline.cli.run import continue_from, read_task

    words = list(arguments.task)
    take_target(arguments, words)
    flags = flags_of(arguments)
    settings = load(flags, bare=arguments.bare)
    journal, run_id = find_run(settings, arguments.run_id)
    with journal:
        at = count_steps(journal, run_id) if arguments.at is None else arguments.at
        state = conversation_of(journal, run_id, after=at)
    prompt = read_task(words, arguments.file, f"hookline fork {arguments.run_id} --at {at}")
    return continue_from(arguments, prompt, settings, flags, (run_id, state))
