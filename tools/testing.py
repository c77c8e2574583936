"""Running the project's tests in a sandbox, and reading what came of each from a report file."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

from sandboxes.protocol import Sandbox
from tools.junit import read_junit
from tools.outcome import outcome, tell
from tools.protocol import Observation, ToolError
from tools.render import TestReport

DEFAULT_TIMEOUT = 300.0

# No bytecode files: two edits of one size within a second would leave a stale one behind, and the wrong code would run.
_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}


def run_test_command(
    sandbox: Sandbox,
    command: str,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    addopts: str = "",
    env: Mapping[str, str] | None = None,
) -> TestReport:
    """Run `command` in the workspace; wherever it starts pytest, per-test results come from a JUnit file.

    The file is asked for by PYTEST_ADDOPTS, so the command stays as the user wrote it. addopts: more options for
    pytest; env: more variables. Without a report only the exit code and output say anything. Raises SandboxError.
    """
    report = f"/tmp/clover-report-{os.urandom(6).hex()}.xml"
    options = f"--junitxml={report} -o junit_family=xunit1 -o junit_logging=no --tb=short {addopts}".strip()
    variables = {**_ENVIRONMENT, "PYTEST_ADDOPTS": options, **(env or {})}
    result = sandbox.run(f"( cd {shlex.quote(sandbox.workspace)} && {{ {command}\n}} )", timeout=timeout, env=variables)
    data = None if result.timed_out else sandbox.read_private(report)
    results = read_junit(data) if data else None
    if results is None:
        return TestReport(result.exit_code, timed_out=result.timed_out, output=result.output, seconds=result.seconds)
    return TestReport(
        exit_code=result.exit_code,
        passed=results.passed,
        failed=results.failed,
        skipped=results.skipped,
        structured=True,
        output=result.output,
        seconds=result.seconds,
        collection_errors=results.collection_errors,
    )


def takes_selection(command: str) -> bool:
    """Whether test ids can be appended to `command`: it starts pytest itself, and last."""
    try:
        words = shlex.split(command.splitlines()[-1].split("&&")[-1].split(";")[-1])
    except (ValueError, IndexError):
        return False
    return any(word in ("pytest", "py.test") or word.endswith("/pytest") for word in words) and "|" not in command


class RunTests:
    """The project's test command, or some of its tests."""

    name = "run_tests"
    description = "Run the project's tests, all of them or those named, and see the first failure."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "tests": {"type": "string", "description": "only these: test ids or files, separated by spaces"},
        },
        "additionalProperties": False,
    }

    def __init__(self, command: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        """command: as the user gave it; timeout: seconds a run may take."""
        self.command, self.timeout = command, timeout

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        command = self.command
        if selection := str(arguments.get("tests") or "").strip():
            if not takes_selection(command):
                raise ToolError("this project's test command can't run single tests: call run_tests without `tests`")
            try:
                command = f"{command} {shlex.join(shlex.split(selection))}"
            except ValueError as fault:
                raise ToolError(f"tests can't be read: {fault}") from None
        report = run_test_command(sandbox, command, timeout=self.timeout)
        data = {"report": report, "outcome": str(outcome(report)), "whole": not selection, "ok": report.ok}
        return Observation(tell(report), data=data)
