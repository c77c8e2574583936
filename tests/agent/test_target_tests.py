"""The failing tests alone, with a real pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

from clover_agent.target_tests import TargetTests
from tests.folder_sandbox import FolderSandbox

TESTS = """import pathlib

def test_one():
    assert not pathlib.Path("broken").exists()

def test_two():
    with open("ran", "a") as log:
        log.write("two ")
    assert not pathlib.Path("broken").exists()

def test_three():
    assert False
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "test_a.py").write_text(TESTS)
    (tmp_path / "test_b.py").write_text("open('imported', 'w')\n\ndef test_b():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def chosen(repo: Path, *targets: str) -> TargetTests:
    return TargetTests(FolderSandbox(repo), "python3 -m pytest -q", targets, 60)


def test_only_the_targets_run_and_other_files_are_not_imported(repo: Path) -> None:
    report = chosen(repo, "test_a.py::test_one", "test_a.py::test_two").run()
    assert report is not None and report.ok
    assert set(report.passed) == {"test_a.py::test_one", "test_a.py::test_two"}
    assert not (repo / "imported").exists()


def test_to_the_first_failure_and_no_further(repo: Path) -> None:
    (repo / "broken").touch()
    targets = chosen(repo, "test_a.py::test_one", "test_a.py::test_two")
    first = targets.run(to_first_failure=True)
    assert first is not None and [failure.test_id for failure in first.failed] == ["test_a.py::test_one"]
    assert not (repo / "ran").exists()
    whole = targets.run()
    assert whole is not None and len(whole.failed) == 2


def test_a_target_that_is_not_found_is_no_answer(repo: Path) -> None:
    assert chosen(repo, "test_a.py::test_one", "test_a.py::test_gone").run() is None
    assert chosen(repo, "test_gone.py::test_one").run() is None
    assert chosen(repo).run() is None
