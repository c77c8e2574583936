"""Weights packed for inference on x86 CPUs: float16 in the layout that FBGEMM's product wants, sums in float32.

A pass of a few rows is bound by reading the weights, and by repacking them at every product. Half the bytes, packed
once, make it up to twice as fast as `F.linear` in float32. Rounding to float16 (relative 5e-4) is far below the step
of weights that were stored as int8 rows, and nothing for most weights stored in bfloat16.

(Int8 products were tried too: a tenth faster than these where memory is shared, but they round the inputs.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def available() -> bool:
    """Whether this machine's torch has the packed product."""
    return "fbgemm" in torch.backends.quantized.supported_engines and torch.cpu._is_avx2_supported()


class PackedLinear(nn.Module):
    """Matrices [out_i, in] that share their input, as one product: x [..., in] to [..., sum of out_i], float32."""

    def __init__(self, *weights: Tensor) -> None:
        super().__init__()
        self.sizes = tuple(weight.shape[0] for weight in weights)
        self._matrix = _pack(torch.cat(weights))

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic_fp16(x, self._matrix)

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """One result for each of the matrices."""
        return self(x).split(self.sizes, dim=-1)


class PackedGroups(nn.Module):
    """One matrix [out, in] a group: weights [groups, out, in]."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self._matrices = [_pack(weight) for weight in weights]

    def forward(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """rows [n, in], in the order of the groups, to [n, out]; the first counts[0] rows belong to group 0, ..."""
        groups = zip(rows.split(list(counts)), self._matrices, strict=True)
        product = torch.ops.quantized.linear_dynamic_fp16
        return torch.cat([product(part, matrix) for part, matrix in groups if part.shape[0]])


def pack(*modules: nn.Module) -> PackedLinear:
    """The `weight` parameters of modules that share their input, as one packed product."""
    return PackedLinear(*(module.get_parameter("weight") for module in modules))


def _pack(weight: Tensor) -> torch.ScriptObject:
    return torch.ops.quantized.linear_prepack_fp16(weight.detach().float().contiguous(), None)
