"""The loss of one step: masked rows of noisy blocks, next tokens of the clean rows, balance of the experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.config import CloverConfig
from engine.model.norms import rms_norm
from engine.training.forward import Weights, forward, linear, piece
from engine.training.layout import lay_out
from engine.training.noise import add_noise, draw_rows
from engine.training.packing import Shape


@dataclass(frozen=True)
class Recipe:
    """Weights of the loss. next_share: share of the clean rows that learn the next token."""

    next_weight: float = 0.6
    next_share: float = 0.25
    balance_weight: float = 0.01


class DeviceBatch(NamedTuple):
    """packing.Batch as tensors on the training device (int64, float32 and bool)."""

    tokens: Tensor
    wanted: Tensor
    keys: Tensor
    starts: Tensor
    ends: Tensor
    weights: Tensor


class Loss(NamedTuple):
    """total carries the gradient; masked, next and balance are means for the log (detached)."""

    total: Tensor
    masked: Tensor
    next: Tensor
    balance: Tensor


def step_loss(
    weights: Weights, config: CloverConfig, batch: DeviceBatch, shape: Shape, recipe: Recipe, *,
    pad_id: int, generator: torch.Generator, compute: torch.dtype, compiled: bool,
) -> Loss:  # fmt: skip
    """Draw noise for a batch and compute its loss."""
    noise = add_noise(
        batch.tokens, batch.keys, batch.starts, batch.ends, batch.weights, blocks=shape.blocks, block=config.block_size,
        mask_id=config.mask_token_id, pad_id=pad_id, generator=generator,
    )  # fmt: skip
    layout = lay_out(noise.starts, shape.length, config.block_size, config.linear_conv_kernel_dim - 1)
    clean = batch.tokens.flatten()
    out = forward(
        weights, config, torch.cat((clean, noise.tokens.flatten())), layout, compute=compute, compiled=compiled
    )
    # the row before a token predicts it; wanted is 0 on every example's first row
    rows = draw_rows(batch.wanted.flatten(), int(layout.clean * recipe.next_share), generator)
    chosen = batch.wanted.flatten()[rows]
    next_weights = chosen.clamp(min=1.0) * (chosen > 0)  # drawn in proportion up to 1, weighted beyond
    hidden = torch.cat((out.hidden[layout.clean :], out.hidden[(rows - 1).clamp(min=0)]))
    targets = torch.cat((noise.targets.flatten(), clean[rows]))
    losses = piece(_token_losses, compiled)(
        hidden, weights["model.norm.weight"], head_weight(weights), targets, config.rms_norm_eps
    )
    masked, following = losses.split((layout.noisy, rows.shape[0]))
    masked_weights = noise.weights.flatten()
    masked = (masked * masked_weights).sum() / masked_weights.sum().clamp(min=1)
    following = (following * next_weights).sum() / next_weights.sum().clamp(min=1)
    balance = out.balance / config.num_hidden_layers
    total = masked + recipe.next_weight * following + recipe.balance_weight * out.balance
    return Loss(total, masked.detach(), following.detach(), balance.detach())


def head_weight(weights: Weights) -> Tensor:
    """The output matrix: its own, or the embedding where they are tied."""
    own = weights.get("lm_head.weight")
    return weights["model.embed_tokens.weight"] if own is None else own


def _token_losses(hidden: Tensor, norm: Tensor, head: Tensor, targets: Tensor, eps: float) -> Tensor:
    logits = linear(rms_norm(hidden, norm, eps), head).float()
    return F.cross_entropy(logits, targets, reduction="none")
