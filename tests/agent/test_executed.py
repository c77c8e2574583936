"""Failures that really happened: the same as pytest's own, and harmless to collect."""

from __future__ import annotations

import ast
import json
import lzma
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clover_agent.nano.corpus import Module
from clover_agent.nano.episodes import executed_bug
from clover_agent.nano.executed import build
from clover_agent.nano.executed.records import Check, Executed, read_executed
from clover_agent.nano.executed.slices import bindings, slice_for
from clover_agent.nano.executed.testcode import explain_comparisons, run_check
from clover_agent.nano.functions import prepare
from tests.agent.nano_corpus import modules, write
from tools.junit import read_junit
from tools.render import trim_traceback


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Assertions explain comparisons in this process, as away from CI; afterwards as pytest had set it."""
    from _pytest.assertion import util

    for name in ("CI", "BUILD_NUMBER"):  # pytest shows whole differences there
        monkeypatch.delenv(name, raising=False)
    before = util._reprcompare
    explain_comparisons()
    yield
    util._reprcompare = before


CODE = """
def same(x):
    return x

def fail(kind):
    if kind:
        raise ValueError(f"bad {kind}")
    return same(kind)[0]

class Box:
    def __init__(self, x):
        self.x = x

    def get(self):
        return self.x
"""
CHECKS = (
    Check("assert same([1]) == [1, 2]"),
    Check("assert same('abc') == 'abd'"),
    Check("assert same('one\\ntwo') == 'one\\nthree'"),
    Check("assert result == {'a': 2}", "result = same({'a': 1})"),
    Check("assert actual == expected", "actual = same(3); expected = 4"),
    Check("assert same(3) == 4"),
    Check("assert same(True) is False"),
    Check("assert same(0)"),
    Check("assert not same((1, 2))"),
    Check("assert Box({1, 2}).get() == {1}"),
    Check("self.assertEqual(same(3), 4)"),
    Check("self.assertEqual([1, 2], same([1]))"),
    Check("self.assertEqual(same('abc'), 'abd')"),
    Check("self.assertTrue(same(0))"),
    Check("self.assertIsNone(same(0))"),
    Check("assert fail('x') == 1"),
    Check("assert result == 1", "result = fail(0)"),
    Check("with pytest.raises(ValueError):", "same(1)", "ValueError"),
    Check("with self.assertRaises(ValueError):", "same(1)", "ValueError"),
    Check("with pytest.raises(ValueError):", "fail(0)", "ValueError"),
)


@pytest.mark.usefixtures("explained")
def test_every_failure_reads_as_in_a_run_of_pytest(tmp_path: Path) -> None:
    lines = ["import unittest", "import pytest", "from code_under_test import *", "class Test(unittest.TestCase):"]
    for number, check in enumerate(CHECKS):
        body = (
            f"{check.statement}\n    {check.setup}" if check.expected else f"{check.setup or 'pass'}\n{check.statement}"
        )
        lines.append(textwrap.indent(f"def test_{number:02}(self):\n" + textwrap.indent(body, "    "), "    "))
    (tmp_path / "code_under_test.py").write_text(CODE)
    (tmp_path / "test_it.py").write_text("\n".join(lines) + "\n")
    options = ["--junitxml=out.xml", "-o", "junit_family=xunit1", "--tb=short", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CI"))}
    command = [sys.executable, "-m", "pytest", *options]
    subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True)
    results = read_junit((tmp_path / "out.xml").read_bytes())
    assert results is not None and len(results.failed) == len(CHECKS)
    space: dict[str, Any] = {"__name__": "code_under_test"}
    file = "code_under_test.py"
    exec(compile(CODE, file, "exec"), space)
    for check, real in zip(CHECKS, results.failed, strict=True):
        fault = run_check(check, space, file)
        assert fault is not None
        expected = trim_traceback(real.detail).split("\n")
        shown = trim_traceback("\n".join(fault.errors)).split("\n")
        assert shown == [line for line in expected if line.startswith("E")]
        frames = [f"{file}:{line}: in {name}" for line, name in fault.frames]
        assert frames == [line for line in expected if line.startswith(file)]


def test_a_check_that_holds_is_no_failure() -> None:
    space: dict[str, Any] = {"same": lambda x: x}
    assert run_check(Check("assert same(3) == 3"), space, "x.py") is None
    assert run_check(Check("self.assertEqual(same(3), 3)"), space, "x.py") is None
    assert run_check(Check("with pytest.raises(TypeError):", "same()", "TypeError"), space, "x.py") is None


def slice_of(source: str, name: str) -> bool:
    tree = ast.parse(textwrap.dedent(source))
    bound = bindings(tree)
    return slice_for(tree, bound, bound[name]) is not None


def test_a_function_is_run_with_what_it_needs_and_only_where_that_is_harmless() -> None:
    good = """
    from __future__ import annotations
    import re
    LIMIT = 3
    def helper(x): return re.sub("a", "b", x)[:LIMIT]
    def wanted(x: Unknown): return helper(x)
    import os
    os.mkdir("never")
    """
    tree = ast.parse(textwrap.dedent(good.replace("x: Unknown", "x")))
    bound = bindings(tree)
    part = slice_for(tree, bound, bound["wanted"])
    assert part is not None
    assert part.namespace("m", "m.py")["wanted"]("aaaa") == "bbb"
    assert not slice_of("import os\ndef f(x): return os.getcwd() + x", "f")
    assert not slice_of("from .other import g\ndef f(x): return g(x)", "f")
    assert not slice_of("def f(x): return open(x).read()", "f")
    assert not slice_of("def f(x): return x.unlink()", "f")
    assert not slice_of("def f(x): return unknown(x)", "f")
    assert not slice_of("import subprocess\ndef g(): subprocess.run('x')\ndef f(x): return g()", "f")
    assert not slice_of(
        "try:\n    import json\nexcept ImportError:\n    json = None\ndef f(x): return json.loads(x)", "f"
    )


def test_failures_of_the_standard_library_are_found_and_can_be_told(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus.jsonl.xz")
    build.main([str(corpus), str(tmp_path / "failures.jsonl.xz"), "--part", "0/3"])
    found = read_executed(tmp_path / "failures.jsonl.xz")
    records = [record for group in found.values() for record in group]
    assert len(records) > 20
    texts = {(module.package, module.path): module for module in modules()}
    rng = random.Random(0)
    told = 0
    for record in records:
        module = texts[record.package, record.path]
        for keep in (True, False):
            prepared = prepare(module, keep_docstrings=keep)
            pair = executed_bug(module, prepared, record, rng) if prepared else None
            if pair is None:
                continue
            told += 1
            bug, shown = pair
            assert "\n".join(bug.edit.apply(bug.buggy)) + "\n" == bug.sound
            for line, name in [(shown.line, record.fault.frames[-1][1])] if record.fault.frames else []:
                if name == record.function:
                    assert bug.mutant.start <= line <= bug.mutant.end
                assert f"{bug.path}:{line}: in {name}\n    {bug.buggy[line - 1].strip()}\n" in shown.failure.detail
    assert told > len(records)


def test_a_module_that_hangs_or_devours_memory_costs_its_limit_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "MODULE_SECONDS", 3.0)
    good = "def good(text):\n    count = len(text)\n    return text[:count] + 'x'\n\n"
    hang = "def hang(n):\n    m = 10 ** 9\n    return len(str(m ** m))\n\n"
    eat = "def eat(n):\n    m = 10 ** 10\n    return len([0] * m)\n\n"
    lines = list(build.collect(Module("p", "1", "MIT", "p.py", good + eat + hang), 0))
    assert lines and {json.loads(line)["function"] for line in lines} == {"good"}


def test_records_survive_their_file(tmp_path: Path) -> None:
    [module] = [m for m in modules() if m.path == "colorsys.py"]
    lines = list(build.collect(module, 0))
    path = tmp_path / "failures.jsonl.xz"
    with lzma.open(path, "wb") as out:
        out.writelines(lines)
    [records] = read_executed(path).values()
    assert len(records) == len(lines) > 0
    assert all(isinstance(record, Executed) and isinstance(record.check, Check) for record in records)
    assert records[0].before == tuple(module.source.split("\n")[records[0].line - 1 :][: len(records[0].before)])
    assert read_executed(tmp_path / "none.jsonl.xz") == {}
