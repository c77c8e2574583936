"""A short way to a grammar's end: what a constrained response is closed with when its room runs out."""

from __future__ import annotations

import heapq
import itertools
from typing import Any

import numpy as np

from engine.toolgrammar import LAST, NEXT

MAX_NODES = 600  # places looked at in one search
MAX_BRANCHES = 24  # single ids tried where none of the pieces fits
# Pieces that close things or are the shortest values, as text. Structural text that leaves no choice follows by itself.
_PIECES = ('"', "}", "]", "0", "a", "1", "true", "null", ", ", '"a"', "-", ".", "e", "{", "[", "\n", ":", "T", "Z", "@")


class Closer:
    """Searches for short completions. tokenizer: llguidance's; stop: the id that ends a response."""

    def __init__(self, tokenizer: Any, stop: int) -> None:
        texts = (LAST, NEXT, *_PIECES)
        self._pieces = [list(tokenizer.tokenize_str(text)) for text in texts]
        self._stop = stop

    def completion(self, matcher: Any, limit: int) -> list[int] | None:
        """Ids from the place of `matcher` (not moved) to the end, the stop id included: the shortest of what a few
        closing pieces can reach. None where there is none within `limit` ids and the search's bound."""
        order = itertools.count()
        queue: list[tuple[int, int, list[int], Any]] = [(0, next(order), [], matcher.deep_copy())]
        nodes = 0
        while queue and nodes < MAX_NODES:
            _, _, path, place = heapq.heappop(queue)
            nodes += 1
            if place.is_accepting() or place.is_stopped():
                return None if place.is_error() or len(path) >= limit else [*path, self._stop]
            for piece in self._onward(place):
                if len(path) + len(piece) >= limit:
                    continue
                following = place.deep_copy()
                following.consume_tokens(piece)
                if following.is_error():
                    continue
                heapq.heappush(queue, (len(path) + len(piece), next(order), [*path, *piece], following))
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
