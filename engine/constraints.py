"""What a response may be held to. Plain data; `engine.grammar` makes grammars of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

ToolChoice = Literal["auto", "required"]


@dataclass(frozen=True)
class ToolCalls:
    """Free text, then calls that are valid against their tool's JSON schema.

    tools: JSON schema of each tool's arguments by tool name. choice: "auto" leaves it to the model whether to call,
    "required" makes it call. parallel: more than one call may follow.
    """

    tools: Mapping[str, Mapping[str, Any]]
    choice: ToolChoice = "auto"
    parallel: bool = True


@dataclass(frozen=True)
class JsonSchema:
    """The response, behind its thinking, is one JSON value that is valid against `schema`."""

    schema: Mapping[str, Any] | bool


@dataclass(frozen=True)
class Regex:
    """The response, behind its thinking, matches `pattern` as a whole (Rust regex syntax, no look-around)."""

    pattern: str


@dataclass(frozen=True)
class Lark:
    """The response, behind its thinking, follows a Lark grammar (llguidance's dialect) from its rule `start`."""

    source: str


Constraint = ToolCalls | JsonSchema | Regex | Lark


def tool_schemas(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Argument schemas by name from tools in Hugging Face (OpenAI) form. Raises ValueError for another form."""
    schemas: dict[str, Mapping[str, Any]] = {}
    for tool in tools:
        function = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise ValueError('each tool must be {"type": "function", "function": {"name": ..., "parameters": ...}}')
        schemas[function["name"]] = function.get("parameters") or {"type": "object", "properties": {}}
    return schemas
