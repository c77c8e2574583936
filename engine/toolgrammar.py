"""Lark grammar of the family's tool calls, over each tool's JSON schema (llguidance's dialect of Lark).

It agrees with `engine.toolcalls`, which reads the calls: a string value ends at the first `</parameter>` on a line of
its own that a further parameter or the function's end follows, so a string may hold anything else that looks like a
tag. One terminal is a whole string value with the tag behind it; the language of such a terminal has no word that
continues another, so that a lexer never has to guess where the value ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from engine.constraints import ToolCalls
from engine.errors import EngineError
from engine.schemas import resolve_reference
from engine.toolcalls import CLOSE, OPEN, THINK_OPEN, wants_json


class GrammarError(EngineError):
    """A schema, regex or grammar that can't be turned into a constraint; names the part at fault."""


NEXT = "\n</parameter>\n<parameter="
LAST = "\n</parameter>\n</function>"
_VALUE_END = r"\n<\/parameter>\s*(<parameter=|<\/function>)"
_ANY = r"/(?s:.*)/"
_ANNOTATIONS = {"title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"}
_STRING_KEYS = {"type", "enum", "const", "minLength", "maxLength", "pattern", "format", "nullable"} | _ANNOTATIONS
_OTHER_TYPES = {  # they say nothing about strings
    "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "uniqueItems", "minimum",
    "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "prefixItems",
}  # fmt: skip
_ROOT_KEYS = {
    "type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema", "$id", "strict",
} | _ANNOTATIONS  # fmt: skip
JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def literal(text: str) -> str:
    """A Lark string."""
    return json.dumps(text, ensure_ascii=False)


def json_rule(schema: Any, root: Any = None) -> str:
    """Inline Lark for a JSON value, written as `json.dumps` writes it. root: schema that local `$ref`s point into."""
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    shared = {key: root[key] for key in ("$defs", "definitions") if isinstance(root, Mapping) and key in root}
    return "%json " + json.dumps({**shared, **schema, "x-guidance": JSON_STYLE})


def free_text(*forbidden: str, empty: bool) -> str:
    """A Lark terminal for text in which none of `forbidden` occurs."""
    some = "*" if empty else "+"
    parts = "|".join(regex_escape(text) for text in forbidden)
    return f"/(?s:.{some})/ & ~/(?s:.*)({parts})(?s:.*)/"


def regex_escape(text: str) -> str:
    """A regex, as it stands between slashes in Lark, that matches `text`."""
    return "".join("\\n" if c == "\n" else "\\" + c if c in "\\.+*?()|[]{}^$/#&-~" else c for c in text)


def calls_grammar(wanted: ToolCalls, token: Callable[[str], str]) -> str:
    """Rules for `calls` (one call or more) and, for choice "auto", `body`: text, then perhaps calls.

    token: Lark for a special token by its text. Raises GrammarError.
    """
    if not wanted.tools:
        raise GrammarError("no tools are given: a constraint on tool calls needs at least one")
    lines, names = [], []
    for number, (name, schema) in enumerate(wanted.tools.items()):
        _check_name(name, "tool")
        names.append(f"f{number}")
        lines += _function(f"f{number}", name, schema)
    lines.append(f'call: {token(OPEN)} "\\n" ({" | ".join(names)}) "\\n" {token(CLOSE)}')
    lines.append('calls: call ("\\n" call)*' if wanted.parallel else "calls: call")
    if wanted.choice == "required":
        lines.append("body: calls")
    else:
        lines.append("body: BODY_TEXT? calls?")
        lines.append(f"BODY_TEXT: {free_text(OPEN, CLOSE, THINK_OPEN, '<function=', empty=False)}")
    return "\n".join(lines)


def _function(rule: str, name: str, schema: Any) -> list[str]:
    """Rules for one function: `rule` and one a parameter. Parameters come in the order of the schema."""
    schema = resolve_reference(schema, schema)
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise GrammarError(f"tool {name}: its parameters must be a JSON schema of type object")
    unknown = sorted(set(schema) - _ROOT_KEYS)
    if unknown:
        raise GrammarError(f"tool {name}: {unknown[0]} beside its parameters can't be kept by construction")
    properties, required = schema.get("properties") or {}, schema.get("required") or []
    missing = sorted(set(required) - set(properties))
    if missing:
        raise GrammarError(f"tool {name}: the required parameter {missing[0]} has no schema")
    keys = list(properties)
    lines: list[str] = []

    def following(start: int) -> list[str]:
        """Rules of the parameters that may come next, where those before `start` are done."""
        found = []
        for number in range(start, len(keys)):
            found.append(f"{rule}p{number}")
            if keys[number] in required:
                break
        return found

    def may_end(start: int) -> bool:
        return not any(key in required for key in keys[start:])

    for number, key in enumerate(keys):
        _check_name(key, f"tool {name}: parameter")
        where = f"tool {name}, parameter {key}"
        after, stem = following(number + 1), f"{rule}p{number}"
        ends = ([(NEXT, "(" + " | ".join(after) + ")")] if after else []) + (
            [(LAST, "")] if may_end(number + 1) else []
        )
        if wants_json(properties[key], schema):
            tails = " | ".join(f"{literal(tag)} {rest}" for tag, rest in ends)
            lines.append(f'{stem}: {literal(key + ">")} "\\n" {stem}v ({tails})')
            lines.append(f"{stem}v: {json_rule(properties[key], schema)}")
            continue
        value = raw_string(properties[key], schema, where)
        tails = []
        for index, (tag, rest) in enumerate(ends):
            terminal = f"{stem}_{index}".upper()
            tails.append(f"{terminal} {rest}")
            lines.append(f"{terminal}: {terminal}_ALL & ~/(?s:.*){_VALUE_END}(?s:.+)/")
            lines.append(f'{terminal}_ALL: "\\n" ({value}) {literal(tag)}')
        lines.append(f"{stem}: {literal(key + '>')} ({' | '.join(tails)})")
    first, starts = literal(f"<function={name}>\n"), []
    if keys:
        starts.append(f'"<parameter=" ({" | ".join(following(0))})')
    if may_end(0):
        starts.append('"</function>"')
    lines.append(f"{rule}: {first} ({' | '.join(starts)})")
    return lines


def raw_string(schema: Any, root: Any, where: str) -> str:
    """Inline Lark, usable in a terminal, for the strings that `schema` allows. Raises GrammarError."""
    schema = resolve_reference(schema, root)
    if not isinstance(schema, Mapping):
        return _ANY
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        if set(schema) - {"anyOf", "oneOf"} - _ANNOTATIONS:
            raise GrammarError(f"{where}: anyOf or oneOf together with other keywords can't be kept by construction")
        strings = [choice for choice in choices if not wants_json(choice, root)]
        if "oneOf" in schema and len(strings) > 1:
            raise GrammarError(f"{where}: oneOf with several kinds of string can't be kept by construction")
        return " | ".join(f"({raw_string(choice, root, where)})" for choice in strings)
    unknown = sorted(set(schema) - _STRING_KEYS - _OTHER_TYPES)
    if unknown:
        raise GrammarError(f"{where}: {unknown[0]} can't be kept by construction in a plain string")
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None:
        return " | ".join(literal(value) for value in values if isinstance(value, str))
    low, high = schema.get("minLength", 0), schema.get("maxLength", "")
    parts = [f"/(?s:.{{{low},{high}}})/" if low or high != "" else _ANY]
    if "pattern" in schema:
        parts.append(f"/{_searched(schema['pattern'])}/")
    return " & ".join(parts)


def _searched(pattern: str) -> str:
    """A regex for whole strings, in Lark's slashes, each of which a JSON schema's `pattern` finds something in."""
    left = "" if pattern.startswith("^") else "(?s:.*)"
    right = "" if pattern.endswith("$") and not pattern.endswith("\\$") else "(?s:.*)"
    core = pattern.removeprefix("^")
    core = core[:-1] if not right else core
    core = re.sub(r"(?<!\\)((?:\\\\)*)/", r"\1\\/", core).replace("\n", "\\n")
    return f"{left}({core}){right}"


def _check_name(name: str, what: str) -> None:
    if not re.fullmatch(r"[^<>\s]([^<>\n]*[^<>\s])?", name):
        raise GrammarError(f"{what} {name!r}: such a name can't be written in a tool call")
