"""The spans of runs, made of their records as they happen.

    invoke_agent                     a run, as far as it is driven in this process
      step
        hook NAME                    before it, in it, or about a call that has not started
        chat MODEL                   one attempt
        execute_tool TOOL
          invoke_agent               a child run
      hook NAME                      at the start and the end of the run

Times are those of the records. Where a hook measures, the run's clock says when it began.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry import context as current
from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from hookline.capabilities.open_telemetry import content as said
from hookline.capabilities.open_telemetry import conventions as names
from hookline.capabilities.open_telemetry.instruments import Attributes, Instruments, agent_name
from hookline.capabilities.open_telemetry.providers import Providers, instrumentation_scope
from hookline.journal import (
    ApprovalAsked,
    CallAdmitted,
    CallSettled,
    ErrorRaised,
    HookRan,
    HooksPassed,
    ModelConsulted,
    PromptSubmitted,
    Record,
    ResponseReceived,
    RunFinished,
    RunHandedOver,
    RunStarted,
    RunTakenUp,
    StepFinished,
    StepPaused,
    StepStarted,
)
from hookline.lifecycle import ExecutionHookContext, InferenceHookContext, ToolHookContext
from hookline.providers.catalogue import provider_names
from hookline.state import (
    AgentState,
    ErrorInfo,
    InferenceResponse,
    ResultStatus,
    RunStatus,
    ToolResult,
    Usage,
)

_NOTE = "hookline.trace"
"""Where the state keeps the span of the run, for whoever resumes it."""
_FAILED = (ResultStatus.ERROR, ResultStatus.INVALID, ResultStatus.CANCELLED, ResultStatus.IN_DOUBT)
_owners: dict[str, RunTracer] = {}
"""Who traces a run. A child is heard by its own agent's capability and by that of the agent above."""


class OpenSpan:
    """A span that has begun. Its end is known before all that is said about it."""

    __slots__ = ("attributes", "began", "context", "ended", "span")

    def __init__(self, span: Span, began: float, attributes: Attributes) -> None:
        self.span = span
        self.context = trace.set_span_in_context(span, current.Context())
        self.began = began
        self.ended: float | None = None
        self.attributes = attributes
        """What its measurements are added up by."""

    def end(self, at: float) -> float:
        """End it, at the time that was measured if there is one. Gives its seconds."""
        at = at if self.ended is None else self.ended
        self.span.end(_nanoseconds(at))
        return at - self.began


class RunSpans:
    """The open spans of one run."""

    __slots__ = ("agent_id", "calls", "inference", "run", "settled_step", "step")

    def __init__(self, run: OpenSpan) -> None:
        self.run = run
        self.agent_id = ""
        self.step: OpenSpan | None = None
        self.settled_step = -1
        self.inference: OpenSpan | None = None
        self.calls: dict[str, OpenSpan] = {}

    @property
    def innermost(self) -> OpenSpan:
        """The step that is made, or else the run."""
        return self.step or self.run


class RunTracer:
    """A listener that makes spans and measurements of records, and the hooks that make a span the current one."""

    hears_deltas = False

    def __init__(self, providers: Providers, name: str, *, content: bool) -> None:
        self._name = name
        self._content = content
        self._tracer = (providers.tracer or trace.NoOpTracerProvider()).get_tracer(
            *instrumentation_scope(), schema_url=names.SCHEMA_URL
        )
        self._instruments = Instruments(providers.meter)
        self._runs: dict[str, RunSpans] = {}
        self._handlers: dict[type[Record], Callable[[RunSpans, Any], None]] = {
            ApprovalAsked: self._ask,
            CallAdmitted: self._admit,
            CallSettled: self._settle,
            ErrorRaised: self._fail,
            HookRan: self._show_hook,
            HooksPassed: self._show_hooks,
            ModelConsulted: self._consult,
            PromptSubmitted: self._submit,
            ResponseReceived: self._respond,
            RunFinished: self._finish,
            RunHandedOver: self._hand_over,
            RunStarted: self._identify,
            StepFinished: self._end_step,
            StepPaused: self._end_step,
            StepStarted: self._begin_step,
        }

    def __call__(self, record: Record) -> None:
        """A record was written."""
        spans = self._runs.get(record.run_id)
        if spans is not None:
            handle = self._handlers.get(type(record))
            if handle is not None:
                handle(spans, record)
        elif isinstance(record, RunStarted | RunTakenUp):
            self._begin(record)

    # --- a run ----------------------------------------------------------------------------------------

    def _begin(self, record: RunStarted | RunTakenUp) -> None:
        run_id = record.run_id
        if _owners.setdefault(run_id, self) is not self:
            return
        attributes: Attributes = {names.OPERATION: names.INVOKE_AGENT, "hookline.run.id": run_id}
        attributes["hookline.run.resumed"] = isinstance(record, RunTakenUp) or record.resumed
        if record.agent_version:
            attributes[names.AGENT_VERSION] = record.agent_version
        parent = current.get_current()
        above = None
        if isinstance(record, RunStarted):
            above = self._runs.get(record.parent_run_id or "")
        if above is not None and trace.get_current_span() not in [
            each.span for each in above.calls.values()
        ]:
            parent = above.innermost.context  # a hook has started it
        span = self._open(names.INVOKE_AGENT, record.at, attributes, parent)
        spans = self._runs[run_id] = RunSpans(span)
        if isinstance(record, RunStarted):
            self._identify(spans, record)

    def _identify(self, spans: RunSpans, whose: RunStarted | AgentState) -> None:
        """Say whose run it is. The record of a run that is taken up does not."""
        if isinstance(whose, RunStarted):  # a worker has taken it up before it began
            spans.run.span.set_attribute("hookline.run.resumed", whose.resumed)
        spans.agent_id = whose.agent_id
        name = agent_name(spans.agent_id)
        spans.run.span.set_attributes({names.AGENT_ID: spans.agent_id, **name})
        if name:
            spans.run.span.update_name(f"{names.INVOKE_AGENT} {spans.agent_id}")
        if whose.session_id:
            spans.run.span.set_attribute(names.CONVERSATION_ID, whose.session_id)

    def link(self, ctx: ExecutionHookContext) -> AgentState | None:
        """Link a resumed run to the span of the process before, and leave a note for the next."""
        spans = self._runs.get(ctx.state.run_id)
        if spans is None:
            return None
        if not spans.agent_id:
            self._identify(spans, ctx.state)
        earlier = _span_context(ctx.state.metadata.get(_NOTE))
        if ctx.resumed and earlier is not None:
            spans.run.span.add_link(earlier, {"hookline.link": "resumed"})
        own = spans.run.span.get_span_context()
        if not own.is_valid:
            return None
        note = f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
        return ctx.state.with_metadata(_NOTE, note)

    def _submit(self, spans: RunSpans, record: PromptSubmitted) -> None:
        if self._tells(spans.run):
            prompt = said.message_as_json("user", record.text)
            spans.run.span.set_attribute(names.INPUT_MESSAGES, prompt)

    def _finish(self, spans: RunSpans, record: RunFinished) -> None:
        span = spans.run.span
        stop_reason = "" if record.stop_reason is None else str(record.stop_reason)
        span.set_attributes(
            {
                "hookline.run.status": record.status.value,
                "hookline.run.stop_reason": stop_reason,
                "hookline.run.steps": record.steps,
                "hookline.decided_by": record.decided_by,
                **_tokens(record.usage),
            }
        )
        if record.usage.cost is not None:
            span.set_attribute("hookline.usage.cost", record.usage.cost)
        if record.status is RunStatus.FAILED:
            self._set_error(spans.run, record.error, "failed")
        if self._tells(spans.run):
            span.set_attribute(
                names.OUTPUT_MESSAGES, said.message_as_json("assistant", record.text)
            )
            if record.reason:
                span.set_attribute("hookline.reason", said.as_text(record.reason))
        self._instruments.count_run(spans.agent_id, record.status.value, stop_reason)
        self._close(spans, record)

    def _hand_over(self, spans: RunSpans, record: RunHandedOver) -> None:
        spans.run.span.set_attribute("hookline.run.status", "handed_over")
        self._close(spans, record)

    def _close(self, spans: RunSpans, record: Record) -> None:
        """End all that is open of a run."""
        self._end_inference(spans)
        for call in spans.calls.values():
            call.end(record.at)
        if spans.step is not None:
            spans.step.end(record.at)
        attributes: Attributes = {
            names.OPERATION: names.INVOKE_AGENT,
            names.PROVIDER: str(spans.run.attributes.get(names.PROVIDER, names.OTHER)),
            **agent_name(spans.agent_id),
        }
        self._instruments.measure(spans.run.end(record.at), attributes)
        del self._runs[record.run_id]
        _owners.pop(record.run_id, None)

    # --- a step ---------------------------------------------------------------------------------------

    def _step(self, spans: RunSpans, index: int | None, at: float) -> OpenSpan:
        """The span of a step, which begins with the first that is heard of it; of the run, if the step is over."""
        if spans.step is None and index is not None and index > spans.settled_step:
            spans.step = self._open("step", at, {"hookline.step": index}, spans.run.context)
        return spans.innermost

    def _begin_step(self, spans: RunSpans, record: StepStarted) -> None:
        self._step(spans, record.step, record.at)

    def _end_step(self, spans: RunSpans, record: StepFinished | StepPaused) -> None:
        self._end_inference(spans)
        if spans.step is None:
            return
        index = int(spans.step.attributes["hookline.step"])
        if isinstance(record, StepFinished):
            index = record.step.index
            outcome = record.step.outcome
            if outcome is not None and not outcome.should_continue:
                spans.step.span.set_attribute("hookline.run.stop_reason", str(outcome.stop_reason))
                spans.step.span.set_attribute("hookline.decided_by", outcome.resolved_by)
        else:
            spans.step.span.set_attribute("hookline.run.status", RunStatus.PAUSED.value)
        spans.step.end(record.at)
        spans.step, spans.settled_step = None, index

    # --- models ---------------------------------------------------------------------------------------

    async def around_inference(
        self,
        ctx: InferenceHookContext,
        call_next: Callable[[InferenceHookContext], Awaitable[InferenceResponse]],
    ) -> InferenceResponse:
        """One question to a model."""
        spans = self._runs.get(ctx.state.run_id)
        if spans is None:
            return await call_next(ctx)
        self._end_inference(spans)
        at, started = ctx.now, time.perf_counter()
        model = _model(ctx.request.model or ctx.run.model, ctx.run.model)
        if names.PROVIDER not in spans.run.attributes:
            spans.run.attributes[names.PROVIDER] = model[names.PROVIDER]
            spans.run.span.set_attributes(model)
        attributes: Attributes = {names.OPERATION: names.CHAT, **model}
        name = f"{names.CHAT} {model.get(names.REQUEST_MODEL, '')}".rstrip()
        parent = self._step(spans, ctx.step_index, at).context
        span = spans.inference = self._open(name, at, attributes, parent, SpanKind.CLIENT)
        self._describe_request(span, ctx)
        token = current.attach(trace.set_span_in_context(span.span))
        try:
            response = await call_next(ctx)
        except BaseException as error:
            span.attributes[names.ERROR_TYPE] = self._set_error(
                span, ErrorInfo.from_exception(error)
            )
            raise
        else:
            if answered := _model(response.model).get(names.REQUEST_MODEL):
                span.attributes[names.RESPONSE_MODEL] = answered
            self._instruments.count_tokens(response.usage, span.attributes)
            span.span.set_attributes(_tokens(response.usage))
            return response
        finally:
            current.detach(token)
            seconds = time.perf_counter() - started
            span.ended = at + seconds
            span.span.set_attributes(span.attributes)
            self._instruments.measure(seconds, span.attributes)

    def _describe_request(self, span: OpenSpan, ctx: InferenceHookContext) -> None:
        request = ctx.request
        for option in names.OPTIONS:
            value = request.options.get(option)
            if isinstance(value, int | float):
                span.span.set_attribute(f"gen_ai.request.{option}", value)
        if self._tells(span):
            messages = said.messages_as_json(request.messages)
            span.span.set_attribute(names.INPUT_MESSAGES, messages)
            if request.system:
                system = said.as_json([{"type": "text", "content": request.system}])
                span.span.set_attribute(names.SYSTEM_INSTRUCTIONS, system)

    def _respond(self, spans: RunSpans, record: ResponseReceived) -> None:
        """What the hooks have left of an answer. Before that nothing of it is shown."""
        span = spans.inference
        if span is None:
            return
        finish = record.finish or ("tool_call" if record.calls else "stop")
        span.span.set_attribute(names.FINISH_REASONS, [finish])
        if record.discarded:
            span.span.set_attribute("hookline.response.discarded", True)
        elif self._tells(span):
            text = said.message_as_json("assistant", record.text, record.calls, finish)
            span.span.set_attribute(names.OUTPUT_MESSAGES, text)
        self._end_inference(spans)

    def _end_inference(self, spans: RunSpans) -> None:
        if spans.inference is not None:
            spans.inference.end(spans.inference.began)
            spans.inference = None

    def _consult(self, spans: RunSpans, record: ModelConsulted) -> None:
        """A hook has asked a model. When it began is not on record."""
        model = _model(record.response.model)
        attributes: Attributes = {names.OPERATION: names.CHAT, **model}
        self._instruments.count_tokens(record.response.usage, attributes)
        attributes |= {"hookline.hook.name": record.name, **_tokens(record.response.usage)}
        parent = self._step(spans, record.step, record.at).context
        name = f"{names.CHAT} {model.get(names.REQUEST_MODEL, '')}".rstrip()
        self._open(name, record.at, attributes, parent, SpanKind.CLIENT).end(record.at)

    # --- tools ----------------------------------------------------------------------------------------

    def _call(
        self, spans: RunSpans, step: int | None, call_id: str, name: str, at: float
    ) -> OpenSpan:
        span = spans.calls.get(call_id)
        if span is None:
            attributes: Attributes = {
                names.OPERATION: names.EXECUTE_TOOL,
                names.TOOL_NAME: name,
                names.TOOL_CALL_ID: call_id,
                names.TOOL_TYPE: "function",
            }
            parent = self._step(spans, step, at).context
            span = self._open(f"{names.EXECUTE_TOOL} {name}".rstrip(), at, attributes, parent)
            spans.calls[call_id] = span
        return span

    def _admit(self, spans: RunSpans, record: CallAdmitted) -> None:
        span = self._call(spans, record.step, record.call.id, record.call.name, record.at)
        if self._tells(span):
            span.span.set_attribute(names.TOOL_ARGUMENTS, said.as_json(record.call.args))

    async def around_tool_use(
        self,
        ctx: ToolHookContext,
        call_next: Callable[[ToolHookContext], Awaitable[ToolResult]],
    ) -> ToolResult:
        """A call that runs: what happens in it is below its span."""
        spans = self._runs.get(ctx.state.run_id)
        if spans is None:
            return await call_next(ctx)
        at, started = ctx.now, time.perf_counter()
        span = self._call(spans, ctx.state.step_count, ctx.tool_call.id, ctx.tool_call.name, at)
        token = current.attach(trace.set_span_in_context(span.span))
        try:
            return await call_next(ctx)
        finally:
            current.detach(token)
            span.ended = at + time.perf_counter() - started

    def _settle(self, spans: RunSpans, record: CallSettled) -> None:
        """What came of a call. One that did not run has a span without a length."""
        result = record.result
        name = "" if result.is_of_unknown_tool else result.name
        span = self._call(spans, record.step, result.call_id, name, record.at)
        del spans.calls[result.call_id]
        span.span.set_attribute("hookline.tool.status", result.status.value)
        if result.decided_by:
            span.span.set_attribute("hookline.decided_by", result.decided_by)
        attributes: Attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.PROVIDER: str(spans.run.attributes.get(names.PROVIDER, names.OTHER)),
        }
        if result.status in _FAILED:
            kind = self._set_error(span, result.error, result.status.value)
            attributes[names.ERROR_TYPE] = kind
        if result.is_blocked:
            self._instruments.count_blocked(result)
        if self._tells(span):
            span.span.set_attribute(names.TOOL_RESULT, said.as_json(result.result))
            if result.reason:
                span.span.set_attribute("hookline.reason", said.as_text(result.reason))
        has_run = span.ended is not None
        seconds = span.end(record.at)
        if has_run:
            self._instruments.measure(seconds, attributes)

    def _ask(self, spans: RunSpans, record: ApprovalAsked) -> None:
        if record.approval is not None:
            self._step(spans, record.step, record.at).span.add_event(
                "hookline.approval_asked",
                {names.TOOL_NAME: record.approval.tool_call.name},
                _nanoseconds(record.at),
            )

    # --- hooks and errors -----------------------------------------------------------------------------

    def _show_hooks(self, spans: RunSpans, record: HooksPassed) -> None:
        for each in record.each():
            self._show_hook(spans, each)

    def _show_hook(self, spans: RunSpans, record: HookRan) -> None:
        if record.hook == self._name:
            return
        began = record.at - record.duration
        parent = spans.calls.get(record.call_id) or self._step(spans, record.step, began)
        attributes: Attributes = {
            "hookline.hook.name": record.hook,
            "hookline.hook.point": record.point,
            "hookline.hook.tier": record.tier,
            "hookline.hook.verdict": record.verdict,
            "hookline.hook.shadow": record.shadow,
            "hookline.hook.changed": record.changes is not None,
        }
        if record.call_id:
            attributes[names.TOOL_CALL_ID] = record.call_id
        span = self._open(f"hook {record.hook}", began, attributes, parent.context)
        if record.reason and self._tells(span):
            span.span.set_attribute("hookline.reason", said.as_text(record.reason))
        if record.error is not None:
            self._set_error(span, record.error)
        span.end(record.at)

    def _fail(self, spans: RunSpans, record: ErrorRaised) -> None:
        """What failed, and what the error policy decided."""
        span = spans.calls.get(record.call_id) or self._step(spans, record.step, record.at)
        error = record.error or ErrorInfo("", "")
        attributes = {names.ERROR_TYPE: error.type, "hookline.error.action": record.action}
        if self._tells(span):
            attributes["hookline.reason"] = said.as_text(error.message)
        span.span.add_event("hookline.error", attributes, _nanoseconds(record.at))

    def _tells(self, span: OpenSpan) -> bool:
        """Whether content is wanted, and somebody will see it."""
        return self._content and span.span.is_recording()

    def _set_error(self, span: OpenSpan, error: ErrorInfo | None, otherwise: str = "") -> str:
        """Mark a span as failed. The words of an error may have content in them."""
        kind = error.type if error is not None else otherwise
        words = said.as_text(error.message) if error is not None and self._tells(span) else None
        span.span.set_attribute(names.ERROR_TYPE, kind)
        span.span.set_status(Status(StatusCode.ERROR, words))
        return kind

    def _open(
        self,
        name: str,
        at: float,
        attributes: Attributes,
        parent: current.Context,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> OpenSpan:
        span = self._tracer.start_span(
            name, parent, kind, attributes, start_time=_nanoseconds(at), record_exception=False
        )
        return OpenSpan(span, at, attributes)


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)


def _tokens(usage: Usage) -> Attributes:
    counted = {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
    }
    return {name: count for name, count in counted.items() if count}


def _model(name: str, usual: str = "") -> dict[str, str]:
    """The provider and the model of `provider:model`, or of a model of the usual provider."""
    provider, _, model = name.partition(":")
    if provider not in provider_names():
        provider, model = usual.partition(":")[0], name
    provider = names.PROVIDERS.get(provider, provider or names.OTHER)
    return {names.PROVIDER: provider, **({names.REQUEST_MODEL: model} if model else {})}


def _span_context(note: object) -> SpanContext | None:
    """The span that a note names."""
    try:
        _, trace_id, span_id, flags = str(note).split("-")
        found = SpanContext(
            int(trace_id, 16),
            int(span_id, 16),
            is_remote=True,
            trace_flags=TraceFlags(int(flags, 16)),
        )
    except ValueError:
        return None
    return found if found.is_valid else None
