"""One assertion about a call, run for real, and what pytest's `--tb=short` says when it fails."""

from __future__ import annotations

import ast
import random
import traceback
import unittest
from collections.abc import Callable, Mapping
from typing import Any

from clover_agent.nano.executed.records import Check, Fault

_COMPARED = "assert {call} == {expected}"
_FORMS = (
    (_COMPARED, ""), (_COMPARED, ""), (_COMPARED, ""),
    ("assert result == {expected}", "result = {call}"),
    ("assert actual == expected", "actual = {call}; expected = {expected}"),
    ("self.assertEqual({call}, {expected})", ""), ("self.assertEqual({call}, {expected})", ""),
    ("self.assertEqual({expected}, {call})", ""),
)  # fmt: skip


MAX_ERRORS = 8  # lines kept of an explanation; the product shows fewer


def check_value(call: str, value: Any, rng: random.Random) -> Check:
    """A check that `call` gives `value`, in one of the forms that people write."""
    expected = repr(value)
    if value is True or value is False or value is None:
        word = {True: "True", False: "False", None: "None"}[value]
        forms = [f"assert {call} is {word}", f"self.assertEqual({call}, {word})"]
        if value is None:
            forms.append(f"self.assertIsNone({call})")
        else:
            forms += [f"assert {'' if value else 'not '}{call}", f"self.assert{word}({call})"]
        return Check(rng.choice(forms))
    statement, setup = rng.choice(_FORMS)
    return Check(statement.format(call=call, expected=expected), setup.format(call=call, expected=expected))


def check_raises(call: str, exception: str, rng: random.Random) -> Check:
    """A check that `call` raises the exception of that name."""
    opening = rng.choice((f"with pytest.raises({exception}):", f"with self.assertRaises({exception}):"))
    return Check(opening, call, exception)


def run_check(check: Check, space: Mapping[str, Any], file: str) -> Fault | None:
    """Run a check among the names of `space`; None where it holds. `file`: the module's, to tell its frames."""
    if check.expected:
        return _run_raising(check, dict(space), file)
    try:
        _test_function(check, dict(space))(unittest.TestCase())
    except Exception as fault:
        return Fault(_frames(fault, file), _error_lines(fault))
    return None


def _run_raising(check: Check, scope: dict[str, Any], file: str) -> Fault | None:
    try:
        exec(check.setup, scope)
    except Exception as fault:
        if type(fault).__name__ == check.expected:
            return None
        return Fault(_frames(fault, file), _error_lines(fault))
    if "pytest" in check.statement:
        return Fault((), (f"E   Failed: DID NOT RAISE {check.expected}",))
    return Fault((), (f"E   AssertionError: {check.expected} not raised",))


def _test_function(check: Check, scope: dict[str, Any]) -> Callable[[unittest.TestCase], None]:
    """A test compiled as pytest compiles tests, so that a failing assertion explains itself."""
    from _pytest.assertion.rewrite import rewrite_asserts

    text = f"def test(self):\n    {check.setup or 'pass'}\n    {check.statement}\n"
    tree = ast.parse(text)
    if check.statement.startswith("assert "):
        rewrite_asserts(tree, text.encode())
    exec(compile(tree, "<test>", "exec", dont_inherit=True), scope)
    return scope["test"]


def explain_comparisons() -> None:
    """Let rewritten assertions explain comparisons as in a run of pytest. Call once a process."""
    from _pytest.assertion import util

    def explain(op: str, left: object, right: object) -> str | None:
        found = list(
            util.assertrepr_compare(
                op, left, right, verbose=0, highlighter=lambda source, lexer="python": source,
                assertion_text_diff_style="ndiff",
            )
        )  # fmt: skip
        if len(found) < 2:
            return None
        return "\n~".join(line.replace("\n", "\\n") for line in found[:MAX_ERRORS]).replace("%", "%%")

    util._reprcompare = explain


def _frames(fault: BaseException, file: str) -> tuple[tuple[int, str], ...]:
    stack = traceback.extract_tb(fault.__traceback__)
    return tuple((frame.lineno or 0, frame.name) for frame in stack if frame.filename == file)


def _error_lines(fault: BaseException) -> tuple[str, ...]:
    text = "".join(traceback.format_exception_only(fault)).rstrip("\n")
    if isinstance(fault, AssertionError) and repr(fault).startswith("AssertionError('assert "):
        text = text.removeprefix("AssertionError: ")
    return tuple(f"E   {line}"[:300] for line in text.split("\n")[:MAX_ERRORS])
