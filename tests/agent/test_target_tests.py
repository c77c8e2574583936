"""The failing tests alone, with a real pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

from clover_agent.target_tests import RunTargetsFirst, TargetTests, TestedEdit
from tests.folder_sandbox import FolderSandbox
from tools.memory import FileMemory

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


def edit(new: str) -> dict[str, object]:
    return {"path": "code.py", "old_str": "x = 0", "new_str": new}


def test_an_edit_that_leaves_a_target_failing_ends_the_attempt_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("x = 0\n")
    (tmp_path / "test_code.py").write_text("from code import x\n\n\ndef test_x():\n    assert x == 2\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    sandbox, command = FolderSandbox(tmp_path), "python3 -m pytest -q"
    quick = RunTargetsFirst(TargetTests(sandbox, command, ["test_code.py::test_x"], 60), command, 60)
    tool = TestedEdit(quick, FileMemory())
    wrong = tool.run(edit("x = 1"), sandbox)
    assert wrong.finished and wrong.changed == ("code.py",)
    assert wrong.text.startswith("Edited code.py") and "assert 1 == 2" in wrong.text
    assert wrong.data is not None and not wrong.data["ok"]
    right = tool.run({"path": "code.py", "old_str": "x = 1", "new_str": "x = 2"}, sandbox)
    assert not right.finished and right.data is None
    assert quick.run({}, sandbox).text == "All 1 tests pass."
