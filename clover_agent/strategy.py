"""Which attempts to make: where to look first, and how boldly.

A small model that is shown the right function repairs it with a chance that falls with each try there; a suspect's
score is its chance to be the right one. The next attempt goes where the product of both is largest. The first try at
a place is greedy, later ones are sampled.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clover_agent.prompts import Suspect

CHANCES = (0.5, 0.15, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03)  # of the n-th try at the right place
TEMPERATURE = 0.7
FLOOR = 0.02  # no suspect counts less than this: scores are estimates


@dataclass(frozen=True)
class Attempt:
    """suspects: in the order shown; temperature 0 is greedy."""

    suspects: tuple[Suspect, ...]
    temperature: float
    seed: int


def plan(suspects: Sequence[Suspect], seed: int) -> Iterator[Attempt]:
    """Attempts, best first, until every suspect had its tries."""
    if not suspects:
        for tries in range(len(CHANCES)):
            yield Attempt((), TEMPERATURE if tries else 0.0, seed + tries)
        return
    queue = [(-max(s.score, FLOOR) * CHANCES[0], index, 0) for index, s in enumerate(suspects)]
    heapq.heapify(queue)
    number = 0
    while queue:
        _, index, tries = heapq.heappop(queue)
        first = suspects[index]
        others = [suspect for suspect in suspects if suspect is not first][:2]
        yield Attempt((first, *others), TEMPERATURE if tries else 0.0, seed + number)
        number += 1
        if tries + 1 < len(CHANCES):
            heapq.heappush(queue, (-max(first.score, FLOOR) * CHANCES[tries + 1], index, tries + 1))
