"""Failing tests for bugs, in the form pytest's `--tb=short` gives them.

For bugs that were run, the failure is what really happened. For the others it is true in form and in what it names
(test, function, lines); its values are drawn.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from clover_agent.nano.executed.records import Check, Fault
from clover_agent.nano.functions import Function
from tools.render import TestFailure


@dataclass(frozen=True)
class Target:
    """Where the bug is: the file, the function with its lines in it, the changed line (1-based), the file's lines."""

    path: str
    function: Function
    line: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class DrawnFailure:
    """A failure, and the line of the buggy file its last frame points at (0 where none does)."""

    failure: TestFailure
    line: int


_LITERAL_COMPARISON = re.compile(r"assert (\w[\w.]*)\([^()]+\) == ")
_ERRORS = (
    "TypeError: unsupported operand type(s) for {}: 'NoneType' and 'int'",
    "TypeError: 'NoneType' object is not iterable",
    "TypeError: object of type 'NoneType' has no len()",
    "TypeError: argument of type 'NoneType' is not iterable",
    "AttributeError: 'NoneType' object has no attribute '{}'",
    "AttributeError: 'str' object has no attribute '{}'",
    "IndexError: list index out of range",
    "IndexError: string index out of range",
    "KeyError: '{}'",
    "ValueError: invalid literal for int() with base 10: '{}'",
    "UnboundLocalError: cannot access local variable '{}' where it is not associated with a value",
    "NameError: name '{}' is not defined",
    "ZeroDivisionError: division by zero",
    "RecursionError: maximum recursion depth exceeded",
)
_WORDS = ("name", "value", "items", "key", "result", "foo", "a", "x", "data", "text", "b", "test", "path", "abc", "1")


def draw_failure(target: Target, rng: random.Random) -> DrawnFailure | None:
    """A plausible failing test; None in a few cases (a test command that says nothing)."""
    if rng.random() < 0.03:
        return None
    file, node, name = _test_name(target, rng)
    plain = target.function.name.strip("_") or "call"
    test_line = rng.randint(4, 400)
    call = _call(target, rng)
    kind = rng.random()
    frames: list[str] = []
    line = 0
    if kind < 0.62:
        left, right = _literal(rng), _literal(rng)
        statement, errors = _assertion(call, left, right, rng)
        frames = [f"{file}:{test_line}: in {name}", f"    {statement}"]
    else:
        line = _raising_line(target, rng)
        frames = [
            f"{file}:{test_line}: in {name}",
            f"    {rng.choice((f'assert {call} == {_literal(rng)}', f'result = {call}', call))}",
        ]
        if rng.random() < 0.3:
            other = rng.randint(1, max(1, target.function.start - 1))
            frames += [
                f"{target.path}:{other}: in {rng.choice(_WORDS)}",
                f"    return self.{plain}({rng.choice(_WORDS)})",
            ]
        frames += [f"{target.path}:{line}: in {target.function.name}", f"    {target.lines[line - 1].strip()}"]
        errors = [
            "E   "
            + rng.choice(_ERRORS).format(rng.choice(("+", "-", "*")) if rng.random() < 0.2 else rng.choice(_WORDS))
        ]
    detail = "\n".join([*frames, *errors])
    return DrawnFailure(TestFailure(node, detail), line)


def show_failure(target: Target, check: Check, fault: Fault, rng: random.Random) -> DrawnFailure:
    """A failure that really happened, in a test with a likely name. The fault's lines count in the target's file."""
    file, node, name = _test_name(target, rng)
    statement = check.statement
    if fault.frames and check.setup:
        statement = check.setup.partition("; ")[0]
    elif (match := _LITERAL_COMPARISON.match(statement)) and rng.random() < 0.25:
        statement = f"assert {match[1]}({rng.choice(('value', 'arg', 'given', 'text', 'data'))}) == expected"
    frames = [f"{file}:{rng.randint(4, 400)}: in {name}", f"    {statement}"]
    for line, function in fault.frames:
        frames += [f"{target.path}:{line}: in {function}", f"    {target.lines[line - 1].strip()}"]
    line = fault.frames[-1][0] if fault.frames else 0
    return DrawnFailure(TestFailure(node, "\n".join([*frames, *fault.errors])), line)


def _test_name(target: Target, rng: random.Random) -> tuple[str, str, str]:
    """A test file, a node id in it, and the test function's name."""
    module = PurePosixPath(target.path).stem.strip("_") or "init"
    folder = rng.choice(("tests/", "tests/", "tests/", "test/", "", "tests/unit/"))
    plain = target.function.name.strip("_") or "call"
    file = f"{folder}test_{rng.choice((module, module, plain, 'core', 'basic'))}.py"
    name = rng.choice(
        (f"test_{plain}", f"test_{plain}_{rng.choice(_WORDS)}", f"test_{module}", f"test_{rng.choice(_WORDS)}")
    )
    owner = rng.choice(
        ("", "", "", f"Test{module.title().replace('_', '')}::", f"Test{plain.title().replace('_', '')}::")
    )
    case = rng.choice(("", "", "", f"[{_literal(rng, False)}-{_literal(rng, False)}]"))
    return file, f"{file}::{owner}{name}{case}", name


def _assertion(call: str, left: str, right: str, rng: random.Random) -> tuple[str, list[str]]:
    match rng.randrange(6):
        case 0:
            return f"assert {call}", [
                f"E   assert {rng.choice(('False', 'None', '[]'))}",
                f"E    +  where False = {call}",
            ]
        case 1:
            return f"assert not {call}", ["E   assert not True", f"E    +  where True = {call}"]
        case 2:
            return f"self.assertEqual({call}, {right})", [f"E   AssertionError: {left} != {right}"]
        case 3:
            return f"assert result == {right}", [f"E   assert {left} == {right}"]
        case 4:
            return "with pytest.raises(ValueError):", ["E   Failed: DID NOT RAISE <class 'ValueError'>"]
        case _:
            lines = [f"E   assert {left} == {right}", f"E    +  where {left} = {call}"]
            return f"assert {call} == {right}", lines[: rng.randint(1, 2)]


def _raising_line(target: Target, rng: random.Random) -> int:
    """Where the exception shows: mostly the changed line or one soon after it, never a blank one."""
    end = min(target.function.end, len(target.lines))
    choices: Sequence[int] = [n for n in range(target.line, end + 1) if target.lines[n - 1].strip()]
    if not choices:
        return max(1, min(target.line, len(target.lines)))
    return choices[0] if rng.random() < 0.6 else rng.choice(choices[:8])


def _call(target: Target, rng: random.Random) -> str:
    arguments = ", ".join(_literal(rng) for _ in range(rng.randint(0, 3)))
    owner = rng.choice(("", "", "obj.", "self.obj.", f"{PurePosixPath(target.path).stem}."))
    return f"{owner}{target.function.name}({arguments})"


def _literal(rng: random.Random, nested: bool = True) -> str:
    match rng.randrange(9 if nested else 4):
        case 0 | 1:
            return str(rng.randint(-3, 30))
        case 2:
            return repr(rng.choice(_WORDS))
        case 3:
            return rng.choice(("True", "False", "None", "0", "1", "''"))
        case 4:
            return f"[{', '.join(_literal(rng, False) for _ in range(rng.randint(0, 4)))}]"
        case 5:
            return f"({', '.join(_literal(rng, False) for _ in range(2))})"
        case 6:
            return "{" + f"{rng.choice(_WORDS)!r}: {_literal(rng, False)}" + "}"
        case 7:
            return f"{rng.random() * 10:.2f}"
        case _:
            return repr(" ".join(rng.choice(_WORDS) for _ in range(rng.randint(2, 4))))
