"""`clover-agent demo` with a real sandbox and scripted models: one that knows the answer, one that gives up."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from clover_agent import demo, injection
from clover_agent.backends.scripted import ScriptedBackend
from clover_agent.injection import LIBRARY, Injected
from clover_agent.messages import Message, Reply, ToolCall

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Injected]:
    """The bugs that a run injects, for the scripts; runs are kept in a folder of the test's own."""
    monkeypatch.setenv("CLOVER_HOME", str(tmp_path / "state"))
    seen: list[Injected] = []
    real = injection.inject

    def watched(*arguments: object) -> Injected:
        seen.append(real(*arguments))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(injection, "inject", watched)
    return seen


def call(name: str, **arguments: object) -> Reply:
    return Reply(Message("assistant", "", tool_calls=(ToolCall(name, name, arguments),)), "tool_calls")


def repair(drawn: list[Injected]) -> Callable[[object], Reply]:
    """The edit that brings the shipped file's lines back."""

    def reply(_: object) -> Reply:
        bug = drawn[-1]
        first = max(1, bug.mutation.line - 1)
        broken = bug.mutation.source.splitlines()[first - 1 : bug.mutation.line + len(bug.mutation.after)]
        shipped = (LIBRARY / bug.path).read_text().splitlines()
        right = shipped[first - 1 : bug.mutation.line + len(bug.mutation.before)]
        return call("str_replace", path=bug.path, line=first, old_str="\n".join(broken), new_str="\n".join(right))

    return reply


def run(backend: ScriptedBackend, seed: int) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = demo.show(backend, seed, 120.0, out=out, err=err)
    return code, out.getvalue(), err.getvalue()


def test_a_repaired_bug_is_proven_and_only_then_told(drawn: list[Injected]) -> None:
    backend = ScriptedBackend([repair(drawn), call("run_tests"), call("finish", outcome="fixed", summary="Done.")])
    code, out, err = run(backend, 11)
    bug = drawn[0]
    assert code == 0, out + err
    assert "Verdict       fixed" in out
    assert "Tests after   all 106 pass" in out
    assert f"{bug.path} line {bug.mutation.line}" in out
    assert all(f"  - {line}" in out for line in bug.mutation.before)
    assert f"+++ b/{bug.path}" in out
    assert "clover-agent demo --seed 11" in out
    opening = backend.requests[0][0].content
    assert opening.startswith("Fix the bug.\n\nThis test fails:\n\ntests/test_")
    for line in bug.mutation.before:  # the model is told no more than a failing test and suspects
        assert line not in opening
        assert line not in err
    assert all(bug.mutation.operator not in text for text in (opening, err))
    steps = [line.split("s] ", 1)[-1].strip() for line in err.splitlines()]
    assert "drawing a random bug (seed 11) that the library's tests notice" in steps
    assert f"str_replace {bug.path}:{max(1, bug.mutation.line - 1)}" in steps


def test_a_bug_that_is_not_repaired_is_admitted(drawn: list[Injected]) -> None:
    give_up = [call("finish", outcome="fixed", summary="I say so.")] * 40
    code, out, _ = run(ScriptedBackend(give_up), 12)
    assert code == 1
    assert "Verdict       not_fixed" in out
    assert "did not repair" in out
    assert f"{drawn[0].path} line {drawn[0].mutation.line}" in out


def test_the_same_seed_draws_the_same_bug_and_another_draws_another(drawn: list[Injected], tmp_path: Path) -> None:
    import random

    for number, seed in enumerate((5, 5, 6)):
        folder = tmp_path / str(number)
        injection.copy_library(folder)
        with demo.trial(folder) as noticed:
            injection.inject(folder, random.Random(seed), noticed)
    assert drawn[0] == drawn[1]
    assert drawn[0].mutation.source != drawn[2].mutation.source
