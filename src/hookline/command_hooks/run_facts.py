"""What hooks are sent about a run, apart from the event itself."""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import Any

import msgspec

from hookline.state import AgentState

HOOK_AGENT = "hook-agent"
"""The agent that answers for a hook. Hooks that ask a model are not asked about it: that would never end."""
TITLE = "hookline.title"
"""The metadata key of the title that a hook gave the session."""
_NAMESPACE = uuid.UUID("8f6d3c1e-2b7a-4f55-9d0e-6c1a5b0e7a42")


class RunFacts(msgspec.Struct, frozen=True):
    """Where a run happens, and how far it is."""

    project: str
    cwd: str
    session_id: str
    transcript: str = ""
    permission_mode: str = "default"
    model: str = ""
    env_file: str = ""
    child_transcript: str = ""
    objections: int = 0
    """How often hooks have kept the run, or the child in question, from stopping."""
    objections_in_a_row: int = 0
    """How many of these since a tool was last called."""

    @property
    def session_uuid(self) -> str:
        """The session as a UUID. Scripts tell sessions apart by its first letters, which in ours are the time."""
        return as_uuid(self.session_id)


def as_uuid(name: str) -> str:
    """A name as a UUID: always the same, and the name itself if it is one."""
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(name))
    return str(uuid.uuid5(_NAMESPACE, name))


def session_of(state: AgentState) -> str:
    """The session of a run; a run without one is a session of its own."""
    return state.session_id or state.run_id


def json_line(value: Any) -> bytes:
    """Compact JSON on one line. Scripts look for `"role":"assistant"` without a blank."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode(errors="replace") + b"\n"
