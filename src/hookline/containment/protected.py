"""Names that other programs run or obey. The file jail, the sandbox and the shell policy keep the same ones."""

from __future__ import annotations

import os


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


RUN_BY_OTHERS = _names(
    ".git .gitconfig .gitmodules .hg .husky .envrc .ripgreprc .vscode .idea .devcontainer"
)
"""What runs commands when a repository or an editor is opened."""

AGENT_CONFIGURATION = _names(
    """
    .hookline .agents .claude .claude.json .codex .copilot .cursor .gemini .windsurf .continue .aider .aider.conf.yml
    .mcp.json mcp.json hookline.toml .continuerc.json .roo .roomodes .roorules .clinerules .kiro .amazonq .junie .trae
    .qwen .opencode opencode.json .crush.json crush.json .goosehints .zed
    """
)
"""Agents' own: hooks, permissions, servers."""

INSTRUCTIONS = _names(
    "AGENTS.md CLAUDE.md CLAUDE.local.md GEMINI.md .cursorrules .windsurfrules copilot-instructions.md"
)
"""Text that every agent obeys that works there later. It is documentation too, which people ask agents to write."""

RUN_AT_LOGIN = _names(
    ".bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile .zlogin .ssh"
)
"""What runs when somebody logs in, and who may."""

PROTECTED: frozenset[str] = RUN_BY_OTHERS | AGENT_CONFIGURATION | INSTRUCTIONS | RUN_AT_LOGIN
"""What a jail lets nobody change unless it is told otherwise, at any depth. It can all be read."""

_vouched: set[tuple[int, int]] = set()
"""Files of such names that were written through a jail, which asks or refuses first."""


def vouch(facts: os.stat_result) -> None:
    """Say that a file with such a name was written by somebody who may."""
    _vouched.add((facts.st_dev, facts.st_ino))


def is_vouched(name: str, directory: int) -> bool:
    """Whether the file of this name in a directory was written by somebody who may."""
    facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
    return (facts.st_dev, facts.st_ino) in _vouched
