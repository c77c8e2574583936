"""What is commonly taken for what (operators, names, exceptions, strings), and how often each slip is drawn."""

from __future__ import annotations

import ast

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: (r"<", ("<=", "<=", ">", ">=")),
    ast.LtE: (r"<=", ("<", "<", ">=", ">")),
    ast.Gt: (r">", (">=", ">=", "<", "<=")),
    ast.GtE: (r">=", (">", ">", "<=", "<")),
    ast.Eq: (r"==", ("!=", "!=", ">=", "<=")),
    ast.NotEq: (r"!=", ("==",)),
    ast.Is: (r"is\b", ("is not",)),
    ast.IsNot: (r"is\s+not\b", ("is",)),
    ast.In: (r"in\b", ("not in",)),
    ast.NotIn: (r"not\s+in\b", ("in",)),
}

ARITHMETIC: dict[type[ast.operator], tuple[str, tuple[str, ...]]] = {
    ast.Add: (r"\+", ("-", "-", "*")),
    ast.Sub: (r"-", ("+", "+", "*")),
    ast.Mult: (r"\*", ("/", "+", "**", "//")),
    ast.Div: (r"/", ("*", "//")),
    ast.FloorDiv: (r"//", ("/", "%", "*")),
    ast.Mod: (r"%", ("//", "/", "*")),
    ast.Pow: (r"\*\*", ("*",)),
    ast.LShift: (r"<<", (">>",)),
    ast.RShift: (r">>", ("<<",)),
    ast.BitAnd: (r"&", ("|", "^")),
    ast.BitOr: (r"\|", ("&", "^")),
    ast.BitXor: (r"\^", ("|", "&")),
}

AUGMENTED: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-=", "-=", "="),
    ast.Sub: ("+=", "+=", "="),
    ast.Mult: ("/=", "+=", "="),
    ast.Div: ("*=", "//="),
    ast.FloorDiv: ("/=", "%=", "*="),
    ast.Mod: ("//=", "="),
    ast.LShift: (">>=",),
    ast.RShift: ("<<=",),
    ast.BitAnd: ("|=",),
    ast.BitOr: ("&=", "^=", "="),
    ast.BitXor: ("|=", "&="),
}

_METHOD_GROUPS = (
    "append extend", "append insert", "add discard", "add update", "startswith endswith", "lower upper",
    "keys values items", "strip lstrip rstrip", "find index rfind", "find rfind", "index rindex", "split rsplit",
    "split splitlines", "partition rpartition", "pop remove", "pop get", "get setdefault", "isdigit isalpha isalnum",
    "isupper islower", "title capitalize", "ljust rjust center", "union intersection difference", "update setdefault",
    "issubset issuperset", "appendleft append", "popleft pop", "extendleft extend", "encode decode",
    "read readline readlines", "match search fullmatch", "group groups", "start end", "acquire release", "get pop",
    "setdefault get", "count index", "difference symmetric_difference", "year month day", "hour minute second",
    "args kwargs", "numerator denominator", "real imag", "left right", "first last", "prev next", "width height",
    "head tail", "minimum maximum", "min max", "lower start", "stop start",
)  # fmt: skip

_FUNCTION_GROUPS = (
    "min max", "any all", "sorted reversed", "isinstance issubclass", "str repr", "int float", "list set",
    "list tuple", "set frozenset", "ord chr", "sum len", "sum max", "floor ceil", "getattr hasattr", "zip enumerate",
    "map filter", "abs int", "iter next", "bytes bytearray", "islice chain", "bisect_left bisect_right",
    "heappush heappop", "first last",
)  # fmt: skip

EXCEPTIONS = (
    "KeyError IndexError", "KeyError AttributeError", "ValueError TypeError", "AttributeError TypeError",
    "IndexError ValueError", "StopIteration IndexError", "OSError ValueError", "ImportError AttributeError",
    "OverflowError ValueError", "NotImplementedError ValueError", "ZeroDivisionError ValueError",
    "RuntimeError ValueError", "UnicodeDecodeError KeyError",
)  # fmt: skip

STRINGS = {
    "": (" ",), " ": ("", "  ", ","), ",": (";", " ", "."), ".": (",", ""), "-": ("_", "+", ""), "_": ("-", " "),
    "/": (".", "-"), ":": (";", ",", "="), ";": (",", ":"), "=": (":", "=="), "\n": (" ", ""), "\t": (" ", ""),
    "(": (")", "["), ")": ("(", "]"), "[": ("]", "("), "]": ("[", ")"), "{": ("}", "["), "}": ("{", "]"), "+": ("-",),
    "*": ("+", "**"), "#": ("//", "%"), "0": ("1", " "), "1": ("0",), "<": (">",), ">": ("<",), "'": ("`",),
    "r": ("w",), "w": ("r", "a"), "rb": ("r", "wb"), "utf-8": ("ascii", "latin-1"), "&": ("|",), "|": ("&",),
    ", ": (",", "; "), ": ": (":", "= "), "left": ("right",), "right": ("left",), "start": ("end",),
    "end": ("start",), "key": ("value",), "value": ("key",), "name": ("value",), "min": ("max",), "max": ("min",),
}  # fmt: skip

# Calls whose result is of the kind of what they are given, so that leaving them out is a bug and no crash on sight.
WRAPPERS = frozenset({
    "abs", "bool", "dict", "float", "frozenset", "int", "iter", "list", "max", "min", "reversed", "round", "set",
    "sorted", "str", "sum", "tuple",
})  # fmt: skip
WRAPPING_METHODS = frozenset({"casefold", "copy", "lower", "lstrip", "rstrip", "strip", "swapcase", "title", "upper"})

WEIGHTS: dict[str, float] = {
    "comparison": 4.0, "arithmetic": 3.0, "boolean_operator": 1.8, "dropped_not": 1.5, "negated_condition": 2.0,
    "sign": 0.8, "constant": 3.0, "off_by_one": 2.2, "slice_bound": 1.2, "index": 1.3, "boolean_constant": 1.6,
    "string": 0.9, "wrong_variable": 4.0, "wrong_target": 0.8, "wrong_attribute": 1.4, "wrong_method": 2.2,
    "wrong_function": 1.6, "swapped_arguments": 1.5, "dropped_argument": 1.0, "swapped_operands": 1.3,
    "dropped_clause": 1.4, "dropped_term": 1.2, "dropped_call": 1.1, "dropped_filter": 0.7, "return_value": 1.2,
    "swapped_branches": 0.9, "dropped_assignment": 0.7, "dropped_update": 0.9, "dropped_jump": 0.8,
    "dropped_guard": 0.7, "break_continue": 0.6, "if_elif": 0.6, "augmented_operator": 1.5, "dropped_default": 0.3,
    "wrong_exception": 0.6, "swapped_lines": 0.6, "wrong_indentation": 0.7, "swapped_elements": 0.8,
}  # fmt: skip
"""Relative frequency of each operator, where a stretch of code offers them all."""


def _neighbours(groups: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    table: dict[str, list[str]] = {}
    for group in groups:
        names = group.split()
        for name in names:
            table.setdefault(name, []).extend(other for other in names if other != name)
    return {name: tuple(dict.fromkeys(others)) for name, others in table.items()}


METHOD_NEIGHBOURS = _neighbours(_METHOD_GROUPS)
FUNCTION_NEIGHBOURS = _neighbours(_FUNCTION_GROUPS)
EXCEPTION_NEIGHBOURS = _neighbours(EXCEPTIONS)
