"""Tests that can't import a module: what the user can do about it."""

from __future__ import annotations

from pathlib import Path

from clover_agent.hints import missing_modules
from tools.render import TestFailure, TestReport

DETAIL = "tests/test_a.py:1: in <module>\n    from calc import x\nE   ModuleNotFoundError: No module named 'calc.core'"


def broken(detail: str = DETAIL) -> TestReport:
    return TestReport(2, structured=True, collection_errors=(TestFailure("tests/test_a.py", detail),))


def test_a_source_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "src" / "calc").mkdir(parents=True)
    assert missing_modules(broken(), tmp_path) == (
        "the sandbox has no module calc: put PYTHONPATH=src before the test command"
    )


def test_other_modules_need_another_image(tmp_path: Path) -> None:
    assert missing_modules(broken(), tmp_path).endswith("give an --image that has it")
    text = "Traceback\nModuleNotFoundError: No module named 'numpy'\n"
    assert "no module numpy" in missing_modules(TestReport(1, output=text), tmp_path)


def test_other_faults_give_no_hint(tmp_path: Path) -> None:
    assert missing_modules(broken("E   NameError: name 'calc' is not defined"), tmp_path) == ""
    failing = TestReport(1, structured=True, failed=(TestFailure("t", DETAIL),))
    assert missing_modules(failing, tmp_path) == ""
