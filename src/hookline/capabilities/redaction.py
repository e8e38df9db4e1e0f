"""Removes secrets from prompts, results, answers and errors before they enter the state, and from all records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hookline.agent import hook
from hookline.definition import Definition, Note
from hookline.hooks import HookOptions, Registration
from hookline.lifecycle import (
    AgentContext,
    ExecutionHookContext,
    FailureHookContext,
    HookPoint,
    InferenceHookContext,
    PromptHookContext,
    ToolHookContext,
)
from hookline.redaction import Patterns, RedactingFilter, Redactor, Values
from hookline.state import (
    AgentState,
    AssistantMessage,
    Attachment,
    InferenceResponse,
    Log,
    Message,
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

T = TypeVar("T", InferenceResponse, ToolResult)

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
        self._offered: dict[int, tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]]] = {}
        """The tools that were offered last, and their redacted form."""
        self._tools: set[str] = set()
        """Names of tools, which are not secrets."""

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
        state = self._cleaned(ctx.state)
        # Not by name: the notes of hooks and tools must stay usable.
        metadata = self.redactor.value(state.metadata, by_name=False)
        if metadata is not state.metadata:
            state = msgspec.structs.replace(state, metadata=metadata)
        return None if state is ctx.state else ctx.with_state(state.checked())

    def _prompt(self, ctx: PromptHookContext) -> PromptHookContext | None:
        prompt = self.redactor.text(ctx.prompt)
        attachments = self._attachments(ctx.attachments)
        if prompt == ctx.prompt and attachments is ctx.attachments:
            return None
        changed = ctx if prompt == ctx.prompt else ctx.with_prompt(prompt)
        return changed if attachments is ctx.attachments else changed.with_attachments(attachments)

    def _request(self, ctx: InferenceHookContext) -> InferenceHookContext | None:
        """Redact what other hooks have added to the conversation, and what is only in the request."""
        state = self._cleaned(ctx.state)
        request = ctx.request
        if request.messages is not ctx.state.messages:
            cleaned = self._messages(request.messages)
            request = request if cleaned is None else request.with_messages(Log(cleaned))
        elif state is not ctx.state:
            request = request.with_messages(state.messages)
        system = self.redactor.text(request.system, by_name=False)
        if system != request.system:
            request = request.with_system(system)
        tools = self._specs(request.tools)
        if tools is not request.tools:
            request = request.with_tools(tools)
        if state is ctx.state and request is ctx.request:
            return None
        return ctx.with_state(state).with_request(request)

    def _response(self, ctx: InferenceHookContext) -> InferenceHookContext | None:
        response = ctx.response
        if response is None or self._is_checked(ctx, response):
            return None
        cleaned = self._checked(ctx, response, self._answer(response))
        return None if cleaned is response else ctx.with_response(cleaned)

    def _result(self, ctx: ToolHookContext) -> ToolHookContext | None:
        execution = ctx.execution
        if execution is None or self._is_checked(ctx, execution):
            return None
        cleaned = self._checked(ctx, execution, self._execution(execution))
        return None if cleaned is execution else ctx.with_execution(cleaned)

    def _checked(self, ctx: AgentContext, given: T, cleaned: T) -> T:
        """Remember what was checked before other hooks: after them it is checked again only if they changed it."""
        result = given if cleaned == given else cleaned
        self._passed[ctx.state.run_id, ctx.point] = result
        return result

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

    def _cleaned(self, state: AgentState) -> AgentState:
        """The state with what is new in its conversation redacted."""
        before = self._seen.get(state.run_id)
        new = None if before is None else state.messages.since(before)
        kept = () if new is None else tuple(state.messages)[: len(state.messages) - len(new)]
        cleaned = self._messages(state.messages if new is None else new)
        if cleaned is not None:
            state = state.with_messages(Log([*kept, *cleaned]))
        self._seen[state.run_id] = state.messages
        return state

    def _messages(self, messages: Iterable[Message]) -> list[Message] | None:
        """The messages, redacted; None if there is nothing to redact."""
        given = list(messages)
        cleaned = [self._message(message) for message in given]
        return None if all(map(_is, cleaned, given)) else cleaned

    def _specs(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """The tools, redacted: their descriptions are texts of servers and files, too."""
        known = self._offered.get(id(tools))
        if known is None or known[0] is not tools:
            cleaned = tuple(map(self._spec, tools))
            known = (tools, tools if all(map(_is, cleaned, tools)) else cleaned)
            self._offered = {id(tools): known}  # the same ones are offered again and again
        return known[1]

    def _spec(self, tool: ToolSpec) -> ToolSpec:
        description = self.redactor.text(tool.description, by_name=False)
        parameters = self.redactor.value(tool.parameters, by_name=False)
        if description == tool.description and parameters is tool.parameters:
            return tool
        return ToolSpec(tool.name, description, parameters)

    def _message(self, message: Message) -> Message:
        if isinstance(message, AssistantMessage):
            text = self.redactor.text(message.text)
            calls, reasoning = (
                tuple(map(self._call, message.calls)),
                self._reasoning(message.reasoning),
            )
            cleaned: Message = AssistantMessage(text, calls, reasoning)
        elif isinstance(message, ToolMessage):
            cleaned = msgspec.structs.replace(
                message, text=self.redactor.text(message.text), name=self._tool_name(message.name)
            )
        else:
            text = self.redactor.text(message.text)
            cleaned = UserMessage(text, message.by, self._attachments(message.attachments))
        return message if cleaned == message else cleaned

    def _answer(self, response: InferenceResponse) -> InferenceResponse:
        return msgspec.structs.replace(
            response,
            text=self.redactor.text(response.text),
            calls=tuple(map(self._named, response.calls)),
            reasoning=self._reasoning(response.reasoning),
        )

    def _named(self, call: ToolCall) -> ToolCall:
        """A call of the model. The run redacts its arguments itself: it keeps them until the call has run."""
        name = self._tool_name(call.name)
        return call if name == call.name else msgspec.structs.replace(call, name=name)

    def _call(self, call: ToolCall) -> ToolCall:
        """A call in the conversation, which has run or never will."""
        args, malformed = self.redactor.value(call.args), self.redactor.text(call.malformed)
        named = self._named(call)
        if args is call.args and malformed == call.malformed:
            return named
        return ToolCall(call.id, named.name, thaw(args), malformed, call.redacted)

    def _tool_name(self, name: str) -> str:
        """The name of a tool; one that is a secret becomes another valid name."""
        if name in self._tools:
            return name
        cleaned = self.redactor.text(name, by_name=False)
        return name if cleaned == name else _NO_NAME.sub("_", cleaned).strip("_")

    def _reasoning(self, parts: Sequence[Reasoning]) -> tuple[Reasoning, ...]:
        """A changed text loses the signature of its provider."""
        return tuple(
            part
            if (text := self.redactor.text(part.text)) == part.text
            else msgspec.structs.replace(part, text=text, signature="")
            for part in parts
        )

    def _execution(self, execution: ToolResult) -> ToolResult:
        error = execution.error
        if error is not None:
            error = msgspec.structs.replace(error, message=self.redactor.text(error.message))
        return msgspec.structs.replace(
            execution,
            result=self.redactor.value(execution.result),
            error=error,
            reason=self.redactor.text(execution.reason),
            metadata=self.redactor.value(execution.metadata),
        )

    def _attachments(self, attachments: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
        cleaned = tuple(map(self._attachment, attachments))
        return attachments if all(map(_is, cleaned, attachments)) else cleaned

    def _attachment(self, attachment: Attachment) -> Attachment:
        """Redact the address, and the content if it is text."""
        data = attachment
        if attachment.url:
            url = self.redactor.text(attachment.url)
            data = data if url == attachment.url else msgspec.structs.replace(data, url=url)
        if attachment.is_text and attachment.data:
            before = attachment.text()
            after = self.redactor.text(before)
            if after != before:
                data = Attachment.from_bytes(after.encode(), attachment.media_type, attachment.name)
        return data

    def __repr__(self) -> str:
        return f"<Redaction {self.redactor!r}>"


def _is(one: Any, other: Any) -> bool:
    return one is other
