"""Weights packed for inference on x86 CPUs: float16 in the layout that FBGEMM's product wants, sums in float32.

A pass of a few rows is bound by reading the weights, and by repacking them at every product. Half the bytes, packed
once, took 69 ms instead of 104 for clover-nano's 32-row pass on one thread of a busy machine. Rounding to float16
(relative 5e-4) is far below the step of weights stored as int8 rows, and exact for most weights stored in bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def available() -> bool:
    """Whether this machine's torch has the packed product."""
    return "fbgemm" in torch.backends.quantized.supported_engines and torch.cpu._is_avx2_supported()


def pack(*modules: nn.Module) -> PackedLinear:
    """The `weight` parameters of modules that share their input, as one packed product."""
    return PackedLinear([module.get_parameter("weight") for module in modules])


class PackedLinear(nn.Module):
    """Matrices [out_i, in] that share their input, as one product: x [..., in] to [..., sum of out_i], float32.

    Split the result by `sizes` where there are several.
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        super().__init__()
        self.sizes = tuple(weight.shape[0] for weight in weights)
        joined = weights[0] if len(weights) == 1 else torch.cat(tuple(weights))
        self._packed = torch.ops.quantized.linear_prepack_fp16(joined.detach().float().contiguous(), None)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic_fp16(x, self._packed)

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """One result for each of the matrices."""
        return self(x).split(self.sizes, dim=-1)
