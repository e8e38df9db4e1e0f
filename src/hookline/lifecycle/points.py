"""Every hook point on one page: where hooks act, what they may change there (`changes=`), what a block means.

session_start                      once per session
execution_start
prompt_submit                      the user's text, before it enters the conversation
( around_step: all of one step )
  before_step
    before_inference -> ( around_inference: the driver ) -> after_inference
    for each tool call, in call order:   before_tool_use -> permission_request, if a hook asked
    all admitted calls, concurrently:    ( around_tool_use: the tool )
    for each tool call, in call order:   after_tool_use
  after_step
  should_continue                  hooks vote on another step
  stop                             only if the run is about to stop: a hook may object
output                             the final answer, before the caller gets it
execution_end                      always, however the run ends
error                              an exception: in a step the error policy decides, elsewhere the run fails
agent_failed                       when the run has failed
subagent_start, subagent_stop      around a child run, seen by the parent
before_compact                     before history is summarised
session_end
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from hookline.errors import RegistrationError, UsageError
from hookline.hooks import HookOutcome, Kind, Point, normalize_name
from hookline.hooks.point_type import C
from hookline.lifecycle.contexts import (
    AfterStepHookContext,
    AfterToolHookContext,
    AgentContext,
    CompactHookContext,
    ExecutionHookContext,
    FailureHookContext,
    InferenceHookContext,
    OutputHookContext,
    PromptHookContext,
    SessionHookContext,
    StepHookContext,
    StopHookContext,
    SubagentHookContext,
    ToolHookContext,
)
from hookline.state import (
    AgentState,
    Answer,
    ContinuationEvaluation,
    Decision,
    InferenceRequest,
    InferenceResponse,
    ToolCall,
    ToolResult,
)


def _evaluation(
    ctx: AgentContext, evaluation: ContinuationEvaluation, hook: str = ""
) -> AgentContext:
    if not evaluation.source:
        evaluation = msgspec.structs.replace(evaluation, source=hook)
    if problem := evaluation.problem():
        raise UsageError(
            f"something is wrong with its evaluation: {problem}.",
            remedy="Answer with ctx.forbid(...), ctx.request_continue(...) and so on.",
        )
    return msgspec.structs.replace(ctx, evaluations=(*ctx.evaluations, evaluation))


def _decision(_ctx: ToolHookContext, decision: Decision) -> HookOutcome:
    if decision.answer is Answer.DENY:
        return HookOutcome(Kind.BLOCK, decision.reason or "denied", answer=decision)
    return HookOutcome(Kind.ALLOW, decision.reason, answer=decision)


_NO_VERDICTS = frozenset[str]()
"""The verdicts that a hook may give when the run is over: none."""
_TOO_LATE: dict[str, Any] = {"appends": False, "without_effect": frozenset({"evaluations"})}
"""The run has ended, or is about to: what a hook says about continuing changes nothing."""


def _point(
    name: str,
    context: type[C],
    changes: tuple[str, ...] = (),
    answers: tuple[tuple[type, Callable[[Any, Any], Any]], ...] = (),
    *,
    appends: bool = True,
    **rules: Any,
) -> Point[C]:
    """A point where hooks may change the state and say whether to continue, beside these fields and answers."""
    return Point(
        name,
        context,
        changes=frozenset({"state", "evaluations", *changes}),
        answers=(
            *answers,
            (AgentState, AgentContext.with_state),
            (ContinuationEvaluation, _evaluation),
        ),
        append=(ContinuationEvaluation, _evaluation) if appends else None,
        **rules,
    )


class _Points(type):
    """Makes HookPoint iterable, like the enum people expect."""

    def __iter__(cls) -> Iterator[Point[Any]]:
        return iter(_ALL)

    def __len__(cls) -> int:
        return len(_ALL)

    def __getitem__(cls, name: str) -> Point[Any]:
        for point in _ALL:
            if point.name == name:
                return point
        raise KeyError(f"there is no HookPoint.{name}; HookPoint({name!r}) takes other spellings")


class HookPoint(metaclass=_Points):
    """Every hook point. `HookPoint("PreToolUse")` finds one by any spelling, `HookPoint["STOP"]` by its name."""

    def __new__(cls, name: str) -> Point[Any]:  # type: ignore[misc]
        """The point with this name, in any of its spellings."""
        return point_named(name)

    SESSION_START = _point("session_start", SessionHookContext, lenient=True)
    EXECUTION_START = _point(
        "execution_start",
        ExecutionHookContext,
        aliases=("agent_start",),
        blocks="the run is refused",
    )
    PROMPT_SUBMIT = _point(
        "prompt_submit",
        PromptHookContext,
        aliases=("user_prompt_submit", "input_submitted"),
        changes=("prompt", "attachments"),
        answers=((str, PromptHookContext.with_prompt),),
        blocks="the prompt is refused and the run ends stopped",
        failure_blocks=True,
    )
    AROUND_STEP = Point(
        "around_step",
        StepHookContext,
        changes=frozenset({"state"}),
        around=True,
        gives_context=True,
    )
    BEFORE_STEP = _point(
        "before_step",
        StepHookContext,
        aliases=("step_start",),
        blocks="the step is not made and the run ends stopped",
    )
    BEFORE_INFERENCE = _point(
        "before_inference",
        InferenceHookContext,
        aliases=("pre_inference",),
        changes=("request", "response"),
        answers=(
            (InferenceRequest, InferenceHookContext.with_request),
            (InferenceResponse, InferenceHookContext.with_response),
        ),
        blocks="the model is not called and reads the reason in the next step",
    )
    AROUND_INFERENCE = Point(
        "around_inference", InferenceHookContext, changes=frozenset({"request"}), around=True
    )
    AFTER_INFERENCE = _point(
        "after_inference",
        InferenceHookContext,
        aliases=("post_inference",),
        changes=("response",),
        answers=((InferenceResponse, InferenceHookContext.with_response),),
        blocks="the response is discarded and the model reads the reason in the next step",
        judged_after_stop=True,
    )
    BEFORE_TOOL_USE = _point(
        "before_tool_use",
        ToolHookContext,
        aliases=("pre_tool_use", "before_tool_call", "before_tool"),
        changes=("tool_call", "execution"),
        answers=(
            (ToolCall, ToolHookContext.with_tool_call),
            (ToolResult, ToolHookContext.with_execution),
        ),
        blocks="the call is not run and the model reads the reason",
        failure_blocks=True,
        verdicts=("block", "stop", "ask", "allow"),
        is_tool_event=True,
    )
    PERMISSION_REQUEST = _point(
        "permission_request",
        ToolHookContext,
        answers=((Decision, _decision),),
        blocks="the call is denied",
        failure_blocks=True,
        is_tool_event=True,
    )
    AROUND_TOOL_USE = Point(
        "around_tool_use",
        ToolHookContext,
        changes=("tool_call",),
        around=True,
        is_tool_event=True,
    )
    AFTER_TOOL_USE = _point(
        "after_tool_use",
        AfterToolHookContext,
        aliases=("post_tool_use", "after_tool_call", "after_tool"),
        changes=("execution",),
        answers=((ToolResult, ToolHookContext.with_execution),),
        blocks="the result is withheld and the model reads the reason",
        failure_blocks=True,
        judged_after_stop=True,
        is_tool_event=True,
    )
    AFTER_STEP = _point(
        "after_step",
        AfterStepHookContext,
        aliases=("step_end",),
        appends=False,
        unskippable=True,
        lenient=True,
    )
    SHOULD_CONTINUE = _point("should_continue", StopHookContext)
    STOP = _point("stop", StopHookContext, blocks="the run continues, with the reason shown")
    OUTPUT = _point(
        "output",
        OutputHookContext,
        changes=("output",),
        answers=((str, OutputHookContext.with_output),),
        blocks="the answer is withheld and the run ends stopped",
        failure_blocks=True,
        **_TOO_LATE,
    )
    EXECUTION_END = _point(
        "execution_end",
        ExecutionHookContext,
        aliases=("agent_end", "agent_finished"),
        verdicts=_NO_VERDICTS,
        unskippable=True,
        lenient=True,
        **_TOO_LATE,
    )
    ERROR = _point(
        "error",
        FailureHookContext,
        aliases=("on_error", "tool_error"),
        changes=("decision", "execution", "response"),
        unskippable=True,
    )
    AGENT_FAILED = _point(
        "agent_failed",
        FailureHookContext,
        aliases=("failure", "execution_failed"),
        verdicts=_NO_VERDICTS,
        unskippable=True,
        lenient=True,
        **_TOO_LATE,
    )
    SUBAGENT_START = Point(
        "subagent_start",
        SubagentHookContext,
        changes=frozenset({"prompt", "evaluations"}),
        answers=((str, SubagentHookContext.with_prompt), (ContinuationEvaluation, _evaluation)),
        blocks="the child is not started and the parent's model reads the reason",
        failure_blocks=True,
    )
    SUBAGENT_STOP = Point(
        "subagent_stop",
        SubagentHookContext,
        changes=frozenset({"result", "evaluations"}),
        answers=((ContinuationEvaluation, _evaluation),),
        blocks="the child continues, with the reason shown",
    )
    BEFORE_COMPACT = _point(
        "before_compact",
        CompactHookContext,
        aliases=("pre_compact",),
        changes=("instructions",),
        answers=((str, CompactHookContext.with_instructions),),
        blocks="compaction is skipped",
        failure_blocks=True,
    )
    SESSION_END = _point(
        "session_end",
        SessionHookContext,
        verdicts=_NO_VERDICTS,
        unskippable=True,
        lenient=True,
        **_TOO_LATE,
    )


_ALL: tuple[Point[Any], ...] = tuple(
    point for point in vars(HookPoint).values() if isinstance(point, Point)
)
_BY_SPELLING = {spelling: point for point in _ALL for spelling in point.spellings}


def point_named(name: str | Point[Any], who: str = "") -> Point[Any]:
    """The point with this name, in any spelling: `before_tool_use`, `PreToolUse`, `onBeforeToolUse`.

    `who` asks for it, and begins the message when there is no such point.
    """
    if isinstance(name, Point):
        return name
    if isinstance(name, str):
        key = normalize_name(name)
        found = _BY_SPELLING.get(key) or _BY_SPELLING.get(key.removeprefix("on"))
        if found is not None:
            return found
    close = difflib.get_close_matches(
        str(name).lower(), [point.value for point in _ALL], n=1, cutoff=0.5
    )
    raise RegistrationError(
        f"{who}{': ' * bool(who)}{name!r} is not a hook point.",
        remedy=f"Did you mean '{close[0]}'?"
        if close
        else f"Points: {', '.join(point.value for point in _ALL)}. Of your own, pass the Point itself.",
    )
