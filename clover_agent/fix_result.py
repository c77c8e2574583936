"""What `fix` is asked, and what comes of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clover_agent.messages import Usage
from clover_agent.verdicts import Verdict
from sandboxes.image import DEFAULT_IMAGE
from tools.render import TestReport


@dataclass(frozen=True)
class FixRequest:
    """path: a git repository. test: the shell command that fails. model: "clover-nano" or a checkpoint folder.

    max_turns: replies in one attempt. time_limit: seconds in all. attempts: at most. test_timeout: seconds for one run
    of the tests. run_folder: where logs and results go (a new one below the state folder by default).
    """

    path: Path
    test: str
    issue: str = ""
    model: str = "clover-nano"
    max_turns: int | None = None
    time_limit: float = 600.0
    attempts: int | None = None
    seed: int = 0
    image: str = DEFAULT_IMAGE
    repeats: int = 3
    test_timeout: float = 300.0
    allow_test_changes: bool = False
    run_folder: Path | None = None


@dataclass(frozen=True)
class FixResult:
    """What came of it. before, after: test runs of the base and of the graded patch; patch: empty without a change."""

    verdict: Verdict
    reason: str
    patch: bytes
    run_folder: Path
    seconds: float
    before: TestReport | None = None
    after: TestReport | None = None
    attempts: int = 0
    turns: int = 0
    calls: int = 0
    valid_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    dirty: bool = False
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The result as the command prints and stores it."""
        return {
            "verdict": str(self.verdict),
            "reason": self.reason,
            "seconds": round(self.seconds, 2),
            "attempts": self.attempts,
            "turns": self.turns,
            "tool_calls": {"total": self.calls, "valid": self.valid_calls},
            "usage": dataclasses.asdict(self.usage),
            "uncommitted_changes_included": self.dirty,
            "patch": self.patch.decode("utf-8", "surrogateescape"),
            "run_folder": str(self.run_folder),
            "trajectory": str(self.run_folder / "trajectory.json"),
            "evidence": self.evidence,
        }
