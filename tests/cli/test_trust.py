"""`hookline trust --repository`: git may read without asking, as long as the configuration stays as it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from hookline.cli.exits import Exit


def git(place: Any, *words: str) -> None:
    """Run git in the project."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=place.project, check=True, capture_output=True)


def verdict(place: Any, command: str) -> str:
    """What the policy of the shell says of a command, as `hookline hooks test` prints it."""
    done = place.run("hooks", "test", "bash", command)
    assert "Traceback" not in done.stderr, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "bash-policy" in line]
    return str(line.split()[0])


def own_settings(place: Any, text: str) -> None:
    """The user's own configuration."""
    path = place.home / ".config" / "hookline" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'[capabilities.bash]\nsandbox = "host"\n{text}', encoding="utf-8")


def test_what_the_trust_file_and_the_tables_say_holds_for_commands(place: Any) -> None:
    """git in a trusted repository, and programs of the user's own table, run without asking."""
    own_settings(place, "")
    git(place, "init", "-q")
    assert verdict(place, "git status") == "ask"
    place.run("trust", "--repository", ".")
    assert verdict(place, "git status") == "proceed"
    assert verdict(place, "terraform validate") == "ask"
    own_settings(place, '[capabilities.bash.policy.programs]\nterraform = ["validate"]\n')
    assert verdict(place, "terraform validate") == "proceed"
    assert verdict(place, "terraform apply") == "ask"


def test_the_table_of_a_project_counts_only_if_it_is_trusted(place: Any) -> None:
    """A repository cannot say what is harmless; once trusted it can."""
    own_settings(place, "")
    place.write("hookline.toml", '[capabilities.bash.policy.programs]\nterraform = ["apply"]\n')
    assert verdict(place, "terraform apply") == "ask"
    assert place.run("trust").returncode == Exit.DONE
    assert verdict(place, "terraform apply") == "proceed"


def test_a_wrong_table_is_an_error_that_says_where(place: Any) -> None:
    """Of the file, the option, and what to write."""
    own_settings(place, '[capabilities.bash.policy.programs]\nsort = ["-o"]\n')
    refused = place.run("hooks", "test", "bash", "ls")
    assert refused.returncode == Exit.CONFIG
    assert "config.toml" in refused.stderr
    assert "'sort' cannot be added" in refused.stderr
    own_settings(place, '[capabilities.bash.policy]\nalow = ["x"]\n')
    assert "no option 'alow'" in place.run("hooks", "test", "bash", "ls").stderr


def test_git_asks_until_its_repository_is_trusted(place: Any) -> None:
    """In a repository without any configuration of Hookline; a change asks again; trust can be taken back."""
    git(place, "init", "-q")
    assert place.run("trust", "--repository", "--show").returncode == Exit.CONFIG
    trusted = place.run("trust", "--repository", ".")
    assert trusted.returncode == Exit.DONE
    assert "git may read in" in trusted.stderr
    assert place.run("trust", "--repository", "--show").returncode == Exit.DONE
    assert place.run("trust", "--list").stdout == f"{place.project.resolve()}\n"
    git(place, "config", "user.name", "somebody")
    changed = place.run("trust", "--repository", "--show")
    assert (changed.returncode, "changed since" in changed.stderr) == (Exit.CONFIG, True)
    assert place.run("trust", "--repository", ".").returncode == Exit.DONE
    assert "asks there again" in place.run("trust", "--repository", "--revoke", ".").stderr
    assert place.run("trust", "--list").stdout == ""


def test_a_repository_that_names_a_program_cannot_be_trusted(place: Any) -> None:
    """The error says which setting it is; a directory without a repository is no repository."""
    nothing = place.run("trust", "--repository", ".")
    assert nothing.returncode == Exit.USAGE
    assert "it has no .git, so it is not a repository" in nothing.stderr
    git(place, "init", "-q")
    git(place, "init", "-q", "--bare", "bare")
    (place.project / "sub").mkdir()
    (place.project / "pointer").mkdir()
    (place.project / "pointer" / ".git").write_text("gitdir: ../.git\n")
    for folder, words in (
        ("sub", f"it is a part of the repository {place.project.resolve()}"),
        ("bare", "it is a bare repository"),
        ("pointer", "the repository is elsewhere"),
    ):
        refused = place.run("trust", "--repository", folder)
        assert (refused.returncode, words in refused.stderr) == (Exit.USAGE, True)
        assert "Name the top directory of a repository" in refused.stderr
    git(place, "config", "core.fsmonitor", "touch evil")
    refused = place.run("trust", "--repository", ".")
    assert refused.returncode == Exit.USAGE
    assert "its configuration sets core.fsmonitor" in refused.stderr
    assert not (place.project / "evil").exists()


def test_trust_of_a_repository_is_no_trust_of_a_configuration(place: Any) -> None:
    """What a project says is still held back."""
    git(place, "init", "-q")
    assert place.run("trust", "--repository", ".").returncode == Exit.DONE
    place.write("hookline.toml", 'model = "script:evil.json"\n')
    assert place.run("trust", "--show").returncode == Exit.CONFIG
    assert place.run("trust", "--revoke").returncode == Exit.DONE
    assert place.run("trust", "--repository", "--show").returncode == Exit.CONFIG


def test_the_trust_file_holds_a_hash(place: Any, tmp_path: Path) -> None:
    """And nothing of what the configuration says."""
    git(place, "init", "-q")
    place.run("trust", "--repository", ".")
    (file,) = tmp_path.rglob("trusted-projects.json")
    entry = json.loads(file.read_text())["directories"][str(place.project.resolve())]
    assert (entry["files"], len(entry["repository"])) == ({}, 64)
