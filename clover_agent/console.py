"""Progress of a fix on a stream: what is happening now, and since when."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TextIO

from clover_agent.events import EpisodeEnded, Noted, ToolEnded, ToolStarted
from clover_agent.limits import Ending
from clover_agent.progress import Progress
from clover_agent.unmasking import Unmasking, harmless
from engine.events import BlockUpdate, Finished, Tokens
from tools.render import render_report

_WIDTH = 100
_ENDINGS = {
    Ending.TURNS: "too many turns",
    Ending.TIME: "out of time",
    Ending.TOKENS: "too many tokens",
    Ending.CONTEXT: "the conversation outgrew the model's context",
    Ending.STUCK: "going round in circles",
    Ending.EXHAUSTED: "no further edit is worth a try",
    Ending.FORMAT: "no usable tool calls",
}


class Console:
    """An observer that writes one line a step, each with the seconds since it was made.

    blocks: also draws the model's blocks as they are unmasked. Without it a reply is silent until its calls run.
    """

    def __init__(self, stream: TextIO, blocks: Unmasking | None = None) -> None:
        self._stream, self._blocks = stream, blocks
        self._start = time.monotonic()

    def __call__(self, event: object) -> None:
        """Show one event; those of no interest are passed over."""
        match event:
            case BlockUpdate() | Tokens() | Finished():
                if self._blocks:
                    self._blocks(event)
            case Progress():
                self.say(event.text)
            case ToolStarted() if event.call.arguments is not None and event.call.name != "finish":
                self.say(f"  {event.call.name} {brief(event.call.name, event.call.arguments)}".rstrip())
            case ToolEnded() if event.observation.is_error:
                self.say(f"  refused: {event.observation.text}")
            case ToolEnded() if report := (event.observation.data or {}).get("report"):
                self.say(_tests(render_report(report)))
            case ToolEnded() if event.call.name == "run_tests":
                self.say(_tests(event.observation.text))
            case EpisodeEnded() if event.ending in _ENDINGS:
                self.say(f"  attempt ended: {_ENDINGS[event.ending]}")
            case EpisodeEnded() if event.claim:
                self.say(f"  the model says {event.claim}: {event.summary}")
            case Noted():
                self.say("  no tool call in the reply")

    def say(self, text: str) -> None:
        """One line, made harmless and cut at a hundred characters."""
        if self._blocks:
            self._blocks.settle()
        line = harmless(" ".join(text.rstrip().split("\n")))
        line = line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
        self._stream.write(f"[{time.monotonic() - self._start:6.1f} s] {line}\n")
        self._stream.flush()


def _tests(report: str) -> str:
    return f"  {report.partition(chr(10))[0].removesuffix(' The first:')}"


def brief(name: str, arguments: Mapping[str, Any]) -> str:
    """What a call is about, in a few words."""
    match name, arguments:
        case "view", {"path": path, "view_range": [first, last]}:
            return f"{path}:{first}-{last}"
        case "str_replace", {"path": path, "line": line}:
            return f"{path}:{line}"
        case "insert", {"path": path, "line": line}:
            return f"{path}:{line}"
        case "terminal", {"command": command}:
            return str(command)
        case "search", {"pattern": pattern}:
            return repr(pattern)
        case _:
            return str(arguments.get("path") or arguments.get("tests") or "")
