"""`hookline init`: a project with one hook, one test and one agent."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from hookline.cli.exits import Exit
from hookline.config import fingerprints, read_layer, trust_file
from hookline.errors import UsageError

_CONFIG = """\
# Settings of the agent in this directory. `hookline config show` says where each value comes from.
# All settings: docs/configuration.md

system_prompt = "You help with the files in this directory. Look before you change something."

[capabilities.files]

[approvals]
deny = ["read(.env)", "edit(.env)", "write(.env)"]

[[hooks]]
on = "before_tool_use"
run = "hooks:no_deleting"
match = "bash"
tier = "policy"
"""
_HOOKS = '''\
"""Hooks of this project."""

from hookline import HookOutcome, ToolHookContext


def no_deleting(ctx: ToolHookContext) -> HookOutcome | None:
    """Nothing is deleted by an agent here."""
    words = str(ctx.tool_call.args.get("command", "")).split()
    if "rm" in words:
        return HookOutcome.block("nothing is deleted here: move it to old/ instead")
    return None
'''
_AGENT = '''\
"""An agent in Python: hookline run agent:build "What is in notes.txt?" """

from hooks import no_deleting

from hookline import AgentBuilder
from hookline.capabilities import Files


def build() -> AgentBuilder:
    """The agent. `hookline run agent:build --model ...` gives it another model."""
    return (
        AgentBuilder()
        .with_model("local:")
        .with_capability(Files("."))
        .on_before_tool_use(no_deleting, tier="policy")  # whichever tool runs commands
    )
'''
_TEST = '''\
"""What the hook does: pytest, or python test_hooks.py"""

from hooks import no_deleting

from hookline import AgentBuilder
from hookline.testing import ScriptedDriver, call, say


def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def test_nothing_is_deleted() -> None:
    """A command that deletes does not run, and the model reads why."""
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call("bash", command="rm notes.txt"), say("Moved it.")]))
        .with_tools(bash)
        .on_before_tool_use(no_deleting, matcher="bash", tier="policy")
        .build()
    )
    result = agent.run_sync("Delete the notes.")
    assert "nothing is deleted here" in result.steps[0].results[0].text


if __name__ == "__main__":
    test_nothing_is_deleted()
    print("ok")
'''
_NOTES = "The first agent was run here.\n"
FILES = {
    "hookline.toml": _CONFIG,
    "hooks.py": _HOOKS,
    "agent.py": _AGENT,
    "test_hooks.py": _TEST,
    "notes.txt": _NOTES,
}


def run(arguments: argparse.Namespace) -> int:
    """Write the project."""
    folder = Path(arguments.folder).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the directory {folder} cannot be made: {error.strerror}.", remedy="Name another one."
        ) from None
    there = [name for name in FILES if (folder / name).exists() or (folder / name).is_symlink()]
    if "hookline.toml" in there:
        raise UsageError(
            f"{folder} has a hookline.toml already.",
            remedy="See what it sets: hookline config show.",
        )
    if there:  # somebody else may have written them, and the directory is trusted below
        raise UsageError(
            f"{folder} has {', '.join(there)} already.", remedy="Begin in another directory."
        )
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
        print(folder / name)
    layer = read_layer(folder / "hookline.toml", is_project=True)
    trust_file(os.environ).approve(folder, fingerprints(folder, [layer]))
    inside = "" if folder == Path.cwd() else f"cd {shlex.quote(arguments.folder)} && "
    print(
        f"The directory is trusted as written. Now:\n"
        f'  {inside}hookline run "What is in notes.txt?"\n'
        f"  {inside}hookline hooks test bash 'rm notes.txt'\n"
        f"  {inside}python test_hooks.py\n"
        f'  {inside}hookline run agent:build "What is in notes.txt?"',
        file=sys.stderr,
    )
    return Exit.DONE
