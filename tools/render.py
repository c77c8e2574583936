"""How files, edits and test results look to the model.

Pure functions of text: the training data of clover-nano is rendered by this very code, so a change here
changes what the embedded model was trained to read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_LINE = 160
MAX_FRAMES = 3
MAX_ERROR_LINES = 5


@dataclass(frozen=True)
class TestFailure:
    """A failed or broken test: pytest's node id, and its `--tb=short` traceback."""

    __test__ = False

    test_id: str
    detail: str


@dataclass(frozen=True)
class TestReport:
    """One run of a test command.

    exit_code: the command's own; None when it was stopped at its limit. structured: per-test results were read
    from a JUnit file; without it only the exit code and `output` say anything.
    """

    __test__ = False

    exit_code: int | None
    passed: tuple[str, ...] = ()
    failed: tuple[TestFailure, ...] = ()
    skipped: tuple[str, ...] = ()
    timed_out: bool = False
    structured: bool = False
    output: str = ""
    seconds: float = 0.0
    collection_errors: tuple[TestFailure, ...] = field(default=())

    @property
    def total(self) -> int:
        """Tests that ran: passed and failed, skipped ones left out."""
        return len(self.passed) + len(self.failed)

    @property
    def ok(self) -> bool:
        """The command ended by itself with status 0, and no test is known to have failed."""
        return self.exit_code == 0 and not self.failed and not self.collection_errors


def clip(line: str, width: int = MAX_LINE) -> str:
    """One line, cut at `width` characters with an ellipsis."""
    return line if len(line) <= width else line[: width - 1] + "…"


def render_view(lines: Sequence[str], start: int) -> str:
    """Numbered source: `lines` without line ends, the first of them being line `start` (1-based)."""
    return "\n".join(f"{start + i}\t{clip(line, 400)}" for i, line in enumerate(lines))


def render_edit(path: str, before: str, after: str) -> str:
    """The real diff of an edit, without context lines, below a line that names the file."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    body = [clip(line, 400) for line in diff if not line.startswith(("--- ", "+++ "))]
    return "\n".join([f"Edited {path}", *body])


_FRAME = re.compile(r"^\S.*:\d+: in ")


def trim_traceback(detail: str) -> str:
    """The last frames and the first error lines of a `--tb=short` traceback."""
    frames: list[list[str]] = []
    errors: list[str] = []
    for line in detail.splitlines():
        if line.startswith("E ") or line == "E":
            errors.append(line)
        elif _FRAME.match(line):
            frames.append([line])
        elif frames and line.strip(" ^~") and line.startswith(" ") and not errors:  # newer pytests underline with ^^^
            frames[-1].append(line)
    if len(frames) > MAX_FRAMES:  # the test's own frame says what was asked; the last ones say where it broke
        frames = [frames[0], *frames[-(MAX_FRAMES - 1) :]]
    if not frames and not errors:
        kept = [line for line in detail.splitlines() if line.strip()][-MAX_ERROR_LINES:]
    else:
        kept = [line for frame in frames for line in frame[:3]] + errors[:MAX_ERROR_LINES]
    return "\n".join(clip(line.rstrip()) for line in kept)


def render_failure(failure: TestFailure) -> str:
    """A failing test: its id, then its trimmed traceback."""
    return f"{clip(failure.test_id)}\n{trim_traceback(failure.detail)}".rstrip()


def render_report(report: TestReport) -> str:
    """A test run in one short paragraph, with the first failure in full."""
    if report.timed_out:
        return "The tests did not finish in time."
    if report.collection_errors:
        return f"Tests could not be collected.\n\n{render_failure(report.collection_errors[0])}"
    if report.failed:
        verb = "test fails" if len(report.failed) == 1 else "tests fail"
        return (
            f"{len(report.failed)} {verb}, {len(report.passed)} pass. The first:\n\n{render_failure(report.failed[0])}"
        )
    if report.structured and report.ok:
        return f"All {report.total} tests pass." if report.total else "No tests were found."
    tail = "\n".join(clip(line) for line in report.output.splitlines()[-20:])
    return f"The test command ended with status {report.exit_code}.\n\n{tail}".rstrip()
