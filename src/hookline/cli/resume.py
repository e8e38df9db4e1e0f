"""`hookline resume RUN`: go on with a run that waits for an answer, or whose process died."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.cli.options import add_setting_flags, flags_of

if TYPE_CHECKING:
    from hookline.agent import Agent, RunResult
    from hookline.cli.drive import Stage
    from hookline.config import Layer, Settings
    from hookline.journal import Record, SQLiteJournal, Story
    from hookline.sessions import Session
    from hookline.state import AgentState


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    from hookline.cli.run import add_output_flags

    parser = commands.add_parser(
        "resume",
        help="go on with a run that waits, or was cut off",
        description="Go on with a run: with the configuration of now, the flags it was started with, and --set over "
        "both. Of a run that is over, the answer is shown. Questions are answered with --allow and --deny, or on the "
        "terminal.",
    )
    parser.add_argument(
        "run_id",
        nargs="?",
        default="last",
        metavar="RUN",
        help="an id or the beginning of one; the last run otherwise",
    )
    parser.add_argument(
        "--allow",
        metavar="ID",
        action="append",
        default=[],
        dest="yes",
        help="say yes to a question; `all` to all of them",
    )
    parser.add_argument(
        "--deny", metavar="ID", action="append", default=[], dest="no", help="say no"
    )
    parser.add_argument("--reason", default="", help="what the model reads with a no")
    add_output_flags(parser)
    add_setting_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Go on with the run."""
    from hookline.cli.keeping import found_run
    from hookline.config import load
    from hookline.errors import UsageError

    if arguments.reason and not arguments.no:
        raise UsageError(
            "--reason is what the model reads with a no, and there is none.",
            remedy="Say no to a question: --deny ID, or --deny all.",
        )
    flags = flags_of(arguments)
    settings = load(Path.cwd(), flags=flags, bare=arguments.bare)
    journal, run_id = found_run(settings, arguments.run_id)
    with journal:
        return asyncio.run(_resume(arguments, flags, journal, run_id))


async def _resume(
    arguments: argparse.Namespace, flags: Layer, journal: SQLiteJournal, run_id: str
) -> int:
    from hookline.cli.assembly import Extras, opened
    from hookline.cli.drive import answers_of
    from hookline.cli.keeping import Started, turns_played
    from hookline.cli.past import conversation
    from hookline.cli.terminal import printable
    from hookline.journal import fold

    records = journal.read(run_id)
    story = fold(records)
    begun = Started.of(story.state)
    settings = begun.return_there(flags, bare=arguments.bare)
    stage = _stage(arguments, settings)
    answers = answers_of(story.state.pending, arguments.yes, arguments.no, arguments.reason)
    extras = Extras(
        journal=journal,
        listeners=(stage.listen,),
        terminal=stage.screen.send,
        display=stage.screen.show_instead if stage.screen.is_live else None,
        capabilities=(stage.interrupts,),
        played=begun.played + turns_played(journal, run_id),
        note=lambda text: stage.screen.line(f"hookline: {printable(text)}"),
        warn=stage.screen.note,
    )
    async with opened(settings, extras) as agent:
        why = _why_it_can_go_on(story, records[-1], flags)
        if why:
            noted = msgspec.structs.replace(begun, played=extras.played)
            state = noted.noted(conversation(journal, run_id))
            return stage.end(await _gone_on(stage, agent, state, (run_id, why)))
        if story.is_over:
            return stage.recall(await agent.resume(run_id))
        session = _session_of(journal, story)
        stage.screen.recall(records)
        if session is None:
            result = await stage.play(agent, lambda: agent.resume(run_id, answers), agent.resume)
        else:
            result = await stage.play(
                agent,
                lambda: session.resume_run(agent, answers),
                lambda _result, more: session.resume_run(agent, more),
            )
        return stage.end(result)


def _session_of(journal: SQLiteJournal, story: Story) -> Session | None:
    """The conversation of `hookline chat` that the run belongs to: it goes on there, and keeps others off meanwhile."""
    from hookline.errors import UnknownSessionError
    from hookline.sessions import Sessions

    try:
        return Sessions(journal).get(story.state.session_id) if story.state.session_id else None
    except UnknownSessionError:
        return None


def _stage(arguments: argparse.Namespace, settings: Settings) -> Stage:
    from hookline.cli.drive import Manner, Stage, limits_for

    manner = Manner(
        json=arguments.json,
        quiet=arguments.quiet,
        prompts=not arguments.no_input,
        journal=arguments.journal or "",
        settings=tuple(arguments.settings),
        limits=limits_for(settings),
    )
    stage = Stage(manner, Path.cwd())
    if settings.trust_hint:
        stage.screen.note(settings.trust_hint)
    return stage


def _why_it_can_go_on(story: Story, last: Record, flags: Layer) -> str:
    """How the run ended before there was an answer, if a person did that, or a limit that is now set anew."""
    from hookline.cli.past import is_cut_off, limit_reached
    from hookline.journal import RunFinished

    if not (story.is_over and isinstance(last, RunFinished)):
        return ""
    if is_cut_off(last.stop_reason, story.state):
        return "was interrupted"
    limit = limit_reached(last.stop_reason, story.state)
    return f"was ended by limits.{limit}" if limit in flags.data.get("limits", {}) else ""


async def _gone_on(
    stage: Stage, agent: Agent, state: AgentState, ended: tuple[str, str]
) -> RunResult:
    """What has ended stays that, on record: from where it was, another run goes on, without a new prompt."""
    from hookline.cli.keeping import new_run_id

    run_id, why = ended
    another = new_run_id()
    if not stage.manner.quiet:
        stage.screen.note(f"run {run_id} {why}: it goes on as run {another}.")
    return await stage.play(agent, lambda: agent.run(state=state, run_id=another), agent.resume)
