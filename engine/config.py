"""config.json of a Clover checkpoint.

Field names are those of Hugging Face's `qwen3_5_moe_text` plus the Clover-only ones (block size, mask id, denoising,
expert coreset). Every number comes from the file; a missing mask id or block size is an error, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError

LINEAR = "linear_attention"
FULL = "full_attention"


@dataclass(frozen=True)
class CloverConfig:
    """Sizes and ids of a model. `extra` keeps the fields of the file that the engine has no use for.

    layer_types: one of "linear_attention" (Gated DeltaNet) and "full_attention" a layer. rotary_dim: leading
    dimensions of a head that are rotated. threshold: confidence above which a masked row is filled.
    coreset_top_p: mass of the block expert coreset, None where it is switched off.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    layer_types: tuple[str, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rope_theta: float
    rotary_dim: int
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_conv_kernel_dim: int
    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_expert_intermediate_size: int
    max_position_embeddings: int
    block_size: int
    mask_token_id: int
    norm_topk_prob: bool = True
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    threshold: float = 0.95
    coreset_top_p: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key_dim(self) -> int:
        """Width of all Gated DeltaNet key heads together."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_dim(self) -> int:
        """Width of all Gated DeltaNet value heads together."""
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.key_dim + self.value_dim

    @classmethod
    def load(cls, folder: str | Path) -> CloverConfig:
        """Read `folder`/config.json. Raises CheckpointError."""
        path = Path(folder) / "config.json"
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CheckpointError(f"{path} is missing: give the folder of a Clover checkpoint") from None
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as fault:
            raise CheckpointError(f"{path} can't be read: {fault}") from None
        if not isinstance(raw, dict):
            raise CheckpointError(f"{path} is not a JSON object")
        return cls.parse(raw, str(path))

    @classmethod
    def parse(cls, raw: Mapping[str, Any], source: str = "config.json") -> CloverConfig:
        """A config from the file's fields, flat or below `text_config`. Raises CheckpointError."""
        merged = {**raw, **raw["text_config"]} if isinstance(raw.get("text_config"), dict) else dict(raw)
        rope = merged.get("rope_parameters") or {}
        denoising = merged.get("denoising_config") or {}
        merged.setdefault("rope_theta", rope.get("rope_theta", 10_000.0))
        merged.setdefault("tie_word_embeddings", False)
        try:
            head_dim = int(merged.get("head_dim") or merged["hidden_size"] // merged["num_attention_heads"])
            factor = rope.get("partial_rotary_factor", merged.get("partial_rotary_factor", 1.0))
            values: dict[str, Any] = {
                **{name: merged[name] for name in _PLAIN if name in merged},
                "head_dim": head_dim,
                "rotary_dim": int(head_dim * factor),
                "layer_types": _layer_types(merged),
                "threshold": float(denoising.get("threshold", 0.95)),
            }
            if merged.get("moe_block_coreset_enabled"):
                values["coreset_top_p"] = float(merged.get("moe_block_coreset_top_p", 1.0))
            wrong = [name for name, value in values.items() if not _fits(name, value)]
            if wrong:
                raise CheckpointError(f"{source}: {wrong[0]} can't be {values[wrong[0]]!r}")
            missing = [f.name for f in fields(cls) if f.name in _REQUIRED and values.get(f.name) is None]
            if missing:
                raise CheckpointError(f"{source} lacks {', '.join(missing)}")
            known = {*_PLAIN, "head_dim", "layer_types", "rope_parameters", "partial_rotary_factor", "text_config"}
            config = cls(**values, extra={key: value for key, value in merged.items() if key not in known})
        except (KeyError, TypeError, ValueError) as fault:
            raise CheckpointError(f"{source} has a missing or unusable field: {fault}") from None
        config._check(source)
        return config

    def _check(self, source: str) -> None:
        problems = [
            (len(self.layer_types) != self.num_hidden_layers, "layer_types and num_hidden_layers differ"),
            (bool(set(self.layer_types) - {LINEAR, FULL}), "layer_types holds an unknown kind of layer"),
            (self.num_attention_heads % self.num_key_value_heads != 0, "attention heads don't divide by key heads"),
            (self.linear_num_value_heads % self.linear_num_key_heads != 0, "value heads don't divide by key heads"),
            (self.num_experts_per_tok > self.num_experts, "num_experts_per_tok exceeds num_experts"),
            (self.block_size < 1, "block_size must be positive"),
            (not 0 <= self.mask_token_id < self.vocab_size, "mask_token_id is outside the vocabulary"),
        ]
        for wrong, text in problems:
            if wrong:
                raise CheckpointError(f"{source}: {text}")


def _fits(name: str, value: Any) -> bool:
    """Whether a field's value has its kind; absence is told elsewhere."""
    kind = _KINDS.get(name)
    if value is None or kind is None:
        return True
    if kind == "int":
        least = 0 if name in {"mask_token_id", "shared_expert_intermediate_size"} else 1
        return isinstance(value, int) and not isinstance(value, bool) and value >= least
    if kind == "bool":
        return isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _layer_types(merged: Mapping[str, Any]) -> tuple[str, ...]:
    if merged.get("layer_types"):
        return tuple(merged["layer_types"])
    every = int(merged.get("full_attention_interval", 4))
    return tuple(FULL if (layer + 1) % every == 0 else LINEAR for layer in range(merged["num_hidden_layers"]))


_DERIVED = {"head_dim", "rotary_dim", "layer_types", "threshold", "coreset_top_p", "extra"}
_KINDS = {f.name: f.type for f in fields(CloverConfig) if f.type in {"int", "float", "bool"}}
_PLAIN = tuple(f.name for f in fields(CloverConfig) if f.name not in _DERIVED)
_REQUIRED = {
    *_PLAIN,
} - {"norm_topk_prob", "rms_norm_eps", "tie_word_embeddings"}
