"""`hookline fork RUN --at STEP "prompt"`: another way from a step of a run."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from hookline.cli.options import add_agent_flags, flags_of, take_target, whole_number


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    from hookline.cli.run import add_output_flags

    parser = commands.add_parser(
        "fork",
        help="go on from a step of a run with another prompt",
        description="A new run that begins with the conversation of another as it was after a step. What tools did "
        "stays done; answers that were given for the other run do not hold here.",
    )
    parser.add_argument("run_id", metavar="RUN", help="an id, the beginning of one, or `last`")
    parser.add_argument(
        "task", nargs="*", help="what to do from there; may begin with module:agent"
    )
    parser.add_argument(
        "--at",
        type=whole_number,
        metavar="STEP",
        help="after which step, counted from one; the last otherwise",
    )
    parser.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        action="append",
        default=[],
        help="read the task from a file",
    )
    add_output_flags(parser)
    parser.add_argument("--no-save", action="store_true", help="keep nothing of the new run")
    add_agent_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the fork."""
    from hookline.cli.assembly.verify import load
    from hookline.cli.keeping import found_run
    from hookline.cli.past import conversation, steps_of
    from hookline.cli.run import gone_on, task_of

    words = list(arguments.task)
    take_target(arguments, words)
    flags = flags_of(arguments)
    settings = load(flags, bare=arguments.bare)
    journal, run_id = found_run(settings, arguments.run_id)
    with journal:
        at = steps_of(journal, run_id) if arguments.at is None else arguments.at
        state = conversation(journal, run_id, after=at)
    prompt = task_of(words, arguments.file, f"hookline fork {arguments.run_id} --at {at}")
    return asyncio.run(gone_on(arguments, prompt, settings, flags, (run_id, state)))
