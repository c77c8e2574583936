"""Rotary position embedding on the leading dimensions of each head.

Text positions make the three sections of the family's interleaved mrope equal, so it is ordinary RoPE here.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rope_table(positions: Tensor, rotary_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """cos and sin [..., n, rotary_dim] in float32 for integer positions [..., n]."""
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float32, device=positions.device) / rotary_dim
    angles = positions[..., None].float() * theta**-exponents
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the first `cos.shape[-1]` dimensions of x [..., n, heads, head_dim] (halves paired)."""
    size = cos.shape[-1]
    turned, kept = x[..., :size].float(), x[..., size:]
    left, right = turned.chunk(2, dim=-1)
    rotated = turned * cos.unsqueeze(-2) + torch.cat((-right, left), dim=-1) * sin.unsqueeze(-2)
    return torch.cat((rotated.type_as(x), kept), dim=-1)
