"""An assistant turn while it grows: which of the new text is reasoning, content or a tool call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.toolcalls import CLOSE, OPEN, THINK_CLOSE, THINK_OPEN

Kind = Literal["reasoning", "content", "call"]

# What ends each kind, and what the text is from there on.
_NEXT: dict[Kind, tuple[str, Kind]] = {
    "reasoning": (THINK_CLOSE, "content"),
    "content": (OPEN, "call"),
    "call": (CLOSE, "content"),
}


@dataclass(frozen=True)
class Segment:
    """New text of one kind, tags left out. Segments of the same kind follow on from each other."""

    kind: Kind
    text: str


class SegmentStream:
    """Splits final ids, as they come, into segments. For display: the finished turn is read by `parse_reply`."""

    def __init__(self, decode: Callable[[Sequence[int]], str], *, thinking: bool = False) -> None:
        """decode: ids to text (`Tokenizer.decode`). thinking: the prompt left the think block open."""
        self._decode = decode
        self._ids: list[int] = []
        self._shown = 0
        self._kind: Kind = "reasoning" if thinking else "content"

    def feed(self, ids: Sequence[int], *, final: bool = False) -> list[Segment]:
        """Segments that `ids` add. The start of a tag, or of a character, is held back until it is decided or
        `final` says that nothing follows."""
        self._ids.extend(ids)
        text = self._decode(self._ids)
        if not final:
            text = text.rstrip("\ufffd")
        segments: list[Segment] = []
        while True:
            tag, following = _NEXT[self._kind]
            if self._kind == "content" and not text[: self._shown].strip() and THINK_OPEN in text[self._shown :]:
                tag, following = THINK_OPEN, "reasoning"
            at = text.find(tag, self._shown)
            end = at if at >= 0 else len(text) - (0 if final else _held(text[self._shown :]))
            if end > self._shown:
                segments.append(Segment(self._kind, text[self._shown : end]))
            self._shown = max(self._shown, end)
            if at < 0:
                return segments
            self._shown = at + len(tag)
            self._kind = following


def _held(text: str) -> int:
    """Length of the longest end of `text` that begins a tag without being one."""
    tags = (THINK_OPEN, THINK_CLOSE, OPEN, CLOSE)
    lengths = range(max(map(len, tags)) - 1, 0, -1)
    return next((n for n in lengths if any(len(tag) > n and text.endswith(tag[:n]) for tag in tags)), 0)
