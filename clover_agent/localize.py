"""Where the bug may be: the project's functions, ranked by what failing and passing tests run.

One bug is assumed. Every line that all failing tests run may hold it; passing tests that run it too speak against it.
With an unknown chance q that a test which runs the faulty line passes, uniform over [0, 1], the likelihood of a line
run by f failing and p passing tests is the integral of q^p (1-q)^f: the Beta function B(p + 1, f + 1). A function's
score is the sum over its lines, times a factor where the traceback or the test's name points at it.
"""

from __future__ import annotations

import ast
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from clover_agent.plugins import place
from clover_agent.prompts import Suspect, view_span
from sandboxes.protocol import Sandbox
from tools.render import TestFailure, TestReport
from tools.testing import run_test_command

MAX_SUSPECTS = 12
MISSED = 0.02  # weight of a line that not all failing tests run
DEEPEST, ON_TRACEBACK, NAMED = 3.0, 1.5, 1.5
_FRAME = re.compile(r"^(\S.*?):(\d+): in ", re.M)


@dataclass(frozen=True)
class Coverage:
    """lines: by path and line, how many failing and passing tests ran it."""

    failing: int
    passing: int
    lines: Mapping[str, Mapping[int, tuple[int, int]]]


def traced_run(
    sandbox: Sandbox, command: str, timeout: float, failing: Sequence[str] = ()
) -> tuple[TestReport, Coverage | None]:
    """Run the tests with the trace plugin; no coverage where the command does not start pytest, or it broke off.

    failing: ids of tests known to fail, the ones most worth tracing.
    """
    folder, environment = place(sandbox, "clover_trace")
    out = f"{folder}/coverage.json"
    environment |= {
        "CLOVER_TRACE_OUT": out,
        "CLOVER_TRACE_ROOT": sandbox.workspace,
        "CLOVER_TRACE_TARGETS": sandbox.put_private("clover_trace/targets", "\n".join(failing).encode()),
    }
    report = run_test_command(sandbox, command, timeout=timeout, addopts="-p clover_trace", env=environment)
    data = sandbox.read_private(out)
    try:
        raw = json.loads(data or b"{}")
        lines = {
            path: {int(line): (int(f), int(p)) for line, (f, p) in seen.items()} for path, seen in raw["files"].items()
        }
        return report, Coverage(int(raw["failing"]), int(raw["passing"]), lines)
    except (ValueError, KeyError, TypeError):
        return report, None


def covered_run(sandbox: Sandbox, command: str, timeout: float) -> tuple[TestReport, Coverage | None]:
    """Run a command that is no pytest and note what its Python processes run: all of it counts as one failing test."""
    folder, environment = place(sandbox, "usercustomize")
    sandbox.put_private("usercustomize/sitecustomize.py", b"import usercustomize\n")  # where there is no user site
    out = f"{folder}/coverage.jsonl"
    environment |= {"CLOVER_TRACE_OUT": out, "CLOVER_TRACE_ROOT": sandbox.workspace}
    report = run_test_command(sandbox, command, timeout=timeout, env=environment)
    lines: dict[str, dict[int, tuple[int, int]]] = {}
    try:
        for process in (sandbox.read_private(out) or b"").splitlines():
            for path, ran in json.loads(process).items():
                lines.setdefault(path, {}).update(dict.fromkeys(map(int, ran), (1, 0)))
    except (ValueError, AttributeError, TypeError):
        return report, None
    return report, Coverage(1, 0, lines) if lines else None


def localize(folder: Path, failures: Sequence[TestFailure], coverage: Coverage | None) -> list[Suspect]:
    """Suspects of a copy of the repository, most suspicious first; scores add up to 1."""
    frames = list(_frames(folder, failures))
    scores: dict[tuple[str, str, int, int], float] = {}
    centers: dict[tuple[str, str, int, int], int] = {}
    paths = {path for path, _ in frames} | set(coverage.lines if coverage else ())
    for path in sorted(paths):
        if is_test_file(path):
            continue
        for name, start, end in _functions(folder / path):
            key = (path, name, start, end)
            weights = _line_weights(coverage, path, start, end)
            here = [line for frame_path, line in frames if frame_path == path and start <= line <= end]
            score = sum(weights.values()) or (MISSED if here else 0.0)
            if not score:
                continue
            if here:
                deepest = frames[-1][0] == path and start <= frames[-1][1] <= end
                score *= DEEPEST if deepest else ON_TRACEBACK
            if len(name) > 3 and any(name.strip("_").lower() in failure.test_id.lower() for failure in failures):
                score *= NAMED
            scores[key] = score
            centers[key] = here[-1] if here else _center(weights, start)
    total = sum(scores.values()) or 1.0
    ranked = sorted(scores, key=lambda key: (-scores[key], key))[:MAX_SUSPECTS]
    return [
        Suspect(
            path, *view_span(start, end, centers[path, name, start, end]), name, scores[path, name, start, end] / total
        )
        for path, name, start, end in ranked
    ]


def line_weights(coverage: Coverage | None, path: str) -> dict[int, float]:
    """How likely each line of a file holds the bug, up to a factor; nothing where it is not known."""
    return _line_weights(coverage, path, 1, sys.maxsize)


def is_test_file(path: str) -> bool:
    """Whether a path holds tests or their configuration by the usual conventions."""
    parts = PurePosixPath(path).parts
    name = parts[-1] if parts else ""
    if any(part.lower() in {"test", "tests", "testing"} for part in parts[:-1]):
        return True
    return name in {"conftest.py", "tests.py", "test.py"} or bool(re.match(r"test_.*\.py$|.*_tests?\.py$", name))


def _line_weights(coverage: Coverage | None, path: str, start: int, end: int) -> dict[int, float]:
    if coverage is None or not coverage.failing:
        return {}
    weights = {}
    for line, (failing, passing) in coverage.lines.get(path, {}).items():
        if start <= line <= end and failing:
            weight = math.exp(math.lgamma(passing + 1) + math.lgamma(failing + 1) - math.lgamma(passing + failing + 2))
            weights[line] = weight if failing == coverage.failing else MISSED * weight
    return weights


def _center(weights: Mapping[int, float], start: int) -> int:
    """The weighted middle of a function's lines."""
    half, seen = sum(weights.values()) / 2, 0.0
    for line in sorted(weights):
        seen += weights[line]
        if seen >= half:
            return line
    return start


def _frames(folder: Path, failures: Sequence[TestFailure]) -> Iterator[tuple[str, int]]:
    """Project frames of the first failure's traceback, outermost first."""
    for failure in failures[:1]:
        for path, line in _FRAME.findall(failure.detail):
            relative = path.removeprefix("./")
            if not relative.startswith(("/", "..")) and not is_test_file(relative) and (folder / relative).is_file():
                yield relative, int(line)


def _functions(file: Path) -> list[tuple[str, int, int]]:
    """Innermost functions of a file: name, first line (decorators included), last line."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found.append((node.name, start, node.end_lineno or node.lineno))
    return found
