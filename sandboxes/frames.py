"""The output side of an attached exec: Docker's stream headers taken off, with deadlines."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from typing import Any

_HEADER = struct.Struct(">BxxxI")  # stream number, length; the Engine API's "attach" format
_PIECE = 1 << 18


class Frames:
    """What the Docker library returns for `exec_start(socket=True)`, read and written as plain bytes."""

    def __init__(self, attached: Any, *, send_timeout: float = 120.0) -> None:
        self._attached = attached
        self._socket: socket.socket = getattr(attached, "_sock", attached)
        self._socket.settimeout(send_timeout)
        self._head = b""
        self._left = 0

    def send(self, data: bytes | memoryview) -> None:
        """Write to the command's stdin. Raises OSError when the other end is gone."""
        self._socket.sendall(data)

    def read(self, deadline: float) -> bytes | None:
        """The next piece of output; b"" when the stream has ended, None at the deadline (of time.monotonic)."""
        while not self._left:
            if not self._wait(deadline):
                return None
            piece = self._socket.recv(_HEADER.size - len(self._head))
            if not piece:
                return b""
            self._head += piece
            if len(self._head) == _HEADER.size:
                self._left, self._head = _HEADER.unpack(self._head)[1], b""
        if not self._wait(deadline):
            return None
        piece = self._socket.recv(min(self._left, _PIECE))
        self._left = self._left - len(piece) if piece else 0
        return piece

    def hung_up(self) -> bool:
        """Whether the other end is closed and nothing is left to read."""
        try:
            ready = bool(select.select([self._socket], [], [], 0)[0])
            return ready and not self._socket.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._socket.close()
        with contextlib.suppress(OSError):
            self._attached.close()

    def _wait(self, deadline: float) -> bool:
        pending = getattr(self._socket, "pending", None)  # TLS keeps decrypted bytes to itself
        if pending is not None and pending():
            return True
        left = deadline - time.monotonic()
        return left > 0 and bool(select.select([self._socket], [], [], left)[0])
