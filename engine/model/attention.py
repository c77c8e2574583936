"""Gated full attention: per-head norms, partial RoPE, grouped keys and values, a sigmoid gate on the output."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import CloverConfig
from engine.model.norms import RMSNorm
from engine.model.packed import PackedLinear, pack
from engine.model.rope import apply_rope
from engine.state import AttentionState


class GatedAttention(nn.Module):
    """One full-attention mixer. `q_proj` rows are, per head, the query's and then the gate's."""

    def __init__(self, config: CloverConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        width = self.heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, 2 * width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.kv_heads * self.head_dim, bias=False)
        self.o_proj: nn.Module = nn.Linear(width, config.hidden_size, bias=False)
        self.packed: PackedLinear | None = None
        self.q_norm = RMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps)

    def pack(self) -> None:
        """Give up the parameters of the projections for packed ones (`engine.model.packed`)."""
        self.packed = pack(self.q_proj, self.k_proj, self.v_proj)
        self.o_proj = pack(self.o_proj)
        del self.q_proj, self.k_proj, self.v_proj

    def project(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rotated queries [..., heads, n, head_dim], keys and values [..., kv_heads, n, head_dim], and the gate
        [..., n, heads * head_dim] of rows x [..., n, hidden]."""
        if self.packed is not None:
            query, key, value = self.packed.split(x)
        else:
            query, key, value = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        query, gate = query.unflatten(-1, (self.heads, 2 * self.head_dim)).chunk(2, dim=-1)
        key = key.unflatten(-1, (self.kv_heads, self.head_dim))
        value = value.unflatten(-1, (self.kv_heads, self.head_dim))
        query = apply_rope(self.q_norm(query), *rope)
        key = apply_rope(self.k_norm(key), *rope)
        return query.transpose(-2, -3), key.transpose(-2, -3), value.transpose(-2, -3), gate.flatten(-2)

    def finish(self, mixed: Tensor, gate: Tensor) -> Tensor:
        """Gate and project attention's result [..., heads, n, head_dim] to [..., n, hidden]."""
        return self.o_proj(mixed.transpose(-2, -3).flatten(-2) * gate.sigmoid())

    def causal(self, x: Tensor, rope: tuple[Tensor, Tensor], state: AttentionState) -> Tensor:
        """Rows x [n, hidden] after the committed ones, each seeing what came before; commits their keys and values."""
        mixed = self.ahead(x, rope, state)
        state.length += x.shape[0]
        return mixed

    def ahead(self, x: Tensor, rope: tuple[Tensor, Tensor], state: AttentionState) -> Tensor:
        """As `causal`, but the rows' keys and values stay uncommitted behind the committed ones: add the number of
        rows to keep to `state.length` before the next pass."""
        query, key, value, gate = self.project(x, rope)
        past = state.length
        keys, values = state.extended(key, value)
        mask = None
        if past and x.shape[0] > 1:
            mask = torch.ones(x.shape[0], keys.shape[1], dtype=torch.bool, device=x.device).tril(past)
        return self.finish(attend(query, keys, values, mask, is_causal=past == 0), gate)

    def preview(self, x: Tensor, rope: tuple[Tensor, Tensor], state: AttentionState) -> Tensor:
        """Block rows x [block, hidden], each seeing the committed rows and the whole block; commits nothing."""
        query, key, value, gate = self.project(x, rope)
        keys, values = state.extended(key, value)
        return self.finish(attend(query, keys, values, None, is_causal=False), gate)


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, is_causal: bool) -> Tensor:
    """Scaled dot-product attention of query [heads, n, d] over keys and values [kv_heads, m, d], heads in groups."""
    return F.scaled_dot_product_attention(
        query[None], keys[None], values[None], attn_mask=mask, is_causal=is_causal, enable_gqa=True
    )[0]
