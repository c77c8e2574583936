"""A source text with its syntax tree, cut into units small enough to compile after every edit."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

_LINE_END = re.compile(r"\r\n|\r|\n")
_LINE_END_BYTES = re.compile(rb"\r\n|\r|\n")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def split_lines(text: str) -> list[str]:
    """Lines as Python's tokenizer counts them (form feeds and Unicode separators end no line), without line ends."""
    return _LINE_END.split(text)


@dataclass(frozen=True, eq=False)
class Unit:
    """A statement of a module or class body: the smallest stretch of whole lines that compiles by itself.

    start, end: byte offsets of its lines, the last line end left out. owner: the class it belongs to.
    """

    node: ast.stmt
    start: int
    end: int
    indented: bool
    owner: ast.ClassDef | None

    def compiles(self, code: bytes) -> bool:
        """Whether `code` compiles in this unit's place."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(b"if 1:\n" + code if self.indented else code, "<mutant>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return True


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Names that a programmer of this module could have meant.

    members: by the text before the dot (`self`, `re`), the attributes read or called through it in the module;
    functions: module-level functions and classes, with the number of their positional parameters (-1: unknown).
    """

    attributes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    methods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)


class ParsedSource:
    """Text, UTF-8 bytes, line table, tree, units and vocabulary of one module."""

    def __init__(self, source: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tree = ast.parse(source)
        self.data = source.encode()
        self.line_starts = [0, *(match.end() for match in _LINE_END_BYTES.finditer(self.data))]
        self.units = list(self._units(self.tree.body, None))
        self.vocabulary = _vocabulary(self.tree)

    def line_at(self, offset: int) -> int:
        """1-based number of the line that holds byte `offset`."""
        return bisect_right(self.line_starts, offset)

    def end_of_line(self, line: int) -> int:
        """Byte offset behind the text of `line`, its line end left out."""
        stop = self.line_starts[line] if line < len(self.line_starts) else len(self.data)
        while stop > self.line_starts[line - 1] and self.data[stop - 1] in b"\r\n":
            stop -= 1
        return stop

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a position as `ast` gives it."""
        return self.line_starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword | ast.ExceptHandler) -> tuple[int, int]:
        """Byte span of a node, enclosing parentheses left out."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> str:
        """The node's own text."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def _units(self, body: list[ast.stmt], owner: ast.ClassDef | None) -> Iterator[Unit]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from self._units(node.body, node)
                continue
            decorators = node.decorator_list if isinstance(node, Function) else []
            first = min([node.lineno, *(d.lineno for d in decorators)])
            assert node.end_lineno is not None
            yield Unit(node, self.line_starts[first - 1], self.end_of_line(node.end_lineno), owner is not None, owner)


def _vocabulary(tree: ast.Module) -> Vocabulary:
    attributes: dict[str, dict[str, None]] = {}
    methods: dict[str, dict[str, None]] = {}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            pool = methods if id(node) in called else attributes
            pool.setdefault(node.value.id, {}).setdefault(node.attr)
    functions: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, Function):
            simple = not (node.args.vararg or node.args.kwonlyargs or node.args.kwarg or node.decorator_list)
            functions[node.name] = len(node.args.posonlyargs) + len(node.args.args) if simple else -1
    return Vocabulary(
        attributes={base: tuple(sorted(names)) for base, names in attributes.items()},
        methods={base: tuple(sorted(names)) for base, names in methods.items()},
        functions=functions,
    )


@lru_cache(maxsize=256)
def parse(source: str) -> ParsedSource:
    """The parsed form of `source`, kept for the next call. Raises SyntaxError, and ValueError for NUL bytes."""
    return ParsedSource(source)
