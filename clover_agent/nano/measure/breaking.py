"""Bugs in one package that its own tests notice."""

from __future__ import annotations

import ast
import hashlib
import json
import random
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clover_agent.nano.measure.packages import Package
from clover_agent.nano.measure.suite import SuiteRun, run_suite
from clover_agent.nano.measure.tasks import Task
from engine.training.bugs import Mutation, mutate

MIN_COVERED_LINES = 2
MAX_DRAWS = 60  # in a row without a bug that the tests notice: the package is used up
_CONFIG = "[pytest]\n"
_LICENCES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "AUTHORS")
_IGNORED = "__pycache__/\n.pytest_cache/\n"


@dataclass(frozen=True)
class Bench:
    """Where and with what tasks are made. archives: source distributions; python: runs the packages' tests."""

    archives: Path
    scratch: Path
    python: str
    seed: int


class Verdicts:
    """What the tests said of each bug tried, kept in a file: a build repeated or continued does not run them again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        rows = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
        self._known = {row["key"]: row for row in rows}

    def ask(self, key: str) -> dict | None:
        """The row noted for a bug, if any."""
        return self._known.get(key)

    def note(self, key: str, run: SuiteRun) -> dict:
        """Keep what a run said. Suites that hang or can't be collected, or that pass, count as not noticed."""
        noticed = run.exit_code == 1 and bool(run.failed) and not run.broken
        row = {"key": key, "failing": sorted(run.failed) if noticed else [], "passing": len(run.passed)}
        self._known[key] = row
        with self._file.open("a") as file:
            file.write(json.dumps(row) + "\n")
        return row


@dataclass(frozen=True)
class _Function:
    path: str
    start: int
    end: int


class PackageBugs:
    """One package unpacked, its tests run once, and a stream of bugs that they notice.

    Raises RuntimeError where the archive is missing or the tests do not pass as they are.
    """

    def __init__(self, package: Package, bench: Bench, verdicts: Verdicts) -> None:
        self.package, self._bench, self._verdicts = package, bench, verdicts
        self._rng = random.Random(f"{bench.seed} {package.name}")
        self.base = bench.scratch / package.name
        unpack(package, bench.archives, self.base)
        run = self._run(limit=300)
        if run.exit_code != 0 or run.failed or run.broken or not run.passed:
            raise RuntimeError(f"{package.name}: its own tests do not pass here ({len(run.failed)} fail)")
        self._seconds = run.seconds
        root, traced = self.base.resolve(), self._run(limit=300, trace=True)
        self._covered = {str(Path(name).relative_to(root)): set(lines) for name, lines in traced.lines.items()}
        self._functions = [function for path in self._sources() for function in self._covered_functions(path)]
        self._seen: set[str] = set()

    def _run(self, limit: float, trace: bool = False) -> SuiteRun:
        package = self.package
        return run_suite(self._bench.python, self.base, package.tests, package.path, limit=limit, trace=trace)

    def _sources(self) -> list[str]:
        roots = [self.base / root for root in self.package.code]
        files = [file for root in roots for file in ([root] if root.is_file() else root.rglob("*.py"))]
        names = sorted(str(file.relative_to(self.base)) for file in files)
        return [n for n in names if n in self._covered and not any(part.startswith("test") for part in Path(n).parts)]

    def _covered_functions(self, path: str) -> Iterator[_Function]:
        for node in ast.walk(ast.parse((self.base / path).read_bytes())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
                inside = [n for n in self._covered[path] if node.body[0].lineno <= n <= node.end_lineno]
                if len(inside) >= MIN_COVERED_LINES:
                    yield _Function(path, node.lineno, node.end_lineno)

    def tasks(self) -> Iterator[tuple[Task, str]]:
        """Single-line bugs on lines that the tests run and in which at least one fails, and the broken file's text.

        A function is drawn first, each alike, then a bug in it as in training.
        """
        fruitless = number = 0
        while self._functions and fruitless < MAX_DRAWS:
            fruitless += 1
            function = self._rng.choice(self._functions)
            source = (self.base / function.path).read_bytes().decode()
            mutation = mutate(source, self._rng, function.start, function.end)
            if mutation is None or len(mutation.before) != 1 or len(mutation.after) > 1:
                continue
            key = hashlib.sha256(f"{self.package.archive} {function.path}\n{mutation.source}".encode()).hexdigest()
            if mutation.line not in self._covered[function.path] or key in self._seen:
                continue
            self._seen.add(key)
            row = self._verdicts.ask(key) or self._verdicts.note(key, self._try(function.path, mutation))
            if row["failing"]:
                fruitless, number = 0, number + 1
                yield self._task(number, function.path, mutation, row), mutation.source

    def _try(self, path: str, mutation: Mutation) -> SuiteRun:
        file = self.base / path
        original = file.read_bytes()
        try:
            file.write_bytes(mutation.source.encode())
            return self._run(limit=max(10.0, 5 * self._seconds))
        finally:
            file.write_bytes(original)

    def _task(self, number: int, path: str, mutation: Mutation, row: dict) -> Task:
        package = self.package
        return Task(
            id=f"{package.name}-{number:02d}-{mutation.operator}",
            package=package.name,
            version=package.version,
            operator=mutation.operator,
            path=path,
            line=mutation.line,
            before=mutation.before,
            after=mutation.after,
            tests=package.tests,
            python_path=package.path,
            failing=tuple(row["failing"]),
            passing=row["passing"],
            seconds=round(self._seconds, 2),
        )


def unpack(package: Package, archives: Path, target: Path) -> None:
    """Lay out what a task keeps of the package's source distribution. Raises RuntimeError where it is missing."""
    archive = archives / f"{package.archive}.tar.gz"
    if not archive.exists():
        raise RuntimeError(f"{archive} is missing (see --download)")
    skipped = shutil.ignore_patterns("*.egg-info", "*.pyc", "__pycache__")
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive) as tar:
        tar.extractall(scratch, filter="data")
        target.mkdir(parents=True)
        root = Path(scratch, package.archive)
        licences = [file for file in root.iterdir() if file.is_file() and file.name.startswith(_LICENCES)]
        for source in [*(root / name for name in package.keep), *licences]:
            if source.is_dir():
                shutil.copytree(source, target / source.name, ignore=skipped)
            else:
                shutil.copy(source, target / source.name)
    (target / "pytest.ini").write_text(_CONFIG)
    (target / ".gitignore").write_text(_IGNORED)
