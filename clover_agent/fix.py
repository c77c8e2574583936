"""Fix a failing test in a repository and prove it: baseline, attempts, verification.

The user's files are never touched: the model works on a copy in a container, what comes out is a patch.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from clover_agent.agent import Episode
from clover_agent.attempts import Attempts, Case
from clover_agent.backends.protocol import Backend
from clover_agent.eventlog import EventLog
from clover_agent.events import Observer, ignore
from clover_agent.fix_result import FixRequest, FixResult
from clover_agent.hints import missing_modules
from clover_agent.limits import Ending, total
from clover_agent.localize import covered_run, localize, traced_run
from clover_agent.progress import Progress
from clover_agent.repository import Copy, copy_repository
from clover_agent.run_folder import EVENTS, make_run_folder, store
from clover_agent.tracebacks import read_traceback
from clover_agent.verdicts import Verdict
from clover_agent.verify import Baseline, Verification, failing_ids, judge_baseline, report_json
from sandboxes.client import connect
from sandboxes.config import SandboxConfig
from sandboxes.docker_sandbox import DockerSandbox
from sandboxes.protocol import SandboxError
from tools.render import TestFailure, TestReport
from tools.testing import run_test_command

__all__ = ["FixRequest", "FixResult", "run_fix"]

SLOW_TESTS = 20.0  # seconds: above it the tests are not run a second time under the tracer
_UNSOLVED = {Verdict.NOT_FIXED, Verdict.LIMIT, Verdict.NO_TESTS}
VERIFY_SHARE = 4.0  # test runs' worth of time that is kept for verification


def run_fix(
    request: FixRequest,
    observer: Observer = ignore,
    backend: Backend | None = None,
    load: Callable[[str], Backend] | None = None,
) -> FixResult:
    """Do the whole task. Raises UsageError, SandboxError, BackendError and the engine's errors.

    backend: the model; without one `load(request.model)` runs beside the baseline (the embedded engine by default).
    """
    with tempfile.TemporaryDirectory(prefix="clover-fix-") as temporary, ThreadPoolExecutor(1) as pool:
        copy = copy_repository(request.path, Path(temporary) / "base")
        folder = make_run_folder(request)

        def start_loading() -> Future[Backend]:
            return pool.submit(lambda: backend if backend is not None else (load or _embedded)(request.model))

        with EventLog(folder / EVENTS) as log:
            task = _Task(request, copy, _both(log, observer), log, start_loading, folder)
            try:
                result = task.run()
            except KeyboardInterrupt:
                store(task.result(Verdict.INTERRUPTED, "interrupted"), request)
                raise
            except (SandboxError, OSError) as fault:
                store(task.result(Verdict.INFRA_ERROR, " ".join(str(fault).split())), request)
                raise
        store(result, request)
    return result


def _embedded(name: str) -> Backend:
    from clover_agent.models import load_embedded

    return load_embedded(name)


def _both(log: EventLog, observer: Observer) -> Observer:
    def observe(event: object) -> None:
        if isinstance(event, Progress):
            log.note("Progress", durable=False, text=event.text)
        else:
            log(event)
        observer(event)

    return observe


class _Task:
    """One run of `fix`, from the copy on."""

    def __init__(
        self,
        request: FixRequest,
        copy: Copy,
        observer: Observer,
        log: EventLog,
        start_loading: Callable[[], Future[Backend]],
        folder: Path,
    ) -> None:
        self.request, self.copy, self.observer, self.log = request, copy, observer, log
        self.start_loading, self.model = start_loading, Future[Backend]()
        self.folder = folder
        self.started, self.reserve = time.monotonic(), 0.0  # reserve: seconds kept for verification
        self.deadline = self.started + request.time_limit
        self.config = SandboxConfig(image=request.image)
        self.baseline: Baseline | None = None
        self.attempts: Attempts | None = None

    def run(self) -> FixResult:
        if self.copy.dirty:
            self.say("the repository has uncommitted changes: they are part of the copy that is worked on")
        if left := self.copy.left_out:
            self.say(f"left out of the copy, being git repositories of their own: {', '.join(left[:3])}")
        self.say("starting the sandbox")
        connect().close()  # without an engine there is no need of a model
        self.model = self.start_loading()
        with DockerSandbox.start(self.copy.folder, self.config) as sandbox:
            self.say("running the tests on the unchanged repository")
            first = self._tests(sandbox)
            if first.timed_out and time.monotonic() >= self.deadline:
                self.baseline = Baseline(first, (), ())
                return self.result(Verdict.LIMIT, f"no test run within {self.request.time_limit:g} s")
            second, coverage = None, None
            if not first.ok and self.model.done():
                self.model.result()  # a broken model is told before more time is spent
            if failing_ids(first) and first.seconds < SLOW_TESTS:
                self.say(f"{len(failing_ids(first))} of {first.total or '?'} tests fail; tracing which code they run")
                second, coverage = traced_run(sandbox, self.request.test, self._patience(), failing_ids(first))
            elif not first.structured and first.exit_code and first.seconds < SLOW_TESTS:
                self.say("the command fails; tracing which code it runs")
                second, coverage = covered_run(sandbox, self.request.test, self._patience())
            verdict, reason, baseline = judge_baseline(first, second)
            self.baseline = baseline
            if verdict is not None:
                return self.result(verdict, reason)
            if hint := missing_modules(first, self.copy.folder):
                self.say(hint)
            failures = self._failures(baseline, sandbox.workspace)
            suspects = localize(self.copy.folder, failures, coverage)
            self.log.note("Suspects", suspects=[dataclasses.asdict(suspect) for suspect in suspects])
            self.say("loading the model")
            backend = self.model.result()
            self.reserve = min(VERIFY_SHARE * baseline.report.seconds + 3.0, 0.3 * self.request.time_limit)
            case = Case(
                self.request, self.copy.folder, self.config, baseline, tuple(failures), tuple(suspects), coverage
            )
            self.attempts = Attempts(case, backend, sandbox, self.observer, self.log, self.deadline, self.reserve)
            self.attempts.run()
        return self._conclude()

    @property
    def episodes(self) -> list[Episode]:
        """The model's attempts so far."""
        return self.attempts.episodes if self.attempts else []

    @property
    def best(self) -> Verification | None:
        """What is known of the best patch so far."""
        return self.attempts.best if self.attempts else None

    def say(self, text: str) -> None:
        """Tell the observer."""
        self.observer(Progress(text))

    def _tests(self, sandbox: DockerSandbox) -> TestReport:
        return run_test_command(sandbox, self.request.test, timeout=self._patience())

    def _patience(self) -> float:
        return max(1.0, min(self.request.test_timeout, self.deadline - time.monotonic()))

    def _failures(self, baseline: Baseline, workspace: str) -> list[TestFailure]:
        """What the tests say is wrong: failures that are there in every run first."""
        report = baseline.report
        if not report.structured:
            found = read_traceback(report.output, workspace, self.request.test)
            return [found] if found else []
        failures = (*report.failed, *report.collection_errors)
        return [f for f in failures if f.test_id in baseline.targets] or list(failures)

    def _conclude(self) -> FixResult:
        if self.best is not None and self.best.verdict is not Verdict.NOT_FIXED:
            return self.result(self.best.verdict, self.best.reason)
        endings = {episode.ending for episode in self.episodes}
        count = f"{len(self.episodes)} attempt{'s' if len(self.episodes) != 1 else ''}"
        if endings and endings <= {Ending.FORMAT}:
            return self.result(Verdict.FORMAT_ERROR, f"no usable tool call in {count}")
        if endings and endings <= {Ending.STUCK}:
            return self.result(Verdict.STUCK, f"the model repeated itself in {count}")
        if not endings or Ending.TIME in endings or time.monotonic() > self.deadline - self.reserve:
            return self.result(Verdict.LIMIT, f"not fixed within {self.request.time_limit:g} s ({count})")
        if self.episodes[-1].ending is Ending.CONTEXT and not self.episodes[-1].turns:
            return self.result(Verdict.LIMIT, f"shorten the issue: {self.episodes[-1].summary}")
        if endings <= {Ending.TURNS, Ending.TOKENS, Ending.CONTEXT}:
            return self.result(Verdict.LIMIT, f"not fixed within the limits of {count}")
        reason = self.best.reason if self.best is not None else "the model made no change"
        return self.result(Verdict.NOT_FIXED, f"{reason} ({count})")

    def result(self, verdict: Verdict, reason: str) -> FixResult:
        """What there is so far, under a verdict."""
        graded, baseline = self.best, self.baseline
        if verdict in _UNSOLVED and baseline and (hint := missing_modules(baseline.report, self.copy.folder)):
            reason = f"{reason}; {hint}"
        evidence: dict[str, Any] = {
            "command": self.request.test,
            "base_tree": self.copy.base,
            "targets": list(baseline.targets) if baseline else [],
            "flaky": list(baseline.flaky) if baseline else [],
            "baseline": report_json(baseline.report) if baseline else None,
            "verification": graded.evidence() if graded is not None and graded.reports else None,
        }
        return FixResult(
            verdict=verdict,
            reason=reason,
            patch=graded.patch if graded is not None else b"",
            run_folder=self.folder,
            seconds=time.monotonic() - self.started,
            before=baseline.report if baseline else None,
            after=_last_whole(graded.reports) if graded is not None else None,
            attempts=len(self.episodes),
            turns=sum(episode.turns for episode in self.episodes),
            calls=sum(episode.calls for episode in self.episodes),
            valid_calls=sum(episode.valid_calls for episode in self.episodes),
            usage=total([episode.usage for episode in self.episodes]),
            dirty=self.copy.dirty,
            evidence=evidence,
        )


def _last_whole(reports: Sequence[TestReport]) -> TestReport | None:
    """The last run of the whole command: repeats run the target tests alone."""
    return max(reversed(reports), key=lambda report: report.total, default=None)
