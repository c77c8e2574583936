"""From failing tests to suspects, with a real traced run."""

from __future__ import annotations

from pathlib import Path

import pytest

from clover_agent.localize import Coverage, covered_run, is_test_file, localize, traced_run
from clover_agent.prompts import VIEW_LINES, Suspect
from tests.folder_sandbox import FolderSandbox
from tools.render import TestFailure

CODE = """LIMIT = 3


def clamp(value):
    if value > LIMIT:
        return LIMIT
    return value


def double(value):
    return value * 3


class Tool:
    @property
    def size(self):
        return double(2)

    def unused(self):
        return 0
"""
TESTS = """import pytest
from pkg.code import Tool, clamp, double


def test_clamp():
    assert clamp(5) == 3


def test_double():
    assert double(2) == 4


def test_size():
    assert Tool().size == 4


def test_skipped():
    pytest.skip("no")
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "pkg" / "code.py").write_text(CODE)
    (folder / "test_code.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def test_a_traced_run_counts_what_failing_and_passing_tests_ran(repo: Path) -> None:
    report, coverage = traced_run(FolderSandbox(repo), "python3 -m pytest -q", 60)
    assert {failure.test_id for failure in report.failed} == {"test_code.py::test_double", "test_code.py::test_size"}
    assert coverage is not None
    assert (coverage.failing, coverage.passing) == (2, 2)
    lines = coverage.lines["pkg/code.py"]
    assert lines[11] == (2, 0)  # the body of double
    assert lines[17] == (1, 0)  # size
    assert lines[5] == (0, 1)  # clamp
    assert 20 not in lines


def test_the_function_that_all_failing_and_no_passing_tests_run_comes_first(repo: Path) -> None:
    report, coverage = traced_run(FolderSandbox(repo), "python3 -m pytest -q", 60)
    found = localize(repo, report.failed, coverage)
    assert [(suspect.name, suspect.start, suspect.end) for suspect in found][:2] == [
        ("double", 10, 11),
        ("size", 15, 17),
    ]
    assert "clamp" not in [suspect.name for suspect in found]
    assert sum(suspect.score for suspect in found) == pytest.approx(1.0)
    assert all(suspect.path == "pkg/code.py" for suspect in found)


def test_a_command_that_is_no_pytest_gives_no_coverage(repo: Path) -> None:
    report, coverage = traced_run(FolderSandbox(repo), "false", 60)
    assert (report.exit_code, coverage) == (1, None)


def failure(detail: str, name: str = "test_code.py::test_it") -> TestFailure:
    return TestFailure(name, detail)


def test_without_coverage_the_traceback_says_where(repo: Path) -> None:
    detail = (
        "test_code.py:9: in test_it\n    x()\npkg/code.py:17: in size\n    y\npkg/code.py:11: in double\n    z\nE   no"
    )
    found = localize(repo, [failure(detail)], None)
    assert [suspect.name for suspect in found] == ["double", "size"]
    assert localize(repo, [failure("E   no")], None) == []


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.py", "pkg/none.py", "test_code.py"])
def test_frames_outside_of_the_projects_code_are_no_suspects(repo: Path, path: str) -> None:
    assert localize(repo, [failure(f"{path}:3: in f\n    x\nE   no")], None) == []


def test_files_that_do_not_parse_are_passed_over(repo: Path) -> None:
    (repo / "pkg" / "code.py").write_bytes(b"def f(:\n\xff")
    coverage = Coverage(1, 0, {"pkg/code.py": {1: (1, 0)}})
    assert localize(repo, [failure("E   no")], coverage) == []


def test_of_a_long_function_a_window_around_the_evidence_is_shown(repo: Path) -> None:
    body = "".join(f"    x{n} = {n}\n" for n in range(200))
    (repo / "pkg" / "code.py").write_text(f"def long():\n{body}")
    coverage = Coverage(1, 1, {"pkg/code.py": {n: (1, 0) if n == 150 else (1, 1) for n in range(100, 180)}})
    (suspect,) = localize(repo, [failure("pkg/code.py:150: in long\n    x\nE   no")], coverage)
    assert isinstance(suspect, Suspect)
    assert suspect.end - suspect.start + 1 == VIEW_LINES
    assert suspect.start < 150 < suspect.end


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        ("tests/helper.py", True),
        ("a/test/b.py", True),
        ("test_a.py", True),
        ("a_test.py", True),
        ("pkg/tests.py", True),
        ("conftest.py", True),
        ("pkg/testing.py", False),
        ("pkg/attest.py", False),
        ("pkg/contest.py", False),
        ("pkg/latest.py", False),
    ],
)
def test_what_counts_as_a_test_file(path: str, yes: bool) -> None:
    assert is_test_file(path) == yes


def test_a_command_that_is_no_pytest_is_covered_as_one_failing_test(repo: Path) -> None:
    (repo / "check.py").write_text("from pkg.code import double\n\nassert double(2) == 4\n")
    report, coverage = covered_run(FolderSandbox(repo), "python3 check.py", 60)
    assert report.exit_code == 1 and coverage is not None
    assert (coverage.failing, coverage.passing) == (1, 0)
    assert coverage.lines["pkg/code.py"] == {10: (1, 0), 11: (1, 0)}
    assert covered_run(FolderSandbox(repo), "exit 3", 60)[1] is None


def test_known_failures_are_traced_beyond_the_seconds_of_others(repo: Path) -> None:
    slow = "\n\ndef test_slow():\n    import time\n    time.sleep(1.6)\n"
    (repo / "test_a_slow.py").write_text(slow + "\n\ndef test_fast():\n    from pkg.code import clamp\n    clamp(1)\n")
    targets = ["test_code.py::test_double", "test_code.py::test_size"]
    _, coverage = traced_run(FolderSandbox(repo), "python3 -m pytest -q", 60, targets)
    assert coverage is not None
    assert coverage.failing == 2
    assert coverage.lines["pkg/code.py"][5] == (0, 1)  # by its neighbour, not by test_fast: its time was used up
