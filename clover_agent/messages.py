"""Messages between the agent and a model, independent of any backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """One call. arguments: None when it could not be read; `error` then names the fault, `raw` is the text."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    error: str = ""
    raw: str = ""


@dataclass(frozen=True)
class Message:
    """role: system, user, assistant or tool. A tool message answers `tool_call_id`."""

    role: str
    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True)
class Usage:
    """Cost of one reply. passes: block previews; commits: causal passes after the prompt; seconds: wall time."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    passes: int = 0
    commits: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Reply:
    """One turn of a model. finish_reason: stop, length, tool_calls."""

    message: Message
    finish_reason: str
    usage: Usage = Usage()
