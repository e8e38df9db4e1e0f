"""The capability: before the model is asked, a conversation that has outgrown its budget is made shorter."""

from __future__ import annotations

from typing import Literal

import msgspec

from hookline.capabilities.summarization.cutting import Cut, Room, choose
from hookline.capabilities.summarization.sizes import Count, Sizes, by_characters
from hookline.capabilities.summarization.writing import (
    INSTRUCTIONS,
    as_message,
    dropped_message,
    summarised,
)
from hookline.drivers import Driver, driver_for
from hookline.errors import BuildError, in_words
from hookline.hooks import HookOutcome, Options, Registration, register
from hookline.lifecycle import HookPoint, InferenceHookContext, RunHandle
from hookline.state import (
    AgentState,
    AssistantMessage,
    InferenceRequest,
    Log,
    Message,
    StepType,
    UserMessage,
)

KEY = "summaries"
"""Where it is kept in the state's metadata how often and when."""
_MOST_OF_A_SUMMARY = 4_000


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept in the state."""

    count: int = 0
    steps: int = 0
    """How many steps there were in all when messages last gave way: what the model used before tells nothing now."""
    messages: int = 0
    """How many messages have given way."""
    failures: int = 0
    problem: str = ""
    """What the summariser failed of the last time it did."""


class Summarization:
    """When the conversation is more than `budget` tokens, older messages give way to a summary a model writes.

    The system prompt, the first and the latest prompt and the latest messages stay: `keep_tokens` of them (a fourth of
    the budget), at least `keep_messages` where the budget allows it, and a call always with its results. How long the
    conversation is, is told by what the model used last, and counted for what is new: `count_tokens(text)`, or a fourth
    of the characters.

    `model` writes the summary, the agent's own by default. The `before_compact` hooks are asked first: they may forbid
    it, or give other instructions. `on_failure` is what becomes of a conversation for which there is no summary: "keep"
    (it goes on as it is, and is tried again next time), "drop" (older messages give way to a note) or "fail" (an error,
    for the error policy).
    """

    name = "summarization"

    def __init__(
        self,
        budget: int = 100_000,
        *,
        keep_tokens: int | None = None,
        keep_messages: int = 4,
        summary_tokens: int | None = None,
        model: str | Driver | None = None,
        instructions: str = INSTRUCTIONS,
        count_tokens: Count = by_characters,
        on_failure: Literal["keep", "drop", "fail"] = "keep",
    ) -> None:
        self.budget = _number("budget", budget, 1)
        self._keep = _number("keep_tokens", budget // 4 if keep_tokens is None else keep_tokens, 0)
        self._least = _number("keep_messages", keep_messages, 0)
        most = min(_MOST_OF_A_SUMMARY, max(32, budget // 8))
        self._summary = _number(
            "summary_tokens", most if summary_tokens is None else summary_tokens, 1
        )
        if not (isinstance(instructions, str) and instructions.strip()):
            raise BuildError(f"summarization: instructions={instructions!r} say nothing.")
        if not callable(count_tokens):
            raise BuildError(
                f"summarization: count_tokens={count_tokens!r} does not count.",
                remedy="Give a function of a text: lambda text: len(encoding.encode(text)), say.",
            )
        if on_failure not in ("keep", "drop", "fail"):
            raise BuildError(
                f"summarization: on_failure={on_failure!r} is not one of 'keep', 'drop', 'fail'."
            )
        self._driver = None if model is None else driver_for(model)
        self._instructions = instructions
        self._sizes = Sizes(count_tokens)
        self._on_failure = on_failure

    def hooks(self) -> list[Registration]:
        """Look at the conversation before the model is asked, and before other hooks look at the request."""
        options = Options(name="summarization", priority=900)
        return [register(HookPoint.BEFORE_INFERENCE, self._shorten, options)]

    async def _shorten(
        self, ctx: InferenceHookContext
    ) -> InferenceHookContext | HookOutcome | None:
        run = ctx.run
        if run is None or self.tokens(ctx) <= self.budget:
            return None
        room = self._room(ctx)
        cut = self._cut(ctx, room)
        if cut is None:
            return None
        asked = await run.before_compact(ctx, cut.middle, self._instructions)
        said = asked.context
        if said.state.messages is not ctx.state.messages:
            cut = None  # a hook has changed the conversation: it is cut anew
        ctx = _with_messages(ctx, said.state)
        ctx = msgspec.structs.replace(ctx, evaluations=said.evaluations)
        if asked.is_stopped:
            return HookOutcome.stop(asked.reason, ctx, stop_reason=asked.stop_reason)
        cut = cut or self._cut(ctx, room)
        if asked.is_blocked or cut is None:
            return ctx
        instead = await self._instead(run, cut, said.instructions, room)
        if isinstance(instead, str):
            return self._failed(ctx, instead)
        return self._done(ctx, cut, *instead)

    # --- how long it is -----------------------------------------------------------------------------

    def tokens(self, ctx: InferenceHookContext) -> int:
        """How many tokens the request is, about."""
        messages = tuple(ctx.request.messages)
        last = ctx.state.last_step
        known = 0
        if last is not None and len(ctx.state.steps) > _record(ctx.state).steps:
            used = last.usage
            is_told = last.type is not StepType.INCOMPLETE and used.input_tokens > 0
            known = (used.input_tokens + used.output_tokens) // max(1, used.requests) * is_told
        counted = self._sizes.fixed(ctx.request) + self._sizes.messages(messages)
        spoke = [at for at, m in enumerate(messages) if isinstance(m, AssistantMessage)]
        if not known or not spoke:
            return counted
        new = self._sizes.messages(messages[spoke[-1] + 1 :])
        # Where the model counts more than we do (another script, say), it will do so for what is new as well.
        return known + int(new * max(1.0, known / max(1, counted - new)))

    def _room(self, ctx: InferenceHookContext) -> Room:
        """What may be left, in tokens as they are counted here: where the model counts more, that is less."""
        fixed = self._sizes.fixed(ctx.request)
        counted = fixed + self._sizes.messages(ctx.request.messages)
        scale = max(1.0, self.tokens(ctx) / max(1, counted))
        return Room(
            int(self.budget / scale) - fixed,
            int(self._summary / scale),
            int(self._keep / scale),
            self._least,
        )

    def _cut(self, ctx: InferenceHookContext, room: Room) -> Cut | None:
        return choose(tuple(ctx.state.messages), self._sizes.message, room)

    # --- making it shorter --------------------------------------------------------------------------

    async def _instead(
        self, run: RunHandle, cut: Cut, instructions: str, room: Room
    ) -> tuple[UserMessage, str] | str:
        """What stands for the messages that give way, and what failed, if something did; only that if they stay."""
        try:
            text = await self._summary_of(run, cut.middle, instructions)
        except Exception as error:
            if self._on_failure == "fail":
                raise
            problem = in_words(error) or type(error).__name__
            if self._on_failure == "keep":
                return problem
            return dropped_message(cut.middle, self._sizes, room.summary), problem
        return as_message(text, self._sizes, room.summary), ""

    async def _summary_of(
        self, run: RunHandle, messages: tuple[Message, ...], instructions: str
    ) -> str:
        async def ask(request: InferenceRequest) -> str:
            return (await run.ask_model(request, name=self.name, driver=self._driver)).text

        piece = self.budget - self._summary - self._sizes.text(instructions)
        return await summarised(messages, instructions, ask, self._sizes, piece=piece)

    @staticmethod
    def _failed(ctx: InferenceHookContext, problem: str) -> InferenceHookContext:
        record = _record(ctx.state)
        failed = msgspec.structs.replace(record, failures=record.failures + 1, problem=problem)
        return ctx.with_metadata(KEY, failed)

    def _done(
        self, ctx: InferenceHookContext, cut: Cut, instead: UserMessage, problem: str
    ) -> InferenceHookContext:
        if problem:
            ctx = self._failed(ctx, problem)
        record = _record(ctx.state)
        record = msgspec.structs.replace(
            record,
            count=record.count + 1,
            steps=len(ctx.state.steps),
            messages=record.messages + len(cut.middle),
        )
        state = ctx.state.with_messages(Log(cut.joined(instead))).with_metadata(KEY, record)
        return _with_messages(ctx, state)


def _with_messages(ctx: InferenceHookContext, state: AgentState) -> InferenceHookContext:
    """The context with another conversation, which the model is shown together with what other hooks added to it.

    A request in which other hooks changed the conversation itself is left to them.
    """
    old, shown = tuple(ctx.state.messages), tuple(ctx.request.messages)
    if state.messages is not ctx.state.messages and shown[: len(old)] == old:
        added = shown[len(old) :]
        messages = state.messages.extend(added) if added else state.messages
        ctx = ctx.with_request(ctx.request.with_messages(messages))
    return ctx.with_state(state)


def _record(state: AgentState) -> _Record:
    kept = state.metadata.get(KEY)
    try:
        return msgspec.convert(kept, _Record) if kept is not None else _Record()
    except msgspec.ValidationError:
        return _Record()


def _number(option: str, given: int, least: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise BuildError(
            f"summarization: {option}={given!r} is not a whole number of at least {least}."
        )
    return given
