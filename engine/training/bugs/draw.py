"""Finding what can be broken in a stretch of code, and drawing one bug of it."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache

from engine.training.bugs import expressions, names, statements
from engine.training.bugs.site import Mutation, Site, apply
from engine.training.bugs.source import ParsedSource, Unit, parse
from engine.training.bugs.tables import WEIGHTS
from engine.training.bugs.walk import Visit, visits

OPERATORS: tuple[str, ...] = tuple(WEIGHTS)
_ATTEMPTS = 24
_MAX_REMOVED_LINES = 3

Finder = Callable[[Visit], Iterator[Site]]
_Place = tuple[ParsedSource, Unit, Site]

_FINDERS: dict[type[ast.AST], tuple[Finder, ...]] = {
    ast.Compare: (expressions.comparison,),
    ast.BinOp: (expressions.arithmetic, expressions.bounds),
    ast.BoolOp: (expressions.boolean,),
    ast.UnaryOp: (expressions.unary,),
    ast.IfExp: (expressions.negation, expressions.conditional),
    ast.comprehension: (expressions.negation,),
    ast.While: (expressions.negation,),
    ast.If: (expressions.negation, statements.guard),
    ast.Constant: (expressions.constant,),
    ast.Subscript: (expressions.bounds,),
    ast.Tuple: (expressions.elements,),
    ast.List: (expressions.elements,),
    ast.Call: (expressions.bounds, names.call),
    ast.Name: (names.name,),
    ast.Attribute: (names.attribute,),
    ast.arguments: (names.default,),
    ast.Assign: (statements.dropped, statements.order),
    ast.AnnAssign: (statements.dropped,),
    ast.AugAssign: (statements.dropped, statements.order, statements.augmented),
    ast.Expr: (statements.dropped, statements.order),
    ast.Return: (statements.dropped, statements.order, statements.jump),
    ast.Raise: (statements.dropped, statements.order),
    ast.Break: (statements.dropped, statements.order, statements.jump),
    ast.Continue: (statements.dropped, statements.order, statements.jump),
}


@lru_cache(maxsize=4096)
def _sites(parsed: ParsedSource, unit: Unit) -> tuple[Site, ...]:
    found: list[Site] = []
    for visit in visits(parsed, unit):
        for finder in _FINDERS.get(type(visit.node), ()):
            found.extend(site for site in finder(visit) if site.choices and _small(parsed, site))
    return tuple(found)


def _small(parsed: ParsedSource, site: Site) -> bool:
    return parsed.line_at(site.end) - parsed.line_at(site.start) <= _MAX_REMOVED_LINES


@lru_cache(maxsize=1024)
def _places(source: str, start: int, end: int | None, operators: frozenset[str] | None) -> dict[str, list[_Place]]:
    """By operator, the places in lines `start`..`end`, in order."""
    parsed = parse(source)
    if not 1 <= start <= len(parsed.line_starts) or (end is not None and end < start):
        return {}
    low = parsed.line_starts[start - 1]
    high = parsed.line_starts[end] if end is not None and end < len(parsed.line_starts) else len(parsed.data)
    places: dict[str, list[_Place]] = {}
    for unit in parsed.units:
        if unit.end < low or unit.start > high:
            continue
        for site in _sites(parsed, unit):
            if low <= site.start and site.end <= high and (operators is None or site.operator in operators):
                places.setdefault(site.operator, []).append((parsed, unit, site))
    return places


def candidates(
    source: str, start: int = 1, end: int | None = None, operators: Collection[str] | None = None
) -> list[Mutation]:
    """Every mutation of lines `start`..`end` (1-based, inclusive; None: to the last line) that compiles, by place.

    operators: only these of OPERATORS. Raises SyntaxError where `source` does not parse.
    """
    places = _places(source, start, end, None if operators is None else frozenset(operators))
    ordered = sorted((place for group in places.values() for place in group), key=lambda place: place[2].start)
    found = (apply(*place, choice) for place in ordered for choice in dict.fromkeys(place[2].choices))
    return [mutation for mutation in found if mutation is not None]


def mutate(
    source: str, rng: random.Random, start: int = 1, end: int | None = None, operators: Collection[str] | None = None
) -> Mutation | None:
    """One bug in lines `start`..`end` of `source`; None where nothing there can be broken.

    The operator is drawn by its weight among those with a place in the stretch, then the place, then what stands there.
    The same arguments and state of `rng` give the same bug. Raises SyntaxError where `source` does not parse.
    """
    places = _places(source, start, end, None if operators is None else frozenset(operators))
    if not places:
        return None
    present = list(places)
    weights = [WEIGHTS[operator] for operator in present]
    for _ in range(_ATTEMPTS):
        parsed, unit, site = rng.choice(places[rng.choices(present, weights)[0]])
        mutation = apply(parsed, unit, site, rng.choice(site.choices))
        if mutation is not None:
            return mutation
    return None
