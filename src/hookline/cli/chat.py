"""`hookline chat`: a conversation with an agent, recorded as a session."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from hookline.agent import Agent
from hookline.cli.assembly.agent import open_agent
from hookline.cli.assembly.verification import load_verified
from hookline.cli.console import Console
from hookline.cli.exits import Exit
from hookline.cli.guards import Guards, require_guards
from hookline.cli.journal_location import journal_path, new_run_id, open_journal
from hookline.cli.options import flags_of, take_target
from hookline.cli.recorded_runs import (
    Invocation,
    InvocationRecorder,
    inherit_flags,
    is_interrupted,
)
from hookline.cli.terminal import count, is_terminal, page_width, printable
from hookline.errors import HooklineError, SessionConflictError, UnknownSessionError, UsageError
from hookline.inspection import explain
from hookline.journal import JournalStore, MemoryJournal
from hookline.own_directories import data_directory
from hookline.sessions import Session, Sessions
from hookline.state import RunStatus

_HELP = """\
/help            this
/tools           the tools of the agent
/hooks           its hooks
/mode [MODE]     default, accept_edits, ask_unlisted, deny_unlisted, plan
/usage           what the conversation has used
/show            the conversation so far
/rewind STEP     go back to after a step, 0 for the beginning; effects stay
/clear           start again
/fork            continue in a copy of this conversation
/retry           continue a run that waits, or was interrupted
/exit            end it; so does Ctrl-D"""


def run(arguments: argparse.Namespace) -> int:
    """Talk."""
    _check_words(arguments)
    flags = flags_of(arguments)
    settings = load_verified(flags, bare=arguments.bare)
    store = MemoryJournal() if arguments.no_save else open_journal(journal_path(settings))
    with store as journal:
        session = _find_session(journal, arguments)
        if session is not None and session.runs:
            quiet = arguments.quiet
            flags, settings = inherit_flags(session.id, session.state, flags, settings, quiet=quiet)
        guards = require_guards(arguments, settings, flags)
        if not guards.settings.has_model:
            from hookline.cli.model_choice import choose_model

            guards = choose_model(arguments, guards, flags)
        invocation = Invocation.current(flags, guards.settings, guards.missing)
        session = session or Sessions(journal).create_sync(id=f"chat-{new_run_id()}")
        return asyncio.run(_chat(arguments, guards, journal, session, invocation))


def _check_words(arguments: argparse.Namespace) -> None:
    words = list(arguments.words)
    take_target(arguments, words)
    if words:
        raise UsageError(
            f"{words[0]!r} is not expected here.",
            remedy='`hookline run "..."` runs a task; in a conversation, type it at the prompt.',
        )
    if arguments.no_save and arguments.journal:
        raise UsageError(
            "--no-save records nothing, and --journal names the file for a recorded conversation.",
            remedy="Give one of them.",
        )


def _find_session(journal: JournalStore, arguments: argparse.Namespace) -> Session | None:
    """The conversation that is continued; None for a new one."""
    sessions = Sessions(journal)
    if arguments.session:
        try:
            return sessions.get_sync(arguments.session)
        except UnknownSessionError as error:
            known = ", ".join(info.id for info in sessions.list_sync(limit=5))
            remedy = f"There are: {known}." if known else "Begin one: hookline chat."
            raise UnknownSessionError(error.message, remedy=remedy) from None
    if arguments.continues:
        listed = sessions.list_sync(limit=1)
        if not listed:
            remedy = "Begin one: hookline chat."
            raise UnknownSessionError("there is no conversation here yet.", remedy=remedy)
        return sessions.get_sync(listed[0].id)
    return None


async def _chat(
    arguments: argparse.Namespace,
    guards: Guards,
    journal: JournalStore,
    session: Session,
    invocation: Any,
) -> int:
    console, found = Console(arguments, guards), dict[str, Any]()
    additions = console.additions(journal, InvocationRecorder(invocation), found=found)
    async with open_agent(guards.settings, additions) as agent:
        conversation = Conversation(agent, session, console, found)
        if sys.stdin.isatty() and not arguments.quiet:
            console.screen.say(f"session {session.id}; /help lists the commands, Ctrl-D ends it")
        return await conversation.hold()


class Conversation:
    """Reads what a person types, runs it, and runs slash commands."""

    def __init__(
        self, agent: Agent, session: Session, console: Console, found: dict[str, Any]
    ) -> None:
        self.agent = agent
        self.session = session
        self.console = console
        self._say = console.screen.say
        self._found = found
        self._is_live = is_terminal(sys.stdin)

    async def hold(self) -> int:
        """Talk until the person ends it."""
        code = Exit.DONE
        with self._history():
            if self.session.unfinished:
                code = await self._turn(None)
            while True:
                try:
                    text = self._read_prompt()
                    if text is None:
                        break
                    if text.startswith("/"):
                        if not await self._run_command(text):
                            break
                    elif text.strip():
                        code = await self._turn(text)
                except KeyboardInterrupt:
                    self._say("\n(Ctrl-D ends the conversation)")
        await self._close("prompt_input_exit" if self._is_live else "other")
        if self._is_live and self.console.is_saved:
            self._say(f"continue: hookline chat --session {self.session.id}")
        return Exit.DONE if self._is_live else code

    async def _close(self, reason: str) -> None:
        """Ask the hooks at the session's end. A session without runs, or with one that waits, has not ended."""
        session = await self.session.refresh()
        if not session.runs or session.unfinished:
            return
        try:
            await session.close(self.agent, reason=reason)
        except SessionConflictError:
            return  # another process runs it now, and will end it
        except HooklineError as error:
            self._say(f"hookline: {error}")

    async def _turn(self, prompt: str | None) -> Exit:
        """One run: a new one; without a prompt, the one that waits, or what an interrupted one left."""
        agent, session = self.agent, await self.session.refresh()
        state, waits = session.state, prompt is None and session.unfinished
        try:
            result = await self.console.drive(
                agent,
                lambda: session.resume_run(agent) if waits else session.run(agent, prompt),
                lambda _result, answers: session.resume_run(agent, answers),
                after=state.first_step if waits else len(state.steps),  # as /rewind counts
            )
        except HooklineError as error:
            text = str(error)
            if isinstance(error, SessionConflictError):
                text = f"{error.message} Wait until it is done, or continue in a copy: /fork"
            self.console.screen.note(text)
            return Exit.FAILED
        finally:
            # After the run, Ctrl-C is about the line that is typed again.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if result.status is RunStatus.PAUSED:
            self._say("the run waits for your answer: /retry asks again")
        elif is_interrupted(result.stop_reason, result.state):
            self._say("the run was interrupted: /retry continues it")
        return self.console.finish(result)

    # --- input ----------------------------------------------------------------------------------------

    def _read_prompt(self) -> str | None:
        """The next prompt; None at the end."""
        lines: list[str] = []
        is_quoted = False
        while True:
            line = self._read_line("... " if lines or is_quoted else "> ")
            if line is None:
                return "\n".join(lines) if lines else None
            if line.strip() == '"""':
                if is_quoted:
                    return "\n".join(lines)
                is_quoted = True
            elif is_quoted:
                lines.append(line)
            elif line.endswith("\\"):
                lines.append(line[:-1])
            else:
                return "\n".join([*lines, line])

    def _read_line(self, prompt: str) -> str | None:
        if not self._is_live:
            line = sys.stdin.readline()
            return line.rstrip("\n") if line else None
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if not is_terminal(sys.stdout):  # standard output is for the answers only
            print(prompt, end="", file=sys.stderr, flush=True)
            prompt = ""
        try:
            return input(prompt)
        except EOFError:
            print(file=sys.stderr)
            return None

    @contextlib.contextmanager
    def _history(self) -> Iterator[None]:
        """Load and save the history of the line editor."""
        if not self._is_live:
            yield
            return
        import readline

        path = data_directory(os.environ) / "history"
        with contextlib.suppress(OSError):
            readline.read_history_file(path)
        readline.set_history_length(2_000)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
                readline.write_history_file(path)

    # --- slash commands -------------------------------------------------------------------------------

    async def _run_command(self, text: str) -> bool:
        """Run a slash command. False ends the conversation."""
        name, _, rest = text[1:].partition(" ")
        if name in ("exit", "quit", "q"):
            return False
        do = getattr(self, f"_do_{name}", None)
        if do is None:
            self._say(f"there is no /{printable(name)}; /help lists the commands")
            return True
        try:
            done = do(rest.strip())
            if done is not None:
                await done
        except HooklineError as error:
            self.console.screen.note(str(error))
        return True

    def _do_help(self, _rest: str) -> None:
        self._say(_HELP)

    def _do_tools(self, _rest: str) -> None:
        names = [spec.name for spec in self.agent.definition.toolbox.specs]
        self._say(", ".join(names) or "none")

    def _do_hooks(self, _rest: str) -> None:
        columns = page_width(self.console.screen.err)
        text = explain(self.agent.definition, None, {}, width=columns)
        self._say(printable(text, lines=True))

    def _do_mode(self, rest: str) -> None:
        approval = self._found.get("approval")
        if approval is None:
            self._say("your own agent has only the modes that you gave it")
            return
        if rest:
            approval.set_mode(rest)
        self._say(f"mode: {rest or approval.mode}")

    async def _do_usage(self, _rest: str) -> None:
        usage = (await self.session.refresh()).state.usage
        cost = f", ${usage.cost:.4f}" if usage.cost else ""
        self._say(f"{usage.total_tokens:,} tokens in {count(usage.requests, 'request')}{cost}")

    async def _do_show(self, _rest: str) -> None:
        session = await self.session.refresh()
        self._say(printable(str(await session.show()), lines=True))

    async def _do_rewind(self, rest: str) -> None:
        if not rest.isdecimal():
            self._say("name a step: /rewind STEP. /show has the numbers")
            return
        session = await self.session.refresh()
        await session.rewind(to=int(rest))
        self._say(f"back to after step {rest}")

    async def _do_clear(self, _rest: str) -> None:
        await self._close("clear")
        session = await self.session.refresh()
        await session.clear()
        self._say("started again")

    async def _do_fork(self, _rest: str) -> None:
        session = await self.session.refresh()
        self.session = await session.fork()
        self._say(f"session {self.session.id}")

    async def _do_retry(self, _rest: str) -> None:
        session = await self.session.refresh()
        ending = session.state.ending
        if session.unfinished or (ending and is_interrupted(ending.stop_reason, session.state)):
            await self._turn(None)
        else:
            self._say("no run waits, and the last one was not interrupted")
