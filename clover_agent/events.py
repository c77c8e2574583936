"""What an agent tells while it works. The engine's own events (engine/events.py) travel the same way, unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clover_agent.limits import Ending
from clover_agent.messages import Message, Reply, ToolCall
from tools.protocol import Observation

Observer = Callable[[object], None]
"""Receives events as they happen. It must not raise, and should return fast."""


@dataclass(frozen=True)
class EpisodeStarted:
    """attempt: number of the episode in its task, from 1. model: the backend's name."""

    attempt: int
    model: str
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class Replied:
    """The model's turn is complete. turn: from 1."""

    turn: int
    reply: Reply


@dataclass(frozen=True)
class ToolStarted:
    """A call is about to run."""

    call: ToolCall


@dataclass(frozen=True)
class ToolEnded:
    """A call has run. valid: it could be read and fitted its tool's schema, whatever came of it."""

    call: ToolCall
    observation: Observation
    valid: bool
    seconds: float


@dataclass(frozen=True)
class Noted:
    """The harness told the model something that no tool said."""

    message: Message


@dataclass(frozen=True)
class EpisodeEnded:
    """claim: the outcome the model named in `finish`, empty without."""

    attempt: int
    ending: Ending
    claim: str = ""
    summary: str = ""


def ignore(event: object) -> None:
    """The observer that looks away."""
