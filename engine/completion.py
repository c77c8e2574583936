"""A short way to a grammar's end: what a constrained response is closed with when its room runs out."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.toolgrammar import LAST, NEXT

MAX_NODES = 300  # places looked at in one search
MAX_BRANCHES = 24  # single ids tried where none of the pieces fits
# Pieces that close things, then the shortest values, as text, in the order in which they are tried.
_PIECES = (LAST, NEXT, '"', "}", "]", ", ", "0", "1", "true", "null", "{", "[", *"23456789", "a", "A", "-", ".", "\n")


class Closer:
    """Searches for short completions. tokenizer: llguidance's; stop: the id that ends a response; think_end: the one
    that closes a think section, where there is one."""

    def __init__(self, tokenizer: Any, stop: int, think_end: int | None) -> None:
        self._pieces = [[think_end]] if think_end is not None else []
        self._pieces += [list(tokenizer.tokenize_str(text)) for text in _PIECES]
        self._stop = stop

    def completion(self, matcher: Any, limit: int) -> list[int] | None:
        """Ids from the place of `matcher` (not moved) to the end, the stop id included.

        Depth first, what closes before what opens: the first end found, not the shortest there is. None where there
        is none within `limit` ids and the search's bound.
        """
        stack: list[tuple[list[int], Any]] = [([], matcher.deep_copy())]
        for _ in range(MAX_NODES):
            if not stack:
                return None
            path, place = stack.pop()
            if place.is_error():
                continue
            if place.is_accepting() or place.is_stopped():
                return [*path, self._stop]
            for piece in reversed(self._onward(place)):
                if len(path) + len(piece) < limit:
                    following = place.deep_copy()
                    following.consume_tokens(piece)
                    stack.append(([*path, *piece], following))
        return None

    def _onward(self, place: Any) -> list[list[int]]:
        """Ways to go on: what is forced; else the closing pieces that fit; else the first ids that do."""
        forced = list(place.compute_ff_tokens())
        if forced:
            return [forced]
        fitting = [piece for piece in self._pieces if place.validate_tokens(piece) == len(piece)]
        if fitting:
            return fitting
        allowed = np.unpackbits(np.frombuffer(place.compute_bitmask(), dtype=np.uint8), bitorder="little")
        return [[int(token)] for token in np.flatnonzero(allowed)[:MAX_BRANCHES]]
