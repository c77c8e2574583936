"""Giving a task to the product as a user would, and checking its word without it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clover_agent.nano.measure.suite import run_suite
from clover_agent.nano.measure.tasks import Task
from clover_agent.verdicts import EXIT_INFRA, EXIT_INTERRUPTED, Verdict
from engine.training.bugs.source import split_lines

_WITHOUT_RESULT = {EXIT_INFRA: str(Verdict.INFRA_ERROR), EXIT_INTERRUPTED: str(Verdict.INTERRUPTED)}
_GRACE = 300.0  # seconds beyond the product's own limit, for its start, verification and clean-up


@dataclass(frozen=True)
class Options:
    """How the product is run. threads: cores for its engine. extra: more arguments of `clover-agent fix`.

    python: the interpreter that checks its patches.
    """

    time_limit: float
    python: str
    threads: int
    model: str = ""
    seed: int = 0
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """What came of one task.

    verdict: the product's word; without one, what its exit code says, else `crashed`. check: what an independent run
    of the tests on the task's repository + patch says: passes, fails, no_patch, no_apply. exact: the line is the
    original's again.
    calls, valid_calls: tool calls of the model, and those that could be read and fitted their schema.
    peak_mb: largest resident memory of the product's process, containers left out.
    """

    id: str
    package: str
    operator: str
    verdict: str
    exit_code: int
    check: str
    exact: bool
    seconds: float
    peak_mb: float
    calls: int = 0
    valid_calls: int = 0
    attempts: int = 0
    error: str = ""

    @property
    def false_fixed(self) -> bool:
        """The product says fixed, the independent run disagrees."""
        return self.verdict == "fixed" and self.check != "passes"


def run_task(task: Task, folder: Path, options: Options) -> Row:
    """Run `clover-agent fix` on a task in `folder`; result.json, patch.diff, stderr.txt stay beside its repository."""
    place = folder / task.id
    patch = place / "patch.diff"
    patch.unlink(missing_ok=True)
    command = [sys.executable, "-m", "clover_agent", "fix", str(place / "repo"), "--test", task.command, "--json"]
    command += [
        "--time-limit",
        f"{options.time_limit:g}",
        "--seed",
        str(options.seed),
        "--patch",
        str(patch),
        *options.extra,
    ]
    command += ["--model", options.model] if options.model else []
    start = time.monotonic()
    env = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "CLOVER_HOME": str(place / "state")}
    code, peak_mb = _run(command, env, place, options.time_limit + _GRACE)
    seconds = time.monotonic() - start
    result = _result(place / "result.json")
    check, exact = check_patch(task, place / "repo", patch, options.python)
    calls = result.get("tool_calls") or {}
    return Row(
        id=task.id,
        package=task.package,
        operator=task.operator,
        verdict=str(result.get("verdict") or _WITHOUT_RESULT.get(code, "crashed")),
        exit_code=code,
        check=check,
        exact=exact,
        seconds=round(seconds, 2),
        peak_mb=round(peak_mb, 1),
        calls=int(calls.get("total", 0)),
        valid_calls=int(calls.get("valid", 0)),
        attempts=int(result.get("attempts", 0)),
        error="" if result else (place / "stderr.txt").read_text(errors="replace").strip()[-300:],
    )


def _result(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _run(command: list[str], env: Mapping[str, str], place: Path, limit: float) -> tuple[int, float]:
    """Exit code (-1: stopped at `limit` seconds) and peak resident memory in MB of one command."""
    with (place / "result.json").open("wb") as out, (place / "stderr.txt").open("wb") as err:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        deadline, stopped = time.monotonic() + limit, False
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline and not stopped:
                stopped = True
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.1)
        process.returncode = os.waitstatus_to_exitcode(status)
    return (-1 if stopped else process.returncode), usage.ru_maxrss / 1024


def check_patch(task: Task, repo: Path, patch: Path, python: str) -> tuple[str, bool]:
    """Apply `patch` to a fresh copy of the task and run its tests on this machine: the outcome, and whether the broken
    file is the original again."""
    if not patch.exists() or not patch.read_bytes().strip():
        return "no_patch", False
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "repo")
        shutil.copytree(repo, copy)
        applied = subprocess.run(
            ["git", "-C", str(copy), "apply", str(patch.resolve())], check=False, capture_output=True
        )
        if applied.returncode != 0:
            return "no_apply", False
        run = run_suite(python, copy, task.tests, task.python_path, limit=max(60.0, 20 * task.seconds))
        passes = run.exit_code == 0 and not run.failed and not run.broken and set(task.failing) <= run.passed
        broken, repaired = (split_lines((place / task.path).read_bytes().decode()) for place in (repo, copy))
        at = task.line - 1
        right = [*broken[:at], *task.before, *broken[at + len(task.after) :]]
        return ("passes" if passes else "fails"), repaired == right
