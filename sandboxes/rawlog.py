"""Raw output on disk: all that a command printed, up to a limit, escape sequences and all."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import IO

from sandboxes.files import Files
from sandboxes.protocol import SandboxError

SHOWN = 8 << 20  # bytes of one command's output that are put where commands can read them
KEPT = 4  # commands whose output is there
_IN_MEMORY = 64 << 10  # bytes below which no file is made on disk


class RawLog:
    """The first bytes of a stream, in a file."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file, self._left = file, limit
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes; what is beyond the limit, or does not fit on the disk, is dropped."""
        data = data[: self._left]
        if not data:
            return
        try:
            self._file.write(data)
        except OSError:
            self._left = 0
            return
        self._left -= len(data)
        self.size += len(data)

    def read(self, limit: int) -> bytes:
        """The first `limit` bytes."""
        self._file.seek(0)
        return self._file.read(limit)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()


class Logs:
    """The raw outputs of one sandbox's commands. folder: where they are kept on this machine (None: nowhere)."""

    def __init__(self, files: Files, folder: Path | None, limit: int) -> None:
        self._files, self._folder, self._left = files, folder, limit
        self._count = 0

    def begin(self) -> RawLog:
        """The log of the next command. Raises SandboxError."""
        self._count += 1
        if self._folder is None or self._left <= 0:
            return RawLog(tempfile.SpooledTemporaryFile(_IN_MEMORY), SHOWN)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = (self._folder / f"command-{self._count:04}.log").open("w+b")
        except OSError as fault:
            raise SandboxError(f"no log can be written to {self._folder}: {fault.strerror or fault}") from None
        return RawLog(file, self._left)

    def end(self, log: RawLog, *, show: bool) -> str:
        """Close a command's log. show: also put it into the sandbox; returns its path there, else ""."""
        path = ""
        if self._folder is not None:
            self._left -= log.size
        if show:
            with contextlib.suppress(SandboxError, OSError):  # a sandbox without room has no log
                path = self._files.put_private(f"output/{self._count}.log", log.read(SHOWN))
                self._files.drop_private(f"output/{self._count - KEPT}.log")
        log.close()
        return path
