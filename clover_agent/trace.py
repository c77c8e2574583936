"""Every pass of a generation, drawn as lines: what was masked, what was filled, how sure the model was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from clover_agent.unmasking import harmless
from engine.events import BlockUpdate, Event, Finished, Tokens

_MASK = "░"


class Trace:
    """Writes a line a pass. decode: text of token ids; mask_id: the id of unresolved rows."""

    def __init__(self, stream: TextIO, decode: Callable[[Sequence[int]], str], mask_id: int) -> None:
        self._stream, self._decode, self._mask_id = stream, decode, mask_id
        self._block, self._previous = -1, ()

    def __call__(self, event: Event) -> None:
        """Draw one event."""
        match event:
            case BlockUpdate():
                self._pass(event)
            case Tokens():
                fixed = self._previous[: len(event.ids)] == event.ids  # a block that was drawn as it filled
                if not fixed:
                    pairs = zip(event.ids, event.confidence, strict=True)
                    self._line("tokens", " ".join(self._filled(token, sure) for token, sure in pairs))
                self._previous = ()
            case Finished():
                self._line("end", f"{event.reason}: {event.passes} previews, {event.commits} causal passes")

    def _pass(self, event: BlockUpdate) -> None:
        before = self._previous if event.block == self._block else (self._mask_id,) * len(event.tokens)
        self._block, self._previous = event.block, event.tokens
        picture = "".join(_MASK if token == self._mask_id else self._text(token) for token in event.tokens)
        new = [
            f"{row}:{self._filled(token, event.confidence[row])}"
            for row, token in enumerate(event.tokens)
            if token not in (self._mask_id, before[row])
        ]
        self._line(f"block {event.block} pass {event.pass_index}", f"{picture}  + {' '.join(new)}")

    def _filled(self, token: int, sureness: float) -> str:
        return f"{self._text(token)!r} {sureness:.2f}"

    def _text(self, token: int) -> str:
        return harmless(self._decode([token])).replace("\n", "⏎")

    def _line(self, head: str, text: str) -> None:
        self._stream.write(f"{head:>16} │ {text}\n")
        self._stream.flush()
