"""What a response took, added up step by step."""

from __future__ import annotations

import time
from collections import Counter

from engine.decode.run import Step
from engine.events import Finished


class Tally:
    """Counts of one response; time runs from the object's making."""

    def __init__(self, prompt_tokens: int) -> None:
        self._started = time.monotonic()
        self._prompt_tokens = prompt_tokens
        self._prompt_seconds = 0.0
        self._first = 0.0
        self._counts: Counter[str] = Counter()
        self._modes: Counter[str] = Counter()

    def prompt_read(self) -> None:
        """The prompt has been read."""
        self._prompt_seconds = time.monotonic() - self._started

    def add(self, step: Step) -> None:
        """Count a step."""
        if step.tokens and not self._counts["tokens"]:
            self._first = time.monotonic() - self._started
        self._counts.update(
            tokens=len(step.tokens),
            passes=step.passes,
            commits=step.commits,
            rounds=bool(step.drafted),
            drafted=step.drafted,
            accepted=step.accepted,
        )
        if step.mode:
            self._modes[step.mode] += len(step.tokens)

    def finished(self, reason: str, cached_tokens: int) -> Finished:
        """The report at the end."""
        counts = self._counts
        return Finished(
            reason,
            self._prompt_tokens,
            counts["tokens"],
            counts["passes"],
            counts["commits"],
            cached_tokens,
            time.monotonic() - self._started,
            self._first,
            self._prompt_seconds,
            counts["rounds"],
            counts["drafted"],
            counts["accepted"],
            dict(self._modes),
        )
