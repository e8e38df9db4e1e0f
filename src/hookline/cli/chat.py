"""`hookline chat`: a conversation with an agent, kept as a session."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookline.cli.options import add_agent_flags, flags_of, take_target

if TYPE_CHECKING:
    from hookline.cli.keeping import Started
    from hookline.config import Settings
    from hookline.journal import JournalStore
    from hookline.sessions import Session


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "chat",
        help="talk with an agent",
        description='Talk with an agent. /help lists what else can be said; a line that ends with \\ goes on, and """ '
        "begins and ends a text of several lines.",
    )
    parser.add_argument("words", nargs="*", metavar="module:agent", help="an agent of your own")
    parser.add_argument(
        "-c",
        "--continue",
        dest="go_on",
        action="store_true",
        help="go on with the last conversation here",
    )
    parser.add_argument("--session", metavar="ID", help="go on with a conversation")
    parser.add_argument("-q", "--quiet", action="store_true", help="the answers alone")
    parser.add_argument("--no-save", action="store_true", help="keep nothing of the conversation")
    add_agent_flags(parser)
    parser.set_defaults(run=run, json=False, no_input=False)


def run(arguments: argparse.Namespace) -> int:
    """Talk."""
    from hookline.cli.assembly.verify import load
    from hookline.cli.keeping import as_started, journal_path, opened_journal, started
    from hookline.errors import UsageError
    from hookline.journal import MemoryJournal

    words = list(arguments.words)
    take_target(arguments, words)
    if words:
        raise UsageError(
            f"there is nothing to do with {words[0]!r}.",
            remedy='`hookline run "..."` runs a task; in a conversation, say it at the prompt.',
        )
    if arguments.go_on and arguments.session:
        raise UsageError(
            f"-c goes on with the last conversation, and --session with {arguments.session}.",
            remedy="Say one of them.",
        )
    kept = next((flag for flag, given in _kept(arguments).items() if given), "")
    if arguments.no_save and kept:
        raise UsageError(
            f"--no-save keeps nothing of the conversation, and {kept} is about one that is kept.",
            remedy="Say one of them.",
        )
    flags = flags_of(arguments)
    settings = load(flags, bare=arguments.bare)
    store = MemoryJournal() if arguments.no_save else opened_journal(journal_path(settings))
    with contextlib.closing(store) as journal:
        session = _session(journal, arguments)
        if session.runs:
            past = (session.id, session.state)
            flags, settings = as_started(past, flags, settings, quiet=arguments.quiet)
        begun = started(Path.cwd(), flags, settings.agent, settings.is_bare)
        return asyncio.run(_chat(arguments, settings, journal, session, begun))


def _kept(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "-c": arguments.go_on,
        "--session": arguments.session,
        "--journal": arguments.journal,
    }


def _session(journal: JournalStore, arguments: argparse.Namespace) -> Session:
    from hookline.cli.keeping import new_run_id
    from hookline.errors import UnknownSessionError
    from hookline.sessions import Sessions

    sessions = Sessions(journal)
    if arguments.session:
        try:
            return sessions.get(arguments.session)
        except UnknownSessionError as error:
            known = ", ".join(info.id for info in sessions.list(limit=5))
            raise UnknownSessionError(
                error.message,
                remedy=f"There are: {known}." if known else "Begin one: hookline chat.",
            ) from None
    if arguments.go_on:
        listed = sessions.list(limit=1)
        if not listed:
            raise UnknownSessionError(
                "there is no conversation here yet.", remedy="Begin one: hookline chat."
            )
        return sessions.get(listed[0].id)
    return sessions.create(id=f"chat-{new_run_id()}")


async def _chat(
    arguments: argparse.Namespace,
    settings: Settings,
    journal: JournalStore,
    session: Session,
    begun: Started,
) -> int:
    from hookline.cli.assembly import Extras, opened
    from hookline.cli.conversation import Conversation
    from hookline.cli.drive import Manner, Stage, limits_for
    from hookline.cli.keeping import Noting
    from hookline.cli.terminal import printable

    manner = Manner(
        quiet=arguments.quiet,
        saved=not arguments.no_save,
        journal=arguments.journal or "",
        limits=limits_for(settings),
    )
    stage = Stage(manner, Path.cwd())
    if settings.trust_hint:
        stage.screen.note(settings.trust_hint)
    found: dict[str, Any] = {}
    extras = Extras(
        journal=journal,
        listeners=(stage.listen,),
        terminal=stage.screen.send,
        display=stage.screen.show_instead if stage.screen.is_live else None,
        capabilities=(stage.interrupts, Noting(begun)),
        note=lambda text: stage.screen.line(f"hookline: {printable(text)}"),
        warn=stage.screen.note,
        found=found,
    )
    async with opened(settings, extras) as agent:
        conversation = Conversation(agent, session, stage, found)
        if sys.stdin.isatty() and not arguments.quiet:
            stage.screen.say(
                f"session {session.id}; /help lists what else can be said, Ctrl-D ends it"
            )
        return await conversation.hold()
