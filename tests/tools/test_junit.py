"""Reports as pytest really writes them, and what must not be believed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.junit import Results, read_junit

CASES = """
import unittest
import pytest

def test_good(): pass
def test_bad(): assert [1, 2] == [1, 3]
def test_raises(): {}["k"]
@pytest.mark.parametrize("x", ["a/b", "c::d", "é", ""])
def test_many(x): assert x != "é"
@pytest.mark.skip(reason="no")
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert 0
@pytest.fixture
def broken(): raise OSError("setup")
def test_setup(broken): pass
@pytest.fixture
def leaky():
    yield
    raise OSError("teardown")
def test_teardown(leaky): pass
class TestGroup:
    class TestInner:
        def test_deep(self): assert False
    def test_in(self): pass
class Old(unittest.TestCase):
    def test_old(self): self.assertEqual(1, 2)
"""


def run(folder: Path, *arguments: str) -> Results | None:
    command = [sys.executable, "-m", "pytest", "-q", "--junitxml=r.xml", "-o", "junit_family=xunit1", "--tb=short"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run([*command, *arguments], cwd=folder, env=env, capture_output=True, check=False)
    return read_junit((folder / "r.xml").read_bytes())


@pytest.fixture
def results(tmp_path: Path) -> Results:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_all.py").write_text(CASES)
    found = run(tmp_path)
    assert found is not None
    return found


def test_ids_are_pytests_own(results: Results) -> None:
    file = "tests/test_all.py::"
    assert set(results.passed) == {
        file + name
        for name in (
            "test_good",
            "test_many[a/b]",
            "test_many[c::d]",
            "test_many[]",
            "TestGroup::test_in",
        )
    }
    assert {failure.test_id for failure in results.failed} == {
        file + name
        for name in (
            "test_bad",
            "test_raises",
            "test_many[\\xe9]",
            "test_setup",
            "test_teardown",
            "TestGroup::TestInner::test_deep",
            "Old::test_old",
        )
    }
    assert results.skipped == (file + "test_skipped", file + "test_expected")
    assert results.collection_errors == ()


def test_details_are_the_short_traceback(results: Results) -> None:
    detail = {failure.test_id.split("::")[-1]: failure.detail for failure in results.failed}
    lines = detail["test_bad"].splitlines()
    assert lines[0] == "tests/test_all.py:6: in test_bad"
    assert lines[1] == "    def test_bad(): assert [1, 2] == [1, 3]"
    assert any(line.startswith("E   assert [1, 2] == [1, 3]") for line in lines[2:4])
    assert "KeyError: 'k'" in detail["test_raises"]


def test_what_can_not_be_collected_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "test_fine.py").write_text("def test_a(): pass\n")
    found = run(tmp_path, "--continue-on-collection-errors")
    assert found is not None
    assert [failure.test_id for failure in found.collection_errors] == ["test_broken.py"]
    assert "nothing_of_that_name" in found.collection_errors[0].detail
    assert found.passed == ("test_fine.py::test_a",)


def test_inherited_tests_keep_the_name_of_the_file_they_run_in(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").write_text("class Common:\n    def test_it(self): assert self.good\n")
    for name, good in (("a", True), ("b", False)):
        text = f"from tests import Common\nclass Test{name.upper()}(Common):\n    good = {good}\n"
        (tmp_path / "tests" / f"test_{name}.py").write_text(text)
    found = run(tmp_path)
    assert found is not None
    assert found.passed == ("tests/test_a.py::TestA::test_it",)
    assert [failure.test_id for failure in found.failed] == ["tests/test_b.py::TestB::test_it"]


def test_no_tests_is_a_report_without_results(tmp_path: Path) -> None:
    assert run(tmp_path) == Results((), (), (), ())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<testsuites><testsuite><testcase name='a'",
        b"<html></html>",
        b"<!DOCTYPE x [<!ENTITY a 'aaaa'>]><testsuites>&a;</testsuites>",
        b"\xff\xfe\x00",
    ],
)
def test_what_is_no_report_is_none(data: bytes) -> None:
    assert read_junit(data) is None


def test_a_test_that_passes_once_and_fails_once_has_failed() -> None:
    data = (
        b"<testsuites><testsuite><testcase classname='t' name='a' file='t.py'/>"
        b"<testcase classname='t' name='a' file='t.py'><failure message='m'>E   no</failure></testcase>"
        b"</testsuite></testsuites>"
    )
    found = read_junit(data)
    assert found is not None
    assert found.passed == ()
    assert [failure.test_id for failure in found.failed] == ["t.py::a"]
