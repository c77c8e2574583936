"""What an episode may spend, and why it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from clover_agent.messages import Usage


class Ending(StrEnum):
    """Why an episode ended; what it is worth is for the tests to say."""

    FINISHED = "finished"  # the model called finish
    TURNS = "turns"
    TIME = "time"
    TOKENS = "tokens"
    CONTEXT = "context"  # the conversation outgrew the model's context
    STUCK = "stuck"  # the same calls with the same results, over and over
    EXHAUSTED = "exhausted"  # no reply that is worth running is left
    FORMAT = "format"  # turns without a usable tool call, one after another


@dataclass(frozen=True)
class Limits:
    """max_turns: replies of the model. deadline: a time.monotonic(). max_tokens: generated in all. None: no limit."""

    max_turns: int | None = None
    deadline: float | None = None
    max_tokens: int | None = None

    def reached(self, turns: int, usage: Usage) -> Ending | None:
        """The limit that stands in the way of another turn, if any."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return Ending.TIME
        if self.max_turns is not None and turns >= self.max_turns:
            return Ending.TURNS
        if self.max_tokens is not None and usage.completion_tokens >= self.max_tokens:
            return Ending.TOKENS
        return None


def total(usages: list[Usage]) -> Usage:
    """The sum of several replies' costs."""
    return Usage(
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        cached_tokens=sum(usage.cached_tokens for usage in usages),
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        passes=sum(usage.passes for usage in usages),
        commits=sum(usage.commits for usage in usages),
        seconds=sum(usage.seconds for usage in usages),
    )
