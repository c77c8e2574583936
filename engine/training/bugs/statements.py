"""Slips of whole statements: left out, swapped, moved, returned wrongly."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from engine.training.bugs.site import Site
from engine.training.bugs.source import ParsedSource
from engine.training.bugs.tables import AUGMENTED
from engine.training.bugs.walk import Visit

_JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, *_JUMPS)


def _alone(parsed: ParsedSource, node: ast.stmt) -> bool:
    """Whether the statement has its lines to itself (a comment behind it goes with it)."""
    start, end = parsed.span(node)
    before = parsed.data[parsed.line_starts[node.lineno - 1] : start]
    assert node.end_lineno is not None
    behind = parsed.data[end : parsed.end_of_line(node.end_lineno)].lstrip()
    return not before.strip() and (not behind or behind.startswith(b"#"))


def _lines(parsed: ParsedSource, first: int, last: int) -> tuple[int, int]:
    """Byte span of whole lines, their line ends included; at the end of the text the line end before them instead."""
    if last < len(parsed.line_starts):
        return parsed.line_starts[first - 1], parsed.line_starts[last]
    return parsed.end_of_line(first - 1) if first > 1 else 0, len(parsed.data)


def _body(visit: Visit) -> list[ast.stmt] | None:
    """The block that a statement stands in."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(visit.parent, name, None)
        if isinstance(block, list) and visit.node in block:
            return block
    return None


def dropped(visit: Visit) -> Iterator[Site]:
    """A statement left out; `pass` takes its place where it stood alone in its block."""
    node = visit.node
    assert isinstance(node, ast.stmt)
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        operator = "dropped_assignment"
    elif isinstance(node, _JUMPS):
        operator = "dropped_jump"
    else:
        operator = "dropped_update"
    body = _body(visit)
    if body is None or not _alone(visit.parsed, node) or not visit.parents:
        return
    assert node.end_lineno is not None
    if node.end_lineno - node.lineno > 2:
        return
    if len(body) == 1:
        yield Site(operator, *visit.parsed.span(node), ("pass",))
    else:
        yield Site(operator, *_lines(visit.parsed, node.lineno, node.end_lineno), ("",))


def guard(visit: Visit) -> Iterator[Site]:
    """An `if` without `else` whose body is one jump, left out altogether; `elif` for `if` and back."""
    node = visit.node
    assert isinstance(node, ast.If)
    parsed, body = visit.parsed, _body(visit)
    start = parsed.span(node)[0]
    assert node.end_lineno is not None
    if parsed.data[start : start + 4] == b"elif":
        yield Site("if_elif", start, start + 4, ("if",))
    elif (
        body and body.index(node) > 0 and isinstance(before := body[body.index(node) - 1], ast.If) and not before.orelse
    ):
        yield Site("if_elif", start, start, ("el",))
    small = len(node.body) == 1 and isinstance(node.body[0], _JUMPS) and node.end_lineno - node.lineno <= 2
    if body and len(body) > 1 and small and not node.orelse and _alone(parsed, node):
        yield Site("dropped_guard", *_lines(parsed, node.lineno, node.end_lineno), ("",))
    if len(node.body) == len(node.orelse) == 1:
        one, two = node.body[0], node.orelse[0]
        if (
            isinstance(one, _SIMPLE)
            and isinstance(two, _SIMPLE)
            and one.lineno == one.end_lineno
            and two.lineno == two.end_lineno
        ):
            yield _exchange("swapped_branches", parsed, one, two)


def _exchange(operator: str, parsed: ParsedSource, one: ast.stmt, two: ast.stmt) -> Site:
    (start, first_end), (second_start, end) = parsed.span(one), parsed.span(two)
    middle = parsed.data[first_end:second_start].decode()
    return Site(operator, start, end, (parsed.text(two) + middle + parsed.text(one),))


def order(visit: Visit) -> Iterator[Site]:
    """A one-line statement swapped with the next, or moved into the block above it or out of its own."""
    node, parsed, body = visit.node, visit.parsed, _body(visit)
    assert isinstance(node, ast.stmt)
    if body is None or not visit.parents or node.lineno != node.end_lineno or not _alone(parsed, node):
        return
    at = body.index(node)
    if at + 1 < len(body):
        below = body[at + 1]
        if isinstance(below, _SIMPLE) and below.lineno == below.end_lineno == node.lineno + 1 and _alone(parsed, below):
            yield _exchange("swapped_lines", parsed, node, below)
    line_start, start = parsed.line_starts[node.lineno - 1], parsed.span(node)[0]
    if (
        at > 0
        and isinstance(above := body[at - 1], (ast.For, ast.While, ast.If, ast.With))
        and above.end_lineno == node.lineno - 1
    ):
        inner = (above.orelse or above.body)[-1] if isinstance(above, ast.If) else above.body[-1]
        if inner.col_offset > node.col_offset and not (isinstance(above, (ast.For, ast.While)) and above.orelse):
            yield Site("wrong_indentation", line_start, start, (" " * inner.col_offset,))
    parent = visit.parent
    if (
        at > 0
        and at == len(body) - 1
        and isinstance(parent, (ast.For, ast.While, ast.If))
        and body is parent.body
        and not parent.orelse
    ):
        yield Site("wrong_indentation", line_start, start, (" " * parent.col_offset,))


def jump(visit: Visit) -> Iterator[Site]:
    node = visit.node
    start, end = visit.parsed.span(node)  # type: ignore[arg-type]
    if isinstance(node, ast.Break):
        yield Site("break_continue", start, end, ("continue",))
    elif isinstance(node, ast.Continue):
        yield Site("break_continue", start, end, ("break",))
    elif isinstance(node, ast.Return) and node.value is not None and visit.parsed.text(node.value) != "None":
        yield Site("return_value", start, end, ("return None", "return", visit.parsed.text(node.value)))


def augmented(visit: Visit) -> Iterator[Site]:
    node = visit.node
    assert isinstance(node, ast.AugAssign)
    start, end = visit.parsed.span(node.target)[1], visit.parsed.span(node.value)[0]
    match = re.search(rb"[-+*/%&|^<>@]+=", visit.parsed.data[start:end])
    if match and type(node.op) in AUGMENTED:
        yield Site("augmented_operator", start + match.start(), start + match.end(), AUGMENTED[type(node.op)])
