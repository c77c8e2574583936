"""Is it fixed? Said by tests in a fresh container, never by the model.

Graded is the base plus the patch, with test files and runner configuration as in the base (unless the user allows
changes to them). The whole command runs once, then the target tests again; every test that passed before must pass.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clover_agent.protected import protected_files
from clover_agent.repository import apply_patch, changed_files, commit_all, diff_folders
from clover_agent.target_tests import TargetTests
from clover_agent.verdicts import Verdict
from sandboxes.config import SandboxConfig
from sandboxes.docker_sandbox import DockerSandbox
from tools.render import TestReport
from tools.testing import run_test_command


@dataclass(frozen=True)
class Baseline:
    """The base's own test runs. targets: ids that failed in every run; flaky: ids that failed in some of them only."""

    report: TestReport
    targets: tuple[str, ...]
    flaky: tuple[str, ...]


@dataclass(frozen=True)
class Verification:
    """Verdict on one patch, with what it rests on.

    patch: what was graded and is handed back (protected files left out). restored: files put back to the base.
    """

    verdict: Verdict
    reason: str
    patch: bytes
    restored: tuple[str, ...]
    reports: tuple[TestReport, ...]
    tree: str
    image_id: str

    def evidence(self) -> dict[str, Any]:
        """The same, for JSON."""
        return {
            "verdict": str(self.verdict),
            "reason": self.reason,
            "restored_files": list(self.restored),
            "tree": self.tree,
            "image": self.image_id,
            "runs": [report_json(report) for report in self.reports],
        }


def report_json(report: TestReport) -> dict[str, Any]:
    """A test run for JSON: ids by result, exit code, time, and the end of the output."""
    row = dataclasses.asdict(report)
    row["failed"] = [failure.test_id for failure in report.failed]
    row["collection_errors"] = [failure.test_id for failure in report.collection_errors]
    row["output"] = report.output[-2000:]
    row["seconds"] = round(report.seconds, 3)
    return row


def failing_ids(report: TestReport) -> tuple[str, ...]:
    """Ids of the failed tests and of what could not be collected."""
    return tuple(failure.test_id for failure in (*report.failed, *report.collection_errors))


def judge_baseline(first: TestReport, second: TestReport | None) -> tuple[Verdict | None, str, Baseline]:
    """The verdict that ends the task before the model starts (None: go on), its reason, and the targets."""
    failed = failing_ids(first)
    again = failing_ids(second) if second is not None and second.structured else failed
    targets = tuple(name for name in failed if name in again)
    flaky = tuple(sorted(set(failed) ^ set(again)))
    baseline = Baseline(first, targets, flaky)
    if first.timed_out:
        return Verdict.TIMEOUT, "the tests did not finish in time on the unchanged repository", baseline
    if first.ok and (first.total or not first.structured):
        return Verdict.NOT_REPRODUCED, "the tests pass on the unchanged repository: there is nothing to fix", baseline
    if first.structured and not failed:
        what = "ran no test" if not first.total else f"ended with status {first.exit_code} though no test failed"
        return Verdict.NO_TESTS, f"the test command {what}: check it", baseline
    misused = first.exit_code == 4 and any(line.startswith("ERROR: ") for line in first.output.splitlines())  # pytest's
    if not first.structured and first.exit_code in {126, 127}:
        said = first.output.strip().splitlines()[-1:] or [f"status {first.exit_code}"]
        reason = f"the test command can't be run in the sandbox ({said[0][:200]}): check it, or give an --image for it"
        return Verdict.NO_TESTS, reason, baseline
    if not first.structured and (misused or first.exit_code == 5):
        return Verdict.NO_TESTS, f"the test command found no tests (status {first.exit_code}): check it", baseline
    if first.structured and not targets:
        return Verdict.FLAKY, f"the failing tests pass when repeated: {', '.join(flaky[:3])}", baseline
    if not first.structured and second is not None and second.ok:
        return Verdict.FLAKY, "the test command passes when repeated", baseline
    return None, "", baseline


def verify(
    base: Path,
    patch: bytes,
    command: str,
    baseline: Baseline,
    config: SandboxConfig,
    *,
    repeats: int = 3,
    timeout: float = 300.0,
    allow_test_changes: bool = False,
) -> Verification:
    """Grade `patch` against the copy `base` (untouched). timeout: seconds per test run. Raises SandboxError."""
    with tempfile.TemporaryDirectory(prefix="clover-verify-") as temporary:
        folder = Path(temporary) / "graded"
        shutil.copytree(base, folder, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        commit_all(folder)
        restored = () if allow_test_changes else tuple(protected_files(folder, changed_files(folder, patch)))
        if fault := apply_patch(folder, patch, exclude=restored):
            return Verification(Verdict.NOT_FIXED, f"the patch does not apply: {fault}", patch, restored, (), "", "")
        graded = diff_folders(folder)
        if not graded.strip():
            reason = "the patch changes tests or their configuration only" if restored else "nothing was changed"
            return Verification(Verdict.NOT_FIXED, reason, graded, restored, (), "", "")
        with DockerSandbox.start(folder, config) as sandbox:
            tree, image = sandbox.tree(), sandbox.image_id
            reports = [run_test_command(sandbox, command, timeout=timeout)]
            verdict, reason = judge(reports[0], baseline)
            if verdict is Verdict.REGRESSED:  # a test that only fails now and then is no regression
                reports.append(run_test_command(sandbox, command, timeout=timeout))
                verdict, reason = judge(reports[1], baseline)
            if verdict is Verdict.FIXED:
                named = [name for name in baseline.targets if name not in _collection_ids(baseline.report)]
                alone = TargetTests(sandbox, command, named, timeout)
                while verdict is Verdict.FIXED and len(reports) < repeats:
                    reports.append(alone.run() or run_test_command(sandbox, command, timeout=timeout))
                    if not reports[-1].ok or set(named) - set(reports[-1].passed) - set(baseline.flaky):
                        verdict, reason = Verdict.FLAKY, "the failing tests pass once and fail when repeated"
        return Verification(verdict, reason, graded, restored, tuple(reports), tree, image)


def judge(report: TestReport, baseline: Baseline) -> tuple[Verdict, str]:
    """One run of the graded tree against the base's."""
    before = baseline.report
    if report.timed_out:
        return Verdict.TIMEOUT, "the tests did not finish in time with the patch"
    if before.structured and not report.structured:
        return Verdict.NOT_FIXED, f"no test report came back (status {report.exit_code})"
    passed, failed = set(report.passed), set(failing_ids(report))
    lost = lost_tests(report, baseline)
    still = [name for name in baseline.targets if name in failed]
    if still:
        return Verdict.NOT_FIXED, f"{len(still)} of {len(baseline.targets)} failing tests still fail: {still[0]}"
    if lost:
        return Verdict.REGRESSED, f"{len(lost)} tests that passed before fail now or are gone: {lost[0]}"
    collected = [name for name in baseline.targets if name not in _collection_ids(before)]
    missing = [name for name in collected if name not in passed]
    if missing:
        return Verdict.NOT_FIXED, f"{len(missing)} failing tests were not seen to pass: {missing[0]}"
    if failed - set(baseline.flaky):
        return Verdict.REGRESSED, f"new failures: {sorted(failed)[0]}"
    if report.exit_code != 0 and not (failed and report.exit_code == 1):  # 1: tests failed, all of them flaky ones
        return Verdict.NOT_FIXED, f"the test command ended with status {report.exit_code}"
    if report.structured and not report.passed:
        return Verdict.NOT_FIXED, "no test was seen to pass"
    count = len(baseline.targets)
    what = "the failing command passes" if not count else f"{count} failing test{' passes' if count == 1 else 's pass'}"
    return Verdict.FIXED, f"{what}, and all that passed before"


def lost_tests(report: TestReport, baseline: Baseline) -> list[str]:
    """Tests that passed on the base and do not now; those that come and go on the base are left out."""
    passed = {*report.passed, *baseline.flaky}
    return [name for name in baseline.report.passed if name not in passed]


def _collection_ids(report: TestReport) -> set[str]:
    return {failure.test_id for failure in report.collection_errors}
