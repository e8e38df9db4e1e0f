"""Rules to offer to a person who is asked about a call: all `git push`, everything in this directory."""

from __future__ import annotations

import os
import re

from hookline.containment.shell.command_pattern import CommandPart
from hookline.containment.shell.runners import runs_anything, verb_runs_anything
from hookline.permissions.paths import PathPlace, Root
from hookline.permissions.rule import Rule
from hookline.permissions.subject import SubjectKind, subject_of
from hookline.state import ToolCall

# fmt: off
_HAVE_VERBS = frozenset({
    "apt", "apt-get", "aws", "brew", "bundle", "cargo", "conda", "dnf", "docker", "dotnet", "gcloud", "gh", "git",
    "go", "helm", "hg", "kubectl", "npm", "pip", "pip3", "pnpm", "podman", "poetry", "rustup", "svn", "systemctl",
    "terraform", "uv", "yarn",
})
"""Programs whose first word says what is done: `git push` and `git log` have little in common."""
# fmt: on
_PLAIN = re.compile(r"[A-Za-z0-9_@%+,./:-]+")
_VERB = re.compile(r"[a-z][a-z0-9-]*")
_HAVE_SCRIPTS = frozenset({"npm", "pnpm", "yarn"})


def suggest_rule(call: ToolCall, root: str | os.PathLike[str] = ".") -> Rule | None:
    """A rule for this call and those like it; None when a yes to this one says too little about the others."""
    place = Root(root)
    subject = subject_of(call, place)
    if subject.kind not in (SubjectKind.COMMAND, SubjectKind.PATH):
        return Rule(call.name)
    if not subject.is_whole or len(subject.parts) != 1:
        return None
    if subject.kind is SubjectKind.COMMAND:
        return _for_command(call.name, subject.parts[0])
    return _for_path(call.name, subject.parts[0], place)


def _for_command(tool: str, part: CommandPart) -> Rule | None:
    words = list(part.argv or ())
    if not words or not _PLAIN.fullmatch(words[0]):
        return None
    program = words[0].rpartition("/")[2]
    if runs_anything(program):
        return None
    begins = words[:1]
    if program in _HAVE_VERBS:
        if len(words) < 2 or not _VERB.fullmatch(words[1]):
            return None
        begins = words[:2]
        if program in _HAVE_SCRIPTS and words[1] == "run":
            # `npm run build` says nothing about `npm run deploy`
            if len(words) < 3 or not _PLAIN.fullmatch(words[2]):
                return None
            begins = words[:3]
        elif verb_runs_anything(program, words[1]):
            return None
    return Rule(tool, f"{' '.join(begins)} *")


def _for_path(tool: str, place: PathPlace, root: Root) -> Rule | None:
    if len(place.ways) != 1:
        return None
    below = root.below(place.ways[0])
    if not below or not all(_PLAIN.fullmatch(name) for name in below):
        return None
    pattern = f"{'/'.join(below[:-1])}/**" if len(below) > 1 else below[0]
    # Remembered rules are read where the run is: with another root, only the whole path says what is meant.
    here = "" if os.path.abspath(".") == root.path else f"/{root.path}"
    return Rule(tool, f"{here}/{pattern}")
