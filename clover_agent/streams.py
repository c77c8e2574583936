"""Standard streams whose reader may leave early: a command goes on to its end, and its exit code stays true."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast


@contextmanager
def lasting_streams() -> Iterator[None]:
    """Within, what is written to stdout and stderr after their readers are gone is dropped (`... | head -1`).

    Characters that a stream can't encode are written as escapes.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _lasting(before[0]), _lasting(before[1])
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                give_up(stream)
        sys.stdout, sys.stderr = before


def give_up(stream: TextIO) -> None:
    """Let a stream lead nowhere, so that what its buffer holds raises nothing at exit."""
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
    except (OSError, ValueError):  # no descriptor behind it, or closed
        return


def _lasting(stream: TextIO | None) -> TextIO:
    return cast("TextIO", _Lasting(stream if stream is not None else Path(os.devnull).open("w", encoding="utf-8")))


class _Lasting:
    """A text stream that outlives its reader; everything else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        encoding = self._stream.encoding or "utf-8"
        try:
            return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except BrokenPipeError:
            give_up(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            give_up(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
