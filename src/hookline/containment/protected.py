"""Names that other programs run or obey. The file jail, the sandbox and the shell policy share this table.

A program belongs here if it acts on the file because a person enters the directory, asks version control for status or
history, commits, or opens an editor or an agent there. What a person starts (make, tests, package scripts) does not.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable

from hookline.secret_tables import names_in
from hookline.wildcards import compile_entries


def _names(text: str) -> frozenset[str]:
    return frozenset(names_in(text))


VERSION_CONTROL = _names(".git .hg .jj .bzr _darcs .pijul .sl")
"""Directories of version control. Their contents change with every commit; some files in them name programs."""

PROJECT_CONFIGURATION = _names(
    """
    .pre-commit-config.yaml .pre-commit-config.yml prek.toml .overcommit.yml .local-overcommit.yml # run at each commit
    lefthook.yml lefthook.yaml lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml .lefthook.toml .lefthook.json
    lefthook-local.yml lefthook-local.yaml lefthook-local.toml lefthook-local.json hk.pkl hk.local.pkl
    lefthook.jsonc .lefthook.jsonc lefthook-local.jsonc .lefthook-local.jsonc .lefthook-local
    hk.toml hk.yaml hk.yml hk.json .hkrc.pkl
    .lefthook-local.yml .lefthook-local.yaml .lefthook-local.toml .lefthook-local.json
    .lefthook captainhook.json captainhook.config.json grumphp.yml grumphp.yaml grumphp.yml.dist grumphp.dist.yml
    .rusty-hook.toml rusty-hook.toml
    .huskyrc .huskyrc.json .huskyrc.js .huskyrc.cjs .huskyrc.yaml .huskyrc.yml husky.config.js
    mise.toml .mise.toml mise.local.toml .mise.local.toml .rtx.toml .rtx.local.toml # run when a shell enters
    mise.*.toml .mise.*.toml pitchfork.toml pitchfork.local.toml fnox.toml fnox.local.toml
    .miserc.toml .miserc.local.toml .tool-versions .prototools                     # mise runs templates in some
    .hgsub .hgsubstate .hglf                        # Mercurial writes what is in it into an hgrc, at a commit say
    """
)
"""What runs commands and is also a part of the project, which people ask agents to write. `*` is any text."""

RUN_BY_OTHERS = PROJECT_CONFIGURATION | _names(
    """
    .husky .envrc .direnv .mise .shadowenv.d .autoenv .autoenv.zsh .autoenv_leave.zsh .autoenv.leave
    activate-hermit .phpbrewrc .rvmrc .versions.conf .ruby-env .trunk .Rprofile .Renviron .RData
    .vscode .idea .devcontainer .devcontainer.json .fleet .zed .vs .nova .helix .theia  # run by editors
    .fslckout .fos _FOSSIL_ .fossil-settings                                    # leads Fossil to another repository
    .p4config .lazygit.yml                                                      # name programs to Perforce and lazygit
    .nvim.lua .lazy.lua .nvimrc .nvim .exrc .vimrc .gvimrc .lvimrc .local.vimrc _vimrc_local.vim
    .dir-locals.el .dir-locals-2.el .externalToolBuilders .project .factorypath .lite_project.lua .tm_properties
    .kateproject .kateproject.local .lapce .neoconf.json
    """
)
"""What runs commands when a directory is entered, a commit is made or an editor is opened."""

RUN_BELOW: dict[str, frozenset[str]] = {
    ".github": _names(
        "copilot-instructions.md hooks copilot instructions prompts chatmodes agents skills lsp.json extensions"
    ),
    ".repo": _names("repo manifest.xml local_manifests"),
    "_MTN": _names("monotonerc options"),
    ".config": _names(
        "mise mise.toml miserc.toml miserc.local.toml lefthook.yml lefthook.yaml lefthook.toml lefthook.json"
        " lefthook.jsonc lefthook-local.jsonc"
        " pitchfork.toml pitchfork.local.toml git hookline"
    ),
    "mise": _names("conf.d miserc.toml miserc.local.toml"),
    ".vim": _names("coc-settings.json"),
}
"""The same, by the name of the directory that they are in."""

INSTRUCTIONS_BELOW = _names(".github/instructions .github/prompts .github/chatmodes")
"""Those of them that are text which agents obey, and documentation too."""

RUN_BY_PATTERN = _names(
    """
    *.code-workspace *.sublime-project .envrc.* mise.*.toml .mise.*.toml mise/config.toml mise/config.*.toml
    """
)
"""The same, by a pattern for the name, or for the directory and the name."""
_BY_PATTERN = compile_entries(RUN_BY_PATTERN)


def run_by_pattern(directory: str, names: Iterable[str]) -> list[str]:
    """The names that fit one of the patterns. `directory` is the name of the directory that the names are in."""
    return [name for name in names if _BY_PATTERN.fullmatch(f"{directory}/{name}")]


AGENT_CONFIGURATION = _names(
    """
    .hookline .agents .claude .claude.json .codex .copilot .cursor .gemini .windsurf .continue .aider .aider.conf.yml
    .mcp.json mcp.json hookline.toml .continuerc.json .roo .roomodes .roorules .clinerules .kiro .amazonq .junie .trae
    .amp .iflow .augment .factory .openhands .warp .pi .zed .opencode.json
    .qwen .opencode opencode.json opencode.jsonc .crush .crush.json crush.json .goose .goosehints .claude-plugin
    .cursor-plugin .agent .kilocode .kilocodemodes .vibe .grok .qoder .codebuddy .rovodev .antigravity .aiassistant
    .eca .tabnine .forge forge.yaml .serena .codebuff .mcphub fastagent.config.yaml mcp_agent.config.yaml
    gptme.toml gptme.local.toml .cline .letta .mux .kilo kilo.json kilo.jsonc .deepagents .codeartsdoer
    """
)
"""Agents' own: hooks, permissions, servers."""

INSTRUCTIONS = _names(
    """
    AGENTS.md AGENTS.override.md AGENT.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md WARP.md CRUSH.md CODEBUDDY.md
    .rules
    .cursorrules .windsurfrules copilot-instructions.md
    """
)
"""Text that every agent obeys that works there later. It is documentation too, which people ask agents to write."""

RUN_AT_LOGIN = _names(
    ".bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile .zlogin .ssh"
)
"""What runs when somebody logs in, and who may."""

OBEYED: frozenset[str] = RUN_BY_OTHERS | AGENT_CONFIGURATION | INSTRUCTIONS
"""What a command in the sandbox can neither change nor leave behind, at any depth."""

PROTECTED: frozenset[str] = (
    OBEYED | VERSION_CONTROL | RUN_AT_LOGIN | _names(".gitconfig .gitmodules .ripgreprc")
).union(
    RUN_BY_PATTERN,
    # What is protected in every directory is left out, so that a caller can take it out of the set.
    (f"{above}/{name}" for above, names in RUN_BELOW.items() for name in names - OBEYED),
)
"""What cannot be changed through a jail by default, at any depth. It can be read. `a/b` is a `b` in an `a`."""


_accepted: set[tuple[int, int, int]] = set()
"""Files of such names that were written through a jail, which asks or refuses first, as they were then."""


def accept(facts: os.stat_result) -> None:
    """Say that a file with such a name was written by somebody who may."""
    _accepted.add((facts.st_dev, facts.st_ino, facts.st_ctime_ns))


def is_accepted(facts: os.stat_result) -> bool:
    """Whether this file was written by somebody who may, and has neither changed nor moved since."""
    return (facts.st_dev, facts.st_ino, facts.st_ctime_ns) in _accepted


# --- git directories ----------------------------------------------------------------------------------

# git itself wants `HEAD`, `objects` and `refs`, or a `HEAD` and a `commondir` that leads to the others. A command can
# move one of them away and put it back later, so less counts here. When the jail and the sandbox had definitions of
# their own, what only one of them knew could be written through the other.
PARTS_OF_GIT = ("HEAD", "objects", "refs", "commondir")
"""The entries by which a git directory is known that is not called `.git`."""


def is_git_directory(names: Container[str]) -> bool:
    """Whether git may obey what is in a directory with these entries, now or when a command has put a part back.

    `HEAD` beside `refs` is not enough: git's logs have both. A sandbox keeps `objects` from being moved away.
    """
    has_store = "objects" in names and ("refs" in names or "HEAD" in names)
    return "commondir" in names or has_store
