"""Local references in JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_MOST = 32  # references followed in a row before a circle is assumed


def resolve_reference(schema: Any, root: Any) -> Any:
    """`schema`, or what its `$ref` into `root` ("#/$defs/x") leads to; as it is where that can't be followed."""
    for _ in range(_MOST):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str):
            return schema
        found = _at(root, reference)
        if found is None:
            return schema
        schema = found
    return schema


def _at(root: Any, reference: str) -> Any:
    if not reference.startswith("#"):
        return None
    place = root
    for part in reference[1:].split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if not isinstance(place, Mapping) or key not in place:
            return None
        place = place[key]
    return place
