"""Command output: bounded while it is read, clean when it is shown."""

from __future__ import annotations

import re
from typing import Protocol

# Each alternative stops at the next ESC, so that the time is linear whatever the bytes.
_ESCAPE = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    rb"|\x1b[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC
    rb"|\x1b[ -/]*[0-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Sink(Protocol):
    """Where a command's output goes."""

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        ...


class Both:
    """Two sinks as one."""

    def __init__(self, first: Sink, second: Sink) -> None:
        self._first, self._second = first, second

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self._first.add(data)
        self._second.add(data)


class Head:
    """The first and the last bytes of a stream of any length."""

    def __init__(self, head: int, tail: int) -> None:
        self._head_limit, self._tail_limit = head, tail
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._tail_limit :]
            if len(self._tail) > 2 * self._tail_limit:
                del self._tail[: -self._tail_limit]

    @property
    def omitted(self) -> int:
        """Bytes between head and tail."""
        return self.total - len(self._head) - len(self._tail[-self._tail_limit :])

    def text(self) -> str:
        """Head and tail as clean text, with a line between them that counts what is left out."""
        tail = bytes(self._tail[-self._tail_limit :])
        if not self.omitted:
            return clean(bytes(self._head) + tail)
        return f"{clean(bytes(self._head))}\n[... {self.omitted} bytes left out ...]\n{clean(tail)}"


def clean(data: bytes) -> str:
    """Bytes as text without escape sequences and control characters; of lines overwritten by CR the last state."""
    data = _ESCAPE.sub(b"", data)
    if b"\r" in data:
        data = b"\n".join(line.rstrip(b"\r").rpartition(b"\r")[2] for line in data.split(b"\n"))
    return _CONTROL.sub("", data.decode("utf-8", "replace"))
