"""generation_config.json: what a checkpoint wants when a request says nothing.

Field names and the meaning of absent keys: the release's own file, as its converters read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError


@dataclass(frozen=True)
class Ramp:
    """A bias that grows with the response: `strength * clamp((position - start) / window, 0, 1)`, positions from 1."""

    strength: float = 0.0
    start: int = 0
    window: int = 1

    def __post_init__(self) -> None:
        if self.window <= 0:
            raise ValueError(f"a ramp's window must be positive, not {self.window}")
        if self.start < 0:
            raise ValueError(f"a ramp's start must not be negative, not {self.start}")


NO_RAMP = Ramp()


@dataclass(frozen=True)
class GenerationConfig:
    """Defaults of one checkpoint. `extra` keeps every field that the engine itself has no use for.

    stop_ids: the ids that end a response: EOS ids, `stop_token_ids` and the pad id, without repeats.
    """

    stop_ids: tuple[int, ...] = ()
    pad_token_id: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    length_ramp: Ramp = Ramp(0.0, 8192, 8192)
    think_end_ramp: Ramp = Ramp(0.0, 4096, 4096)
    think_end_token_id: int | None = None
    suppress_tokens: tuple[int, ...] = ()
    max_new_tokens: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path, fallback: Mapping[str, Any] | None = None) -> GenerationConfig:
        """Read a folder's generation_config.json; `fallback` (its config.json) gives `eos_token_id` and
        `pad_token_id` where the file or the field is absent. Raises CheckpointError."""
        path = Path(folder) / "generation_config.json"
        try:
            fields = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            return cls.parse({**_ids_of(fallback or {}), **fields})
        except (OSError, ValueError, TypeError) as fault:
            raise CheckpointError(f"{path} can't be used: {fault}") from None

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> GenerationConfig:
        """The file's fields as they stand there. Raises ValueError or TypeError naming the field."""
        rest = dict(fields)

        def number(name: str, default: float) -> float:
            value = rest.pop(name, None)
            if value is None:
                return default
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"{name} must be a number, not {value!r}")
            return float(value)

        def ids(name: str) -> tuple[int, ...]:
            value = rest.pop(name, None)
            items = value if isinstance(value, list) else [] if value is None else [value]
            if not all(isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in items):
                raise TypeError(f"{name} must be a token id or a list of them, not {value!r}")
            return tuple(items)

        def ramp(strength: str, prefix: str, default: int) -> Ramp:
            return Ramp(
                number(strength, 0.0),
                int(number(f"{prefix}_start", default)),
                int(number(f"{prefix}_window", default)),
            )

        pad = ids("pad_token_id")
        stops = (*ids("eos_token_id"), *ids("stop_token_ids"), *pad)
        think_end = ids("dllm_think_end_token_id")
        limit = int(number("max_new_tokens", 0))
        config = cls(
            stop_ids=tuple(dict.fromkeys(stops)),
            pad_token_id=pad[0] if pad else None,
            presence_penalty=number("presence_penalty", 0.0),
            frequency_penalty=number("frequency_penalty", 0.0),
            repetition_penalty=number("repetition_penalty", 1.0),
            length_ramp=ramp("dllm_length_penalty", "dllm_length_penalty", 8192),
            think_end_ramp=ramp("dllm_think_end_bias", "dllm_think_end", 4096),
            think_end_token_id=think_end[0] if think_end else None,
            suppress_tokens=ids("suppress_tokens"),
            max_new_tokens=limit if limit > 0 else None,
            extra=rest,
        )
        if config.repetition_penalty <= 0:
            raise ValueError(f"repetition_penalty must be positive, not {config.repetition_penalty}")
        if config.think_end_ramp.strength and config.think_end_token_id is None:
            raise ValueError("dllm_think_end_bias is set, but dllm_think_end_token_id is missing")
        return config


def _ids_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in ("eos_token_id", "pad_token_id") if fields.get(name) is not None}
