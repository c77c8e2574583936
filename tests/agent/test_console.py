"""Progress lines."""

from __future__ import annotations

import io
import re

import pytest

from clover_agent.console import Console, brief
from clover_agent.events import EpisodeEnded, EpisodeStarted, Noted, Replied, ToolEnded, ToolStarted
from clover_agent.limits import Ending
from clover_agent.messages import Message, Reply, ToolCall
from clover_agent.progress import Progress
from clover_agent.unmasking import Terminal, Unmasking
from engine.events import BlockUpdate, Finished, Tokens
from tools.protocol import Observation


def lines(*events: object, blocks: bool = False) -> list[str]:
    stream = io.StringIO()
    drawn = (
        Unmasking(stream, lambda ids: "".join(map(chr, ids)), 0, terminal=Terminal(False, False)) if blocks else None
    )
    console = Console(stream, drawn)
    for event in events:
        console(event)
    return [re.sub(r"^\[ +\d+\.\d s\] ", "", line) for line in stream.getvalue().splitlines()]


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("c", name, arguments)


def test_an_attempt_reads_as_a_short_story() -> None:
    edit, run, end = call("str_replace", path="a.py", line=3), call("run_tests"), call("finish", outcome="fixed")
    failing = Observation("1 test fails, 2 pass. The first:\n\nt.py::t\nE   no")
    assert lines(
        Progress("baseline: 1 of 3 tests fails"),
        EpisodeStarted(1, "nano", ()),
        ToolStarted(edit),
        ToolEnded(edit, Observation("old_str does not\noccur", is_error=True), True, 0.1),
        ToolStarted(run),
        ToolEnded(run, failing, True, 0.1),
        Replied(1, Reply(Message("assistant", ""), "stop")),
        Noted(Message("user", "Go on.")),
        ToolStarted(end),
        ToolEnded(end, Observation("", finished=True), True, 0.1),
        EpisodeEnded(1, Ending.FINISHED, "fixed", "Done."),
        EpisodeEnded(2, Ending.STUCK),
        object(),
    ) == [
        "baseline: 1 of 3 tests fails",
        "  str_replace a.py:3",
        "  refused: old_str does not occur",
        "  run_tests",
        "  1 test fails, 2 pass.",
        "  no tool call in the reply",
        "  the model says fixed: Done.",
        "  attempt ended: going round in circles",
    ]


def test_blocks_are_drawn_only_where_asked_for_and_lines_do_not_run_into_them() -> None:
    events = (BlockUpdate(0, 0, (0,), (0.0,)), Tokens((65, 66)), Progress("next"), Finished("stop", 1, 2, 1, 1, 0, 0.5))
    assert lines(*events) == ["next"]
    shown = lines(*events, blocks=True)
    assert shown[:2] == ["  │ AB", "next"]
    assert "2 tokens in 1 previews" in shown[2]


def test_lines_are_harmless_and_short() -> None:
    (line,) = lines(Progress("a\x1b[2Jb\n" + "x" * 300))
    assert line.startswith("a[2Jb x")
    assert len(line) == 100
    assert line.endswith("…")


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("view", {"path": "a.py", "view_range": [1, 9]}, "a.py:1-9"),
        ("view", {"path": "a.py"}, "a.py"),
        ("str_replace", {"path": "a.py", "old_str": "x"}, "a.py"),
        ("insert", {"path": "a.py", "line": 0}, "a.py:0"),
        ("terminal", {"command": "ls"}, "ls"),
        ("search", {"pattern": "x y"}, "'x y'"),
        ("run_tests", {"tests": "t.py"}, "t.py"),
        ("run_tests", {}, ""),
    ],
)
def test_a_call_in_a_few_words(tool: str, arguments: dict[str, object], text: str) -> None:
    assert brief(tool, arguments) == text
