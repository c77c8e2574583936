"""Random checkpoints and varied schemas: the worst case for constrained generation."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import torch

from engine.config import CloverConfig
from engine.constraints import Constraint, JsonSchema, ToolCalls
from engine.engine import Engine
from engine.events import Finished, Tokens
from engine.generation_config import GenerationConfig
from engine.model.clover import Clover
from engine.params import GenerationParams
from engine.tokenizer import Tokenizer
from engine.toolcalls import parse_reply

TINY = Path(__file__).parents[1] / "data" / "tiny-clover"
MODES = ("autoregressive", "diffusion", "speculative", "auto")


def untrained(seed: int, scale: float = 0.1) -> Engine:
    """An engine with random weights, two layers of each kind, and the tiny checkpoints' tokenizer."""
    folder = TINY / "coreset-0.6-4-layers"
    raw = json.loads((folder / "config.json").read_text())
    raw |= {"num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention"] * 2, "num_experts": 4}
    raw |= {"num_experts_per_tok": 2, "denoising_config": {"threshold": 0.5}}
    model = Clover(CloverConfig.parse(raw)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            wide = 1.0 if "embed" in name or "lm_head" in name else scale
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * wide)
    return Engine(model, Tokenizer.load(folder), GenerationConfig.load(folder), cache_bytes=0)


def _object(**properties: Any) -> dict[str, Any]:
    required = [name for name, schema in properties.items() if not schema.pop("optional", False)]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


NODE = {"$ref": "#/$defs/node"}
CODE = {"type": "string", "minLength": 1, "maxLength": 60}
SCHEMAS: tuple[dict[str, Any], ...] = (
    _object(command={"enum": ["view", "create", "undo"]}, path={"type": "string", "maxLength": 20}),
    _object(code={"type": "string"}, lines={"type": "array", "items": {"type": "integer"}, "maxItems": 2}),
    _object(old=CODE, new={"type": "string", "maxLength": 60}),
    _object(text={"type": "string", "pattern": "^(</parameter>|<b>|\n)+$"}, after={"type": "string", "optional": True}),
    _object(empty={"type": "string", "maxLength": 0}, maybe={"type": "string", "maxLength": 1, "optional": True}),
    _object(place=_object(x={"type": "number"}, y={"type": "number"}), name={"type": "string", "optional": True}),
    _object(deep=_object(a=_object(b=_object(c={"type": "boolean"})))),
    _object(matrix={"type": "array", "items": {"type": "array", "items": {"type": "integer"}, "maxItems": 3}}),
    _object(letters={"type": "string", "pattern": "^[äöü☃😀]{1,6}$"}, sign={"const": "…"}),
    _object(count={"type": "integer", "minimum": 3, "maximum": 400}, ratio={"type": "number", "minimum": 0}),
    _object(kind={"anyOf": [{"type": "null"}, {"type": "integer"}]}, flag={"type": "boolean", "optional": True}),
    _object(any_of={"anyOf": [{"enum": ["auto"]}, {"type": "integer"}]}, more={"type": ["string", "null"]}),
    _object(tags={"type": "array", "items": {"enum": ["a", "b", 3, None, True]}, "minItems": 2, "maxItems": 5}),
    {"type": "object", "properties": {}},
    _object(first={"type": "integer", "optional": True}, second={"type": "string", "optional": True}),
    _object(words={"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 9}, "minItems": 1}),
    {
        "type": "object",
        "$defs": {"node": _object(value={"type": "integer"}, next={"anyOf": [NODE, {"type": "null"}]})},
        "properties": {"list": NODE, "note": {"type": "string"}},
        "required": ["list"],
        "additionalProperties": False,
    },
    _object(day={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"}, when={"type": "object", "properties": {}}),
    _object(a={"type": "string"}, b={"type": "string"}, c={"type": "string"}),
    _object(table={"type": "object", "additionalProperties": {"type": "integer"}}, end={"type": "string"}),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One generation. form: "call", "json", or "thinking" for a call behind an open think section."""

    schema: int
    form: str
    mode: str
    seed: int

    @property
    def constraint(self) -> Constraint:
        schema = SCHEMAS[self.schema]
        return JsonSchema(schema) if self.form == "json" else ToolCalls({"tool": schema}, "required", False)


def cases(count: int) -> Iterator[Case]:
    """Varied cases: every schema in every form and mode before any comes again with another seed."""
    forms = ("call", "json", "thinking")
    every = (
        (seed, mode, form, schema)
        for seed in itertools.count()
        for mode in MODES
        for form in forms
        for schema in range(len(SCHEMAS))
    )
    for seed, mode, form, schema in itertools.islice(every, count):
        yield Case(schema, form, mode, seed)


def generate(engine: Engine, case: Case, length: int = 224) -> tuple[str, Finished]:
    """Text without the stop id, and the report."""
    thinking = case.form == "thinking"
    prompt = [(case.seed * 31 + case.schema * 7 + i) % 290 for i in range(4)]
    if thinking:
        prompt.append(engine.tokenizer.token_id("<think>"))
    params = GenerationParams(
        mode=case.mode,  # pyright: ignore[reportArgumentType]
        max_new_tokens=length,
        temperature=(0.0, 0.7, 1.3)[case.seed % 3],
        seed=case.seed,
        thinking_budget=20 if thinking else None,
        constraint=case.constraint,
    )
    ids: list[int] = []
    for event in engine.generate(prompt, params):
        if isinstance(event, Tokens):
            ids.extend(event.ids)
        elif isinstance(event, Finished):
            stopped = event.reason == "stop"
            return engine.tokenizer.decode(ids[:-1] if stopped else ids), event
    raise AssertionError("a generation ends with Finished")


def fault(engine: Engine, case: Case) -> str:
    """What is wrong with a case's generation; empty where it parses and is valid."""
    text, done = generate(engine, case)
    schema = SCHEMAS[case.schema]
    if done.reason != "stop":
        return f"{case}: ended by {done.reason}: {text!r}"
    try:
        if case.form == "json":
            value = json.loads(text)
        else:
            parsed = parse_reply(text, {"tool": schema}, thinking=case.form == "thinking")
            if parsed.content or len(parsed.calls) != 1 or parsed.calls[0].error:
                return f"{case}: {parsed}: {text!r}"
            value = dict(parsed.calls[0].arguments or {})
        jsonschema.validate(value, schema)
    except (ValueError, jsonschema.ValidationError) as wrong:
        return f"{case}: {wrong}: {text!r}"
    return ""
