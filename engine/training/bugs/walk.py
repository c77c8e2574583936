"""A walk over the code of one unit that leaves out what no test can see, and knows the names in scope."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.training.bugs.source import Function, ParsedSource, Unit

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, eq=False)
class Scope:
    """Names bound in a function: parameters at line 0, other names at the line of their first binding."""

    bound: dict[str, int] = field(default_factory=dict)
    outer: Scope | None = None

    def before(self, line: int) -> list[str]:
        """Names that hold a value when `line` is reached, the innermost scope's first."""
        names = [name for name, first in self.bound.items() if first < line]
        return names + (self.outer.before(line) if self.outer else [])


@dataclass(frozen=True, eq=False)
class Visit:
    """A node with its surroundings: the nodes above it (nearest last) and the scope it is evaluated in."""

    node: ast.AST
    parents: tuple[ast.AST, ...]
    scope: Scope
    parsed: ParsedSource
    unit: Unit

    @property
    def parent(self) -> ast.AST:
        return self.parents[-1] if self.parents else self.parsed.tree


def visits(parsed: ParsedSource, unit: Unit) -> Iterator[Visit]:
    """Every node of `unit` worth breaking. Left out: annotations, decorators, bare strings, f-strings, imports."""
    yield from _walk(parsed, unit, unit.node, (), Scope())


def _walk(
    parsed: ParsedSource, unit: Unit, node: ast.AST, parents: tuple[ast.AST, ...], scope: Scope
) -> Iterator[Visit]:
    if _invisible(node, parents):
        return
    yield Visit(node, parents, scope, parsed, unit)
    inner = scope
    if isinstance(node, (*Function.__args__, ast.Lambda)):
        inner = Scope(_bindings(node), scope)
    elif isinstance(node, _COMPREHENSIONS):
        inner = Scope({name: 0 for generator in node.generators for name in _stored(generator.target)}, scope)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(
                    parsed, unit, child, (*parents, node), scope if name == "args" and _is_function(node) else inner
                )


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def _invisible(node: ast.AST, parents: tuple[ast.AST, ...]) -> bool:
    if isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Assign) and not any(_is_function(p) for p in parents):  # `__all__`, `__version__`, ...
        return any(isinstance(target, ast.Name) and target.id.startswith("__") for target in node.targets)
    return False


def _stored(node: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _bindings(node: ast.AST) -> dict[str, int]:
    """Names of one function's own scope and the line that first binds each, 0 for parameters."""
    bound: dict[str, int] = {}
    arguments = node.args if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) else None
    if arguments:
        every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        bound = {argument.arg: 0 for argument in every if argument}
    stack: list[ast.AST] = (
        list(reversed(node.body)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
    )
    while stack:
        child = stack.pop()
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            bound[child.id] = min(bound.get(child.id, child.lineno), child.lineno)
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *_COMPREHENSIONS)):
            stack.extend(ast.iter_child_nodes(child))
    return bound
