"""The part of a module that one function needs, where it can be run by itself without touching the outside world."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

HARMLESS_MODULES = frozenset(
    {
        "abc", "array", "ast", "base64", "binascii", "bisect", "calendar", "cmath", "codecs", "collections",
        "collections.abc", "colorsys", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal",
        "difflib", "enum", "fnmatch", "fractions", "functools", "hashlib", "heapq", "html", "html.entities", "io",
        "ipaddress", "itertools", "json", "keyword", "logging", "math", "ntpath", "numbers", "operator",
        "posixpath", "pprint", "re", "reprlib", "shlex", "statistics", "string", "struct", "sys", "textwrap",
        "token", "types", "typing", "unicodedata", "urllib.parse", "warnings", "weakref", "zlib", "__future__",
    }
)  # fmt: skip
_FORBIDDEN_NAMES = frozenset(
    {
        "open", "exec", "eval", "compile", "__import__", "input", "breakpoint", "exit", "quit", "globals", "help",
        "memoryview", "print",
    }
)  # fmt: skip
_FORBIDDEN_ATTRIBUTES = frozenset(
    {
        "system", "popen", "remove_file", "unlink", "rmdir", "rmtree", "open", "write_text", "write_bytes",
        "mkdir", "makedirs", "kill", "fork", "modules", "exit", "stdin", "stdout", "stderr", "setrecursionlimit",
        "settrace", "setprofile", "now", "today", "utcnow", "__globals__", "__builtins__", "__subclasses__",
        "__code__",
    }
)  # fmt: skip
_BUILTINS = frozenset(dir(builtins)) - _FORBIDDEN_NAMES | {"__name__", "__file__"}
MAX_STATEMENTS = 40


@dataclass(frozen=True)
class Slice:
    """Top-level statements of a module, in order; `target` is the index of the one that holds the function."""

    body: tuple[ast.stmt, ...]
    target: int

    def namespace(self, name: str, file: str, replacement: ast.stmt | None = None) -> dict[str, Any]:
        """Run the statements, with `replacement` in the target's place. Raises whatever they raise."""
        body = list(self.body)
        if replacement is not None:
            body[self.target] = replacement
        space: dict[str, Any] = {"__name__": name, "__file__": file}
        exec(compile(ast.Module(body=body, type_ignores=[]), file, "exec", dont_inherit=True), space)
        return space


def first_line(node: ast.stmt) -> int:
    """1-based line where a statement begins, decorators included."""
    decorators = node.decorator_list if isinstance(node, _Definition) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def bindings(tree: ast.Module) -> dict[str, ast.stmt]:
    """The statement that binds each name of a module; names bound twice, or inside `if` and `try`, are left out."""
    found: dict[str, ast.stmt] = {}
    twice: set[str] = set()
    for node in tree.body:
        names: Iterable[str] = ()
        if isinstance(node, _Definition):
            names = (node.name,)
        elif isinstance(node, ast.Assign):
            names = [t.id for target in node.targets for t in ast.walk(target) if isinstance(t, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            names = (node.target.id,)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.asname or alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.If | ast.Try | ast.AugAssign | ast.For | ast.With | ast.Delete):
            twice.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            twice.update(n.name for n in ast.walk(node) if isinstance(n, _Definition))
            for imported in ast.walk(node):
                if isinstance(imported, ast.Import | ast.ImportFrom):
                    twice.update(alias.asname or alias.name.split(".")[0] for alias in imported.names)
        for name in names:
            if name in found:
                twice.add(name)
            found[name] = node
    return {name: node for name, node in found.items() if name not in twice}


def slice_for(tree: ast.Module, bound: Mapping[str, ast.stmt], target: ast.stmt) -> Slice | None:
    """What `target`, a top-level statement, needs; None where that is unknown, harmful, or too much."""
    wanted: dict[int, ast.stmt] = {}
    waiting = [target]
    while waiting:
        node = waiting.pop()
        if id(node) in wanted:
            continue
        wanted[id(node)] = node
        if len(wanted) > MAX_STATEMENTS or not _harmless(node):
            return None
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for name in _free_names(node):
            if name in bound:
                waiting.append(bound[name])
            elif name not in _BUILTINS:
                return None
    body = [node for node in tree.body if id(node) in wanted or _future(node)]
    return Slice(tuple(body), body.index(target))


def _future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _harmless(node: ast.stmt) -> bool:
    for part in ast.walk(node):
        match part:
            case ast.Import():
                if any(alias.name not in HARMLESS_MODULES for alias in part.names):
                    return False
            case ast.ImportFrom():
                if part.level or part.module not in HARMLESS_MODULES:
                    return False
            case ast.Name(id=name) if name in _FORBIDDEN_NAMES:
                return False
            case ast.Attribute(attr=name) if name in _FORBIDDEN_ATTRIBUTES:
                return False
            case ast.AsyncFunctionDef() | ast.Await() | ast.Global():
                return False
            case _:
                pass
    return True


def _free_names(node: ast.stmt) -> set[str]:
    """Names read in a statement and bound nowhere in it: scopes are not told apart, so this errs on the small side."""
    read: set[str] = set()
    own: set[str] = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name):
                own.add(name)
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                own.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                own.add(name)
            case ast.Import() | ast.ImportFrom():
                own.update(alias.asname or alias.name.split(".")[0] for alias in part.names)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                own.add(name)
            case _:
                pass
    return read - own
