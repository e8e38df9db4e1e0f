"""A small model goes round in circles when nothing keeps it from repeating itself."""

from __future__ import annotations

from hookline.providers.local.asking import Asking
from hookline.state import InferenceRequest, ToolSpec, UserMessage

TOOL = ToolSpec("add", "Add.", {"type": "object", "properties": {}})


def penalty(request: InferenceRequest) -> float:
    """What repeating costs in this request."""
    return Asking(request).completion.repeat_penalty


def test_only_free_text_is_kept_from_repeating_itself() -> None:
    """JSON repeats itself for good reasons."""
    plain = InferenceRequest((UserMessage("Say hello."),))
    assert penalty(plain) > 1
    assert penalty(plain.with_tools((TOOL,))) == 1
    assert penalty(plain.with_output_schema({"type": "string"})) == 1
