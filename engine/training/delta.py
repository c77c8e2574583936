"""Gated DeltaNet of a training batch, without the sequential part (engine.training.scan.state_scan).

Clean rows: convolution and chunk terms, chunk-major. Noisy blocks: the preview operator on the state at the block's
start p, which lies anywhere in a chunk that starts with state S:

    S_p = e^{G_p} S + sum over the chunk's rows t < p of e^{G_p - G_t} k_t d_t^T

It is never built: a row's history read is e^{g_i} (e^{G_p} q_i^T S + sum_t e^{G_p - G_t} (q_i . k_t) d_t).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.config import CloverConfig
from engine.model.norms import l2_norm
from engine.training.scan import CHUNK, chunk_terms, take_rows

TRAINED_BLOCK = 32


class DeltaShape(NamedTuple):
    """Head counts and widths of the Gated DeltaNet layers."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int

    @classmethod
    def of(cls, config: CloverConfig) -> DeltaShape:
        """The shape that a config asks for."""
        return cls(
            config.linear_num_key_heads,
            config.linear_num_value_heads,
            config.linear_key_head_dim,
            config.linear_value_head_dim,
        )

    def split(self, convolved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised q, k and v [N, value_heads, rows, dim] in float32 of convolved rows [N, rows, channels]."""
        sizes = [self.key_heads * self.key_dim] * 2 + [self.value_heads * self.value_dim]
        q, k, v = F.silu(convolved.float()).split(sizes, dim=-1)
        repeats = self.value_heads // self.key_heads

        def spread(x: Tensor) -> Tensor:
            return l2_norm(x.unflatten(-1, (self.key_heads, -1))).repeat_interleave(repeats, dim=-2).transpose(1, 2)

        return spread(q), spread(k), v.unflatten(-1, (self.value_heads, -1)).transpose(1, 2)


class CleanTerms(NamedTuple):
    """What the clean rows give to the scan and to the output, chunk-major [M, value_heads, ...], float32.

    raw: convolution inputs [M, 32, channels], in the compute dtype. q is scaled by 1/sqrt(dk).
    """

    w: Tensor
    u: Tensor
    keys: Tensor
    decay: Tensor
    own: Tensor
    total: Tensor
    q: Tensor
    k: Tensor
    raw: Tensor


def clean_terms(
    raw: Tensor, log_decay: Tensor, beta: Tensor, conv: Tensor,
    order: Tensor, order_inverse: Tensor, before: Tensor, after: Tensor, shape: DeltaShape,
) -> CleanTerms:  # fmt: skip
    """From example-major rows raw [M * 32, channels], log_decay, beta [M * 32, value_heads]."""

    def to_time(x: Tensor) -> Tensor:
        return take_rows(x.unflatten(0, (-1, CHUNK)), order, order_inverse)

    raw, log_decay, beta = to_time(raw), to_time(log_decay), to_time(beta)
    taps = conv.shape[-1] - 1
    tails = take_rows(raw[:, CHUNK - taps :], before, after)
    convolved = _convolve(torch.cat((tails, raw), dim=1).float(), conv)
    q, k, v = shape.split(convolved)
    q = q * shape.key_dim**-0.5
    w, u, keys, decay, own, total = chunk_terms(q, k, v, log_decay.transpose(1, 2), beta.transpose(1, 2), raw.dtype)
    return CleanTerms(
        w.contiguous(), u.contiguous(), keys.contiguous(), decay.contiguous(), own, total, q, k, raw
    )  # fmt: skip


def _convolve(inputs: Tensor, conv: Tensor) -> Tensor:
    rows = inputs.shape[1] - conv.shape[-1] + 1
    weight = conv[:, 0]
    return sum(
        (inputs[:, tap : tap + rows] * weight[:, tap] for tap in range(1, conv.shape[-1])),
        start=inputs[:, :rows] * weight[:, 0],
    )


def delta_output(
    terms: CleanTerms, values: Tensor, states: Tensor, noisy_raw: Tensor, noisy_log_decay: Tensor,
    conv: Tensor, conv_right: Tensor, logit_scale: Tensor, history_bias: Tensor, history_c: Tensor,
    order_inverse: Tensor, order: Tensor, ring: Tensor, chunk: Tensor, inside: Tensor, block: int, shape: DeltaShape,
) -> Tensor:  # fmt: skip
    """Mixed values [clean + noisy rows, value_heads, dv] of all rows, example-major, from the scan's results.

    values [M, heads, 32, dv] and states [M, heads, dk, dv]; noisy_raw [K * block, channels].
    """
    compute = noisy_raw.dtype
    recalled = terms.q.to(compute) @ states.to(compute)
    clean = terms.total.exp()[..., None] * recalled + terms.own.to(compute) @ values.to(compute)
    clean = take_rows(clean.transpose(1, 2).to(noisy_raw.dtype), order_inverse, order).flatten(0, 1)
    noisy_raw = noisy_raw.unflatten(0, (-1, block))
    log_decay = noisy_log_decay.unflatten(0, (-1, block)).transpose(1, 2)
    flat = terms.raw.flatten(0, 1)
    tail = torch.where((ring >= 0)[..., None], flat[ring.clamp(min=0)], 0)
    noisy = _preview(
        torch.cat((tail, noisy_raw), dim=1), log_decay, conv, conv_right, logit_scale,
        history_bias + history_c * math.log(block / TRAINED_BLOCK),
        _History(states[chunk], terms.k[chunk], values[chunk], terms.total[chunk], inside), block, shape,
    )  # fmt: skip
    return torch.cat((clean, noisy.transpose(1, 2).flatten(0, 1).to(clean.dtype)))


class _History(NamedTuple):
    """The chunk that holds each block's start: state, keys, values (d), running log decay, and p's row in it."""

    state: Tensor
    keys: Tensor
    values: Tensor
    total: Tensor
    inside: Tensor

    def read(self, query: Tensor) -> Tensor:
        """query^T S_p [K, heads, block, dv]."""
        row = torch.arange(CHUNK, device=query.device)
        earlier = (row < self.inside[:, None])[:, None]  # [K, 1, 32]
        last = (row == self.inside[:, None] - 1)[:, None]
        reached = torch.where(last, self.total, 0).sum(-1, keepdim=True)  # G_p, 0 at a chunk's start
        share = (reached - self.total).masked_fill(~earlier, -torch.inf).exp()
        scores = (query @ self.keys.transpose(-1, -2)) * share[:, :, None]
        return reached.exp()[..., None] * (query @ self.state) + scores @ self.values


def _preview(
    inputs: Tensor, log_decay: Tensor, conv: Tensor, conv_right: Tensor, logit_scale: Tensor,
    history_logit: Tensor, history: _History, block: int, shape: DeltaShape,
) -> Tensor:  # fmt: skip
    inputs = inputs.float()
    mixed = _convolve(inputs, conv)
    rows = inputs[:, -block:]
    for distance in range(1, min(conv_right.shape[-1], block - 1) + 1):
        mixed = mixed + F.pad(rows[:, distance:], (0, 0, 0, distance)) * conv_right[:, distance - 1]
    q, k, v = shape.split(mixed)
    logits = (q @ k.transpose(-1, -2)) * logit_scale.float()[:, None, None]
    slot = history_logit.float()[:, None, None].expand(logits.shape[0], -1, block, 1)
    weights = torch.cat((logits, slot), dim=-1).softmax(-1)
    recalled = log_decay.exp()[..., None] * history.read(q * shape.key_dim**-0.5)
    return weights[..., :-1] @ v + weights[..., -1:] * recalled
