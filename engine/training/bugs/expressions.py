"""Slips inside expressions: operators, constants, bounds, conditions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from engine.training.bugs.site import Site
from engine.training.bugs.tables import ARITHMETIC, COMPARISONS, STRINGS
from engine.training.bugs.walk import Visit

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)
_COUNTABLE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


def operator_span(visit: Visit, left: ast.expr, right: ast.expr, pattern: str) -> tuple[int, int] | None:
    """Byte span of the operator between two operands; None where a comment stands between them too."""
    start, end = visit.parsed.span(left)[1], visit.parsed.span(right)[0]
    gap = visit.parsed.data[start:end]
    match = None if b"#" in gap else re.search(pattern.encode(), gap)
    return (start + match.start(), start + match.end()) if match else None


def comparison(visit: Visit) -> Iterator[Site]:
    node = visit.node
    assert isinstance(node, ast.Compare)
    for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
        pattern, choices = COMPARISONS[type(operator)]
        span = operator_span(visit, left, right, pattern)
        if span:
            yield Site("comparison", *span, choices)


def arithmetic(visit: Visit) -> Iterator[Site]:
    node = visit.node
    assert isinstance(node, ast.BinOp)
    if isinstance(node.op, ast.Mod) and isinstance(node.right, ast.Tuple):  # formatting, whatever stands on the left
        return
    if type(node.op) not in ARITHMETIC or any(_is_text(side) for side in (node.left, node.right)):
        return
    pattern, choices = ARITHMETIC[type(node.op)]
    span = operator_span(visit, node.left, node.right, pattern)
    if span is None:
        return
    yield Site("arithmetic", *span, choices)
    (start, end), data = visit.parsed.span(node), visit.parsed.data
    left, middle, right = data[start : span[0]].rstrip(), data[span[0] : span[1]], data[span[1] : end].lstrip()
    yield Site("dropped_term", start, end, (left.decode(), right.decode()))
    atomic = all(isinstance(side, _ATOMS) for side in (node.left, node.right))
    if atomic and not isinstance(node.op, (ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)):
        gap = b" " if data[span[0] - 1 : span[0]] == b" " else b""
        yield Site("swapped_operands", start, end, ((right + gap + middle + gap + left).decode(),))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))


def boolean(visit: Visit) -> Iterator[Site]:
    node = visit.node
    assert isinstance(node, ast.BoolOp)
    word, other = (r"\band\b", "or") if isinstance(node.op, ast.And) else (r"\bor\b", "and")
    spans = [operator_span(visit, left, right, word) for left, right in zip(node.values, node.values[1:], strict=False)]
    for span in spans:
        if span:
            yield Site("boolean_operator", *span, (other,))
    if None in spans:
        return
    data, (start, end) = visit.parsed.data, visit.parsed.span(node)
    edges = [span for span in spans if span]
    first_end = edges[0][1] + len(data[edges[0][1] :]) - len(data[edges[0][1] :].lstrip())
    yield Site("dropped_clause", start, first_end, ("",))
    for i, edge in enumerate(edges):
        stop = len(data[: edges[i + 1][0]].rstrip()) if i + 1 < len(edges) else end
        yield Site("dropped_clause", len(data[: edge[0]].rstrip()), stop, ("",))


def unary(visit: Visit) -> Iterator[Site]:
    node = visit.node
    assert isinstance(node, ast.UnaryOp)
    start, inner = visit.parsed.span(node)[0], visit.parsed.span(node.operand)[0]
    if isinstance(node.op, ast.Not):
        yield Site("dropped_not", start, start + len("not "), ("",))
    elif isinstance(node.op, (ast.USub, ast.Invert)):
        yield Site("sign", start, min(inner, start + 1), ("",))


def negation(visit: Visit) -> Iterator[Site]:
    """Conditions of `if`, `while`, conditional expressions and comprehensions, told the other way round."""
    node = visit.node
    tests = node.ifs if isinstance(node, ast.comprehension) else [getattr(node, "test", None)]
    for test in tests:
        if isinstance(test, _ATOMS) and not (isinstance(test, ast.Constant)):
            start, _ = visit.parsed.span(test)
            yield Site("negated_condition", start, start, ("not ",))
        elif isinstance(test, (ast.BoolOp, ast.Compare)):
            start, end = visit.parsed.span(test)
            if isinstance(test, ast.BoolOp):
                yield Site("negated_condition", start, end, (f"not ({visit.parsed.text(test)})",))
    if isinstance(node, ast.comprehension):
        for test in node.ifs:
            start, end = visit.parsed.span(test)
            word = visit.parsed.data.rfind(b"if", 0, start)
            yield Site("dropped_filter", len(visit.parsed.data[:word].rstrip()), end, ("",))


def conditional(visit: Visit) -> Iterator[Site]:
    node = visit.node
    assert isinstance(node, ast.IfExp)
    yield from swapped("swapped_branches", visit, node.body, node.orelse)


def swapped(operator: str, visit: Visit, first: ast.expr, second: ast.expr) -> Iterator[Site]:
    """Two expressions of one line in each other's place."""
    if isinstance(first, ast.Starred) or isinstance(second, ast.Starred):
        return
    (start, first_end), (second_start, end) = visit.parsed.span(first), visit.parsed.span(second)
    middle = visit.parsed.data[first_end:second_start].decode()
    yield Site(operator, start, end, (visit.parsed.text(second) + middle + visit.parsed.text(first),))


def constant(visit: Visit) -> Iterator[Site]:
    node = visit.node
    assert isinstance(node, ast.Constant)
    start, end = visit.parsed.span(node)
    text = visit.parsed.text(node)
    if isinstance(node.value, bool):
        if isinstance(visit.parent, ast.While):
            return
        yield Site("boolean_constant", start, end, (str(not node.value),))
    elif isinstance(node.value, int) and text.isdigit():
        value = node.value
        near = (value + 1, value + 1, *((value - 1, value - 1) if value else ()), 0, 10 * value, value // 2)
        index = isinstance(visit.parent, ast.Subscript) and visit.parent.slice is node
        choices = (*(str(v) for v in near if v != value), *(("-1", "-1") if index and value == 0 else ()))
        yield Site("index" if index else "constant", start, end, choices)
    elif isinstance(node.value, float) and re.fullmatch(r"\d+\.\d+", text):
        yield Site("constant", start, end, (str(node.value + 1), str(node.value / 2), str(node.value * 10)))
    elif isinstance(node.value, str) and node.value in STRINGS and len(text) >= 2 and text[0] == text[-1] in "'\"":
        quote = text[0]
        choices = tuple(f"{quote}{choice}{quote}" for choice in STRINGS[node.value] if choice not in (quote, "\n"))
        yield Site("string", start, end, choices)


def bounds(visit: Visit) -> Iterator[Site]:
    """Indices, slice bounds and the arguments of `range`, one too high or too low, or left out."""
    node = visit.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        for argument in node.args[:2]:
            yield from _off_by_one(visit, argument)
        (start, end), data = visit.parsed.span(node), visit.parsed.data
        if len(node.args) == 1:
            at = visit.parsed.span(node.args[0])[0]
            yield Site("off_by_one", at, at, ("1, ",))
        elif len(node.args) == 2 and data[end - 1 : end] == b")":
            yield Site("off_by_one", visit.parsed.span(node.args[0])[0], visit.parsed.span(node.args[1])[0], ("",))
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        lower, upper = node.slice.lower, node.slice.upper
        for bound in (lower, upper):
            if bound is None:
                continue
            yield from _off_by_one(visit, bound)
            if node.slice.step is None:
                yield Site("slice_bound", *visit.parsed.span(bound), ("",))
        if (lower is None) != (upper is None) and node.slice.step is None:
            bound = lower or upper
            assert bound is not None
            start, end = visit.parsed.span(node.slice)
            text = visit.parsed.text(bound)
            yield Site("slice_bound", start, end, (f":{text}" if lower else f"{text}:",))
        if node.slice.step is not None and isinstance(node.slice.step, ast.UnaryOp):
            start, end = visit.parsed.span(node.slice)
            yield Site("slice_bound", start, end, (visit.parsed.text(node.slice).rstrip("-1") or ":",))
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, _COUNTABLE) and not _typed(node):
        yield from _off_by_one(visit, node.slice)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and _one(node.right):
        start, end = visit.parsed.span(node.left)[1], visit.parsed.span(node)[1]
        if isinstance(node.left, _ATOMS) and b")" not in visit.parsed.data[start:end]:
            yield Site("off_by_one", start, end, ("",))


def _typed(node: ast.Subscript) -> bool:
    """A subscript that is a type, or a mapping looked up by an attribute: adding one to its key is no slip."""
    return isinstance(node.value, ast.Name) and node.value.id[:1].isupper()


def _one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1 and not isinstance(node.value, bool)


def _off_by_one(visit: Visit, node: ast.expr) -> Iterator[Site]:
    if isinstance(node, _COUNTABLE) or (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.FloorDiv))):
        end = visit.parsed.span(node)[1]
        yield Site("off_by_one", end, end, (" + 1", " - 1"))


def elements(visit: Visit) -> Iterator[Site]:
    """Two neighbours of a tuple or list in each other's place."""
    node = visit.node
    assert isinstance(node, (ast.Tuple, ast.List))
    if 2 <= len(node.elts) <= 4:
        for first, second in zip(node.elts, node.elts[1:], strict=False):
            yield from swapped("swapped_elements", visit, first, second)
