"""Variables of the shell: those whose value is no secret, and those that a line may set for itself."""

from __future__ import annotations

import re

VARIABLES = frozenset(
    """
    HOME PWD OLDPWD USER LOGNAME SHELL PATH LANG TERM HOSTNAME UID EUID PPID SHLVL ? $ # ! RANDOM SECONDS BASH_VERSION
    OSTYPE HOSTTYPE MACHTYPE COLUMNS LINES EDITOR VISUAL PAGER LC_ALL LC_CTYPE TZ DISPLAY TMPDIR JAVA_HOME GOPATH GOROOT
    VIRTUAL_ENV NODE_ENV PYTHONPATH CONDA_PREFIX CONDA_DEFAULT_ENV XDG_CONFIG_HOME XDG_DATA_HOME NVM_DIR CARGO_HOME
    RUSTUP_HOME ANDROID_HOME MANPATH CLASSPATH LD_LIBRARY_PATH
    """.split()
)
"""Variables whose values are no secret."""

_OWN = re.compile(r"(?!\w*_proxy$|npm_|auto_resume$|histchars$)[a-z][a-z0-9_]*")
"""Small letters: PATH would change what the commands are, http_proxy whom they talk to."""
_FILLED = re.compile(r"(?!\w*_proxy$|npm_)[a-z_][a-z0-9_]*")
_CAPITAL = frozenset(
    """
    APP BASE BASE_DIR BRANCH COMMIT CONTAINER COUNT CURRENT CURRENT_BRANCH DATE DIR DIRS END FILE
    FILENAME FILES ITEM LATEST LINE LOG LOGFILE LOG_DIR LOG_FILE MODULE NAME OLD NEW OUT OUTPUT PACKAGE PID PKG POD
    PROJECT PROJECT_DIR PROJECT_ROOT REPO REPO_DIR REPO_ROOT RESULT ROOT ROOT_DIR SCRIPT SCRIPT_DIR SERVICE SHA SIZE SRC
    SRC_DIR START STATUS TARGET TEST_DIR TEST_FILE TODAY TOTAL VER VERSION WORKDIR
    """.split()
)
"""Capital ones that mean nothing to bash, nor to any program that has a table."""
_LETTER = re.compile("[A-Z][0-9]?")
"""A single capital letter means nothing to any of them either."""


def may_set(name: str) -> bool:
    """Whether a line may set a variable for the commands that follow."""
    return name in _CAPITAL or (_LETTER.fullmatch(name) or _OWN.fullmatch(name)) is not None


def may_fill(name: str) -> bool:
    """Whether `read` may put into a variable what nobody has seen."""
    return name in _CAPITAL or (_LETTER.fullmatch(name) or _FILLED.fullmatch(name)) is not None
