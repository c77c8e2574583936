"""The append-only log of a session: JSON lines, on disk at the end of every turn."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from clover_agent.events import EpisodeEnded, EpisodeStarted, Noted, Replied, ToolEnded
from clover_agent.messages import Message, ToolCall

_DURABLE = (EpisodeStarted, Replied, ToolEnded, EpisodeEnded)


class EventLog:
    """An observer that writes what it sees, one object a line: `event`, `time` (seconds since 1970) and the fields.

    The engine's events are left out, since a reply holds their outcome. `note` adds lines of any other kind.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("a", encoding="utf-8")

    def __call__(self, event: object) -> None:
        """Write an agent's event."""
        if isinstance(event, (*_DURABLE, Noted)):
            self.note(type(event).__name__, durable=isinstance(event, _DURABLE), **_fields(event))

    def note(self, kind: str, *, durable: bool = True, **fields: Any) -> None:
        """Write a line; `durable`: wait until it is on the disk."""
        row = {"event": kind, "time": round(time.time(), 3), **fields}
        self._file.write(json.dumps(row, ensure_ascii=True, default=str) + "\n")
        self._file.flush()
        if durable:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Safe to call twice."""
        self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _fields(event: object) -> dict[str, Any]:
    assert dataclasses.is_dataclass(event)
    row: dict[str, Any] = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    if isinstance(event, ToolEnded):  # reports and other structured extras have their own place in results
        observation = event.observation
        row["observation"] = {
            "text": observation.text,
            "is_error": observation.is_error,
            "finished": observation.finished,
            "changed": list(observation.changed),
        }
    return {key: _plain(value) for key, value in row.items()}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def read_log(path: Path) -> tuple[list[dict[str, Any]], str]:
    """The lines of a log, and a notice where its last line was only half written and is left out.

    Raises ValueError, one line, for a log that is broken elsewhere.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError
        except ValueError:
            if number == len(lines):
                return rows, f"{path}: the last line was not written completely and is left out"
            raise ValueError(f"{path}, line {number}: not a line of a session log") from None
        rows.append(row)
    return rows, ""


def conversation(rows: list[dict[str, Any]]) -> list[Message]:
    """The messages of the last episode in a log, ready to go on from.

    A call whose result was never written gets the result `interrupted`, so that every call has one.
    """
    messages: list[Message] = []
    open_calls: dict[str, None] = {}
    for row in rows:
        match row["event"]:
            case "EpisodeStarted":
                messages, open_calls = [_message(entry) for entry in row["messages"]], {}
            case "Replied":
                messages.append(_message(row["reply"]["message"]))
                open_calls = {call.id: None for call in messages[-1].tool_calls}
            case "ToolEnded":
                open_calls.pop(row["call"]["id"], None)
                messages.append(Message("tool", row["observation"]["text"], tool_call_id=row["call"]["id"]))
            case "Noted":
                messages.append(_message(row["message"]))
    return [*messages, *(Message("tool", "[interrupted]", tool_call_id=identity) for identity in open_calls)]


def _message(row: Mapping[str, Any]) -> Message:
    calls = tuple(ToolCall(**call) for call in row["tool_calls"])
    return Message(row["role"], row["content"], row["reasoning"], calls, row["tool_call_id"])
