"""Arbitrary files and answers of hooks: mistakes are reported, and nothing breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookline import HookPoint, ToolHookContext
from hookline.command_hooks import CommandHooks, Handler, HookSource, RunFacts
from hookline.command_hooks.batch import AnswerEffect
from hookline.command_hooks.dialect import all_dialects
from hookline.command_hooks.handler import JsonObject, ProgramAnswer, ProgramResult
from hookline.hooks import HookOutcome
from hookline.lifecycle import (
    InferenceHookContext,
    PromptHookContext,
    SessionHookContext,
    StepHookContext,
    StopHookContext,
)
from hookline.state import AgentState, InferenceResponse, ToolCall, ToolResult

WORDS = st.sampled_from(
    """
    continue stopReason decision reason hookSpecificOutput hookEventName permissionDecision updatedInput
    additionalContext systemMessage behavior permission user_message updated_input env modifiedArgs modifiedResult
    followup_message tool_input llm_request llm_response toolConfig allowedFunctionNames mode candidates content parts
    text model config
    deny allow ask block NONE ANY command file_path hooks matcher type timeout PreToolUse BeforeTool preToolUse async if
    args url bash exec version name sequential disabled enabled failClosed loop_limit Stop stop
    """.split()
)
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | WORDS
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=20,
)
PLAIN = st.dictionaries(WORDS, ANY_JSON, max_size=6)
PARTS = st.sampled_from(
    [
        "decision",
        "updatedInput",
        "permissionDecision",
        "additionalContext",
        "tool_input",
        "llm_response",
        "toolConfig",
    ]
)
SPECIFIC = st.dictionaries(PARTS, ANY_JSON | PLAIN, max_size=4)
OBJECTS = PLAIN | st.builds(
    lambda top, inner: {**top, "hookSpecificOutput": inner}, PLAIN, SPECIFIC | ANY_JSON
)
STATE = AgentState(run_id="r", session_id="s")
CALL = ToolCall("1", "bash", {"command": "ls"})
PLACE = RunFacts("/p", "/p", "s")


def context(point: str) -> Any:
    """A context of a point, as far as hooks look at it; None for points that need a run."""
    at = HookPoint(point)
    if at.context is ToolHookContext:
        return ToolHookContext(
            point=at, state=STATE, tool_call=CALL, execution=ToolResult("ok", name="bash")
        )
    if at.context is InferenceHookContext:
        return InferenceHookContext(point=at, state=STATE, response=InferenceResponse("text"))
    if at.context in (PromptHookContext, SessionHookContext, StopHookContext, StepHookContext):
        return at.context(point=at, state=STATE)
    return None


@pytest.mark.parametrize("name", list(all_dialects()))
@given(found=OBJECTS, code=st.sampled_from([0, 1, 2, 3]), data=st.data())
def test_any_answer_is_understood(name: str, found: dict[str, Any], code: int, data: Any) -> None:
    """It decides something, or nothing, or is a failure; and what it decides can be done."""
    dialect = all_dialects()[name]
    event = data.draw(st.sampled_from(sorted(dialect.events)))
    handler = Handler(HookSource(name), event)
    ran = ProgramResult(code, json.dumps(found), "words", answer=JsonObject(found))
    answer = dialect.read_answer(handler, ran)
    assert isinstance(answer, ProgramAnswer)
    assert answer.decision in ("", "allow", "ask", "defer", "deny")
    ctx = context(dialect.events[event].point)
    if ctx is not None and not answer.has_failed:
        outcome = AnswerEffect(handler, ctx, answer, PLACE).outcome()
        assert outcome is None or isinstance(outcome, HookOutcome)
        if code == 2 and dialect.events[event].point == "before_tool_use" and name != "gemini":
            assert outcome is not None
            assert outcome.is_blocked or outcome.is_stopped


FILES = [
    ".claude/settings.json", ".gemini/settings.json", ".codex/hooks.json", ".cursor/hooks.json", ".github/hooks/h.json",
]  # fmt: skip


@pytest.mark.parametrize("file", FILES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hooks=ANY_JSON, top=OBJECTS)
def test_any_file_is_read(tmp_path: Path, file: str, hooks: Any, top: dict[str, Any]) -> None:
    """Nonsense is reported; an agent can be built with the rest."""
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    events = ("PreToolUse", "BeforeTool", "preToolUse", "Stop", "stop")
    for content in ({**top, "hooks": hooks}, {"hooks": dict.fromkeys(events, hooks)},
                    {"hooks": {event: [{"hooks": hooks, **top}] for event in events}}):  # fmt: skip
        path.write_text(json.dumps(content))
        found = CommandHooks.discover(
            tmp_path, home=tmp_path / "home", managed=False, trust=True, transcripts=tmp_path / "t"
        )
        assert list(found.hooks()) or not found.handlers
