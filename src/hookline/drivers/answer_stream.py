"""The answer inside a turn of the text protocol, handed on while the turn is still being written."""

from __future__ import annotations

from collections.abc import Callable

from hookline.drivers.fold import Letters

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_KNOWN = ("thought", "calls", "answer")
_LONGEST = max(map(len, _KNOWN))
_OPENINGS = ("", "```", "```json")


class AnswerStream:
    """Hears a turn as it comes and hands on thought and answer, without a letter of the protocol.

    It follows the object only as far as it is what was asked for: a turn that calls tools, or looks any other
    way, is left to the reader of the whole turn, and nothing more is handed on before that.
    """

    def __init__(
        self, hear_answer: Callable[[str], None], hear_thought: Callable[[str], None]
    ) -> None:
        self._hearers = {"answer": hear_answer, "thought": hear_thought}
        self._spoken: dict[str, Letters] = {}
        self._letters: list[str] = []
        self._state: Callable[[str], None] = self._begin
        self._start = ""
        self._key = ""
        self._string = ""
        self._escape = ""

    def feed(self, text: str) -> None:
        """Take the next piece of the turn."""
        for letter in text:
            self._state(letter)
        self._hand_on()

    def _hand_on(self) -> None:
        """What came since the last time, in one piece."""
        if self._letters:
            self._spoken[self._key].add("".join(self._letters))
            self._letters.clear()

    @property
    def answer(self) -> str | None:
        """What was handed on of the answer; None when there was none."""
        spoken = self._spoken.get("answer")
        return spoken.whole() if spoken is not None else None

    @property
    def thought(self) -> str:
        """What was handed on of the thought."""
        spoken = self._spoken.get("thought")
        return spoken.whole() if spoken is not None else ""

    # --- the states: each takes one letter and may set the next state --------------------------------

    def _lost(self, letter: str) -> None:
        """This is not the object that was asked for."""

    def _begin(self, letter: str) -> None:
        """Before the object: nothing, or the opening of a code fence."""
        if letter == "{" and self._start.rstrip() in _OPENINGS:
            self._state = self._before_key
        elif letter.isspace():
            self._pause()
        else:
            self._start += letter
            if not _OPENINGS[-1].startswith(self._start):
                self._state = self._lost

    def _pause(self) -> None:
        """Space before the object, however much of it: it is kept once, where it ends the opening of a fence."""
        if self._start.rstrip() not in _OPENINGS:
            self._state = self._lost
        elif self._start and not self._start.endswith("\n"):
            self._start += "\n"

    def _before_key(self, letter: str) -> None:
        if letter == '"':
            self._string, self._state = "", self._in_key
        elif not (letter.isspace() or letter == ","):
            self._state = self._lost  # the object ends, or is none

    def _in_key(self, letter: str) -> None:
        if letter == '"':
            self._key = self._string
            known = self._key in _KNOWN and self._key not in self._spoken
            self._state = self._before_value if known else self._lost
        elif len(self._string) == _LONGEST:
            self._state = self._lost
        else:
            self._string += letter

    def _before_value(self, letter: str) -> None:
        if letter.isspace() or letter == ":":
            return
        if self._key == "calls":
            self._state = self._in_no_calls if letter == "[" else self._lost
        elif letter == '"':
            self._spoken[self._key] = Letters(self._hearers[self._key])
            self._state = self._in_value
        else:
            self._state = self._lost

    def _in_no_calls(self, letter: str) -> None:
        if not letter.isspace():
            self._state = self._before_key if letter == "]" else self._lost

    def _in_value(self, letter: str) -> None:
        if letter == "\\":
            self._state = self._after_backslash
        elif letter == '"':
            self._hand_on()
            self._state = self._before_key
        else:
            self._letters.append(letter)

    def _after_backslash(self, letter: str) -> None:
        if letter == "u":
            self._escape, self._state = "", self._in_code
        else:
            self._letters.append(_ESCAPES.get(letter, letter))
            self._state = self._in_value

    def _in_code(self, letter: str) -> None:
        self._escape += letter
        if len(self._escape) == 4:
            try:
                self._letters.append(chr(int(self._escape, 16)))
            except ValueError:
                self._letters.append(self._escape)
            self._state = self._in_value
