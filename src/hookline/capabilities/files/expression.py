"""What is searched for: a text, or a regular expression that is tried in a process of its own, under a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from typing import IO, Protocol

from hookline.capabilities.files import matching
from hookline.containment.interpreter import alone
from hookline.errors import ToolError

_MATCHING = alone(matching)


class Finder(Protocol):
    """Finds the lines that fit."""

    def find(self, lines: list[str]) -> list[int]:
        """The positions of the lines that fit."""
        ...

    def close(self) -> None:
        """Nothing more is to be found."""
        ...


class TimeIsUpError(Exception):
    """The time limit is over."""


class TextFinder:
    """Looks for a plain text."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        self._fold = str.lower if ignore_case else str
        self._text = self._fold(text)

    def find(self, lines: list[str]) -> list[int]:
        """The positions of the lines that have the text in them."""
        return [at for at, line in enumerate(lines) if self._text in self._fold(line)]

    def close(self) -> None:
        """Nothing to let go of."""


class ExpressionFinder:
    """Looks for a regular expression, in another process that is killed when the time is up."""

    def __init__(self, pattern: str, ignore_case: bool, deadline: float) -> None:
        self._process = subprocess.Popen(
            _MATCHING,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath},
        )
        self._is_late = False
        self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._end)
        self._timer.daemon = True
        self._timer.start()
        wanted = {"pattern": pattern, "ignore_case": ignore_case}
        try:
            answer = self._ask(json.dumps(wanted).encode() + b"\n")
        except BaseException:
            self.close()
            raise
        if isinstance(answer, dict) and "error" in answer:
            self.close()
            raise ToolError(
                f"'{pattern[:200]}' is not a regular expression: {answer['error']}.",
                remedy="Set literal to look for it as plain text.",
            )

    def find(self, lines: list[str]) -> list[int]:
        """The positions of the lines that fit."""
        text = "\n".join(lines).encode("utf-8", "surrogatepass")
        answer = self._ask(len(text).to_bytes(8) + text)
        return answer if isinstance(answer, list) else []

    def _ask(self, question: bytes) -> object:
        try:
            _pipe(self._process.stdin).write(question)
            _pipe(self._process.stdin).flush()
            answer = _pipe(self._process.stdout).readline()
        except OSError:
            answer = b""
        if answer:
            return json.loads(answer)
        if self._is_late:
            raise TimeIsUpError
        raise ToolError(
            f"the search failed: its process ended with code {self._process.wait()}.",
            remedy="Use a simpler pattern, or set literal.",
        )

    def _end(self) -> None:
        self._is_late = True
        self._process.kill()

    def close(self) -> None:
        """End the process."""
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # what could not be sent any more
                _pipe(pipe).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # both were asked for
    return pipe


def finder(pattern: str, *, literal: bool, ignore_case: bool, deadline: float) -> Finder:
    """Who looks for this."""
    if literal:
        return TextFinder(pattern, ignore_case)
    return ExpressionFinder(pattern, ignore_case, deadline)
