"""`hookline config`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hookline.cli.main import main


def test_secrets_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a name calls a secret, and the values given to redaction, are hidden; the rest is shown."""
    (tmp_path / "config.toml").write_text(
        'model = "openai:gpt"\n[capabilities.redaction]\nvalues = ["Nightingale"]\nnames = ["pin"]\n'
    )
    monkeypatch.setenv("HOOKLINE_CONFIG_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert "openai:gpt" in shown
    assert "pin" in shown
    assert "[hidden]" in shown
    assert "Nightingale" not in shown


_ONE_HOOK_WAITS = """\
[[hooks]]
on = "session_start"
command = "./setup.sh"

[[hooks]]
on = "before_tool_use"
match = "bash(git push *)"
do = "ask"
reason = "others see it"
"""


def test_each_hook_has_its_own_line_in_an_untrusted_project(place: Any) -> None:
    """A hook that waits for trust does not shift the lines of those that are in force."""
    path = place.write("hookline.toml", _ONE_HOOK_WAITS)
    done = place.run("config", "show", "--json")
    (shown,) = [
        row for row in map(json.loads, done.stdout.splitlines()) if row["key"] == "hooks[0]"
    ]
    assert (shown["value"]["do"], shown["from"]) == ("ask", f"{path}:5")
    assert f"not in force until trusted: hooks[0]  # {path}:1" in done.stderr


def test_tools_that_the_provider_runs_are_allowed_in_a_file(place: Any) -> None:
    """`provider_tools` is what `with_provider_tools` is in Python."""
    place.write("hookline.toml", 'model = "script:turns.json"\nprovider_tools = ["web_search"]\n')
    place.write("turns.json", '[{"say": "Done."}]')
    place.run("trust")
    explained = place.run("hooks", "explain")
    assert "run by model  web_search" in explained.stdout, explained.stdout + explained.stderr
