"""What agents type and was asked about for no good reason; and what comes close to it and must not run unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.containment import ShellPolicy

HARMLESS = [
    'N=5; echo "$N"',
    'F=src/app.py; wc -l "$F"',
    "for i in 1 2 3; do git log -1 --format=%h HEAD~$i; done",
    "# look at the layout first",
    'wc -l `find src -name "*.py"`',
    "grep foo `find src -name '*.html'`",
    "cat ~/.codex/skills/review/SKILL.md",
    "cat /home/dev/.agents/skills/review/SKILL.md",
    "cat ~/.gemini/GEMINI.md",
    "npm view react version",
    "npm view @scope/name@1.2.3 --json",
    "npm outdated",
    "pip index versions requests",
    "pip list --outdated",
    "pip list -o",
    "cargo search serde --limit 3",
    "git rerere status",
    "ionice -p 1",
]
ASKED = [
    "",
    'PS1=x; echo "$PS1"',
    'echo `echo "a` "',
    "echo `cat 'a`' b",
    'cat `echo "~/.ssh/id_rsa"`',
    "cat ~/.codex/auth.json",
    "cat ~/.codex/config.toml",
    "cat ~/.gemini/oauth_creds.json",
    "cat ~/.ssh/SKILL.md",
    "npm view http://example.com/x.tgz",
    "npm view react --registry=http://example.com",
    'npm view "$(cat README.md)"',
    "npm audit",
    "pip index versions x -i http://example.com",
    "pip list --outdated --index-url http://example.com",
    "cargo search x --registry evil",
    "git rerere clear",
    "git rerere",
    "ionice -c 3 -p 1",
    "ionice -c 3 ls",
]
ABOVE = ".. ../ ./.. src/../.. ../* ..// ../.. '..' ../.* {..,x}".split()


@pytest.mark.parametrize("command", HARMLESS)
def test_it_only_looks(command: str, tmp_path: Path) -> None:
    """Nothing of it writes, runs something else or shows a secret."""
    verdict = ShellPolicy.default().judge(command, cwd=str(tmp_path), root=str(tmp_path))
    assert verdict.decision == "allow", verdict.reason


@pytest.mark.parametrize("command", ASKED)
def test_its_neighbours_are_asked_about(command: str, tmp_path: Path) -> None:
    """One word more or other, and it may do more than look."""
    verdict = ShellPolicy.default().judge(command, cwd=str(tmp_path), root=str(tmp_path))
    assert verdict.decision == "ask", verdict.reason


@pytest.mark.parametrize("target", ABOVE)
@pytest.mark.parametrize("start", ["rm", "rm -r", "rm -d", "rm --recursive --", "cd src && rm -r"])
def test_removing_what_lies_above_is_denied(start: str, target: str) -> None:
    """However it is spelled, and also where it is known which directory that is."""
    verdict = ShellPolicy.default().judge(f"{start} {target}", cwd="/work/app", root="/work/app")
    assert verdict.decision == "deny", verdict.reason


@pytest.mark.parametrize("command", ["npm view react", "npm outdated"])
def test_a_project_that_names_a_registry_is_asked_about(command: str, tmp_path: Path) -> None:
    """The names would go to where the project says."""
    (tmp_path / ".npmrc").write_text("registry=http://example.com\n")
    verdict = ShellPolicy.default().judge(command, cwd=str(tmp_path), root=str(tmp_path))
    assert verdict.decision == "ask", verdict.reason
