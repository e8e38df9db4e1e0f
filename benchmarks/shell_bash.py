"""What real bash would run, found out without running anything.

A fresh directory becomes the root: it holds bash, the libraries it needs, and a few files with awkward names. Inside,
every builtin is switched off and there is no program to be found, so each command ends in a function that does
nothing. Bash's own trace (`set -x`) says what it would have run, after all expansions. The process has no
capabilities, belongs to nobody and may neither write files nor use much time.
"""

from __future__ import annotations

import functools
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

FILES = (
    "-o",
    "-rf",
    "--help",
    "a.py",
    "b c.py",
    "f",
    "x",
    "src/x.py",
    "src/-d",
    ".env",
    "=a",
    "a=b",
)
MARK = "\x1e"
_PROLOGUE = rf"""
command_not_found_handle() {{ [[ $FUZZ_STATUS = 0 || ( $FUZZ_STATUS = any && $((RANDOM % 2)) = 0 ) ]]; }}
BASH_XTRACEFD=9
PS4='{MARK}${{#FUNCNAME[@]}}:'
PATH=/nowhere
set -x
enable -n $FUZZ_BUILTINS enable
"""
_DRIVER = r"""
export BASH_ENV=/prologue HOME='/h -o' USER=u OLDPWD=/w
export FUZZ_BUILTINS=$(enable | while read -r _ name; do [[ $name = enable ]] || echo "$name"; done)
while IFS= read -r -d '' text; do
  for status in $FUZZ_STATUSES; do
    if [[ $status = 0 && $text = *while* ]]; then printf '\x1d'; continue; fi  # it would never end
    if [[ $status = 1 && $text = *until* ]]; then printf '\x1d'; continue; fi
    # The substitution ends when the last process that could still write to the trace has ended.
    printf '\x1d%s' "$(FUZZ_STATUS=$status /bin/bash -c -- "$text" 9>&1 >&2 </dev/null)"
  done
done
"""
_WORD = re.compile(r"\$'((?:[^'\\]|\\.)*)'|'([^']*)'|\\(.)|([^ '\\]+)|( )", re.DOTALL)


def unusable() -> str:
    """Why bash cannot be put where it can do no harm on this machine. Empty if it can."""
    if shutil.which("bash") is None or shutil.which("ldd") is None:
        return "bash or ldd is not installed, and this compares with bash"
    if os.geteuid() and _door() is None:
        return "this needs root, bwrap or unshare, to run bash where it can do no harm"
    return ""


@functools.cache
def _door() -> tuple[str, ...] | None:
    """What can shut bash in for somebody who is not root: it is there, and it is allowed to."""
    doors = (
        ("bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind"),
        ("unshare", "--user", "--map-root-user", "--net", "--root"),
    )
    for name, *options in doors:
        path = shutil.which(name)
        place = ["/", "/"] if name == "bwrap" else ["/"]
        if path and _works([path, *options, *place, "true"]):
            return (path, *options)
    return None


def _works(argv: list[str]) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


class Cage:
    """A root directory with nothing but bash in it. A context manager: it is removed at the end."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="hookline-bash-"))

    def __enter__(self) -> Cage:
        if reason := unusable():
            raise SystemExit(reason)
        bash = shutil.which("bash") or ""
        for name in ("bin", "dev", "w/src"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(bash, self.root / "bin/bash")
        for library in _libraries(bash):
            target = self.root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
        for name in FILES:
            (self.root / "w" / name).touch()
        (self.root / "dev/null").touch()
        (self.root / "dev/null").chmod(0o666)
        (self.root / "prologue").write_text(_PROLOGUE)
        (self.root / "driver").write_text(_DRIVER)
        self.root.chmod(0o755)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def traces(
        self, texts: Sequence[str], statuses: Sequence[str] = ("0", "1")
    ) -> list[list[tuple[str, ...]]]:
        """For each text, the argv of everything bash would run.

        It is run once for each status that its commands end with: all succeed, all fail, or `any` of the two each.
        """
        given = b"".join(text.encode() + b"\0" for text in texts)
        ran = subprocess.run(
            [*self._entrance(), "/bin/bash", "--norc", "/driver"],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60 + len(texts),
            env={"PATH": "/nowhere", "FUZZ_STATUSES": " ".join(statuses)},
            preexec_fn=self._leave if self._by_chroot else _limit,
            check=False,
        )
        parts = ran.stdout.decode("latin-1").split("\x1d")[1:]
        runs = len(statuses)
        if len(parts) != runs * len(texts):
            raise SystemExit(f"bash traced {len(parts)} of {runs * len(texts)} runs")
        texts_parts = [parts[at : at + runs] for at in range(0, len(parts), runs)]
        return [[argv for part in own for argv in _commands(part)] for own in texts_parts]

    @property
    def _by_chroot(self) -> bool:
        return os.geteuid() == 0

    def _entrance(self) -> list[str]:
        if self._by_chroot:
            return []
        door = _door()
        if door is None:
            raise SystemExit(unusable())
        if door[0].endswith("bwrap"):
            # The rest can only be read, and what cannot open /dev/null for writing does not run.
            null = ("--dev-bind", "/dev/null", "/dev/null")
            return [*door, str(self.root), "/", *null, "--chdir", "/w"]
        return [*door, str(self.root), "--wd", "/w"]

    def _leave(self) -> None:
        """Leave the machine behind: root becomes nobody in an empty place."""
        _limit()
        os.chroot(self.root)
        os.chdir("/w")
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (300, 300))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


def _libraries(program: str) -> list[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+)", listed)


def _commands(trace: str) -> list[tuple[str, ...]]:
    """The commands of one trace, without what the prologue and the stand-in function do."""
    lines = [line for line in re.split(f"{MARK}+", trace) if line]
    for at, line in enumerate(lines):
        if line.startswith("0:enable -n "):
            lines = lines[at + 1 :]
            break
    commands = []
    for line in lines:
        depth, _, words = line.partition(":")
        if depth == "0" and not words.startswith("(( "):  # which computes, and runs nothing
            commands.append(_words(words.removesuffix("\n")))
    return commands


def _words(line: str) -> tuple[str, ...]:
    """A line of a trace, taken apart as bash put it together."""
    words: list[str] = []
    current: str | None = None
    for ansi, single, escaped, plain, blank in _WORD.findall(line):
        if blank:
            if current is not None:
                words.append(current)
            current = None
        else:
            piece = _ansi(ansi) if ansi else single or escaped or plain
            current = (current or "") + piece
    found = words if current is None else [*words, current]
    return tuple(word.encode("latin-1").decode(errors="surrogateescape") for word in found)


def _ansi(text: str) -> str:
    named = {
        "n": "\n",
        "t": "\t",
        "r": "\r",
        "a": "\a",
        "b": "\b",
        "E": "\033",
        "f": "\f",
        "v": "\v",
    }

    def one(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code, 8)) if code[0].isdigit() else named.get(code, code)

    return re.sub(r"\\([0-7]{1,3}|.)", one, text, flags=re.DOTALL)
