"""One vocabulary of outcomes, and the exit codes they map to."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """How a task ended, judged by the product and never by the model."""

    FIXED = "fixed"
    NOT_FIXED = "not_fixed"
    NOT_REPRODUCED = "not_reproduced"
    REGRESSED = "regressed"
    FLAKY = "flaky"
    NO_TESTS = "no_tests"
    TIMEOUT = "timeout"
    FORMAT_ERROR = "format_error"
    STUCK = "stuck"
    LIMIT = "limit"
    INFRA_ERROR = "infra_error"
    INTERRUPTED = "interrupted"


EXIT_CODES_HELP = """\
exit codes: 0 fixed (or done), 1 not fixed, 2 wrong use, 3 a limit or timeout, 75 infrastructure (try again),
130 interrupted"""
EXIT_OK = 0
EXIT_NOT_FIXED = 1
EXIT_USAGE = 2
EXIT_LIMIT = 3
EXIT_INFRA = 75
EXIT_INTERRUPTED = 130

_EXIT_CODES = {
    Verdict.FIXED: EXIT_OK,
    Verdict.TIMEOUT: EXIT_LIMIT,
    Verdict.LIMIT: EXIT_LIMIT,
    Verdict.INFRA_ERROR: EXIT_INFRA,
    Verdict.INTERRUPTED: EXIT_INTERRUPTED,
}


def exit_code(verdict: Verdict) -> int:
    """The process status for a verdict: 0 only for `fixed`."""
    return _EXIT_CODES.get(verdict, EXIT_NOT_FIXED)
