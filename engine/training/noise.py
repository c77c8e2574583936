"""Drawing a step's noisy blocks and masks, on the training device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

PADDING_WEIGHT = 0.25  # rows after a span's end are many and easy
KEY_WEIGHT = 3.0  # rows of key tokens are few, and everything hangs on them
KEY_MASKED = 0.6  # share of blocks whose key tokens are masked whatever else is: they are what decoding fills last


@dataclass(frozen=True, slots=True)
class Noise:
    """starts [E, N]: positions of the drawn blocks. tokens, targets [E, N, B]: what the model sees and should say.

    weights [E, N, B]: of each row in the loss, 0 where nothing is masked.
    """

    starts: Tensor
    tokens: Tensor
    targets: Tensor
    weights: Tensor


def draw_blocks(weights: Tensor, blocks: int, generator: torch.Generator) -> Tensor:
    """Column indices [E, blocks] into candidates [E, K] (weight 0: none there), in proportion to the weights.

    With replacement: a block drawn twice gets two masks, and heavy blocks do get drawn twice.
    """
    return torch.multinomial(weights + 1e-20, blocks, replacement=True, generator=generator)


def draw_masks(shape: tuple[int, int, int], device: torch.device, generator: torch.Generator) -> Tensor:
    """Bool masks [E, N, B]: each block's share uniform in [0.05, 1], a quarter of the blocks whole."""
    share = 0.05 + 0.95 * torch.rand(shape[:2], device=device, generator=generator)
    whole = torch.rand(shape[:2], device=device, generator=generator) < 0.25
    rows = torch.rand(shape, device=device, generator=generator)
    return (rows < share[..., None]) | whole[..., None]


def add_noise(
    tokens: Tensor, keys: Tensor, starts: Tensor, ends: Tensor, weights: Tensor, *,
    blocks: int, block: int, mask_id: int, pad_id: int, generator: torch.Generator,
) -> Noise:  # fmt: skip
    """Draw blocks among the candidates [E, K] of tokens and keys [E, L]; rows from a span's end should be pad_id."""
    chosen = draw_blocks(weights, blocks, generator)
    start = starts.gather(1, chosen).clamp(min=0)
    end = ends.gather(1, chosen)
    present = weights.gather(1, chosen) > 0
    position = start[..., None] + torch.arange(block, device=tokens.device)
    beyond = position >= end[..., None]
    flat = position.clamp(max=tokens.shape[1] - 1).flatten(1)
    targets = tokens.gather(1, flat).view_as(position).masked_fill(beyond, pad_id)
    masked = draw_masks((start.shape[0], start.shape[1], block), tokens.device, generator)
    key = keys.gather(1, flat).view_as(position) & ~beyond
    hidden = torch.rand(start.shape, device=tokens.device, generator=generator) < KEY_MASKED
    masked |= key & hidden[..., None]
    counted = masked & present[..., None]
    return Noise(
        start,
        targets.masked_fill(masked, mask_id),
        targets,
        counted.float() * torch.where(beyond, PADDING_WEIGHT, torch.where(key, KEY_WEIGHT, 1.0)),
    )


def draw_rows(wanted: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Flat indices [count] of rows to learn next-token prediction on, drawn in proportion to wanted [rows]."""
    uniform = torch.rand(wanted.shape, device=wanted.device, generator=generator).clamp(1e-9, 1 - 1e-7)
    return (wanted.clamp(min=1e-30) / -uniform.log()).topk(count, sorted=False).indices
