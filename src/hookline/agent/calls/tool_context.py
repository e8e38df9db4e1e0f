"""The context that the tool of a call gets: the run, and what the tool may have done in it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from hookline.agent.approvals import ask_while_running
from hookline.agent.children import ChildWaits, HasDefinition, start_child
from hookline.agent.in_progress import CallInProgress
from hookline.agent.result import RunResult
from hookline.agent.run import Run
from hookline.definition import Definition
from hookline.errors import HookError, UsageError
from hookline.journal import Record, ToolProgress
from hookline.state import (
    AgentState,
    Decision,
    JSONValue,
    PendingApproval,
    RunStatus,
    ToolCall,
    ToolSpec,
    Usage,
    checked_text,
    freeze,
)
from hookline.tools import ToolContext

_REMEMBERED = 8_000
"""Characters of earlier progress messages that are looked at again: a private key has some thousand."""
_MOST_FIELDS = 64
"""Fields of messages that are remembered; a tool that names its fields anew each time must not fill the memory."""


class CallContext(ToolContext):
    """What a tool may see and do in the run that its call is in."""

    __slots__ = (
        "_asked",
        "_current",
        "_idle",
        "_loop",
        "_run",
        "_running",
        "_said",
        "_spawned",
        "waiting",
    )

    def __init__(self, run: Run, current: CallInProgress) -> None:
        call = current.exact
        super().__init__(call, f"{run.run_id}/{run.step_index}/{call.id}")
        self._run = run
        self._current = current
        self._loop = asyncio.get_running_loop()
        self._asked = 0
        self._said: dict[str, str] = {}
        """The end of what its progress messages said, by field; under no name for messages that are texts."""
        self._spawned = 0
        self._running = 0
        self._idle: asyncio.Event | None = None
        self.waiting: tuple[PendingApproval, ...] = ()
        """What the children of this call wait for."""

    @property
    def state(self) -> AgentState:
        return self._run.state

    @property
    def is_cancelled(self) -> bool:
        return self._run.is_cancelled

    @property
    def depth(self) -> int:
        return self._run.depth

    @property
    def journal(self) -> Sequence[Record]:
        return tuple(self._run.durable.records)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self._run.setup.definition.toolbox.specs

    def progress(self, message: JSONValue) -> None:
        shown = freeze(message, f"a progress message of tool '{self.call.name}'")
        self._in_the_loop(self._tell, shown)

    def _tell(self, shown: JSONValue) -> None:
        run, call = self._run, self.call
        run.clock()
        at = run.at
        if run.setup.redact_content is not None:
            shown = self._without_secrets(shown)
        run.durable.tell(
            ToolProgress(
                run_id=run.run_id,
                seq=len(run.durable.records),
                at=at,
                call_id=call.id,
                name=call.name,
                message=shown,
                step=run.step_index or 0,
            )
        )

    def _without_secrets(self, message: JSONValue) -> JSONValue:
        """A message like a result. A secret may begin in one message and continue in the next."""
        redact = self._run.setup.redact_content
        assert redact is not None
        if isinstance(message, str):
            return self._redact_rest("", message, message)
        shown = redact(message)
        if isinstance(message, Mapping):
            shown = {
                name: self._redact_rest(name, message.get(name, ""), each)
                if isinstance(each, str)
                else each
                for name, each in shown.items()
            }
        return freeze(shown)

    def _redact_rest(self, field: str, message: JSONValue, shown: str) -> str:
        """A text without the rest of a secret that began in the messages before it."""
        redact = self._run.setup.redact_content
        assert redact is not None
        if field not in self._said and len(self._said) >= _MOST_FIELDS:
            self._said.clear()
        said = self._said.get(field, "")
        self._said[field] = f"{said}{message}"[-_REMEMBERED:]
        return str(redact(shown, said))

    def charge(self, usage: Usage) -> None:
        if not isinstance(usage, Usage):
            raise UsageError(f"charge takes a Usage, not {usage!r}.")
        if problem := usage.problem():
            raise UsageError(f"a usage to be charged has {problem}.")
        self._in_the_loop(self._run.charge, usage)

    @property
    def _is_elsewhere(self) -> bool:
        """Whether this is asked in another thread than the run's, as sync tools do."""
        try:
            return asyncio.get_running_loop() is not self._loop
        except RuntimeError:
            return True

    def _in_the_loop(self, work: Callable[..., None], *args: Any) -> None:
        """Do this in the run's own thread; from another one it is done in turn, before the tool's result arrives."""
        if not self._is_elsewhere:
            work(*args)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run is long over
            self._loop.call_soon_threadsafe(work, *args)

    async def spawn(self, agent: HasDefinition, prompt: str, *, name: str = "") -> RunResult:
        call = self.call
        definition = getattr(agent, "definition", None)
        if not isinstance(definition, Definition):
            raise UsageError(
                f"spawn takes an Agent, not {agent!r}.",
                remedy="Build it: AgentBuilder()...build().",
            )
        if self._is_elsewhere:
            raise UsageError(
                f"tool '{call.name}' called spawn in a thread, but spawn works only in the run's event loop.",
                remedy="Make the tool async: `async def`, and `await context.spawn(...)`.",
            )
        self._spawned += 1
        key = f"{call.id}/{self._spawned}"
        prompt, name = checked_text(prompt, "the prompt"), checked_text(name, "the child's name")
        self._idle = self._idle or asyncio.Event()
        self._running += 1
        try:
            result = await start_child(self._run, self._current, key, definition, prompt, name)
        except HookError as error:
            self._current.failed_hook = error
            raise
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()
        if result.status is not RunStatus.PAUSED:
            return result
        self.waiting += result.state.pending
        while self._running:  # children beside this one get as far as they can: none is left behind
            self._idle.clear()
            await self._idle.wait()
        raise ChildWaits(self.waiting)

    async def ask(self, question: ToolCall, reason: str, *, asked_by: str = "") -> Decision:
        call = self.call
        if self._is_elsewhere:
            raise UsageError(
                f"tool '{call.name}' called ask in a thread, but ask works only in the run's event loop.",
                remedy="Make the tool async: `async def`, and `await context.ask(...)`.",
            )
        self._asked += 1
        numbered = ToolCall(f"{call.id}/ask-{self._asked}", question.name, question.args)
        return await ask_while_running(self._run, numbered, reason, asked_by or call.name)


async def use_in_context(
    run: Run, current: CallInProgress, use: Callable[[ToolContext], Awaitable[Any]]
) -> Any:
    """Use a tool that takes a context: it knows where it runs, and may start children."""
    current.failed_hook = None
    context = CallContext(run, current)
    value = None
    try:
        value = await use(context)
    except Exception:
        if not (context.waiting or current.failed_hook):
            raise
    # Whatever the tool made of it: a hook has failed, or its children are not done.
    if current.failed_hook is not None:
        raise current.failed_hook
    if context.waiting:
        raise ChildWaits(context.waiting)
    return value
