"""The beginning and the end of something that may be too long to keep."""

from __future__ import annotations

from collections import deque


class Excerpt:
    """Keeps the first half and the last half of what fits, and counts what is left out between them."""

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0
        """How many bytes there were."""

    def add(self, data: bytes) -> None:
        """Take what comes next."""
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size - len(self._tail[0]) >= self._half:
                self._tail_size -= len(self._tail.popleft())

    @property
    def left_out(self) -> int:
        """How many bytes are missing in the middle."""
        return max(0, self.total - len(self._head) - self._half)

    def parts(self) -> tuple[bytes, bytes]:
        """The beginning and the end; the end begins where the beginning ends if nothing is left out."""
        tail = b"".join(self._tail)
        return bytes(self._head), tail[-self._half :] if self._tail_size else b""

    def joined(self) -> bytes:
        """Both, with a line between them that says how much is left out."""
        head, tail = self.parts()
        if not self.left_out:
            return head + tail
        return head + f"\n[... {self.left_out:,} bytes left out ...]\n".encode() + tail
