"""Which attempts to make: where to look first, and how boldly.

A small model that is shown the right function repairs it with a chance that falls with each try there; a suspect's
score and its rank say how likely it is the right one. The next attempt goes where the product of both is largest. The
tries at one place are the model's most probable edits there, in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clover_agent.prompts import Suspect

# Of the n-th try at the right place to be the repair, and of the n-th suspect to be the right place: as counted in the
# first 108 tasks of the measure (`clover_agent.nano.measure`), smoothed.
CHANCES = (0.22, 0.08, 0.07, 0.04, 0.025, 0.02, 0.015, 0.015, *[0.008] * 8, *[0.004] * 16)
RANKS = (0.64, 0.09, 0.06, 0.03)
LATER_RANKS = 0.02
TRUST = 0.6  # share of a suspect's own score in its weight: coverage is surer of itself than it should be
SLOWDOWN, LEAST_PATIENCE = 5.0, 10.0  # how much slower than on the base a test run may be; seconds it always has


@dataclass(frozen=True)
class Attempt:
    """suspects: in the order shown, the place to work at first."""

    suspects: tuple[Suspect, ...]


def plan(suspects: Sequence[Suspect]) -> Iterator[Attempt]:
    """Attempts, best first, until every suspect had its tries."""
    if not suspects:
        for _ in CHANCES:
            yield Attempt(())
        return
    weights = [TRUST * s.score + (1 - TRUST) * _rank(index) for index, s in enumerate(suspects)]
    queue = [(-weight * CHANCES[0], index, 0) for index, weight in enumerate(weights)]
    heapq.heapify(queue)
    while queue:
        _, index, tries = heapq.heappop(queue)
        first = suspects[index]
        others = [suspect for suspect in suspects if suspect is not first][:2]
        yield Attempt((first, *others))
        if tries + 1 < len(CHANCES):
            heapq.heappush(queue, (-weights[index] * CHANCES[tries + 1], index, tries + 1))


def _rank(index: int) -> float:
    return RANKS[index] if index < len(RANKS) else LATER_RANKS


def patience(base_seconds: float, limit: float) -> float:
    """Seconds a test run of an attempt may take: an edit that loops for ever must not cost the other attempts' time.

    base_seconds: the run on the unchanged repository; limit: seconds at most, whatever the base took.
    """
    return min(limit, max(LEAST_PATIENCE, SLOWDOWN * base_seconds))
