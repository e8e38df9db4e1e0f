"""Calls as they were made, where what is kept of them is redacted: in memory, for as long as the process lives."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict

import msgspec

from hookline.state import ToolCall

_MOST_BYTES = 64 * 2**20
"""Of arguments that are kept. The oldest are dropped first; the calls they belong to are then not run."""


class Originals:
    """The arguments of redacted calls, by what `ToolCall.redacted` says.

    That is a keyed hash. The key is random and never leaves the process, so nobody can find the arguments by trying.
    A plain hash was rejected: all of a command but its password is in the journal, and passwords can be guessed. A
    random number was rejected: an answer "for this session" would not be found again for the same call.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._key = secrets.token_bytes(32)
        self._kept: OrderedDict[str, tuple[ToolCall, ToolCall, int]] = OrderedDict()
        self._bytes = 0
        self._most_bytes = most_bytes
        self._lock = threading.Lock()

    def keep(self, call: ToolCall, shown: ToolCall) -> ToolCall:
        """Keep a call. Gives what is shown of it, with the name by which it is found again."""
        content = msgspec.json.encode([call.name, call.args], order="deterministic")
        name = hmac.new(self._key, content, hashlib.sha256).hexdigest()[:32]
        shown = msgspec.structs.replace(shown, redacted=name)
        with self._lock:
            if name in self._kept:
                self._bytes -= self._kept.pop(name)[2]
            self._kept[name] = call, shown, len(content)
            self._bytes += len(content)
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1][2]
        return shown

    def find(self, shown: ToolCall) -> ToolCall | None:
        """The call as it was made; None if this process does not have it, or something else is shown than then."""
        with self._lock:
            known = self._kept.get(shown.redacted)
        if known is None:
            return None
        call, then, _ = known
        if (then.name, then.args) != (shown.name, shown.args):
            return None
        return ToolCall(shown.id, call.name, call.args)


ORIGINALS = Originals()
"""One for the process: an agent that is built anew for each request finds what the one before it kept."""


def original(call: ToolCall) -> ToolCall:
    """The call as it was made, where this process knows it; otherwise the call as it is shown."""
    return (ORIGINALS.find(call) or call) if call.redacted else call
