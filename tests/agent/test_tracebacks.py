"""What commands that are no pytest say of a failure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clover_agent.tracebacks import read_traceback

UNITTEST = """.F
======================================================================
FAIL: test_even (tests.test_stats.TestStats.test_even)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/workspace/tests/test_stats.py", line 12, in test_even
    self.assertEqual(median([4, 1, 2, 3]), 2.5)
    ~~~~~~~~~~~~~~~~^^^^^^^^^^^^^^^^^^^^^^^^^^^
AssertionError: 3 != 2.5

======================================================================
FAIL: test_odd (tests.test_stats.TestStats.test_odd)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/workspace/tests/test_stats.py", line 9, in test_odd
    self.assertEqual(median([3, 1, 2]), 2)
AssertionError: 1.5 != 2
"""
SCRIPT = """checking
Traceback (most recent call last):
  File "/workspace/check.py", line 4, in <module>
    main()
  File "/workspace/pkg/core.py", line 9, in main
    return table[key]
KeyError: 'x'
make: *** [Makefile:3: check] Error 1
"""


def test_unittests_first_failure() -> None:
    found = read_traceback(UNITTEST, "/workspace", "python3 -m unittest")
    assert found is not None
    assert found.test_id == "tests.test_stats.TestStats.test_even"
    assert found.detail.splitlines() == [
        "tests/test_stats.py:12: in test_even",
        "    self.assertEqual(median([4, 1, 2, 3]), 2.5)",
        "E   AssertionError: 3 != 2.5",
    ]


def test_older_unittests_name_the_class_apart() -> None:
    found = read_traceback(UNITTEST.replace("TestStats.test_even)", "TestStats)"), "/workspace", "x")
    assert found is not None and found.test_id == "tests.test_stats.TestStats.test_even"


def test_a_script_bears_its_command() -> None:
    found = read_traceback(SCRIPT, "/workspace", "make check")
    assert found is not None and found.test_id == "make check"
    assert "pkg/core.py:9: in main" in found.detail.splitlines()
    assert "E   KeyError: 'x'" in found.detail.splitlines()


@given(st.text())
def test_any_output_is_borne(output: str) -> None:
    read_traceback(output, "/workspace", "x")
    read_traceback("Traceback (most recent call last):\n" + output, "/workspace", "x")


def test_without_a_traceback_there_is_nothing() -> None:
    assert read_traceback("Error 1\n", "/workspace", "x") is None
