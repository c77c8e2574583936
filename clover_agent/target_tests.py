"""The failing tests alone: a quick answer while a small model tries, and the repeats of a verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clover_agent.plugins import place
from sandboxes.protocol import Sandbox
from tools.protocol import Observation
from tools.render import TestReport, render_report
from tools.testing import RunTests, run_test_command


class TargetTests:
    """Some tests of a command's, by id, in one sandbox."""

    def __init__(self, sandbox: Sandbox, command: str, targets: Sequence[str], timeout: float) -> None:
        """targets: pytest ids; where there are none, or the command runs no pytest, `run` gives None."""
        self._sandbox, self._command, self._timeout = sandbox, command, timeout
        self._targets = frozenset(targets)
        if targets:
            self._folder, self._environment = place(sandbox, "clover_select")
            chosen = sandbox.put_private("clover_select/targets", "\n".join(targets).encode())
            self._environment["CLOVER_SELECT_FILE"] = chosen

    def run(self, *, to_first_failure: bool = False) -> TestReport | None:
        """Their results, or those up to the first failure; None where they could not be run alone."""
        if not self._targets:
            return None
        addopts = "-p clover_select" + " --exitfirst" * to_first_failure
        report = run_test_command(
            self._sandbox, self._command, timeout=self._timeout, addopts=addopts, env=self._environment
        )
        failed = {failure.test_id for failure in report.failed}
        whole = (
            bool(self._targets & failed) if to_first_failure and failed else self._targets <= {*report.passed, *failed}
        )
        return report if report.structured and whole else None


class RunTargetsFirst(RunTests):
    """`run_tests` that answers with the failing tests alone while they still fail, and else runs everything.

    A failure ends the attempt: a fresh one serves a small model better than a longer conversation. What failed once is
    remembered by the workspace's tree.
    """

    def __init__(self, targets: TargetTests, command: str, timeout: float) -> None:
        super().__init__(command, timeout)
        self._first = targets
        self._failed: dict[str, TestReport] = {}

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        """See RunTests."""
        if arguments.get("tests"):
            return super().run(arguments, sandbox)
        tree = sandbox.tree()
        report = self._failed.get(tree) or self._first.run(to_first_failure=True)
        if report is None or report.ok:
            whole = super().run(arguments, sandbox)
            return replace(whole, finished=not (whole.data or {}).get("ok"))
        self._failed[tree] = report
        return Observation(render_report(report), finished=True, data={"report": report, "whole": True, "ok": False})
