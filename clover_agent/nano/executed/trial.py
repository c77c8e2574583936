"""Calling the functions of a module, sound and mutated, and noting the calls that tell them apart."""

from __future__ import annotations

import ast
import builtins
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from clover_agent.nano.corpus import Module
from clover_agent.nano.executed.arguments import guess, literals
from clover_agent.nano.executed.records import Check, Executed, Fault
from clover_agent.nano.executed.slices import Slice, bindings, first_line, slice_for
from clover_agent.nano.executed.testcode import check_raises, check_value, run_check
from engine.training.bugs import Mutation, mutate

GUESSES, CALLS, MUTANTS = 60, 10, 24  # calls tried and kept a function, bugs drawn
CALL_SECONDS = 0.1
MIN_LINES, MAX_LINES = 3, 80
_PLAIN = (str, int, float, bool, bytes, complex, type(None))


class _Expired(BaseException):
    pass


@dataclass(frozen=True)
class Call:
    """A call that gives `value` in the sound module, or raises the built-in exception of that name."""

    source: str
    value: Any = None
    exception: str = ""


@dataclass(frozen=True)
class Subject:
    """A function to be called. owner: the top-level statement that holds it; form: a call with `{init}` and
    `{arguments}` to be filled in; hints: literals of its body."""

    owner: ast.FunctionDef | ast.ClassDef
    function: ast.FunctionDef
    form: str
    hints: tuple[str, ...]


def try_module(module: Module, rng: random.Random) -> Iterator[Executed]:
    """Bugs of a module's functions with the checks that notice them.

    Runs the module's code: call this in a process of its own, with limits.
    """
    signal.signal(signal.SIGALRM, _expire)
    try:
        tree = ast.parse(module.source)
    except (SyntaxError, ValueError, RecursionError):
        return
    bound = bindings(tree)
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or bound.get(node.name) is not node:
            continue
        part = slice_for(tree, bound, node)
        if part is None:
            continue
        for function, form in _callables(node):
            if MIN_LINES <= (function.end_lineno or 0) - first_line(function) + 1 <= MAX_LINES:
                yield from _try_function(module, part, Subject(node, function, form, literals(function)), rng)


def _callables(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[ast.FunctionDef, str]]:
    """Functions with the form of a call."""
    if isinstance(node, ast.FunctionDef):
        generator = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))
        yield node, f"list({node.name}({{arguments}}))" if generator else f"{node.name}({{arguments}})"
        return
    for function in node.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        marks = {ast.unparse(mark) for mark in function.decorator_list}
        if not marks and function.name in ("__len__", "__repr__", "__str__", "__bool__"):
            yield function, f"{function.name.strip('_')}({node.name}({{init}}))"
        elif not marks and not function.name.startswith("__"):
            yield function, f"{node.name}({{init}}).{function.name}({{arguments}})"
        elif marks in ({"staticmethod"}, {"classmethod"}):
            yield function, f"{node.name}.{function.name}({{arguments}})"
        elif marks in ({"property"}, {"cached_property"}):
            yield function, f"{node.name}({{init}}).{function.name}"


def _try_function(module: Module, part: Slice, subject: Subject, rng: random.Random) -> Iterator[Executed]:
    file = f"<corpus>/{module.path}"
    name = PurePosixPath(module.path).with_suffix("").as_posix().replace("/", ".")
    try:
        with _Limit(2):
            space = part.namespace(name, file)
    except (Exception, _Expired, SystemExit):
        return
    calls = _telling_calls(subject, space, rng)
    if not calls:
        return
    function = subject.function
    start, end = first_line(function), function.end_lineno or function.lineno
    seen: set[str] = set()
    for _ in range(MUTANTS):
        mutation = mutate(module.source, rng, start, end)
        if mutation is None or mutation.source in seen:
            continue
        seen.add(mutation.source)
        space = _mutant(mutation, subject.owner, part, name, file)
        found = _noticed(space, calls, file, rng) if space is not None else None
        if found is not None:
            yield Executed(
                module.package, module.path, function.name, start, end, mutation.operator, mutation.line,
                mutation.before, mutation.after, *found,
            )  # fmt: skip


def _telling_calls(subject: Subject, space: dict[str, Any], rng: random.Random) -> list[Call]:
    """Calls with different results, the same each time; none where no call gives a plain value."""
    owner, function = subject.owner, subject.function
    init = None
    if isinstance(owner, ast.ClassDef) and "{init}" in subject.form:
        init = next((n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    static = any(ast.unparse(mark) == "staticmethod" for mark in function.decorator_list)
    method = isinstance(owner, ast.ClassDef) and not static
    found: dict[str, Call] = {}
    raising: dict[str, Call] = {}
    fruitless = 0
    for _ in range(GUESSES):
        made = guess(init, rng, subject.hints, skip_first=True) if init is not None else ""
        given = guess(function, rng, subject.hints, skip_first=method)
        call = subject.form.replace("{init}", made).replace("{arguments}", given)
        if len(call) > 140:
            continue
        outcome = _outcome(call, space)
        if outcome is None or outcome != _outcome(call, space):
            fruitless += 1
            if fruitless > 25 and not found:
                break
            continue
        kind, text, value = outcome
        if kind == "raises":
            if text not in ("TypeError", "AttributeError", "NameError", "RecursionError", "SystemExit"):
                raising.setdefault(text, Call(call, exception=text))
        elif value is not None or found:
            found.setdefault(text, Call(call, value))
        if len(found) >= CALLS:
            break
    if not found:
        return []
    calls = [*found.values(), *list(raising.values())[:2]]
    rng.shuffle(calls)
    return calls


def _outcome(call: str, space: dict[str, Any]) -> tuple[str, str, Any] | None:
    """("value", its repr, value) or ("raises", exception's name, None); None for anything that can't be expected."""
    try:
        with _Limit(CALL_SECONDS):
            value = eval(call, dict(space))
            text = repr(value) if _plain(value) else ""
    except Exception as fault:
        known = getattr(builtins, type(fault).__name__, None)
        return ("raises", type(fault).__name__, None) if known is type(fault) else None
    except (_Expired, SystemExit):
        return None
    return ("value", text, value) if 0 < len(text) <= 160 else None


def _plain(value: Any, depth: int = 0) -> bool:
    """Whether `repr` of a value is an expression that gives it again."""
    if type(value) in _PLAIN:
        return not isinstance(value, float | complex) or abs(value) < float("inf")
    if depth > 3 or type(value) not in (list, tuple, dict, set) or len(value) > 40:
        return False
    if type(value) is set:
        return bool(value) and all(_plain(item, 4) for item in value)
    parts = [*value.keys(), *value.values()] if type(value) is dict else value
    return all(_plain(part, depth + 1) for part in parts)


def _mutant(
    mutation: Mutation, owner: ast.FunctionDef | ast.ClassDef, part: Slice, name: str, file: str
) -> dict[str, Any] | None:
    """The names of the slice with the mutation in it; None where it can't be loaded."""
    start = first_line(owner)
    end = (owner.end_lineno or start) + len(mutation.after) - len(mutation.before)
    text = "\n" * (start - 1) + "\n".join(mutation.source.split("\n")[start - 1 : end])
    try:
        with _Limit(2):
            return part.namespace(name, file, ast.parse(text).body[0])
    except (Exception, _Expired, SystemExit):
        return None


def _noticed(space: dict[str, Any], calls: list[Call], file: str, rng: random.Random) -> tuple[Check, Fault] | None:
    """The first check that fails in `space`; None where none does, or one hangs."""
    for call in calls:
        if call.exception:
            check = check_raises(call.source, call.exception, rng)
        else:
            check = check_value(call.source, call.value, rng)
        try:
            with _Limit(4 * CALL_SECONDS):
                fault = run_check(check, space, file)
        except (_Expired, SystemExit):
            return None
        if fault is not None:
            return check, fault
    return None


class _Limit:
    """Raise _Expired in the code below after some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *unused: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _expire(signum: int, frame: object) -> None:
    raise _Expired
