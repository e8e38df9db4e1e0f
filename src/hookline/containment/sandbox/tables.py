"""What is hidden, what is kept from changing, and what of the environment goes in: the tables, by name."""

from __future__ import annotations

from hookline.containment.protected import AGENT_CONFIGURATION, INSTRUCTIONS


def _names(text: str) -> tuple[str, ...]:
    """The names in a text, one line per idea, without what is behind a `#`."""
    return tuple(name for line in text.splitlines() for name in line.partition("#")[0].split())


EMPTIED = ("/tmp", "/run", "/var/tmp", "/var/run", "/var/lock")
"""Replaced by an empty directory of the command's own: sockets, locks and other people's files live there."""

PROTECTED = _names(
    """
    .git/hooks .git/config .git/modules .husky .envrc              # run by git, or by a shell that comes by
    .hookline .agents .claude .codex .gemini .cursor .windsurf .mcp.json                # obeyed by agents
    .cursorrules .windsurfrules .github/copilot-instructions.md .github/hooks .github/copilot
    .vscode .idea .devcontainer                                    # run by editors
    """
)
"""Below a directory that can be written: read-only, also when it does not exist. Something else will run or obey it.
Each of them costs every command a little."""

PROTECTED_IF_THERE = tuple(
    sorted((AGENT_CONFIGURATION | INSTRUCTIONS) - {*PROTECTED, "copilot-instructions.md"})
)
"""Read-only where it exists. To hold the place of what does not, something has to lie there, and these names are not
hidden ones: a command that looks at `*.md` would trip over it. Or they are names that few have."""

WITH_PARENT = frozenset({".git"})
"""Of these directories nothing can be made when they are missing: what one would hold is what is protected."""

PROTECTED_AT_HOME = _names(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc .zshrc .zshenv .zprofile
    .zlogin .zlogout .config/fish .gitconfig .config/git .ssh .pam_environment .xprofile .xsessionrc
    .config/autostart .config/systemd .local/share/applications .local/bin bin .vimrc .config/nvim .emacs .emacs.d
    """
)
"""The same, where the directory that can be written is, or holds, a home directory."""

ENVIRONMENT = frozenset(
    _names(
        """
        PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM COLORTERM TZ COLUMNS LINES NO_COLOR FORCE_COLOR CI
        SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO
        VIRTUAL_ENV CONDA_PREFIX PYENV_ROOT NVM_DIR CARGO_HOME RUSTUP_HOME GOPATH GOROOT JAVA_HOME
        """
    )
)
"""The variables that go in by themselves, with every `LC_`. None of them is a secret."""

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
"""Go in with the network, in either case, unless there is a password in them."""
