"""Secrets out of prompts, results, answers and errors before they enter the state, and out of all that is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.definition import Definition, Note
from hookline.hooks import Options, Registration, register
from hookline.lifecycle import (
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
    InferenceRequest,
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

_NO_NAME = re.compile(r"[^\w-]+", re.ASCII)
_FIRST = 100_000
"""Before other hooks, which need not see what nobody is to see; before the model, after what they add."""


class Redaction:
    """Takes secrets out of everything a run keeps or tells: `Redaction(environment=["GITHUB_TOKEN"])`.

    Well-known tokens are found by their looks, fields and variables by their names. `values` and `environment` add
    secrets that are known, in whatever encoding; `patterns` and `names` add more ways to find others.
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
        """The conversations of runs that are going on, as far as they were looked through."""
        self._passed: dict[tuple[str, str], object] = {}
        self._told: dict[int, tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]]] = {}
        """The tools that were offered last, and what is told of them."""
        self._tools: set[str] = set()
        """Names of tools that there are, which are no secrets."""

    def log_filter(self) -> RedactingFilter:
        """A filter for the handlers of your logs, with the same idea of what is secret."""
        return RedactingFilter(self.redactor)

    # --- a capability -------------------------------------------------------------------------------

    def configure(self, builder: AgentBuilder) -> None:
        """No record is written or reported with a secret in it, and no call is kept with one in its arguments.

        In a record the names of fields do not count: they are ours, and what hooks have noted has to work.
        """
        builder.with_redaction(
            lambda value: self.redactor.value(value, by_field=False), content=self._content
        )

    def _content(self, value: Any, before: str = "") -> Any:
        """Arguments of calls, and progress messages: text behind what came before it, or a JSON value."""
        if isinstance(value, str):
            return self.redactor.text(value, before=before)
        cleaned = self.redactor.value(value)
        if cleaned is not value:
            # What the call prints may have it too, and where the model repeats it no name stands before it.
            self.redactor.learn(value, cleaned)
            cleaned = self.redactor.value(value)
        return cleaned

    def notes(self, definition: Definition) -> tuple[Note, ...]:
        """Nothing to say: it learns what the tools are called."""
        self._tools |= {tool.name for tool in definition.toolbox}
        return ()

    def hooks(self) -> Iterator[Registration]:
        """A hook wherever something enters the state, here and in children."""
        first = Options(name=self.name, scope="tree", priority=_FIRST)
        last = Options(name=f"{self.name}-last", scope="tree", priority=-_FIRST)
        yield register(HookPoint.EXECUTION_START, self._state, first)
        for options in (first, last):
            yield register(HookPoint.PROMPT_SUBMIT, self._prompt, options)
            yield register(HookPoint.AFTER_INFERENCE, self._response, options)
            yield register(HookPoint.AFTER_TOOL_USE, self._result, options)
        yield register(HookPoint.BEFORE_INFERENCE, self._request, last)
        yield register(HookPoint.ERROR, self._failure, first)
        yield register(HookPoint.AGENT_FAILED, self._failure, first)
        yield register(HookPoint.EXECUTION_END, self._forget, first)

    def _state(self, ctx: ExecutionHookContext) -> ExecutionHookContext | None:
        """A state that was handed in may come from a time without redaction."""
        state = self._cleaned(ctx.state)
        # By name nothing is taken out here: what hooks and tools have noted has to work.
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
        """What others have put into the conversation since, and what only the request says."""
        state = self._cleaned(ctx.state)
        request = ctx.request
        if request.messages is not ctx.state.messages:
            request = self._clean_messages(request)
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
        if response is None or self._is_passed(ctx, response):
            return None
        cleaned = self._answer(response)
        if cleaned == response:
            cleaned = response
        self._pass(ctx, cleaned)
        return None if cleaned is response else ctx.with_response(cleaned)

    def _result(self, ctx: ToolHookContext) -> ToolHookContext | None:
        execution = ctx.execution
        if execution is None or self._is_passed(ctx, execution):
            return None
        cleaned = self._execution(execution)
        if cleaned == execution:
            cleaned = execution
        self._pass(ctx, cleaned)
        return None if cleaned is execution else ctx.with_execution(cleaned)

    def _pass(self, ctx: InferenceHookContext | ToolHookContext, cleaned: object) -> None:
        """What was looked through before other hooks: afterwards it is only if they have changed it."""
        self._passed[ctx.state.run_id, ctx.point] = cleaned

    def _is_passed(self, ctx: InferenceHookContext | ToolHookContext, given: object) -> bool:
        return self._passed.pop((ctx.state.run_id, ctx.point), None) is given

    def _failure(self, ctx: FailureHookContext) -> None:
        """An exception becomes part of the state by what it says: it says it without secrets, to its caller as well."""
        if ctx.exception is not None:
            self.redactor.exception(ctx.exception)

    def _forget(self, ctx: ExecutionHookContext) -> None:
        self._seen.pop(ctx.state.run_id, None)
        for point in (HookPoint.AFTER_INFERENCE, HookPoint.AFTER_TOOL_USE):
            self._passed.pop((ctx.state.run_id, point), None)

    # --- the parts of a conversation ----------------------------------------------------------------

    def _cleaned(self, state: AgentState) -> AgentState:
        """The state with what is new in its conversation looked through."""
        before = self._seen.get(state.run_id)
        new = state.messages if before is None else state.messages.since(before)
        cleaned = [self._message(message) for message in (state.messages if new is None else new)]
        is_same = all(map(_is, cleaned, state.messages if new is None else new))
        if not is_same:
            kept = () if before is None or new is None else tuple(state.messages)[: -len(cleaned)]
            state = state.with_messages(Log([*kept, *cleaned]))
        self._seen[state.run_id] = state.messages
        return state

    def _clean_messages(self, request: InferenceRequest) -> InferenceRequest:
        cleaned = [self._message(message) for message in request.messages]
        is_same = all(map(_is, cleaned, request.messages))
        return request if is_same else request.with_messages(Log(cleaned))

    def _specs(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """What a model is told of the tools: their descriptions are texts of servers and files, too."""
        known = self._told.get(id(tools))
        if known is None or known[0] is not tools:
            cleaned = tuple(map(self._spec, tools))
            known = (tools, tools if all(map(_is, cleaned, tools)) else cleaned)
            self._told = {id(tools): known}  # the same ones are offered again and again
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
        """A call of the model. The run itself takes secrets out of its arguments: it keeps them for when it runs."""
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
        """The name of a tool; one that is a secret becomes another that models can still be shown."""
        if name in self._tools:
            return name
        cleaned = self.redactor.text(name, by_name=False)
        return name if cleaned == name else _NO_NAME.sub("_", cleaned).strip("_")

    def _reasoning(self, parts: Sequence[Reasoning]) -> tuple[Reasoning, ...]:
        """A provider's seal is for its own words: it goes with them."""
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
        """A document of text is looked through; of pictures and the like only the address."""
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
