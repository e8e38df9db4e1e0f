"""Notes that capabilities keep in the metadata of a run's state."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from hookline.state import AgentState, ToolCall

T = TypeVar("T")


def read_note(state: AgentState, key: str, kind: type[T]) -> T:
    """The note under a key; an empty one if there is none, or something else is kept there."""
    kept = state.metadata.get(key)
    try:
        return kind() if kept is None else msgspec.convert(kept, kind)
    except msgspec.ValidationError:
        return kind()


def is_note_overwrite(call: ToolCall) -> bool:
    """Whether a call would overwrite a note of ours: those under `hookline.` are not for a model to write."""
    return call.name == "write_metadata" and str(call.args.get("key", "")).startswith("hookline.")
