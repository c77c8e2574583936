"""The first message of a task, as the embedded small model and large models read it.

clover-nano is trained on `compact_task` as rendered here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.render import TestFailure, render_failure


@dataclass(frozen=True)
class Suspect:
    """A stretch of code worth reading first: 1-based, inclusive line numbers, and the function's name."""

    path: str
    start: int
    end: int
    name: str
    score: float = 0.0


def render_suspects(suspects: Sequence[Suspect]) -> str:
    """One suspect a line, the most suspicious first."""
    return "\n".join(f"{s.path}:{s.start}-{s.end} {s.name}" for s in suspects)


def compact_task(failure: TestFailure | None, suspects: Sequence[Suspect], issue: str = "") -> str:
    """The whole first message for a small model: issue text, first failing test, at most three suspects."""
    parts = ["Fix the bug."]
    if issue.strip():
        parts.append(issue.strip())
    if failure is not None:
        parts.append("This test fails:\n\n" + render_failure(failure))
    if suspects:
        parts.append("Suspects:\n" + render_suspects(suspects[:3]))
    return "\n\n".join(parts)


VIEW_LINES = 45


def view_span(start: int, end: int, line: int) -> tuple[int, int]:
    """The stretch of a function worth showing: all of `start`..`end` (1-based, inclusive, decorators included)
    when it has at most VIEW_LINES lines, else a window of VIEW_LINES around `line`, kept inside the function."""
    if end - start + 1 <= VIEW_LINES:
        return start, end
    first = max(start, min(line - VIEW_LINES // 2, end - VIEW_LINES + 1))
    return first, first + VIEW_LINES - 1
