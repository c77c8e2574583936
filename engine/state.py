"""The committed state of one sequence: what causal passes advance and previews only read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import FULL, CloverConfig

_GROWTH = 256  # rows that a full key/value buffer grows by at least


@dataclass
class AttentionState:
    """Keys and values of a full-attention layer, [kv_heads, capacity, head_dim] each; the first `length` rows count."""

    keys: Tensor
    values: Tensor
    length: int = 0

    def extended(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Committed rows followed by `keys` and `values` [kv_heads, n, head_dim]; the rows are not committed.

        They are written behind the committed ones, where the next commit or preview overwrites them.
        """
        end = self.length + keys.shape[1]
        if end > self.keys.shape[1]:
            self._grow(end)
        self.keys[:, self.length : end] = keys
        self.values[:, self.length : end] = values
        return self.keys[:, :end], self.values[:, :end]

    def _grow(self, needed: int) -> None:
        capacity = max(needed, self.keys.shape[1] + max(_GROWTH, self.keys.shape[1] // 2))
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_empty(old.shape[0], capacity, old.shape[2])
            new[:, : self.length] = old[:, : self.length]
            setattr(self, name, new)

    def clone(self) -> AttentionState:
        """An independent copy of the committed rows."""
        return AttentionState(self.keys[:, : self.length].clone(), self.values[:, : self.length].clone(), self.length)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return self.keys.nbytes + self.values.nbytes


@dataclass
class DeltaState:
    """One Gated DeltaNet layer. ring: last raw convolution inputs [kernel - 1, channels], oldest first.
    memory: recurrent state [value_heads, key_dim, value_dim], float32 (float64 for a float64 model)."""

    ring: Tensor
    memory: Tensor

    def clone(self) -> DeltaState:
        """An independent copy."""
        return DeltaState(self.ring.clone(), self.memory.clone())

    @property
    def nbytes(self) -> int:
        """Bytes of both tensors."""
        return self.ring.nbytes + self.memory.nbytes


@dataclass
class State:
    """All layers of one sequence after `length` committed tokens."""

    layers: list[AttentionState | DeltaState]
    length: int = 0

    @classmethod
    def empty(cls, config: CloverConfig, device: torch.device | str, dtype: torch.dtype) -> State:
        """The state before the first token: no rows, a zero ring, zero memory."""

        def layer(kind: str) -> AttentionState | DeltaState:
            if kind == FULL:
                rows = torch.empty(config.num_key_value_heads, 0, config.head_dim, device=device, dtype=dtype)
                return AttentionState(rows, rows.clone())
            ring = torch.zeros(config.linear_conv_kernel_dim - 1, config.conv_dim, device=device, dtype=dtype)
            heads = (config.linear_num_value_heads, config.linear_key_head_dim, config.linear_value_head_dim)
            kept = torch.promote_types(dtype, torch.float32)
            return DeltaState(ring, torch.zeros(heads, device=device, dtype=kept))

        return cls([layer(kind) for kind in config.layer_types])

    def clone(self) -> State:
        """An independent copy."""
        return State([layer.clone() for layer in self.layers], self.length)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(layer.nbytes for layer in self.layers)
