"""What a command prints: kept in memory and in a file, shown to the model as text, and reported while it runs."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import itertools
import os
import re
import shutil
import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Literal, TypeAlias

from hookline._temporary import directory_in_tmpdir, temporary_directory
from hookline.containment.links import is_inside_any, real_path
from hookline.containment.sandbox import Excerpt, Place
from hookline.containment.sandbox.tables import HELD
from hookline.errors import BuildError

_FILES = 64
"""How many files of output are kept; the oldest goes first."""
_LONGEST_KEY = 20_000
"""Bytes of a key that is shown in one piece."""


class Scratch:
    """Directories: `tmp` is what commands in the sandbox see as /tmp, `output` has what was too long.

    They live as long as the capability, unless the user named a directory for the output, which stays.
    """

    def __init__(self, output: str | Path | None = None, root: str | Path = ".") -> None:
        self.tmp = directory_in_tmpdir()
        weakref.finalize(self, shutil.rmtree, self.tmp, ignore_errors=True)
        if output is None:
            self.output = temporary_directory()
            where = real_path(os.path.expanduser(root))
            if is_inside_any(self.output, [where]):  # a home, in which that is hidden
                self.output = directory_in_tmpdir()
            weakref.finalize(self, shutil.rmtree, self.output, ignore_errors=True)
        else:
            self.output = Path(output).expanduser().resolve()
        try:
            self.output.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Held open: in a directory of the user's choice, commands of others may put a link in its place.
            way = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
            self._directory = os.open(self.output, way)
            weakref.finalize(self, os.close, self._directory)
        except OSError as error:
            raise BuildError(
                f"Bash: output_dir='{output}' cannot be made ({error.strerror}).",
                remedy="Name a directory that can be written in, or leave it out.",
            ) from None
        self._numbers = itertools.count(1)
        self._files: deque[Path] = deque()

    def check_beside(self, root: Path) -> None:
        """What commands print is kept where they cannot change it, so not in the directory that is theirs."""
        if root == self.output:
            raise BuildError(
                f"Bash: output_dir='{self.output}' is the directory that commands work in.",
                remedy="Name a directory of its own, perhaps one inside it, or leave it out.",
            )

    def new_file(self) -> Path:
        """A name for one more file; the oldest is removed when there are too many."""
        while True:
            path = self.output / f"command-{next(self._numbers)}.txt"
            if not os.path.lexists(path):
                break
        self._files.append(path)
        if len(self._files) > _FILES:
            with contextlib.suppress(OSError):
                os.unlink(self._files.popleft().name, dir_fd=self._directory)
        return path

    def open_new(self, path: Path) -> IO[bytes]:
        """Make a file of such a name. Unbuffered, so that what is there can be read while the command runs."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return open(os.open(path.name, flags, 0o600, dir_fd=self._directory), "wb", buffering=0)


class Output:
    """What one command prints."""

    def __init__(self, scratch: Scratch, size: int) -> None:
        self.excerpt = Excerpt(size)
        self.path: Path | None = None
        """The file that has all of it, once it is longer than can be shown."""
        self._scratch = scratch
        self._size = size
        self._begun = bytearray()
        self._file: IO[bytes] | None = None
        self._kept = 0
        """How many bytes are in the file: not all, if the disk is full."""
        self.unread = Excerpt(size)
        """What was printed since the last poll, without an unfinished line."""
        self._unfinished = bytearray()
        """A line that has not ended, or a key: a secret in two pieces would be recognised in neither."""
        self._causes: set[Cause] = set()
        """What kept the command from something, by all that it printed since this was taken."""
        self._line = b""
        """The end of a line that has not ended, in which there may be half of a sign of that."""

    def add(self, data: bytes) -> None:
        self.excerpt.add(data)
        text = self._line + data
        self._causes |= find_causes(text.decode(errors="replace"))
        self._line = text[text.rfind(b"\n") + 1 :][-_LONGEST_SIGN:]
        self._unfinished += data
        if b"\n" in data:
            end = _end_of_complete(self._unfinished)
            self.unread.add(bytes(self._unfinished[:end]))
            del self._unfinished[:end]
        if self._file is None and self.path is None:
            self._begun += data
            if len(self._begun) > self._size:
                self._to_file()
        elif self._file is not None:
            self._write(data)

    def _to_file(self) -> None:
        self.path = self._scratch.new_file()
        begun, self._begun = bytes(self._begun), bytearray()
        with contextlib.suppress(OSError):  # the directory is gone or full: the command continues
            self._file = self._scratch.open_new(self.path)
            self._write(begun)

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        try:
            written = self._file.write(data)
        except OSError:
            written = 0
        self._kept += written
        if written < len(data):  # a full disk: the command continues
            self._file.close()
            self._file = None

    def take_unread(self, *, is_over: bool) -> tuple[Excerpt, int]:
        """What was printed since the last time, and how many bytes wait for the next time."""
        if is_over:
            self.unread.add(bytes(self._unfinished))
            self._unfinished.clear()
        unread, self.unread = self.unread, Excerpt(self._size)
        return unread, len(self._unfinished)

    def take_causes(self) -> set[Cause]:
        """What kept the command from something since the last time, also by what is left out of the excerpt."""
        causes, self._causes = self._causes, set()
        return causes

    @property
    def where(self) -> str:
        """The file, as text; empty if there is none, or nothing in it."""
        return "" if self.path is None or not self._kept else str(self.path)

    @property
    def note(self) -> str:
        """How much of the output is in the file, for the model."""
        if not self.where:
            return "" if self.path is None else "the rest could not be kept in a file"
        if self._kept < self.excerpt.total:
            return f"only the first {self._kept:,} of {self.excerpt.total:,} bytes could be kept, in {self.where}"
        return f"all {self._kept:,} bytes are in {self.where}"

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _end_of_complete(data: bytearray) -> int:
    """Where the last line ends that can be shown: before a key that has begun and not ended, if it is not too long."""
    end = data.rfind(b"\n") + 1
    begun = data.rfind(b"-----BEGIN ", max(0, end - _LONGEST_KEY), end)
    is_open = begun >= 0 and data.find(b"-----END ", begun, end) < 0
    return data.rfind(b"\n", 0, begun) + 1 if is_open else end


# --- output as a model reads it ----------------------------------------------------------------


_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
"""Colours, cursor movements, titles: meant for a terminal."""
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n\r])")
"""What a line was before it was written over, as progress bars do."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_BLANK = re.compile(r"\s")
_WORD = 300
"""Letters of a word that is cut in two which are left out with the rest: half a token is not known to be one."""

_HELD_NAMES = "|".join(map(re.escape, (".git", ".github", *HELD)))
_CREDENTIALS = (
    'one that needs the user\'s credentials (git push, a private registry) needs place="host"'
)
Cause: TypeAlias = Literal["files", "network", "keys"]
"""What the sandbox keeps a command from."""
_SIGNS: dict[Cause, tuple[str, ...]] = {
    "files": (
        "read-only file system",
        "erofs",
        "readonly database",
        "unable to open database file",
        "device or resource busy",
        "resource busy or locked",
        "invalid cross-device link",
        "exdev:",
    ),
    "network": (
        "ould not resolve host",
        "temporary failure in name resolution",
        "network is unreachable",
        "enotfound",
        "eai_again",
        "failure to look up",
        "name or service not known",
        "dial tcp: lookup",
    ),
    "keys": (
        "permission denied (publickey",
        "could not read username",
        "could not read password",
        "host key verification",
        "authentication failed",
        "eneedauth",
    ),
}
"""What programs print then, in small letters. Plain words: all of a long output is searched for them."""
_HELD_NAME = re.compile(rf"({_HELD_NAMES.lower()})\b")
_AT_NAME = re.compile(": (?:not a directory|file exists|no such device)")
_WORDS: dict[Cause, Mapping[Place, str]] = {
    "files": {
        "read-only": "this command ran in the read-only place: it can write in /tmp and the home directory, and "
        'that is gone with it; place="workspace" lets a command write in {root}, where the mode or a person '
        "agrees",
        "workspace": "only {root} and /tmp can be written here; configuration that other programs run or obey "
        "(.git/config, .git/hooks, .vscode, .claude and their like) and the Python environment that runs this "
        "agent cannot be changed; directories around hidden files cannot be moved, and a rename into or out of them "
        "(git mv) fails where mv copies; a new repository is configuration like any other for later commands: make, "
        'configure and remove it in one command; place="host" runs a command without the sandbox, if a person '
        "agrees",
    },
    "network": {
        "read-only": 'there is no network in the read-only place; network=true with place="workspace" gives it to '
        f"one command, if a person agrees; {_CREDENTIALS}",
        "workspace": "there is no network here; network=true gives it to one command, if a person agrees; "
        f"{_CREDENTIALS}",
    },
    "keys": dict.fromkeys(
        ("read-only", "workspace"), f"there are no credentials here; {_CREDENTIALS}"
    ),
}
_LONGEST_SIGN = 1000
"""Bytes of a line that has not ended which are searched again with the next ones."""


def readable(data: bytes) -> str:
    """Bytes as text: without what is meant for a terminal, and with a mark for what cannot be text."""
    text = _ESCAPES.sub("", data.decode(errors="replace")).replace("\r\n", "\n")
    text = _OVERWRITTEN.sub("", text).replace("\r", "\n")
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\a", "").replace("\b", ""))


def format_output(excerpt: Excerpt, whole: str) -> str:
    """The output; if it is too long, its beginning and its end, and `whole`, which says where all of it is."""
    head, tail = excerpt.parts()
    if not excerpt.left_out:
        return readable(head + tail)
    head, tail = _whole_lines(head, tail)
    between = excerpt.total - len(head) - len(tail)
    where = f"; {whole}" if whole else ""
    return f"{readable(head)}\n[... {between:,} bytes left out here{where} ...]\n{readable(tail)}"


def _whole_lines(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Cut the beginning at the end of a line if one is near, else of a word; the end at a line, whatever is lost.

    The rest of a line that was cut may be a secret whose name is not shown, and by which it would be recognised.
    """
    end, start = head.rfind(b"\n"), tail.find(b"\n")
    head = head[:end] if end > len(head) // 2 else head[: -len(_last_word(head)) or None]
    return head, tail[start + 1 :] if start >= 0 else b""


def _last_word(data: bytes) -> str:
    """What the data ends with, from a blank on."""
    text = data[::-1].decode("latin-1")
    near = text[: min(_WORD, len(text) // 2)]
    blank = _BLANK.search(near)
    return near if blank is None else near[: blank.start()]


_LOCALES = "/usr/share/locale"
_OF_SYSTEM = (
    "Read-only file system",
    "Device or resource busy",
    "Invalid cross-device link",
    "Not a directory",
    "File exists",
    "No such device",
    "Network is unreachable",
    "Temporary failure in name resolution",
    "Name or service not known",
)
"""Messages of the C library that hints are given for, as most programs print them."""


def find_causes(text: str) -> set[Cause]:
    """What the sandbox had to do with what a command printed."""
    for translated, english in _translations():
        text = text.replace(translated, english)
    text = text.lower()
    found = {cause for cause, signs in _SIGNS.items() if any(sign in text for sign in signs)}
    return found | {"files"} if _is_about_held_name(text) else found


def _is_about_held_name(text: str) -> bool:
    """Whether a line has one of these messages behind a name that is held.

    Both in one expression were rejected: a long line with many such names takes the square of its length.
    """
    searched = 0
    for message in _AT_NAME.finditer(text):
        line = text.rfind("\n", searched, message.start()) + 1
        if _HELD_NAME.search(text, max(searched, line), message.start()):
            return True
        searched = message.end()
    return False


def hint(causes: Collection[Cause], root: str, place: Place) -> str:
    """Which argument helps, for the first of these causes."""
    for cause, words in _WORDS.items():
        if cause in causes and place in words:
            return f"\n[the sandbox: {words[place].format(root=root)}]"
    return ""


@cache
def _translations() -> list[tuple[str, str]]:
    """The same messages in the language of the user, which is that of commands too.

    To ask the kernel for each call that fails was rejected: it slows every call down.
    """
    import gettext  # only here: most commands of most people need no hint

    known = gettext.translation("libc", _LOCALES, fallback=True)
    both = ((known.gettext(english), english) for english in _OF_SYSTEM)
    return [(translated, english) for translated, english in both if translated != english]


def format_duration(seconds: float) -> str:
    """A duration in words."""
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


# --- output as progress messages ---------------------------------------------------------------


_PAUSE = 0.05
"""Seconds between two messages."""
_SILENCE = 0.5
"""Seconds after which a line that has not ended is reported: it may be a question."""
_LONGEST_MESSAGE = 8_000
"""Characters in one message. Of more than that, the end is reported."""
_HELD = 8
"""Characters of a word that has not ended from which on it waits for its end: half a secret cannot be recognised."""


_LINE_END = re.compile(r"[\r\n]")


class ProgressMessages:
    """Collects what a command prints, and reports it a few times a second, in whole lines."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._left_out = 0
        self._is_cut = False
        """Whether what comes next is the rest of a line of which the beginning was left out."""
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0
        """When the last message was sent, or the first output after it came."""

    def add(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        if not self._text:
            self._last = loop.time()
        self._text += self._decoder.decode(data)
        if len(self._text) > 2 * _LONGEST_MESSAGE or self._is_cut:
            self._leave_out_beginning()
        if self._timer is not None and self._timer.when() > loop.time() + _PAUSE:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_later(_PAUSE, self._send_due)

    def _leave_out_beginning(self) -> None:
        """Keep the end, from a line's beginning: the rest of a cut line may be a secret whose name is not shown."""
        kept = self._text[-_LONGEST_MESSAGE:]
        found = _LINE_END.search(kept)
        kept = "" if found is None else kept[found.end() :]
        self._is_cut = found is None
        self._left_out += len(self._text) - len(kept)
        self._text = kept

    def _send_due(self) -> None:
        """Report the lines that have ended. The rest follows once nothing has come for a while."""
        self._timer = None
        loop = asyncio.get_running_loop()
        end = max(self._text.rfind("\n"), self._text.rfind("\r")) + 1
        is_waiting = True
        if not end and loop.time() - self._last >= _SILENCE:
            end = len(self._text) - len(_possible_partial_secret(self._text))
            is_waiting = False
        due, self._text = self._text[:end], self._text[end:]
        self._send(due)
        if due:
            self._last = loop.time()
        if self._text and is_waiting:
            self._timer = loop.call_later(_SILENCE, self._send_due)

    def _send(self, text: str, *, is_last: bool = False) -> None:
        text = readable(text.encode(errors="replace"))
        if (text or is_last) and self._left_out:
            text = f"[{self._left_out:,} characters not shown here]\n{text}"
            self._left_out = 0
        if text:
            self._report(text)

    def finish(self) -> None:
        """Report what is left."""
        if self._timer is not None:
            self._timer.cancel()
        self._send(self._text, is_last=True)
        self._text = ""


def _possible_partial_secret(text: str) -> str:
    """The last word of a text, if it may be half of a secret. Dots, as test runners print them, are not."""
    word = text[max(map(text.rfind, " \t\r\n")) + 1 :]
    return word if len(word) >= _HELD and any(map(str.isalnum, word)) else ""
