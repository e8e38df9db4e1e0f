"""`hookline init`: a project with one hook, one test and one agent."""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import sys
from pathlib import Path
from string import Template

from hookline.cli.exits import Exit
from hookline.cli.terminal import print_text
from hookline.config.layers import read_layer
from hookline.config.locations import project_files
from hookline.config.trust import fingerprints, read_texts, trust_file
from hookline.errors import UsageError

_CONFIG = """\
# Settings of the agent in this directory. `hookline config show` says where each value comes from.
# All settings: `hookline config schema`

system_prompt = "You help with the files in this directory. Look before you change something."

# Environment files (.env) need no rule: a person is asked before `read` or a command such as `cat .env` sees one, and
# other commands in the sandbox find it empty.
[capabilities.files]

[[hooks]]
on = "before_tool_use"
run = "$hooks:no_rm"
match = "bash|exec"
tier = "policy"
"""
_HOOKS = '''\
"""Hooks of this project."""

from hookline import HookOutcome, ToolHookContext
from hookline.permissions import Rule

RM = Rule.parse("bash(rm *)")  # in a rule, `bash` means the tools bash and exec


def no_rm(ctx: ToolHookContext) -> HookOutcome | None:
    """Block the program `rm`, by any path and also behind `sudo` or `sh -c`, in the tools bash and exec.

    It does not catch other ways to delete: `find -delete`, `git clean`, `mv`, a script or another program that deletes,
    and the tools that write files.
    """
    if RM.touches(ctx.tool_call):
        return HookOutcome.block("rm is not run here: move it to old/ instead")
    return None
'''
_AGENT = '''\
"""An agent in Python: hookline run $agent:build "What is in $notes.txt?" """

from $hooks import no_rm

from hookline import AgentBuilder
from hookline.capabilities import Files


def build() -> AgentBuilder:
    """The agent. `hookline run $agent:build --model ...` gives it another model."""
    return (
        AgentBuilder()
        .with_model("local:")
        .with_capability(Files("."))
        .on_before_tool_use(no_rm, tier="policy")  # whichever tool runs commands
    )
'''
_TEST = '''\
"""What the hook catches, and what it does not: pytest, or python $test.py"""

from $hooks import no_rm

from hookline import AgentBuilder, tool
from hookline.testing import ScriptedDriver, call, say


def bash(command: str) -> str:
    """Run a command line."""
    return f"ran {command}"


@tool(name="exec")
def run_program(argv: list[str]) -> str:
    """Run a program with its arguments."""
    return f"ran {' '.join(argv)}"


def result_of(name: str, **args: object) -> str:
    """What the model reads after it calls a tool."""
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([call(name, **args), say("Done.")]))
        .with_tools(bash, run_program)
        .on_before_tool_use(no_rm, matcher="/^(bash|exec)$$/", tier="policy")
        .build()
    )
    return agent.run_sync("Tidy up.").steps[0].results[0].text


def test_rm_is_blocked() -> None:
    """By any path, behind other commands, and in both tools."""
    for command in ("rm $notes.txt", "/bin/rm $notes.txt", "ls; sudo rm -r old", "sh -c 'rm $notes.txt'"):
        assert "rm is not run here" in result_of("bash", command=command)
    assert "rm is not run here" in result_of("exec", argv=["/bin/rm", "$notes.txt"])


def test_other_ways_to_delete_are_not_caught() -> None:
    """The hook is about one program. The sandbox and the approvals are about the rest."""
    assert result_of("bash", command="find . -delete") == "ran find . -delete"
    assert result_of("exec", argv=["git", "clean", "-f"]) == "ran git clean -f"


if __name__ == "__main__":
    test_rm_is_blocked()
    test_other_ways_to_delete_are_not_caught()
    print("ok")
'''
_NOTES = "The first agent was run here.\n"
_FILES = {
    "hooks": ("hooks", ".py", _HOOKS),
    "agent": ("agent", ".py", _AGENT),
    "test": ("test_hooks", ".py", _TEST),
    "notes": ("notes", ".txt", _NOTES),
}
"""Each file beside the configuration: its usual name, its ending and its text, in which `$hooks` is that name."""
_MODULE_FOLDERS = ("", "src", ".hookline")
"""Where Python looks for the modules of a project."""


def run(arguments: argparse.Namespace) -> int:
    """Write the project."""
    folder = Path(arguments.folder).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the directory {folder} cannot be made: {error.strerror}.", remedy="Name another one."
        ) from None
    _refuse_configured(folder)
    names = {part: _free_name(folder, *each[:2]) for part, each in _FILES.items()}
    texts = {"hookline.toml": _CONFIG}
    texts |= {f"{names[part]}{ending}": text for part, (_, ending, text) in _FILES.items()}
    files = {name: Template(text).substitute(names) for name, text in texts.items()}
    for name, text in files.items():
        # Never over a file that somebody has made since.
        with (folder / name).open("x", encoding="utf-8") as file:
            file.write(text)
        print(folder / name)
    inside = "" if folder == Path.cwd() else f"cd {shlex.quote(arguments.folder)} && "
    notes = f"{names['notes']}.txt"
    print_text(
        f"{_trust(folder, files)} Now:\n"
        f'  {inside}hookline run "What is in {notes}?"\n'
        f"  {inside}hookline hooks test bash 'rm {notes}'\n"
        f"  {inside}python {names['test']}.py\n"
        f'  {inside}hookline run {names["agent"]}:build "What is in {notes}?"',
        sys.stderr,
    )
    return Exit.DONE


def _refuse_configured(folder: Path) -> None:
    for path in project_files(folder):
        raise UsageError(
            f"{folder} has a {path.relative_to(folder)} already.",
            remedy="See what it sets: hookline config show.",
        )
    if os.path.lexists(folder / "hookline.toml"):
        raise UsageError(f"{folder} has a hookline.toml already.", remedy="Begin elsewhere.")


def _free_name(folder: Path, usual: str, ending: str) -> str:
    """A name that nothing in the directory has. What is there is left alone, and not trusted."""
    is_test = usual.startswith("test_")
    own = usual.replace("test_", "test_hookline_") if is_test else f"hookline_{usual}"
    places = [folder / each for each in _MODULE_FOLDERS] if ending == ".py" else [folder]

    def is_free(name: str) -> bool:
        paths = (place / each for place in places for each in (name, f"{name}{ending}"))
        return not any(map(os.path.lexists, paths))

    numbered = (f"{own}_{number}" for number in itertools.count(2))
    return next(filter(is_free, itertools.chain((usual, own), numbered)))


def _trust(folder: Path, files: dict[str, str]) -> str:
    """Trust what was written, if that is all that the configuration runs. Returns what to say about it."""
    layer = read_layer(folder / "hookline.toml", is_project=True)
    prints = fingerprints(folder, [layer])
    others = sorted(prints.keys() - files.keys())
    if others:
        shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        return (
            f"The directory is not trusted: the hook also loads {shown}, which was here before. "
            "Read it, then: hookline trust."
        )
    texts = read_texts(folder, (folder / name for name in prints))
    trust_file(os.environ).approve(folder, prints, texts)
    return "The directory is trusted as written."
