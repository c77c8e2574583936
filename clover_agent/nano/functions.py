"""A module as training sees it: its text, perhaps without docstrings, and the functions that may get a bug."""

from __future__ import annotations

import ast
import random
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from clover_agent.nano.corpus import Module

MIN_LINES, MAX_LINES = 3, 150


@dataclass(frozen=True)
class Function:
    """A function of a module: 1-based lines, decorators included."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Prepared:
    """source: ends with a line end. functions: those of MIN_LINES to MAX_LINES lines, never empty.

    gone: the lines of the module that were left out, in order.
    """

    source: str
    functions: tuple[Function, ...]
    gone: tuple[int, ...] = ()

    def line(self, original: int) -> int:
        """Where a line of the module stands in `source` (for a line left out: the next one that was kept)."""
        return original - bisect_left(self.gone, original)


@lru_cache(maxsize=256)
def prepare(module: Module, *, keep_docstrings: bool) -> Prepared | None:
    """The module ready for drawing bugs; None where it has no function of a fitting length."""
    try:
        tree = ast.parse(module.source)
        gone = () if keep_docstrings else _docstring_lines(tree)
        source = module.source
        if gone:
            left_out = set(gone)
            source = "\n".join(line for number, line in enumerate(source.split("\n"), 1) if number not in left_out)
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    functions: list[Function] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            end = node.end_lineno or node.lineno
            if MIN_LINES <= end - start + 1 <= MAX_LINES:
                functions.append(Function(node.name, start, end))
    text = source if source.endswith("\n") else source + "\n"
    return Prepared(text, tuple(functions), gone) if functions else None


def _docstring_lines(tree: ast.Module) -> tuple[int, ...]:
    gone: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and len(node.body) > 1:
            first = node.body[0]
            text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.value.value
            end = first.end_lineno or first.lineno
            if isinstance(text, str) and first.lineno > node.lineno and end < node.body[1].lineno:
                gone.update(range(first.lineno, end + 1))
    return tuple(sorted(gone))


def repository_path(module: Module, rng: random.Random) -> str:
    """A path such a file might have in somebody's repository: `mod.py`, `pkg/mod.py`, `src/pkg/mod.py`."""
    parts = PurePosixPath(module.path).parts
    keep = rng.choice((1, 2, 2, 2, 3, 3, len(parts)))
    prefix = ("src",) if rng.random() < 0.25 and parts[-keep:][0] != "src" else ()
    return "/".join((*prefix, *parts[-keep:]))
