"""Forward substitution for many small unit lower triangular matrices at once, one program a matrix."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _substitute(source, target, N: tl.constexpr):  # pragma: no cover - compiled
    program = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, N)
    place = row[:, None] * N + row[None, :]
    inverse = -tl.load(source + program * N * N + place)
    for i in range(1, N):
        chosen = row[:, None] == i
        current = tl.sum(tl.where(chosen, inverse, 0.0), 0)
        earlier = tl.where(row[:, None] < i, inverse, 0.0)
        current += tl.sum(current[:, None] * earlier, 0)
        inverse = tl.where(chosen, current[None, :], inverse)
    inverse += tl.where(row[:, None] == row[None, :], 1.0, 0.0)
    tl.store(target + program * N * N + place, inverse)


def substitution_inverse(a: Tensor) -> Tensor:
    """(I + a)^-1 of strictly lower triangular a [N, n, n], float32, CUDA, n a power of two."""
    source = a.contiguous()
    target = torch.empty_like(source)
    _substitute[(source.shape[0],)](source, target, source.shape[-1], num_warps=1)  # pyright: ignore[reportCallIssue]
    return target
