"""Programs that run others, that run code, and that fetch or decode what others may run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

RUNNERS = frozenset(
    """
    env nohup setsid nice ionice timeout gtimeout stdbuf time command builtin exec busybox toybox xargs parallel strace
    ltrace watch unshare nsenter systemd-run entr valgrind linux32 linux64 eatmydata tini dumb-init sshpass trap alias
    hash coproc npx pnpx bunx uvx proxychains proxychains4 xvfb-run caffeinate unbuffer hyperfine
    """.split()
)
"""Programs that run what stands among their words."""
RUNNERS_OF_ANY = frozenset(
    """
    flock chroot taskset chrt setarch perf faketime script screen tmux sg op aws-vault sudo su doas pkexec runuser gosu
    su-exec setpriv runcon bwrap firejail proot numactl rlwrap torsocks tsocks dbus-run-session nix-shell watchexec
    prlimit choom uclampset cpulimit cgexec chpst fakeroot fakechroot systemd-inhibit systemd-cat ssh-agent nocache
    chronic run-one start-stop-daemon
    """.split()
)
"""Those that have words of their own before it: each word may be where it begins."""
_BEFORE_INNER = frozenset("-exec -execdir -ok -okdir -x -X --exec --exec-batch".split())
_RUN_VERBS = frozenset({"run", "exec", "x", "dlx"})
"""A program of any name runs another one if its first word is one of these: `npm exec`, `uv run`."""
_BY_VERB = frozenset(
    """
    bundle conda direnv docker git kubectl mamba mise nerdctl nix npm pdm pipenv pipx pnpm podman poetry rye uv yarn
    """.split()
)
_VERBS = _RUN_VERBS | {"foreach", "shell", "tool"}
"""These programs run others with one of these words, wherever it stands: `uv --quiet tool run`."""
_FLAGS = frozenset("-- -0 -r -t -x -v --null --no-run-if-empty --forelocation".split())
"""Options of these programs that take no value. Any other may."""
_JOINED = re.compile(r"--[\w-]+=|-\w(?=\w)|\w+=")
_NO_PROGRAM = re.compile(r"[-+]|[0-9.]+[a-z]?$|[A-Za-z_]\w*\+?=|$")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=")

FEEDERS = frozenset({"xargs", "parallel"})
"""Programs that run another one with the words that they read."""
SHELLS = frozenset("sh bash dash zsh ksh ash fish csh tcsh rbash mksh".split())
INTERPRETERS = re.compile(
    r"(?:python|pypy|perl|ruby|php|lua)[0-9.]*|node|nodejs|luajit|deno|bun|osascript|Rscript|tclsh|pwsh"
    r"|powershell|tsx|ts-node|make|[gm]?awk"
)
_HAVE_VALUES = frozenset("--rcfile --init-file -W -X".split())
_SHELL_OPTIONS = re.compile(r"[-+][A-Za-z]*[oO][A-Za-z]*")
FETCHERS = frozenset(
    """
    curl wget fetch aria2c http https httpie xh lwp-request GET nc ncat netcat socat ftp tftp lynx w3m axel telnet
    """.split()
)
_ALWAYS_DECODE = frozenset(
    "uudecode zcat gunzip bzcat xzcat zstdcat lz4cat rev openssl gpg gpg2 uncompress".split()
)
_MAY_DECODE = frozenset("base64 base32 basenc xxd gzip bzip2 xz zstd gbase64".split())
_CODE_OPTION = re.compile(r"-[A-Za-z]*[cerf]$|--(?:eval|command|exec|file)$")


def name_of(argv: Sequence[str]) -> str:
    """The program's name without its directory."""
    return argv[0].rpartition("/")[2] if argv else ""


def is_source(argv: Sequence[str]) -> bool:
    """Whether a command prints or stores what it fetches or decodes."""
    name = name_of(argv)
    if name in FETCHERS or name in _ALWAYS_DECODE:
        return True
    if name == "tr":  # to take characters out hides nothing
        return not any(word.startswith(("-d", "--delete")) for word in argv[1:])
    return name in _MAY_DECODE and any(re.match(r"-[A-Za-z]*[dDr]|--d", word) for word in argv[1:])


def has_value(program: str, word: str) -> bool:
    """Whether a word of a shell or an interpreter is an option that is followed by a value: `bash -euo pipefail`."""
    if program.rpartition("/")[2] in SHELLS and _SHELL_OPTIONS.fullmatch(word):
        return True
    return word in _HAVE_VALUES


def can_run_code(argv: Sequence[str]) -> bool:
    """Whether a command runs code that it is given."""
    name = name_of(argv)
    return name in SHELLS or name in {"eval", "source", "."} or bool(INTERPRETERS.fullmatch(name))


def code_words(argv: Sequence[str]) -> Iterator[str]:
    """The words of a command that are code, or name a file of code."""
    if not can_run_code(argv):
        return
    if name_of(argv) == "eval":
        yield from argv[1:]
        return
    is_value = False
    for at, word in enumerate(argv[1:], start=1):
        if _CODE_OPTION.match(word):
            yield from argv[at + 1 : at + 2]
        elif not (is_value or word.startswith(("-", "+"))):
            yield word
            return
        is_value = has_value(argv[0], word)


def can_run_input(argv: Sequence[str]) -> bool:
    """Whether a command runs what it is piped."""
    name = name_of(argv)
    if name == "eval" or name in {"at", "batch"}:
        return True
    if not can_run_code(argv):
        return False
    if name == "make" or name.endswith("awk"):
        return any(word in {"-", "-f-", "/dev/stdin"} or "system(" in word for word in argv[1:])
    words = list(code_words(argv))
    piped = {"-", "-s", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}
    return not words or not piped.isdisjoint(argv) or argv[-1:] == ["-"]


def commands_in(argv: Sequence[str]) -> Iterator[list[str]]:
    """A command, and each that it may run: of a program that runs others, every tail of its words that may be one."""
    words = list(argv)
    while words and _ASSIGNED.match(words[0]):
        words = words[1:]
    if not words:
        return
    yield words
    yield from _inner_commands(words)


def _inner_commands(argv: Sequence[str]) -> Iterator[list[str]]:
    """The commands that a command may run, by its own words."""
    name = name_of(argv)
    if name in {"find", "fd", "fdfind"}:
        for at, word in enumerate(argv):
            if word in _BEFORE_INNER:
                inner = takewhile(lambda each: each not in {";", "+"}, argv[at:])
                yield from _from_each_word(list(inner), is_any=False)
        return
    if name == "command" and argv[1:2] and argv[1] in {"-v", "-V"}:
        return
    is_any = name in RUNNERS_OF_ANY or name.startswith("ld-linux")
    if name in RUNNERS or is_any:
        starts = [0]
    elif name in _BY_VERB:
        starts = [at for at, word in enumerate(argv) if word in _VERBS]
    else:
        starts = [1] if argv[1:2] and argv[1] in _RUN_VERBS else []
    for start in starts:
        yield from _from_each_word(argv[start:], is_any=is_any)


def _from_each_word(argv: Sequence[str], *, is_any: bool) -> Iterator[list[str]]:
    """What begins with a word that may name a program, and with the next runner in it.

    After an option a word may be its value, so the next may be the program, too. Any other word is the program.
    """
    for at in range(1, min(len(argv), 32)):
        if _NO_PROGRAM.match(argv[at]):
            continue
        inner = list(argv[at:])
        yield inner
        before = argv[at - 1]
        is_value = at > 1 and before.startswith("-") and before not in _FLAGS
        if not (is_any or is_value):
            yield from _inner_commands(inner)
            return


def scripts_in(argv: Sequence[str]) -> Iterator[str]:
    """The pieces of bash that a command is given as text."""
    name = name_of(argv)
    if name == "eval":
        yield " ".join(argv[1:])
    elif name in SHELLS:
        yield from code_words(argv)
    elif name in RUNNERS or name in RUNNERS_OF_ANY:
        # The text may be joined to an option, or to the name of an alias.
        yield from (_JOINED.sub("", word) for word in argv[1:] if " " in word)


# --- what rules take for programs that run others ------------------------------------------------------

# fmt: off
_RUNS_OTHERS = RUNNERS | RUNNERS_OF_ANY | SHELLS | {
    ".", "at", "batch", "eval", "find", "source", "ssh",
}
"""Programs that run the command that is written after them, or in one of their arguments."""
_READS_COMMANDS = SHELLS | {
    ".", "at", "batch", "busybox", "eval", "parallel", "source", "ssh", "su", "toybox", "xargs",
}
"""Programs that run what they read: the output of another command, a here-document, a file."""
_RUN_ANYTHING = _RUNS_OTHERS | {
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


def can_run_others(words: Sequence[object]) -> bool:
    """Whether a command may run another one that is written among its words, in a container or elsewhere too."""
    if not words or not isinstance(words[0], str):
        return False
    program = words[0].rpartition("/")[2]
    return program in _RUNS_OTHERS or (
        program in _BY_VERB and any(word in _VERBS for word in words[1:] if isinstance(word, str))
    )


def can_read_commands(program: str) -> bool:
    """Whether a program may run what it reads."""
    return program.rpartition("/")[2] in _READS_COMMANDS


def can_run_anything(program: str) -> bool:
    """Whether a program can do anything, in any version: `python3.11` is `python`."""
    name = program.rpartition("/")[2].removesuffix(".exe")
    return name in _RUN_ANYTHING or _VERSION.sub("", name) in _RUN_ANYTHING


def can_verb_run_anything(program: str, verb: str) -> bool:
    """Whether a program with this word can run anything."""
    return verb in _VERBS or (program == "git" and verb in _GIT_RUNS)
