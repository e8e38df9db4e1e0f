"""Tables of programs that run other programs, or anything."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.runners import RUNNERS, RUNNERS_OF_ANY, SHELLS

# fmt: off
RUNS_OTHERS = RUNNERS | RUNNERS_OF_ANY | SHELLS | {
    ".", "at", "batch", "eval", "find", "source", "ssh",
}
"""Programs that run the command that is written after them, or in one of their arguments."""
_BY_VERB = frozenset({
    "bundle", "conda", "direnv", "docker", "kubectl", "mamba", "mise", "nerdctl", "nix", "npm", "pdm", "pipenv",
    "pipx", "pnpm", "podman", "poetry", "rye", "uv", "yarn",
})
_VERBS = frozenset({"dlx", "exec", "run", "shell", "tool", "x"})
"""These programs run others only with one of these words."""
READS_COMMANDS = SHELLS | {
    ".", "at", "batch", "busybox", "eval", "parallel", "source", "ssh", "su", "toybox", "xargs",
}
"""Programs that run what they read: the output of another command, a here-document, a file."""
_RUN_ANYTHING = RUNS_OTHERS | {
    "ansible", "ant", "awk", "bazel", "bun", "chmod", "chown", "cmake", "crontab", "dd", "deno", "ed", "emacs", "ex",
    "expect", "gawk", "gdb", "gradle", "gradlew", "groovy", "guile", "irb", "iex", "java", "jshell", "julia", "just",
    "ld", "less", "lldb", "lua", "luajit", "m4", "make", "man", "mawk", "mkfs", "more", "mvn", "mysql", "nawk",
    "ninja", "node", "nodejs", "nvim", "osascript", "perl", "php", "pwsh", "powershell", "psql", "pypy", "python",
    "racket", "rake", "rm", "rsync", "ruby", "scp", "sed", "shred", "sqlite3", "swift", "tar", "task", "tclsh", "tee",
    "ts-node", "tsx", "vi", "vim", "wish", "zip",
}
"""Programs that can do anything, or much harm: allowing one use of them says nothing about the next."""
_GIT_RUNS = frozenset({
    "bisect", "config", "difftool", "filter-branch", "mergetool", "rebase", "submodule",
})
# fmt: on
_VERSION = re.compile(r"[\d.]+$|-[\d.]+$")


def runs_others(words: Sequence[object]) -> bool:
    """Whether a command runs another one that is written among its words."""
    if not words or not isinstance(words[0], str):
        return False
    program = words[0].rpartition("/")[2]
    return program in RUNS_OTHERS or (
        program in _BY_VERB and any(word in _VERBS for word in words[1:] if isinstance(word, str))
    )


def reads_commands(program: str) -> bool:
    """Whether a program may run what it reads."""
    return program.rpartition("/")[2] in READS_COMMANDS


def runs_anything(program: str) -> bool:
    """Whether a program can do anything, in whatever version: `python3.11` is `python`."""
    name = program.rpartition("/")[2].removesuffix(".exe")
    return name in _RUN_ANYTHING or _VERSION.sub("", name) in _RUN_ANYTHING


def verb_runs_anything(program: str, verb: str) -> bool:
    """Whether a program with this word can run anything."""
    return verb in _VERBS or (program == "git" and verb in _GIT_RUNS)
