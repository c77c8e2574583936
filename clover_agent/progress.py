"""What a long command is doing now, for whoever watches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """A new stage, in a short line."""

    text: str
