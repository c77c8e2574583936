"""A fresh bug in the demo library, drawn at random and checked to be noticed by the library's tests."""

from __future__ import annotations

import ast
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.training.bugs import Mutation, mutate
from sandboxes.protocol import SandboxError

LIBRARY = Path(__file__).parent / "demo_library"
PACKAGE = "tidbits"
TEST_COMMAND = "python3 -m pytest -q"
_MAX_DRAWS = 25


class InjectionError(SandboxError):
    """No drawn bug was noticed by the tests: they do not run in this sandbox."""


@dataclass(frozen=True)
class Injected:
    """What was done to the library. path is relative to its folder; draws: bugs tried until the tests noticed one."""

    path: str
    mutation: Mutation
    draws: int


def copy_library(target: Path) -> None:
    """Lay out the library as it ships in the new folder `target`."""
    shutil.copytree(LIBRARY, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".pytest_cache"))


def inject(folder: Path, rng: random.Random, noticed: Callable[[str, bytes], bool]) -> Injected:
    """Break the library in `folder` in one place and say how.

    Functions are drawn alike, then a bug in the function by its operator's weight. noticed(path, content) says whether
    a test fails with that file's content. Raises InjectionError after 25 draws that no test noticed.
    """
    functions = [found for file in sorted((folder / PACKAGE).glob("*.py")) for found in _functions(file)]
    for draws in range(1, _MAX_DRAWS + 1):
        file, start, end = rng.choice(functions)
        mutation = mutate(file.read_text(encoding="utf-8"), rng, start, end)
        path = file.relative_to(folder).as_posix()
        if mutation is not None and noticed(path, mutation.source.encode()):
            file.write_bytes(mutation.source.encode())
            return Injected(path, mutation, draws)
    raise InjectionError(
        f"none of {_MAX_DRAWS} random bugs made a test of the demo library fail: do its tests run in the sandbox?"
    )


def _functions(file: Path) -> list[tuple[Path, int, int]]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    spans = [
        (node.lineno, node.end_lineno or node.lineno) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    ]
    return [(file, start, end) for start, end in spans]
