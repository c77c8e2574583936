"""Running a package's own tests on this machine, outside the product: makes tasks and checks the product's word."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

_PLUGINS = Path(__file__).parent


@dataclass(frozen=True)
class SuiteRun:
    """exit_code: pytest's own, None when stopped at the limit. lines: by file, what ran, where that was asked for."""

    exit_code: int | None
    passed: frozenset[str]
    failed: frozenset[str]
    broken: bool  # errors outside of tests: in collection, in a fixture
    seconds: float
    lines: dict[str, list[int]]


def run_suite(
    python: str, repo: Path, tests: str, path: str = "", *, limit: float = 60.0, trace: bool = False
) -> SuiteRun:
    """Run `python -m pytest tests` in `repo`, its whole process group stopped after `limit` seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        report, lines = Path(scratch, "junit.xml"), Path(scratch, "lines.json")
        command = [
            python,
            "-B",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *shlex.split(tests),
        ]
        env = {"PATH": os.environ["PATH"], "HOME": scratch, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "TMPDIR": scratch}
        search = [str(repo / path)] if path else []
        if trace:
            command[5:5] = ["-p", "linetrace"]
            search.append(str(_PLUGINS))
            env |= {"CLOVER_TRACE_ROOTS": str(repo.resolve()), "CLOVER_TRACE_OUT": str(lines)}
        env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # as on a bare machine
        if search:
            env["PYTHONPATH"] = ":".join(search)
        start = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=repo,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seconds = time.monotonic() - start
        passed, failed, broken = _read(report) if report.exists() else (set(), set(), code != 0)
        executed = json.loads(lines.read_text()) if lines.exists() else {}
    return SuiteRun(code, frozenset(passed), frozenset(failed), broken, seconds, executed)


def _read(report: Path) -> tuple[set[str], set[str], bool]:
    passed, failed, broken = set(), set(), False
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if case.find("error") is not None:
            broken = True
        elif case.find("failure") is not None:
            failed.add(name)
        elif case.find("skipped") is None:
            passed.add(name)
    return passed, failed - passed, broken
