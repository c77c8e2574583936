"""Attention of a training batch: clean rows causally, noisy blocks over the clean prefix and themselves."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def attend_clean(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of query [E, heads, L, d] over key, value [E, kv_heads, L, d]; padding lies to the right."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def attend_noisy(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Attention of query [E, heads, R, d] over key, value [E, kv_heads, S, d] where mask [E, 1, R, S] is true.

    Keys are repeated to the query's heads, because the memory-efficient kernel, the one that takes a mask,
    knows no grouped heads.
    """
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
