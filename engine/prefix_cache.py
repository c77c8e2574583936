"""Committed states kept by the tokens that led to them, so that the next turn only reads what is new.

A recurrent state can't be cut back to a shorter prefix, so states are kept at chosen points (the end of a prompt,
the end of a response's committed part) and found by whole-prefix match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor


class State(Protocol):
    """What the cache needs of a committed state."""

    @property
    def nbytes(self) -> int:
        """Memory that the state's tensors take."""
        ...

    def clone(self) -> Any:
        """An independent copy."""
        ...


@dataclass(frozen=True)
class Snapshot:
    """`state` after exactly `tokens`; `logits` [1, vocab] of the last of them where they were computed."""

    tokens: tuple[int, ...]
    state: State
    logits: Tensor | None


class PrefixCache:
    """A few snapshots, the least recently used dropped first, within a bound of entries and of bytes."""

    def __init__(self, max_bytes: int, max_entries: int = 6) -> None:
        """`max_bytes` 0 turns the cache off."""
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._entries: list[Snapshot] = []  # most recently used last

    def find(self, tokens: Sequence[int]) -> Snapshot | None:
        """The longest snapshot whose tokens begin `tokens`; one of all of them counts only if it has logits.

        The snapshot's state is the cache's own: clone it before advancing it.
        """
        wanted = tuple(tokens)

        def fits(entry: Snapshot) -> bool:
            length = len(entry.tokens)
            if length == len(wanted) and entry.logits is None:
                return False
            return length <= len(wanted) and wanted[:length] == entry.tokens

        best = max(filter(fits, self._entries), key=lambda entry: len(entry.tokens), default=None)
        if best is not None:
            self._entries = [entry for entry in self._entries if entry is not best] + [best]
        return best

    def put(self, tokens: Sequence[int], state: State, logits: Tensor | None = None) -> None:
        """Keep `state`, which belongs to the cache from now on. A state over the whole bound is not kept."""
        if state.nbytes > self._max_bytes:
            return
        snapshot = Snapshot(tuple(tokens), state, logits)
        self._entries = [entry for entry in self._entries if entry.tokens != snapshot.tokens] + [snapshot]
        while len(self._entries) > self._max_entries or self.nbytes > self._max_bytes:
            del self._entries[0]

    def clear(self) -> None:
        """Drop every snapshot."""
        self._entries = []

    @property
    def nbytes(self) -> int:
        """Memory that all states in the cache take."""
        return sum(entry.state.nbytes for entry in self._entries)
