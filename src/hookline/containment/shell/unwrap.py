"""Commands inside commands: what a wrapper runs, and what is given to an interpreter as text.

This is for finding danger: where it is not certain which word is the inner command, the likely one is taken.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from hookline.containment.shell.literal import unescape

SHELLS = frozenset("sh bash dash zsh ksh ash fish csh tcsh rbash mksh rsh".split())
INTERPRETERS = re.compile(
    r"python[0-9.]*|pypy[0-9.]*|perl[0-9.]*|ruby[0-9.]*|node|nodejs|php[0-9.]*|lua[0-9.]*|luajit|deno|bun|osascript|Rscript|R|tclsh"
    r"|expect|pwsh|powershell|julia|groovy|scala|jshell|ghci|guile|irb|ts-node|tsx"
)
_CODE_OPTION = re.compile(
    r"-[A-Za-z]*[ceErpn]|--(eval|print|command|run|exec)(=.*)?|-(Command|EncodedCommand)"
)
_RUNS = re.compile(
    r"system|popen|subprocess|exec|spawn|shell|qx|%x|`|fork|Process|Open3|proc_open|passthru|getline|\|"
)
_STRING = re.compile(
    r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|`([^`]*)`"
    r"|(?:\bq[qx]?|%[qQx])\s?(?:\{(.{0,500})\}|\((.{0,500})\)|\[([^\]]*)\])",
    re.DOTALL,
)
_SED_RUNS = re.compile(r"(?:^|[;}0-9$/])\s{0,9}e\s+(.*)")
_SED_REPLACES = re.compile(
    r"(?:^|[;{}0-9$/ ])s([^\w\s])[^\n]{0,80}?\1([^\n]{0,80})\1[gpiI0-9]{0,9}e"
)
_RUNS_INPUT = re.compile(
    r"(?s)\b(?:exec|eval|system|compile)\b.{0,200}(?:stdin|STDIN|<>|\binput\(|readFileSync\(0|\bgets\b|ARGF|\$<)"
)
"""A program that is given as text, and runs what it reads."""
_ASKS_WHERE = re.compile("-p?[vV]")
_MAY_BE_SCRIPT = re.compile(r"[ ${]|(?:^|/)(?:reboot|halt|poweroff|shutdown)$")
_SPOKEN = re.compile(r"^[:!+ ]*(?:shell |spawn |!)?")

_WRAPPERS: dict[str, tuple[str, int]] = {
    **dict.fromkeys(
        """
        nohup setsid command builtin busybox toybox firejail dbus-run-session unbuffer rlwrap entr
        valgrind torsocks fakeroot eatmydata dumb-init tini linux32 linux64 dotenv coproc chronic torify ifne
        if then else elif do while until ! {
        """.split(),
        ("", 0),
    ),
    "env": ("-u --unset -C --chdir -P", 0),
    "time": ("-f -o --format --output", 0),
    "exec": ("-a", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p --class --classdata", 0),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "timeout": ("-k -s --kill-after --signal", 1),
    "gtimeout": ("-k -s", 1),
    "xargs": (
        """
        -n -P -L -d -s -I -i -E -a --max-args --max-procs --delimiter --arg-file --replace --max-lines --max-chars
        """,
        0,
    ),
    "parallel": ("-j --jobs -N -a --arg-file --colsep -I", 0),
    "strace": ("-e -o -p -s -u -E", 0),
    "ltrace": ("-e -o -p -s -u", 0),
    "gdb": ("-x -ex", 0),
    "chrt": ("-T -P -D", 1),
    "taskset": ("", 1),
    "chroot": ("", 1),
    "flock": ("-w -E", 1),
    "unshare": ("-S -G", 0),
    "nsenter": ("-t -S -G", 0),
    "proxychains": ("-f", 0),
    "proxychains4": ("-f", 0),
    "xvfb-run": ("-s -n -e", 0),
    "caffeinate": ("-t -w", 0),
    "systemd-run": ("-p -u --unit --property", 0),
    "perf": ("-e -o", 1),
    "screen": ("-S -c -e -h -s -t -T", 0),
    "faketime": ("", 1),
    "setarch": ("", 1),
    "logsave": ("", 1),
    "script": ("-c -E -I -O -B -T -m -o --command", 1),
    "sshpass": ("-p -f -d", 0),
    "chpst": ("-u -U -b -e -/ -n -l -L -m -d -o -p -f -c -r -t", 0),
    "watch": ("-n -d --interval", 0),
    "ssh": ("-i -p -o -l -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w", 1),
}
"""Programs, and words of the shell, that run what follows: their options that take the next word, and how many words
of their own come before the command."""
_SCRIPT_TAKERS = frozenset(
    """
    eval watch ssh parallel trap tmux screen script at batch su expect vim vi ex nvim emacs ed make npx npm rsync zip
    gdb tar flock sg hyperfine vagrant ansible nodemon concurrently watchexec capsh
    """.split()
)
_CONTAINERS = frozenset(
    """
    docker podman nerdctl kubectl oc lxc docker-compose poetry pipenv uv conda bundle pdm hatch rye mise direnv asdf
    op doppler aws-vault chamber
    """.split()
)
"""Programs that run another one after the word `exec` or `run`."""
_RUN_WHAT_FOLLOWS = frozenset(
    """
    bwrap proot tmux setpriv capsh start-stop-daemon runcon cgexec numactl systemd-nspawn schroot distrobox toolbox
    machinectl lxc-attach nodemon apptainer singularity cpulimit timelimit daemonize dtach setuidgid softlimit envdir
    prlimit catchsegv
    """.split()
)
"""Programs that run another one somewhere after words of their own."""
_GIT_GLOBALS = frozenset(
    "-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix --attr-source".split()
)


_HARMFUL = SHELLS | {"rm", "sudo", "su", "mkfs", "dd", "chmod", "chown", "tee", "env", "busybox"}


def name_of(argv: Sequence[str]) -> str:
    """The program's name without its directory."""
    return posixpath.basename(argv[0]) if argv else ""


def inner_argvs(argv: Sequence[str]) -> Iterator[list[str]]:
    """The commands that a command runs directly."""
    name = name_of(argv)
    if name.startswith("ld-linux") or name == "ld.so":
        yield list(argv[1:])
    elif name == "coproc" and "{" in argv:
        yield list(argv[argv.index("{") + 1 :])
    elif name in _RUN_WHAT_FOLLOWS:
        yield from _likely(argv, 1)
    elif name == "command" and _ASKS_WHERE.match(" ".join(argv[1:2])):
        return
    elif name in _WRAPPERS:
        if inner := _after_own_words(argv, *_WRAPPERS[name]):
            yield inner
    elif name == "find":
        yield from _found(argv)
    elif name in {"fd", "fdfind"}:
        for at, word in enumerate(argv):
            if word in {"-x", "--exec", "-X", "--exec-batch"}:
                yield list(argv[at + 1 :])
    elif name in {"npx", "bunx", "pnpx"}:
        yield _after_own_words(argv, "-p --package", 0)
    elif name in {"npm", "pnpm", "yarn"} and argv[1:2] in (["exec"], ["x"], ["dlx"]):
        yield _after_own_words(argv[1:], "-p --package", 0)
    elif name in _CONTAINERS:
        yield from _contained(argv)
    elif name == "git":
        if plain := _plain_git(argv):
            yield plain
        if len(argv) > 3 and list(argv[1:3]) in (["bisect", "run"], ["submodule", "foreach"]):
            yield list(argv[3:])


def scripts_in(argv: Sequence[str]) -> Iterator[str]:
    """The pieces of bash that a command is given as text."""
    name = name_of(argv)
    if name in SHELLS or name in {"su", "pwsh", "powershell"}:
        yield from _after_code_option(argv, "c")
    elif name == "eval":
        yield " ".join(argv[1:])
    elif name == "alias":
        yield from (word.partition("=")[2] for word in argv[1:])
    elif name == "env":
        yield from _split_strings(argv)
    elif name in _SCRIPT_TAKERS:  # what a tar checkpoint runs follows `exec=`
        yield from (word.partition("exec=")[2] for word in argv[1:] if "exec=" in word)
        yield from (_SPOKEN.sub("", word) for word in argv[1:] if _MAY_BE_SCRIPT.search(word))
        if name in {"make", "tar", "rsync"}:
            yield from (word.partition("=")[2] for word in argv[1:] if "=" in word)
    elif name == "git":
        yield from _scripts_of_git(argv)
    elif name == "sed":
        yield from (found for word in argv[1:] for found in _SED_RUNS.findall(word))
        yield from (found for word in argv[1:] for _, found in _SED_REPLACES.findall(word))
    elif INTERPRETERS.fullmatch(name) or name in {"awk", "gawk", "mawk", "nawk"}:
        yield from _strings_in_code(argv)


def _scripts_of_git(argv: Sequence[str]) -> Iterator[str]:
    """What `git -c alias.x='!..'` and the verbs that take a command would run."""
    takes = {"rebase", "submodule", "filter-branch", "bisect", "difftool", "config"}
    verb = next((word for word in argv[1:] if word in takes), "")
    for before, word in pairwise(argv):
        if before in {"-c", "--config"} or word.startswith("--exec="):
            value = word.partition("=")[2]
            yield value.lstrip("!")
            if word.startswith("alias.") and not value.startswith("!"):
                yield f"git {value}"
        elif verb and " " in word:
            yield word.lstrip("!")


def reads_code_from_input(argv: Sequence[str]) -> bool:
    """Whether a command runs as a program what it is piped."""
    name = name_of(argv)
    if name in {"at", "batch"} or (
        name in {"source", "."} and argv[1:2] in (["/dev/stdin"], ["/dev/fd/0"], ["-"])
    ):
        return True
    if name == "eval" or (name == "crontab" and argv[1:] in (["-"], [])):
        return True
    if name in {"awk", "gawk", "mawk", "nawk"}:
        return any(re.search(r"system\(|\|\s*.?(?:ba)?sh\b", word) for word in argv[1:])
    if name in {"make", "gmake"}:
        piped = {"-", "-f-", "/dev/stdin", "-f/dev/stdin"}
        return argv[-1] == "-f" or not piped.isdisjoint(argv)  # the grammar may lose a dash
    if name in {"pwsh", "powershell"} and argv[-1] == "-":
        return True
    if name == "ssh":
        return not _after_own_words(argv, *_WRAPPERS["ssh"])
    if INTERPRETERS.fullmatch(name) and any(map(_RUNS_INPUT.search, argv[1:])):
        return True
    if not (name in SHELLS or INTERPRETERS.fullmatch(name)):
        return name == "parallel" and all(word.startswith("-") for word in argv[1:])
    pending = iter(argv[1:])
    for word in pending:
        if word in {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-s"}:
            return True
        if word in {"-o", "-O", "+o", "+O", "--rcfile", "--init-file", "-W", "-X"}:
            next(pending, None)
        elif _gives_code(name, word):
            return False
        elif not word.startswith(("-", "+")):
            return name in {"deno", "bun"} and word == "run"
    return True


def _gives_code(name: str, word: str) -> bool:
    if name in SHELLS:
        return word.startswith("-") and not word.startswith("--") and "c" in word
    if name.startswith(("python", "pypy")):
        return re.match(r"-[A-Za-z]*[cm]|--version|-V", word) is not None
    return _CODE_OPTION.match(word) is not None


def _after_own_words(argv: Sequence[str], takes: str, operands: int) -> list[str]:
    taking = set(takes.split())
    at = 1
    while at < len(argv):
        word = argv[at]
        if word in taking:
            at += 2
        elif word.startswith("-") or re.match(r"[A-Za-z_]\w*=", word):
            at += 1
        elif operands:
            operands -= 1
            at += 1
        else:
            return list(argv[at:])
    return []


def _found(argv: Sequence[str]) -> Iterator[list[str]]:
    """What a find runs on each file. The file is taken to lie directly in where the search begins."""
    root = next((word for word in argv[1:] if not word.startswith("-")), ".")
    inside: list[str] | None = None
    for word in argv[1:]:
        if word in {"-exec", "-execdir", "-ok", "-okdir"}:
            inside = []
        elif inside is not None and word in {";", "+"}:
            yield inside
            inside = None
        elif inside is not None:
            inside.append(word.replace("{}", f"{root}/found"))
    if inside:
        yield inside


def _contained(argv: Sequence[str]) -> Iterator[list[str]]:
    """`docker run image rm ..`: which word is the image is not known, so every word after the verb may begin it."""
    at = next((at for at, word in enumerate(argv) if word in {"exec", "run"}), None)
    if at is not None:
        yield from _likely(argv, at + 1)


def _likely(argv: Sequence[str], at: int) -> Iterator[list[str]]:
    """What may be the inner command: from each word on that is the name of a program which does harm."""
    for start in range(at, len(argv)):
        if posixpath.basename(argv[start]) in _HARMFUL:
            yield [word for word in argv[start:] if word != "--"]


def _plain_git(argv: Sequence[str]) -> list[str]:
    """`git -C dir push` as `git push`, so that rules about `git push` hold."""
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] in _GIT_GLOBALS else 1
    return ["git", *argv[at:]] if 1 < at < len(argv) else []


def _after_code_option(argv: Sequence[str], letter: str) -> Iterator[str]:
    for at, word in enumerate(argv[1:], start=1):
        if re.match(rf"-[A-Za-z]*{letter}|--command", word):
            if "=" in word:
                yield word.partition("=")[2]
            yield from argv[at + 1 : at + 2]
            yield from (w for w in argv[at + 2 : at + 4] if " " in w)


def _split_strings(argv: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(argv):
        if word in {"-S", "--split-string"}:
            yield " ".join(argv[at + 1 :])
        elif found := re.match(r"-[a-zA-Z0]{0,5}S|--split-string=", word):
            yield " ".join([word[found.end() :], *argv[at + 1 :]])


def _strings_in_code(argv: Sequence[str]) -> Iterator[str]:
    """Strings inside a program given as text, if the program looks as if it ran commands."""
    for code in argv[1:]:
        if not _RUNS.search(code):
            continue
        strings = [next(filter(None, found), "") for found in _STRING.findall(code)]
        yield from strings
        yield from (unescape(one) for one in strings if "\\" in one)
        yield " ".join(strings)
