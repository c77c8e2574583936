"""Every way in which a test run can end has its own name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.folder_sandbox import FolderSandbox
from tools.outcome import TestOutcome, outcome, tell
from tools.registry import Registry, standard_tools
from tools.testing import run_test_command

PYTEST = "python3 -m pytest -q"
SKIP = "import pytest\n@pytest.mark.skip\ndef test_a(): pass\ndef test_b(): pytest.skip('no')\n"
CRASH = "import os, signal\ndef test_a(): os.kill(os.getpid(), signal.SIGSEGV)\n"
MIXED = "def test_good(): pass\ndef test_other(): assert 0\n"


@pytest.mark.parametrize(
    ("tests", "command", "expected", "text"),
    [
        ("def test_a(): pass\n", PYTEST, "passed", "All 1 tests pass."),
        ("def test_a(): assert 0\n", PYTEST, "failed", "1 test fails, 0 pass."),
        ("import absent\n", PYTEST, "collection_error", "Tests could not be collected."),
        ("x = 1\n", PYTEST, "nothing_collected", "No tests were found."),
        (MIXED, f"{PYTEST} -k zebra", "all_deselected", "No test ran: the selection leaves out all 2"),
        (MIXED, f"{PYTEST} -k good", "passed", "All 1 tests pass."),
        (SKIP, PYTEST, "all_skipped", "No test ran: all 2 were skipped."),
        ("import time\ndef test_a(): time.sleep(60)\n", PYTEST, "timeout", "The tests did not finish in time."),
        (CRASH, f"{PYTEST} -p no:faulthandler", "crashed", "The test runner crashed (status 139, SIGSEGV)."),
        ("", "echo fine", "passed", "The test command ended with status 0.\n\nfine"),
        ("", "echo no; exit 7", "failed", "The test command ended with status 7.\n\nno"),
        ("", "kill -9 $$", "crashed", "The test runner crashed"),
    ],
)
def test_outcomes(tmp_path: Path, tests: str, command: str, expected: str, text: str) -> None:
    (tmp_path / "test_it.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    report = run_test_command(FolderSandbox(tmp_path), command, timeout=30 if expected != "timeout" else 8)
    assert outcome(report) is TestOutcome(expected)
    assert tell(report).startswith(text)
    assert report.ok or outcome(report) is not TestOutcome.PASSED


def test_a_fault_inside_pytest_is_a_crash(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("def pytest_runtestloop(session):\n    raise KeyError('inside')\n")
    (tmp_path / "test_it.py").write_text("def test_a(): pass\n")
    assert outcome(run_test_command(FolderSandbox(tmp_path), PYTEST)) is TestOutcome.CRASHED


def test_the_tool_says_which(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SKIP)
    seen = Registry(standard_tools(PYTEST, 30)).run("run_tests", {}, FolderSandbox(tmp_path))
    assert seen.data is not None
    assert seen.data["outcome"] == "all_skipped"
