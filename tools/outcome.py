"""What a test run came to, in one word: that nothing failed is not that something passed."""

from __future__ import annotations

import re
import signal
from enum import StrEnum

from tools.render import TestReport, render_report

_DESELECTED = re.compile(r"\b(\d+) deselected\b")
_PYTEST_INTERNAL, _PYTEST_NOTHING = 3, 5  # exit codes


class TestOutcome(StrEnum):
    """passed, failed: of tests where a report names them, else of the command by its exit code."""

    __test__ = False

    PASSED = "passed"
    FAILED = "failed"
    COLLECTION_ERROR = "collection_error"
    NOTHING_COLLECTED = "nothing_collected"
    ALL_DESELECTED = "all_deselected"
    ALL_SKIPPED = "all_skipped"
    TIMEOUT = "timeout"
    CRASHED = "crashed"


def outcome(report: TestReport) -> TestOutcome:
    """The one that fits. A run that says nothing about any test never counts as passed where tests are known."""
    if report.timed_out:
        return TestOutcome.TIMEOUT
    if _crashed(report):
        return TestOutcome.CRASHED
    if report.collection_errors:
        return TestOutcome.COLLECTION_ERROR
    if report.failed:
        return TestOutcome.FAILED
    if report.structured and not report.total:
        if report.skipped:
            return TestOutcome.ALL_SKIPPED if report.exit_code == 0 else TestOutcome.FAILED
        if report.exit_code in (0, _PYTEST_NOTHING):
            return TestOutcome.ALL_DESELECTED if deselected(report) else TestOutcome.NOTHING_COLLECTED
    return TestOutcome.PASSED if report.ok else TestOutcome.FAILED


def deselected(report: TestReport) -> int:
    """Tests that pytest left out by selection, from its last lines: no report file counts them."""
    last = "\n".join(report.output.splitlines()[-3:])
    return int(found[1]) if (found := _DESELECTED.search(last)) else 0


def tell(report: TestReport) -> str:
    """The report for the model: the usual one, or what else came of it."""
    match outcome(report):
        case TestOutcome.ALL_SKIPPED:
            return f"No test ran: all {len(report.skipped)} were skipped."
        case TestOutcome.ALL_DESELECTED:
            return f"No test ran: the selection leaves out all {deselected(report)} that were collected."
        case TestOutcome.NOTHING_COLLECTED:
            return "No tests were found."
        case TestOutcome.CRASHED:
            tail = "\n".join(report.output.splitlines()[-20:])
            return f"The test runner crashed ({_ending(report.exit_code)}).\n\n{tail}".rstrip()
        case _:
            return render_report(report)


def _crashed(report: TestReport) -> bool:
    if report.exit_code is None or report.exit_code < 0 or report.exit_code > 128:
        return True
    return report.exit_code == _PYTEST_INTERNAL and "INTERNALERROR>" in report.output


def _ending(code: int | None) -> str:
    if code is None:
        return "without a status"
    number = code - 128 if code > 128 else -code
    try:
        return f"status {code}, {signal.Signals(number).name}"
    except ValueError:
        return f"status {code}"
