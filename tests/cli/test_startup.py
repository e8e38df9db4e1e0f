"""What the command does not load before it is needed: that is most of what a start costs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

_SLOW = (
    "anthropic",
    "google.genai",
    "hookline.command_hooks",
    "hookline.containment.shell",
    "hookline.mcp",
    "httpx",
    "jsonschema",
    "mcp",
    "openai",
    "pydantic",
    "tree_sitter",
    "xllamacpp",
    "yaml",
)
_LOADED = """
import json, sys
from hookline.cli import main
main(sys.argv[2:])
print(json.dumps([name for name in json.loads(sys.argv[1]) if name in sys.modules]))
"""


@pytest.mark.parametrize("config", ["", '[approvals]\ndeny = ["read(.env)"]\n'])
def test_a_first_step_loads_nothing_slow(config: str, place: Any) -> None:
    """With files and a shell, and with a configuration."""
    if config:
        place.write("hookline.toml", config)
    model = place.script({"say": "Hi."})
    arguments = ["run", "--quiet", "--model", model, "x"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LOADED, json.dumps(_SLOW), *arguments],
        cwd=place.project,
        env={**place.env, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    assert done.stdout.splitlines() == ["Hi.", "[]"]


def test_the_version_loads_nearly_nothing(place: Any) -> None:
    """Neither the agent nor what reads configuration."""
    heavy = ("asyncio", "msgspec", "hookline.agent", "hookline.config", "hookline.state")
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LOADED, json.dumps(heavy), "--version"],
        env={**place.env, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[1] == "[]"
