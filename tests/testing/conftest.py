"""What the tests of the fakes share: cassettes on the one hand, hooks to check on the other."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hookline.testing import Report, call, check_hook, say

KEYS = "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN GEMINI_API_KEY GOOGLE_API_KEY OPENAI_API_KEY".split()


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key is in the environment."""
    for variable in KEYS:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the cassette will be."""
    return tmp_path / "cassettes" / "test.json"


@pytest.fixture
def check() -> Callable[..., Awaitable[Report]]:
    """Checks a hook in a conversation that adds three times."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    script = [call("add", a=1, b=2), call("add", a=11, b=2), call("add", a=3, b=3), say("done")]

    async def check(point: str, hook: Any = None, **more: Any) -> Report:
        return await check_hook(point, hook, **{"script": script, "tools": [add], **more})

    return check
