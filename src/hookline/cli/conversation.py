"""One conversation at the terminal: prompts, slash commands, and the runs between them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from hookline.cli.exits import Exit
from hookline.cli.terminal import is_terminal, page_width, printable
from hookline.config import data_folder
from hookline.errors import HooklineError, SessionConflictError
from hookline.state import RunStatus

if TYPE_CHECKING:
    from hookline.agent import Agent
    from hookline.cli.drive import Stage
    from hookline.sessions import Session

_HELP = """\
/help            this
/tools           what the agent can do
/hooks           which hooks there are
/mode [MODE]     default, accept_edits, ask_unlisted, deny_unlisted, plan
/usage           what the conversation has used
/show            the conversation so far
/rewind STEP     go back to after a step (0: to the beginning); what tools did stays done
/clear           begin anew
/fork            go on in a copy of this conversation
/retry           go on with a run that waits, or was cut off
/exit            end it; so does Ctrl-D"""


class Conversation:
    """Reads what a person says, and does it."""

    def __init__(self, agent: Agent, session: Session, stage: Stage, found: dict[str, Any]) -> None:
        self.agent = agent
        self.session = session
        self.stage = stage
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
                    said = self._said()
                    if said is None:
                        break
                    if said.startswith("/"):
                        if not await self._command(said):
                            break
                    elif said.strip():
                        code = await self._turn(said)
                except KeyboardInterrupt:
                    self.stage.screen.say("\n(Ctrl-D ends the conversation)")
        await self._close("prompt_input_exit" if self._is_live else "other")
        if self._is_live and self.stage.manner.saved:
            self.stage.screen.say(f"go on: hookline chat --session {self.session.id}")
        return Exit.DONE if self._is_live else code

    async def _close(self, reason: str) -> None:
        """Ask the hooks of the session's end. One with a run that waits, or without any, has not come to it."""
        session = self.session.refresh()
        if not session.runs or session.unfinished:
            return
        try:
            await session.close(self.agent, reason=reason)
        except SessionConflictError:
            return  # whoever runs it now will come to its end
        except HooklineError as error:
            self.stage.screen.say(f"hookline: {error}")

    async def _turn(self, prompt: str | None) -> Exit:
        """One run: a new one, or the one that waits."""
        agent, session = self.agent, self.session.refresh()
        try:
            result = await self.stage.play(
                agent,
                lambda: session.resume_run(agent) if prompt is None else session.run(agent, prompt),
                lambda _result, answers: session.resume_run(agent, answers),
            )
        except SessionConflictError as error:
            remedy = "Wait until they are done, or go on in a copy: /fork"
            self.stage.screen.note(f"{error.message} {remedy}")
            return Exit.FAILED
        except HooklineError as error:
            self.stage.screen.note(str(error))
            return Exit.FAILED
        finally:
            # Ctrl-C means the line that is typed again, once a run is over.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if result.status is RunStatus.PAUSED:
            self.stage.screen.say("the run waits for your answer: /retry asks again")
        return self.stage.end(result)

    # --- what is said ---------------------------------------------------------------------------------

    def _said(self) -> str | None:
        """The next prompt; None at the end."""
        lines: list[str] = []
        quoted = False
        while True:
            line = self._line("... " if lines or quoted else "> ")
            if line is None:
                return "\n".join(lines) if lines else None
            if line.strip() == '"""':
                if quoted:
                    return "\n".join(lines)
                quoted = True
            elif quoted:
                lines.append(line)
            elif line.endswith("\\"):
                lines.append(line[:-1])
            else:
                return "\n".join([*lines, line])

    def _line(self, prompt: str) -> str | None:
        if not self._is_live:
            line = sys.stdin.readline()
            return line.rstrip("\n") if line else None
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if not is_terminal(sys.stdout):  # the answers go elsewhere: the prompt is not one of them
            print(prompt, end="", file=sys.stderr, flush=True)
            prompt = ""
        try:
            return input(prompt)
        except EOFError:
            print(file=sys.stderr)
            return None

    @contextlib.contextmanager
    def _history(self) -> Any:
        """What was said before can be called up again."""
        if not self._is_live:
            yield
            return
        import readline

        path = data_folder(os.environ) / "history"
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

    async def _command(self, said: str) -> bool:
        """Do what a slash command says. False: the conversation is over."""
        name, _, rest = said[1:].partition(" ")
        if name in ("exit", "quit", "q"):
            return False
        do = getattr(self, f"_do_{name}", None)
        if do is None:
            self.stage.screen.say(f"there is no /{printable(name)}; /help lists what there is")
            return True
        try:
            done = do(rest.strip())
            if done is not None:
                await done
        except HooklineError as error:
            self.stage.screen.note(str(error))
        return True

    def _do_help(self, _rest: str) -> None:
        self.stage.screen.say(_HELP)

    def _do_tools(self, _rest: str) -> None:
        names = [spec.name for spec in self.agent.definition.toolbox.specs]
        self.stage.screen.say(", ".join(names) or "none")

    def _do_hooks(self, _rest: str) -> None:
        from hookline.inspection import explain

        screen = self.stage.screen
        told = explain(self.agent.definition, None, {}, width=page_width(screen.err))
        screen.say(printable(told, lines=True))

    def _do_mode(self, rest: str) -> None:
        approval = self._found.get("approval")
        if approval is None:
            self.stage.screen.say("an agent of your own has the modes that you gave it")
        elif rest:
            approval.set_mode(rest)
            self.stage.screen.say(f"mode: {rest}")
        else:
            self.stage.screen.say(f"mode: {approval.mode}")

    def _do_usage(self, _rest: str) -> None:
        usage = self.session.refresh().state.usage
        cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
        asked = f"{usage.requests} request{'s' * (usage.requests != 1)}"
        self.stage.screen.say(f"{usage.total_tokens:,} tokens in {asked}{cost}")

    def _do_show(self, _rest: str) -> None:
        self.stage.screen.say(printable(str(self.session.refresh().show()), lines=True))

    def _do_rewind(self, rest: str) -> None:
        if not rest.isdecimal():
            self.stage.screen.say("to after which step? /show has the numbers")
            return
        self.session.refresh().rewind(to=int(rest))
        self.stage.screen.say(f"back to after step {rest}")

    async def _do_clear(self, _rest: str) -> None:
        await self._close("clear")
        self.session.refresh().clear()
        self.stage.screen.say("begun anew")

    def _do_fork(self, _rest: str) -> None:
        self.session = self.session.refresh().fork()
        self.stage.screen.say(f"session {self.session.id}")

    async def _do_retry(self, _rest: str) -> None:
        if self.session.refresh().unfinished:
            await self._turn(None)
        else:
            self.stage.screen.say("no run waits")
