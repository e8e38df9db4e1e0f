"""What is hidden, what is kept from changing, and what of the environment goes in: the tables, by name."""

from __future__ import annotations

from hookline.secret_tables import names_in

EMPTIED = ("/tmp", "/run", "/var/tmp", "/var/run", "/var/lock")
"""Replaced by an empty directory of the command's own: sockets, locks and other people's files live there."""

SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr")
"""Directories of the system. What is in them is not replaced by anything, also where one is somebody's home."""

STORES = ("/gnu/store", "/nix/store")
"""Where Guix and Nix put what they install. Everybody can read it, and it never changes."""

HELD = names_in(
    """
    .husky .envrc .hookline .agents .claude .codex .gemini .cursor .windsurf .mcp.json
    .cursorrules .windsurfrules .vscode .idea .devcontainer
    """
)
"""At the top of a directory that can be written: these cannot even be made while a command runs. Each of them costs
every command a little. The other names that others run or obey are moved aside when a command made one."""

PROTECTED_AT_HOME = names_in(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc .zshrc .zshenv .zprofile
    .zlogin .zlogout .config/fish .gitconfig .config/git .ssh .pam_environment .xprofile .xsessionrc
    .config/autostart .config/systemd .local/share/applications .local/bin bin .vimrc .config/nvim .emacs .emacs.d
    """
)
"""Cannot be changed or made where the directory that can be written is, or holds, a home directory."""

ENVIRONMENT = frozenset(
    names_in(
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

TOOL_VARIABLES = names_in(
    "VIRTUAL_ENV CONDA_PREFIX PYENV_ROOT NVM_DIR CARGO_HOME RUSTUP_HOME GOPATH GOROOT JAVA_HOME"
)
"""Variables that say where tools are installed."""

OF_PROJECTS = frozenset(
    names_in(
        """
        .git .gitignore .gitattributes .gitmodules .github .gitlab .gitlab-ci.yml .circleci .travis.yml .editorconfig
        .venv .tox .nox .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coveragerc .flake8 .pylintrc
        .prettierrc .prettierignore .eslintrc .eslintrc.json .eslintignore .babelrc .nvmrc .node-version
        .python-version .ruby-version .tool-versions .dockerignore .clang-format .clang-tidy .rustfmt.toml
        .golangci.yml .golangci.yaml .env.example .envrc .husky .pre-commit-config.yaml .vscode .idea
        """
    )
)
"""Names of projects, shown although they begin with a dot where a home is the work directory itself."""
