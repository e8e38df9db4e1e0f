"""What the cases have in common: what is said, called and attached in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hookline.agent import AgentBuilder, RunResult
from hookline.flow import ErrorPolicy
from hookline.lifecycle import InferenceHookContext
from hookline.state import Attachment, ResultStatus, Step, ToolSpec
from hookline.testing.provider_stage import Stage
from hookline.testing.wire import WireCall

ANSWER = "Here it is, and this is all there is to it."
CALL = WireCall("look_up", {"key": "otters", "times": 1})
OTHER = WireCall("look_up", {"key": "badgers", "times": 2})
THIRD = WireCall("look_up", {"key": "hedgehogs", "times": 1})
PICTURE = Attachment.from_bytes(b"\x89PNG\r\n\x1a\n-only-a-test-", "image/png", "picture.png")
PAPER = Attachment.from_bytes(b"%PDF-1.4 only a test", "application/pdf", "paper.pdf")
SPEC = ToolSpec("look_up", "Look something up.", {"type": "object", "properties": {}})
SCHEMA = {
    "type": "object",
    "properties": {"zebras": {"type": "integer"}},
    "required": ["zebras"],
    "additionalProperties": False,
}


def asks(**changes: Any) -> Callable[[AgentBuilder], object]:
    """Configures an agent so that its requests ask for something more."""

    def change(ctx: InferenceHookContext) -> InferenceHookContext:
        return ctx.with_request(msgspec.structs.replace(ctx.request, **changes))

    return lambda builder: builder.on_before_inference(change)


def retries(builder: AgentBuilder) -> object:
    """Configures an agent that tries again, as agents do by default."""
    return builder.with_error_policy(ErrorPolicy())


def calls_of(step: Step) -> list[tuple[str, dict[str, Any]]]:
    """What was called in a step."""
    return [(call.name, call.args) for call in step.calls]


def expect_told(stage: Stage, result: RunResult, status: ResultStatus, why: str) -> None:
    """The first call came to this, the model read why, and it answered all the same."""
    came_to = [one.status for one in result.steps[0].results]
    stage.expect("what came of the call", [status], came_to)
    stage.expect_in("the reason in the second request", why, stage.sent(1))
    stage.expect("the answer", ANSWER, result.text)
