"""The bug operators: whatever they do, everything else stays as it was."""

from __future__ import annotations

import ast
import heapq
import inspect
import random
import re
import statistics
import textwrap
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.training.bugs import OPERATORS, Mutation, candidates, mutate

SOURCES = {module.__name__: inspect.getsource(module) for module in (textwrap, heapq, statistics)}

SHOWCASE = '''"""Module text: x < 1 and not y."""
from __future__ import annotations

FLAG = True  # True or not


def near(values: list[int], low: int = 0, high: int = 10, *, strict: bool = False) -> list[int]:
    """Docstring: low <= value < high."""
    found = []  # keep < this
    total = 0
    for i in range(1, len(values)):
        value = values[i - 1]
        if value is None:
            continue
        elif not strict and low <= value < high:
            found.append(abs(value))
            total += value
        else:
            total -= 1
        if total > 100:
            break
    if total % 2 == 0:
        return sorted(found, reverse=True)[:-1]
    return [x for x in found if x != 0] or near(found, high, low)


class Box:
    """A box."""

    def __init__(self, width, height):
        self.width = width
        self.height = height

    def label(self, name, sep=", "):
        try:
            text = name.strip().lower()
        except AttributeError:
            raise ValueError("no name: ü", name)
        if self.width < self.height:
            text = "ä" + text
        else:
            text = text.upper()
        first, last = text[0], text[-1]
        return sep.join([first, text, last])
'''


def restore(mutation: Mutation) -> list[str]:
    """The original's lines, from the mutated text and the mutation's own account of what it changed."""
    lines = re.split("\r\n|\r|\n", mutation.source)
    at = mutation.line - 1
    assert tuple(lines[at : at + len(mutation.after)]) == mutation.after
    return [*lines[:at], *mutation.before, *lines[at + len(mutation.after) :]]


def check(source: str, mutation: Mutation) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(mutation.source, "<mutant>", "exec", dont_inherit=True)
    assert mutation.source != source
    assert mutation.before != mutation.after
    assert restore(mutation) == re.split("\r\n|\r|\n", source)
    assert mutation.operator in OPERATORS


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(SOURCES)), seed=st.integers(0, 2**32))
def test_a_mutation_compiles_and_is_reversible(name: str, seed: int) -> None:
    mutation = mutate(SOURCES[name], random.Random(seed))
    assert mutation is not None
    check(SOURCES[name], mutation)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), ends=st.sampled_from(["\n", "\r\n", "\r"]), final=st.booleans(), tabs=st.booleans())
def test_line_ends_tabs_and_unicode_survive(seed: int, ends: str, final: bool, tabs: bool) -> None:
    source = SHOWCASE.replace("    ", "\t") if tabs else SHOWCASE
    source = (source if final else source.rstrip("\n")).replace("\n", ends)
    mutation = mutate(source, random.Random(seed))
    assert mutation is not None
    check(source, mutation)
    assert mutation.source.endswith(ends) == final


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), start=st.integers(1, 30), length=st.integers(0, 8))
def test_only_lines_in_the_given_stretch_change(seed: int, start: int, length: int) -> None:
    mutation = mutate(SHOWCASE, random.Random(seed), start, start + length)
    if mutation is not None:
        check(SHOWCASE, mutation)
        assert start <= mutation.line
        assert mutation.line + len(mutation.before) - 1 <= start + length


@given(seed=st.integers(0, 2**32))
def test_the_seed_decides(seed: int) -> None:
    assert mutate(SHOWCASE, random.Random(seed)) == mutate(SHOWCASE, random.Random(seed))


def test_all_candidates_are_sound() -> None:
    found = candidates(SHOWCASE)
    for mutation in found:
        check(SHOWCASE, mutation)
    assert len({m.source for m in found}) > 300


def without_code(source: str) -> list[str]:
    """Docstrings, annotations, decorators and imports of a module, as text."""
    kept = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
            kept.append(ast.get_docstring(node, clean=False) or "")
        if isinstance(node, ast.FunctionDef):
            kept.append(ast.dump(node.returns) if node.returns else "")
        if isinstance(node, ast.arg) and node.annotation:
            kept.append(ast.dump(node.annotation))
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            kept.append(ast.dump(node))
    return kept


def test_docstrings_comments_annotations_and_imports_are_never_touched() -> None:
    comments = re.findall(r"#.*", SHOWCASE)
    for mutation in candidates(SHOWCASE):
        assert without_code(mutation.source) == without_code(SHOWCASE)
        removed = [line for line in mutation.before if line not in mutation.after]
        gone = [c for c in comments if c not in mutation.source]
        assert all(any(c in line for line in removed) for c in gone)  # a removed line takes its comment along
        assert not gone or mutation.operator == "dropped_assignment"


@pytest.mark.parametrize(
    ("code", "operator", "mutant"),
    [
        ("def f(a, b):\n    return a < b\n", "comparison", "    return a <= b"),
        ("def f(a, b):\n    return a is not b\n", "comparison", "    return a is b"),
        ("def f(a, b):\n    return a not  in b\n", "comparison", "    return a in b"),
        ("def f(a, b):\n    return (a) + (b)\n", "arithmetic", "    return (a) - (b)"),
        ("def f(a, b):\n    return (a) + (b)\n", "dropped_term", "    return (b)"),
        ("def f(a, b):\n    return a - b\n", "swapped_operands", "    return b - a"),
        ("def f(a, b):\n    return a and b or a\n", "boolean_operator", "    return a and b and a"),
        ("def f(a, b, c):\n    return a and b and c\n", "dropped_clause", "    return a and c"),
        ("def f(a):\n    return not a\n", "dropped_not", "    return a"),
        ("def f(a):\n    return -a\n", "sign", "    return a"),
        ("def f(a):\n    while a and a[0]:\n        pass\n", "negated_condition", "    while not (a and a[0]):"),
        ("def f(a):\n    return a + 7\n", "constant", "    return a + 8"),
        ("def f(a):\n    return a[0]\n", "index", "    return a[-1]"),
        ("def f(a):\n    return range(a)\n", "off_by_one", "    return range(1, a)"),
        ("def f(a):\n    return range(1, a)\n", "off_by_one", "    return range(a)"),
        ("def f(a):\n    return a[len(a) - 1]\n", "off_by_one", "    return a[len(a)]"),
        ("def f(a, n):\n    return a[:n]\n", "slice_bound", "    return a[n:]"),
        ("def f(a):\n    return a.get(True)\n", "boolean_constant", "    return a.get(False)"),
        ("def f(a):\n    return ','.join(a)\n", "string", "    return ';'.join(a)"),
        ("def f(low, high):\n    return high\n", "wrong_variable", "    return low"),
        ("def f(low, high):\n    mid = 3\n    low = mid\n", "wrong_target", "    high = mid"),
        ("def f(s):\n    return s.head + s.tail\n", "wrong_attribute", "    return s.tail + s.tail"),
        ("def f(a):\n    return a.lstrip()\n", "wrong_method", "    return a.rstrip()"),
        ("def f(a):\n    return min(a)\n", "wrong_method", "    return max(a)"),
        ("def g(a): pass\ndef h(a): pass\ndef f(a):\n    return g(a)\n", "wrong_function", "    return h(a)"),
        ("def f(a, b):\n    return a.sub(b, 1)\n", "swapped_arguments", "    return a.sub(1, b)"),
        ("def f(a, b):\n    return a(b, key=1)\n", "dropped_argument", "    return a(b)"),
        ("def f(a):\n    return sorted(a)\n", "dropped_call", "    return a"),
        ("def f(a):\n    return a.strip()\n", "dropped_call", "    return a"),
        ("def f(a):\n    return [x for x in a if x]\n", "dropped_filter", "    return [x for x in a]"),
        ("def f(a):\n    return a\n", "return_value", "    return None"),
        ("def f(a, b):\n    return a if b else 0\n", "swapped_branches", "    return 0 if b else a"),
        ("def f(a):\n    b = a\n    b += 1\n    return b\n", "augmented_operator", "    b -= 1"),
        ("def f(a):\n    for b in a:\n        break\n", "break_continue", "        continue"),
        ("def f(a):\n    if a:\n        a()\n    elif f:\n        f()\n", "if_elif", "    if f:"),
        ("def f(a, b=1):\n    return a\n", "dropped_default", "def f(a, b):"),
        (
            "def f(a):\n    try:\n        a()\n    except KeyError:\n        pass\n",
            "wrong_exception",
            "    except IndexError:",
        ),
        ("def f(a):\n    return a, 1\n", "swapped_elements", "    return 1, a"),
        ("def f(a):\n    for b in a:\n        b()\n        return b\n", "wrong_indentation", "    return b"),
    ],
)
def test_each_family_makes_the_slip_it_is_named_for(code: str, operator: str, mutant: str) -> None:
    found = candidates(code, operators=[operator])
    assert mutant in {line for mutation in found for line in mutation.after}


@pytest.mark.parametrize(
    ("code", "operator", "mutant"),
    [
        (
            "def f(a):\n    b = 1\n    b = a\n    return b\n",
            "dropped_assignment",
            "def f(a):\n    b = 1\n    return b\n",
        ),
        ("def f(a):\n    a.pop()\n    return a\n", "dropped_update", "def f(a):\n    return a\n"),
        (
            "def f(a):\n    if a:\n        return 1\n    return 2\n",
            "dropped_jump",
            "def f(a):\n    if a:\n        pass\n    return 2\n",
        ),
        ("def f(a):\n    if a:\n        return 1\n    return 2\n", "dropped_guard", "def f(a):\n    return 2\n"),
        (
            "def f(a):\n    b = 1\n    a += b\n    return a\n",
            "swapped_lines",
            "def f(a):\n    a += b\n    b = 1\n    return a\n",
        ),
        (
            "def f(a):\n    if a:\n        b = 1\n    else:\n        b = 2\n",
            "swapped_branches",
            "def f(a):\n    if a:\n        b = 2\n    else:\n        b = 1\n",
        ),
    ],
)
def test_whole_lines_can_go_or_change_places(code: str, operator: str, mutant: str) -> None:
    assert mutant in {mutation.source for mutation in candidates(code, operators=[operator])}


def test_every_operator_occurs_in_real_code() -> None:
    seen = {
        mutation.operator
        for source in [SOURCES["textwrap"], SOURCES["heapq"], SHOWCASE]
        for mutation in candidates(source)
    }
    assert seen == set(OPERATORS)


def test_nothing_to_break_is_none_and_broken_source_is_an_error() -> None:
    assert mutate('"""Only text."""\n', random.Random(0)) is None
    assert mutate("", random.Random(0)) is None
    assert mutate(SHOWCASE, random.Random(0), 7, 7, operators=["break_continue"]) is None
    with pytest.raises(SyntaxError):
        mutate("def f(:\n", random.Random(0))
