"""The family's tool-call text: one parser, one canonical renderer.

A call reads

    <tool_call>
    <function=NAME>
    <parameter=ARG>
    VALUE
    </parameter>
    </function>
    </tool_call>

String values stand raw, all others as JSON. A value starts after the newline behind `<parameter=ARG>` and ends
before the newline in front of the first `</parameter>` that is followed by another parameter or the function's end,
so text that merely looks like a tag stays text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.schemas import resolve_reference

OPEN = "<tool_call>"
CLOSE = "</tool_call>"
THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"

_FUNCTION = re.compile(r"\s*<function=([^<>\n]*)>")
_PARAMETER = re.compile(r"\s*<parameter=([^<>\n]*)>")
_FUNCTION_END = re.compile(r"\s*</function>")
_CALL_END = re.compile(r"\s*</tool_call>")
_VALUE_END = re.compile(r"\n</parameter>(?=\s*(?:<parameter=|</function>))")
_INLINE_VALUE_END = re.compile(r"\n?</parameter>(?=\s*(?:<parameter=|</function>))")
_BARE_FUNCTION = re.compile(r"^<function=[^<>\n]+>$", re.MULTILINE)
_EXCERPT = 60


@dataclass(frozen=True)
class ParsedCall:
    """One call as the model wrote it. `arguments` is None when `error` names a fault; `raw` is the call's text."""

    name: str
    arguments: Mapping[str, Any] | None
    error: str = ""
    raw: str = ""


@dataclass(frozen=True)
class ParsedReply:
    """An assistant turn taken apart. `closed` is False when the text ended inside the reasoning."""

    content: str
    reasoning: str
    calls: tuple[ParsedCall, ...]
    closed: bool = True


class _FaultError(Exception):
    """A call that can't be read; carries the name found so far."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


def render_value(value: Any) -> str:
    """A parameter's value as it stands in a call: strings raw, everything else JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def render_call(name: str, arguments: Mapping[str, Any]) -> str:
    """The canonical text of one call, character for character what the chat template writes for it."""
    parameters = "".join(
        f"<parameter={key}>\n{render_value(value)}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"{OPEN}\n<function={name}>\n{parameters}</function>\n{CLOSE}"


def render_reply(content: str, calls: list[tuple[str, Mapping[str, Any]]] | None = None, reasoning: str = "") -> str:
    """A whole assistant turn after `<|im_start|>assistant\\n`, without `<|im_end|>`: the text a model should write."""
    blocks = ([content] if content else []) + ["\n".join(render_call(name, args) for name, args in calls or [])]
    body = "\n\n".join(block for block in blocks if block)
    return f"{THINK_OPEN}\n{reasoning}\n{THINK_CLOSE}\n\n{body}"


def parse_reply(
    text: str, schemas: Mapping[str, Mapping[str, Any]] | None = None, thinking: bool = False
) -> ParsedReply:
    """Take an assistant turn apart; never raises.

    text: what the model wrote after the generation prompt, without the stop token.
    schemas: JSON schema of each tool's arguments by tool name; decides which values are JSON.
    thinking: the prompt left the think block open, so `text` starts inside the reasoning.
    """
    reasoning, closed = "", True
    if not thinking and text.lstrip().startswith(THINK_OPEN):
        text, thinking = text.lstrip()[len(THINK_OPEN) :], True
    if thinking:
        reasoning, mark, text = text.partition(THINK_CLOSE)
        closed = bool(mark)
    content, calls = _parse_body(text, schemas or {})
    return ParsedReply(content.strip(), reasoning.strip(), calls, closed)


def _parse_body(text: str, schemas: Mapping[str, Mapping[str, Any]]) -> tuple[str, tuple[ParsedCall, ...]]:
    start = text.find(OPEN)
    if start < 0:
        bare = _BARE_FUNCTION.search(text)
        if bare is None:
            return text, ()
        fault = ParsedCall("", None, f"a {bare.group()} stands outside {OPEN}", text[bare.start() :])
        return text[: bare.start()], (fault,)
    content, calls = text[:start], []
    while start >= 0:
        call, end = _parse_call(text, start, schemas)
        following = text.find(OPEN, end)
        gap = text[end : following if following >= 0 else len(text)]
        if gap.strip() and not call.error:
            error = f"text after {CLOSE}: {_excerpt(gap)}; write text before the call"
            call = replace(call, arguments=None, error=error, raw=call.raw + gap.rstrip())
        calls.append(call)
        start = following
    return content, tuple(calls)


def _parse_call(text: str, start: int, schemas: Mapping[str, Mapping[str, Any]]) -> tuple[ParsedCall, int]:
    """The call that opens at `start`, and where it ends."""
    try:
        name, arguments, end = _read_call(text, start + len(OPEN), schemas)
        return ParsedCall(name, arguments, "", text[start:end]), end
    except _FaultError as fault:
        close = text.find(CLOSE, start)
        end = len(text) if close < 0 else close + len(CLOSE)
        return ParsedCall(fault.name, None, str(fault), text[start:end].rstrip()), end


def _read_call(text: str, at: int, schemas: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, Any], int]:
    function = _FUNCTION.match(text, at)
    if function is None:
        raise _FaultError(_expected(text, at, "<function=NAME>"))
    name, at = function.group(1).strip(), function.end()
    if not name:
        raise _FaultError("<function=> names no tool")
    root = schemas.get(name, {})
    properties = root.get("properties", {})
    arguments: dict[str, Any] = {}
    while parameter := _PARAMETER.match(text, at):
        key, at = parameter.group(1).strip(), parameter.end()
        raw, at = _read_value(text, at, key, name)
        if key in arguments:
            raise _FaultError(f"parameter {key!r} is given twice", name)
        arguments[key] = _typed(raw, resolve_reference(properties.get(key), root), key, name, root)
    for pattern, what in ((_FUNCTION_END, "<parameter=ARG> or </function>"), (_CALL_END, CLOSE)):
        closing = pattern.match(text, at)
        if closing is None:
            raise _FaultError(_expected(text, at, what), name)
        at = closing.end()
    return name, arguments, at


def _read_value(text: str, at: int, key: str, name: str) -> tuple[str, int]:
    """Raw text of a value that starts behind its opening tag at `at`, and where its closing tag ends."""
    own_line = text.startswith("\n", at)
    # An empty value may share its newline with the closing tag, so the search starts at that newline.
    end = (_VALUE_END if own_line else _INLINE_VALUE_END).search(text, at)
    if end is None:
        if CLOSE in text[at:]:
            raise _FaultError(f"parameter {key!r} is not closed by </parameter>", name)
        raise _FaultError(f"the call is cut off inside parameter {key!r}", name)
    return text[at + own_line : end.start()], end.end()


def _typed(raw: str, schema: Any, key: str, name: str, root: Mapping[str, Any]) -> Any:
    """The value of `raw` under its JSON schema: a string wherever the schema allows one or says nothing."""
    if not wants_json(schema, root):
        return raw
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        wanted = schema.get("type", "JSON")
        kind = " or ".join(wanted) if isinstance(wanted, list) else wanted
        raise _FaultError(f"parameter {key!r} must be JSON ({kind}), not {_excerpt(raw)}", name) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def wants_json(schema: Any, root: Any = None) -> bool:
    """Whether a parameter of this schema is written as JSON: it is where the schema allows no string. root: the
    schema that `$ref` points into."""
    schema = resolve_reference(schema, root)
    if not isinstance(schema, Mapping):
        return False
    types = schema.get("type")
    if types is not None:
        return "string" not in ([types] if isinstance(types, str) else types)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return all(wants_json(choice, root) for choice in choices)
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    return bool(values) and not any(isinstance(value, str) for value in values)


def _expected(text: str, at: int, what: str) -> str:
    rest = text[at:].strip()
    return f"expected {what}, got {_excerpt(rest)}" if rest else f"the call is cut off before {what}"


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…")
