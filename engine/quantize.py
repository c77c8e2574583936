"""Int8 weights for storage: one scale a row, symmetric, rounded to nearest.

A quantised matrix is two tensors: `NAME` (int8) and `NAME.scale` (float32, the shape of `NAME` with a last dimension
of 1); the weight is their product. Used to keep small checkpoints small, and undone on load.
"""

from __future__ import annotations

import torch
from torch import Tensor

SCALE_SUFFIX = ".scale"
METHOD = "int8_rows"  # config.json: "quantization_config": {"quant_method": METHOD}


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Int8 values and float32 scales [..., 1] of a weight [..., columns]; the largest of each row becomes 127."""
    weight = weight.float()
    scale = weight.abs().amax(dim=-1, keepdim=True) / 127
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (weight / scale).round().clamp(-127, 127).to(torch.int8), scale


def dequantize_rows(values: Tensor, scale: Tensor) -> Tensor:
    """The float32 weight of int8 `values` [..., columns] and `scale` [..., 1]."""
    return values.float() * scale.float()
