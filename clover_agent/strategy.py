"""Which attempts to make: where to look first, and how boldly.

A small model that is shown the right function repairs it with a chance that falls with each try there; a suspect's
score is its chance to be the right one. The next attempt goes where the product of both is largest. The tries at one
place are the model's most probable edits there, in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clover_agent.prompts import Suspect

CHANCES = (
    0.2,
    0.1,
    0.07,
    0.05,
    0.04,
    0.03,
    0.03,
    0.025,
    *[0.02] * 8,
    *[0.01] * 16,
)  # of the n-th try at the right place
SLOWDOWN, LEAST_PATIENCE = 5.0, 10.0  # how much slower than on the base a test run may be; seconds it always has
FLOOR = 0.02  # no suspect counts less than this: scores are estimates


@dataclass(frozen=True)
class Attempt:
    """suspects: in the order shown. tries: attempts made with the same first suspect before."""

    suspects: tuple[Suspect, ...]
    tries: int


def plan(suspects: Sequence[Suspect]) -> Iterator[Attempt]:
    """Attempts, best first, until every suspect had its tries."""
    if not suspects:
        for tries in range(len(CHANCES)):
            yield Attempt((), tries)
        return
    queue = [(-max(s.score, FLOOR) * CHANCES[0], index, 0) for index, s in enumerate(suspects)]
    heapq.heapify(queue)
    while queue:
        _, index, tries = heapq.heappop(queue)
        first = suspects[index]
        others = [suspect for suspect in suspects if suspect is not first][:2]
        yield Attempt((first, *others), tries)
        if tries + 1 < len(CHANCES):
            heapq.heappush(queue, (-max(first.score, FLOOR) * CHANCES[tries + 1], index, tries + 1))


def patience(base_seconds: float, limit: float) -> float:
    """Seconds a test run of an attempt may take: an edit that loops for ever must not cost the other attempts' time.

    base_seconds: the run on the unchanged repository; limit: seconds at most, whatever the base took.
    """
    return min(limit, max(LEAST_PATIENCE, SLOWDOWN * base_seconds))
