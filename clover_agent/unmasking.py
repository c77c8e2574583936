"""A reply of the block-diffusion model as it is written: masked cells in the terminal fill as passes resolve them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TextIO

from engine.events import BlockUpdate, Event, Finished, Tokens

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MARGIN = "  │ "
_MASK = "░░"
_DIM, _FRESH, _PLAIN = "\x1b[2m", "\x1b[1;32m", "\x1b[0m"


@dataclass(frozen=True)
class Terminal:
    """What a stream can show. live: lines may be redrawn; colour: styles may be used; width: columns."""

    live: bool
    colour: bool
    width: int = 80

    @classmethod
    def of(cls, stream: TextIO) -> Terminal:
        """Live only on a real terminal; `NO_COLOR` (any value) and `TERM=dumb` are honoured."""
        live = stream.isatty() and os.environ.get("TERM") != "dumb"
        return cls(live, live and not os.environ.get("NO_COLOR"), shutil.get_terminal_size().columns)


class Unmasking:
    """Draws the engine's events on a stream.

    Text that is final stays above; below it the current block is drawn over and over, `░░` where a token is still
    masked, what the last pass resolved highlighted. On a stream that is no terminal only final lines are written.
    decode: text of token ids. mask_id: the id of unresolved rows. hidden: ids that stand for nothing (padding).
    """

    def __init__(
        self,
        stream: TextIO,
        decode: Callable[[Sequence[int]], str],
        mask_id: int,
        hidden: frozenset[int] = frozenset(),
        terminal: Terminal | None = None,
    ) -> None:
        self._stream, self._decode, self._mask_id, self._hidden = stream, decode, mask_id, hidden
        self._terminal = terminal or Terminal.of(stream)
        self._tail: list[int] = []  # final ids of the line that is not complete yet
        self._previous: tuple[int, ...] = ()
        self._drawn = 0

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case BlockUpdate():
                self._draw(event.tokens)
            case Tokens():
                self._previous = ()
                self._keep(event.ids)
            case Finished():
                self.settle()
                self._write_line(cost(event), _DIM)

    def settle(self) -> None:
        """End the live region, so that other output may follow: what is final of it stays."""
        self._erase()
        text = self._text(self._tail)
        self._tail, self._previous = [], ()
        if text.strip():
            self._write_line(_MARGIN + text)
        self._stream.flush()

    def _keep(self, ids: Sequence[int]) -> None:
        self._erase()
        self._tail.extend(ids)
        *lines, rest = self._text(self._tail).split("\n")
        if lines:
            for line in lines:
                self._write_line(_MARGIN + line)
            self._tail = self._ids_of_rest(rest)
        self._stream.flush()

    def _ids_of_rest(self, rest: str) -> list[int]:
        """The fewest last ids whose text ends in `rest`: tokens may hold a line end and more."""
        count = 0
        while count < len(self._tail) and len(self._text(self._tail[len(self._tail) - count :])) < len(rest):
            count += 1
        return self._tail[len(self._tail) - count :] if rest else []

    def _draw(self, tokens: tuple[int, ...]) -> None:
        if not self._terminal.live:
            return
        pieces = [(self._text(self._tail).rpartition("\n")[2], "")]
        for row, token in enumerate(tokens):
            if token == self._mask_id:
                pieces.append((_MASK, _DIM))
            else:
                fresh = row >= len(self._previous) or self._previous[row] != token
                pieces.append((self._text([token]), _FRESH if fresh else ""))
        self._previous = tokens
        self._erase()
        lines = self._wrapped(pieces)
        self._stream.write("".join(line + "\n" for line in lines))
        self._stream.flush()
        self._drawn = len(lines)

    def _wrapped(self, pieces: Sequence[tuple[str, str]]) -> list[str]:
        """Pieces of text with their styles as terminal lines no wider than the terminal."""
        room = max(8, self._terminal.width - len(_MARGIN) - 1)
        lines, used = [_MARGIN], 0
        for text, style in pieces:
            for i, row in enumerate(text.split("\n")):
                if i:
                    lines.append(_MARGIN)
                    used = 0
                start = 0
                while start < len(row):
                    if used >= room:
                        lines.append(_MARGIN)
                        used = 0
                    cut = row[start : start + room - used]
                    lines[-1] += self._styled(cut, style)
                    start, used = start + len(cut), used + len(cut)
        return lines

    def _text(self, ids: Sequence[int]) -> str:
        """Text of ids, made harmless for a terminal."""
        shown = [token for token in ids if token not in self._hidden]
        return harmless(self._decode(shown)) if shown else ""

    def _styled(self, text: str, style: str) -> str:
        return f"{style}{text}{_PLAIN}" if self._terminal.colour and style else text

    def _write_line(self, line: str, style: str = "") -> None:
        self._stream.write(self._styled(line, style) + "\n")

    def _erase(self) -> None:
        if self._drawn:
            self._stream.write(f"\x1b[{self._drawn}A\r\x1b[J")
            self._drawn = 0


def harmless(text: str) -> str:
    """Text that can't steer a terminal: no control characters but line ends, tabs as blanks."""
    return _CONTROL.sub("", text.replace("\t", "    "))


def cost(event: Finished) -> str:
    """What a reply cost, in one line."""
    passes = event.passes + event.commits
    rate = event.completion_tokens / passes if passes else 0.0
    return (
        f"    {event.completion_tokens} tokens in {event.passes} previews and {event.commits} commits"
        f" ({rate:.1f} tokens a pass), {event.seconds:.1f} s"
    )
