"""Variables that hooks set at the start of a session: for the agent's commands, and for later hooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookline.capabilities import Bash
from hookline.command_hooks.environment import variables_in
from hookline.state import Decision
from hookline.testing import call, say

SETS = 'echo \'export GREETING="hello you"\' >> "$CLAUDE_ENV_FILE"'


def entry(command: str) -> list[dict[str, Any]]:
    """One hook of an event."""
    return [{"hooks": [{"type": "command", "command": command}]}]


def printed(stage: Any, hooks: Any, command: str) -> str:
    """What a command of the agent prints, in a real shell."""
    stage.tools = ()
    bash = Bash(stage.root, sandbox="host")
    result = stage.run(
        hooks,
        call("bash", command=command),
        say("done"),
        with_capability=bash,
        with_approver=lambda _pending: Decision.allow(),
    )
    return str(result.state.messages[-2].text)


@pytest.mark.parametrize("home", [True, False])
def test_they_reach_the_commands_of_the_agent(stage: Any, home: bool) -> None:
    """From the user's own hooks, and from those of a repository that is trusted."""
    stage.file(".claude/settings.json", {"hooks": {"SessionStart": entry(SETS)}}, home=home)
    said = printed(stage, stage.discover(), 'echo "[$GREETING]"')
    assert said.startswith("[hello you]")


def test_they_are_not_in_the_state(stage: Any) -> None:
    """They may be secrets."""
    stage.script("start.sh", SETS + "\n")
    stage.file(".claude/settings.json", {"hooks": {"SessionStart": entry("sh start.sh")}})
    result = stage.run(stage.discover(), say("hi"))
    assert "hello you" not in str(result.state) + str(result.records)


def test_they_are_there_for_later_hooks(stage: Any) -> None:
    """Of the same people: a repository cannot switch off the user's guards by a variable."""
    log = stage.root / "log"
    stage.file(
        ".claude/settings.json",
        {"hooks": {"SessionStart": entry(SETS), "Stop": entry(f"echo repo $GREETING >> {log}")}},
    )
    mine = {"hooks": {"Stop": entry(f"echo mine $GREETING >> {log}")}}
    stage.file(".claude/settings.json", mine, home=True)
    stage.run(stage.discover(), say("hi"))
    assert sorted(log.read_text().splitlines()) == ["mine", "repo hello you"]


def test_what_decides_which_programs_run_is_left_out_and_said(stage: Any) -> None:
    """The path above all; the user is told, and the command has the path it had."""
    lines = "export PATH=/evil:$PATH\\nexport LD_PRELOAD=/x.so\\nexport FINE=1\\n"
    stage.file(
        ".claude/settings.json",
        {"hooks": {"SessionStart": entry(f'printf "{lines}" >> "$CLAUDE_ENV_FILE"')}},
    )
    hooks = stage.discover()
    result = stage.run(hooks, say("hi"))
    reasons = [getattr(record, "reason", "") for record in result.records]
    assert "not set for others: PATH, LD_PRELOAD" in reasons
    assert printed(stage, hooks, 'echo "$FINE$LD_PRELOAD $PATH"').startswith("1 ")


def test_cursors_variables_reach_commands_too(stage: Any) -> None:
    """Its hooks answer with them."""
    stage.script(".cursor/start.sh", 'echo \'{"env": {"COLOUR": "green", "PATH": "/evil"}}\'\n')
    hook = {"command": "sh .cursor/start.sh"}
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": {"sessionStart": [hook]}})
    assert printed(stage, stage.discover(), "echo $COLOUR").startswith("green")


def test_settings_have_variables_for_their_own_hooks(stage: Any) -> None:
    """Those of a repository for its hooks, the user's for theirs: they may be secrets."""
    log = stage.root / "log"
    say_it = entry(f'echo "$1$MODE|$SECRET_WORD" >> {log}')
    stage.file(".claude/settings.json", {"env": {"MODE": "strict"}, "hooks": {"Stop": say_it}})
    stage.file(
        ".claude/settings.json",
        {
            "env": {"SECRET_WORD": "abc"},
            "hooks": {"UserPromptSubmit": say_it},
        },
        home=True,
    )
    stage.run(stage.discover(), say("hi"))
    assert log.read_text().splitlines() == ["|abc", "strict|"]


def test_changed_variables_of_a_repository_are_asked_about_again(stage: Any) -> None:
    """They decide what a hook does."""
    from hookline.command_hooks import is_trusted, trust

    content = {"env": {"MODE": "strict"}, "hooks": {"Stop": entry("true")}}
    stage.file(".claude/settings.json", content)
    trust(stage.root)
    assert is_trusted(stage.root)
    stage.file(".claude/settings.json", {**content, "env": {"MODE": "off"}})
    assert not is_trusted(stage.root)


def test_what_is_read_from_a_file_of_variables(tmp_path: Path) -> None:
    """Plain assignments, as scripts and shells write them, over several lines too; none that would load programs."""
    path = tmp_path / "env.sh"
    path.write_text(
        "export A=1 B='two words'\nC=3;\n# no\nexport PATH=/evil\nLD_PRELOAD=x\nexport PYTHONPATH=y\n"
        "D=$(touch /tmp/x)\nE=`id`\nrm -rf /\nexport 1BAD=2\n"
        'declare -x G="from a shell"\nexport H="one\ntwo"\nF=\'unclosed\n'
    )
    found, left_out = variables_in(path)
    assert found == {
        "A": "1",
        "B": "two words",
        "C": "3",
        "G": "from a shell",
        "H": "one\ntwo",
    }
    assert left_out == ["PATH", "LD_PRELOAD", "PYTHONPATH", "D", "E", "1BAD"]
    assert variables_in(tmp_path / "gone") == ({}, [])
