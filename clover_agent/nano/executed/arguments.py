"""Guessed arguments for a function, as source text, from its parameters' names, annotations, defaults and literals."""

from __future__ import annotations

import ast
import random
import re

_TEXTS = (
    "''", "'a'", "'abc'", "'hello world'", "'Hello'", "'foo_bar'", "'FooBar'", "'foo-bar'", "'a,b,c'", "'12'", "'3.5'",
    "'  padded '", "'key=value'", "'path/to/file.txt'", "'a.b.c'", "'x'", "'two\\nlines'", "'one two three'",
    "'http://example.com/path?q=1'", "'2021-03-04'", "'-7'", "'ABC'", "'aabbcc'", "'(a, b)'", "'user@example.com'",
)  # fmt: skip
_WHOLE = ("0", "1", "2", "3", "4", "5", "7", "10", "12", "16", "25", "60", "100", "255", "1000", "-1", "-3")
_REAL = ("0.0", "0.5", "1.0", "1.5", "2.25", "3.7", "-1.5", "10.0", "100.0", "0.1")
_FLAGS = ("True", "False")
_LISTS = (
    "[]", "[1]", "[1, 2, 3]", "[3, 1, 2]", "['a', 'b', 'c']", "[1, 2, 2, 3]", "['b', 'a']", "[(1, 'a'), (2, 'b')]",
    "[[1, 2], [3, 4]]", "[0.5, 1.5]", "['foo', 'bar', 'foo']", "[5, 4, 3, 2, 1]", "[1, 2, 3, 4, 5, 6]", "(1, 2)",
    "[[1, 0], [0, 1]]", "['1', '2']",
)  # fmt: skip
_MAPS = (
    "{}", "{'a': 1}", "{'a': 1, 'b': 2}", "{'x': 'y'}", "{'key': 'value', 'n': 3}", "{1: 'one', 2: 'two'}",
    "{'a': {'b': 1}}", "{'a': [1, 2], 'b': []}", "{'name': 'foo', 'value': None}",
)  # fmt: skip
_CALLS = ("len", "str", "abs", "int", "lambda x: x", "lambda x: x > 1", "lambda x: not x", "lambda *a: a", "bool")
_BYTES = ("b''", "b'abc'", "b'\\x00\\x01\\xff'", "b'hello world'")
_NOTHING = ("None",)

_BY_NAME: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"(func|fn|callback|predicate|callable|key_?func|pred|f)$", _CALLS),
    (r"(is_|has_|use_|no_|allow_|include_|with_|strict|reverse|verbose|force|inclusive|recursive|ignore)", _FLAGS),
    (r"(lst|lists?|items?|seq|sequence|iterable|values|args|elements|nums|numbers|rows|words|names|lines|parts|arr|"
     r"array|tokens|keys|data|points?|matrix|a|b|it|xs|tuples?|shape|pairs)$", _LISTS),
    (r"(d|dct|dict|dictionary|mapping|kwargs|config|options|opts|params|headers|attrs|env|context|obj|meta)$", _MAPS),
    (r"(text|s|str|string|name|word|line|path|url|value|title|key|prefix|suffix|sep|char|c|ch|pattern|label|msg|message|"
     r"source|content|filename|token|fmt|format|code|expr|tag|mode|encoding|delimiter|identifier|version|host|query)$",
     _TEXTS),
    (r"(n|m|i|j|k|x|y|z|num|number|count|size|index|idx|width|height|length|start|stop|end|step|limit|depth|level|offset|"
     r"low|high|lo|hi|year|month|day|hour|minute|seconds?|base|max\w*|min\w*|total|amount|bits|pos|position)$", _WHOLE),
    (r"(alpha|beta|scale|ratio|factor|rate|prob\w*|angle|lat|lon|r|g|h|v|l|u|t|mean|sigma|tol\w*|eps\w*)$", _REAL),
    (r"(buf|buffer|raw|blob|byte\w*|payload)$", _BYTES),
)  # fmt: skip
_BY_TYPE: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"bool", _FLAGS),
    (r"\bint\b", _WHOLE),
    (r"float|complex|Real|Number", (*_REAL, *_WHOLE)),
    (r"[Cc]allable", _CALLS),
    (r"[Dd]ict|Mapping", _MAPS),
    (r"[Ll]ist|[Tt]uple|[Ss]equence|[Ii]terable|[Ss]et|Collection|Iterator", _LISTS),
    (r"\bbytes", _BYTES),
    (r"\bstr\b|Text|AnyStr", _TEXTS),
)
_ANY = (*_TEXTS, *_WHOLE, *_LISTS, *_MAPS, *_REAL, *_FLAGS, *_NOTHING)


def literals(node: ast.AST) -> tuple[str, ...]:
    """Short strings that a function compares with or looks up: good guesses for its text parameters."""
    found = {
        repr(part.value): None
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and len(part.value) <= 20
    }
    return tuple(found)[:12]


def guess(node: ast.FunctionDef, rng: random.Random, hints: tuple[str, ...], *, skip_first: bool) -> str:
    """An argument list for a call of `node`. hints: literals to try as text; skip_first: leave out `self`."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults += arguments.defaults
    chosen: list[str] = []
    named = False
    for number, (parameter, default) in enumerate(zip(positional, defaults, strict=True)):
        if skip_first and number == 0:
            continue
        if default is not None and rng.random() < 0.6:
            named = number >= len(arguments.posonlyargs)
            if not named:
                break
            continue
        value = _value(parameter, default, rng, hints)
        chosen.append(f"{parameter.arg}={value}" if named else value)
    if arguments.vararg and not named:
        chosen += [rng.choice(_ANY) for _ in range(rng.choice((0, 1, 2, 2)))]
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None or rng.random() < 0.3:
            chosen.append(f"{parameter.arg}={_value(parameter, default, rng, hints)}")
    return ", ".join(chosen)


def _value(parameter: ast.arg, default: ast.expr | None, rng: random.Random, hints: tuple[str, ...]) -> str:
    pool = _pool(parameter, default)
    if pool is _TEXTS and hints and rng.random() < 0.35:
        return rng.choice(hints)
    return rng.choice(_ANY if rng.random() < 0.12 else pool)


def _pool(parameter: ast.arg, default: ast.expr | None) -> tuple[str, ...]:
    if parameter.annotation is not None:
        text = ast.unparse(parameter.annotation)
        for pattern, pool in _BY_TYPE:
            if re.search(pattern, text):
                return pool
    if isinstance(default, ast.Constant) and default.value is not None:
        kinds = {bool: _FLAGS, int: _WHOLE, float: _REAL, str: _TEXTS, bytes: _BYTES}
        return kinds.get(type(default.value), _ANY)
    if isinstance(default, ast.List | ast.Tuple):
        return _LISTS
    for pattern, pool in _BY_NAME:
        if re.match(pattern, parameter.arg.lower()):
            return pool
    return _ANY
