"""The seam between the agent loop and any model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from clover_agent.messages import Message, Reply
from tools.protocol import Tool


class ReplyChoice(Protocol):
    """Says which replies are wanted. Backends that can't search give their one reply."""

    def accepts(self, message: Message) -> bool:
        """Whether this reply will do."""
        ...

    def guide(self, text: str) -> str | None:
        """What must follow the beginning `text` of a reply; "" where the model is free, None where nothing can."""
        ...

    def prior(self, text: str) -> float:
        """Natural-log weight, at most 0, of what the beginning `text` of a reply has settled; 0 where nothing."""
        ...


@dataclass(frozen=True)
class Sampling:
    """Per-request knobs; None means the model's own default."""

    temperature: float | None = None
    seed: int | None = None
    max_new_tokens: int | None = None
    deadline: float | None = None  # time.monotonic() at which generation stops with finish_reason "length"
    choice: ReplyChoice | None = None  # look for the most probable reply that this accepts


class BackendError(Exception):
    """The model can't answer; one line that says what to do. retryable: worth another try later (exit code 75)."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class ContextOverflow(BackendError):
    """The conversation and the reply do not fit the model's context."""


class NoReplyLeft(BackendError):
    """Every reply that `Sampling.choice` accepts has been given, or the time to look for one is over."""


class Backend(Protocol):
    """A model that answers one turn."""

    name: str
    profile: str  # "compact": small model, short prompts, tools known by heart; "full": everything spelled out

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        sampling: Sampling,
        on_event: Callable[[Any], None] | None = None,
    ) -> Reply:
        """One assistant turn. `on_event` receives the engine's events as they happen. Raises BackendError."""
        ...
