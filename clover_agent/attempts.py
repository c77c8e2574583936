"""The tries at a task: each from a fresh start, its edits judged by the tests, the best patch kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from clover_agent.agent import Agent, Episode
from clover_agent.backends.protocol import Backend, Sampling
from clover_agent.edit_choice import EditChoice
from clover_agent.eventlog import EventLog
from clover_agent.events import Observer
from clover_agent.fix_result import FixRequest
from clover_agent.limits import Ending, Limits
from clover_agent.localize import Coverage, line_weights
from clover_agent.messages import Message
from clover_agent.progress import Progress
from clover_agent.prompts import Suspect, compact_task
from clover_agent.strategy import Attempt, patience, plan
from clover_agent.target_tests import RunTargetsFirst, TargetTests, TestedEdit
from clover_agent.verdicts import Verdict
from clover_agent.verify import Baseline, Verification, failing_ids, judge, lost_tests, verify
from sandboxes.config import SandboxConfig
from sandboxes.docker_sandbox import DockerSandbox
from tools.files import StrReplace
from tools.protocol import Tool
from tools.registry import Registry, standard_tools
from tools.render import TestFailure, TestReport

COMPACT_TURNS, FULL_TURNS = 8, 100
FULL_ATTEMPTS = 1  # a small model's attempts are cheap: there, the time is the limit


@dataclass(frozen=True)
class Case:
    """What is known when the attempts begin. base: the clean copy, on this machine. failures: of the targets first."""

    request: FixRequest
    base: Path
    config: SandboxConfig
    baseline: Baseline
    failures: tuple[TestFailure, ...]
    suspects: tuple[Suspect, ...]
    coverage: Coverage | None


class Attempts:
    """Attempts at one case in one sandbox. episodes: what came of each; best: what is known of the best patch."""

    def __init__(
        self,
        case: Case,
        backend: Backend,
        sandbox: DockerSandbox,
        observer: Observer,
        log: EventLog,
        deadline: float,
        reserve: float,
    ) -> None:
        """deadline: a time.monotonic(). reserve: seconds before it that are kept for verification."""
        self._case, self._backend, self._sandbox = case, backend, sandbox
        self._observer, self._log = observer, log
        self._deadline, self._reserve = deadline, reserve
        self._compact = backend.profile == "compact"
        self._standing: tuple[int, int] | None = None
        self.episodes: list[Episode] = []
        self.best: Verification | None = None

    def run(self) -> None:
        """Try until a patch is verified or nothing is left: tries, time, places. Raises SandboxError, BackendError."""
        request, sandbox = self._case.request, self._sandbox
        most = request.attempts or (None if self._compact else FULL_ATTEMPTS)
        start = sandbox.checkpoint()
        tried: set[bytes] = set()
        registry = Registry(self._tools())
        weights = partial(line_weights, self._case.coverage)
        choice = EditChoice(registry, sandbox, weights) if self._compact else None
        read: dict[Suspect | None, list[Message]] = {}  # conversations up to the first edit
        exhausted: set[Suspect | None] = set()
        for number, attempt in enumerate(plan(self._case.suspects), 1):
            place = attempt.suspects[0] if attempt.suspects else None
            if place in exhausted:
                continue
            if len(self.episodes) == most or time.monotonic() > self._deadline - self._reserve:
                return
            if number > 1:
                sandbox.restore(start)
            self._say(f"attempt {number}{f' at {place.path}:{place.name}' if place else ''}")
            opening = read.get(place) or self._opening(attempt)
            if choice is not None:
                choice.look(opening)
            turns = request.max_turns or (COMPACT_TURNS if self._compact else FULL_TURNS)
            agent = Agent(self._backend, registry, sandbox, self._observer)
            limits = Limits(max_turns=turns, deadline=self._deadline - self._reserve)
            sampling = Sampling(seed=request.seed, choice=choice)
            episode = agent.run(opening, limits, sampling, attempt=len(self.episodes) + 1)
            read.setdefault(place, _up_to_edit(episode.messages))
            self.episodes.append(episode)
            if episode.ending is Ending.EXHAUSTED:
                exhausted.add(place)
            if episode.ending is Ending.CONTEXT and not episode.turns:
                return  # the task itself is too long
            patch = sandbox.diff() if episode.edits else b""
            if not patch.strip() or patch in tried:
                continue
            tried.add(patch)
            self._consider(patch, episode.report)
            if self.best is not None and self.best.verdict is Verdict.FIXED:
                return

    def _consider(self, patch: bytes, report: TestReport | None) -> None:
        """Keep a patch if it is the best so far; what may be a fix is verified first. report: its last test run."""
        standing = self._stand(report)
        if (self._compact and not self._promising(report)) or time.monotonic() > self._deadline:
            graded, reason = None, "the tests still fail with the model's changes"
        else:
            self._say("verifying the patch in a fresh container")
            graded = self._verify(patch)
            self._log.note("Verification", **graded.evidence())
            standing = self._stand(max(graded.reports, key=lambda one: one.total, default=report))
            reason = graded.reason
        fixed = graded is not None and graded.verdict is Verdict.FIXED
        if fixed or self._standing is None or standing < self._standing:
            self._standing = standing
            self.best = graded or Verification(Verdict.NOT_FIXED, reason, patch, (), (), "", "")

    def _promising(self, report: TestReport | None) -> bool:
        """Whether the last test run speaks for a fix. A test that failed only once, and passes alone, is forgiven."""
        baseline = self._case.baseline
        if report is None:
            return False
        verdict, _ = judge(report, baseline)
        if verdict is not Verdict.REGRESSED:
            return verdict is Verdict.FIXED
        doubtful = {*lost_tests(report, baseline), *failing_ids(report)} - set(baseline.flaky)
        again = TargetTests(self._sandbox, self._case.request.test, sorted(doubtful), self._patience()).run()
        return again is not None and again.ok

    def _stand(self, report: TestReport | None) -> tuple[int, int]:
        """How far from a fix a test run is, the best first: tests newly failing, targets not seen to pass."""
        baseline = self._case.baseline
        if report is None or (baseline.report.structured and not report.structured):
            return len(baseline.report.passed), len(baseline.targets)
        failed = set(failing_ids(report)) - set(baseline.flaky) - set(baseline.targets)
        return len(failed), len(set(baseline.targets) - set(report.passed))

    def _verify(self, patch: bytes) -> Verification:
        request = self._case.request
        return verify(
            self._case.base,
            patch,
            request.test,
            self._case.baseline,
            self._case.config,
            repeats=request.repeats,
            timeout=request.test_timeout,
            allow_test_changes=request.allow_test_changes,
        )

    def _tools(self) -> list[Tool]:
        command, baseline = self._case.request.test, self._case.baseline
        timeout = self._patience()
        tools = list(standard_tools(command, timeout))
        if not self._compact or baseline.report.collection_errors:
            return tools
        quick = RunTargetsFirst(TargetTests(self._sandbox, command, baseline.targets, timeout), command, timeout)
        return [_quick(tool, quick) for tool in tools]

    def _patience(self) -> float:
        limit = max(1.0, min(self._case.request.test_timeout, self._deadline - time.monotonic()))
        return patience(self._case.baseline.report.seconds, limit)

    def _opening(self, attempt: Attempt) -> list[Message]:
        failures, request = self._case.failures, self._case.request
        task = compact_task(failures[0] if failures else None, attempt.suspects, request.issue)
        if self._compact:
            return [Message("user", task)]
        from clover_agent.prompts_full import system_prompt

        return [Message("system", system_prompt(self._case.base, request.test)), Message("user", task)]

    def _say(self, text: str) -> None:
        self._observer(Progress(text))


def _quick(tool: Tool, tests: RunTargetsFirst) -> Tool:
    """A tool, or what takes its place where failing tests are run first."""
    if tool.name == tests.name:
        return tests
    return TestedEdit(tests, tool.memory) if isinstance(tool, StrReplace) else tool


def _up_to_edit(messages: Sequence[Message]) -> list[Message]:
    """A conversation's beginning: all before the first turn that changes a file."""
    changing = {"str_replace", "create", "insert", "terminal"}
    for index, message in enumerate(messages):
        silent = message.role == "assistant" and not message.tool_calls
        if silent or any(call.name in changing for call in message.tool_calls):
            return list(messages[:index])
    return list(messages[:1])
