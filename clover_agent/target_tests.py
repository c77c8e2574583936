"""The failing tests alone: a quick answer while a small model tries, and the repeats of a verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clover_agent.plugins import place
from sandboxes.protocol import Sandbox
from tools.files import StrReplace
from tools.memory import FileMemory
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

    A failure ends the attempt: a fresh one serves a small model better than a longer conversation. What the targets
    said is remembered by the workspace's tree.
    """

    def __init__(self, targets: TargetTests, command: str, timeout: float) -> None:
        super().__init__(command, timeout)
        self._first = targets
        self._known: dict[str, TestReport | None] = {}

    def still_failing(self, sandbox: Sandbox) -> Observation | None:
        """The end of the attempt, where a target fails; None where they pass, or can't be run alone."""
        tree = sandbox.tree()
        if tree not in self._known:
            self._known[tree] = self._first.run(to_first_failure=True)
        report = self._known[tree]
        if report is None or report.ok:
            return None
        return Observation(render_report(report), finished=True, data={"report": report, "whole": True, "ok": False})

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        """See RunTests."""
        if arguments.get("tests"):
            return super().run(arguments, sandbox)
        if failure := self.still_failing(sandbox):
            return failure
        whole = super().run(arguments, sandbox)
        return replace(whole, finished=not (whole.data or {}).get("ok"))


class TestedEdit(StrReplace):
    """`str_replace` that looks at once whether the failing tests still fail, and then ends the attempt.

    It saves the small model's turn that would only have called `run_tests`.
    """

    __test__ = False

    def __init__(self, tests: RunTargetsFirst, memory: FileMemory) -> None:
        super().__init__(memory)
        self._tests = tests

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        """See StrReplace."""
        edited = super().run(arguments, sandbox)
        failure = self._tests.still_failing(sandbox) if edited.changed else None
        return (
            edited
            if failure is None
            else replace(failure, text=f"{edited.text}\n\n{failure.text}", changed=edited.changed)
        )
