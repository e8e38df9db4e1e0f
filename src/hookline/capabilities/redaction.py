"""Removes secrets from prompts, results, answers and errors before they enter the state, and from all records."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hookline.agent import hook
from hookline.definition import Definition
from hookline.definition.definition import Note
from hookline.hooks import HookOptions, Registration
from hookline.lifecycle import (
    AfterToolHookContext,
    AgentContext,
    ExecutionHookContext,
    FailureHookContext,
    HookPoint,
    InferenceHookContext,
    PromptHookContext,
)
from hookline.redaction import Patterns, RedactingFilter, Redactor, Values
from hookline.state import (
    AgentState,
    AssistantMessage,
    Attachment,
    ErrorInfo,
    InferenceResponse,
    Log,
    Message,
    ProviderToolUse,
    Reasoning,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
    thaw,
)

if TYPE_CHECKING:
    from hookline.agent import AgentBuilder

T = TypeVar("T")

_NO_NAME = re.compile(r"[^\w-]+", re.ASCII)
_FIRST = 100_000
"""Before other hooks, which then see no secrets; and after them, because they may add some."""


class Redaction:
    """Removes secrets from everything a run keeps or reports: `Redaction(environment=["GITHUB_TOKEN"])`.

    Well-known tokens are found by their form, fields and variables by their names. `values` and `environment` add known
    secrets, in any encoding; `patterns` and `names` add more ways to find others.
    """

    def __init__(
        self,
        *,
        values: Values = (),
        environment: Iterable[str] = (),
        patterns: Patterns | None = None,
        names: Iterable[str] = (),
        name: str = "redaction",
    ) -> None:
        self.name = name
        self.redactor = Redactor(
            values=values, environment=environment, patterns=patterns, names=names
        )
        self._seen: dict[str, Log[Message]] = {}
        """The conversations of runs in progress, as far as they were checked."""
        self._passed: dict[tuple[str, str], object] = {}
        self._offered: tuple[Sequence[ToolSpec], Sequence[ToolSpec]] = ((), ())
        """The tools that were offered last, and their redacted form."""
        self._tools: set[str] = set()
        """Names of tools, which are not secrets."""
        self._fields = self._cleaners()

    def _cleaners(self) -> dict[type, dict[str, Callable[[Any], Any]]]:
        """What may have secrets, by the kind of part, and what takes them out of a field."""
        text, value, each, name = (
            self.redactor.text,
            self.redactor.value,
            self._redact_parts,
            self._tool_name,
        )
        return {
            UserMessage: {"text": text, "attachments": each},
            AssistantMessage: {
                "text": text,
                "calls": each,
                "reasoning": each,
                "provider_tool_uses": each,
            },
            ToolMessage: {"text": text, "name": name, "attachments": each},
            # A call in the conversation, which has run or never will.
            ToolCall: {"name": name, "args": lambda args: thaw(value(args)), "malformed": text},
            # The run redacts the arguments of a new call itself: it keeps them until the call has run.
            InferenceResponse: {
                "text": text,
                "calls": self._redact_names,
                "reasoning": each,
                "provider_tool_uses": each,
            },
            ProviderToolUse: {"data": lambda data: thaw(value(data))},
            ToolResult: {
                "result": value,
                "error": self._redact_part,
                "reason": text,
                "metadata": value,
                "attachments": each,
            },
            ErrorInfo: {"message": text},
            Reasoning: {"text": text},
            Attachment: {"url": text},
            ToolSpec: {
                "description": functools.partial(text, by_name=False),
                "parameters": functools.partial(value, by_name=False),
            },
        }

    def log_filter(self) -> RedactingFilter:
        """A filter for the handlers of your logs, with the same idea of what is secret."""
        return RedactingFilter(self.redactor)

    # --- a capability -------------------------------------------------------------------------------

    def configure(self, builder: AgentBuilder) -> None:
        """Redact every record, and the arguments of calls.

        In a record the names of fields do not count: they are ours, and the notes of hooks must stay usable.
        """
        builder.with_redaction(
            lambda value: self.redactor.value(value, by_field=False), content=self._content
        )

    def _content(self, value: Any, before: str = "") -> Any:
        """Redact the arguments of a call, or a progress message that follows `before`."""
        if isinstance(value, str):
            return self.redactor.text(value, before=before)
        cleaned = self.redactor.value(value)
        if cleaned is not value:
            # What the call prints may have it too, and where the model repeats it no name stands before it.
            self.redactor.learn(value, cleaned)
            cleaned = self.redactor.value(value)
        return cleaned

    def notes(self, definition: Definition) -> tuple[Note, ...]:
        """No notes: it learns the names of the tools."""
        self._tools |= {tool.name for tool in definition.toolbox}
        return ()

    def hooks(self) -> Iterator[Registration]:
        """A hook wherever something enters the state, here and in child runs."""
        first = HookOptions(name=self.name, scope="tree", priority=_FIRST)
        last = HookOptions(name=f"{self.name}-last", scope="tree", priority=-_FIRST)
        yield hook("execution_start", self._state, **first)
        for options in (first, last):
            yield hook("prompt_submit", self._prompt, **options)
            yield hook("after_inference", self._response, **options)
            yield hook("after_tool_use", self._result, **options)
        yield hook("before_inference", self._request, **last)
        yield hook("error", self._failure, **first)
        yield hook("agent_failed", self._failure, **first)
        yield hook("execution_end", self._forget, **first)

    def _state(self, ctx: ExecutionHookContext) -> ExecutionHookContext | None:
        """Redact a state that was written without redaction."""
        state = self._redact_new(ctx.state)
        # Not by name: the notes of hooks and tools must stay usable.
        metadata = self.redactor.value(state.metadata, by_name=False)
        if metadata is not state.metadata:
            state = msgspec.structs.replace(state, metadata=metadata)
        return None if state is ctx.state else ctx.with_state(state.freeze())

    def _prompt(self, ctx: PromptHookContext) -> PromptHookContext | None:
        prompt = self.redactor.text(ctx.prompt)
        attachments = self._redact_parts(ctx.attachments)
        if prompt == ctx.prompt and attachments is ctx.attachments:
            return None
        changed = ctx if prompt == ctx.prompt else ctx.with_prompt(prompt)
        return changed if attachments is ctx.attachments else changed.with_attachments(attachments)

    def _request(self, ctx: InferenceHookContext) -> InferenceHookContext | None:
        """Redact what other hooks have added to the conversation, and what is only in the request."""
        state = self._redact_new(ctx.state)
        request = ctx.request
        if request.messages is not ctx.state.messages:
            cleaned = self._redact_parts(request.messages)
            if cleaned is not request.messages:
                request = request.with_messages(Log(cleaned))
        elif state is not ctx.state:
            request = request.with_messages(state.messages)
        system = self.redactor.text(request.system, by_name=False)
        if system != request.system:
            request = request.with_system(system)
        # Descriptions are texts of servers and files, too. The same tools are offered again and again.
        if self._offered[0] is not request.tools:
            self._offered = (request.tools, self._redact_parts(request.tools))
        if self._offered[1] is not request.tools:
            request = request.with_tools(tuple(self._offered[1]))
        if state is ctx.state and request is ctx.request:
            return None
        return ctx.with_state(state).with_request(request)

    def _response(self, ctx: InferenceHookContext) -> InferenceHookContext | None:
        response = ctx.response
        if response is None or self._is_checked(ctx, response):
            return None
        cleaned = self._redact_and_remember(ctx, response)
        return None if cleaned is response else ctx.with_response(cleaned)

    def _result(self, ctx: AfterToolHookContext) -> AfterToolHookContext | None:
        execution = ctx.execution
        if self._is_checked(ctx, execution):
            return None
        cleaned = self._redact_and_remember(ctx, execution)
        return None if cleaned is execution else ctx.with_execution(cleaned)

    def _redact_and_remember(self, ctx: AgentContext, given: T) -> T:
        """Remember what was checked before other hooks: after them it is checked again only if they changed it."""
        cleaned: T = self._redact_part(given)
        self._passed[ctx.state.run_id, ctx.point] = cleaned
        return cleaned

    def _is_checked(self, ctx: AgentContext, given: object) -> bool:
        return self._passed.pop((ctx.state.run_id, ctx.point), None) is given

    def _failure(self, ctx: FailureHookContext) -> None:
        """Redact the exception itself: its message becomes part of the state, and its caller sees it."""
        if ctx.exception is not None:
            self.redactor.exception(ctx.exception)

    def _forget(self, ctx: ExecutionHookContext) -> None:
        self._seen.pop(ctx.state.run_id, None)
        for point in (HookPoint.AFTER_INFERENCE, HookPoint.AFTER_TOOL_USE):
            self._passed.pop((ctx.state.run_id, point), None)

    # --- the parts of a conversation ----------------------------------------------------------------

    def _redact_new(self, state: AgentState) -> AgentState:
        """The state with what is new in its conversation redacted."""
        before = self._seen.get(state.run_id)
        new = None if before is None else state.messages.since(before)
        kept = () if new is None else tuple(state.messages)[: len(state.messages) - len(new)]
        given = state.messages if new is None else new
        cleaned = self._redact_parts(given)
        if cleaned is not given:
            state = state.with_messages(Log([*kept, *cleaned]))
        self._seen[state.run_id] = state.messages
        return state

    def _redact_parts(self, parts: Any) -> Any:
        """The parts, redacted; the same object if there is nothing to redact."""
        cleaned = tuple(map(self._redact_part, parts))
        return parts if all(map(operator.is_, cleaned, parts)) else cleaned

    def _redact_part(self, part: Any) -> Any:
        """One part of a conversation, redacted; the same object if there is nothing to redact."""
        changes: dict[str, Any] = {}
        for field, clean in self._fields.get(type(part), {}).items():
            before = getattr(part, field)
            after = clean(before)
            if after != before:
                changes[field] = after
        if changes and isinstance(part, Reasoning):
            changes["signature"] = ""  # its provider has signed another text
        cleaned = msgspec.structs.replace(part, **changes) if changes else part
        return self._content_of(cleaned) if isinstance(part, Attachment) else cleaned

    def _content_of(self, attachment: Attachment) -> Attachment:
        """An attachment with its content redacted, if that is text."""
        if not (attachment.is_text and attachment.data):
            return attachment
        before = attachment.text()
        after = self.redactor.text(before)
        if after == before:
            return attachment
        return Attachment.from_bytes(after.encode(), attachment.media_type, attachment.name)

    def _redact_names(self, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
        """Calls with their names redacted, and nothing else of them."""
        return tuple(
            msgspec.structs.replace(call, name=self._tool_name(call.name)) for call in calls
        )

    def _tool_name(self, name: str) -> str:
        """The name of a tool; one that is a secret becomes another valid name."""
        if name in self._tools:
            return name
        cleaned = self.redactor.text(name)
        return name if cleaned == name else _NO_NAME.sub("_", cleaned).strip("_")

    def __repr__(self) -> str:
        return f"<Redaction {self.redactor!r}>"
