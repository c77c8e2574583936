"""Slips of naming and calling: the wrong variable, attribute, method or function, arguments swapped or left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from engine.training.bugs.expressions import swapped
from engine.training.bugs.site import Site
from engine.training.bugs.tables import (
    EXCEPTION_NEIGHBOURS,
    FUNCTION_NEIGHBOURS,
    METHOD_NEIGHBOURS,
    WRAPPERS,
    WRAPPING_METHODS,
)
from engine.training.bugs.walk import Visit

_MAX_CHOICES = 12


def name(visit: Visit) -> Iterator[Site]:
    node, parent = visit.node, visit.parent
    assert isinstance(node, ast.Name)
    if isinstance(parent, ast.Call) and parent.func is node:
        yield from _function(visit, node, parent)
        return
    if isinstance(parent, ast.Raise) or any(
        isinstance(p, ast.ExceptHandler) and _names_type(p, node) for p in visit.parents
    ):
        if node.id in EXCEPTION_NEIGHBOURS:
            yield Site("wrong_exception", *visit.parsed.span(node), EXCEPTION_NEIGHBOURS[node.id])
        return
    reachable = visit.scope.before(node.lineno)
    bound = [other for other in dict.fromkeys(reachable) if other not in (node.id, "self", "cls", "_")]
    if not bound or node.id in ("self", "cls") or (isinstance(node.ctx, ast.Load) and node.id not in reachable):
        return
    choices = tuple(bound[:_MAX_CHOICES])
    if isinstance(node.ctx, ast.Load):
        yield Site("wrong_variable", *visit.parsed.span(node), choices)
    elif isinstance(node.ctx, ast.Store) and isinstance(parent, (ast.Assign, ast.AugAssign)):
        yield Site("wrong_target", *visit.parsed.span(node), choices)


def _function(visit: Visit, node: ast.Name, call: ast.Call) -> Iterator[Site]:
    span = visit.parsed.span(node)
    if node.id in FUNCTION_NEIGHBOURS:
        yield Site("wrong_method", *span, FUNCTION_NEIGHBOURS[node.id])
    arity = visit.parsed.vocabulary.functions
    if node.id in EXCEPTION_NEIGHBOURS and isinstance(visit.parents[-2] if len(visit.parents) > 1 else None, ast.Raise):
        yield Site("wrong_exception", *span, EXCEPTION_NEIGHBOURS[node.id])
    if arity.get(node.id, -1) >= 0:
        alike = [other for other, count in arity.items() if count == arity[node.id] and other != node.id]
        if alike:
            yield Site("wrong_function", *span, tuple(alike[:_MAX_CHOICES]))


def _names_type(handler: ast.ExceptHandler, node: ast.Name) -> bool:
    return handler.type is not None and any(part is node for part in ast.walk(handler.type))


def attribute(visit: Visit) -> Iterator[Site]:
    node, parent = visit.node, visit.parent
    assert isinstance(node, ast.Attribute)
    end = visit.parsed.span(node)[1]
    start = end - len(node.attr.encode())
    if visit.parsed.data[start:end] != node.attr.encode():
        return
    called = isinstance(parent, ast.Call) and parent.func is node
    if node.attr in METHOD_NEIGHBOURS:
        yield Site("wrong_method", start, end, METHOD_NEIGHBOURS[node.attr])
    if not isinstance(node.value, ast.Name):
        return
    pool = visit.parsed.vocabulary.methods if called else visit.parsed.vocabulary.attributes
    others = [other for other in pool.get(node.value.id, ()) if other != node.attr]
    if others:
        others.sort(key=lambda other: -_likeness(other, node.attr))
        yield Site("wrong_attribute", start, end, tuple(others[:6]))


def _likeness(first: str, second: str) -> float:
    """Share of letter pairs that two names have in common: names that look alike are mixed up most."""
    a, b = ({text[i : i + 2] for i in range(len(text) - 1)} for text in (first.lower(), second.lower()))
    return len(a & b) / max(1, len(a | b))


def call(visit: Visit) -> Iterator[Site]:
    node = visit.node
    assert isinstance(node, ast.Call)
    data = visit.parsed.data
    for first, second in zip(node.args, node.args[1:], strict=False):
        yield from swapped("swapped_arguments", visit, first, second)
    for one, two in zip(node.keywords, node.keywords[1:], strict=False):
        if one.arg and two.arg:
            yield from swapped("swapped_arguments", visit, one.value, two.value)
    every = sorted([*node.args, *node.keywords], key=lambda n: (n.lineno, n.col_offset))
    for i in range(1, len(every)):
        start = data.rfind(b",", visit.parsed.span(every[i - 1])[1], visit.parsed.span(every[i])[0])
        if start >= 0:
            yield Site("dropped_argument", start, visit.parsed.span(every[i])[1], ("",))
    if len(every) > 1:
        yield Site("dropped_argument", visit.parsed.span(every[0])[0], visit.parsed.span(every[1])[0], ("",))
    span = visit.parsed.span(node)
    if isinstance(node.func, ast.Name) and node.func.id in WRAPPERS and len(node.args) == 1 and not node.keywords:
        inner = visit.parsed.text(node.args[0])
        if isinstance(
            node.args[0], (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.Dict, ast.ListComp)
        ):
            yield Site("dropped_call", *span, (inner,))
        elif isinstance(node.args[0], (ast.BinOp, ast.GeneratorExp, ast.IfExp, ast.BoolOp, ast.Compare)):
            yield Site("dropped_call", *span, (inner if isinstance(node.args[0], ast.GeneratorExp) else f"({inner})",))
    elif isinstance(node.func, ast.Attribute) and node.func.attr in WRAPPING_METHODS:
        yield Site("dropped_call", visit.parsed.span(node.func.value)[1], span[1], ("",))


def default(visit: Visit) -> Iterator[Site]:
    """A parameter's default left out: only where the parameters behind it have none either."""
    node = visit.node
    assert isinstance(node, ast.arguments)
    if node.defaults:
        parameter = [*node.posonlyargs, *node.args][-len(node.defaults)]
        yield Site("dropped_default", visit.parsed.span(parameter)[1], visit.parsed.span(node.defaults[0])[1], ("",))
