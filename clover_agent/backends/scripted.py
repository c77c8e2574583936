"""A backend that answers from a list: agent, command line and TUI are tested and shown with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clover_agent.backends.protocol import BackendError, Sampling
from clover_agent.backends.replies import reply_from_text
from clover_agent.messages import Message, Reply, ToolCall
from tools.protocol import Tool

Answer = Reply | str
Item = Answer | Callable[[Sequence[Message]], Answer]


class ScriptedBackend:
    """Gives its items in order: a Reply, an assistant text in tool-call form, or a function of the messages.

    requests: the messages of every call so far, for a test to look at.
    """

    def __init__(self, items: Sequence[Item], *, name: str = "scripted", profile: str = "compact") -> None:
        self.name = name
        self.profile = profile
        self.requests: list[tuple[Message, ...]] = []
        self._items = list(items)

    @classmethod
    def load(cls, path: str | Path, *, profile: str = "compact") -> ScriptedBackend:
        """Read a script: a JSON list of assistant texts and of `{"content", "reasoning", "tool_calls": [{"name",
        "arguments"}], "finish_reason"}`. Raises BackendError, one line."""
        try:
            items = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as fault:
            raise BackendError(f"script {path} can't be read: {fault}") from None
        if not isinstance(items, list):
            raise BackendError(f"script {path} must be a JSON list of replies")
        return cls([_item(entry, f"script {path}, reply {i}") for i, entry in enumerate(items, 1)], profile=profile)

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        sampling: Sampling,
        on_event: Callable[[Any], None] | None = None,
    ) -> Reply:
        """The next item. Raises BackendError when the script is at its end."""
        if len(self.requests) == len(self._items):
            raise BackendError(f"the script has no reply left after {len(self._items)}")
        item = self._items[len(self.requests)]
        self.requests.append(tuple(messages))
        answer = item(messages) if callable(item) else item
        if isinstance(answer, Reply):
            return answer
        return reply_from_text(answer, tools, first_call=1 + sum(len(message.tool_calls) for message in messages))


def _item(entry: Any, where: str) -> Answer:
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, Mapping) or not isinstance(entry.get("tool_calls", []), list):
        raise BackendError(f"{where} must be a text, or an object with content and tool_calls")
    calls = []
    for i, call in enumerate(entry.get("tool_calls", []), 1):
        if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
            raise BackendError(f"{where}: every tool call needs a name")
        calls.append(ToolCall(str(call.get("id", f"{where} call {i}")), call["name"], call.get("arguments", {})))
    message = Message("assistant", str(entry.get("content", "")), str(entry.get("reasoning", "")), tuple(calls))
    return Reply(message, str(entry.get("finish_reason", "tool_calls" if calls else "stop")))
