"""RMS norms of the model family. Sums in float32, or in float64 where the rows are."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def wide(x: Tensor) -> Tensor:
    """x in float32, or as it is in float64: the precision of sums, and of what is kept between passes."""
    return x if x.dtype == torch.float64 else x.float()


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`x / rms(x) * (1 + weight)` over the last dimension: the zero-centred form of the trunk."""
    long = wide(x)
    normed = long * torch.rsqrt(long.square().mean(-1, keepdim=True) + eps)
    return (normed * (1.0 + weight.float())).type_as(x)


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`weight * x / rms(x) * silu(gate)`: the output norm of Gated DeltaNet, with a plain weight."""
    long = wide(x)
    normed = long * torch.rsqrt(long.square().mean(-1, keepdim=True) + eps)
    return (weight.float() * normed * torch.nn.functional.silu(gate.float())).type_as(gate)


def l2_norm(x: Tensor, eps: float = 1e-6) -> Tensor:
    """`x / sqrt(sum(x^2) + eps)` over the last dimension."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)


class RMSNorm(nn.Module):
    """Zero-centred RMS norm; weight [size]."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)
